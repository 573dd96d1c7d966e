"""Try an allocator on a workload: one task after another, or many at once on nodes with slots.

This is no second task-graph engine: attempts, their lengths and their number come from the
allocator's answers while it runs, which a replay of recorded attempts does not have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from rotameter.allocator.ledger import Ledger
from rotameter.allocator.needs import Record, Task, View
from rotameter.errors import PolicyError
from rotameter.values import Allocation, Hold

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["Nodes", "Outcome", "concurrent", "sequential", "teach"]

MEMORY = "memory_bytes"


@dataclass(frozen=True, slots=True)
class Nodes:
    """Machines that run attempts, one core each.

    Attributes
    ----------
    count, cores : int
        Machines, and slots of each.
    memory_bytes : float, optional
        Of each; None: no limit on what fits together.
    """

    count: int
    cores: int
    memory_bytes: float | None = None

    @property
    def share(self) -> dict[str, float]:
        """Memory that comes with one slot."""
        return {} if self.memory_bytes is None else {MEMORY: self.memory_bytes / self.cores}


@dataclass(slots=True)
class Outcome:
    """What came of a trial.

    Attributes
    ----------
    ledger : Ledger
    makespan_s : float
    decisions_ns : list of int
        Time in request and observe for each completed task, by the timer that was given.
    """

    ledger: Ledger = field(default_factory=Ledger)
    makespan_s: float = 0.0
    decisions_ns: list[int] = field(default_factory=list)


def _no_time() -> int:
    """Stand in for a clock: a core has none of its own."""
    return 0


def _granted(made: Any, task: str, above: float = 0.0) -> float:
    """Check what an allocator gave: a finite amount, larger than what was exceeded."""
    if not isinstance(made, Allocation) or made.memory_bytes is None:
        raise PolicyError(f"{task}: the allocator gave no memory: {made!r}")
    granted = float(made.memory_bytes)
    if not 0 < granted < float("inf") or granted <= above:
        least = f", not more than the {above:.0f} that were exceeded" if above else ""
        raise PolicyError(f"{task}: the allocator gave {granted:.0f} bytes{least}")
    return granted


class _Trial:
    """The allocator's side of a trial: asks, tells, keeps the books."""

    def __init__(
        self,
        work: Workload,
        allocator: Any,
        most_bytes: float,
        *,
        sizes: bool = False,
        timer: Callable[[], int] = _no_time,
    ) -> None:
        self._timer = timer
        self.work, self.allocator, self.most = work, allocator, most_bytes
        self.out = Outcome()
        self.attempts = [0] * len(work)
        self.tasks = [
            Task(str(at), work.groups[group], float(size) if sizes and size == size else None)
            for at, (group, size) in enumerate(
                zip(work.group.tolist(), work.size.tolist(), strict=True)
            )
        ]
        self.need, self.wall = work.need.tolist(), work.wall_s.tolist()
        self._spent = 0

    def ask(self, at: int, view: View | None = None) -> float | None:
        began = self._timer()
        made = self.allocator.request(self.tasks[at], view)
        self._spent = self._timer() - began
        return None if isinstance(made, Hold) else _granted(made, self.tasks[at].task_id)

    def seconds(self, at: int, granted: float) -> float:
        self.attempts[at] += 1
        if granted >= self.need[at]:
            return float(self.wall[at])
        return self.work.failed_s(at, granted)

    def ended(self, at: int, granted: float, seconds: float) -> float | None:
        """Tell of an attempt's end; give the next one's allocation if it exceeded its own."""
        task = self.tasks[at]
        if granted >= self.need[at]:
            self.out.ledger.complete(granted, self.need[at], seconds, attempts=self.attempts[at])
            record = Record(
                task.task_id, task.group, "ok", {MEMORY: self.need[at]},
                granted={MEMORY: granted}, wall_s=seconds, size=task.size,
            )  # fmt: skip
            began = self._timer()
            self.allocator.observe(record)
            self.out.decisions_ns.append(self._spent + self._timer() - began)
            return None
        self.out.ledger.fail(granted, seconds)
        if granted >= self.most:
            raise PolicyError(f"task {task.task_id} needs more than the largest machine has")
        record = Record(
            task.task_id, task.group, "oom", granted={MEMORY: granted},
            exceeded=frozenset({MEMORY}), wall_s=seconds, size=task.size,
        )  # fmt: skip
        return _granted(self.allocator.exceeded(task, record), task.task_id, above=granted)


