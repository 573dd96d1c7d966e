"""RM144 lost_attempts: attempts were pre-empted, or lost with their worker or node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.failure_words import were
from rotameter.profiler.findings._again import (
    all_work_s,
    by_work,
    lost_work_s,
    name_groups,
    never_ended_well,
    redone,
    spent_s,
    without_or_lost,
)
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.deaths import collect
from rotameter.profiler.view import View, is_dask, short, view
from rotameter.units import format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.findings._replayed import Cost
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Mask

__all__ = ["Advisor", "taken_away"]

_ENDS = {
    "preempted": "pre-empted",
    "worker_lost": "lost with their worker or node",
    "rescheduled": "put back into the queue while they ran",
}
_ENDS_ONE = {
    "worker_lost": "lost with its worker or node",
    "rescheduled": "put back into the queue while it ran",
}
"""How attempts were taken away, in words; what differs for a single one."""

MOSTLY = 0.5
"""A host that holds this part of the losses, and two of them, is named."""


class Advisor:
    """Find work that was taken away while it ran, by nothing that another rule tells of."""

    name = "lost_attempts"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for attempts that were taken away, each way by itself."""
        seen = view(trace)
        rows = taken_away(seen)
        found = []
        for outcome in _ENDS:
            mine = rows & seen.outcome_in(outcome)
            if not mine.any():
                continue
            cost = without_or_lost(
                seen,
                tools,
                mine,
                how="as if each of them had been left to end at the first attempt",
                bound_how="the time of the lost attempts over all cores",
                unknown="they never ended well: what the run would take without this is unknown",
            )
            if cost is not None:
                found.append(_finding(seen, outcome, mine, cost))
        return found


def taken_away(seen: View) -> Mask:
    """Say which attempts were pre-empted, put back, or lost with a worker that nothing tells of.

    A worker's death that is on record is workers_died's (or walltime_loss's). What still ran when a
    cluster of Dask was closed was lost with its worker too, and nobody waited for it: there only
    what ran again counts, or what a failed run lacks.
    """
    # Of what never ended well it need not be known how long it ran.
    timed = ~np.isnan(seen.wall) | seen.never_ok
    rows = seen.outcome_in("preempted", "worker_lost") & timed
    good = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    good[seen.task[seen.ok & (seen.task >= 0)]] = True
    # What was put back before it began has lost nothing.
    rows |= seen.outcome_in("rescheduled") & (seen.wall > 0) & good[seen.task] & ~_engines(seen)
    rows &= ~seen.nested
    if not rows.any():
        return rows
    told = {death.worker for death in collect(seen)}
    dead = np.array([*(name in told for name in seen.workers), False], dtype=bool)
    rows &= ~(dead[seen.worker] & seen.outcome_in("worker_lost"))
    if is_dask(seen.meta) and (seen.meta.get("run") or {}).get("status") != "failed":
        rows &= redone(seen, rows)
    made: Mask = rows
    return made


def _engines(seen: View) -> Mask:
    """Say which attempts are of Dask's own shuffles, which put their tasks back as they please."""
    own = [is_dask(seen.meta) and "p2p" in group for group in seen.groups]
    made: Mask = np.array([*own, False], dtype=bool)[seen.group]
    return made


def _finding(seen: View, outcome: str, rows: Mask, cost: Cost) -> Finding:
    groups = by_work(seen, rows)
    again = redone(seen, rows)
    host = _host(seen, rows) if outcome == "worker_lost" else None
    return Finding(
        code="RM144",
        kind="lost_attempts",
        severity=cost.severity,
        title=_title(seen, outcome, rows, groups),
        groups=tuple(seen.groups[g] for g in groups),
        evidence=_evidence(seen, outcome, rows, again, host),
        **cost.fields,
        confidence="high"
        if again[rows].all() and not np.isnan(seen.wall[rows]).any()
        else "medium",
        advice=_advice(seen, outcome, host),
        change=_change(seen, outcome, host),
        apply=None,
    )


