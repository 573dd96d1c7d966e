"""RM119 regime_change: from some moment on the tasks of a group are slower, on all workers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._likes import comparable, in_blocks, sizes
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools, group_median, worth_saying
from rotameter.profiler.findings.cold_first_task import cold_attempts
from rotameter.profiler.findings.uneven_workers import slow_workers
from rotameter.profiler.replaying.changes import Scale
from rotameter.profiler.view import View, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "changed_attempts"]

FEWEST = 6
"""Attempts on each side of a change: with fewer, two long ones in a row are chance."""

SLOWER = 1.4
SURE_SIGMA = 3.5
"""The best of many splits is looked for, so that chance alone reaches 3 in long groups."""

APART = 0.9
"""Part of all pairs (before, after) in which the later one is the longer: a step, not a drift of
some."""

FLAT = 0.75
"""Beside a step the two sides rise by less than this part of it, both together. The sides of a
straight drift rise by twice the step between their medians."""

SURE_RISE = 2.5
"""Standard errors from which on what rises inside the sides is no chance."""

WIDER = 3.0
"""The later ones' range, fifth to fifth, is at most this many times the earlier ones'."""

MOST_GROUPS = 2

TRACE_OF_CPU = 0.05
"""CPU time that is less than this part of the duration tells nothing about it."""

FEWEST_BESIDE = 3
"""Attempts of another group on each side that tell whether it became slower."""


class Advisor:
    """Find groups that became slower in mid-run and stayed so."""

    name = "regime_change"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for a change."""
        seen = view(trace)
        after, factor = changed_attempts(seen)
        if not after.any():
            return []
        extra = np.where(after, seen.wall * (1.0 - 1.0 / factor), 0.0)
        sums = np.bincount(seen.group[after], extra[after], minlength=len(seen.groups))
        order = [int(g) for g in np.argsort(-sums, kind="stable") if worth_saying(seen, sums[g])]
        found = [
            self._group(seen, tools, g, after & (seen.group == g), factor)
            for g in order[:MOST_GROUPS]
        ]
        return [finding for finding in found if finding is not None]

    def _group(
        self, seen: View, tools: Tools, group: int, after: Mask, factor: Floats
    ) -> Finding | None:
        rows = comparable(seen) & (seen.group == group)
        before = rows & ~after
        ratio = float(factor[after][0])
        extra = float(seen.wall[after].sum()) * (1.0 - 1.0 / ratio)
        cost = by_replay(
            seen,
            tools,
            Scale(after, "wall", 1.0 / ratio),
            bound_s=extra / max(1.0, seen.slots or 1.0),
            bound_how="the later tasks' extra time over all cores",
            how="as if the later tasks were as fast as the earlier ones",
        )
        if cost is None:
            return None
        return _finding(seen, group, before, after, cost)


def _finding(seen: View, group: int, before: Mask, after: Mask, cost: Cost) -> Finding:
    at = float(seen.started[after].min())
    old, new = float(np.median(seen.wall[before])), float(np.median(seen.wall[after]))
    n_before, n_after = int(before.sum()), int(after.sum())
    more = _computed_more(seen, before, after) and not _others_slowed(seen, group, at)
    fields = dict(cost.fields)
    said = f"({format_seconds(old)}, then {format_seconds(new)})"
    times = format_number(new / old, 2)
    if more:
        title = (
            f"{seen.label(group)}: the tasks from {format_seconds(at)} on computed longer each, "
            f"{times} times as long in all {said}: bigger items or a slower machine"
        )
        fields["cost_how"] += "; nothing if the later items were bigger"
        if fields["cost_s_interval80"] is not None:
            fields["cost_s_interval80"] = (0.0, fields["cost_s_interval80"][1])
    else:
        title = (
            f"{seen.label(group)} became {times} times as long {format_seconds(at)} into the run "
            f"{said}, on all workers"
        )
    return Finding(
        code="RM119",
        kind="regime_change",
        severity="info" if more else cost.severity,
        title=title,
        groups=(seen.groups[group],),
        evidence=(
            Evidence("median before", round(old, 6), "s", "measured", n_before),
            Evidence("median after", round(new, 6), "s", "measured", n_after),
            Evidence("change at", round(at, 3), "s", "since the run's first instant"),
            Evidence("workers", len(np.unique(seen.worker[after])), "", "where it shows"),
            *_gained(seen, before, after),
        ),
        **fields,
        confidence="low" if more else "high" if min(n_before, n_after) >= 12 else "medium",
        advice=_BIGGER if more else _SLOWER,
        apply=None,
    )


