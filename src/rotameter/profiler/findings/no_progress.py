"""RM128 no_progress: all that ran waited, using nothing, for something that came late or never."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import idle_host_cores
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings.base import Tools, group_median, worth_saying
from rotameter.profiler.groups import quantiles
from rotameter.profiler.open_ends import complete
from rotameter.profiler.replaying.changes import Cap
from rotameter.profiler.usage import is_job_log
from rotameter.profiler.view import View, short, view
from rotameter.units import format_seconds, many
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor", "Stretch", "stretches"]

USES_NOTHING = 0.25
"""An attempt that waits uses less than this part of its time on a core or in calls on files."""

AS_EVER, FEWEST_SAME = 1.25, 3
"""What takes no longer than this many times what as many others of its group took on its worker did
not wait: it takes that long."""

TOGETHER_S = 0.05
"""What waits for one thing goes on at once; polls and wake-ups take this long."""

CROWDED_CORES, COMPUTED_RATIO = 0.2, 0.02
"""On a machine without an idle core, what computed this part of its time waited for a core."""

HUNG_S, HUNG_LONGEST = 60.0, 5.0
HUNG_RATIO = 0.2
"""Where a trace ends, a stand-still is told from this length and part of the run, and from this
many times its longest attempt."""

SOON_S, SOON_LONGEST, FEWEST_LIKE = 5.0, 10.0, 3
"""It is told from this length where it is also this many times as long as any time before in which
nothing began or ended, and as any of so many attempts of the same group."""


class Advisor:
    """Find stretches in which nothing that ran did anything."""

    name = "no_progress"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for a stand-still in mid-run, and at the end of a run that was cut off."""
        seen = view(trace)
        if is_job_log(seen) or not seen.n:
            return []
        found = []
        hung = _hung(seen)
        if hung is not None:
            found.append(hung)
        cpu = seen.number("cpu_s")
        if np.isnan(cpu[seen.ran]).all():
            return found
        still = [one for one in stretches(seen) if worth_saying(seen, _still_s(seen, one))]
        crowded = [one for one in still if _crowded(seen, one)]
        if crowded:
            tools.cannot_tell(
                "why nothing moved for a while",
                "all cores of the machine were busy, and the tasks got little of them",
            )
        still = [one for one in still if one not in crowded]
        if still:
            made = _finding(seen, tools, still)
            if made is not None:
                found.append(made)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A time in which all attempts that ran waited.

    Attributes
    ----------
    begin, end : float
        Seconds of the view.
    rows : ndarray of int64
        The attempts.
    """

    begin: float
    end: float
    rows: Codes


def stretches(seen: View) -> list[Stretch]:
    """Find the times in which two or more attempts ran, and none of all that ran did anything.

    They begin when the last of them began and end when the first of them ends. They count only
    where all go on at once when it ends, and where waiting is not what these tasks always do: they
    last far longer than their mates, or began one by one and yet ended together.
    """
    rows = np.flatnonzero(seen.ran & (seen.ended > seen.started))
    if len(rows) < 2:
        return []
    idle = _idle(seen)[rows]
    begun, ended = seen.started[rows], seen.ended[rows]
    times = np.unique(np.concatenate([begun, ended]))
    low, high = np.searchsorted(times, begun), np.searchsorted(times, ended)
    running = np.cumsum(
        np.bincount(low, minlength=len(times)) - np.bincount(high, minlength=len(times))
    )
    waiting = np.cumsum(
        np.bincount(low[idle], minlength=len(times)) - np.bincount(high[idle], minlength=len(times))
    )
    still = (running >= 2) & (running == waiting)
    length = np.append(np.diff(times), 0.0)
    least = max(0.2, 0.02 * (seen.makespan or 0.0))
    found = []
    for place in np.flatnonzero(still & (length >= least)).tolist():
        begin, end = float(times[place]), float(times[place + 1])
        mine = rows[(begun <= begin) & (ended >= end)]
        if _one_cause(seen, mine, begin, end):
            found.append(Stretch(begin, end, mine))
    return found


def _idle(seen: View) -> Mask:
    """Say which attempts used next to nothing: no core, no file, no network."""
    cpu = seen.number("cpu_s")
    used = cpu + sum(np.nan_to_num(seen.number(c)) for c in ("io_s", "transfer_s", "gpu_s"))
    with np.errstate(invalid="ignore"):
        made: Mask = used < USES_NOTHING * seen.wall
    return made


def _one_cause(seen: View, rows: Codes, begin: float, end: float) -> bool:
    """Say whether attempts that stood still waited for one thing, and not as they always do."""
    cpu = np.nan_to_num(seen.number("cpu_s")[rows])
    rest = seen.ended[rows] - end
    length = end - begin
    late = TOGETHER_S + 0.1 * length + 3.0 * cpu * len(rows)
    if (rest > late).any():
        return False
    usual = _usual(seen, rows)[seen.group[rows]]
    with np.errstate(invalid="ignore"):
        longer = seen.wall[rows] > 3.0 * usual
        if (seen.wall[rows] <= AS_EVER * _same_place(seen, rows)).any():
            return False
    if longer.any() and (longer | np.isnan(usual)).all():
        return True
    return bool(np.ptp(seen.started[rows]) > 3.0 * np.ptp(seen.ended[rows]) + 0.2)


def _crowded(seen: View, one: Stretch) -> bool:
    """Say whether they stood still for lack of a core: others had them all, and they computed."""
    idle = idle_host_cores(seen, one.begin, one.end)
    cpu, wall = seen.number("cpu_s")[one.rows], seen.wall[one.rows]
    share = float(np.nansum(cpu) / max(float(wall.sum()), 1e-9))
    return idle is not None and idle <= CROWDED_CORES and share >= COMPUTED_RATIO


def _usual(seen: View, rows: Codes) -> Floats:
    """Give the median time of the other attempts of each group."""
    others = seen.ran & complete(seen) & (seen.group >= 0)
    others[rows] = False
    return group_median(seen, seen.wall, others)


def _same_place(seen: View, rows: Codes) -> Floats:
    """Give the median time of what else of its group ran on each attempt's worker; NaN if few."""
    others = seen.ran & complete(seen) & (seen.group >= 0) & (seen.worker >= 0)
    others[rows] = False
    cell = seen.group * (len(seen.workers) + 1) + seen.worker
    wanted = np.unique(cell[rows])
    at = np.minimum(np.searchsorted(wanted, cell), len(wanted) - 1)
    like = others & (wanted[at] == cell)
    median = quantiles(at[like], seen.wall[like], len(wanted), (0.5,))[0]
    many = np.bincount(at[like], minlength=len(wanted)) >= FEWEST_SAME
    return np.asarray(np.where(many, median, np.nan)[at[rows]])


