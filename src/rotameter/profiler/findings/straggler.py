"""RM106 straggler: one attempt takes many times its mates' time, and nothing on record is why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rotameter.profiler.findings._cores import idle_cores_beside
from rotameter.profiler.findings._held import free_cores
from rotameter.profiler.findings._likes import (
    GROWN,
    KIN_RATIO,
    NEAR,
    behind,
    beyond_spread,
    comparable,
    families,
    grown_with,
    long_ones,
    together,
)
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import OUTLIER, Tools, group_median, worth_saying
from rotameter.profiler.findings.cold_first_task import cold_attempts
from rotameter.profiler.findings.regime_change import changed_attempts
from rotameter.profiler.findings.uneven_workers import slow_workers
from rotameter.profiler.occupancy import timeline
from rotameter.profiler.replaying.changes import Cap, Scale, Split, Unpin
from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor"]

MOST_GROUPS = 30
"""A bound for the time it takes only: what is left out is missing where all are priced together."""

CROWD_RATIO = 3.0
CROWDED_CORES = 0.2
"""A machine on which less than this was idle had no core for another thread."""

HAD_A_CORE = 0.75
"""What used more of its time than this hardly waited for a core."""

LIKE_OTHERS = 0.25
"""What got this part of the share of a core that others got then waited for one as they did; what
got less waited for something else."""

TRACE_OF_CPU = 0.05
"""CPU time that is less than this part of the duration is a trace: the rest was waiting."""

LEAST_OFF = (0.97, 1.03)
"""No run is repeated more exactly than that."""

EASY_SHARE = 0.8
"""To begin first is one word; to split is work, and is advised where it saves more than that."""

IDLE_CORES, IDLE_SHARE = 0.5, 0.05
"""Where less than this was idle (cores, part of all), nobody waited for a long one."""

MOST_PIECES, MOST_NODES = 64, 2_000
"""More pieces than that balance no better, and cost a replay time."""


class Advisor:
    """Find attempts that are far longer than their mates for no reason in their work."""

    name = "straggler"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for stragglers."""
        seen = view(trace)
        rows = comparable(seen)
        long = long_ones(seen, rows)
        if not long.any():
            return []
        long &= ~grown_with(seen, rows, long).is_ & ~slow_workers(seen).is_[seen.worker]
        long &= ~cold_attempts(seen)[0] & ~changed_attempts(seen)[0]
        long &= ~families(seen, rows, long)
        long &= ~_crowded_out(seen, tools, rows, long)
        usual = group_median(seen, seen.wall, rows)[seen.group]
        long = beyond_spread(seen, rows, long) | (long & ~_all_busy(seen, long, usual))
        extra = np.where(long, seen.wall - usual, 0.0)
        sums = np.bincount(seen.group[long], extra[long], minlength=len(seen.groups))
        order = [int(g) for g in np.argsort(-sums, kind="stable") if worth_saying(seen, sums[g])]
        found = [
            self._group(seen, tools, g, long & (seen.group == g), usual)
            for g in order[:MOST_GROUPS]
        ]
        return [finding for finding in found if finding is not None]

    def _group(
        self, seen: View, tools: Tools, group: int, long: Mask, usual: Floats
    ) -> Finding | None:
        rows = np.flatnonzero(long)
        if together(seen, rows, float(usual[rows[0]])):
            return None
        remedy = _remedy(seen, tools, long, usual)
        if remedy is None:
            return None
        cost = remedy.cost
        n = int((comparable(seen) & (seen.group == group)).sum())
        worst = int(rows[np.argmax(seen.wall[rows])])
        top, median = float(seen.wall[worst]), float(usual[worst])
        same = same_data(seen, long)
        label = seen.label(group)
        many = f"{len(rows)} of {n:,} tasks took up to" if len(rows) > 1 else f"1 of {n:,} took"
        return Finding(
            code="RM106",
            kind="straggler",
            severity=cost.severity,
            title=(
                f"{label}: {many} {format_seconds(top)}, {format_number(top / median, 2)} times "
                f"the median, {'on as much data' if same else 'for no reason on record'}"
            ),
            groups=(seen.groups[group],),
            evidence=_evidence(seen, long, worst, top / median, n),
            **cost.fields,
            confidence="high" if n >= 8 and same else "medium",
            advice=remedy.advice,
            change=remedy.change if is_dask(seen.meta) else None,
            apply=remedy.apply,
        )


