"""When the clocks changed during a run, and on which side of that a local time lies.

A trace in the human form has local times without a zone. ``duration`` is counted: where it and the
time from ``submit`` to ``complete`` are an hour apart, the clocks changed while the task ran, and
what came later stands on the other clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.adapters.importers._clock_changes import may_change, whole_hours

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "HOUR_NS",
    "NEVER",
    "Change",
    "Crossing",
    "changes",
    "crossed",
    "in_order",
    "left_out",
    "sides",
    "start_of",
]

HOUR_NS = 3600 * 10**9
"""By which clocks are changed."""
_ROUNDED_NS = 10**9
"""Durations are written in whole seconds, or with a decimal."""
_SLACK_NS = 2 * 10**9
_JITTER_NS = 300 * 10**9
"""By how much a row may end before the row that stands before it."""
NEVER = -(1 << 62)
"""Stands for a time that is not known."""
_EVER = 1 << 62


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

    Where an hour comes twice (``by_ns`` below 0), ``at_ns`` is its end, and the order of the rows
    tells on which side a time in it lies: a row is written when its task ends. ``hours`` are all
    at which it may have been, the most usual first; ``shown`` says that tasks show it, and not only
    one half a year away.
    """

    at_ns: int
    by_ns: int
    hours: tuple[int, ...]
    shown: bool = True


def crossed(submit_ns: int, end_ns: int, duration_s: float) -> int:
    """Say by how much the clocks were set ahead from submission to end, in ns; mostly 0.

    Examples
    --------
    >>> half = 1800 * 10**9
    >>> [crossed(0, end, 1800.0) // 10**9 for end in (half, 3 * half, -half, 2 * half)]
    [0, 3600, -3600, 0]
    """
    off = end_ns - submit_ns - round(duration_s * 1e9)
    if abs(abs(off) - HOUR_NS) > _ROUNDED_NS:
        return 0
    return HOUR_NS if off > 0 else -HOUR_NS


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


def changes(crossings: Iterable[Crossing], times: Mapping[int, NDArray[np.int64]]) -> list[Change]:
    """Find when the clocks changed, from the tasks that ran then.

    Parameters
    ----------
    crossings : iterable of Crossing
    times : mapping
        Times by the clocks of all other tasks of each part, ns: of those parts in which a task ran
        over the change none lies in an hour that was left out.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> one = Crossing(hour + 50 * 60 * 10**9, 3 * hour + 20 * 60 * 10**9, hour)
    >>> [change.at_ns // hour for change in changes([one], {})]
    [3]
    """
    groups: list[list[Crossing]] = []
    for one in sorted(crossings, key=lambda one: (one.by_ns, one.begin_ns)):
        last = groups[-1][0] if groups else None
        near = last is not None and last.by_ns == one.by_ns
        if near and min(c.end_ns for c in groups[-1]) + HOUR_NS >= one.begin_ns:
            groups[-1].append(one)
        else:
            groups.append([one])
    found = []
    for group in groups:
        low, high = max(c.begin_ns for c in group), min(c.end_ns for c in group)
        by_ns = group[0].by_ns
        if by_ns > 0:
            hours = whole_hours(low + HOUR_NS, high)
            free = [h for h in hours if not any(left_out(h, times.get(c.part)) for c in group)]
            hours = free or hours
        else:
            hours = whole_hours(low, high + HOUR_NS, by_ns)
        likely = [hour for hour in hours if may_change(hour, hour)] or hours
        if likely:
            found.append(Change(likely[0], by_ns, tuple(likely)))
    return sorted(found, key=lambda change: change.at_ns)


def left_out(hour_ns: int, times: NDArray[np.int64] | None) -> bool:
    """Say whether times lie in the hour before one."""
    if times is None:
        return False
    return bool(((times >= hour_ns - HOUR_NS) & (times < hour_ns)).any())


def in_order(ends_ns: NDArray[np.int64], but: NDArray[np.bool_]) -> bool:
    """Say whether tasks ended in the order of their rows, some left aside.

    Examples
    --------
    >>> ends = np.array([10, 5, 20]) * 60 * 10**12
    >>> in_order(ends, np.arange(3) < 0), in_order(ends, np.arange(3) == 1)
    (False, True)
    """
    ends = ends_ns[~but]
    return not (ends < np.maximum.accumulate(ends) - _JITTER_NS).any()


def sides(ends_ns: NDArray[np.int64], twice: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], int]:
    """Say which rows of an hour that comes twice are of the second, by the order of all rows.

    Parameters
    ----------
    ends_ns : numpy.ndarray
        When the task of each row ended, in the order of the rows: by one clock, and of rows in
        question by the clock before the change.
    twice : numpy.ndarray of bool
        The rows in question.

    Returns
    -------
    tuple of (numpy.ndarray, int)
        Rows of the second hour, and of how many others nothing tells on which side they are.

    Examples
    --------
    >>> minute = 60 * 10**9
    >>> behind, unsure = sides(np.array([10, 50, 20, 300]) * minute, np.arange(4) < 3)
    >>> behind.tolist(), unsure
    ([False, False, True, False], 0)
    """
    behind = np.zeros(len(ends_ns), dtype=bool)
    known = ends_ns > NEVER
    rest = known & ~twice
    if not in_order(ends_ns, ~rest):
        return behind, int(twice.sum())
    before = np.maximum.accumulate(np.where(rest, ends_ns, NEVER))
    after = np.minimum.accumulate(np.where(rest, ends_ns, _EVER)[::-1])[::-1]
    asked = np.flatnonzero(twice & known).tolist()
    least = NEVER
    for row in asked:
        end = int(ends_ns[row])
        behind[row] = end < max(int(before[row]), least) - _JITTER_NS
        least = max(least, end + HOUR_NS if behind[row] else end)
    unsure = int((twice & ~known).sum())
    most = _EVER
    for row in reversed(asked):
        end = int(ends_ns[row])
        most = min(int(after[row]), most)
        open_ = not behind[row] and end + HOUR_NS <= most + _JITTER_NS
        unsure += open_
        most = min(most, end + HOUR_NS if open_ or behind[row] else end)
    return behind, unsure