def _work_s(seen: View, rows: Codes) -> Floats:
    """Give the seconds that attempts would have taken anyway: their like's, else what they used."""
    used = sum(np.nan_to_num(seen.number(c)) for c in ("cpu_s", "io_s", "transfer_s", "gpu_s"))
    usual = _usual(seen, rows)[seen.group[rows]]
    work = np.where(np.isnan(usual), np.asarray(used)[rows], usual)
    return np.asarray(np.minimum(work, seen.wall[rows]))


def _still_s(seen: View, one: Stretch) -> float:
    """Give how long nothing moved: a stretch, less the work that one of its attempts did in it."""
    before = np.maximum(one.begin - seen.started[one.rows], 0.0)
    left = np.maximum(_work_s(seen, one.rows) - before, 0.0)
    return max(0.0, one.end - one.begin - float(left.max(initial=0.0)))


def _finding(seen: View, tools: Tools, still: list[Stretch]) -> Finding | None:
    lost = np.zeros(seen.n)
    for one in still:
        spare = np.maximum(seen.wall[one.rows] - _work_s(seen, one.rows), 0.0)
        lost[one.rows] += np.minimum(one.end - one.begin, spare)
    touched = lost > 0
    total = sum(_still_s(seen, one) for one in still)
    cost: Cost | None = by_replay(
        seen,
        tools,
        Cap(touched, "wall", np.where(touched, np.maximum(seen.wall - lost, 0.0), np.nan)),
        bound_s=total,
        bound_how="the time in which nothing moved",
        how="as if what they waited for had been there",
    )
    if cost is None:
        return None
    rows = np.flatnonzero(touched)
    groups = _groups(seen, rows, lost)
    longest = max(still, key=lambda one: one.end - one.begin)
    share = float(np.nansum(seen.number("cpu_s")[rows]) / max(seen.wall[rows].sum(), 1e-9))
    label = seen.label(groups[0]) if groups else "tasks"
    return Finding(
        code="RM128",
        kind="no_progress",
        severity=cost.severity,
        title=(
            f"Nothing moved for {format_seconds(total)}: all {many(len(rows), 'task')} that ran "
            f"({label}) waited, and went on together"
        ),
        groups=tuple(seen.groups[g] for g in groups[:3]),
        evidence=(
            Evidence(
                "time in which nothing moved",
                round(total, 3),
                "s",
                "all attempts that ran waited, none began or ended; less their usual work",
                len(still),
            ),
            Evidence("attempts that waited", len(rows), "", "counted", int(seen.ran.sum())),
            Evidence(
                "CPU time / duration of them", round(share, 4), "ratio", "measured", len(rows)
            ),
            *_of_longest(seen, longest),
        ),
        **cost.fields,
        confidence="high" if len(longest.rows) >= 2 and share < 0.1 else "medium",
        advice=(
            f"Find out what {label} waits for (a lock, a file, a service, another task's event): "
            "have it there before, submit these tasks when it is, or give the wait a time limit."
        ),
        change=None,
        apply=None,
    )