@dataclass(frozen=True, slots=True)
class _Remedy:
    """One change of the program, and what that change would save: they belong together."""

    cost: Cost
    advice: str
    change: str | None
    apply: dict[str, Any]


_APPLY: dict[str, Any] = {"order": {"factor": None}, "task_granularity": {"factor": 0.5}}

_COMPUTED = {
    "computed": "It computed all that time",
    "crowded": "It computed longer than its like, and waited for a core besides",
}


def _remedy(seen: View, tools: Tools, long: Mask, usual: Floats) -> _Remedy | None:
    """Give what to do about the long ones; None where that would save next to nothing.

    Work that others do not have does not vanish: it can be split or begun first. All else can be
    made to take its like's time.
    """
    went = _went(seen, long)
    if went in _COMPUTED and not same_data(seen, long) and _computed_more(seen, long):
        return _for_more_work(seen, tools, long, usual, _COMPUTED[went])
    cost = _as_its_like(seen, tools, long, usual)
    if cost is None:
        return None
    if went == "waited":
        advice = (
            "It hardly computed meanwhile: look at what it waited for (a service, a lock, a "
            "file), and give that a time limit and a retry."
        )
    elif went is None:
        advice = (
            "Look at what it may have waited for (a service, a lock, a file), and at what its "
            "input makes the code do."
        )
    else:
        advice = (
            f"{_COMPUTED[went]}: look at what its input makes the code do (convergence, a bad "
            "case), and make it as fast as its like."
        )
    return _Remedy(cost, advice, None, _APPLY)


def _as_its_like(seen: View, tools: Tools, long: Mask, usual: Floats) -> Cost | None:
    """Price the long ones as if each had taken its group's median."""
    extra = np.where(long, seen.wall - usual, 0.0)
    mates = seen.wall[comparable(seen) & ~long & (seen.group == seen.group[long][0])]
    low, high = np.quantile(mates, (0.9, 0.1)) if len(mates) else (np.nan, np.nan)
    # It might have taken what any of its mates did.
    spread = [
        float(np.maximum(seen.wall[long] - mate, 0.0).sum() / extra[long].sum())
        for mate in (low, high)
    ]
    return by_replay(
        seen,
        tools,
        Cap(long, "wall", np.where(long, usual, np.nan)),
        Scale(behind(seen, long), "stall", 0.0),
        bound_s=float(extra.max()),
        bound_how="the extra time of the longest",
        how="as if it had taken its group's median",
        widen=(float(np.fmin(LEAST_OFF[0], spread[0])), float(np.fmax(LEAST_OFF[1], spread[1]))),
    )


