"""The realised critical path: what the run's end waited for, back to its beginning.

Walking back from the last end, every attempt was released by the latest of: its last input, the
attempt whose slot it got, its own failed attempt before, or its submission (the idea of Yang and
Miller, "Critical path analysis for the execution of parallel and distributed programs", ICDCS
1988, with slots and submissions added). The segments tile the run without gap or overlap.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.flow._releases import Ran, ran
from rotameter.profiler.flow._walk import Step, Walk
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.view import view
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["KINDS", "CriticalPath", "Segment", "critical_path", "waterfall"]

KINDS = ("compute", "read", "write", "transfer", "spill", "queue", "retry", "wait_client", "other")
"""What a segment of the path was; ``queue`` = ready and not running, ``wait_client`` = not yet
submitted, ``other`` = known to be none of these, or not known."""

_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the path.

    Parameters
    ----------
    task, group, worker : str or None
        Of the attempt that ran, or that was waited for.
    kind : str, one of :data:`KINDS`
    start_s, end_s : float
        On the view's clock.
    released_by : str or None
        What let the attempt begin at ``start_s``: input, slot, retry, submission, or order (the
        end right before it, in a trace that does not say since when it waited); None where the
        segment is not the beginning of a run.
    """

    task: str | None
    group: str | None
    worker: str | None
    kind: str
    start_s: float
    end_s: float
    released_by: str | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The run as one chain of segments, in order of time.

    Parameters
    ----------
    segments : tuple of Segment
        Each begins where the one before ended; empty where the trace has no times.
    makespan_s : float or None
        Their sum; None without times.
    by_kind : dict of str to float
        Seconds a kind, of :data:`KINDS`, those of 0 s left out.
    notes : tuple of str
        What is missing, and what was placed by convention.
    """

    segments: tuple[Segment, ...]
    makespan_s: float | None
    by_kind: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give plain data."""
        return asdict(self)


def critical_path(trace: Trace) -> CriticalPath:
    """Give the realised critical path of a run; it is kept as long as the trace's view.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    CriticalPath
        Without segments where the trace has no times; ``notes`` says so.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> times = [("a", 0, 2), ("b", 3, 7)]
    >>> tasks = [{"task_id": t, "submitted_ns": 10**9, "started_ns": (1 + s) * 10**9,
    ...           "ended_ns": (1 + e) * 10**9, "outcome": "ok"} for t, s, e in times]
    >>> deps = [{"task_id": "b", "depends_on": "a"}]
    >>> path = critical_path(Trace.from_tables({"tasks": tasks, "deps": deps}))
    >>> [(s.task, s.kind, s.seconds) for s in path.segments]
    [('a', 'compute', 2.0), ('b', 'queue', 1.0), ('b', 'compute', 4.0)]
    """
    seen = view(trace)
    if "critical_path" not in seen.memo:
        seen.memo["critical_path"] = _critical_path(seen, flow_graph(trace))
    made: CriticalPath = seen.memo["critical_path"]
    return made


def _critical_path(seen: View, graph: FlowGraph) -> CriticalPath:
    makespan = seen.makespan
    if makespan is None:
        return CriticalPath((), None, {}, ("no task has times: no critical path of the run",))
    first = min(float(np.nanmin(t)) for t in (seen.submitted, seen.ready, seen.started) if known(t))
    if known(seen.ended):
        first = min(first, float(np.nanmax(seen.ended)))
    # Attempts without an end may reach beyond the last one on record.
    last = first + makespan
    runs = ran(seen, first, last)
    walk = Walk(seen, graph, runs, first, last)
    segments = [_named(seen, walk.every, piece) for piece in walk.pieces_in_time()]
    by_kind = {
        kind: fsum(s.seconds for s in segments if s.kind == kind)
        for kind in KINDS
        if any(s.kind == kind for s in segments)
    }
    return CriticalPath(tuple(segments), last - first, by_kind, _notes(seen, runs, by_kind))


def _named(seen: View, runs: Ran, piece: Step) -> Segment:
    low, high, kind, at, by = piece
    if at < 0:
        return Segment(None, None, None, kind, low, high, by)
    task, worker, group = runs.task[at], runs.worker[at], seen.group[runs.row[at]]
    return Segment(
        seen.task_ids[task] if task >= 0 else None,
        seen.groups[group] if group >= 0 else None,
        seen.workers[worker] if worker >= 0 else None,
        kind,
        low,
        high,
        None if by == "none" else by,
    )


def known(times: Any) -> bool:
    """Say whether any of these is known."""
    return not bool(np.isnan(times).all())


def _notes(seen: View, runs: Ran, by_kind: dict[str, float]) -> tuple[str, ...]:
    made = []
    blank = int((~np.isin(np.arange(seen.n), runs.row) & seen.could_measure & ~seen.nested).sum())
    if blank:
        said = many(blank, "attempt has", "attempts have")
        made.append(f"{said} no place in time: not on the path")
    if not known(seen.submitted):
        made.append("no submission times: waiting for the client cannot be told from other waits")
    if not known(seen.seconds(seen.tasks["ready_ns"])) and not len(seen.table("deps")):
        made.append("neither dependencies nor ready times: only slots and submissions release")
    if "read" in by_kind or "write" in by_kind:
        made.append("reading is put at a task's begin and writing at its end; sums are measured")
    return tuple(made)


def waterfall(path: CriticalPath, least_ratio: float = _LEAST_SHARE) -> list[dict[str, Any]]:
    """Sum the path by group and kind, for a chart: what made up the makespan.

    Parameters
    ----------
    path : CriticalPath
    least_ratio : float
        Groups below this share of the makespan are summed as ``group`` None, ``rest`` True.

    Returns
    -------
    list of dict
        ``group``, ``kind``, ``seconds``, ``ratio`` (of the makespan), ``segments`` (how many),
        ``rest``; the groups with most seconds first, kinds in the order of :data:`KINDS`. The
        seconds sum to the makespan.

    Examples
    --------
    >>> path = CriticalPath((Segment("a", "g", None, "compute", 0.0, 2.0),), 2.0)
    >>> waterfall(path)[0]["seconds"], waterfall(path)[0]["group"]
    (2.0, 'g')
    """
    total = path.makespan_s or 0.0
    parts: dict[str | None, dict[str, list[float]]] = {}
    for one in path.segments:
        parts.setdefault(one.group, {}).setdefault(one.kind, []).append(one.seconds)
    sums = {group: fsum(x for v in kinds.values() for x in v) for group, kinds in parts.items()}
    shown = [g for g in sums if g is not None and sums[g] >= least_ratio * total]
    shown.sort(key=lambda group: (-sums[group], group))
    rest: dict[str, list[float]] = {}
    for group, kinds in parts.items():
        if group not in shown:
            for kind, seconds in kinds.items():
                rest.setdefault(kind, []).extend(seconds)
    every: list[tuple[str | None, dict[str, list[float]]]] = [(g, parts[g]) for g in shown]
    return [
        {
            "group": group,
            "kind": kind,
            "seconds": fsum(kinds[kind]),
            "ratio": fsum(kinds[kind]) / total if total else None,
            "segments": len(kinds[kind]),
            "rest": group is None,
        }
        for group, kinds in [*every, (None, rest)]
        for kind in KINDS
        if kind in kinds
    ]
