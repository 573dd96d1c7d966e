"""Work that was done in vain or twice: which attempts, and what the run is without them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.findings._basis import as_recorded, basis
from rotameter.profiler.findings._replayed import Cost, by_replay
from rotameter.profiler.findings._resources import asked_cores
from rotameter.profiler.findings._spared import Spared
from rotameter.profiler.findings._together import Joint, Priced
from rotameter.profiler.findings.base import price, severity_of, worth_saying
from rotameter.profiler.usage import is_job_log
from rotameter.units import many
from rotameter.values import Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.savings import Replayer
    from rotameter.profiler.view import Floats, Mask, View

__all__ = [
    "NEVER_ENDED_WELL",
    "all_work_s",
    "by_work",
    "count_like",
    "ends_run",
    "in_vain",
    "lost_work_s",
    "memory_kills",
    "name_groups",
    "never_ended_well",
    "redone",
    "spent_s",
    "without",
    "without_or_lost",
]

MOST_NAMED = 2

NEVER_ENDED_WELL = "tasks that never ended well"
"""The evidence by which a finding is known to be of what made a run fail."""

KILLED = (137.0, -9.0)
"""Exit codes of what SIGKILL ended: in a batch job mostly the kernel, for memory."""

LARGE_RATIO = 0.05
"""What was spent in vain off the path of the run is worth a line from this part of all."""

AT_ONCE_RATIO = 0.1
"""Where nothing waited longer than this part of an attempt's time, it began when it could."""

_OFF_PATH = "the run would not be shorter, as other work went on meanwhile"


def memory_kills(seen: View) -> Mask:
    """Say which attempts were surely or probably killed for memory."""
    made: Mask = seen.outcome_in("oom") | (
        seen.outcome_in("failed") & np.isin(seen.number("exit_code"), KILLED)
    )
    return made


def redone(seen: View, rows: Mask) -> Mask:
    """Say which of some attempts were followed by another of their task, which ended well at last.

    What a task would have taken that never ended well is not known.
    """
    gone = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    gone[seen.task[seen.never_ok]] = True
    made: Mask = rows & (seen.task >= 0) & _followed(seen) & ~gone[seen.task]
    return made


def _followed(seen: View) -> Mask:
    """Say which attempts are not the last of their task, as far as their order is on record.

    Starts tell it, else numbers of attempts, else ends: the first of these that all attempts of a
    task have. Where none is on record nothing says that any was the last.
    """
    size = len(seen.task_ids) + 1
    made = np.ones(seen.n, dtype=bool)
    for value in (seen.ended, seen.number("attempt"), seen.started):
        blank = np.zeros(size, dtype=bool)
        blank[seen.task[np.isnan(value)]] = True
        last, first = np.full(size, -np.inf), np.full(size, np.inf)
        np.fmax.at(last, seen.task, value)
        np.fmin.at(first, seen.task, value)
        tells = ~blank & (last > first)
        made = np.where(tells[seen.task], value < last[seen.task], made)
    return made


def lost_work_s(seen: View, rows: Mask) -> float | None:
    """Sum the seconds of attempts; None where how long they ran is not on record."""
    walls = seen.wall[rows]
    return None if np.isnan(walls).all() else float(np.nansum(walls))


def count_like(seen: View, group: int, rows: Mask) -> int:
    """Count a group's attempts: those that really ran, and some that surely did."""
    return int(((seen.could_measure | rows) & (seen.group == group) & ~seen.nested).sum())


def never_ended_well(seen: View, rows: Mask) -> tuple[Evidence, ...]:
    """Count the tasks of some attempts that never ended well; nothing where all did."""
    count = len(np.intersect1d(seen.task[rows], seen.task[seen.never_ok]))
    of = len(np.unique(seen.task[rows]))
    return (Evidence(NEVER_ENDED_WELL, count, "", "counted", of),) if count else ()