_SLOWER = (
    "Look at what changed then, outside the tasks: other jobs on the machines or the storage, a "
    "service's quota, CPU throttling, a cache that filled up; and at what is different about the "
    "later items."
)
_BIGGER = (
    "Their CPU time grew with their duration, and nothing else that ran tells of a slower machine. "
    "If the later items are bigger, nothing is lost, and the biggest are best begun first; if they "
    "are not, look at the machine's clock: throttling, power limits, other jobs on its cores."
)


def _computed_more(seen: View, before: Mask, after: Mask) -> bool:
    """Say whether the later ones' CPU time grew in step with their duration.

    At least half as much as the duration did: other load adds waiting, and no CPU time.
    """
    cpu = seen.number("cpu_s")
    sides = [side & ~np.isnan(cpu) for side in (before, after)]
    if not all(side.any() for side in sides):
        return False
    old, new = (float(np.median(cpu[side])) for side in sides)
    long, longer = (float(np.median(seen.wall[side])) for side in sides)
    if new < TRACE_OF_CPU * longer:
        return False
    return new >= (1.0 + 0.5 * (longer / long - 1.0)) * old


def _others_slowed(seen: View, group: int, at: float) -> bool:
    """Say whether most other groups that ran before and after a moment became slower too."""
    rows = comparable(seen) & (seen.group != group)
    late = rows & (seen.started >= at)
    early = rows & ~late
    count = [np.bincount(seen.group[side], minlength=len(seen.groups)) for side in (early, late)]
    both = np.flatnonzero(np.minimum(*count) >= FEWEST_BESIDE)
    old, new = (group_median(seen, seen.wall, side)[both] for side in (early, late))
    slowed = new >= (1.0 + 0.5 * (SLOWER - 1.0)) * old
    return bool(len(both) and slowed.mean() > 0.5)


def changed_attempts(seen: View) -> tuple[Mask, Floats]:
    """Find the attempts after a change for the worse that lasted.

    Returns
    -------
    after : ndarray of bool, shape (n,)
    factor : ndarray of float64, shape (n,)
        How many times as long as before; NaN elsewhere.
    """
    if "regime" in seen.memo:
        kept: tuple[Mask, Floats] = seen.memo["regime"]
        return kept
    after = np.zeros(seen.n, dtype=bool)
    factor = np.full(seen.n, np.nan)
    rows = comparable(seen) & ~slow_workers(seen).is_[seen.worker] & ~cold_attempts(seen)[0]
    cpu = seen.number("cpu_s")
    where = np.flatnonzero(rows)
    where = where[np.lexsort((seen.started[where], seen.group[where]))]
    bounds = np.flatnonzero(np.r_[True, np.diff(seen.group[where]) != 0, where.size > 0])
    for low, high in pairwise(bounds.tolist()):
        if high - low < 2 * FEWEST:
            continue
        mine = where[low:high]
        split = _step(seen.wall[mine])
        if split is None and not np.isnan(cpu[mine]).any():
            split = _step(cpu[mine])  # Other load hides in the durations what CPU time shows.
        if split is None or not _everywhere(seen, mine, split) or _bigger(seen, mine, split):
            continue
        if in_blocks(seen.wall[mine[:split]]) or in_blocks(seen.wall[mine[split:]]):
            continue  # More steps than one: the work differs from item to item, as in a sweep.
        if _unlike(seen.wall[mine], split) or _unlike(cpu[mine], split):
            continue
        ratio = float(np.median(seen.wall[mine[split:]]) / np.median(seen.wall[mine[:split]]))
        if ratio < 1.0 + 0.5 * (SLOWER - 1.0):
            continue
        after[mine[split:]] = True
        factor[mine[split:]] = ratio
    seen.memo["regime"] = (after, factor)
    return after, factor