def _for_more_work(
    seen: View, tools: Tools, long: Mask, usual: Floats, computed: str
) -> _Remedy | None:
    """Price the same work in pieces like the others, or begun first, whichever is advised."""
    if tools.replay is not None and tools.replay.in_vain(Scale(long, "all", 0.0)):
        return None
    which = np.flatnonzero(long)
    median = float(usual[which[0]])
    most = max(2, min(MOST_PIECES, MOST_NODES // len(which)))
    pieces = int(np.clip(round(float(np.median(seen.wall[which])) / median), 2, most))
    group = comparable(seen) & (seen.group == seen.group[which[0]])
    ahead = (Unpin(group), _First(long))
    cut = (Split(long, pieces),)
    priced = [tools.replay.saving(*way) if tools.replay else None for way in (cut, ahead)]
    split, first = (max(0.0, (one.mid_s or 0.0) if one else 0.0) for one in priced)
    begin = first >= EASY_SHARE * split > 0.0
    cost = by_replay(
        seen,
        tools,
        *(ahead if begin else cut),
        saving=priced[begin],
        bound_s=float((seen.wall - usual)[long].max()),
        bound_how="the extra time of the longest",
        how="as if it had begun first" if begin else f"as if its work were done in {pieces} pieces",
    )
    if cost is None:
        return None
    if tools.replay is not None:
        cost = _within_a_task(seen, cost, median)
    other = "Split as well, it would save" if begin else "Begun first instead, it would save"
    beside = split if begin else first
    also = f" {other} {format_seconds(beside)}." if worth_saying(seen, beside) else ""
    if begin:
        advice = f"{computed}: begin it before the others.{also}"
        change = "client.submit(f, item, priority=10)  # the long one first"
    else:
        advice = f"{computed}: split it into some {pieces} pieces.{also}"
        change = f"client.map(f, pieces_of(item))  # the long one in some {pieces} pieces"
    apply = dict(_APPLY) if begin else dict(reversed(_APPLY.items()))
    return _Remedy(cost, advice, change, apply)


def _within_a_task(seen: View, cost: Cost, task_s: float) -> Cost:
    """Widen the interval by a usual task, and leave out the replay's draws.

    The last pieces need not end together, and what has begun is not interrupted for the one that
    goes first. The draws take a mate for the long one, and then there is nothing to split.
    """
    high = min(LEAST_OFF[1] * cost.seconds, seen.makespan or 0.0)
    low = max(0.0, min(LEAST_OFF[0] * cost.seconds, cost.seconds - task_s))
    return replace(
        cost, fields={**cost.fields, "cost_s_interval80": (round(low, 6), round(high, 6))}
    )


@dataclass(frozen=True, slots=True, eq=False)
class _First:
    """The chosen attempts go before all others that are ready."""

    tasks: Mask

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = chosen(model, self.tasks)
        ahead = float(model.priority.min()) - 1.0
        return replace(model, priority=np.where(nodes, ahead, model.priority))


def same_data(seen: View, long: Mask) -> bool:
    """Say whether the data of the long ones are on record, and no more than the others'."""
    rows = comparable(seen)
    grown = grown_with(seen, rows, long_ones(seen, rows))
    return bool((grown.known[long] & (grown.ratio[long] < GROWN)).all())


def _computed_more(seen: View, long: Mask) -> bool:
    """Say whether the long ones used more CPU time than their like; what is unknown counts not."""
    cpu = seen.number("cpu_s")
    usual = group_median(seen, cpu, comparable(seen))[seen.group]
    known = long & ~np.isnan(cpu) & (usual > 0)
    return bool(known.any() and np.median(cpu[known] / usual[known]) > OUTLIER)


def _all_busy(seen: View, long: Mask, usual: Floats) -> Mask:
    """Say in whose extra time all cores had a task; not where the cores are not on record."""
    found = np.zeros(seen.n, dtype=bool)
    line = timeline(seen)
    if line is None:
        return found
    rows = np.flatnonzero(long)
    since, until = seen.started[rows] + usual[rows], seen.ended[rows]
    idle = line.integral(free_cores(seen, line), since, until)
    most = max(IDLE_CORES, IDLE_SHARE * float(seen.slots or 1.0))
    found[rows] = idle < most * np.maximum(until - since, 0.0)
    return found


def _crowded_out(seen: View, tools: Tools, rows: Mask, long: Mask) -> Mask:
    """Find the long ones that merely waited for a core, on a machine that had none left.

    They used no more CPU time than their mates; or more, as all that ran beside them did, or as
    those before and after them, so that it is the machine's time or a sweep's costly setting.
    """
    found = np.zeros(seen.n, dtype=bool)
    short_of = _short_of_cores(seen, long)
    if not short_of.any():
        return found
    cpu = seen.number("cpu_s")
    with np.errstate(invalid="ignore"):
        more = short_of & (cpu > OUTLIER * group_median(seen, cpu, rows)[seen.group])
    all_long = long_ones(seen, rows)
    for row in np.flatnonzero(short_of).tolist():
        if more[row]:
            found[row] = _all_beside(seen, row, all_long)
        else:
            alone = int((long & (seen.group == seen.group[row])).sum()) == 1
            found[row] = not (alone and _behind_others(seen, row, rows, long))
    found |= _kin(seen, rows, more & ~found)
    extra = seen.wall - group_median(seen, seen.wall, rows)[seen.group]
    if worth_saying(seen, float(extra[found].sum())):
        tools.cannot_tell(
            "why some tasks took longer than their like",
            "all cores of their machines were busy, and they waited for one",
        )
    return found


def _short_of_cores(seen: View, rows: Mask) -> Mask:
    """Say which attempts did not compute all the time, on a machine without an idle core."""
    found = np.zeros(seen.n, dtype=bool)
    with np.errstate(invalid="ignore"):
        mine = np.flatnonzero(rows & (seen.number("cpu_s") <= HAD_A_CORE * seen.wall))
        found[mine] = idle_cores_beside(seen, mine) <= CROWDED_CORES
    return found


def _behind_others(seen: View, row: int, rows: Mask, long: Mask) -> bool:
    """Say whether one that is far behind got far less of a core than others got meanwhile."""
    usual = group_median(seen, seen.wall, rows)[seen.group[row]]
    if seen.wall[row] <= CROWD_RATIO * usual:
        return False
    with np.errstate(invalid="ignore", divide="ignore"):
        share = seen.number("cpu_s") / seen.wall
        others = rows & ~long & (seen.started < seen.ended[row]) & (seen.ended > seen.started[row])
    if np.isnan(share[others]).all():
        others = rows & ~long & (seen.group == seen.group[row])
    known = share[others & ~np.isnan(share)]
    return not len(known) or bool(share[row] < LIKE_OTHERS * float(np.median(known)))


def _all_beside(seen: View, row: int, long: Mask) -> bool:
    """Say whether others ran beside an attempt most of its time, and most of them were long too."""
    with np.errstate(invalid="ignore"):
        both = np.minimum(seen.ended, seen.ended[row]) - np.maximum(seen.started, seen.started[row])
        others = seen.ran & (both > 0)
    others &= (seen.worker != seen.worker[row]) & (seen.group == seen.group[row])
    most = 0.5 * float(seen.wall[row])
    return bool(both[others & long].sum() > max(most, float(both[others & ~long].sum())))


def _kin(seen: View, rows: Mask, some: Mask) -> Mask:
    """Find those of some attempts whose neighbours in order of start took as much CPU time."""
    found = np.zeros(seen.n, dtype=bool)
    cpu = seen.number("cpu_s")
    for group in np.unique(seen.group[some]).tolist():
        mine = np.flatnonzero(rows & (seen.group == group))
        mine = mine[np.argsort(seen.started[mine], kind="stable")]
        padded = np.pad(cpu[mine], NEAR, constant_values=np.nan)
        near = np.stack(
            [padded[NEAR + k : NEAR + k + len(mine)] for k in range(-NEAR, NEAR + 1) if k]
        )
        with np.errstate(invalid="ignore"):
            like = (near * KIN_RATIO >= cpu[mine]) & (near <= KIN_RATIO * cpu[mine])
        found[mine] = like.sum(axis=0) >= 2
    return found & some


def _went(seen: View, long: Mask) -> Literal["waited", "computed", "crowded"] | None:
    """Say where the time went; None where no CPU time is on record.

    Little CPU time on a machine without an idle core may have been a wait for a core: there it
    counts as computing if it is far more than usual, and no mere trace of it.
    """
    cpu = seen.number("cpu_s")
    known = long & ~np.isnan(cpu)
    if not known.any():
        return None
    short_of = known & _short_of_cores(seen, long)
    usual = group_median(seen, cpu, comparable(seen))[seen.group]
    with np.errstate(invalid="ignore"):
        crowded = short_of & (cpu > OUTLIER * usual) & (cpu > TRACE_OF_CPU * seen.wall)
    told = known & ~crowded
    if told.any() and cpu[told].sum() < 0.5 * seen.wall[told].sum():
        return "waited"
    return "crowded" if short_of.any() else "computed"


def _evidence(seen: View, long: Mask, worst: int, ratio: float, n: int) -> tuple[Evidence, ...]:
    rows = comparable(seen)
    grown = grown_with(seen, rows, long_ones(seen, rows)).ratio[worst]
    made = [
        Evidence("longest / median", round(ratio, 3), "times", "measured", n),
        Evidence("tasks of twice the median or more", int(long.sum()), "", "counted", n),
    ]
    if np.isnan(grown):
        made.append(Evidence("its data against the others'", None, "times", "not recorded"))
    else:
        how = "largest of bytes read, written, received and made, against the median"
        made.append(Evidence("its data against the others'", round(float(grown), 3), "times", how))
    cpu = seen.number("cpu_s")[worst]
    if not np.isnan(cpu):
        share = round(float(cpu / seen.wall[worst]), 3)
        made.append(Evidence("CPU time / duration of the longest", share, "ratio", "measured", 1))
    made.append(Evidence("the longest", short(seen.task_ids[seen.task[worst]], 60), "", "recorded"))
    if seen.worker[worst] >= 0:
        where = short(seen.workers[seen.worker[worst]], 40)
        made.append(Evidence("its worker", where, "", "recorded"))
    return tuple(made)
