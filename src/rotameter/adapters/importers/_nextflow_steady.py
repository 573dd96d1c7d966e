"""Local times of runs over which the clocks changed, put on the clock before the first change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rotameter.adapters.importers._clock_changes import others
from rotameter.adapters.importers._nextflow_clock import (
    HOUR_NS,
    NEVER,
    Change,
    Crossing,
    changes,
    in_order,
    left_out,
    sides,
)
from rotameter.profiler.view import short
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder

__all__ = ["Rows", "Steady", "on_one_clock"]

_SEASON_NS = 30 * 24 * HOUR_NS
_NEAR_NS = 5 * 24 * HOUR_NS
_DATES = 3


class Rows(Protocol):
    """Rows of one trace, as :func:`on_one_clock` needs them."""

    crossings: list[tuple[int, Crossing]]

    @property
    def local(self) -> bool:
        """Whether times stood there without a zone."""

    def keys(self) -> NDArray[np.int64]:
        """Give a time of each row by which it is before or behind another, or less than any."""

    def ends(self) -> NDArray[np.int64]:
        """Give when each row ended, or less than any."""

    def counted(self) -> NDArray[np.bool_]:
        """Say whether a change of the clocks would show in a row's times and duration."""

    def name(self, row: int) -> str | None:
        """Give the name of a row's task."""

    def shift(self, by_ns: NDArray[np.int64]) -> None:
        """Take something off the times of each row."""


@dataclass
class _Part:
    keys: NDArray[np.int64]
    ends: NDArray[np.int64]
    counted: NDArray[np.bool_]
    own: NDArray[np.bool_]
    """Rows during which the clocks changed: their times are on the clock before that."""