def ends_run(seen: View, rows: Mask) -> bool:
    """Say whether tasks of some attempts never ended well, in a run that may have failed for it."""
    status = (seen.meta.get("run") or {}).get("status")
    return bool((rows & seen.never_ok).any()) and not is_job_log(seen) and status != "ok"


def without_or_lost(
    seen: View, tools: Tools, rows: Mask, *, how: str, bound_how: str, unknown: str
) -> Cost | None:
    """Price attempts that need not have been lost; no seconds where their tasks never ended well.

    Parameters
    ----------
    rows : ndarray of bool, shape (n,)
    how, bound_how : str
        As for :func:`without`, of those whose tasks ended well at last.
    unknown : str
        Why no seconds can be told of the others.
    """
    again, fatal = redone(seen, rows), ends_run(seen, rows)
    cost = without(seen, tools, again, how=how, bound_how=bound_how) if again.any() else None
    if not (rows & ~again).any():
        return cost
    # What those that ran again cost does not hide what the others held.
    if cost is not None and cost.seconds:
        return cost if seen.slots else _with_held(seen, cost, rows)
    return in_vain(seen, rows, unknown, seconds=None, always=fatal)


def without(
    seen: View,
    tools: Tools,
    rows: Mask,
    *,
    how: str,
    bound_how: str,
    more: tuple[Change, ...] = (),
    whole: bool = False,
) -> Cost | None:
    """Price attempts that need not have been made.

    Parameters
    ----------
    rows : ndarray of bool, shape (n,)
    how, bound_how : str
        What the replay assumes; where the bound comes from if there is none.
    more : tuple of Change
        What else would be different, applied last.
    whole : bool
        Take the saving from the recorded length itself, not from its replay: for what a replay of
        the record cannot know (the waits behind cached tasks), but one of the better run need not.

    Returns
    -------
    Cost or None
        None where the run would be hardly shorter and little was spent on them.
    """
    if seen.makespan is None:
        return in_vain(seen, rows, "when the attempts ran is not on record", seconds=None)
    most = spent_s(seen, rows)
    if not whole:
        most = min(most, hastened_s(seen, rows))
    if not worth_saying(seen, most):
        return in_vain(seen, rows, _OFF_PATH)
    base = basis(seen, tools)
    if base is not None and whole and tools.replay is not None:
        return _from_record(seen, tools, base, (Spared(seen, rows), *more), how)
    if base is not None:
        ways = (base, *_with_waits(seen, base, rows))
        cost = _dearest(seen, tools, rows, ways, more, bound_how, how)
        if cost is not None:
            cost = _at_most(seen, _for_these(cost, rows), most)
            return cost if cost.fields["cost_core_h"] is not None else _with_held(seen, cost, rows)
    why = (
        _OFF_PATH
        if base is not None
        else "jobs of a log make no run of their own: nothing ends sooner without them"
    )
    return in_vain(seen, rows, why)


def _with_waits(seen: View, base: tuple[Change, ...], rows: Mask) -> tuple[tuple[Change, ...], ...]:
    """Give the run with its waits as recorded, where some waited before they were tried again.

    Where requests decide who waits, a back-off is none: it is in the record only.
    """
    plain = as_recorded(seen)
    waits_s = spent_s(seen, rows) - float(np.nansum(seen.wall[rows]))
    if plain is None or len(plain) == len(base) or not worth_saying(seen, waits_s):
        return ()
    return (plain,)


def _dearest(
    seen: View,
    tools: Tools,
    rows: Mask,
    ways: tuple[tuple[Change, ...], ...],
    more: tuple[Change, ...],
    bound_how: str,
    how: str,
) -> Cost | None:
    """Give the highest price of attempts in descriptions of the run, each of which leaves some out.

    By requests a job begins when its cores are free, and no wait is in the run; as recorded the
    waits are, and cores that get free let nothing begin sooner.
    """
    slots = max(1.0, seen.slots or 1.0)
    costs = [
        by_replay(
            seen,
            tools,
            *base,
            Spared(seen, rows),
            *more,
            base=base,
            bound_s=float(np.nansum(seen.wall[rows])) / slots,
            bound_how=bound_how,
            how=how,
        )
        for base in ways
    ]
    return max((c for c in costs if c is not None), key=lambda cost: cost.seconds, default=None)


