"""RM106 straggler: one attempt takes many times its mates' time on the same work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import idle_host_cores
from rotameter.profiler.findings._likes import (
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
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor"]

MOST_GROUPS = 3

CROWD_RATIO = 3.0
CROWDED_CORES = 0.2
"""A machine on which less than this was idle had no core for another thread."""


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
        if together(seen, rows, float(usual[rows[0]])) or _crowded_out(seen, tools, rows):
            return None
        cost = self._cost(seen, tools, long, usual)
        if cost is None:
            return None
        n = int((comparable(seen) & (seen.group == group)).sum())
        worst = int(rows[np.argmax(seen.wall[rows])])
        top, median = float(seen.wall[worst]), float(usual[worst])
        waits = _waits(seen, long, usual)
        label = seen.label(group)
        many = f"{len(rows)} of {n:,} tasks took up to" if len(rows) > 1 else f"1 of {n:,} took"
        return Finding(
            code="RM106",
            kind="straggler",
            severity=cost.severity,
            title=(
                f"{label}: {many} {format_seconds(top)}, {format_number(top / median, 2)} times "
                "the median, on the same work"
            ),
            groups=(seen.groups[group],),
            evidence=_evidence(seen, long, worst, top / median, n),
            **cost.fields,
            confidence="high" if n >= 8 and grown_known(seen, long) else "medium",
            advice=(
                (
                    "It hardly computed meanwhile: look at what it waited for (a service, a lock, "
                    "a file), and give that a time limit and a retry."
                    if waits
                    else "It computed all that time: look at what its input makes the code do "
                    "(convergence, a bad case), and run it first or split it."
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


def grown_known(seen: View, long: Mask) -> bool:
    """Say whether the data of the long ones are on record, so that skew is excluded."""
    rows = comparable(seen)
    return bool(grown_with(seen, rows, long_ones(seen, rows)).known[long].all())


def _crowded_out(seen: View, tools: Tools, rows: Codes) -> bool:
    """Say whether these merely waited for a core, as did all on a machine that had none left.

    A crowd slows several tasks, or one somewhat; one alone that is far behind has its own reason.
    """
    wall, usual = seen.wall, group_median(seen, seen.wall, comparable(seen))[seen.group]
    if len(rows) == 1 and wall[rows[0]] > CROWD_RATIO * usual[rows[0]]:
        return False
    cpu = seen.number("cpu_s")
    mates = group_median(seen, cpu, comparable(seen))[seen.group[rows]]
    with np.errstate(invalid="ignore"):
        computed = cpu[rows] > OUTLIER * mates
    if np.isnan(cpu[rows]).any() or computed.any():
        return False
    idle = [idle_host_cores(seen, float(seen.started[r]), float(seen.ended[r])) for r in rows]
    if any(cores is None or cores > CROWDED_CORES for cores in idle):
        return False
    tools.cannot_tell(
        "why some tasks took longer than their like",
        "they used no more CPU time, and all cores of their machines were busy",
    )
    return True


def _waits(seen: View, long: Mask, usual: Floats) -> bool:
    """Say whether the extra time was mostly spent without computing."""
    cpu = seen.number("cpu_s")[long]
    known = ~np.isnan(cpu)
    if not known.any():
        return False
    return bool(cpu[known].sum() < 0.5 * seen.wall[long][known].sum())


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
