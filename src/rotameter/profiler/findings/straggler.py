"""RM106 straggler: one attempt takes many times its mates' time, and nothing on record is why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import idle_cores_beside
from rotameter.profiler.findings._likes import (
    KIN_RATIO,
    NEAR,
    behind,
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
from rotameter.profiler.replaying.changes import Cap, Scale
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Floats, Mask

__all__ = ["Advisor"]

MOST_GROUPS = 3

CROWD_RATIO = 3.0
CROWDED_CORES = 0.2
"""A machine on which less than this was idle had no core for another thread."""

HAD_A_CORE = 0.75
"""What used more of its time than this hardly waited for a core."""

LIKE_OTHERS = 0.25
"""What got this part of the share of a core that others got then waited for one as they did; what
got less waited for something else."""


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
        cost = self._cost(seen, tools, long, usual)
        if cost is None:
            return None
        n = int((comparable(seen) & (seen.group == group)).sum())
        worst = int(rows[np.argmax(seen.wall[rows])])
        top, median = float(seen.wall[worst]), float(usual[worst])
        waits = _waits(seen, long)
        known = grown_known(seen, long)
        label = seen.label(group)
        many = f"{len(rows)} of {n:,} tasks took up to" if len(rows) > 1 else f"1 of {n:,} took"
        return Finding(
            code="RM106",
            kind="straggler",
            severity=cost.severity,
            title=(
                f"{label}: {many} {format_seconds(top)}, {format_number(top / median, 2)} times "
                f"the median, {'on the same work' if known else 'for no reason on record'}"
            ),
            groups=(seen.groups[group],),
            evidence=_evidence(seen, long, worst, top / median, n),
            **cost.fields,
            confidence="high" if n >= 8 and known else "medium",
            advice=(
                (
                    "It hardly computed meanwhile: look at what it waited for (a service, a lock, "
                    "a file), and give that a time limit and a retry."
                    if waits
                    else f"It computed {_how_long(seen, long)}: look at what its input makes the "
                    "code do (convergence, a bad case), and run it first or split it."
                )
                + " Starting the longest ones first hides some of it."
            ),
            change=(
                "client.submit(f, item, priority=10)  # the long one first"
                if is_dask(seen.meta) and not waits
                else None
            ),
            apply={"order": {"factor": None}, "task_granularity": {"factor": 0.5}},
        )

    def _cost(self, seen: View, tools: Tools, long: Mask, usual: Floats) -> Cost | None:
        extra = np.where(long, seen.wall - usual, 0.0)
        return by_replay(
            seen,
            tools,
            Cap(long, "wall", np.where(long, usual, np.nan)),
            Scale(behind(seen, long), "stall", 0.0),
            bound_s=float(extra.max()),
            bound_how="the extra time of the longest",
            how="as if it had taken its group's median",
        )


def _how_long(seen: View, long: Mask) -> str:
    """Say how much of the time it computed; on a crowded machine it was not all of it."""
    if _short_of_cores(seen, long).any():
        return "longer than its like, and waited for a core besides"
    return "all that time"


def grown_known(seen: View, long: Mask) -> bool:
    """Say whether the data of the long ones are on record, so that skew is excluded."""
    rows = comparable(seen)
    return bool(grown_with(seen, rows, long_ones(seen, rows)).known[long].all())


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


def _waits(seen: View, long: Mask) -> bool:
    """Say whether the time was mostly spent without computing, though there was a core for it."""
    cpu = seen.number("cpu_s")
    with np.errstate(invalid="ignore"):
        known = long & ~np.isnan(cpu)
        usual = group_median(seen, cpu, comparable(seen))[seen.group]
        known &= ~(_short_of_cores(seen, long) & (cpu > OUTLIER * usual))
    if not known.any():
        return False
    return bool(cpu[known].sum() < 0.5 * seen.wall[known].sum())


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
        how = "largest of bytes read, written, input and result, against the median"
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
