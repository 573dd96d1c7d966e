"""RM105 spill: memory ran short, so that data went to disk and workers stood still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings.base import Tools, price, severity_of, worth_saying
from rotameter.profiler.findings.culprit import enough_memory, readable, round_up
from rotameter.profiler.findings.deaths import LAST_MOMENTS_S
from rotameter.profiler.occupancy import WAITING, occupancy, paused_spans, sweep
from rotameter.profiler.view import View, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Advisor"]


class Advisor:
    """Find time lost to spilling and pauses, and memory that nothing accounts for."""

    name = "spill"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for spilling, pauses and growing unmanaged memory."""
        seen = view(trace)
        if not seen.n:
            return []
        lost = _lost(seen)
        found = []
        cost = lost["total_s"] / float(seen.slots or 1.0)
        stuck = _never_ran(seen) if lost["stuck"] else None
        if worth_saying(seen, cost) or stuck:
            found.append(self._spill(seen, lost, cost, stuck))
        growth = _unmanaged(seen)
        if growth is not None:
            found.append(growth)
        return found

    def _spill(
        self, seen: View, lost: dict[str, float], cost: float, stuck: tuple[int, int] | None
    ) -> Finding:
        written = max(_total(seen, "spill_total_bytes"), lost["bytes"])
        most = _peak_spilled(seen)
        limit = float(np.nanmax(seen.lives["memory"])) if len(seen.lives) else float("nan")
        needed = most if most else written
        target = None
        if np.isfinite(limit):
            step, _ = enough_memory(None, 1, limit)
            target = max(step, round_up(limit + needed / 0.6))
        paused = bool(stuck) or lost["paused_s"] > lost["disk_s"]
        # What a pause waits to be freed, and cannot be written to disk, is not a kept result.
        kept = paused and np.isfinite(limit) and needed < 0.05 * limit
        priced = {**price(seen, cost), "cost_how": _cost_how(seen)}
        if stuck and not worth_saying(seen, cost):
            priced = {
                "cost_s": None,
                "cost_how": "cannot be told: the workers were still paused at the end",
            }
        interval = (round(0.5 * cost, 6), round(min(2.0 * cost, seen.makespan or 0), 6))
        return Finding(
            code="RM105",
            kind="spill",
            severity="critical" if stuck else severity_of(seen, cost),
            title=_title(lost, written, stuck, paused),
            groups=_touched(seen),
            evidence=_evidence(lost, written, most, limit, stuck),
            **priced,
            cost_s_interval80=interval if priced["cost_s"] is not None else None,
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


def _cost_how(seen: View) -> str:
    return (
        f"time that workers stood paused or wrote and read spilled data, each worker's "
        f"cores waiting, over {format_number(seen.slots)} cores; an estimate"
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


def _lost(seen: View) -> dict[str, float]:
    """Add up the core-seconds that disk and pauses took."""
    disk = seen.intervals("disk")
    stride = 2 * float(seen.makespan or 0.0) + 1e4
    cores = np.ones(len(seen.workers) + 1)
    cores[seen.lives["worker"]] = np.nan_to_num(seen.lives["cores"], nan=1.0)
    known = disk["worker"] >= 0
    recorded = _union(disk["worker"][known], disk["start"][known], disk["end"][known], stride)
    counters = _total(seen, "spill_total_s") + _total(seen, "unspill_total_s")
    tasks = float(np.nansum(seen.number("spill_s")))
    first, last = _run_span(seen)
    code, starts, ends = paused_spans(seen)
    closed = float(seen.lives["ended"].max()) if len(seen.lives) else np.inf
    stuck = bool((ends >= closed - LAST_MOMENTS_S).any())
    starts, ends = np.clip(starts, first, last), np.clip(ends, first, last)
    ends = np.maximum(ends, starts)
    pauses = [
        _union(code[code == c], starts[code == c], ends[code == c], stride) for c in np.unique(code)
    ]
    # Writing and reading spilled data holds a worker's event loop: none of its cores is fed.
    disk_s = max(recorded, counters, tasks)
    mean_cores = float(np.mean(cores[seen.lives["worker"]])) if len(seen.lives) else 1.0
    # What ran meanwhile in a paused worker was not lost.
    swept = occupancy(seen)
    held = 0.0
    if swept:
        rate = swept.waiting[:, WAITING.index("paused")]
        lives = seen.lives
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


def _run_span(seen: View) -> tuple[float, float]:
    """From the first submission (or start) to the last end of a task."""
    firsts = [t for t in (seen.submitted, seen.ready, seen.started) if not np.isnan(t).all()]
    if not firsts or np.isnan(seen.ended).all():
        return -np.inf, np.inf
    return float(min(np.nanmin(t) for t in firsts)), float(np.nanmax(seen.ended))


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


def _unmanaged(seen: View) -> Finding | None:
    """Look for memory that neither results nor running tasks explain, and that keeps growing."""
    code, at, rss = seen.samples("rss_bytes")
    managed_code, managed_at, managed = seen.samples("managed_bytes")
    if at.size < 20 or managed_at.size < 20:
        return None
    worst: tuple[float, int, float, int] | None = None
    limits = {int(life["worker"]): float(life["memory"]) for life in seen.lives}
    for worker in np.unique(code[code >= 0]):
        mine = (code == worker) & ~np.isnan(at) & ~np.isnan(rss)
        theirs = (managed_code == worker) & ~np.isnan(managed_at)
        if mine.sum() < 20 or theirs.sum() < 2:
            continue
        order = np.argsort(at[mine], kind="stable")
        t, r = at[mine][order], rss[mine][order]
        place = np.argsort(managed_at[theirs], kind="stable")
        free = r - np.interp(t, managed_at[theirs][place], managed[theirs][place])
        # The lows of each tenth: running tasks make peaks, a leak lifts the floor.
        floors = np.array([part.min() for part in np.array_split(free, 10)])
        grown = float(floors[-1] - floors[1])
        steady = float(np.corrcoef(np.argsort(np.argsort(floors)), np.arange(10))[0, 1])
        limit = limits.get(int(worker), np.nan)
        big = grown > 0.2 * limit if np.isfinite(limit) else grown > 1e9
        if steady >= 0.9 and big and (worst is None or grown > worst[0]):
            worst = (grown, int(worker), float(t[-1] - t[0]), int(mine.sum()))
    if worst is None:
        return None
    grown, worker, span, n = worst
    limit = limits.get(worker, float("nan"))
    return Finding(
        code="RM105",
        kind="unmanaged_memory",
        severity="warning",
        title=(
            f"Memory that no result explains grew by {format_bytes(grown)} in "
            f"{format_seconds(span)} on one worker"
        ),
        evidence=(
            Evidence("growth", round(grown), "B", "lows of RSS less managed, tenth by tenth", n),
            Evidence("memory limit", limit if np.isfinite(limit) else None, "B", "recorded"),
        ),
        cost_s=None,
        cost_how="no time was lost yet; at this pace the limit is reached",
        confidence="medium",
        advice=(
            "Release what tasks keep (caches, open files, module-level lists); if it is the "
            "allocator, have it give memory back sooner."
        ),
        change="MALLOC_TRIM_THRESHOLD_=65536 MALLOC_ARENA_MAX=2  # in the workers' environment",
    )
