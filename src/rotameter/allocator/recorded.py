"""What the tasks of a trace needed: which count, what is known of those that were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.allocator.workload import Workload, near_limit
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.allocator.workload import Codes, Floats, Mask
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["from_trace", "of_unknown_state", "sizes_of", "unmet_of", "usable"]


def from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace whose peak memory and duration are known.

    A peak that is a lower bound only (killed for memory) is no need; tasks are in the order in
    which they ended, else as recorded, those that came from the cache of an earlier run first.
    Where an input records no state at all, what has a peak and a duration counts as completed.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where none has a peak.
    """
    from rotameter.profiler.view import lookup, view

    seen = view(trace)
    rows, earlier, notes = usable(
        trace, seen, _fit(seen), seen.number("peak_memory_bytes"), "a peak and a duration"
    )
    names = (*seen.groups, "(unnamed)")
    group = seen.group % len(names)
    place = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    place[seen.task[rows]] = np.arange(len(rows))
    place[-1] = -1
    table = trace.table("deps")
    one = place[lookup(table["task_id"], seen.task_ids)]
    two = place[lookup(table["depends_on"], seen.task_ids)]
    both = (one >= 0) & (two >= 0) & (one != two)
    peak, asked = seen.number("peak_memory_bytes"), seen.number("requested_memory_bytes")
    dead, had, unmet = _killed(seen, rows)
    blind = np.isnan(had)
    low = seen.ok & ~seen.nested & (peak > 0) & (seen.peak_kinds == "lower_bound")
    return Workload(
        name=name,
        group=group[rows],
        groups=names,
        need=peak[rows],
        wall_s=seen.wall[rows],
        size=sizes_of(seen)[rows],
        asked=asked[rows],
        deps=tuple(zip(one[both].tolist(), two[both].tolist(), strict=True)),
        at_most=near_limit(peak, asked)[rows] | (seen.peak_kinds[rows] == "upper_bound"),
        killed=tuple(zip(group[dead[~blind]].tolist(), had[~blind].tolist(), strict=True)),
        killed_blind=tuple(group[dead[blind]].tolist()),
        kinds=seen.peak_kinds[rows],
        unmet=tuple((int(group[row]), most) for row, most in unmet),
        cached=earlier[rows],
        least=tuple(zip(group[low].tolist(), peak[low].tolist(), strict=True)),
        notes=notes,
    )


def usable(
    trace: Trace, seen: View, fit: Mask, need: Floats, what: str
) -> tuple[Codes, Mask, tuple[str, ...]]:
    """Give attempts that show a need, in order; which are of an earlier run; what is assumed.

    Parameters
    ----------
    trace : Trace
    seen : View
    fit : ndarray of bool
        Attempts that would show a need, had they completed.
    need : ndarray of float64
    what : str
        What is known of these, in words.
    """
    # One with times was looked up here: its figures are those of the look-up.
    earlier = seen.outcome_in("cached") & np.isnan(seen.started) & np.isnan(seen.ended)
    done = seen.ok.copy()
    notes: tuple[str, ...] = ()
    if _stateless(trace, seen) and fit.any():
        done[:] = True
        told = many(int(fit.sum()), "task")
        notes = (f"no state is recorded: {told} with {what} count as completed",)
    rows = np.concatenate(
        [_once(seen, fit & done, fit & earlier, need), np.flatnonzero(fit & done)]
    )
    ended = np.where(earlier[rows], -np.inf, np.nan_to_num(seen.ended[rows], nan=np.inf))
    return rows[np.argsort(ended, kind="stable")], earlier, notes