@dataclass(frozen=True, slots=True, eq=False)
class _Again(Priced):
    """A price of attempts made in vain: recorded times bound it, also of several lots of them."""

    rows: Mask | None = None

    def with_(self, others: Sequence[Any], seen: View, replay: Replayer | None) -> Joint | None:
        """Replay the run without any of these attempts."""
        made = Priced.with_(self, others, seen, replay)
        rows = [one.rows for one in (self, *others) if isinstance(one, _Again)]
        known = [mask for mask in rows if mask is not None]
        if made is None or len(known) < 1 + len(others):
            return None
        every = np.logical_or.reduce(known)
        most = min(spent_s(seen, every), hastened_s(seen, every))
        return replace(made, mid_s=min(made.mid_s, most), high_s=min(made.high_s, most))


def _for_these(cost: Cost, rows: Mask) -> Cost:
    """Let a price know the attempts that it is of."""
    was = cost.fields.get("what_if")
    if not isinstance(was, Priced):
        return cost
    made = _Again(was.changes, was.base, was.widen, was.most_s, rows)
    return replace(cost, fields={**cost.fields, "what_if": made})


def _from_record(
    seen: View, tools: Tools, base: tuple[Change, ...], better: tuple[Change, ...], how: str
) -> Cost | None:
    """Give what the record is longer than a replay of the better run."""
    replay, record = tools.replay, seen.makespan or 0.0
    was = replay.makespan(*base) if replay is not None else None
    made = replay.makespan(*base, *better) if replay is not None else None
    if was is None or made is None or not worth_saying(seen, record - made):
        return None
    mid, off = record - made, abs(record - was)
    fields = {
        **price(seen, mid),
        "cost_s_interval80": (round(max(0.0, mid - off), 6), round(min(mid + off, record), 6)),
        "cost_how": (
            f"{how}; the record less a replay of that; the replay of the run itself is "
            f"{100 * off / record:.1f} % off"
        ),
    }
    return Cost(mid, fields, severity_of(seen, mid))


def spent_s(seen: View, rows: Mask) -> float:
    """Give the seconds that attempts took, with the waits before what came after them.

    Without them a run is shorter by no more than that, but for the luck of an order that happens
    to fit better: that is not their doing.
    """
    return float(_spent(seen)[rows].sum())


def _spent(seen: View) -> Floats:
    order = np.lexsort((np.nan_to_num(seen.started, nan=np.inf), seen.task))
    gap = np.zeros(seen.n)
    same = (np.diff(seen.task[order]) == 0) & (seen.task[order][1:] >= 0)
    before, after = order[:-1][same], order[1:][same]
    gap[before] = np.nan_to_num(np.maximum(seen.started[after] - seen.ended[before], 0.0))
    made: Floats = np.nan_to_num(seen.wall) + gap
    return made


def hastened_s(seen: View, rows: Mask) -> float:
    """Give the most that a run can be shorter without some attempts, by recorded times alone.

    An attempt begins earlier at most by what those of them took that began before it did: one
    that ran when the first of them began would have ended when it ended.
    """
    gone = np.flatnonzero(rows)
    kept = ~rows & ~np.isnan(seen.ended) & ~seen.nested & ~seen.outcome_in("cached")
    if not gone.size or not kept.any():
        return np.inf
    begun = np.nan_to_num(seen.started[gone], nan=-np.inf)
    order = np.argsort(begun, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(_spent(seen)[gone][order])])
    since = np.nan_to_num(_begun(seen)[kept], nan=np.inf)
    earlier = before[np.searchsorted(begun[order], since, "left")]
    last = float(np.nanmax(seen.ended))
    return max(0.0, last - float((seen.ended[kept] - earlier).max()))


