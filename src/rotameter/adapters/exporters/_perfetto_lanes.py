"""Who is drawn on which thread: tasks and intervals on lanes on which nothing crosses.

A trace viewer draws a slice inside another only where it lies in it. So a slice goes onto the
thread of its task or parent where it fits, else onto the first thread that is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

__all__ = ["Item", "Lanes"]


@dataclass(slots=True)
class Item:
    """A slice to draw: ns, the lane's name, and the item that it belongs into, if any."""

    start: int
    end: int
    worker: str | None
    lane: str | None
    rank: int
    inside: int | None = None
    row: int = 0


@dataclass(slots=True)
class _Lane:
    stacks: list[list[tuple[int, int, int]]] = field(default_factory=list)
    busy: list[tuple[int, int]] = field(default_factory=list)
    free: list[int] = field(default_factory=list)


class Lanes:
    """Gives each item (worker, lane, slot) so that on a slot slices only nest.

    Items are placed in order of (start, the longest first).

    Examples
    --------
    >>> lanes = Lanes()
    >>> items = [Item(0, 9, "w", None, 0), Item(2, 4, "w", None, 0), Item(2, 3, "w", None, 1, 1)]
    >>> [lanes.place(i, item)[2] for i, item in enumerate(items)]
    [0, 1, 1]
    """

    def __init__(self) -> None:
        self._lanes: dict[tuple[str | None, str | None], _Lane] = {}
        self._where: dict[int, tuple[str | None, str | None, int]] = {}

    def place(self, number: int, item: Item) -> tuple[str | None, str | None, int]:
        """Place the item of that number; give its worker, lane and slot."""
        found = self._inside(number, item)
        if found is None:
            found = self._free(number, item)
        self._where[number] = found
        return found

    def _inside(self, number: int, item: Item) -> tuple[str | None, str | None, int] | None:
        where = None if item.inside is None else self._where.get(item.inside)
        if where is None or where[0] != item.worker or item.lane not in (None, where[1]):
            return None
        stack = self._lanes[where[0], where[1]].stacks[where[2]]
        _drop(stack, item.start)
        if not stack or stack[-1][0] < item.end:
            return None
        if all(other != item.inside for _, other, _ in stack):
            return None
        stack.append((item.end, number, item.rank))
        return where

    def _free(self, number: int, item: Item) -> tuple[str | None, str | None, int]:
        lane = self._lanes.setdefault((item.worker, item.lane), _Lane())
        while lane.busy and lane.busy[0][0] <= item.start:
            heappush(lane.free, heappop(lane.busy)[1])
        if item.rank:  # an interval lies in another one of its lane where it can
            for slot, stack in enumerate(lane.stacks[:4]):
                _drop(stack, item.start)
                if stack and stack[-1][0] >= item.end and stack[0][2]:
                    stack.append((item.end, number, item.rank))
                    return item.worker, item.lane, slot
        if lane.free:
            slot = heappop(lane.free)
            lane.stacks[slot] = [(item.end, number, item.rank)]
        else:
            slot = len(lane.stacks)
            lane.stacks.append([(item.end, number, item.rank)])
        heappush(lane.busy, (item.end, slot))
        return item.worker, item.lane, slot


def _drop(stack: list[tuple[int, int, int]], start: int) -> None:
    while stack and stack[-1][0] <= start:
        stack.pop()
