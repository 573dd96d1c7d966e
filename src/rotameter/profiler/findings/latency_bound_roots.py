"""RM103 latency_bound_roots: root tasks trickle out of the scheduler while workers idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._cores import spare_share, threads_of
from rotameter.profiler.findings._together import Joint
from rotameter.profiler.findings.base import (
    Tools,
    group_median,
    price,
    settings,
    severity_of,
    worth_saying,
)
from rotameter.profiler.findings.tiny_tasks import (
    USUAL_OVERHEAD_S,
    could_matter,
    scheduler_busy,
    unused_while_ready,
)
from rotameter.profiler.open_ends import complete
from rotameter.profiler.view import View, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rotameter.profiler.replaying.savings import Replayer
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor"]

MIN_TASKS = 50
LONGEST_S = 0.1
SLOWEST_TRIP_S = 0.03
"""No round trip from worker to scheduler and back takes longer."""

STANDS_OUT = 0.75
"""Tasks that were at hand begin within this part of the mean gap; else they cannot be told."""

NEAR_LIMIT = 0.6
"""In a machine in full use tasks take longer: so much of what its idle cores allow is sure."""

_LESS = "; less where sending takes as much CPU time as now: the machines' cores have less to spare"

RAISE_TO = 4.0
MOST_INPUTS = 5
"""Groups that depend on fewer tasks in all are roots to distributed."""


class Advisor:
    """Find roots that wait in the scheduler's queue while workers have nothing to do."""

    name = "latency_bound_roots"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for latency-bound root tasks."""
        seen = view(trace)
        if seen.slots is None or not seen.ran.any() or seen.meta.get("engine") not in _ENGINES:
            return []
        saturation = settings(seen).get("worker-saturation", np.nan)
        value = float("nan") if saturation is None else float(saturation)
        good = seen.ran & complete(seen) & rootish(seen) & (seen.group >= 0)
        count = np.bincount(seen.group[good], minlength=len(seen.groups) + 1)[:-1]
        median = group_median(seen, seen.wall, good)[:-1]
        suspects = np.flatnonzero((count >= MIN_TASKS) & (median < LONGEST_S))
        if np.isnan(value) and suspects.size:
            tools.cannot_tell(
                "whether root tasks were held back", "the setting worker-saturation is not recorded"
            )
        if not value < RAISE_TO:
            return []
        if np.isnan(seen.seconds(seen.tasks["ready_ns"])).all():
            return []
        bound = could_matter(seen, good) / seen.slots
        suspects = suspects[worth_saying(seen, bound[suspects])]
        if suspects.size and scheduler_busy(seen, tools):
            return []  # They wait for what keeps the scheduler busy.
        found = [self._group(seen, int(g), good, value) for g in suspects]
        return [finding for finding in found if finding is not None]

    def _group(self, seen: View, group: int, good: Mask, saturation: float) -> Finding | None:
        rows = good & (seen.group == group)
        n = int(rows.sum())
        slots = float(seen.slots or 1.0)
        lost = unused_while_ready(seen, rows)
        window = float(seen.ended[rows].max() - np.fmin(seen.ready, seen.started)[rows].min())
        gaps = _Gaps.of(seen, rows, saturation)
        room_s = _room_s(seen, rows)
        cost = max(0.0, lost - n * gaps.stocked_s) / slots
        if lost < 0.15 * window * slots or not worth_saying(seen, cost):
            return None
        if lost / n > SLOWEST_TRIP_S:
            return None  # That is no round trip: these waited for something else.
        largest = _largest(seen.number("output_bytes")[rows])
        target = gaps.target(float(np.median(seen.wall[rows])))
        extra = (target - saturation) * slots * largest if largest is not None else None
        memory = float(np.nansum(seen.lives["memory"])) or None
        if extra is not None and memory is not None and extra > 0.1 * memory:
            return None  # So many results in flight would fill the memory.
        label = seen.label(group)
        return Finding(
            code="RM103",
            kind="latency_bound_roots",
            severity=severity_of(seen, cost),
            title=(
                f"{n:,} root tasks of {label} waited in the scheduler while "
                f"{lost / window / slots:.0%} of the cores idled"
            ),
            groups=(seen.groups[group],),
            evidence=(
                *_evidence(seen, rows, saturation, window, lost),
                Evidence(
                    "gap before a task that was at hand", round(gaps.stocked_s, 6), "s", gaps.how, n
                ),
            ),
            **price(seen, cost),
            cost_s_interval80=_interval(seen, gaps, lost, n, room_s),
            cost_how=(
                f"idle core time over {format_number(slots)} cores, as if each gap before a task "
                f"were {format_seconds(gaps.stocked_s)}: {gaps.how}"
                + (_LESS if cost > room_s else "")
            ),
            confidence="high",
            advice=(
                "Let the scheduler send root tasks ahead. "
                + (
                    f"About {format_bytes(max(extra, 0.0))} more results may be in flight."
                    if extra is not None
                    else "Watch memory: output sizes were not recorded."
                )
                + " Doing several in one task saves the rest of it."
            ),
            change=(
                f'dask.config.set({{"distributed.scheduler.worker-saturation": {target}}})'
                "  # before the cluster starts"
            ),
            apply={"order": {"value": target}},
            what_if=_Idled(rows, gaps),
        )


def _room_s(seen: View, rows: Mask) -> float:
    """Give the seconds by which a stretch can be shorter until the machines' cores are all in use.

    What keeps tasks waiting is work too: sending them takes scheduler and workers CPU time. Part of
    it goes when tasks are sent many at once, how much is not known. Infinite where processes are
    not sampled.
    """
    begin_s = float(np.fmin(seen.ready, seen.started)[rows].min())
    end_s = float(seen.ended[rows].max())
    share = spare_share(seen, begin_s, end_s)
    return float("inf") if share is None else share * (end_s - begin_s)


def _interval(seen: View, gaps: _Gaps, lost: float, n: int, room_s: float) -> tuple[float, float]:
    """Give the range of a price by idle cores; what the machines have to spare may be less."""
    slots = float(seen.slots or 1.0)
    low = min(max(0.0, lost - n * gaps.most_s) / slots, NEAR_LIMIT * room_s)
    high = min((lost - n * gaps.least_s) / slots, seen.makespan or 0.0)
    return round(low, 6), round(high, 6)


@dataclass(frozen=True, slots=True, eq=False)
class _Idled:
    """A price by idle cores: of several groups, by those that were idle while any was ready."""

    rows: Mask
    gaps: _Gaps

    def with_(self, others: Sequence[Any], seen: View, replay: Replayer | None) -> Joint | None:
        """Sweep all of the groups at once."""
        parts: list[_Idled] = [self, *(one for one in others if isinstance(one, _Idled))]
        lost = unused_while_ready(seen, np.logical_or.reduce([part.rows for part in parts]))
        slots, count = float(seen.slots or 1.0), [float(part.rows.sum()) for part in parts]

        def less(gaps_s: list[float]) -> float:
            kept = sum(n * gap_s for n, gap_s in zip(count, gaps_s, strict=True))
            return max(0.0, lost - kept) / slots

        return Joint(
            less([part.gaps.stocked_s for part in parts]),
            less([part.gaps.most_s for part in parts]),
            less([part.gaps.least_s for part in parts]),
            f"cores idle while a task of any of these was ready, over {format_number(slots)} cores",
        )


@dataclass(frozen=True, slots=True)
class _Gaps:
    """Between a thread's tasks.

    Attributes
    ----------
    stocked_s, least_s, most_s : float
        Before a task that the worker had at hand: median, and an interval of it.
    trip_s : float
        Before one that had to be sent first: what nine of ten stay below.
    how : str
        Where the first come from.
    """

    stocked_s: float
    least_s: float
    most_s: float
    trip_s: float
    how: str

    @staticmethod
    def of(seen: View, rows: Mask, saturation: float) -> _Gaps:
        """Tell the gaps before tasks at hand from those before tasks that were waited for.

        A worker of ``t`` threads is given ``ceil(saturation x t)`` tasks, so that this part of
        them more than it has threads are at hand when a thread gets free.
        """
        gap = _gaps(seen, rows)
        threads = np.nanmedian(threads_of(seen)[seen.worker[rows]])
        given = max(1.0, float(np.ceil(saturation * threads)))
        stock = max(0.0, 1.0 - float(threads) / given)
        trip_s = float(np.quantile(gap, 0.9)) if len(gap) else 0.0
        if stock > 0 and len(gap) >= MIN_TASKS:
            low, mid, high = (float(np.quantile(gap, stock * q)) for q in (0.1, 0.5, 0.9))
            if mid <= STANDS_OUT * float(gap.mean()):
                how = f"the usual gap of the {stock:.0%} of tasks that were at hand, measured"
                return _Gaps(mid, low, high, trip_s, how)
        usual = USUAL_OVERHEAD_S
        return _Gaps(usual, usual / 2, usual * 2, trip_s, "what running a task usually costs")

    def target(self, wall_s: float) -> float:
        """Give the saturation at which a worker's stock lasts as long as it waits for more."""
        lasts_s = max(wall_s, 0.0) + self.stocked_s
        if lasts_s <= 0:
            return RAISE_TO
        return max(RAISE_TO, float(np.ceil(round(1.0 + self.trip_s / lasts_s, 2))))