def _title(seen: View, outcome: str, rows: Mask, groups: list[int]) -> str:
    n, tasks = int(rows.sum()), len(np.unique(seen.task[rows]))
    gone = len(np.intersect1d(seen.task[rows], seen.task[seen.never_ok]))
    what = _ENDS_ONE.get(outcome, _ENDS[outcome]) if tasks == 1 else _ENDS[outcome]
    text = f"{name_groups(seen, groups)}: {many(tasks, 'task')} {were(tasks)} {what}"
    if n > tasks:
        text += f" in {many(n, 'attempt')}"
    if not gone:
        text += " and ran again"
    else:
        text += " and never ended well" if gone == tasks else f", {gone:,} of them for good"
    lost_s = lost_work_s(seen, rows)
    return text + (f"; {format_seconds(lost_s)} of work lost" if lost_s is not None else "")


def _evidence(
    seen: View, outcome: str, rows: Mask, again: Mask, host: tuple[str, int] | None
) -> tuple[Evidence, ...]:
    n, all_s, lost_s = int(rows.sum()), all_work_s(seen), lost_work_s(seen, rows)
    named = (
        (("lost on one host, most", host[1], f"{short(host[0], 40)}, recorded"),) if host else ()
    )
    wait_s = spent_s(seen, again) - float(np.nansum(seen.wall[again]))
    how = "summed" if lost_s is not None else "how long they ran is not on record"
    timed = int((~np.isnan(seen.wall[rows])).sum())
    return (
        Evidence(f"attempts {_ENDS[outcome]}", n, "", "recorded states", seen.n),
        Evidence("tasks", len(np.unique(seen.task[rows])), "", "counted", len(seen.task_ids)),
        *never_ended_well(seen, rows),
        Evidence("work lost", None if lost_s is None else round(lost_s, 3), "s", how, timed),
        Evidence(
            "its part of all task time",
            round(lost_s / all_s, 4) if lost_s is not None and all_s > 0 else None,
            "ratio",
            "summed",
            seen.n,
        ),
        *(
            (Evidence("until they began again", round(wait_s, 3), "s", "summed", int(again.sum())),)
            if again.any()
            else ()
        ),
        *(Evidence(name, count, "", text, n) for name, count, text in named),
    )


def _host(seen: View, rows: Mask) -> tuple[str, int] | None:
    """Give the host that most of some attempts were lost on, and how many; None: none stands out.

    Where all ran on one host, that it was this one says nothing.
    """
    names = seen.tasks["host"].to_pylist()
    mine = Counter(name for name, is_ in zip(names, rows.tolist(), strict=True) if is_ and name)
    if not mine or len({name for name in names if name}) < 2:
        return None
    host, count = min(mine.items(), key=lambda item: (-item[1], item[0]))
    return (host, count) if count >= max(2, MOSTLY * int(rows.sum())) else None


def _advice(seen: View, outcome: str, host: tuple[str, int] | None) -> str:
    keep = "save the state now and then and go on from there, or make the tasks shorter"
    if outcome == "preempted":
        return (
            f"So that less is lost, {keep}; or ask for a partition or a quality of service that is "
            "not pre-empted."
        )
    if outcome == "rescheduled":
        return f"Ask who put them back into the queue, and {keep}."
    if is_dask(seen.meta):
        return (
            "Their workers were closed, scaled down or lost while these ran: let running tasks end "
            "first, or make them shorter."
        )
    where = "Ask what became of the machines they ran on"
    if host is not None:
        where = f"Have host {short(host[0], 40)} looked at, and leave it out meanwhile"
    return f"{where}. So that less is lost, {keep}."


def _change(seen: View, outcome: str, host: tuple[str, int] | None) -> str | None:
    if seen.meta.get("engine") != "slurm":
        return None
    if outcome == "preempted":
        return "#SBATCH --requeue --signal=B:USR1@120  # at that signal, save the state"
    if host is not None:
        return f"#SBATCH --exclude={host[0]}"
    return None
