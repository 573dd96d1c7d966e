"""From begins and ends to slices, and from slices to what lies inside what.

Both hold for any order of the lines: only times and names count, except that ends without a name
at the very time of a begin follow the order of the file where it is the order of time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

__all__ = ["Mark", "Slice", "Track", "enclosing", "nest", "pair", "starting"]

_CLIMB = 64


@dataclass(slots=True)
class Slice:
    """A stretch of time on a track, ns; ``end`` is None where nothing tells it."""

    start: int
    end: int | None
    name: str | None
    cat: str | None = None
    cpu_ns: int | None = None
    args: dict[str, Any] | None = None
    open: bool = False
    flow: Any = None

    @property
    def last(self) -> int:
        """The end, or the start where the end is not known."""
        return self.start if self.end is None else self.end


@dataclass(slots=True)
class Mark:
    """A begin or an end."""

    at: int
    begins: bool
    name: str | None
    cat: str | None = None
    clock: int | None = None
    args: dict[str, Any] | None = None
    line: int = 0


@dataclass(slots=True)
class Track:
    """What happened on one thread, or to one asynchronous id."""

    pid: str | None
    tid: str | None
    slices: list[Slice] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    mark: Mark
    below: _Open | None
    closed: int | None = None
    until: int = 0


class _Stack:
    """The open slices of a track: the innermost one, and the innermost of each name, at once."""

    def __init__(self) -> None:
        self.done: list[Slice] = []
        self.stray: list[Mark] = []
        self._all: list[_Open] = []
        self._named: dict[str | None, list[_Open]] = {}

    def top(self) -> _Open | None:
        return _last(self._all)

    def begin(self, mark: Mark) -> None:
        item = _Open(mark, self.top())
        self._all.append(item)
        self._named.setdefault(mark.name, []).append(item)

    def end(self, mark: Mark) -> None:
        """Close the innermost slice of that name (of any, for an end without one)."""
        item = self.top() if mark.name is None else _last(self._named.get(mark.name, []))
        if item is None:
            self.stray.append(mark)
            return
        item.closed = mark.at
        self.done.append(_slice(item.mark, mark.at, mark))

    def left(self) -> list[_Open]:
        return [item for item in self._all if item.closed is None]


def _last(items: list[_Open]) -> _Open | None:
    while items and items[-1].closed is not None:
        items.pop()
    return items[-1] if items else None


def pair(marks: Sequence[Mark], end: int) -> tuple[list[Slice], list[Mark]]:
    """Match begins with ends.

    Parameters
    ----------
    marks : sequence of Mark
        Of one track, in the order of the file.
    end : int, ns
        End of the trace: what has no end lasts until the slice around it ends, or until then.

    Returns
    -------
    tuple of (list of Slice, list of Mark)
        The slices, and the ends that match no begin.

    Examples
    --------
    >>> slices, stray = pair([Mark(5, False, "b"), Mark(0, True, "a"), Mark(3, False, None)], 9)
    >>> [(s.name, s.start, s.end) for s in slices], [m.at for m in stray]
    ([('a', 0, 3)], [5])
    """
    ordered = all(a.at <= b.at for a, b in pairwise(marks))
    stack = _Stack()
    for _, same in groupby(sorted(marks, key=lambda mark: mark.at), key=lambda mark: mark.at):
        group = list(same)
        nameless = any(not mark.begins and mark.name is None for mark in group)
        if len(group) == 1 or (ordered and nameless):
            for mark in group:
                (stack.begin if mark.begins else stack.end)(mark)
        else:
            _together(group, stack)
    left = [_unended(item, end) for item in stack.left()]
    return stack.done + left, stack.stray


def _together(group: Sequence[Mark], stack: _Stack) -> None:
    """Take what happens at one moment: ends of older slices, slices of no length, begins."""
    ends: dict[str | None, list[Mark]] = {}
    for mark in group:
        if not mark.begins:
            ends.setdefault(mark.name, []).append(mark)
    # Older slices from the inside out, as long as the innermost one ends here.
    while (top := stack.top()) is not None:
        waiting = ends.get(top.mark.name) or ends.get(None)
        if not waiting:
            break
        stack.end(waiting.pop())
    begins = []
    for mark in group:
        if not mark.begins:
            continue
        if waiting := ends.get(mark.name):
            stack.done.append(_slice(mark, mark.at, waiting.pop()))
        else:
            begins.append(mark)
    for waiting in ends.values():
        for mark in waiting:
            stack.end(mark)
    for mark in begins:
        stack.begin(mark)


def _slice(begin: Mark, at: int, end: Mark | None) -> Slice:
    cpu = None
    if end is not None and end.clock is not None and begin.clock is not None:
        cpu = end.clock - begin.clock if end.clock >= begin.clock else None
    return Slice(begin.at, at, begin.name, begin.cat, cpu, begin.args, end is None)


def _unended(item: _Open, end: int) -> Slice:
    """Close an open slice with the one around it; those around it come first."""
    below = item.below
    if below is None:
        item.until = end
    else:
        item.until = below.until if below.closed is None else below.closed
    return _slice(item.mark, max(item.until, item.mark.at), None)


def nest(slices: list[Slice]) -> tuple[list[int], int]:
    """Sort slices by time and say what each lies in.

    Returns
    -------
    tuple of (list of int, int)
        For each slice of the now sorted list the place of the innermost one that holds it, or -1,
        and how many overlap another without lying in it.

    Examples
    --------
    >>> made = [Slice(2, 4, "in"), Slice(0, 9, "out"), Slice(4, 5, "next")]
    >>> nest(made), [s.name for s in made]
    (([-1, 0, 0], 0), ['out', 'in', 'next'])
    """
    slices.sort(key=_order)
    parents: list[int] = []
    stack: list[int] = []
    crossing = 0
    for place, item in enumerate(slices):
        start, last = item.start, item.last
        while stack and slices[stack[-1]].last <= start and not _holds(slices[stack[-1]], item):
            stack.pop()
        parent, crosses = -1, False
        for above in stack[: -_CLIMB - 1 : -1]:
            if _holds(slices[above], item):
                parent = above
                break
            crosses |= start < slices[above].last < last
        crossing += crosses and parent < 0
        parents.append(parent)
        stack.append(place)
    return parents, crossing


def _order(item: Slice) -> tuple[int, int, str, str, str]:
    # Slices of the same time and length: by content, so that the order of lines does not matter.
    return (item.start, -item.last, item.name or "", item.cat or "", repr(item.args or ""))


def _holds(outer: Slice, inner: Slice) -> bool:
    if outer.end is None or inner.last > outer.end:
        return False
    # What has no length lies in a slice that begins before it ends, not at the edge after it.
    return inner.start < outer.end or (inner.open and outer.open)


def enclosing(slices: Sequence[Slice], starts: Sequence[int], parents: list[int], at: int) -> int:
    """Give the place of the innermost slice that holds a moment, or -1."""
    place = bisect_right(starts, at) - 1
    for _ in range(_CLIMB):
        if place < 0 or slices[place].last >= at:
            break
        place = parents[place] if parents[place] >= 0 else -1
    return place if place >= 0 and slices[place].last >= at else -1


def starting(starts: Sequence[int], at: int) -> int:
    """Give the place of the first slice that begins then or later, or -1."""
    place = bisect_left(starts, at)
    return place if place < len(starts) else -1
