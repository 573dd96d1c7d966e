"""What happened in a stretch of the critical path: runs and waits, split into kinds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.view import is_dask, plain_python

if TYPE_CHECKING:
    from rotameter.profiler.flow._releases import Ran
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["Piece", "Stretches"]

Piece = tuple[float, float, str]
"""Start, end (seconds), kind."""

_KIND_OF = {"disk": "spill", "transfer": "transfer", "compute": "compute"}


class _Intervals:
    """Intervals of one kind, by task and by worker."""

    def __init__(self, seen: View, kind: str) -> None:
        found = seen.intervals(kind)
        self.start, self.end = found["start"].tolist(), found["end"].tolist()
        self.task, self.worker = found["task"].tolist(), found["worker"].tolist()
        self.peer = found["peer"].tolist()
        self.of_task = _index(found["task"], found["start"])
        self.of_worker = _index(found["worker"], found["start"])
        self._starts: dict[int, list[float]] = {}
        self._reach: dict[int, list[float]] = {}

    def mine(self, task: int, low: float, high: float) -> list[tuple[float, float]]:
        """Give what overlaps [low, high] of a task's intervals, clipped."""
        spans = ((self.start[i], self.end[i]) for i in self.of_task.get(task, ()))
        return [(max(s, low), min(e, high)) for s, e in spans if s < high and e > low]

    def arriving(
        self, worker: int, peers: set[int], low: float, high: float
    ) -> list[tuple[float, float]]:
        """Give what a worker got for no one known or from these workers, clipped."""
        rows = self.of_worker.get(worker)
        if rows is None:
            return []
        if worker not in self._starts:
            self._starts[worker] = [self.start[i] for i in rows]
            ends = np.array([self.end[i] for i in rows])
            self._reach[worker] = np.maximum.accumulate(ends).tolist()
        first = bisect_right(self._reach[worker], low)
        last = bisect_left(self._starts[worker], high)
        return [
            (max(self.start[i], low), min(self.end[i], high))
            for i in rows[first:last]
            if self.end[i] > low and (self.task[i] < 0 or self.peer[i] in peers)
        ]


def _index(owner: Codes, start: Floats) -> dict[int, list[int]]:
    """Give each owner's rows in order of their start."""
    order = np.lexsort((np.arange(len(owner)), start, owner))
    names, first = np.unique(owner[order], return_index=True)
    parts = np.split(order, first[1:]) if len(order) else []
    return {int(n): p.tolist() for n, p in zip(names, parts, strict=True) if n >= 0}


