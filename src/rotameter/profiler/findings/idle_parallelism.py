"""RM107 idle_parallelism: cores idled because there was nothing for them to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._held import free_cores, memory_held, places
from rotameter.profiler.findings._idle_words import (
    SAME_CORES,
    advice_on,
    for_many,
    gap_title,
    who,
)
from rotameter.profiler.findings._likes import behind, comparable, long_ones
from rotameter.profiler.findings._lone import Alone
from rotameter.profiler.findings._replayed import Cost, at_most, by_replay
from rotameter.profiler.findings._standing import really_waiting, stood
from rotameter.profiler.findings.base import (
    Tools,
    files_s,
    group_median,
    outliers,
    tracing_s,
    worth_saying,
)
from rotameter.profiler.findings.large_graph import shipments
from rotameter.profiler.findings.uneven_workers import slow_workers
from rotameter.profiler.occupancy import Timeline, timeline
from rotameter.profiler.replaying.changes import Cap, Scale, Split
from rotameter.profiler.view import View, local_dask, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor"]

SHORT_GAP_S = 0.02
"""Shorter stretches without work are the engine's latency, not the workflow's shape."""

CLOCKS_S = 0.005

SIDE_BY_SIDE = 0.75
"""A step is wide where this part of what fits ran, or could, at once; others may hold the rest."""

SHIPPED_S = 1.0
"""After a graph full of data has come, its first tasks still have to travel and be unpacked."""


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
        free = free_cores(seen, line)
        idle = float(free[narrow] @ line.dt[narrow])
        slots = float(seen.slots or 1.0)
        # What tracing itself took stands between the tasks, and goes when it goes.
        tracing = max(0.0, (tracing_s(seen.meta) or 0.0) - files_s(seen.meta))
        gap_s = float(line.dt[gap].sum())
        # Without tasks the run stands still, however few cores were held then.
        gap_s, held = max(0.0, gap_s - tracing), float(free[gap] @ line.dt[gap]) / (gap_s or 1.0)
        gaps = gap_s * held
        cost = idle / slots + gap_s
        if not worth_saying(seen, cost) or cost < 0.05 * (seen.makespan or 0.0):
            return []
        groups, at_once = _alone(seen, line, narrow)
        mostly = gap_s * slots > idle
        alone = Alone.of(seen, groups, gaps=mostly, at_once=at_once)
        scaled = mostly and held < SAME_CORES * slots
        made = (
            at_most(seen, cost, "the time without any task; workers come when there is work")
            if scaled  # In a replay they come when they came.
            else _cost(seen, tools, line, narrow, alone, gap_s * slots > 0.1 * idle, cost)
        )
        if made is None:
            return []
        title = gap_title(seen, gap_s, held) if mostly else None
        return [self._finding(seen, line, narrow, alone, (idle, gaps), made, title)]

    def _finding(
        self,
        seen: View,
        line: Timeline,
        narrow: Mask,
        alone: Alone,
        lost: tuple[float, float],
        cost: Cost,
        gap_words: str | None,
    ) -> Finding:
        slots = float(seen.slots or 1.0)
        groups, (idle, gaps) = alone.groups, lost
        width = float(line.running[narrow] @ line.dt[narrow]) / max(
            float(line.dt[narrow].sum()), 1e-12
        )
        title = gap_words or (
            f"For {format_seconds(float(line.dt[narrow].sum()))} only "
            f"{format_number(width, 2)} of {format_number(slots)} cores had a task"
            f"{who(seen, alone)}"
        )
        advice, change = advice_on(seen, [g for g, _ in groups], gaps=gap_words is not None)
        if alone.many and gap_words is None:
            advice, change = for_many(alone, slots), None
        elif alone.one is not None:
            advice, change = alone.one.advice, None
        return Finding(
            code="RM107",
            kind="idle_parallelism",
            severity=cost.severity,
            title=title,
            groups=tuple(seen.groups[g] for g, _ in groups[:3]),
            evidence=_evidence(seen, idle, gaps, _tail(seen, line, narrow), width),
            **cost.fields,
            confidence="low" if alone.unsure else "medium",
            advice=advice,
            change=change,
            apply={
                "partitioning": {"factor": float(max(2, round(slots)))},
                "workers": {"factor": 0.5},
                "task_granularity": {"factor": 1.0 / max(2, round(slots))},
            },
        )


def _cost(
    seen: View,
    tools: Tools,
    line: Timeline,
    narrow: Mask,
    alone: Alone,
    gaps: bool,
    bound_s: float,
) -> Cost | None:
    """Price by splitting what ran alone into as many pieces as there are cores.

    Never more than the idle core time over all cores: the same work spread evenly.
    """
    slots = float(seen.slots or 1.0)
    grid = np.concatenate([line.start, [line.start[-1] + line.dt[-1]]])
    total = np.concatenate([[0.0], np.cumsum(np.where(narrow, line.dt, 0.0))])
    inside = np.interp(seen.ended, grid, total) - np.interp(seen.started, grid, total)
    with np.errstate(invalid="ignore"):
        rows = (
            seen.ran
            & ~outliers(seen)
            & ~long_ones(seen, comparable(seen))
            & ~seen.lost
            & (inside >= 0.5 * seen.wall)
            & (seen.wall > 0)
        )
    changes: list[Change] = []
    if rows.any():
        standing = stood(seen) & behind(seen, rows)
        fetched = np.nan_to_num(seen.number("transfer_s"))
        # What stood behind it comes at once where it does not: also what seems to be on its way.
        changes = [
            Split(rows, max(2, round(slots))),
            Scale(standing, "wait", 0.0),
            Cap(standing, "transfer", fetched),
        ]
    if gaps:
        changes.append(Scale(None, "gap", 0.0))
    bound_how = f"idle core time over {format_number(slots)} cores, if the same work spread evenly"
    least = 0.0 if alone.many or alone.unsure else 0.3
    ready = float((line.waiting > 0.5)[narrow] @ line.dt[narrow])
    if local_dask(seen.meta) and ready > 0.5 * float(line.dt[narrow].sum()):
        # The record shows no more side by side than the scheduler's threads let be.
        return at_most(seen, bound_s, f"{bound_how}, as tasks were ready")
    if not changes:
        return at_most(seen, bound_s, bound_how)
    words = ["what ran alone were split into as many pieces as there are cores"] * int(rows.any())
    words += ["the program took no time between submissions"] * int(gaps)
    return by_replay(
        seen,
        tools,
        *changes,
        bound_s=bound_s,
        bound_how=bound_how,
        how=f"at most, if {' and '.join(words)}",
        most_s=bound_s,
        widen=(least, 1.0),
    )


def _long(seen: View) -> Mask:
    """Say which attempts are long while their mates, who ran side by side, are done.

    What waits for them is a straggler's loss, or a slow worker's. Of a chain every link is one that
    all wait for.
    """
    if "long for idle" in seen.memo:
        kept: Mask = seen.memo["long for idle"]
        return kept
    rows = np.flatnonzero(seen.ran & (seen.group >= 0))
    rows = rows[np.lexsort((seen.started[rows], seen.group[rows]))]
    group = seen.group[rows]
    span = float(np.nanmax(seen.ended[rows], initial=0.0)) + 1.0
    latest = np.maximum.accumulate(seen.ended[rows] + group * 2 * span) - group * 2 * span
    beside = np.zeros(len(rows), dtype=bool)
    beside[1:] = (group[1:] == group[:-1]) & (seen.started[rows][1:] < latest[:-1] - 1e-3)
    count = np.bincount(group, minlength=len(seen.groups) + 1)
    wide = np.bincount(group[beside], minlength=len(count)) >= 0.34 * count
    slow = slow_workers(seen).is_[seen.worker]
    made: Mask = (outliers(seen) | long_ones(seen, comparable(seen)) | slow) & wide[seen.group]
    seen.memo["long for idle"] = made
    return made


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
    inside = (line.start >= first - 1e-9) & (line.start < last)
    calm = inside & (line.moving < 0.5)
    if not local_dask(seen.meta):  # What waits there lacks a thread of the scheduler, not a core.
        calm &= really_waiting(seen, line) < 0.5
    held = memory_held(seen, line)
    free = free_cores(seen, line)
    calm &= ~held
    for made in shipments(seen):  # The client was busy with a graph's data: that is its cause.
        away = made.rounds.away if made.rounds else ()
        spans = np.array([(made.last_s, made.sent_s + SHIPPED_S), *away])
        calm &= line.count(spans[:, 0] - 1e-9, spans[:, 1]) < 0.5
    # What was lost is found as that: its work is no narrow step.
    long = _long(seen) | (seen.ran & seen.lost)
    normal = line.running - line.count(seen.started[long], seen.ended[long])
    some = calm & (normal > 0.5) & (free > 0.5) & (line.slots > 0.5)
    full = held | (free < 0.5) | (line.waiting > 0.5)
    none = calm & (line.running < 0.5) & (line.known < 0.5)
    return _lasting(line, some, (*_last_waves(seen, line), full)), _lasting(line, none, None)


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
    wide = _wide(seen)
    plain = line.running - line.count(seen.started[wide], seen.ended[wide])
    rows = np.flatnonzero(wide)
    if not rows.size:
        return plain, np.zeros(len(line.dt))
    rows = rows[np.argsort(seen.ended[rows], kind="stable")]
    median = group_median(seen, seen.wall, seen.ran)[seen.group[rows]]
    at = np.searchsorted(seen.ended[rows], line.start + line.dt + 1e-9, "right") - 1
    return plain, np.where(at >= 0, median[np.maximum(at, 0)], 0.0)


def _wide(seen: View) -> Mask:
    """Say which attempts belong to a stretch of many of their group, ready or running side by side.

    Many that follow each other, as the steps of a chain do, are no wide step, however many.
    """
    found = np.zeros(seen.n, dtype=bool)
    fits = places(seen)
    rows = np.flatnonzero(seen.ran & (seen.group >= 0))
    ready = np.fmin(seen.ready, seen.started)
    # The next of a chain is ready when the one before ends, give or take the clocks' difference.
    ends = seen.ended - np.minimum(CLOCKS_S, 0.1 * (seen.ended - seen.started))
    for group in np.unique(seen.group[rows]).tolist():
        mine = rows[seen.group[rows] == group]
        if len(mine) < 2 * fits[group]:
            continue
        mine = mine[np.argsort(ready[mine], kind="stable")]
        found[mine] = _in_waves(ready[mine], ends[mine], float(fits[group]))
    return found


def _in_waves(ready: Floats, ends: Floats, fits: float) -> Mask:
    """Say which of a group's attempts, in order of readiness, are of a wide stretch."""
    side_by_side = max(2.0, SIDE_BY_SIDE * fits)
    last = np.maximum.accumulate(ends)
    new = np.concatenate([[True], ready[1:] > last[:-1]])
    stretch = np.cumsum(new) - 1
    # How many were ready or running when each became ready, itself included.
    beside = np.arange(1, len(ready) + 1) - np.searchsorted(np.sort(ends), ready, "right")
    most = np.zeros(stretch[-1] + 1)
    np.maximum.at(most, stretch, beside)
    # What is given out as cores become free is ready no sooner: its waves follow each other.
    first = np.flatnonzero(new)
    pause = ready[first[1:]] - last[first[1:] - 1]
    apart = (most[:-1] < side_by_side) | (pause > SHORT_GAP_S)
    waves = np.concatenate([[0], np.cumsum(apart)])[stretch]
    widest = np.zeros(waves[-1] + 1)
    np.maximum.at(widest, waves, most[stretch])
    wide = (np.bincount(waves) >= 2 * fits) & (widest >= side_by_side)
    made: Mask = wide[waves]
    return made


