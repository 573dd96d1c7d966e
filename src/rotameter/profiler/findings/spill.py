"""RM105 spill: memory ran short, so that data went to disk and workers stood still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._pressure import Relieved, disk_seconds, run_span
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools, worth_saying
from rotameter.profiler.findings.culprit import enough_memory, readable, round_up
from rotameter.profiler.findings.deaths import LAST_MOMENTS_S, collect
from rotameter.profiler.findings.root_overproduction import ahead
from rotameter.profiler.findings.unmanaged_memory import owned_workers
from rotameter.profiler.occupancy import WAITING, occupancy, paused_spans, sweep
from rotameter.profiler.view import View, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor"]


class Advisor:
    """Find time lost to spilling and pauses because results did not fit."""

    name = "spill"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for spilling and pauses."""
        seen = view(trace)
        if not seen.n or ahead(seen) is not None:
            return []  # What was made too early filled memory: root_overproduction tells of it.
        workers = ~owned_workers(seen)
        workers[-1] = False
        lost = _lost(seen, workers)
        stuck = _never_ran(seen) if lost["stuck"] else None
        cost = self._cost(seen, tools, lost, workers)
        if cost is None and not stuck:
            return []
        return [self._spill(seen, lost, cost, stuck)]

    def _cost(self, seen: View, tools: Tools, lost: dict[str, float], workers: Mask) -> Cost | None:
        bound = lost["total_s"] / float(seen.slots or 1.0)
        if not worth_saying(seen, bound):
            return None
        return by_replay(
            seen,
            tools,
            Relieved(seen, workers),
            bound_s=bound,
            bound_how=_bound_how(seen),
            how="as if nothing had been written out and no worker paused",
        )

    def _spill(
        self, seen: View, lost: dict[str, float], cost: Cost | None, stuck: tuple[int, int] | None
    ) -> Finding:
        written = max(_total(seen, "spill_total_bytes"), lost["bytes"])
        most = _peak_spilled(seen)
        limits = seen.lives["memory"][~np.isnan(seen.lives["memory"])]
        limit = float(limits.max()) if limits.size else float("nan")
        needed = most if most else written
        target = None
        if np.isfinite(limit):
            step, _ = enough_memory(None, 1, limit)
            target = max(step, round_up(limit + needed / 0.6))
        paused = bool(stuck) or lost["paused_s"] > lost["disk_s"]
        # What a pause waits to be freed, and cannot be written to disk, is not a kept result.
        kept = paused and np.isfinite(limit) and needed < 0.05 * limit
        priced: dict[str, Any] = (
            cost.fields
            if cost is not None
            else {
                "cost_s": None,
                "cost_how": "cannot be told: the workers were still paused at the end",
            }
        )
        return Finding(
            code="RM105",
            kind="spill",
            severity="critical" if stuck or cost is None else cost.severity,
            title=_title(lost, written, stuck, paused),
            groups=_touched(seen),
            evidence=_evidence(lost, written, most, limit, stuck),
            **priced,
            confidence="medium",
            advice=(
                "Give workers more memory"
                + (f" (at least {format_bytes(target)} each)" if target else "")
                + (
                    ", and look for memory that tasks keep (caches, module-level lists): it is "
                    "not results, so that it cannot go to disk, and a pause does not free it."
                    if kept
                    else ", keep fewer results at a time (smaller chunks, no early persist), or "
                    "write results out as they are made."
                )
            ),
            change=f"LocalCluster(memory_limit={readable(target)!r})  # at least; was "
            f"{readable(limit)}"
            if target
            else None,
            apply={
                "memory_request": {"value": target} if target else {"factor": 1.5},
                "task_granularity": {"factor": 0.5},
                "caching": {"factor": 0.0},
            },
        )


def _bound_how(seen: View) -> str:
    return (
        f"time that workers stood paused or wrote and read spilled data, each worker's "
        f"cores waiting, over {format_number(seen.slots)} cores"
    )


def _title(
    lost: dict[str, float], written: float, stuck: tuple[int, int] | None, paused: bool
) -> str:
    if not paused:
        return (
            f"{format_bytes(written)} went to disk and back: "
            f"{format_seconds(lost['disk_s'])} of worker time"
        )
    n = int(lost["n_workers_paused"])
    who = "One worker was" if n == 1 else f"{n} workers were"
    if stuck:
        return (
            f"{stuck[0]:,} of {stuck[1]:,} tasks never ran: {who.lower()} paused to the end "
            "because memory ran short"
        )
    span = format_seconds(lost["longest_pause_s"])
    most = "for" if n == 1 else "for up to"
    return f"{who} paused {most} {span} because memory ran short"


def _evidence(
    lost: dict[str, float],
    written: float,
    most: float | None,
    limit: float,
    stuck: tuple[int, int] | None,
) -> tuple[Evidence, ...]:
    return (
        *(
            [Evidence("tasks that never ran", stuck[0], "", "submitted less ended", stuck[1])]
            if stuck
            else []
        ),
        Evidence(
            "disk time",
            round(lost["disk_s"], 3),
            "s",
            "disk records of tasks and workers' spill counters",
            int(lost["n"]),
        ),
        Evidence(
            "paused",
            round(lost["paused_s"], 3),
            "s",
            "workers' own pause records, within the run, summed over workers",
            int(lost["n_paused"]),
        ),
        Evidence("written to disk", round(written), "B", "workers' spill counters"),
        Evidence("most on disk at one time", most, "B", "sampled twice a second"),
        Evidence(
            "memory limit of a worker",
            limit if np.isfinite(limit) else None,
            "B",
            "recorded",
        ),
    )


