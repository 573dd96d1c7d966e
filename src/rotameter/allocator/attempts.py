"""Attempts of a trace as tasks to size: their groups, ends and inputs, whatever the resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.allocator.workload import Workload
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.allocator.resources import Resource
    from rotameter.allocator.workload import Codes, Floats, Mask
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["Use", "cut_short", "workload_of"]

_REAL_NS = 10**17
"""Times from 1973 on are real; before that they count from the beginning of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """What is on record of one resource; arrays have one entry an attempt of the trace.

    Attributes
    ----------
    resource : Resource
    what : str
        What is known of an attempt that shows its need, in words.
    need, asked, wall_s : ndarray of float64
        As in a workload, NaN = unknown.
    fit : ndarray of bool
        Attempts that show their need, had they completed.
    kinds : ndarray of str, optional
        How each need was obtained.
    at_most : ndarray of bool, optional
        Needs that are upper bounds only.
    dead : ndarray of bool, optional
        Attempts that ran out of it.
    had : ndarray of float64, optional
        What was not enough for each of these, NaN = unknown.
    least : ndarray of bool, optional
        Attempts that needed at least what is their need.
    least_of_unknown : bool
        Whether only those of tasks that never completed count among these.
    """

    resource: Resource
    what: str
    need: Floats
    asked: Floats
    wall_s: Floats
    fit: Mask
    kinds: NDArray[Any] | None = None
    at_most: Mask | None = None
    dead: Mask | None = None
    had: Floats | None = None
    least: Mask | None = None
    least_of_unknown: bool = False


def workload_of(trace: Trace, seen: View, use: Use, name: str = "") -> Workload:
    """Take the completed tasks that show a need of a resource, and what is known of the others.

    Tasks are in the order in which they ended, else as recorded, those that came from the cache of
    an earlier run first. What is nested in another task is part of that one.

    Parameters
    ----------
    trace : Trace
    seen : View
        Of the same trace.
    use : Use
    name : str

    Returns
    -------
    Workload
        Of no tasks where none shows a need.
    """
    rows, earlier, notes = _usable(trace, seen, use)
    names = (*seen.groups, "(unnamed)")
    group = seen.group % len(names)
    nobody = np.zeros(seen.n, dtype=bool)
    had = np.full(seen.n, np.nan) if use.had is None else use.had
    dead = np.flatnonzero((nobody if use.dead is None else use.dead) & ~seen.nested)
    blind = np.isnan(had[dead])
    low = (nobody if use.least is None else use.least) & ~seen.nested
    if use.least_of_unknown:
        low = low & ~_tasks_of(seen, rows)[seen.task]

    # Of attempts whose task is not named there is a code of -1.
    ids = (*seen.task_ids, "")

    def named(at: Codes) -> tuple[str, ...]:
        return tuple(ids[code] for code in seen.task[at].tolist())

    def pairs(at: Codes, amounts: Floats) -> tuple[tuple[int, float], ...]:
        return tuple(zip(group[at].tolist(), amounts[at].tolist(), strict=True))

    return Workload(
        name=name,
        group=group[rows],
        groups=names,
        need=use.need[rows],
        wall_s=use.wall_s[rows],
        size=_sizes(seen)[rows],
        asked=use.asked[rows],
        deps=_deps(trace, seen, rows),
        at_most=None if use.at_most is None else use.at_most[rows],
        killed=pairs(dead[~blind], had),
        killed_blind=tuple(group[dead[blind]].tolist()),
        kinds=None if use.kinds is None else use.kinds[rows],
        unmet=tuple(
            (int(group[row]), most) for row, most in _unmet(seen, rows, use.need, dead, had)
        ),
        cached=earlier[rows],
        least=pairs(np.flatnonzero(low), use.need),
        notes=notes,
        resource=use.resource,
        row=rows,
        begun=np.where(earlier[rows], -np.inf, _begun(seen)[rows]),
        killed_names=named(dead[~blind]),
        least_names=named(np.flatnonzero(low)),
        origin_s=seen.origin_ns / 1e9 if seen.origin_ns >= _REAL_NS else None,
    )


def cut_short(seen: View, peak: Floats, kinds: NDArray[Any]) -> Mask:
    """Say which attempts did not complete, and needed at least the peak that was seen until then.

    Parameters
    ----------
    seen : View
    peak : ndarray of float64
        NaN = unknown.
    kinds : ndarray of str
        How each peak was obtained; an upper bound is no lower one.
    """
    ended = seen.outcome_in("ok", "cached", None, "unknown")
    made: Mask = ~ended & (peak > 0) & ~np.isin(kinds, ("upper_bound", "missing"))
    return made


