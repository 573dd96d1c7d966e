"""Try an allocator on a workload: one task after another, or many at once on nodes with slots.

Of one resource, or of several at once: then an attempt gets some of each, fits on a node that has
room for all of it, and ends when it first outgrows any. This is no second task-graph engine:
attempts, their lengths and their number come from the allocator's answers while it runs, which a
replay of recorded attempts does not have.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from rotameter.allocator.needs import Record, View
from rotameter.allocator.trying import Outcome, Trying, no_time
from rotameter.errors import PolicyError

if TYPE_CHECKING:
    from rotameter.allocator.trying import Grant
    from rotameter.allocator.workload import Workload

__all__ = ["Nodes", "Outcome", "concurrent", "sequential", "teach"]

MEMORY, TIME = "memory_bytes", "wall_s"


@dataclass(frozen=True, slots=True)
class Nodes:
    """Machines that run attempts, one core each.

    Attributes
    ----------
    count, cores : int
        Machines, and slots of each.
    memory_bytes : float, optional
        Of each; None: no limit on what fits together.
    room : mapping of str to float
        What each has of other resources, by field of an allocation; no limit on those left out.
    """

    count: int
    cores: int
    memory_bytes: float | None = None
    room: Mapping[str, float] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, float]:
        """What each has, of what is limited."""
        memory = {} if self.memory_bytes is None else {MEMORY: float(self.memory_bytes)}
        return {**memory, **self.room}

    @property
    def share(self) -> dict[str, float]:
        """What comes with one slot."""
        return {name: has / self.cores for name, has in self.limits.items()}

    def holding(self, caps: Mapping[str, float]) -> Nodes:
        """Give such machines that have so much each; a limit of time is nothing that they have.

        Examples
        --------
        >>> Nodes(8, 4).holding({"memory_bytes": 64e9, "wall_s": 60.0}).share
        {'memory_bytes': 16000000000.0}
        """
        # Whole units are granted: a part of one would keep the largest task waiting for ever.
        room = {name: float(math.ceil(cap)) for name, cap in caps.items() if name != TIME}
        return replace(self, memory_bytes=room.pop(MEMORY, None), room=room)


def teach(allocator: Any, work: Workload, *, sizes: bool = False) -> None:
    """Let an allocator learn from a run that is over, in order of completion.

    Examples
    --------
    >>> import numpy as np
    >>> from rotameter.allocator.baselines import make_allocator
    >>> from rotameter.allocator.needs import Task
    >>> from rotameter.allocator.workload import Workload
    >>> need, nan = np.full(3, 5e9), np.full(3, np.nan)
    >>> made = make_allocator("default", 64e9)
    >>> teach(made, Workload("w", np.zeros(3, int), ("g",), need, np.ones(3), nan, nan))
    >>> made.request(Task("a", "g")).memory_bytes > 5e9
    True
    """
    for at, need in enumerate(work.need.tolist()):
        size = float(work.size[at])
        record = Record(
            f"before-{at}", work.groups[work.group[at]], "ok", {work.resource.field: need},
            wall_s=float(work.wall_s[at]), size=size if sizes and size == size else None,
        )  # fmt: skip
        allocator.observe(record)


def sequential(
    work: Workload | Sequence[Workload],
    allocator: Any,
    most: float | Sequence[float],
    *,
    sizes: bool = False,
    timer: Callable[[], int] = no_time,
) -> Outcome:
    """Run one task after another: each one's use is known before the next is sized.

    Parameters
    ----------
    work : Workload, or a sequence of them
        One a resource, of the same tasks (:func:`~rotameter.allocator.workload.together`).
    allocator : Allocator
    most : float, or a sequence of them
        What the largest machine has of each.
    sizes : bool
        Whether the allocator is told the tasks' sizes.
    timer : callable
        Gives nanoseconds, such as ``time.thread_time_ns``, to time decisions.
    """
    trial = Trying(work, allocator, most, sizes=sizes, timer=timer)
    for at in range(len(trial)):
        granted = trial.ask(at)
        if granted is None:
            raise PolicyError(f"task {at} is held though nothing else runs")
        while True:
            seconds, short = trial.attempt(at, granted)
            trial.out.makespan_s += seconds
            following = trial.ended(at, granted, seconds, short)
            if following is None:
                break
            granted = following
    return trial.out


def concurrent(
    work: Workload | Sequence[Workload],
    allocator: Any,
    most: float | Sequence[float],
    nodes: Nodes,
    order: Sequence[int] | None = None,
    *,
    sizes: bool = False,
    timer: Callable[[], int] = no_time,
) -> Outcome:
    """Run many at once: use is known when an attempt ends.

    Tasks start in order; one that is held, or fits on no node, lets later ones pass; what came
    back goes first. The first that fits nowhere keeps the node with most free room to itself.

    Parameters
    ----------
    work : Workload, or a sequence of them
        As for :func:`sequential`.
    allocator : Allocator
    most : float, or a sequence of them
        What the largest machine has of each.
    nodes : Nodes
    order : sequence of int, optional
        Places of the tasks, as they are submitted; file order by default.
    sizes : bool
        Whether the allocator is told the tasks' sizes.
    timer : callable
        As for :func:`sequential`.

    Raises
    ------
    PolicyError
        If the allocator gives what cannot be used, or holds everything.
    """
    trial = Trying(work, allocator, most, sizes=sizes, timer=timer)
    loop = _Loop(trial, nodes, order or range(len(trial)))
    loop.run()
    return loop.trial.out


class _Loop:
    def __init__(self, trial: Trying, nodes: Nodes, order: Sequence[int]) -> None:
        self.trial, self.nodes = trial, nodes
        self.cores = [nodes.cores] * nodes.count
        has = nodes.limits
        most = [has.get(name, float("inf")) for name in trial.fields]
        self.room = [list(most) for _ in range(nodes.count)]
        # Of one resource its amount tells which node is emptiest, of several the scarcest share.
        alone = len(most) == 1
        self.scale = [1.0 if alone or one == float("inf") else one for one in most]
        self.free = nodes.cores * nodes.count
        self.now = 0.0
        self.back: list[tuple[int, Grant]] = []
        self.running: list[tuple[float, int, int, Grant, float, tuple[str, ...], int]] = []
        self.started = 0
        self.rank = {at: place for place, at in enumerate(order)}
        self.open = [0] * len(trial)
        self.then: list[list[int]] = [[] for _ in self.open]
        for task, on in trial.work.deps:
            self.open[task] += 1
            self.then[on].append(task)
        self.ready: dict[int, list[tuple[int, int]]] = {}
        for at in order:
            if not self.open[at]:
                self._ready(at)

    def _ready(self, at: int) -> None:
        heappush(self.ready.setdefault(int(self.trial.work.group[at]), []), (self.rank[at], at))

    def run(self) -> None:
        """Run until every task has completed."""
        left = len(self.trial)
        while left:
            self._start()
            if not self.running:
                raise PolicyError("the allocator holds every task while nothing runs")
            self.now = self.running[0][0]
            while self.running and self.running[0][0] == self.now:
                left -= self._end(*heappop(self.running)[2:])
        self.trial.out.makespan_s = self.now

    def _end(
        self, at: int, granted: Grant, seconds: float, short: tuple[str, ...], node: int
    ) -> int:
        self.cores[node] += 1
        room = self.room[node]
        for place, amount in enumerate(granted):
            room[place] += amount
        self.free += 1
        following = self.trial.ended(at, granted, seconds, short)
        if following is not None:
            self.back.append((at, following))
            return 0
        for task in self.then[at]:
            self.open[task] -= 1
            if not self.open[task]:
                self._ready(task)
        return 1

    def _start(self) -> None:
        kept: int | None = None
        waiting: deque[tuple[int, Grant]] = deque(self.back)
        self.back = []
        while waiting and self.free:
            at, granted = waiting.popleft()
            if not self._place(at, granted, kept):
                self.back.append((at, granted))
                kept = self._emptiest() if kept is None else kept
        self.back += waiting
        for spare in (False, True):
            if self.free and self.ready:
                kept = self._pass(View(spare=spare, share=self.nodes.share), kept)

    def _pass(self, view: View, kept: int | None) -> int | None:
        """Ask for each group's first task, in order; one held or without room waits."""
        heads = [(heap[0], group) for group, heap in self.ready.items()]
        heads.sort()
        queue = [(rank, at, group) for (rank, at), group in heads]
        while queue and self.free:
            _, at, group = heappop(queue)
            granted = self.trial.ask(at, view)
            if granted is None:
                continue
            if not self._place(at, granted, kept):
                kept = self._emptiest() if kept is None else kept
                continue
            heap = self.ready[group]
            heappop(heap)
            if heap:
                heappush(queue, (*heap[0], group))
            else:
                del self.ready[group]
        return kept

    def _emptiest(self) -> int:
        def free(node: int) -> tuple[float, int]:
            pairs = zip(self.room[node], self.scale, strict=True)
            return min(room / scale for room, scale in pairs), -node

        return max(range(len(self.room)), key=free)

    def _place(self, at: int, granted: Grant, kept: int | None) -> bool:
        """Start an attempt on the first node that has room; say whether one had."""
        for node, cores in enumerate(self.cores):
            if cores and node != kept:
                room = self.room[node]
                if all(amount <= room[place] for place, amount in enumerate(granted)):
                    break
        else:
            return False
        self.cores[node] -= 1
        for place, amount in enumerate(granted):
            room[place] -= amount
        self.free -= 1
        self.started += 1
        seconds, short = self.trial.attempt(at, granted)
        heappush(
            self.running, (self.now + seconds, self.started, at, granted, seconds, short, node)
        )
        return True
