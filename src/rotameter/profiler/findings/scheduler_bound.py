"""RM112 scheduler_bound: workers idle while tasks could run, as the scheduler is busy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import controller
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.findings.tiny_tasks import LONGEST_S, USUAL_OVERHEAD_S
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.view import View, view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor", "Load", "load"]

FEWEST = 30
SLOW_TRIP_S = 4 * USUAL_OVERHEAD_S
"""The engine's own work on a task takes a quarter of this: more is somebody else's."""

SLOW_GRAPH_S = 4e-3
"""Taking in one task of a graph takes a scheduler a tenth of a millisecond to one."""

USUAL_GRAPH_S = 1e-3

BUSY_CORES = 0.7
"""A scheduler's loop is one thread: from here on it has no time left for what comes."""

_DELAYS = np.array([PARTS.index(n) for n in ("overhead", "latency", "stall", "wait")])


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the scheduler was.

    Attributes
    ----------
    delay_s : float
        Median delay of a task that nothing else explains.
    graph_s : float or None
        Median time to take in one task of a graph.
    cores : float or None
        CPU of the scheduler's process while tasks ran, median.
    cpu_s : float or None
        CPU of the scheduler's process for each task.
    wall_s : float
        Median duration of a task.
    n : int
        Tasks.
    """

    delay_s: float
    graph_s: float | None
    cores: float | None
    cpu_s: float | None
    wall_s: float
    n: int

    @property
    def busy(self) -> bool:
        """Whether the scheduler, and not the tasks' number alone, made tasks wait."""
        slow = self.graph_s is not None and self.graph_s >= SLOW_GRAPH_S
        full = self.cores is not None and self.cores >= BUSY_CORES
        # Tiny tasks keep any scheduler busy: that is their own cost.
        full = full and ((self.cpu_s or 0.0) >= SLOW_TRIP_S or self.wall_s > LONGEST_S)
        return self.n >= FEWEST and self.delay_s >= SLOW_TRIP_S and (slow or full)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The scheduler hands out each task in the usual time.

    Attributes
    ----------
    gap_ratio : float
        What is left of the time between submissions, which it takes in one after the other.
    """

    gap_ratio: float

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        parts = model.parts_s.copy()
        nodes = ~model.gate
        delay = parts[np.ix_(nodes, _DELAYS)].sum(axis=1)
        keep = np.minimum(1.0, USUAL_OVERHEAD_S / np.maximum(delay, USUAL_OVERHEAD_S))
        parts[np.ix_(nodes, _DELAYS)] *= keep[:, None]
        parts[model.gate] *= self.gap_ratio
        return replace(model, parts_s=parts)


class Advisor:
    """Find runs whose workers waited for the scheduler."""

    name = "scheduler_bound"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for a busy scheduler."""
        seen = view(trace)
        if seen.meta.get("engine") not in _ENGINES or tools.replay is None:
            return []
        model = tools.replay.model
        if model is None:
            return []
        found = load(seen, tools)
        if found is None or not found.busy:
            return []
        nodes = ~model.gate
        delays = model.parts_s[np.ix_(nodes, _DELAYS)].sum(axis=1)
        total = float(delays.sum())
        if not worth_saying(seen, total / max(1.0, seen.slots or 1.0)):
            return []
        keep = min(1.0, USUAL_GRAPH_S / max(found.graph_s or 0.0, USUAL_GRAPH_S))
        cost = by_replay(
            seen,
            tools,
            Prompt(keep),
            bound_s=total / max(1.0, seen.slots or 1.0),
            bound_how="delays of tasks that nothing else explains, over all cores",
            how=f"as if each task were handed out in {format_seconds(USUAL_OVERHEAD_S)}, as usual",
        )
        if cost is None:
            return []
        n = int(nodes.sum())
        sums = np.bincount(
            model.group[nodes][model.group[nodes] >= 0],
            delays[model.group[nodes] >= 0],
            minlength=len(model.groups),
        )
        groups = tuple(model.groups[g] for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0)
        return [
            Finding(
                code="RM112",
                kind="scheduler_bound",
                severity=cost.severity,
                title=(
                    f"Tasks waited {format_seconds(found.delay_s)} each for the scheduler, though "
                    "cores were free and their inputs there"
                ),
                groups=groups,
                evidence=(
                    Evidence(
                        "delay of a task",
                        round(found.delay_s, 6),
                        "s",
                        "median of start less inputs, transfers and a free core",
                        n,
                    ),
                    Evidence("such delays in all", round(total, 3), "s", "summed", n),
                    *_load_evidence(seen, found),
                ),
                **cost.fields,
                confidence="high" if (found.graph_s or 0.0) >= 2 * SLOW_GRAPH_S else "medium",
                advice=(
                    "Find what keeps the scheduler's loop busy: plug-ins and callbacks that "
                    "compute at each transition, a profiler, a client in the same process that "
                    "holds Python's lock; then fewer, larger tasks."
                ),
                change=(
                    "client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.plugins))"
                    "  # what hooks into it; unregister what computes"
                ),
                apply={"task_granularity": {"factor": 4.0}},
            )
        ]


def load(seen: View, tools: Tools) -> Load | None:
    """Measure the scheduler's load; None where the run cannot be replayed."""
    if "scheduler load" in seen.memo:
        kept: Load | None = seen.memo["scheduler load"]
        return kept
    model = tools.replay.model if tools.replay is not None else None
    made = None if model is None else _load(seen, model)
    seen.memo["scheduler load"] = made
    return made


def _load(seen: View, model: Model) -> Load:
    nodes: Mask = ~model.gate
    delays = model.parts_s[np.ix_(nodes, _DELAYS)].sum(axis=1)
    each = [
        (float(e["duration_s"]) / int(e["count"]), int(e["count"]))
        for e in seen.events("graph_submitted")
        if e["count"] and e["duration_s"] is not None
    ]
    graph = None
    if sum(count for _, count in each) >= FEWEST:
        graph = float(np.median(np.repeat([s for s, _ in each], [n for _, n in each])))
    at, cpu = controller(seen, "process_cpu_cores")
    inside = (at >= 0) & (at <= (seen.makespan or 0.0))
    cores = float(np.median(cpu[inside])) if inside.any() else None
    # Quick and slow ones alike: a scheduler that is busy delays nearly every task.
    n = int(nodes.sum())
    cpu_s = None if cores is None or not n else float(cpu[inside].mean()) * (seen.makespan or 0) / n
    wall_s = float(np.median(model.wall_s[nodes])) if n else 0.0
    return Load(float(np.median(delays)) if n else 0.0, graph, cores, cpu_s, wall_s, n)


def _load_evidence(seen: View, found: Load) -> tuple[Evidence, ...]:
    made = []
    if found.graph_s is not None:
        made.append(
            Evidence("time to take in a task of a graph", round(found.graph_s, 6), "s",
                     "median over tasks of duration / tasks of the graphs", found.n)
        )  # fmt: skip
    if found.cores is not None:
        made.append(
            Evidence("CPU of the scheduler's process", round(found.cores, 3), "cores",
                     "median of samples; the client may share it")
        )  # fmt: skip
    if found.cpu_s is not None:
        made.append(
            Evidence("its CPU time for each task", round(found.cpu_s, 6), "s",
                     f"mean; usual: below {format_seconds(USUAL_OVERHEAD_S)}", found.n)
        )  # fmt: skip
    return tuple(made)


_ENGINES = ("dask", "distributed")