def _step(wall: Floats) -> int | None:
    """Find where durations in order of start step up for good; None where they do not.

    The split whose rank sum is farthest from chance (Pettitt 1979).
    """
    n = len(wall)
    rank = np.empty(n)
    rank[np.argsort(wall, kind="stable")] = np.arange(1, n + 1)
    size = np.arange(1, n)
    sums = np.cumsum(rank)[:-1]
    sigma = np.sqrt(size * (n - size) * (n + 1) / 12.0)
    score = (size * (n + 1) / 2.0 - sums) / sigma
    inside = (size >= FEWEST) & (n - size >= FEWEST)
    score = np.where(inside, score, -np.inf)
    split = int(np.argmax(score)) + 1
    if score[split - 1] < SURE_SIGMA:
        return None
    before, after = wall[:split], wall[split:]
    if np.median(after) < SLOWER * np.median(before):
        return None
    # Mann and Whitney's U over all pairs: how surely a later one is longer than an earlier one.
    pairs = float(rank[split:].sum() - (n - split) * (n - split + 1) / 2.0)
    if pairs < APART * split * (n - split):
        return None
    if _drifts(before, after):
        return None
    # For good: its last third is as slow as what follows the change.
    last = after[-max(2, len(after) // 3) :]
    return split if np.median(last) >= SLOWER * np.median(before) else None


def _drifts(before: Floats, after: Floats) -> bool:
    """Say whether durations rise inside the two sides rather than between them: a drift."""
    step = float(np.median(after) - np.median(before))
    rise, variance = 0.0, 0.0
    for side in (before, after):
        n = len(side)
        values = np.clip(side, *np.quantile(side, (0.05, 0.95)))  # One long one is no trend.
        at = np.arange(n) - (n - 1) / 2.0
        slope = float(at @ values) / float(at @ at)
        rest = values - values.mean() - slope * at
        rise += slope * (n - 1)
        variance += float(rest @ rest) / max(1, n - 2) * (n - 1) ** 2 / float(at @ at)
    return rise > FLAT * step and rise > SURE_RISE * float(np.sqrt(variance))


def _unlike(values: Floats, split: int) -> bool:
    """Say whether the later ones differ among each other far more than the earlier ones did.

    What slows a machine slows like tasks alike; tasks that are dearer each in its own way are
    other tasks. Unknown values say nothing.
    """
    sides = [side[side > 0] for side in (values[:split], values[split:])]
    if min(len(side) for side in sides) < FEWEST:
        return False
    low, high = (np.quantile(side, (0.2, 0.8)) for side in sides)
    return bool(high[1] / high[0] > WIDER * max(low[1] / low[0], 1.3))


def _everywhere(seen: View, rows: Codes, split: int) -> bool:
    """Say whether the change shows on each worker that ran some of the group before and after."""
    worker, wall = seen.worker[rows], seen.wall[rows]
    for code in np.unique(worker).tolist():
        mine = np.flatnonzero(worker == code)
        before, after = wall[mine[mine < split]], wall[mine[mine >= split]]
        if min(len(before), len(after)) < 3:
            continue
        if np.median(after) < (1.0 + 0.5 * (SLOWER - 1.0)) * np.median(before):
            return False
    return True


def _bigger(seen: View, rows: Codes, split: int) -> bool:
    """Say whether the later ones had more to do, so that it is no change of the machine."""
    wall = seen.wall[rows]
    ratio = float(np.median(wall[split:]) / np.median(wall[:split]))
    for size in sizes(seen).values():
        mine = size[rows]
        if np.isnan(mine).mean() > 0.2:
            continue
        before, after = np.nanmedian(mine[:split]), np.nanmedian(mine[split:])
        if before > 0 and after / before >= max(1.2, ratio**0.5):
            return True
    return False


def _gained(seen: View, before: Mask, after: Mask) -> tuple[Evidence, ...]:
    """Say whether the later ones computed longer or waited longer."""
    cpu = seen.number("cpu_s")
    known = ~np.isnan(cpu)
    if not ((before & known).any() and (after & known).any()):
        return ()
    share = [
        float(np.median(cpu[side & known] / seen.wall[side & known])) for side in (before, after)
    ]
    n = int(((before | after) & known).sum())
    text = f"{share[0]:.2f} before, {share[1]:.2f} after"
    return (Evidence("CPU time / duration", text, "", "median, measured", n),)