class Stretches:
    """Splits the path's stretches; all that it looks up is prepared once.

    Parameters
    ----------
    seen : View
    graph : FlowGraph
    runs : Ran
    """

    def __init__(self, seen: View, graph: FlowGraph, runs: Ran) -> None:
        self.intervals = {k: _Intervals(seen, k) for k in ("disk", "transfer", "compute")}
        self.dask = is_dask(seen.meta)
        self.idle = "wait_client" if plain_python(seen.meta) else "other"
        self.task, self.worker = runs.task.tolist(), runs.worker.tolist()
        self.ready = runs.ready.tolist()
        self.lost = (seen.lost[runs.row] & _tried_again(runs)).tolist()
        self.redone = _redone(runs).tolist()
        self.submitted = runs.submitted.tolist()
        self.moved = _seconds(seen, runs, "transfer_s")
        self.spilled = _seconds(seen, runs, "spill_s")
        self.loading = _seconds(seen, runs, "deserialize_s")
        self.read, self.wrote = _io(seen, graph, runs)
        self.room = _room(seen, runs)

    def run(self, at: int, low: float, high: float, *, whole: bool = True) -> list[Piece]:
        """Split an attempt's run, or a part of it (then by intervals only, not by its totals)."""
        if self.lost[at]:
            return [(low, high, "retry")]
        task = self.task[at]
        base: list[Piece] = [(low, high, "compute")]
        if task >= 0:
            computing = self.intervals["compute"].mine(task, low, high)
            if computing:
                base = paint([(low, high, "other")], computing, "compute")
            for kind in ("disk", "transfer"):
                base = paint(base, self.intervals[kind].mine(task, low, high), _KIND_OF[kind])
        if not whole:
            return base
        kinds = {kind for _, _, kind in base}
        lead: list[tuple[str, float]] = []
        if not self.dask:  # A Dask worker fetches before the run that counts as the attempt's.
            lead = [("transfer", self.moved[at]), ("spill", self.spilled[at])]
            lead = [(k, min(s, self.room[at])) for k, s in lead if k not in kinds]
        lead.append(("read", self.read[at]))
        tail = self.wrote[at]
        if tail > 0 or any(seconds > 0 for _, seconds in lead):
            base = _place(base, lead, tail)
        return base

    def wait(
        self, at: int, low: float, high: float, peers: set[int], *, again: bool
    ) -> list[Piece]:
        """Split the time between what released an attempt and its start.

        Parameters
        ----------
        at : int
            The attempt that waited.
        low, high : float, seconds
        peers : set of int
            Workers that held its inputs.
        again : bool
            The attempt before it of the same task released it.
        """
        task, worker, ready = self.task[at], self.worker[at], self.ready[at]
        # Its result was there, and was lost: ready again, it began anew.
        before = "retry" if again or self.redone[at] else "other"
        if ready != ready:
            pieces: list[Piece] = [(low, high, "retry" if again else self.idle)]
        else:
            pieces = _joined([(low, ready, before), (ready, high, "queue")], low, high)
        for kind in ("disk", "transfer"):
            every = self.intervals[kind]
            spans = every.mine(task, low, high) if task >= 0 else []
            if kind == "transfer" and worker >= 0:
                spans = spans + every.arriving(worker, peers, low, high)
            pieces = paint(pieces, spans, _KIND_OF[kind])
        seen = {kind for _, _, kind in pieces}
        totals = (
            ("other", self.loading[at]),
            ("transfer", self.moved[at] if "transfer" not in seen else 0.0),
            ("spill", self.spilled[at] if "spill" not in seen else 0.0),
        )
        edge = high
        for kind, seconds in totals:  # Fetched, then loaded, right before the start.
            if seconds > 0 and edge > low:
                start = max(low, edge - seconds)
                pieces = paint(pieces, [(start, edge)], kind, over=("queue", "other"))
                edge = start
        return pieces


def _tried_again(runs: Ran) -> Mask:
    """Say which attempts were followed by another one of their task."""
    last = np.full(int(runs.task.max(initial=-1)) + 2, -np.inf)
    np.maximum.at(last, runs.task, runs.start)
    made: Mask = (runs.task >= 0) & (last[runs.task] > runs.start)
    return made


def _redone(runs: Ran) -> Mask:
    """Say which attempts had one of their task before them, done since it was submitted."""
    made = np.zeros(len(runs), dtype=bool)
    order = np.lexsort((runs.end, runs.start, runs.task))
    before, after = order[:-1], order[1:]
    good = (runs.task[before] == runs.task[after]) & (runs.task[after] >= 0)
    with np.errstate(invalid="ignore"):
        good &= runs.end[before] <= runs.ready[after]
        good &= runs.end[before] > runs.submitted[after]
    made[after[good]] = True
    return made


def _seconds(seen: View, runs: Ran, name: str) -> list[float]:
    made: list[float] = np.maximum(np.nan_to_num(seen.number(name)[runs.row]), 0.0).tolist()
    return made


def _room(seen: View, runs: Ran) -> list[float]:
    """Give the seconds of each run in which it did not compute; unknown CPU time leaves all."""
    wall = runs.end - runs.start
    idle = wall - np.nan_to_num(seen.number("cpu_s")[runs.row])
    made: list[float] = np.clip(idle, 0.0, wall).tolist()
    return made


