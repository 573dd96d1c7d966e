"""RM125 recomputed_work: what was computed is computed again, though nothing had taken it away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._again import without
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_bytes, format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Mask

__all__ = ["Advisor", "computed_again"]


class Advisor:
    """Find tasks that ran well more than once."""

    name = "recomputed_work"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for tasks computed again."""
        seen = view(trace)
        if is_job_log(seen) or seen.outcome_in("cached").any():
            return []  # Beside cached tasks it is cache_missed's.
        again, earlier = computed_again(seen)
        again &= ~_gone(seen, earlier)
        if not again.any():
            return []
        cost = without(
            seen,
            tools,
            again,
            how="as if the results of the first time had been kept",
            bound_how="the time of what ran again over all cores",
        )
        if cost is None:
            return []
        rows = np.flatnonzero(again)
        sums = np.bincount(
            np.where(seen.group[rows] >= 0, seen.group[rows], len(seen.groups)),
            seen.wall[rows],
            minlength=len(seen.groups) + 1,
        )[:-1]
        groups = [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]
        tasks = len(np.unique(seen.task[rows]))
        twice_s = float(np.nansum(seen.wall[rows]))
        kept = seen.number("output_bytes")[earlier[rows]]
        size = float(np.nansum(kept)) if not np.isnan(kept).all() else None
        label = seen.label(groups[0]) if groups else "tasks"
        return [
            Finding(
                code="RM125",
                kind="recomputed_work",
                severity=cost.severity,
                title=(
                    f"{label}: {many(tasks, 'task')} ran again after ending well: "
                    f"{format_seconds(twice_s)} of work done twice"
                ),
                groups=tuple(seen.groups[g] for g in groups[:3]),
                evidence=(
                    Evidence("attempts that computed again", len(rows), "", "counted", seen.n),
                    Evidence("work done again", round(twice_s, 3), "s", "summed", len(rows)),
                    Evidence(
                        "results to keep",
                        size,
                        "B",
                        "size of the first results" if size is not None else "not recorded",
                        int((~np.isnan(kept)).sum()),
                    ),
                    Evidence(
                        "workers that held them",
                        "alive",
                        "",
                        "no worker's death comes between: they were released",
                        len(rows),
                    ),
                ),
                **cost.fields,
                confidence="high" if is_dask(seen.meta) else "medium",
                advice=(
                    f"Keep what {label} makes between the computations that need it"
                    + (f" ({format_bytes(size)})" if size else "")
                    + ", or compute all results in one go."
                ),
                change=(
                    "data = data.persist()  # before both; or dask.compute(first, second)"
                    if is_dask(seen.meta)
                    else None
                ),
                apply={"caching": {"value": True}},
            )
        ]


def computed_again(seen: View) -> tuple[Mask, Codes]:
    """Find attempts whose task had ended well before.

    Returns
    -------
    again : ndarray of bool, shape (n,)
    earlier : ndarray of int64, shape (n,)
        The attempt that had ended well last before; -1 elsewhere.
    """
    if "computed_again" in seen.memo:
        kept: tuple[Mask, Codes] = seen.memo["computed_again"]
        return kept[0].copy(), kept[1]
    again = np.zeros(seen.n, dtype=bool)
    earlier = np.full(seen.n, -1, dtype=np.int64)
    # Only tasks that have an attempt which another one superseded.
    some = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    some[seen.task[seen.superseded]] = True
    some[-1] = False
    rows = np.flatnonzero(some[seen.task] & seen.ran)
    rows = rows[np.lexsort((seen.started[rows], seen.task[rows]))]
    last: dict[int, int] = {}
    for row in rows.tolist():
        task = int(seen.task[row])
        before = last.get(task)
        if before is not None and seen.ended[before] <= seen.started[row]:
            again[row] = seen.ok[row]
            earlier[row] = before
        if seen.ok[row]:
            last[task] = row
    seen.memo["computed_again"] = (again, earlier)
    return again.copy(), earlier


def _gone(seen: View, earlier: Codes) -> Mask:
    """Say where the worker that held the earlier result was gone when it was computed again."""
    end = np.full(len(seen.workers) + 1, np.inf)
    for life in seen.lives:
        if life["died"]:
            end[life["worker"]] = min(end[life["worker"]], float(life["ended"]))
    end[-1] = np.inf
    known = earlier >= 0
    holder = np.where(known, seen.worker[np.where(known, earlier, 0)], -1)
    with np.errstate(invalid="ignore"):
        made: Mask = known & (end[holder] <= seen.started)
    return made
