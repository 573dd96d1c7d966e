"""Arithmetic of time intervals, in whole nanoseconds.

Intervals that overlap count once: the union, never the sum of durations, is how long a device was
busy. All functions take starts and ends as int64 arrays; an end lies at or after its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Ints",
    "clip",
    "gaps",
    "grouped_length",
    "groups_of",
    "intersect",
    "length",
    "outermost",
    "partition",
    "subtract",
    "union",
    "within",
]

Ints = NDArray[np.int64]
Spans = tuple[Ints, Ints]

_EMPTY: Ints = np.zeros(0, dtype=np.int64)
_ROOM = 1 << 62


def union(start: Ints, end: Ints) -> Spans:
    """Merge intervals: sorted, disjoint, those that touch made one.

    Examples
    --------
    >>> lo, hi = union(np.array([5, 0, 1]), np.array([9, 2, 3]))
    >>> lo.tolist(), hi.tolist()
    ([0, 5], [3, 9])
    """
    if not len(start):
        return _EMPTY, _EMPTY
    order = np.argsort(start, kind="stable")
    lo, hi = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], lo[1:] > hi[:-1]))
    at = np.flatnonzero(first)
    return lo[at], hi[np.concatenate((at[1:] - 1, [len(hi) - 1]))]


def length(spans: Spans) -> int:
    """Give how long disjoint intervals last together, in ns.

    Examples
    --------
    >>> length(union(np.array([0, 1]), np.array([2, 3])))
    3
    """
    return int((spans[1] - spans[0]).sum())


def gaps(spans: Spans) -> Spans:
    """Give what lies between disjoint, sorted intervals.

    Examples
    --------
    >>> lo, hi = gaps((np.array([0, 5]), np.array([3, 9])))
    >>> lo.tolist(), hi.tolist()
    ([3], [5])
    """
    return spans[1][:-1], spans[0][1:]


def intersect(a: Spans, b: Spans) -> Spans:
    """Give what two sets of disjoint, sorted intervals have in common.

    Examples
    --------
    >>> lo, hi = intersect((np.array([0]), np.array([9])), (np.array([2, 8]), np.array([4, 12])))
    >>> lo.tolist(), hi.tolist()
    ([2, 8], [4, 9])
    """
    if not len(a[0]) or not len(b[0]):
        return _EMPTY, _EMPTY
    # Each interval of a with the first and the last of b that it can meet.
    first = np.searchsorted(b[1], a[0], side="right")
    last = np.searchsorted(b[0], a[1], side="left")
    count = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(len(a[0])), count)
    within = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count)
    other = first[mine] + within
    lo, hi = np.maximum(a[0][mine], b[0][other]), np.minimum(a[1][mine], b[1][other])
    real = hi > lo
    return lo[real], hi[real]


def subtract(a: Spans, b: Spans) -> Spans:
    """Give what of the disjoint, sorted intervals a does not lie in b.

    Examples
    --------
    >>> lo, hi = subtract((np.array([0]), np.array([9])), (np.array([2]), np.array([4])))
    >>> lo.tolist(), hi.tolist()
    ([0, 4], [2, 9])
    """
    if not len(a[0]) or not len(b[0]):
        return a
    low, high = min(a[0][0], b[0][0]), max(a[1][-1], b[1][-1])
    outside = (np.concatenate(([low], b[1])), np.concatenate((b[0], [high])))
    real = outside[1] > outside[0]
    return intersect(a, (outside[0][real], outside[1][real]))


def clip(start: Ints, end: Ints, low: int, high: int) -> Spans:
    """Cut intervals to a window; those outside go.

    Examples
    --------
    >>> lo, hi = clip(np.array([0, 8]), np.array([3, 9]), 2, 5)
    >>> lo.tolist(), hi.tolist()
    ([2], [3])
    """
    lo, hi = np.maximum(start, low), np.minimum(end, high)
    real = hi > lo
    return lo[real], hi[real]


def within(spans: Spans, limits: tuple[int, int] | None) -> Spans:
    """Give what of disjoint, sorted intervals lies between two times; all of it without such.

    Examples
    --------
    >>> lo, hi = within((np.array([0, 8]), np.array([3, 9])), (2, 5))
    >>> lo.tolist(), hi.tolist()
    ([2], [3])
    """
    return spans if limits is None else clip(*spans, *limits)


def partition(sets: Sequence[Spans]) -> dict[int, int]:
    """Give how long exactly these of several sets are on at once.

    Returns
    -------
    dict of int to int
        Bit mask of the sets that are on → ns; only masks that occur.

    Examples
    --------
    >>> a, b = (np.array([0]), np.array([5])), (np.array([3]), np.array([9]))
    >>> partition([a, b])
    {1: 3, 3: 2, 2: 4}
    """
    times = np.concatenate([np.concatenate(spans) for spans in sets] or [_EMPTY])
    if not len(times):
        return {}
    steps = np.concatenate(
        [np.repeat(np.array([1, -1]) << bit, len(spans[0])) for bit, spans in enumerate(sets)]
    )
    order = np.argsort(times, kind="stable")
    times, running = times[order], np.cumsum(steps[order])
    lasting = np.diff(times)
    made: dict[int, int] = {}
    for mask in dict.fromkeys(running[:-1][lasting > 0].tolist()):
        if mask:
            made[mask] = int(lasting[running[:-1] == mask].sum())
    return made


def grouped_length(group: Ints, start: Ints, end: Ints, groups: int) -> Ints:
    """Give, for each group, how long the union of its intervals lasts, in ns.

    Parameters
    ----------
    group : ndarray of int64
        Number of each interval's group, 0 to ``groups`` - 1.
    groups : int

    Examples
    --------
    >>> grouped_length(np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([2, 4, 3]), 2).tolist()
    [3, 4]
    """
    made = np.zeros(groups, dtype=np.int64)
    if not len(start):
        return made
    low = int(start.min())
    width = int(end.max()) - low + 1
    if width < _ROOM // max(groups, 1):
        shift = group * width - low  # groups lie side by side on one line
        lo, hi = union(start + shift, end + shift)
        np.add.at(made, lo // width, hi - lo)
        return made
    for number in np.unique(group):
        mine = group == number
        made[number] = length(union(start[mine], end[mine]))
    return made


def groups_of(key: Ints) -> Iterator[tuple[int, Ints]]:
    """Give each value of a key with its rows, in order of value; rows keep their order.

    Examples
    --------
    >>> [(value, rows.tolist()) for value, rows in groups_of(np.array([7, 3, 7]))]
    [(3, [1]), (7, [0, 2])]
    """
    order = np.argsort(key, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        if len(rows):
            yield int(key[rows[0]]), rows


def outermost(group: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Say which intervals lie in no other of their group (nested calls of one thread).

    Of equal intervals the first is outermost.

    Examples
    --------
    >>> outermost(np.array([0, 0, 0]), np.array([0, 1, 5]), np.array([4, 2, 6])).tolist()
    [True, False, True]
    """
    made = np.zeros(len(start), dtype=bool)
    order = np.lexsort((np.arange(len(start)), -end, start, group))
    bounds = np.flatnonzero(np.diff(group[order])) + 1
    for rows in np.split(order, bounds):
        if len(rows):
            before = np.maximum.accumulate(end[rows])[:-1]
            # One that begins with the other's end, or lasts no time within it, is not in it.
            made[rows] = np.concatenate(([True], (start[rows][1:] >= before)))
    return made
