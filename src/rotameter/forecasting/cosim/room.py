"""What is free: in a pool, or on each of many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import le
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["Held", "Need", "NodeRoom", "PoolRoom", "Room"]

Need: TypeAlias = tuple[int, tuple[int, ...]]
"""On how many nodes at once, and how much of each resource on each."""

Held: TypeAlias = tuple[int, ...]
"""The nodes that a job is on; empty in a pool."""


class PoolRoom:
    """One pool of several resources.

    Examples
    --------
    >>> room = PoolRoom([4, 8])
    >>> room.place((1, (4, 1))), room.place((1, (5, 1)))
    ((), None)
    """

    __slots__ = ("free",)

    def __init__(self, free: list[int]) -> None:
        self.free = free

    def place(self, need: Need, also: Any = None) -> Held | None:
        """Say where a job would go, or None; ``also``: a room that must hold it there too."""
        for want, has in zip(need[1], self.free, strict=True):
            if want > has:
                return None
        if also is not None:
            for want, has in zip(need[1], also.free, strict=True):
                if want > has:
                    return None
        return ()

    def fitting(self, jobs: list[int], need: Sequence[Need]) -> list[int]:
        """Give the jobs that fit now, each by itself."""
        free, first = self.free, self.free[0]
        if len(free) == 1:
            return [job for job in jobs if need[job][1][0] <= first]
        return [
            job for job in jobs if (each := need[job][1])[0] <= first and all(map(le, each, free))
        ]

    def holds(self, need: Need, held: Held) -> bool:
        """Say whether a job fits just there."""
        return not held and self.place(need) is not None

    def take(self, need: Need, held: Held) -> None:
        """Take what a job needs."""
        for at, want in enumerate(need[1]):
            self.free[at] -= want

    def give(self, need: Need, held: Held) -> None:
        """Give it back."""
        for at, want in enumerate(need[1]):
            self.free[at] += want

    def copy(self) -> PoolRoom:
        """Give another one with the same free."""
        return PoolRoom(self.free.copy())

    def meet(self, other: Any) -> PoolRoom:
        """Give what is free in both."""
        return PoolRoom([min(a, b) for a, b in zip(self.free, other.free, strict=True)])

    def same(self, other: Any) -> bool:
        """Say whether both have the same free."""
        return bool(self.free == other.free)


class NodeRoom:
    """Nodes that jobs share: each goes to the fullest that still hold it, the first of equals.

    Examples
    --------
    >>> room = NodeRoom.of(3, (4,))
    >>> room.take((1, (2,)), (1,))
    >>> room.place((1, (2,))), room.place((2, (3,))), room.place((3, (3,)))
    ((1,), (0, 2), None)
    """

    __slots__ = ("free",)

    def __init__(self, free: Ints) -> None:
        self.free = free

    @classmethod
    def of(cls, nodes: int, unit: tuple[int, ...]) -> NodeRoom:
        """Give empty nodes."""
        return cls(np.tile(np.asarray(unit, np.int64), (nodes, 1)))

    def place(self, need: Need, also: Any = None) -> Held | None:
        """Say where a job would go, or None; ``also``: a room that must hold it there too."""
        count, each = need
        fit = (self.free >= each).all(axis=1)
        if also is not None:
            fit &= (also.free >= each).all(axis=1)
        at = np.flatnonzero(fit)
        if len(at) < count:
            return None
        if len(at) > count:
            at = np.sort(at[np.argsort(self.free[at, 0], kind="stable")[:count]])
        return tuple(at.tolist())

    def fitting(self, jobs: list[int], need: Sequence[Need]) -> list[int]:
        """Give the jobs that fit now, each by itself."""
        most = self.free.max(axis=0).tolist()
        return [
            job
            for job in jobs
            if all(map(le, need[job][1], most)) and self.place(need[job]) is not None
        ]

    def holds(self, need: Need, held: Held) -> bool:
        """Say whether a job fits just there."""
        count, each = need
        good = len(set(held)) == len(held) == count
        return good and bool((self.free[list(held)] >= each).all())

    def take(self, need: Need, held: Held) -> None:
        """Take what a job needs."""
        self.free[list(held)] -= need[1]

    def give(self, need: Need, held: Held) -> None:
        """Give it back."""
        self.free[list(held)] += need[1]

    def copy(self) -> NodeRoom:
        """Give another one with the same free."""
        return NodeRoom(self.free.copy())

    def meet(self, other: Any) -> NodeRoom:
        """Give what is free in both."""
        return NodeRoom(np.minimum(self.free, other.free))

    def same(self, other: Any) -> bool:
        """Say whether both have the same free."""
        return bool(np.array_equal(self.free, other.free))


Room: TypeAlias = PoolRoom | NodeRoom