def _gaps(seen: View, rows: Mask) -> Floats:
    """Give how long a thread had been free when each of some attempts began on it."""
    made = []
    threads = np.fmax(np.nan_to_num(threads_of(seen), nan=1.0), 1.0).astype(np.int64)
    for worker in np.unique(seen.worker[rows & (seen.worker >= 0)]).tolist():
        mine = np.flatnonzero(seen.ran & (seen.worker == worker))
        mine = mine[np.argsort(seen.started[mine], kind="stable")]
        # The thread that got free first takes the next one.
        free = np.sort(seen.ended[mine])[: max(0, len(mine) - threads[worker])]
        next_ = mine[threads[worker] :]
        inside = rows[next_] & (free >= seen.started[rows].min())
        made.append((seen.started[next_] - free)[inside])
    gap = np.concatenate(made) if made else np.zeros(0)
    return np.maximum(gap, 0.0)


def rootish(seen: View) -> Mask:
    """Say which attempts the scheduler takes for roots, and queues.

    As distributed does: groups of more than twice as many tasks as there are threads, which depend
    on groups of fewer than five tasks in all.
    """
    n_groups = len(seen.groups)
    mine = seen.ran & (seen.group >= 0)
    group_of = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    group_of[seen.task[mine]] = seen.group[mine]
    task, on = seen.deps
    known = (task >= 0) & (on >= 0)
    group, on = group_of[task[known]], on[known]
    known = group >= 0
    width = len(seen.task_ids) + 1
    # What it depends on counts by whole groups; a task without a group is one of its own.
    source = np.where(group_of[on] >= 0, group_of[on], n_groups + on)[known]
    pairs = np.unique(group[known] * (n_groups + width) + source)
    count = np.bincount(seen.group[mine], minlength=n_groups)
    of = pairs % (n_groups + width)
    size = np.where(of < n_groups, np.append(count, 1)[np.minimum(of, n_groups)], 1)
    inputs = np.bincount(pairs // (n_groups + width), size, minlength=n_groups)
    roots = (inputs < MOST_INPUTS) & (count > 2 * (seen.slots or 0.0))
    mask: Mask = seen.root | (mine & np.append(roots, False)[seen.group])
    return mask


def _largest(size: Floats) -> float | None:
    """Give what 95 % of the outputs stay below, in bytes."""
    return None if np.isnan(size).all() else float(np.nanquantile(size, 0.95))


def _evidence(
    seen: View, rows: Mask, saturation: float, window: float, lost: float
) -> tuple[Evidence, ...]:
    n = int(rows.sum())
    median_s = float(np.median(seen.wall[rows]))
    waited = seen.started[rows] - seen.ready[rows]
    size = seen.number("output_bytes")[rows]
    largest = _largest(size)
    return (
        Evidence("worker-saturation", saturation, "", "setting recorded", 1),
        Evidence("rate", round(n / window, 3) if window else None, "tasks/s", "measured", n),
        Evidence("median duration", round(median_s, 6), "s", "measured", n),
        Evidence(
            "median wait while ready",
            round(float(np.nanmedian(waited)), 6),
            "s",
            "started less ready",
            n,
        ),
        Evidence(
            "cores idle while these were ready",
            round(lost, 3),
            "core·s",
            "swept over the group's tasks",
            n,
        ),
        Evidence(
            "output, 95 % of tasks below",
            largest,
            "B",
            "measured",
            int((~np.isnan(size)).sum()),
        ),
    )


_ENGINES = ("dask", "distributed")