def _io(seen: View, graph: FlowGraph, runs: Ran) -> tuple[list[float], list[float]]:
    """Give the seconds that each attempt read and wrote, as far as they are known."""
    n = len(graph.tasks) + 1
    busy = np.nan_to_num(graph.busy_s)
    sums = [
        np.bincount(graph.edge_task[mine], busy[mine], minlength=n)[runs.task]
        for mine in (~graph.edge_write, graph.edge_write)
    ]
    total = np.maximum(np.nan_to_num(seen.number("io_s")[runs.row]), 0.0)
    known = np.where(total > 0, total, sums[0] + sums[1])
    size = [np.nan_to_num(seen.number(f"{op}_bytes")[runs.row]) for op in ("read", "write")]
    parts = [np.where(sums[0] + sums[1] > 0, s, b) for s, b in zip(sums, size, strict=True)]
    both = parts[0] + parts[1]
    share = np.where(both > 0, parts[0] / np.where(both > 0, both, 1.0), 1.0)
    return (known * share).tolist(), (known * (1.0 - share)).tolist()


def _joined(pieces: list[Piece], low: float, high: float) -> list[Piece]:
    clipped = ((max(s, low), min(e, high), k) for s, e, k in pieces)
    return [(s, e, k) for s, e, k in clipped if e > s]


def paint(
    pieces: list[Piece],
    spans: list[tuple[float, float]],
    kind: str,
    over: tuple[str, ...] | None = None,
) -> list[Piece]:
    """Give the pieces with these spans of another kind (over the given kinds only).

    Examples
    --------
    >>> paint([(0.0, 4.0, "compute")], [(1.0, 2.0), (1.5, 3.0)], "spill")
    [(0.0, 1.0, 'compute'), (1.0, 3.0, 'spill'), (3.0, 4.0, 'compute')]
    """
    if not spans:
        return pieces
    merged: list[list[float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    made: list[Piece] = []
    place = 0
    for low, high, old in pieces:
        if over is not None and old not in over:
            made.append((low, high, old))
            continue
        while place < len(merged) and merged[place][1] <= low:
            place += 1
        at, look = low, place
        while look < len(merged) and merged[look][0] < high:
            start, end = max(merged[look][0], at), min(merged[look][1], high)
            made.extend(p for p in ((at, start, old), (start, end, kind)) if p[1] > p[0])
            at, look = max(at, end), look + 1
        if high > at:
            made.append((at, high, old))
    return _merged(made)


def _merged(pieces: list[Piece]) -> list[Piece]:
    made: list[Piece] = []
    for low, high, kind in pieces:
        if made and made[-1][2] == kind and made[-1][1] == low:
            made[-1] = (made[-1][0], high, kind)
        else:
            made.append((low, high, kind))
    return made


def _place(pieces: list[Piece], lead: list[tuple[str, float]], tail: float) -> list[Piece]:
    """Put seconds without a place into the computing: these at its begin, writing at its end."""
    free = sum(e - s for s, e, k in pieces if k == "compute")
    wanted = sum(seconds for _, seconds in lead) + tail
    if wanted <= 0 or free <= 0:
        return pieces
    scale = min(1.0, free / wanted)
    rest = max(0.0, free - wanted)
    queue = [[kind, seconds * scale] for kind, seconds in lead if seconds > 0]
    queue += [["compute", rest], ["write", tail * scale]]
    made: list[Piece] = []
    for low, high, old in pieces:
        if old != "compute":
            made.append((low, high, old))
            continue
        at = low
        while at < high:
            head: list[Any] = queue[0]
            last = len(queue) == 1
            end = high if last else min(high, at + max(head[1], 0.0))
            if end > at:
                made.append((at, end, head[0]))
            head[1] -= end - at
            at = end
            if not last and (head[1] <= 0 or at < high):
                queue.pop(0)
    return _merged(made)