def _union(worker: Codes, starts: Floats, ends: Floats, stride: float) -> float:
    """Give seconds covered by intervals, worker by worker, overlaps once."""
    if not len(starts):
        return 0.0
    base = float(starts.min())
    edges, levels = sweep(
        worker * stride + starts - base,
        worker * stride + ends - base,
        np.zeros(len(starts), dtype=np.int64),
        np.ones(len(starts)),
        1,
    )
    return float(np.diff(edges)[levels[:-1, 0] > 0.5].sum())


def _lost(seen: View, workers: Mask) -> dict[str, float]:
    """Add up the core-seconds that disk and pauses took."""
    disk = seen.intervals("disk")
    stride = 2 * float(seen.makespan or 0.0) + 1e4
    cores = np.ones(len(seen.workers) + 1)
    cores[seen.lives["worker"]] = np.nan_to_num(seen.lives["cores"], nan=1.0)
    known = (disk["worker"] >= 0) & workers[disk["worker"]]
    recorded = _union(disk["worker"][known], disk["start"][known], disk["end"][known], stride)
    counted = float(disk_seconds(seen)[workers].sum())
    first, last = run_span(seen)
    code, starts, ends = paused_spans(seen)
    mine = workers[code] & ~_ended_in_death(seen, code, starts, ends)
    code, starts, ends = code[mine], starts[mine], ends[mine]
    closed = float(seen.lives["ended"].max()) if len(seen.lives) else np.inf
    stuck = bool((ends >= closed - LAST_MOMENTS_S).any())
    starts, ends = np.clip(starts, first, last), np.clip(ends, first, last)
    ends = np.maximum(ends, starts)
    pauses = [
        _union(code[code == c], starts[code == c], ends[code == c], stride) for c in np.unique(code)
    ]
    # Writing and reading spilled data holds a worker's event loop: none of its cores is fed.
    disk_s = max(recorded, counted)
    mean_cores = float(np.mean(cores[seen.lives["worker"]])) if len(seen.lives) else 1.0
    # What ran meanwhile in a paused worker was not lost.
    swept = occupancy(seen)
    held = 0.0
    if swept:
        rate = swept.waiting[:, WAITING.index("paused")]
        killed = _killed(seen)
        kept = [workers[w] and w not in killed for w in seen.lives["worker"].tolist()]
        lives = seen.lives[np.array(kept, dtype=bool)]
        begin, end = (np.clip(lives[name], first, last) for name in ("started", "ended"))
        held = float(swept.integral(rate, lives["worker"], begin, end).sum())
    return {
        "disk_s": disk_s,
        "paused_s": float(np.sum(pauses)),
        "longest_pause_s": max(pauses, default=0.0),
        "n_workers_paused": len(pauses),
        "stuck": float(stuck),
        "total_s": held + disk_s * min(mean_cores, 1.0),
        "bytes": float(np.nansum(disk["bytes"])),
        "n": len(disk["start"]),
        "n_paused": len(starts),
    }


def _killed(seen: View) -> dict[int, float]:
    """Give when workers were killed for memory, by code: workers_died tells of these."""
    codes = {name: code for code, name in enumerate(seen.workers)}
    deaths = [death for death in collect(seen) if death.of_memory]
    if not any(death.executing for death in deaths):
        return {}  # No work was lost with them, so that nothing else tells of the pauses.
    return {
        codes[death.worker]: death.at_s
        for death in deaths
        if death.at_s is not None and death.worker in codes
    }


def _ended_in_death(seen: View, code: Codes, starts: Floats, ends: Floats) -> Mask:
    """Say which pauses ended with the worker's death: their cause is the death's."""
    killed = _killed(seen)
    at = np.array([killed.get(int(c), np.nan) for c in code], dtype=np.float64)
    return (starts <= at) & (at <= ends + LAST_MOMENTS_S)


def _never_ran(seen: View) -> tuple[int, int] | None:
    """Count submitted tasks that no attempt ended, of how many; None where there are none.

    Attempts done again count as ended, so that this is rather too few than too many.
    """
    counts = [event["count"] for event in seen.events("graph_submitted")]
    submitted = sum(count for count in counts if count)
    ended = int(seen.outcome_in("ok", "failed", "cached", "cancelled").sum())
    return (submitted - ended, submitted) if submitted > ended else None


def _total(seen: View, metric: str) -> float:
    """Sum the last reading of a counter over workers."""
    code, at, value = seen.samples(metric)
    good = (code >= 0) & ~np.isnan(at) & ~np.isnan(value)
    order = np.argsort(at[good], kind="stable")
    last = dict(zip(code[good][order].tolist(), value[good][order].tolist(), strict=True))
    return float(sum(last.values()))


def _peak_spilled(seen: View) -> float | None:
    """Give the most that one worker had on disk."""
    _, _, value = seen.samples("spilled_memory_bytes")
    if not value.size or np.isnan(value).all():
        _, _, value = seen.samples("spilled_bytes")
    return float(np.nanmax(value)) if value.size and not np.isnan(value).all() else None


def _touched(seen: View) -> tuple[str, ...]:
    """Name the groups whose tasks waited for disk, else those that made most."""
    named = seen.group >= 0
    for column in ("spill_s", "output_bytes"):
        value = np.nan_to_num(seen.number(column))
        sums = np.bincount(seen.group[named], value[named], minlength=len(seen.groups))
        order = [g for g in np.lexsort((np.arange(len(sums)), -sums)) if sums[g] > 0]
        if order:
            return tuple(seen.groups[g] for g in order[:3])
    return ()