def teach(allocator: Any, work: Workload, *, sizes: bool = False) -> None:
    """Let an allocator learn from a run that is over, in order of completion.

    Examples
    --------
    >>> import numpy as np
    >>> from rotameter.allocator.baselines import make_allocator
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
            f"before-{at}", work.groups[work.group[at]], "ok", {MEMORY: need},
            wall_s=float(work.wall_s[at]), size=size if sizes and size == size else None,
        )  # fmt: skip
        allocator.observe(record)


def sequential(
    work: Workload,
    allocator: Any,
    most_bytes: float,
    *,
    sizes: bool = False,
    timer: Callable[[], int] = _no_time,
) -> Outcome:
    """Run one task after another: each one's use is known before the next is sized.

    Parameters
    ----------
    work : Workload
    allocator : Allocator
    most_bytes : float
        What the largest machine has.
    sizes : bool
        Whether the allocator is told the tasks' sizes.
    timer : callable
        Gives nanoseconds, such as ``time.thread_time_ns``, to time decisions.
    """
    trial = _Trial(work, allocator, most_bytes, sizes=sizes, timer=timer)
    for at in range(len(work)):
        granted = trial.ask(at)
        if granted is None:
            raise PolicyError(f"task {at} is held though nothing else runs")
        while True:
            seconds = trial.seconds(at, granted)
            trial.out.makespan_s += seconds
            following = trial.ended(at, granted, seconds)
            if following is None:
                break
            granted = following
    return trial.out


def concurrent(
    work: Workload,
    allocator: Any,
    most_bytes: float,
    nodes: Nodes,
    order: Sequence[int] | None = None,
    *,
    sizes: bool = False,
    timer: Callable[[], int] = _no_time,
) -> Outcome:
    """Run many at once: use is known when an attempt ends.

    Tasks start in order; one that is held, or fits on no node, lets later ones pass; what came
    back goes first. The first that fits nowhere keeps the node with most free memory to itself.

    Parameters
    ----------
    work : Workload
    allocator : Allocator
    most_bytes : float
        What the largest machine has.
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
    trial = _Trial(work, allocator, most_bytes, sizes=sizes, timer=timer)
    loop = _Loop(trial, nodes, order or range(len(work)))
    loop.run()
    return loop.trial.out


class _Loop:
    def __init__(self, trial: _Trial, nodes: Nodes, order: Sequence[int]) -> None:
        self.trial, self.nodes = trial, nodes
        self.cores = [nodes.cores] * nodes.count
        memory = float("inf") if nodes.memory_bytes is None else float(nodes.memory_bytes)
        self.memory = [memory] * nodes.count
        self.free = nodes.cores * nodes.count
        self.now = 0.0
        self.back: list[tuple[int, float]] = []
        self.running: list[tuple[float, int, int, float, float, int]] = []
        self.started = 0
        self.rank = {at: place for place, at in enumerate(order)}
        self.open = [0] * len(trial.work)
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
        left = len(self.trial.work)
        while left:
            self._start()
            if not self.running:
                raise PolicyError("the allocator holds every task while nothing runs")
            self.now = self.running[0][0]
            while self.running and self.running[0][0] == self.now:
                left -= self._end(*heappop(self.running)[2:])
        self.trial.out.makespan_s = self.now

    def _end(self, at: int, granted: float, seconds: float, node: int) -> int:
        self.cores[node] += 1
        self.memory[node] += granted
        self.free += 1
        following = self.trial.ended(at, granted, seconds)
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
        waiting: deque[tuple[int, float]] = deque(self.back)
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
        return max(range(len(self.memory)), key=lambda node: (self.memory[node], -node))

    def _place(self, at: int, granted: float, kept: int | None) -> bool:
        """Start an attempt on the first node that has room; say whether one had."""
        for node, cores in enumerate(self.cores):
            if cores and granted <= self.memory[node] and node != kept:
                break
        else:
            return False
        self.cores[node] -= 1
        self.memory[node] -= granted
        self.free -= 1
        self.started += 1
        seconds = self.trial.seconds(at, granted)
        heappush(self.running, (self.now + seconds, self.started, at, granted, seconds, node))
        return True
