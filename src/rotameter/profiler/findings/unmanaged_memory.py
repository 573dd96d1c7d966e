"""RM120 unmanaged_memory: memory that no result explains fills workers, and stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._paused_out import paused_out
from rotameter.profiler.findings._pressure import Relieved, Retained, pauses_of, retained
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_bytes, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor", "owned_workers"]

_TRIM = "MALLOC_TRIM_THRESHOLD_=65536 MALLOC_ARENA_MAX=2  # in the workers' environment"
FEWEST = 20


class Advisor:
    """Find workers that memory fills of which the engine does not know."""

    name = "unmanaged_memory"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for workers held up by unmanaged memory, and for such that grows."""
        seen = view(trace)
        if not seen.n:
            return []
        if (hung := paused_out(seen)) is not None:
            return [hung]
        owned = owned_workers(seen)
        if owned.any():
            made = _held_up(seen, tools, owned)
            if made is not None:
                return [made]
        growth = _growth(seen)
        return [growth] if growth is not None else []


def owned_workers(seen: View) -> Mask:
    """Say which workers ran short because of memory that no result explains.

    Returns
    -------
    ndarray of bool, shape (n_workers + 1,)
    """
    made = np.zeros(len(seen.workers) + 1, dtype=bool)
    for worker, kept in retained(seen).items():
        made[worker] = kept.owns
    return made


def _held_up(seen: View, tools: Tools, owned: Mask) -> Finding | None:
    code, begin, end = pauses_of(seen)
    mine = owned[code]
    paused = float((end - begin)[mine].sum())
    longest = float((end - begin)[mine].max()) if mine.any() else 0.0
    cost: Cost | None = by_replay(
        seen,
        tools,
        Relieved(seen, owned),
        bound_s=longest,
        bound_how="the longest pause",
        how="as if these workers had not been paused and had written nothing out",
    )
    if cost is None:
        return None
    worst: Retained = max(retained(seen).values(), key=lambda kept: kept.bytes)
    groups = _groups(seen, owned)
    who = "One worker" if int(owned.sum()) == 1 else f"{int(owned.sum())} workers"
    held = f" and stood paused for {format_seconds(longest)}" if longest else ""
    return Finding(
        code="RM120",
        kind="unmanaged_memory",
        severity=cost.severity,
        title=(
            f"{who} held {format_bytes(worst.bytes)} that no result explains, of "
            f"{format_bytes(worst.limit)}{held}"
        ),
        groups=groups,
        evidence=(
            Evidence(
                "memory that no result explains",
                round(worst.bytes),
                "B",
                "low readings of RSS less results and the worker's own size, while short of memory",
                worst.n,
            ),
            Evidence("memory limit", worst.limit, "B", "recorded"),
            Evidence(
                "paused", round(paused, 3), "s", "workers' own records, summed", int(mine.sum())
            ),
            Evidence(
                "the worker", short(seen.workers[worst.worker], 60), "", "where most was held"
            ),
        ),
        **cost.fields,
        confidence="high" if worst.n >= 3 and mine.any() else "medium",
        advice=(
            "Look for what "
            + (f"`{short(groups[0])}` and its libraries keep" if groups else "tasks keep")
            + " between tasks (caches, module-level lists, open files) and release it; if it is "
            "the allocator, have it give memory back sooner. More memory only puts it off."
        ),
        change=_TRIM if is_dask(seen.meta) else None,
        apply={"memory_request": {"factor": 2.0}},
    )


def _groups(seen: View, owned: Mask) -> tuple[str, ...]:
    """Name the groups that ran on these workers, those with most time first."""
    rows = np.flatnonzero(seen.ran & owned[seen.worker] & (seen.worker >= 0) & (seen.group >= 0))
    code, begin, _ = pauses_of(seen)
    first = {int(w): float(b) for w, b in zip(code[::-1], begin[::-1], strict=True)}
    until = np.array([first.get(int(w), np.inf) for w in seen.worker[rows]])
    rows = rows[seen.started[rows] <= until]
    # What ran shortly before memory ran out weighs most; a group of many early tasks less.
    sums = np.bincount(seen.group[rows], seen.wall[rows], minlength=len(seen.groups))
    last = np.full(len(seen.groups), -np.inf)
    np.maximum.at(last, seen.group[rows], seen.started[rows])
    order = [int(g) for g in np.lexsort((-sums, -last)) if sums[g] > 0]
    return tuple(seen.groups[g] for g in order[:2])


def _growth(seen: View) -> Finding | None:
    """Look for memory that neither results nor running tasks explain, and that keeps growing."""
    code, at, rss = seen.samples("rss_bytes")
    managed_code, managed_at, managed = seen.samples("managed_bytes")
    if at.size < FEWEST or managed_at.size < FEWEST:
        return None
    worst: tuple[float, int, float, int] | None = None
    limits = {int(life["worker"]): float(life["memory"]) for life in seen.lives}
    for worker in np.unique(code[code >= 0]):
        mine = (code == worker) & ~np.isnan(at) & ~np.isnan(rss)
        theirs = (managed_code == worker) & ~np.isnan(managed_at)
        if mine.sum() < FEWEST or theirs.sum() < 2:
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
        code="RM120",
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
        change=_TRIM,
    )
