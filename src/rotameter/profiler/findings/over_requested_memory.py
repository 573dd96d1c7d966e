"""RM122 over_requested_memory: tasks ask for several times the memory that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._basis import basis
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings._resources import resources
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.under_requested_memory import memory_lines
from rotameter.profiler.groups import quantiles
from rotameter.profiler.open_ends import complete
from rotameter.profiler.view import View, is_dask, view
from rotameter.units import format_bytes, format_number
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor", "needed_bytes"]

FEWEST = 3
MOST_GROUPS = 3

HEADROOM = 1.1
"""Peaks vary from run to run: a tenth more than the largest that was seen."""

TOO_MUCH = 1.5
"""Less than this above what is needed is prudence."""

AT_MOST_RATIO = 0.97
"""A peak this near to its request was held down by it, and does not tell the need."""

LARGE_RATIO = 0.05
"""Memory held in vain is worth a line from this part of all that was held."""


class Advisor:
    """Find groups that ask for far more memory than they use."""

    name = "over_requested_memory"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for memory asked for in vain."""
        seen = view(trace)
        asked = _asked(seen)
        if is_dask(seen.meta) or not (asked > 0).any():
            return []
        rows = complete(seen) & ~seen.nested & (seen.group >= 0) & (asked > 0) & (seen.wall > 0)
        if not rows.any():
            return []
        if np.isnan(seen.task_memory[rows]).all():
            tools.cannot_tell(
                "whether tasks use the memory that they ask for", "no peak memory was recorded"
            )
            return []
        need = needed_bytes(seen, rows, asked)
        vain = np.where(np.isnan(need), 0.0, (asked - need) * np.nan_to_num(seen.wall)) / 3.6e12
        sums = np.bincount(seen.group[rows], vain[rows], minlength=len(seen.groups))
        order = [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]
        found = []
        for group in order[:MOST_GROUPS]:
            mine = rows & (seen.group == group) & ~np.isnan(need)
            cost = _cost(seen, tools, mine, need, float(vain[mine].sum()))
            if cost is not None:
                found.append(_finding(seen, group, mine, asked, need, vain, cost))
        return found


def _asked(seen: View) -> Floats:
    asked = seen.number("requested_memory_bytes")
    return np.where(np.isnan(asked), seen.number("granted_memory_bytes"), asked)


def needed_bytes(seen: View, rows: Mask, asked: Floats) -> Floats:
    """Give what each attempt's group needs; NaN where it does not ask for far more than that.

    The largest peak of the group and a tenth. Peaks of attempts that were killed, and peaks at the
    request, are lower bounds: groups that have such say nothing. Upper bounds (a control group's
    peak counts the page cache) can only make the need too large.
    """
    peak = seen.task_memory
    kinds = seen.peak_kinds
    with np.errstate(invalid="ignore"):
        capped = rows & (peak >= AT_MOST_RATIO * asked) & (kinds != "upper_bound")
    bounded = seen.outcome_in("oom") | capped | (rows & (kinds == "lower_bound"))
    n = len(seen.groups)
    unsure = np.bincount(seen.group[bounded & (seen.group >= 0)], minlength=n) > 0
    known = rows & (peak > 0)
    count = np.bincount(seen.group[known], minlength=n)
    total = np.bincount(seen.group[rows], minlength=n)
    most = quantiles(seen.group[known], peak[known], n, (1.0,))[0]
    need = HEADROOM * np.asarray(most, dtype=np.float64)
    need[unsure | (count < FEWEST) | (count < 0.5 * total)] = np.nan
    mine = np.append(need, np.nan)[seen.group]
    with np.errstate(invalid="ignore"):
        less = rows & (asked > TOO_MUCH * mine)
    return np.where(less, mine, np.nan)


def _cost(seen: View, tools: Tools, rows: Mask, need: Floats, vain_gbh: float) -> Cost | None:
    base = basis(seen, tools)
    memory = np.where(rows, need, np.nan)
    # Only where it is known what there is can less of it let more run at once.
    if base and (np.nan_to_num(seen.lives["memory"]) > 0).any() and tools.replay is not None:
        cost = by_replay(
            seen,
            tools,
            *base,
            resources(seen, memory=memory),
            base=base,
            bound_s=0.0,
            bound_how="",
            how="as if they had asked for what they use and a tenth, within the cores there are",
        )
        if cost is not None:
            return cost
    asked = _asked(seen)
    held = float(np.nansum((asked * seen.wall)[~seen.nested & (seen.wall > 0)])) / 3.6e12
    if held <= 0 or vain_gbh < LARGE_RATIO * held:
        return None
    return Cost(
        0.0,
        {
            "cost_s": 0.0,
            "cost_s_interval80": None,
            "cost_gbh": round(vain_gbh, 9),
            "cost_core_h": None,
            "cost_how": (
                f"asked for and not used: {format_number(vain_gbh, 3)} of "
                f"{format_number(held, 3)} GB·h; nothing shows that the run waited for it"
            ),
        },
        "info",
    )


def _finding(
    seen: View, group: int, rows: Mask, asked: Floats, need: Floats, vain: Floats, cost: Cost
) -> Finding:
    label, n = seen.label(group), int(rows.sum())
    wanted, enough = float(np.median(asked[rows])), float(np.median(need[rows]))
    peaks = seen.task_memory[rows & (seen.task_memory > 0)]
    top, middle = float(peaks.max()), float(np.median(peaks))
    kinds = sorted(set(seen.peak_kinds[rows & (seen.task_memory > 0)].tolist()))
    return Finding(
        code="RM122",
        kind="over_requested_memory",
        severity=cost.severity,
        title=(
            f"{label}: {n:,} tasks asked for {format_bytes(wanted)} and used at most "
            f"{format_bytes(top)}"
        ),
        groups=(seen.groups[group],),
        evidence=(
            Evidence("memory asked for", round(wanted), "B", "median of the requests", n),
            Evidence("peak, largest", round(top), "B", ", ".join(kinds), len(peaks)),
            Evidence("peak, median", round(middle), "B", ", ".join(kinds), len(peaks)),
            Evidence(
                "asked for / needed",
                round(wanted / enough, 3),
                "times",
                "need = largest peak and a tenth",
                n,
            ),
            Evidence("held in vain", round(float(vain[rows].sum()), 6), "GB·h", "summed", n),
        ),
        **cost.fields,
        confidence="high" if n >= 8 and "upper_bound" not in kinds else "medium",
        advice=(
            f"Ask for {format_bytes(enough, 3)}: the largest peak and a tenth; let a retry ask for "
            "more, so that a rare larger task does not decide for all."
        ),
        change=memory_lines(seen, group, enough),
        apply={"memory_request": {"value": round(enough)}},
    )