def _begun(seen: View) -> Floats:
    """Give when attempts began: recorded, else when they could, where nothing waited long."""
    since = np.fmax(seen.ready, seen.submitted)
    waits = (seen.started - since)[seen.ran]
    longest = float(np.nanmax(waits)) if not np.isnan(waits).all() else np.inf
    blank = np.isnan(seen.started)
    with np.errstate(invalid="ignore"):
        at_once = blank & (longest <= AT_ONCE_RATIO * (seen.ended - since))
    return np.asarray(np.where(at_once, since, seen.started))


def _at_most(seen: View, cost: Cost, most_s: float) -> Cost:
    """Keep a cost and its interval below what can have been lost."""
    if cost.seconds <= most_s:
        return cost
    low, _ = cost.fields["cost_s_interval80"]
    fields = {
        **cost.fields,
        **price(seen, most_s),
        "cost_s_interval80": (min(low, round(most_s, 6)), round(most_s, 6)),
    }
    return Cost(most_s, fields, severity_of(seen, most_s))


def _held(seen: View, rows: Mask) -> tuple[float, float]:
    """Give the core-seconds and GB·h that attempts held."""
    cores = np.maximum(np.nan_to_num(asked_cores(seen), nan=1.0), 0.0)
    wall = np.nan_to_num(seen.wall)
    memory = np.nan_to_num(seen.number("requested_memory_bytes"))
    return float((wall * cores)[rows].sum()), float((wall * memory)[rows].sum()) / 3.6e12


def _with_held(seen: View, cost: Cost, rows: Mask) -> Cost:
    """Say what the attempts held: for where it is not known what the workers did."""
    core_s, gbh = _held(seen, rows)
    fields = {
        **cost.fields,
        "cost_core_h": round(core_s / 3600.0, 9),
        "cost_gbh": round(gbh, 9) if gbh > 0 else cost.fields["cost_gbh"],
    }
    return Cost(cost.seconds, fields, cost.severity)


def in_vain(
    seen: View,
    rows: Mask,
    why: str,
    *,
    seconds: float | None = 0.0,
    always: bool = False,
) -> Cost | None:
    """Say what attempts held in vain, where it is a part of all that matters, or ``always``."""
    core_s, gbh = _held(seen, rows)
    total, _ = _held(seen, ~seen.outcome_in("cached") & ~seen.nested)
    if not always and (total <= 0 or core_s < LARGE_RATIO * total):
        return None
    known = not bool(np.isnan(seen.wall[rows]).all())
    fields = {
        "cost_s": seconds,
        "cost_s_interval80": None,
        "cost_gbh": round(gbh, 9) if gbh > 0 else None,
        "cost_core_h": round(core_s / 3600.0, 9) if known else None,
        "cost_how": why,
    }
    large = always or core_s >= 0.3 * total
    return Cost(0.0, fields, "warning" if large else "info")


def name_groups(seen: View, groups: Sequence[int]) -> str:
    """Name some groups: the first two, and how many more there are."""
    if not groups:
        return "tasks"
    if len(groups) == 1:
        return seen.label(groups[0])
    named = [seen.label(g) for g in groups[:MOST_NAMED]]
    more = len(groups) - len(named)
    return f"{', '.join(named)} and {many(more, 'more group')}" if more else " and ".join(named)


def by_work(seen: View, rows: Mask) -> list[int]:
    """Give the groups of some attempts, those with most work in them first."""
    at = np.flatnonzero(rows)
    here = np.where(seen.group[at] >= 0, seen.group[at], len(seen.groups))
    size = len(seen.groups) + 1
    spent = np.bincount(here, np.nan_to_num(seen.wall[at]), minlength=size)[:-1]
    count = np.bincount(here, minlength=size)[:-1]
    return [int(g) for g in np.lexsort((-count, -spent)) if count[g] > 0]


def all_work_s(seen: View) -> float:
    """Sum the seconds of all attempts that really ran, those inside others left out."""
    live = ~seen.outcome_in("cached") & ~seen.nested
    return float(np.nansum(seen.wall[live]))
