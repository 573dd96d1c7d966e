"""RM115 cold_first_task: the first task on each worker does what the later ones find done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._likes import comparable, grown_with, long_ones, together
from rotameter.profiler.findings._replayed import by_replay
from rotameter.profiler.findings.base import OUTLIER, Tools, worth_saying
from rotameter.profiler.findings.uneven_workers import slow_workers
from rotameter.profiler.replaying.changes import Cap
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "cold_attempts"]

MOST_WORKERS = 0.75
"""What happens on fewer of the workers than this is no matter of being first."""

FEWEST_LATER = 3


class Advisor:
    """Find groups whose first task on each worker is far longer than the later ones."""

    name = "cold_first_task"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for what each worker pays once."""
        seen = view(trace)
        cold, warm_s = cold_attempts(seen)
        if not cold.any():
            return []
        extra = np.where(cold, seen.wall - warm_s, 0.0)
        if not worth_saying(seen, float(extra.sum())):
            return []
        cost = by_replay(
            seen,
            tools,
            Cap(cold, "wall", np.where(cold, warm_s, np.nan)),
            bound_s=float(extra.max()),
            bound_how="the longest of these first tasks, less the median of the later ones",
            how="as if first tasks took as long as the later ones on the same worker",
        )
        if cost is None:
            return []
        sums = np.bincount(seen.group[cold], extra[cold], minlength=len(seen.groups))
        groups = [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]
        workers = len(np.unique(seen.worker[cold]))
        label = seen.label(groups[0])
        top, usual = float(np.median(seen.wall[cold])), float(np.median(warm_s[cold]))
        return [
            Finding(
                code="RM115",
                kind="cold_first_task",
                severity=cost.severity,
                title=(
                    f"The first {label} on each of {workers} workers took {format_seconds(top)}, "
                    f"later ones {format_seconds(usual)}"
                ),
                groups=tuple(seen.groups[g] for g in groups[:3]),
                evidence=_evidence(seen, cold, extra, groups, workers),
                **cost.fields,
                confidence="high" if workers >= 2 else "medium",
                advice=(
                    "Do what the first task does once (imports, tables, models, compilation) "
                    "before the work: at the worker's start, or ship what is built. Fewer, larger "
                    "workers pay it less often."
                ),
                change=(
                    "client.register_plugin(Warm())  # a WorkerPlugin whose setup() builds it; "
                    "or: dask worker --preload warm.py"
                    if is_dask(seen.meta)
                    else None
                ),
                apply={"caching": {"value": True}},
            )
        ]


def cold_attempts(seen: View) -> tuple[Mask, Floats]:
    """Find attempts that were first on their worker and long for that.

    Returns
    -------
    cold : ndarray of bool, shape (n,)
    warm_s : ndarray of float64, shape (n,)
        What attempts of the group take later.
    """
    if "cold" in seen.memo:
        kept: tuple[Mask, Floats] = seen.memo["cold"]
        return kept
    rows = comparable(seen) & (seen.worker >= 0)
    cold = np.zeros(seen.n, dtype=bool)
    warm = np.full(seen.n, np.nan)
    if rows.any():
        slow = slow_workers(seen).is_[seen.worker]
        first = _firsts(seen, rows, seen.group)
        _judge(seen, rows, first, slow, cold, warm, by_group=True)
        _judge(seen, rows, _firsts(seen, rows, None), slow, cold, warm, by_group=False)
    seen.memo["cold"] = (cold, warm)
    return cold, warm


def _firsts(seen: View, rows: Mask, group: Codes | None) -> Mask:
    """Say which attempts began on their worker before one (of the group) had ended there."""
    width = len(seen.workers)
    key = np.where(rows, seen.worker if group is None else group * width + seen.worker, -1)
    _, cell = np.unique(key, return_inverse=True)
    end = np.full(int(cell.max()) + 1, np.inf)
    np.minimum.at(end, cell[rows], seen.ended[rows])
    mask: Mask = rows & (seen.started < end[cell])
    return mask


def _judge(
    seen: View, rows: Mask, first: Mask, slow: Mask, cold: Mask, warm: Floats, *, by_group: bool
) -> None:
    """Mark the first attempts that are long on most of the workers; fills ``cold``, ``warm``."""
    from rotameter.profiler.findings.base import group_median

    later = rows & ~first
    count = np.bincount(seen.group[later], minlength=len(seen.groups) + 1)
    usual = np.where(count >= FEWEST_LATER, group_median(seen, seen.wall, later), np.nan)
    usual = usual[seen.group]
    with np.errstate(invalid="ignore"):
        long = first & ~slow & (seen.wall > OUTLIER * usual) & ~cold
    long &= ~grown_with(seen, rows, long_ones(seen, rows)).is_
    sets = (
        [first & (seen.group == g) for g in np.unique(seen.group[long]).tolist()]
        if by_group
        else [first]
    )
    for mine in sets:
        hot = long & mine
        places = np.unique(seen.worker[hot])
        known = mine & ~np.isnan(usual)
        if len(places) < 2 or len(places) < MOST_WORKERS * len(np.unique(seen.worker[known])):
            continue
        chosen = np.flatnonzero(hot)
        if together(seen, chosen, float(np.median(usual[chosen]))):
            continue  # They waited for one thing, and it came.
        cold[chosen] = True
        warm[chosen] = usual[chosen]


def _evidence(
    seen: View, cold: Mask, extra: Floats, groups: list[int], workers: int
) -> tuple[Evidence, ...]:
    n = int(cold.sum())
    made: list[Evidence] = [
        Evidence("first tasks that were long", n, "", "counted", n),
        Evidence("workers", workers, "", "on which the first task was long", workers),
        Evidence("their extra time", round(float(extra.sum()), 3), "s", "summed", n),
    ]
    facts: tuple[tuple[str, str, Any], ...] = (
        ("CPU time in them", "cpu_s", "s"),
        ("time in calls on files", "io_s", "s"),
        ("read by them", "read_bytes", "B"),
    )
    for name, column, unit in facts:
        values = seen.number(column)[cold]
        known = ~np.isnan(values)
        if known.any():
            total = round(float(values[known].sum()), 3)
            made.append(Evidence(name, total, unit, "summed over them", int(known.sum())))
    if len(groups) > 1:
        made.append(Evidence("groups", len(groups), "", "that came first on some worker"))
    return tuple(made)