def _lasting(line: Timeline, mask: Mask, waves: tuple[Floats, Floats, Mask] | None) -> Mask:
    """Keep stretches of consecutive segments that last, drop mere latency and last waves."""
    if not mask.any():
        return mask
    mask = mask | _pauses(line, mask) if waves is not None else mask
    edge = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    starts, ends = edge[::2], edge[1::2]
    total = np.concatenate([[0.0], np.cumsum(line.dt)])
    length = total[ends] - total[starts]
    lasts = length >= SHORT_GAP_S
    if waves is not None:
        plain = np.concatenate([[0.0], np.cumsum(waves[0] * line.dt)])
        only_wide = plain[ends] - plain[starts] < 1e-9
        # A wave follows a time in which all cores (or the memory) were full, or more tasks waited.
        full = (starts > 0) & waves[2][np.maximum(starts - 1, 0)]
        lasts &= ~(only_wide & full & (length <= 1.25 * waves[1][ends - 1]))
    keep = np.zeros(len(mask) + 1, dtype=np.int64)
    np.add.at(keep, starts[lasts], 1)
    np.add.at(keep, ends[lasts], -1)
    kept: Mask = np.cumsum(keep)[:-1] > 0
    return kept


def _pauses(line: Timeline, mask: Mask) -> Mask:
    """Find short pauses between two tasks of a chain: they do not make it less of a chain.

    The next task is ready within them, on its way or not even known: so short is the engine's
    latency, whatever it is.
    """
    still = (line.running < 0.5) & ~mask
    edge = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(np.int8)))
    starts, ends = edge[::2], edge[1::2]
    inside = (starts > 0) & (ends < len(mask))
    starts, ends = starts[inside], ends[inside]
    total = np.concatenate([[0.0], np.cumsum(line.dt)])
    brief = (total[ends] - total[starts] < SHORT_GAP_S) & mask[starts - 1] & mask[ends]
    found = np.zeros(len(mask) + 1, dtype=np.int64)
    np.add.at(found, starts[brief], 1)
    np.add.at(found, ends[brief], -1)
    pauses: Mask = np.cumsum(found)[:-1] > 0
    return pauses