def _once(seen: View, ran: Mask, cached: Mask, need: Floats) -> Codes:
    """Give the cached attempts of executions that are not on record otherwise, each of them once.

    A task that ran is known from its own run; each later run tells of it again, by the same name
    or by the same execution.
    """
    rows = np.flatnonzero(cached)
    if not rows.size:
        return rows
    known = set(seen.task[ran].tolist())
    runs = seen.tasks["run_id"].to_pylist()

    def execution(row: int) -> tuple[str, int, float] | None:
        run = runs[row]
        return None if run is None else (run, int(seen.group[row]), float(need[row]))

    told = {execution(row) for row in np.flatnonzero(ran).tolist()}
    kept = []
    for row in rows.tolist():
        task, one = int(seen.task[row]), execution(row)
        if task not in known and (one is None or one not in told):
            kept.append(row)
        known.add(task)
        told.add(one)
    return np.array(kept, dtype=np.int64)


def _fit(seen: View) -> Mask:
    """Say which attempts would show a need, had they completed."""
    fit: Mask = (
        ~seen.nested
        & (seen.number("peak_memory_bytes") > 0)
        & (seen.wall > 0)
        & (seen.peak_kinds != "lower_bound")
        & (seen.peak_kinds != "missing")
    )
    return fit


def of_unknown_state(trace: Trace) -> int:
    """Count attempts with a peak and a duration of which it is not known how they ended."""
    from rotameter.profiler.view import view

    seen = view(trace)
    return int((_fit(seen) & seen.outcome_in(None, "unknown")).sum())


def _stateless(trace: Trace, seen: View) -> bool:
    """Say whether an input has nothing on how its tasks ended."""
    said = ("outcome_kind", "error", "exit_code", "signal")
    return (
        trace.meta.get("origin") == "imported"
        and bool(seen.outcome_in(None, "unknown").all())
        and all(seen.tasks[name].null_count == seen.n for name in said)
    )


def _killed(seen: View, rows: Codes) -> tuple[Codes, Floats, list[tuple[int, float]]]:
    """Give what ran out of memory, and with how much.

    Returns
    -------
    dead : ndarray of int64
        Attempts that ran out of memory.
    had : ndarray of float64
        What each of them had, NaN = unknown.
    unmet : list of (int, float)
        One of the attempts of each task whose need was not seen later, and the most that it had.
    """
    dead = np.flatnonzero(seen.outcome_in("oom") & ~seen.nested)
    peak = np.where(seen.peak_kinds == "lower_bound", seen.number("peak_memory_bytes"), np.nan)
    granted = np.fmax(seen.number("granted_memory_bytes"), seen.number("requested_memory_bytes"))
    had = np.fmax(granted, peak)[dead]
    had[~(had > 0)] = np.nan
    return dead, had, unmet_of(seen, rows, seen.number("peak_memory_bytes"), dead, had)


def unmet_of(
    seen: View, rows: Codes, amount: Floats, dead: Codes, had: Floats
) -> list[tuple[int, float]]:
    """Give one attempt of each task whose need was not seen later, and the most that it had.

    Parameters
    ----------
    seen : View
    rows : ndarray of int64
        Attempts that show a need.
    amount : ndarray of float64
        What each attempt needed.
    dead, had : ndarray
        Attempts that ran out of it, and with how much, NaN = unknown.
    """
    need = np.full(len(seen.task_ids) + 1, np.nan)
    need[seen.task[rows]] = amount[rows]
    most: dict[int, tuple[int, float]] = {}
    for row, amount in zip(dead.tolist(), had.tolist(), strict=True):
        task = int(seen.task[row])
        before = most.get(task, (row, float("nan")))[1]
        most[task] = (row, float(np.fmax(before, amount)))
    met = need[list(most)] > np.nan_to_num([amount for _, amount in most.values()])
    return [one for one, known in zip(most.values(), met.tolist(), strict=True) if not known]


def sizes_of(seen: View) -> Floats:
    """Give each attempt's ``input_bytes`` among what was known before it ran, NaN = unknown."""
    features = seen.tasks["features"]
    if features.null_count == seen.n:
        return np.full(seen.n, np.nan)
    known = pc.map_lookup(features, pa.scalar("input_bytes"), "last").cast(pa.float64())
    made: Floats = pc.fill_null(known, float("nan")).to_numpy()
    return made
