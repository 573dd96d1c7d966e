"""RM123 under_requested_memory: tasks ask for less memory than they need, and are killed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._again import in_vain, memory_kills, redone, without
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.culprit import round_up
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_bytes, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._replayed import Cost
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor", "memory_lines"]

MOST_GROUPS = 3

HEADROOM = 1.1
"""Peaks vary from run to run: a tenth more than the largest that ended well."""

STEP = 2.0
"""What was killed at its request needs more than that; doubling finds how much in few tries."""


class Advisor:
    """Find tasks that were killed for memory by what runs them."""

    name = "under_requested_memory"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for attempts that ran out of the memory that they had asked for."""
        seen = view(trace)
        if is_dask(seen.meta):
            return []  # A task of Dask asks for no memory; workers_died tells of its worker.
        rows = memory_kills(seen) & ~np.isnan(seen.wall) & ~seen.nested & (seen.group >= 0)
        if not rows.any():
            return []
        sums = np.bincount(seen.group[rows], seen.wall[rows], minlength=len(seen.groups))
        order = [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]
        found = []
        for group in order[:MOST_GROUPS]:
            mine = rows & (seen.group == group)
            again = redone(seen, mine)
            cost = (
                without(
                    seen,
                    tools,
                    again,
                    how="as if they had asked for enough at first",
                    bound_how="the time of the killed attempts over all cores",
                )
                if again.any()
                else in_vain(
                    seen,
                    mine,
                    "they never ended well: how long they take with enough memory is unknown",
                    seconds=None,
                )
            )
            if cost is not None:
                found.append(_finding(seen, group, mine, cost))
        return found


def _finding(seen: View, group: int, rows: Mask, cost: Cost) -> Finding:
    label, n = seen.label(group), int(rows.sum())
    of = int((seen.could_measure & (seen.group == group) & ~seen.nested).sum())
    asked, enough, how = _enough(seen, group, rows)
    inferred = _inferred(seen, rows)
    sure = "probably " if inferred == n else ""
    had = f" with {format_bytes(asked)} each" if asked else ""
    lost_s = float(np.nansum(seen.wall[rows]))
    peaks = seen.task_memory[rows]
    blind = bool(np.isnan(peaks).all())
    return Finding(
        code="RM123",
        kind="under_requested_memory",
        severity=cost.severity,
        title=(
            f"{label}: {n:,} of {of:,} attempts were {sure}killed for memory{had}, "
            f"{format_seconds(lost_s)} of work lost"
        ),
        groups=(seen.groups[group],),
        evidence=(
            Evidence("attempts killed for memory", n, "", "outcome or exit code 137", of),
            Evidence("of these only inferred", inferred, "", "from exit codes", n),
            Evidence("work lost", round(lost_s, 3), "s", "summed", n),
            Evidence(
                "memory asked for",
                asked,
                "B",
                "median request of the killed" if asked else "not recorded",
                n,
            ),
            Evidence("enough", enough, "B", how),
            *(
                (
                    Evidence(
                        "peaks of the killed", None, "B", "not recorded: needs are lower bounds"
                    ),
                )
                if blind
                else ()
            ),
        ),
        **cost.fields,
        confidence="high" if inferred < n and enough else "medium",
        advice=(
            (
                f"Ask for {format_bytes(enough)} ({how}) at first"
                if enough
                else "Ask for more memory, and have it recorded"
            )
            + (
                ", or let only the retry ask for more where few are killed."
                if n < 0.2 * of
                else "."
            )
        ),
        change=memory_lines(seen, group, enough),
        apply={"memory_request": {"value": enough} if enough else {"factor": STEP}},
    )


def _enough(seen: View, group: int, rows: Mask) -> tuple[float | None, float | None, str]:
    """Give what the killed had asked for, what is enough, and how that is known."""
    asked = seen.number("requested_memory_bytes")
    had = asked[rows & (asked > 0)]
    median = float(np.median(had)) if had.size else None
    killed = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    killed[seen.task[rows]] = True
    good = seen.ok & (seen.group == group) & (seen.task_memory > 0)
    later = good & killed[seen.task]
    most = float(had.max()) if had.size else 0.0
    if later.any() and seen.task_memory[later].max() > most:
        top = float(seen.task_memory[good].max())
        return median, round_up(HEADROOM * top), "largest peak that ended well, and a tenth"
    fine = seen.ok & (seen.group == group) & killed[seen.task] & (asked > most)
    if fine.any():
        return median, float(asked[fine].min()), "least request with which they ended well"
    if most > 0:
        return median, round_up(STEP * most), "at least: twice what was not enough"
    return None, None, "not recorded"


def _inferred(seen: View, rows: Mask) -> int:
    kinds = seen.tasks["outcome_kind"].take(np.flatnonzero(rows)).to_pylist()
    failed = seen.outcome_in("failed")[rows]
    return sum(kind == "inferred" or bool(f) for kind, f in zip(kinds, failed, strict=True))


def memory_lines(seen: View, group: int, size_bytes: float | None) -> str | None:
    """Write the line to paste for a memory request, in the terms of the engine that ran."""
    if not size_bytes:
        return None
    name = seen.groups[group]
    mega = int(np.ceil(size_bytes / 2**20))
    lines: dict[Any, str] = {
        "slurm": f"#SBATCH --mem={mega}M",
        "nextflow": f"process {{ withName: '{name}' {{ memory = '{mega} MB' }} }}",
        "snakemake": f"rule {name}:  resources: mem_mb={int(np.ceil(size_bytes / 1e6))}",
    }
    return lines.get(seen.meta.get("engine"))