def _alone(seen: View, line: Timeline, narrow: Mask) -> tuple[list[tuple[int, float]], float]:
    """Give the groups that ran while too little did, with their shares, longest first.

    And how many of them ran at a time, on average.
    """
    if not narrow.any():
        return [], 1.0
    grid = np.concatenate([line.start, [line.start[-1] + line.dt[-1]]])
    total = np.concatenate([[0.0], np.cumsum(np.where(narrow, line.dt, 0.0))])
    rows = np.flatnonzero(seen.ran & (seen.group >= 0))
    rows = rows[np.lexsort((seen.started[rows], seen.group[rows]))]
    group = seen.group[rows]
    since, until = (np.interp(t[rows], grid, total) for t in (seen.started, seen.ended))
    sums = np.bincount(group, until - since, minlength=len(seen.groups))
    # Each group's own time, what ran side by side once: groups are laid end to end.
    base = group * float(total[-1])
    covered = np.maximum.accumulate(np.concatenate([[0.0], base + until]))
    alone = np.maximum(covered[1:] - np.maximum(covered[:-1], base + since), 0.0)
    order = np.lexsort((np.arange(len(sums)), -sums))
    groups = [(int(g), float(sums[g] / sums.sum())) for g in order if sums[g] > 1e-9]
    return groups, float(alone.sum()) / max(float(total[-1]), 1e-12)


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
