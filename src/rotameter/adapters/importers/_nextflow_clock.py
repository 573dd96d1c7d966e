"""Local times of a run over which the clocks changed, put on the clock before the change.

A trace in the human form has local times without a zone. ``duration`` is counted: where it and the
time from ``submit`` to ``complete`` are an hour apart, the clocks changed while the task ran, and
what came later stands on the other clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.view import short
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder

__all__ = [
    "Change",
    "Crossing",
    "Steady",
    "changes",
    "crossed",
    "say",
    "shifts",
    "start_of",
    "whole_hours",
]

_HOUR_NS = 3600 * 10**9
_DAY_NS = 24 * _HOUR_NS
_ROUNDED_NS = 10**9
"""Durations are written in whole seconds, or with a decimal."""
_SLACK_NS = 2 * 10**9
_USUAL = (3, 2, 4, 1)
"""The hours, on the later clock, at which most countries change theirs."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A task during which the clocks changed.

    ``begin_ns`` and ``end_ns`` are by the clocks at the time, ``by_ns`` is what they were set
    ahead; ``part`` and ``row`` say where it stands.
    """

    begin_ns: int
    end_ns: int
    by_ns: int
    part: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the clocks: what shows ``at_ns`` or later is behind it.

    Where an hour comes twice (``by_ns`` below 0), ``at_ns`` is its end, and of times in it those
    of a row behind ``row`` of ``part`` are behind the change: a row is written when its task ends.
    """

    at_ns: int
    by_ns: int
    part: int = 0
    row: int = 0


def crossed(submit_ns: int, end_ns: int, duration_s: float) -> int:
    """Say by how much the clocks were set ahead from submission to end, in ns; mostly 0.

    Examples
    --------
    >>> half = 1800 * 10**9
    >>> [crossed(0, end, 1800.0) // 10**9 for end in (half, 3 * half, -half, 2 * half)]
    [0, 3600, -3600, 0]
    """
    off = end_ns - submit_ns - round(duration_s * 1e9)
    if abs(abs(off) - _HOUR_NS) > _ROUNDED_NS:
        return 0
    return _HOUR_NS if off > 0 else -_HOUR_NS


def start_of(start_ns: int, submit_ns: int, end_ns: int, wall_s: float | None, by_ns: int) -> int:
    """Put the start of such a task on the clock of its submission; its end is on it.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> start_of(2 * hour, 0, 3 * hour, 7200.0, hour) == hour
    True
    >>> start_of(2 * hour, 0, 3 * hour, 3600.0, hour) == 2 * hour
    True
    """
    behind = start_ns - by_ns  # if it started after the change
    sound = [at for at in (start_ns, behind) if submit_ns - _SLACK_NS <= at <= end_ns]
    if wall_s is None or len(sound) < 2:
        return sound[0] if sound else start_ns
    # Both may be: the one with less, but not less than nothing, beside the realtime.
    rest = [(end_ns - at - round(wall_s * 1e9), at) for at in sound]
    fits = [pair for pair in rest if pair[0] >= -_SLACK_NS]
    return min(fits)[1] if fits else max(rest)[1]


def changes(crossings: Iterable[Crossing], times: NDArray[np.int64]) -> list[Change]:
    """Find when the clocks changed, from the tasks that ran then.

    Parameters
    ----------
    crossings : iterable of Crossing
    times : numpy.ndarray
        Times by the clocks of all other tasks, ns: none of them lies in an hour that was left out.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> one = Crossing(hour + 50 * 60 * 10**9, 3 * hour + 20 * 60 * 10**9, hour)
    >>> [change.at_ns // hour for change in changes([one], np.array([], np.int64))]
    [3]
    """
    groups: list[list[Crossing]] = []
    for one in sorted(crossings, key=lambda one: (one.by_ns, one.begin_ns)):
        last = groups[-1][0] if groups else None
        near = last is not None and last.by_ns == one.by_ns
        if near and min(c.end_ns for c in groups[-1]) + _HOUR_NS >= one.begin_ns:
            groups[-1].append(one)
        else:
            groups.append([one])
    found = []
    for group in groups:
        low, high = max(c.begin_ns for c in group), min(c.end_ns for c in group)
        by_ns, first = group[0].by_ns, min(group, key=lambda c: (c.part, c.row))
        if by_ns > 0:
            hours = whole_hours(low + _HOUR_NS, high)
            free = [h for h in hours if not ((times >= h - _HOUR_NS) & (times < h)).any()]
            hours = free or hours
        else:
            hours = whole_hours(low, high + _HOUR_NS)
        if hours:
            found.append(Change(hours[0], by_ns, first.part, first.row))
    return sorted(found, key=lambda change: change.at_ns)


