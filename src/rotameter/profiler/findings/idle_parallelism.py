"""RM107 idle_parallelism: cores idled because there was nothing for them to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings.base import (
    Tools,
    group_median,
    outliers,
    price,
    severity_of,
    worth_saying,
)
from rotameter.profiler.occupancy import Timeline, timeline
from rotameter.profiler.view import View, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor"]

SHORT_GAP_S = 0.02
"""Shorter stretches without work are the engine's latency, not the workflow's shape."""


class Advisor:
    """Find time in which fewer tasks could run than there were cores."""

    name = "idle_parallelism"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for cores that idled for lack of parallelism."""
        seen = view(trace)
        if not seen.ran.any():
            return []
        line = timeline(seen)
        if line is None:
            if seen.meta.get("engine") not in (None, "python"):
                tools.cannot_tell("whether cores idled", "no worker's life and cores were recorded")
            return []
        narrow, gap = _masks(seen, line)
        idle = float(line.free[narrow] @ line.dt[narrow])
        gaps = float(line.free[gap] @ line.dt[gap])
        slots = float(seen.slots or 1.0)
        cost = (idle + gaps) / slots
        if not worth_saying(seen, cost) or cost < 0.05 * (seen.makespan or 0.0):
            return []
        return [self._finding(seen, line, narrow, idle, gaps, cost)]

    def _finding(
        self, seen: View, line: Timeline, narrow: Mask, idle: float, gaps: float, cost: float
    ) -> Finding:
        slots = float(seen.slots or 1.0)
        groups = _alone(seen, line, narrow)
        mostly_gaps = gaps > idle
        width = float(line.running[narrow] @ line.dt[narrow]) / max(
            float(line.dt[narrow].sum()), 1e-12
        )
        if mostly_gaps:
            title = (
                f"For {format_seconds(gaps / slots)} no task was submitted: all "
                f"{format_number(slots)} cores waited for the client"
            )
            advice = (
                "Submit the computations together (dask.compute(a, b, …)), or do the work between "
                "them in tasks too."
            )
            change = "dask.compute(a, b)  # instead of a.compute(); b.compute()"
        else:
            who = f": {seen.label(groups[0])} ran" if groups else ""
            title = (
                f"For {format_seconds(float(line.dt[narrow].sum()))} only "
                f"{format_number(width, 2)} of {format_number(slots)} cores had a task{who}"
            )
            advice = (
                "Split that step into more tasks (more partitions, a tree instead of one final "
                "reduction: split_every), overlap it with other work, or use fewer workers."
            )
            change = "ddf.groupby(…).agg(…, split_out=8)  # or split_every=8, more partitions"
        return Finding(
            code="RM107",
            kind="idle_parallelism",
            severity=severity_of(seen, cost),
            title=title,
            groups=tuple(seen.groups[g] for g in groups[:3]),
            evidence=_evidence(seen, idle, gaps, _tail(seen, line, narrow), width),
            **price(seen, cost),
            cost_s_interval80=(round(0.3 * cost, 6), round(cost, 6)),
            cost_how=(
                f"idle core time over {format_number(slots)} cores: an upper bound, if the same "
                "work spread over all of them"
            ),
            confidence="medium",
            advice=advice,
            change=change,
            apply={
                "partitioning": {"factor": float(max(2, round(slots)))},
                "workers": {"factor": 0.5},
                "task_granularity": {"factor": 1.0 / max(2, round(slots))},
            },
        )


def _evidence(
    seen: View, idle: float, gaps: float, tail: float, width: float
) -> tuple[Evidence, ...]:
    return (
        Evidence(
            "cores idle with too few tasks",
            round(idle, 3),
            "core·s",
            "free cores while tasks ran and none waited, was on its way or was far longer "
            "than its like",
        ),
        Evidence(
            "cores idle with no task submitted",
            round(gaps, 3),
            "core·s",
            "free cores between computations",
        ),
        Evidence("of that at the end of the run", round(tail, 3), "s", "last stretch"),
        Evidence("cores", seen.slots, "", "workers' recorded cores", len(seen.lives)),
        Evidence("mean tasks running then", round(width, 3), "", "swept"),
    )


