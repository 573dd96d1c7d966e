"""RM102 tiny_tasks: tasks so short that the engine's cost of running each one dominates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import host_cores, neighbours, threads_of
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools, group_median, worth_saying
from rotameter.profiler.occupancy import ready_times, timeline
from rotameter.profiler.open_ends import complete
from rotameter.profiler.replaying.changes import Cap, Scale
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "could_matter", "scheduler_busy", "unused_while_ready"]

USUAL_OVERHEAD_S = 0.0014
"""CPU seconds that Dask spends on one task (scheduler and worker), measured on 2 cores."""

TIMES_OVERHEAD = 10
TARGET_OVERHEADS = 25
"""What is advised: at most a twenty-fifth is left."""

MIN_TASKS = 50
MOST_OVERHEAD_S = 0.015
"""More than this a task is not what running a task costs: it waited for something else."""

COMPUTING = 0.5
"""Tasks that computed less than this part of their time waited for something else than a core."""

LONGEST_S = TIMES_OVERHEAD * 2 * USUAL_OVERHEAD_S
"""No task longer than this is tiny, however slow the engine."""


def unused_while_ready(seen: View, rows: Mask) -> float:
    """Integrate cores that ran nothing while these attempts were ready and had not begun.

    Returns
    -------
    float
        Core-seconds: never more than the free cores, nor than the tasks that could use them.
    """
    line = timeline(seen)
    if line is None:
        return 0.0
    return float(np.minimum(line.free, line.count(*ready_times(seen, rows & seen.ran))) @ line.dt)


def could_matter(seen: View, rows: Mask) -> Floats:
    """Give each group's upper bound of :func:`unused_while_ready` over some attempts, cheaply."""
    line = timeline(seen)
    if line is None:
        return np.zeros(len(seen.groups))
    waited = line.integral((line.free > 0).astype(np.float64), *ready_times(seen, rows))
    return np.asarray(
        np.bincount(seen.group[rows], waited, minlength=len(seen.groups)), dtype=np.float64
    )