def whole_hours(low_ns: int, high_ns: int) -> list[int]:
    """Give the whole hours from one time to another, those at which clocks mostly change first.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> [at // hour for at in whole_hours(hour // 2, 4 * hour)]
    [3, 2, 4, 1]
    """
    first, last = -(-low_ns // _HOUR_NS), high_ns // _HOUR_NS
    hours = [hour * _HOUR_NS for hour in range(first, min(last, first + 24 * 400) + 1)]
    order = {hour: place for place, hour in enumerate(_USUAL)}
    return sorted(hours, key=lambda at: (order.get(at % _DAY_NS // _HOUR_NS, 9), at))


def shifts(
    found: Sequence[Change], times: NDArray[np.int64], part: int, crossing: Sequence[int] = ()
) -> NDArray[np.int64]:
    """Give what to take off the times of rows to have them on the first clock, ns.

    Parameters
    ----------
    found : sequence of Change
    times : numpy.ndarray
        A time of each row of a part, in the order of the rows.
    part : int
    crossing : sequence of int
        Rows during which the clocks changed: their times are on the clock before that.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> times = np.array([1, 3, 5]) * hour
    >>> (shifts([Change(3 * hour, hour)], times, 0) // hour).tolist()
    [0, 1, 1]
    """
    total = np.zeros(len(times), np.int64)
    rows = np.arange(len(times))
    own = np.isin(rows, np.asarray(crossing, np.int64))
    for change in found:
        behind = times >= change.at_ns
        if change.by_ns < 0 and change.part == part:
            twice = (times >= change.at_ns - _HOUR_NS) & ~behind
            behind |= twice & (rows > change.row) & ~own
        total += np.where(behind, change.by_ns, 0)
    return total


def say(count: int, name: str | None, build: Builder) -> None:
    """Warn of tasks during which the clocks changed; ``name`` is one of them."""
    build.warn(
        f"the clocks changed during {many(count, 'attempt')}, such as {short(name or '', 60)}: "
        "complete less submit is an hour off its duration; all times are put on the clock before "
        "the change, to which --utc-offset belongs"
    )


class Steady:
    """The rows of all parts with local times, put on the clock before the first change.

    Parameters
    ----------
    zone_ns : int
        What was taken off their times already: their zone, where it was given.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> steady = Steady()
    >>> steady.add(0, np.array([90 * 60 * 10**9, 5 * hour]), [(0, Crossing(
    ...     90 * 60 * 10**9, 4 * hour, hour))])
    >>> (steady.shifts(0) // hour).tolist()
    [0, 1]
    """

    def __init__(self, zone_ns: int = 0) -> None:
        self._zone_ns = zone_ns
        self._times: dict[int, NDArray[np.int64]] = {}
        self._own: dict[int, list[int]] = {}
        self._crossings: list[Crossing] = []
        self._found: list[Change] | None = None

    @property
    def count(self) -> int:
        """How many tasks saw a change."""
        return len(self._crossings)

    def add(
        self, part: int, times: NDArray[np.int64], crossings: Iterable[tuple[int, Crossing]]
    ) -> None:
        """Add a part: a time of each of its rows, and those during which the clocks changed."""
        self._times[part], self._own[part] = times + self._zone_ns, []
        for row, one in crossings:
            self._own[part].append(row)
            self._crossings.append(replace(one, part=part, row=row))

    def shifts(self, part: int) -> NDArray[np.int64]:
        """Give what to take off the times of a part's rows, ns."""
        if self._found is None:
            rest = [np.delete(times, self._own[part]) for part, times in self._times.items()]
            self._found = changes(self._crossings, np.concatenate(rest))
        return shifts(self._found, self._times[part], part, self._own[part])