def _masks(seen: View, line: Timeline) -> tuple[Mask, Mask]:
    """Say in which segments too few tasks existed, and in which none was even submitted."""
    first = float(np.nanmin(seen.started[seen.ran]))
    last = float(seen.ended[seen.ran].max())
    inside = (line.start >= first - 1e-9) & (line.start < last) & (line.slots > 0.5)
    calm = inside & (line.waiting < 0.5) & (line.moving < 0.5)
    long = outliers(seen)
    normal = line.running - line.count(seen.started[long], seen.ended[long])
    some = calm & (normal > 0.5) & (line.free > 0.5)
    none = calm & (line.running < 0.5) & (line.known < 0.5)
    return _lasting(line, some, _last_waves(seen, line)), _lasting(line, none, None)


def _last_waves(seen: View, line: Timeline) -> tuple[Floats, Floats]:
    """Say what ran of other than wide steps, and how long a last wave may take.

    The last wave of a step of many like tasks leaves some cores idle for up to one task: that is
    the step's grain, not a lack of parallelism.

    Returns
    -------
    plain : ndarray of float64, shape (n_segments,)
        Running attempts that do not belong to a wide step.
    grain_s : ndarray of float64, shape (n_segments,)
        Median duration of the wide step's task that ends last before each segment's end.
    """
    count = np.bincount(seen.group[seen.ran & (seen.group >= 0)], minlength=len(seen.groups) + 1)
    wide = seen.ran & (count >= 2 * float(seen.slots or 1.0))[seen.group] & (seen.group >= 0)
    plain = line.running - line.count(seen.started[wide], seen.ended[wide])
    rows = np.flatnonzero(wide)
    if not rows.size:
        return plain, np.zeros(len(line.dt))
    rows = rows[np.argsort(seen.ended[rows], kind="stable")]
    median = group_median(seen, seen.wall, seen.ran)[seen.group[rows]]
    at = np.searchsorted(seen.ended[rows], line.start + line.dt + 1e-9, "right") - 1
    return plain, np.where(at >= 0, median[np.maximum(at, 0)], 0.0)


def _lasting(line: Timeline, mask: Mask, waves: tuple[Floats, Floats] | None) -> Mask:
    """Keep stretches of consecutive segments that last, drop mere latency and last waves."""
    if not mask.any():
        return mask
    edge = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    starts, ends = edge[::2], edge[1::2]
    total = np.concatenate([[0.0], np.cumsum(line.dt)])
    length = total[ends] - total[starts]
    lasts = length >= SHORT_GAP_S
    if waves is not None:
        plain = np.concatenate([[0.0], np.cumsum(waves[0] * line.dt)])
        only_wide = plain[ends] - plain[starts] < 1e-9
        lasts &= ~(only_wide & (length <= 1.25 * waves[1][ends - 1]))
    keep = np.zeros(len(mask) + 1, dtype=np.int64)
    np.add.at(keep, starts[lasts], 1)
    np.add.at(keep, ends[lasts], -1)
    kept: Mask = np.cumsum(keep)[:-1] > 0
    return kept


def _alone(seen: View, line: Timeline, narrow: Mask) -> list[int]:
    """Name the groups that ran while too little did, longest first."""
    if not narrow.any():
        return []
    grid = np.concatenate([line.start, [line.start[-1] + line.dt[-1]]])
    total = np.concatenate([[0.0], np.cumsum(np.where(narrow, line.dt, 0.0))])
    rows = np.flatnonzero(seen.ran & (seen.group >= 0))
    within: Floats = np.interp(seen.ended[rows], grid, total) - np.interp(
        seen.started[rows], grid, total
    )
    sums = np.bincount(seen.group[rows], within, minlength=len(seen.groups))
    return [int(g) for g in np.lexsort((np.arange(len(sums)), -sums)) if sums[g] > 1e-9]


def _tail(seen: View, line: Timeline, narrow: Mask) -> float:
    """Give the length of the last stretch of too few tasks, where it reaches the run's end."""
    last = float(seen.ended[seen.ran].max())
    place = np.flatnonzero(line.start < last - 1e-9)
    length = 0.0
    for at in place[::-1]:
        if not narrow[at]:
            break
        length += float(line.dt[at])
    return length