class Steady:
    """Rows with local times, put on the clock before the first change that a task shows.

    Parameters
    ----------
    parts : sequence of Rows
        Those that have local times.
    zone_ns : int
        What was taken off their times already: their zone, where it was given.
    """

    def __init__(self, parts: Sequence[Rows], zone_ns: int = 0) -> None:
        self._zone_ns = zone_ns
        self._parts = [_part(part, zone_ns) for part in parts]
        crossings = [
            replace(one, part=number) for number, p in enumerate(parts) for _, one in p.crossings
        ]
        rest = {
            number: part.keys[(part.keys > NEVER) & ~part.own]
            for number, part in enumerate(self._parts)
        }
        shown = [self._in_order(one) for one in changes(crossings, rest)]
        self._elsewhere = {
            number
            for number, part in enumerate(self._parts)
            if not part.own.any() and any(_contradicts(part, one) for one in shown)
        }
        self._shown = shown
        self._changes = self._with_usual(shown)
        self._first_ns = min((one.at_ns for one in shown), default=0)
        self.unsure = self.guessed = 0

    def _in_order(self, one: Change) -> Change:
        """Keep of the hours of a change back those by which rows end in the order they stand in.

        All of them where there is none: the rows are in another order then.
        """
        if one.by_ns > 0 or len(one.hours) == 1:
            return one
        parts = [part for part in self._parts if part.own.any()]
        hours = [hour for hour in one.hours if all(_ordered(p, hour, one.by_ns) for p in parts)]
        return replace(one, at_ns=hours[0], hours=tuple(hours)) if hours else one

    def _with_usual(self, shown: list[Change]) -> list[Change]:
        """Add the changes that no task shows, but which go with those that are shown."""
        parts = [p for number, p in enumerate(self._parts) if number not in self._elsewhere]
        if not shown:
            return shown
        times = np.concatenate([np.concatenate((p.keys, p.ends)) for p in parts])
        times = times[times > NEVER]
        made = list(shown)
        for at_ns, by_ns in others(
            shown[0].at_ns, shown[0].by_ns, int(times.min()), int(times.max())
        ):
            one = Change(at_ns, by_ns, (at_ns,), shown=False)
            near = any(abs(at_ns - other.at_ns) < _SEASON_NS for other in shown)
            if not near and not any(_contradicts(part, one) for part in parts):
                made.append(one)
        return sorted(made, key=lambda one: one.at_ns)

    @property
    def elsewhere(self) -> int:
        """How many parts have a clock of their own, which did not change."""
        return len(self._elsewhere)

    @property
    def unsure_hours(self) -> list[Change]:
        """The changes of which other tasks do not tell the hour, but would need it."""
        found = []
        for one in self._shown:
            low = min(one.hours) - (HOUR_NS if one.by_ns < 0 else 0)
            if len(one.hours) > 1 and any(
                ((part.keys >= low) & (part.keys < max(one.hours)) & ~part.own).any()
                for part in self._parts
            ):
                found.append(one)
        return found

    @property
    def usual(self) -> list[Change]:
        """The changes that no task shows."""
        return [one for one in self._changes if not one.shown]

    def ahead(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give what the clock is ahead of the first one at times by it; twice is before."""
        total = np.zeros(len(times), np.int64)
        for one in self._changes:
            if one.at_ns < self._first_ns:
                total -= np.where(times < one.at_ns, one.by_ns, 0)
            else:
                total += np.where(times >= one.at_ns, one.by_ns, 0)
        return total

    def shifts(self, number: int) -> NDArray[np.int64]:
        """Give what to take off the times of a part's rows, ns."""
        part = self._parts[number]
        if number in self._elsewhere:
            return np.zeros(len(part.keys), np.int64)
        total = self.ahead(part.keys)
        if self.usual:
            shown = [np.where(part.keys >= one.at_ns, one.by_ns, 0) for one in self._shown]
            self.guessed += int((total != np.sum(shown, axis=0)).sum())
        for one in self._changes:
            low, high = one.at_ns - HOUR_NS, one.at_ns
            twice = (part.keys >= low) & (part.keys < high) & ~part.own & (one.by_ns < 0)
            if not twice.any():
                continue
            # Had it begun before the change, it would have been seen to run over it.
            behind = twice & part.counted & (part.ends >= high)
            total += np.where(behind, one.by_ns, 0)
            ends = np.where(part.ends > NEVER, part.ends - total, NEVER)
            behind, unsure = sides(ends, twice & ~behind)
            total += np.where(behind, one.by_ns, 0)
            self.unsure += unsure
        return total


def _part(rows: Rows, zone_ns: int) -> _Part:
    keys, ends = rows.keys(), rows.ends()
    own = np.zeros(len(keys), dtype=bool)
    own[[row for row, _ in rows.crossings]] = True
    keys = np.where(keys > NEVER, keys + zone_ns, NEVER)
    return _Part(keys, np.where(ends > NEVER, ends + zone_ns, NEVER), rows.counted(), own)


def _contradicts(part: _Part, one: Change) -> bool:
    """Say whether tasks of a part ran over a change without an hour more or less.

    Or whether it has times in the hour that was left out, where it is certain which that is.
    """
    over = part.counted & ~part.own & (part.keys > NEVER)
    if (over & (part.keys < min(one.hours) - HOUR_NS) & (part.ends >= max(one.hours))).any():
        return True
    if one.by_ns < 0 or len(one.hours) > 1:
        return False
    return any(left_out(one.at_ns, times[~part.own]) for times in (part.keys, part.ends))


def _ordered(part: _Part, hour_ns: int, by_ns: int) -> bool:
    """Say whether rows around a change back end in their order, if it was at an hour."""
    near = (np.abs(part.keys - hour_ns) < _NEAR_NS) & (part.ends > NEVER)
    keys, own = part.keys[near], part.own[near]
    ends = part.ends[near] - np.where((keys >= hour_ns) & ~own, by_ns, 0)
    return in_order(ends, (keys >= hour_ns - HOUR_NS) & (keys < hour_ns) & ~own)


def on_one_clock(parts: Sequence[Rows], build: Builder, zone_ns: int = 0) -> Steady | None:
    """Put local times on the clock before the first change, where the clocks changed.

    Parameters
    ----------
    parts : sequence of Rows
    build : Builder
        Gets the words on it.
    zone_ns : int
        What was taken off their times already.

    Returns
    -------
    Steady or None
        The clock; None where no task shows that it changed.
    """
    count = sum(len(part.crossings) for part in parts)
    if not count:
        return None
    local = [part for part in parts if part.local]
    name = next(part.name(row) for part in parts for row, _ in part.crossings[:1])
    steady = Steady(local, zone_ns)
    for number, part in enumerate(local):
        part.shift(steady.shifts(number))
    build.warn(
        f"the clocks changed during {many(count, 'attempt')}, such as {short(name or '', 60)}: "
        "complete less submit is an hour off its duration; all times are put on the clock before "
        "the change, to which --utc-offset belongs"
    )
    _say_guesses(steady, build)
    return steady


def _say_guesses(steady: Steady, build: Builder) -> None:
    for one in steady.unsure_hours:
        build.warn(
            "the hour at which the clocks changed is not certain: taken to be set "
            f"{'ahead to' if one.by_ns > 0 else 'back at'} {_when(one.at_ns)}, as is usual"
        )
    if steady.guessed:
        dates = [_when(one.at_ns)[:10] for one in steady.usual]
        more = f" and {len(dates) - _DATES:,} more" if len(dates) > _DATES else ""
        build.warn(
            f"times of {many(steady.guessed, 'attempt')} lie beyond a change of the clocks that no "
            f"task shows: taken to be the usual one ({', '.join(dates[:_DATES])}{more})"
        )
    if steady.unsure:
        build.warn(
            f"of {many(steady.unsure, 'attempt')} in an hour that came twice nothing tells on "
            "which side of the change: taken to be before it"
        )
    if steady.elsewhere:
        build.warn(
            f"{many(steady.elsewhere, 'trace')} had another clock, which did not change then: "
            "their times stay as they are"
        )


def _when(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M")