def _of_longest(seen: View, longest: Stretch) -> tuple[Evidence, ...]:
    """Give what is known of the longest stretch: how its attempts ended, what the host did."""
    apart, idle = float(np.ptp(seen.ended[longest.rows])), _host_idle(seen, longest)
    how, n = "of each other, after the longest stretch", len(longest.rows)
    ended = Evidence("ended within", round(apart, 3), "s", how, n)
    if idle is None:
        return (ended,)
    return ended, Evidence("host CPU meanwhile", round(idle, 3), "ratio", "sampled")


def _groups(seen: View, rows: Codes, lost: Floats) -> list[int]:
    known = rows[seen.group[rows] >= 0]
    sums = np.bincount(seen.group[known], lost[known], minlength=len(seen.groups))
    return [int(g) for g in np.argsort(-sums, kind="stable") if sums[g] > 0]


def _host_idle(seen: View, one: Stretch) -> float | None:
    for metric in ("host_cpu_ratio", "cpu_ratio", "host_cpu"):
        _, at, value = seen.samples(metric)
        mine = value[(at >= one.begin) & (at <= one.end)]
        if mine.size and not np.isnan(mine).all():
            return float(np.nanmean(mine))
    return None


def _hung(seen: View) -> Finding | None:
    """Tell of a run that stood still where its trace ends."""
    over = np.unique(seen.task[seen.ok])
    open_ = seen.outcome_in("running") & ~np.isnan(seen.started) & np.isnan(seen.ended)
    rows = np.flatnonzero(open_ & ~np.isin(seen.task, over))
    window = seen.window
    if not rows.size or window is None:
        return None
    times = np.concatenate([seen.started, seen.ended])
    last = float(np.nanmax(times))
    stood = window[1] - last
    longest = float(np.nanmax(seen.wall[seen.ran])) if seen.ran.any() else 0.0
    if stood < HUNG_RATIO * (window[1] - window[0]):
        return None
    if stood < max(HUNG_S, HUNG_LONGEST * longest) and not _soon(seen, rows, stood):
        return None
    groups = _groups(seen, rows, np.ones(seen.n))
    label = seen.label(groups[0]) if groups else "tasks"
    like = np.isin(seen.group, groups) & seen.ran
    return Finding(
        code="RM128",
        kind="no_progress",
        severity="critical",
        title=(
            f"Nothing began or ended in the last {format_seconds(stood)} of the trace; "
            f"{many(len(rows), 'task')} still ran ({label})"
        ),
        groups=tuple(seen.groups[g] for g in groups[:3]),
        evidence=(
            Evidence("since the last start or end", round(stood, 3), "s", "measured", len(rows)),
            Evidence(
                "longest attempt before", round(longest, 3), "s", "measured", int(seen.ran.sum())
            ),
            *_longest_like(seen, like),
            Evidence("for example", short(seen.task_ids[seen.task[rows[0]]], 60), "", "recorded"),
        ),
        cost_s=None,
        cost_how="cannot be told: the run had not ended",
        confidence="medium",
        advice=(
            f"Look at what {label} waits for (a lock, a file, a service, an answer), and give that "
            "wait a time limit. This run is over: when the next one stands still, ask its cluster "
            "(`rm.dask.why(client)`, `rotameter live ADDRESS`) why each group is not done."
        ),
        change="rm.dask.why(client)  # in the next run, while it hangs; or: rotameter live ADDRESS",
    )


def _soon(seen: View, rows: Codes, stood: float) -> bool:
    """Say whether a shorter stand-still is one too: this run had none, nor so long a task.

    What still ran must have its like, each far shorter than it: a task of a new kind may only be
    long.
    """
    times = np.concatenate([seen.started, seen.ended])
    known = np.unique(times[~np.isnan(times)])
    gap = float(np.diff(known).max()) if known.size > 1 else 0.0
    longest = np.full(len(seen.groups) + 1, np.nan)
    done = np.flatnonzero(seen.ran & complete(seen) & (seen.group >= 0))
    np.fmax.at(longest, seen.group[done], seen.wall[done])
    count = np.bincount(seen.group[done], minlength=len(longest))
    group = seen.group[rows]
    if (group < 0).any() or (count[group] < FEWEST_LIKE).any():
        return False
    return bool(stood >= max(SOON_S, SOON_LONGEST * max(gap, float(longest[group].max()))))


def _longest_like(seen: View, like: Mask) -> tuple[Evidence, ...]:
    if not like.any():
        return ()
    seconds = round(float(np.nanmax(seen.wall[like])), 3)
    return (Evidence("longest of the same groups", seconds, "s", "measured", int(like.sum())),)
