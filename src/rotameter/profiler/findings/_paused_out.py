"""Workers that stood paused for memory to the end of a run that hung on them (RM120)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._pressure import pauses_of
from rotameter.profiler.findings.culprit import footprint_of
from rotameter.profiler.hang_words import never_started, paused_to_the_end, stood_still
from rotameter.profiler.view import short
from rotameter.units import format_bytes, format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.view import View

__all__ = ["paused_out"]

OWN_SIZE_RATIO = 0.5
"""From this part of the limit on, what a worker holds before any task leaves too little."""


def paused_out(seen: View) -> Finding | None:
    """Tell of a run whose last tasks never started because workers stood paused for memory.

    Dask pauses a worker at 80 % of its limit and lets it go on when memory is given back; where
    nothing gives it back the run waits for ever.
    """
    still = stood_still(seen)
    paused, of = paused_to_the_end(seen) if still is not None else ([], 0)
    if still is None or not paused:
        return None
    never, _ = never_started(seen)
    code, begin, _ = pauses_of(seen)
    since = float(begin[np.isin(code, paused)].min(initial=still[0]))
    worker, held, results, limit = _fullest(seen, paused)
    own = footprint_of(seen)
    groups = _groups(seen, paused)
    who = "The worker" if of == 1 else f"{len(paused)} of {of} workers"
    memory = "" if held is None else f" at {format_bytes(held)}"
    memory += f" of {format_bytes(limit)}" if memory and limit else ""
    return Finding(
        code="RM120",
        kind="unmanaged_memory",
        severity="critical",
        title=(
            f"{who} stood paused for memory{memory} to the end: {many(never, 'task')} never "
            f"started, and nothing ran for {format_seconds(still[1] - still[0])}"
        ),
        groups=groups,
        evidence=(
            Evidence("tasks that never started", never, "", "submitted, and no start on record"),
            Evidence("nothing ran", round(still[1] - still[0], 3), "s", "last end to the run's"),
            Evidence("first paused", round(since, 3), "s", "workers' own records, from the start"),
            Evidence("memory held", held, "B", "last reading of RSS while paused"),
            Evidence("of it results", results, "B", "what Dask knows of, at the same time"),
            Evidence("a worker's own size", own, "B", "lowest reading of RSS in the run"),
            Evidence("memory limit", limit, "B", "recorded"),
            Evidence("the worker", short(seen.workers[worker], 60), "", "where most was held"),
        ),
        cost_s=None,
        cost_how="cannot be told: the tasks that waited never started",
        confidence="high" if held is not None else "medium",
        advice=_advice(groups, held, results, own, limit),
        apply={"memory_request": {"factor": 2.0}},
    )


def _fullest(seen: View, paused: list[int]) -> tuple[int, float | None, float | None, float | None]:
    """Give the paused worker that held most at its last reading: that, its results, its limit."""
    limits = {int(life["worker"]): float(life["memory"]) for life in seen.lives}
    rows = [(_last(seen, "rss_bytes", worker), worker) for worker in paused]
    held, worker = max(rows, key=lambda row: row[0] or 0.0)
    limit = limits.get(worker, float("nan"))
    known = limit if np.isfinite(limit) and limit > 0 else None
    return worker, held, _last(seen, "managed_bytes", worker), known


def _last(seen: View, metric: str, worker: int) -> float | None:
    code, at, value = seen.samples(metric)
    mine = np.flatnonzero((code == worker) & ~np.isnan(at) & ~np.isnan(value))
    return float(value[mine[np.argmax(at[mine])]]) if mine.size else None


def _groups(seen: View, paused: list[int]) -> tuple[str, ...]:
    """Name the groups that ran on these workers, the one that ran last first."""
    rows = np.flatnonzero(seen.ran & np.isin(seen.worker, paused) & (seen.group >= 0))
    rows = rows[np.argsort(-seen.ended[rows], kind="stable")]
    codes = dict.fromkeys(seen.group[rows].tolist())
    return tuple(seen.groups[code] for code in codes)[:2]


def _advice(
    groups: tuple[str, ...],
    held: float | None,
    results: float | None,
    own: float | None,
    limit: float | None,
) -> str:
    if own is not None and limit is not None and own >= OWN_SIZE_RATIO * limit:
        return (
            "Give each worker more memory (fewer workers of the same machine): what a process "
            "holds before its first task takes most of the limit."
        )
    if held is not None and results is not None and results >= 0.5 * held:
        return (
            "Let go of results that are needed no more, or give each worker more memory: what it "
            "holds are results, and spilling did not free enough."
        )
    what = f"`{short(groups[0])}` and its libraries keep" if groups else "tasks keep"
    return (
        f"Look for what {what} between tasks (caches, module-level lists, open files) and release "
        "it. More memory only puts it off."
    )
