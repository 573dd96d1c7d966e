"""RM112 scheduler_bound: workers idle while tasks could run, as the scheduler is busy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.findings._cores import (
    controller,
    host_cores,
    neighbours,
    threads_of,
)
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.findings.large_graph import shipments
from rotameter.profiler.findings.tiny_tasks import (
    LONGEST_S,
    USUAL_OVERHEAD_S,
    unused_while_ready,
)
from rotameter.profiler.occupancy import ready_times
from rotameter.profiler.replaying.changes import Cap
from rotameter.profiler.replaying.intervals import covered
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.view import View, view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "Load", "load"]

FEWEST = 30
SLOW_TRIP_S = 4 * USUAL_OVERHEAD_S
"""The engine's own work on a task takes a quarter of this: more is somebody else's."""

SLOW_GRAPH_S = 4e-3
"""Taking in one task of a graph takes a scheduler a tenth of a millisecond to one."""

SLOWER_GRAPH_S = 2e-3
"""Twice that is slow already where its process computed meanwhile."""

SOME_CORES = 0.3
"""A scheduler whose process computed less than this had time, unless something blocks it."""

USUAL_GRAPH_S = 1e-3

BUSY_CORES = 0.7
"""A scheduler's loop is one thread: from here on it has no time left for what comes."""

COMPUTING = 0.5
"""Tasks that computed less than this part of their time waited for something else than a core."""