class Advisor:
    """Find groups whose tasks are so short that overhead dominates."""

    name = "tiny_tasks"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for tiny tasks."""
        seen = view(trace)
        if not seen.ran.any():
            return []
        good = seen.ran & complete(seen) & (seen.group >= 0)
        median = group_median(seen, seen.wall, good)
        count = np.bincount(seen.group[good], minlength=len(seen.groups) + 1)
        if seen.slots is None:
            small = (count[:-1] >= MIN_TASKS) & (median[:-1] < TIMES_OVERHEAD * USUAL_OVERHEAD_S)
            if seen.meta.get("engine") not in (None, "python") and small.any():
                tools.cannot_tell(
                    "what tiny tasks cost", "no worker's life and cores were recorded"
                )
            return []
        bound = could_matter(seen, good) / seen.slots
        suspects = np.flatnonzero(
            (count[:-1] >= MIN_TASKS) & (median[:-1] < LONGEST_S) & worth_saying(seen, bound)
        )
        if suspects.size and scheduler_busy(seen, tools):
            return []  # Each of them waits for what keeps the scheduler busy, not for its like.
        held = _held_back(trace, suspects)
        found = [
            self._group(seen, tools, int(g), good, held.get(seen.groups[g], 0.0))
            for g in suspects
            # Tasks shorter than what running one costs are tiny, queued or not.
            if seen.groups[g] not in held or median[g] < USUAL_OVERHEAD_S
        ]
        return [finding for finding in found if finding is not None]

    def _group(
        self, seen: View, tools: Tools, group: int, good: Mask, held_s: float
    ) -> Finding | None:
        """Price one group, less what a setting of the scheduler is already said to cost it."""
        rows = good & (seen.group == group)
        n = int(rows.sum())
        median_s = float(np.median(seen.wall[rows]))
        lost = unused_while_ready(seen, rows)
        slots = float(seen.slots or 1.0)
        overhead_s = min(lost / n, MOST_OVERHEAD_S)
        lost = overhead_s * n
        limit_s = min(TIMES_OVERHEAD * max(overhead_s, USUAL_OVERHEAD_S / 2), LONGEST_S)
        cost = lost / slots
        if not 0 <= median_s < limit_s or not worth_saying(seen, cost):
            return None
        target_s = TARGET_OVERHEADS * max(overhead_s, USUAL_OVERHEAD_S)
        factor = max(2, math.ceil(target_s / max(median_s, USUAL_OVERHEAD_S / 20)))
        factor = min(factor, max(2, n // max(2, math.ceil(4 * slots))))
        made = self._cost(seen, tools, rows, factor, lost, held_s)
        if made is None:
            return None
        label = seen.label(group)
        return Finding(
            code="RM102",
            kind="tiny_tasks",
            severity=made.severity,
            title=(
                f"{n:,} tasks of {label} take {format_seconds(median_s)} each; "
                f"running one costs another {format_seconds(overhead_s)}"
            ),
            groups=(seen.groups[group],),
            evidence=(
                Evidence("tasks", n, "", "counted", n),
                Evidence("median duration", round(median_s, 6), "s", "measured", n),
                Evidence(
                    "overhead a task",
                    round(overhead_s, 6),
                    "s",
                    "cores free while a task of the group was ready, divided by its tasks, at most "
                    f"{format_seconds(MOST_OVERHEAD_S)}",
                    n,
                ),
                Evidence("slots", slots, "cores", "workers' recorded cores", len(seen.lives)),
            ),
            **made.fields,
            confidence="high" if n >= 4 * MIN_TASKS else "medium",
            advice=(
                f"Do about {factor} times as much in one task: larger chunks or partitions, or "
                "batch the calls. Fewer, longer tasks give the same result with less overhead."
            ),
            change=(
                f"parts = list(tlz.partition_all({factor}, items)); "
                f"client.map(lambda xs: [f(x) for x in xs], parts)  # or chunks {factor}x larger"
                if is_dask(seen.meta)
                else None
            ),
            apply={"task_granularity": {"factor": float(factor)}},
        )

    def _cost(
        self, seen: View, tools: Tools, rows: Mask, factor: int, lost: float, held_s: float
    ) -> Cost | None:
        slots = float(seen.slots or 1.0)
        cost = lost / slots
        return by_replay(
            seen,
            tools,
            # The engine's work on a task is done once for all that it does; what trickles out of
            # a queue at the rate of single tasks does so no more.
            Scale(rows, "overhead", 1.0 / factor),
            # What gathers their results waits behind those of them that are still to run.
            Scale(rows | behind(seen, rows), "wait", 0.0),
            # Among so short tasks the engine's own threads want cores and interpreter all the
            # time; within a longer one they do not.
            Cap(rows, "wall", _undisturbed(seen, rows)),
            bound_s=max(0.0, cost * (1 - 1 / factor) - held_s),
            bound_how=(
                f"{format_seconds(lost)} of core time free while tasks were ready, over "
                f"{format_number(slots)} cores, less 1/{factor} that stays"
            ),
            how=f"as if each task did the work of {factor}"
            + (", beside what the scheduler's queue costs" if held_s else ""),
            most_s=max(0.0, cost - held_s) if held_s else math.inf,
        )


def behind(seen: View, rows: Mask) -> Mask:
    """Say which attempts need a result of the group and began before all of it was done."""
    mine = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    mine[seen.task[rows]] = True
    task, on = seen.deps
    needs = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    needs[task[(task >= 0) & (on >= 0) & mine[on]]] = True
    with np.errstate(invalid="ignore"):
        made: Mask = seen.ran & needs[seen.task] & (seen.ready < seen.ended[rows].max())
    return made


def _undisturbed(seen: View, rows: Mask) -> Floats:
    """Give the time that each attempt would take in a long task; the median where CPU is unknown.

    One that computes takes its CPU time, where its mates leave it a core; shape (n,).
    """
    crowd = neighbours(seen) * threads_of(seen) / host_cores(seen)
    crowd = np.fmax(np.nan_to_num(crowd, nan=1.0), 1.0)[seen.worker]
    own = seen.number("cpu_s") * crowd + np.nan_to_num(seen.number("io_s"))
    with np.errstate(invalid="ignore"):
        computing = own >= COMPUTING * seen.wall
    return np.where(rows, np.where(computing, own, np.median(seen.wall[rows])), np.nan)


def _held_back(trace: Trace, suspects: Codes) -> dict[str, float]:
    """Give the groups that a setting of the scheduler holds back, and what that costs each."""
    from rotameter.profiler.findings.latency_bound_roots import Advisor as Held

    if not suspects.size:
        return {}
    found = Held().check(trace, Tools())
    return {name: finding.cost_s or 0.0 for finding in found for name in finding.groups}


def scheduler_busy(seen: View, tools: Tools) -> bool:
    """Say whether something else keeps the scheduler busy, so that all tasks wait for it."""
    from rotameter.profiler.findings.scheduler_bound import load

    found = load(seen, tools)
    return found is not None and found.busy