def _usable(trace: Trace, seen: View, use: Use) -> tuple[Codes, Mask, tuple[str, ...]]:
    """Give attempts that show a need, in order; which are of an earlier run; what is assumed."""
    fit = use.fit & ~seen.nested & np.isfinite(use.wall_s)
    # One with times was looked up here: its figures are those of the look-up.
    earlier = seen.outcome_in("cached") & np.isnan(seen.started) & np.isnan(seen.ended)
    done = seen.ok.copy()
    notes: tuple[str, ...] = ()
    if _stateless(trace, seen) and fit.any():
        done[:] = True
        told = many(int(fit.sum()), "task")
        notes = (f"no state is recorded: {told} with {use.what} count as completed",)
    once = _once(seen, fit & done, fit & earlier, use.need)
    rows = np.concatenate([once, np.flatnonzero(fit & done)])
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

    def execution(row: int) -> tuple[str, int, float | None] | None:
        run, known = runs[row], float(need[row])
        # NaN is no part of a key: it never equals itself.
        amount = None if np.isnan(known) else known
        return None if run is None else (run, int(seen.group[row]), amount)

    told = {execution(row) for row in np.flatnonzero(ran).tolist()}
    kept = []
    for row in rows.tolist():
        task, one = int(seen.task[row]), execution(row)
        if task not in known and (one is None or one not in told):
            kept.append(row)
        known.add(task)
        told.add(one)
    return np.array(kept, dtype=np.int64)


def _stateless(trace: Trace, seen: View) -> bool:
    """Say whether an input has nothing on how its tasks ended."""
    said = ("outcome_kind", "error", "exit_code", "signal")
    return (
        trace.meta.get("origin") == "imported"
        and bool(seen.outcome_in(None, "unknown").all())
        and all(seen.tasks[name].null_count == seen.n for name in said)
    )


def _begun(seen: View) -> Floats:
    """Give when each attempt's task first started: those that need most are tried again, later."""
    known = ~np.isnan(seen.started)
    first = np.full(len(seen.task_ids) + 1, np.inf)
    np.minimum.at(first, seen.task[known], seen.started[known])
    return np.where(known, first[seen.task], np.nan)


def _tasks_of(seen: View, rows: Codes) -> Mask:
    """Say of each task whether it is that of one of these attempts."""
    known = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    known[seen.task[rows]] = True
    return known


def _unmet(
    seen: View, rows: Codes, amount: Floats, dead: Codes, had: Floats
) -> list[tuple[int, float]]:
    """Give one attempt of each task whose need was not seen later, and the most that it had.

    Parameters
    ----------
    seen : View
    rows : ndarray of int64
        Attempts that show a need.
    amount, had : ndarray of float64
        What each attempt needed; what was not enough for it, NaN = unknown.
    dead : ndarray of int64
        Attempts that ran out of it.
    """
    need = np.full(len(seen.task_ids) + 1, np.nan)
    need[seen.task[rows]] = amount[rows]
    most: dict[int, tuple[int, float]] = {}
    for row, value in zip(dead.tolist(), had[dead].tolist(), strict=True):
        task = int(seen.task[row])
        before = most.get(task, (row, float("nan")))[1]
        most[task] = (row, float(np.fmax(before, value)))
    met = need[list(most)] > np.nan_to_num([value for _, value in most.values()])
    return [one for one, known in zip(most.values(), met.tolist(), strict=True) if not known]


def _deps(trace: Trace, seen: View, rows: Codes) -> tuple[tuple[int, int], ...]:
    """Give (task, what it depends on) by their places among these attempts."""
    from rotameter.profiler.view import lookup

    place = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    place[seen.task[rows]] = np.arange(len(rows))
    place[-1] = -1
    table = trace.table("deps")
    one = place[lookup(table["task_id"], seen.task_ids)]
    two = place[lookup(table["depends_on"], seen.task_ids)]
    both = (one >= 0) & (two >= 0) & (one != two)
    return tuple(zip(one[both].tolist(), two[both].tolist(), strict=True))


def _sizes(seen: View) -> Floats:
    """Give each attempt's ``input_bytes`` among what was known before it ran, NaN = unknown."""
    features = seen.tasks["features"]
    if features.null_count == seen.n:
        return np.full(seen.n, np.nan)
    known = pc.map_lookup(features, pa.scalar("input_bytes"), "last").cast(pa.float64())
    made: Floats = pc.fill_null(known, float("nan")).to_numpy()
    return made
