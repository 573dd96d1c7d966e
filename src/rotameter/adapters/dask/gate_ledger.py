"""What was granted where, and who waits: the admission gate's books, with no engine in them.

A worker has a capacity in bytes and a number of threads. A waiting task is known by its group and
priority; of each group only the first is looked at, so that a decision costs the number of groups,
not of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

__all__ = ["Grant", "Ledger", "Room", "Waiting"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one task was given on one worker."""

    worker: str
    amount_bytes: float


@dataclass(slots=True)
class Room:
    """A worker's capacity and what of it is granted.

    Attributes
    ----------
    capacity_bytes, granted_bytes, other_bytes : float
        What tasks may use; what was given to them; what results and other tasks hold there.
    threads, running, strangers : int
        Threads; grants that are open; hungry tasks that began there before they were gated.
    open : bool
        It takes new tasks (not paused, not closing).
    """

    capacity_bytes: float
    threads: int
    granted_bytes: float = 0.0
    other_bytes: float = 0.0
    running: int = 0
    strangers: int = 0
    open: bool = True

    @property
    def free_bytes(self) -> float:
        """What can still be granted."""
        return self.capacity_bytes - self.granted_bytes - self.other_bytes

    @property
    def most_bytes(self) -> float:
        """Most that one more task can get here; less than 0 where none can."""
        if not self.open or self.running + self.strangers >= self.threads:
            return -1.0
        alone = not self.running and not self.strangers
        return self.capacity_bytes if alone else self.free_bytes


class Ledger:
    """Grants by task, and rooms by worker.

    Examples
    --------
    >>> books = Ledger()
    >>> books.join("a", 100.0, 2)
    >>> books.place(60.0), books.place(200.0)
    ('a', None)
    >>> books.grant("x", "a", 60.0)
    >>> books.place(60.0)
    >>> books.release("x")
    Grant(worker='a', amount_bytes=60.0)
    """

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.grants: dict[Any, Grant] = {}
        self._most_bytes: float | None = None

    def join(self, worker: str, capacity_bytes: float, threads: int) -> None:
        """Add a worker."""
        self.rooms[worker] = Room(capacity_bytes, threads)
        self.changed()

    def leave(self, worker: str) -> None:
        """Take a worker out, and all that was granted there."""
        self.rooms.pop(worker, None)
        for key in [key for key, grant in self.grants.items() if grant.worker == worker]:
            del self.grants[key]
        self.changed()

    def grant(self, key: Any, worker: str, amount_bytes: float) -> None:
        """Give a task its part of a worker."""
        self.release(key)
        self.grants[key] = Grant(worker, amount_bytes)
        room = self.rooms[worker]
        room.granted_bytes += amount_bytes
        room.running += 1
        self.changed()

    def release(self, key: Any) -> Grant | None:
        """Take back what a task was given."""
        grant = self.grants.pop(key, None)
        if grant is not None and (room := self.rooms.get(grant.worker)) is not None:
            room.granted_bytes -= grant.amount_bytes
            room.running -= 1
            if not room.running:
                room.granted_bytes = 0.0
            self.changed()
        return grant

    def place(self, amount_bytes: float, kept: str | None = None) -> str | None:
        """Give the worker with the most left that has room and a thread; None where none has.

        What is as large as a worker's whole capacity gets one on which nothing else is granted.
        ``kept`` is no candidate: it is kept free for another.
        """
        if self._most_bytes is None:
            self._most_bytes = max((r.most_bytes for r in self.rooms.values()), default=0.0)
        if amount_bytes > self._most_bytes:  # The usual answer, where many groups wait.
            return None
        fit = [
            (room.free_bytes, worker)
            for worker, room in self.rooms.items()
            if worker != kept and amount_bytes <= room.most_bytes
        ]
        return max(fit)[1] if fit else None

    def changed(self) -> None:
        """Note that rooms were changed from outside."""
        self._most_bytes = None

    def reserve(self, amount_bytes: float) -> str | None:
        """Give the worker that could hold so much and has most left: it is to run empty."""
        fit = [
            (room.free_bytes, worker)
            for worker, room in self.rooms.items()
            if room.open and amount_bytes <= room.capacity_bytes
        ]
        return max(fit)[1] if fit else None

    def capacity(self, worker: str | None = None) -> float:
        """Give the largest capacity of a worker that is here, or that of one; 0: it is not."""
        rooms = self.rooms.values() if worker is None else filter(None, [self.rooms.get(worker)])
        return max((room.capacity_bytes for room in rooms), default=0.0)

    def share(self) -> float:
        """Give what comes with one thread on the worker that has least for each."""
        return min(
            (room.capacity_bytes / max(1, room.threads) for room in self.rooms.values()),
            default=float("inf"),
        )


class Waiting:
    """Tasks that wait, by group, first the one with the lowest priority value.

    Examples
    --------
    >>> line = Waiting()
    >>> for group, priority, key in (("load", 2, "b"), ("load", 1, "a"), ("sum", 3, "c")):
    ...     line.push(group, (0, priority), key)
    >>> len(line), line.walk(lambda group, key: key != "c")
    (3, ['a', 'b'])
    >>> len(line)
    1
    """

    def __init__(self) -> None:
        self._heaps: dict[str, list[tuple[Any, int, Any]]] = {}
        self._groups: dict[Any, str] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, key: Any) -> bool:
        return key in self._groups

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self._groups))

    def push(self, group: str, priority: Any, key: Any) -> None:
        """Let a task wait."""
        if key in self._groups:
            return
        self._groups[key] = group
        self._count += 1
        heappush(self._heaps.setdefault(group, []), (priority, self._count, key))

    def remove(self, key: Any) -> None:
        """Let a task wait no more; its place in the heap is passed over later."""
        self._groups.pop(key, None)

    def groups(self) -> list[str]:
        """Give the groups that have a task waiting."""
        return [group for group in self._heaps if self._head(group) is not None]

    def _head(self, group: str) -> tuple[Any, int, Any] | None:
        heap = self._heaps[group]
        while heap and self._groups.get(heap[0][2]) != group:
            heappop(heap)
        return heap[0] if heap else None

    def walk(self, start: Callable[[str, Any], bool]) -> list[Any]:
        """Offer the first of each group in order; give those that ``start`` took.

        A group whose first is not taken is not asked again: the others of it wait behind.
        """
        heads = []
        for group in list(self._heaps):
            head = self._head(group)
            if head is None:
                del self._heaps[group]
            else:
                heads.append((*head, group))
        heapify(heads)
        taken = []
        while heads:
            _, _, key, group = heappop(heads)
            if not start(group, key):
                continue
            taken.append(key)
            heappop(self._heaps[group])
            self._groups.pop(key, None)
            head = self._head(group)
            if head is not None:
                heappush(heads, (*head, group))
        return taken