_DELAYS = np.array([PARTS.index(n) for n in ("overhead", "latency", "stall", "wait")])
_TRANSFER = PARTS.index("transfer")


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the scheduler was.

    Attributes
    ----------
    delay_s : float
        Time of cores that ran nothing while tasks were ready, for each task.
    graph_s : float or None
        Median time to take in one task of a graph, of large graphs where there are any.
    of_large : bool
        It is: in it a graph's own costs and a moment's wait for a core do not count.
    shipped : bool
        Graphs full of data came, which explains a busy process.
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
    of_large: bool
    shipped: bool
    cores: float | None
    cpu_s: float | None
    wall_s: float
    n: int

    @property
    def busy(self) -> bool:
        """Whether the scheduler, and not the tasks' number alone, made tasks wait."""
        computes = (self.cores or 0.0) >= SOME_CORES
        slow_s = SLOWER_GRAPH_S if computes else SLOW_GRAPH_S
        slow = (self.graph_s or 0.0) >= slow_s and (computes or self.of_large)
        full = self.cores is not None and self.cores >= BUSY_CORES and not self.shipped
        # Tiny tasks keep any scheduler busy: that is their own cost.
        full = full and ((self.cpu_s or 0.0) >= SLOW_TRIP_S or self.wall_s > LONGEST_S)
        return self.n >= FEWEST and self.delay_s >= SLOW_TRIP_S and (slow or full)


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """The scheduler hands out each task in the usual time.

    Attributes
    ----------
    gap_ratio : float
        What is left of the time between submissions, which it takes in one after the other.
    moving_s : ndarray of float64, shape (n_attempts,), or None
        Seconds in which inputs really came, by attempt; None where that is not on record.
    """

    gap_ratio: float
    moving_s: Floats | None = None

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        parts = model.parts_s.copy()
        nodes = ~model.gate
        if self.moving_s is not None:
            # A worker asks for an input when it is told of the task: till then the scheduler was.
            most = np.where(model.row >= 0, self.moving_s[model.row], np.inf)
            parts[:, _TRANSFER] = np.minimum(parts[:, _TRANSFER], most)
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
        total = found.delay_s * found.n
        if not worth_saying(seen, total / max(1.0, seen.slots or 1.0)):
            return []
        keep = min(1.0, USUAL_GRAPH_S / max(found.graph_s or 0.0, USUAL_GRAPH_S))
        moving = _moving(seen)
        given_back = _crowded_out(seen, found)
        cost = by_replay(
            seen,
            tools,
            Prompt(keep, moving),
            *([] if given_back is None else [Cap(None, "wall", given_back)]),
            bound_s=total / max(1.0, seen.slots or 1.0),
            bound_how="time of cores that ran nothing while tasks were ready, over all cores",
            how=f"as if each task were handed out in {format_seconds(USUAL_OVERHEAD_S)}, as usual"
            + ("" if given_back is None else ", and the scheduler took no core from the tasks"),
        )
        return [] if cost is None else [self._finding(seen, model, found, cost)]

    def _finding(self, seen: View, model: Model, found: Load, cost: Cost) -> Finding:
        nodes = ~model.gate
        n = int(nodes.sum())
        total = found.delay_s * found.n
        delays = model.parts_s[np.ix_(nodes, _DELAYS)].sum(axis=1)
        sums = np.bincount(
            model.group[nodes][model.group[nodes] >= 0],
            delays[model.group[nodes] >= 0],
            minlength=len(model.groups),
        )
        groups = tuple(model.groups[g] for g in np.argsort(-sums, kind="stable")[:3] if sums[g] > 0)
        return Finding(
            code="RM112",
            kind="scheduler_bound",
            severity=cost.severity,
            title=(
                f"Cores ran nothing for {format_seconds(found.delay_s)} a task though tasks "
                "were ready: the scheduler was busy"
            ),
            groups=groups,
            evidence=(
                Evidence(
                    "delay of a task",
                    round(found.delay_s, 6),
                    "s",
                    "time of cores that ran nothing while tasks were ready, over the tasks",
                    n,
                ),
                Evidence("such time in all", round(total, 3), "s", "summed over cores", n),
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


def load(seen: View, tools: Tools) -> Load | None:
    """Measure the scheduler's load; None where the run cannot be replayed."""
    if "scheduler load" in seen.memo:
        kept: Load | None = seen.memo["scheduler load"]
        return kept
    model = tools.replay.model if tools.replay is not None else None
    if model is None:
        return None
    made = _load(seen, model)
    seen.memo["scheduler load"] = made
    return made


def _moving(seen: View) -> Floats | None:
    """Give how long inputs came to each attempt's worker between its being ready and its start.

    None where no transfer is on record.
    """
    moves = seen.intervals("transfer")
    if not len(moves["start"]):
        return None
    begun = np.nan_to_num(seen.started)
    ready = np.zeros(seen.n)
    ready[seen.ran] = ready_times(seen, seen.ran)[0]
    return covered(moves["worker"], moves["start"], moves["end"], seen.worker, ready, begun)


def _crowded_out(seen: View, found: Load) -> Floats | None:
    """Give the time that attempts would take if the scheduler had not taken their cores.

    On a machine whose workers may use all of its cores, each second that the scheduler computes is
    one that a task waits for a core: what tasks that compute lost is the scheduler's but for the
    part that it always takes. NaN = as it was; None = nothing was taken.
    """
    host = _controller_host(seen, "process_cpu_cores")
    if host is None or found.cpu_s is None or found.cpu_s <= USUAL_OVERHEAD_S:
        return None
    table = seen.table("workers")
    hosts = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    mine = np.array([hosts.get(name) == host for name in [*seen.workers, ""]])
    with np.errstate(invalid="ignore"):
        crowded = mine & (neighbours(seen) * threads_of(seen) + 1.0 > host_cores(seen))
        own = seen.number("cpu_s") + np.nan_to_num(seen.number("io_s"))
        lost = seen.wall - own
        rows = seen.ran & crowded[seen.worker] & (own >= COMPUTING * seen.wall) & (lost > 0)
    if not rows.any():
        return None
    extra_s = (found.cpu_s - USUAL_OVERHEAD_S) * found.n
    share = min(1.0 - USUAL_OVERHEAD_S / found.cpu_s, extra_s / float(lost[rows].sum()))
    return np.where(rows, seen.wall - share * lost, np.nan)


def _controller_host(seen: View, metric: str) -> str | None:
    """Give the machine of the processes that are no workers; None where it is not on record.

    They are named by machine and process number; None too where they are on several.
    """
    table = seen.table("samples")
    rows = table.filter(pc.equal(table["metric"], metric))
    others = set(rows["subject"].to_pylist()) - set(seen.workers) - {None}
    hosts = {name.rpartition("-")[0] for name in others}
    known = set(seen.table("workers")["host"].to_pylist()) - {None}
    return hosts.pop() if len(hosts) == 1 and hosts <= known else None


def _load(seen: View, model: Model) -> Load:
    nodes: Mask = ~model.gate
    each = [
        (float(e["duration_s"]) / int(e["count"]), int(e["count"]))
        for e in seen.events("graph_submitted")
        if e["count"] and e["duration_s"] is not None
    ]
    graph = None
    large = [(s, count) for s, count in each if count >= FEWEST]
    each = large or each
    if sum(count for _, count in each) >= FEWEST:
        graph = float(np.median(np.repeat([s for s, _ in each], [n for _, n in each])))
    at, cpu = controller(seen, "process_cpu_cores")
    inside = (at >= 0) & (at <= (seen.makespan or 0.0))
    cores = float(np.median(cpu[inside])) if inside.any() else None
    n = int(nodes.sum())
    # Not the median: what a worker was given beforehand begins at once, and who waits are the rest.
    delay_s = unused_while_ready(seen, seen.ran) / n if n else 0.0
    cpu_s = None if cores is None or not n else float(cpu[inside].mean()) * (seen.makespan or 0) / n
    wall_s = float(np.median(model.wall_s[nodes])) if n else 0.0
    return Load(delay_s, graph, bool(large), bool(shipments(seen)), cores, cpu_s, wall_s, n)


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
