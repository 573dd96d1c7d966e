"""Attempts without an end on record: how long the run took at least, and which tasks are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = [
    "complete",
    "lacking",
    "makespan",
    "open_tasks",
    "still_running",
    "still_waiting",
    "unknown_outcome",
]


def still_running(view: View) -> tuple[Codes, Floats]:
    """Give the rows of attempts that still ran where the trace ends, and that instant for each.

    Only what is on record as running does; what merely lacks an end may have ended at any time.
    None outlives its worker.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "started_ns": 1, "ended_ns": 1 + 8 * 10**9, "outcome": "ok"},
    ...     {"task_id": "b", "started_ns": 1 + 5 * 10**9, "outcome": "running"}]
    >>> rows, ends = still_running(View(Trace.from_tables({"tasks": rows})))
    >>> rows.tolist(), ends.tolist()
    ([1], [8.0])
    """
    over = np.zeros(len(view.task_ids) + 1, dtype=bool)
    over[view.task[view.ok & (view.task >= 0)]] = True
    runs = view.outcome_in("running") & ~np.isnan(view.started) & np.isnan(view.ended)
    rows = np.flatnonzero(runs & ~over[view.task] & ~view.nested)
    if not rows.size or view.window is None:
        return rows[:0], np.zeros(0)
    last = np.full(len(view.workers) + 1, -np.inf)
    np.maximum.at(last, view.lives["worker"], view.lives["ended"])
    gone = last[view.worker[rows]]
    ends = np.full(len(rows), view.window[1])
    ends = np.where(gone > view.started[rows], np.minimum(ends, gone), ends)
    keep = ends > view.started[rows]
    return rows[keep], ends[keep]


def complete(view: View) -> Mask:
    """Say which attempts ended and are not known to be lost; shape (n,).

    Those that ended well, and those that ended without a word how: the latter ran and took their
    time, but whether that was of use is unknown.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "started_ns": 1, "ended_ns": 9}, {"task_id": "b"},
    ...     {"task_id": "c", "started_ns": 1, "ended_ns": 9, "outcome": "failed"}]
    >>> complete(View(Trace.from_tables({"tasks": rows}))).tolist()
    [True, False, False]
    """
    if "complete" not in view.memo:
        over = ~np.isnan(view.ended) | ~np.isnan(view.wall)
        view.memo["complete"] = view.ok | (view.outcome_in("unknown", None) & over)
    made: Mask = view.memo["complete"]
    return made


def unknown_outcome(view: View) -> tuple[int, int]:
    """Count the tasks that ended without a word how, and all tasks.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "started_ns": 1, "ended_ns": 9}, {"task_id": "b"}]
    >>> unknown_outcome(View(Trace.from_tables({"tasks": rows})))
    (1, 2)
    """
    told = view.task[view.ok | view.lost | view.outcome_in("cached")]
    blank = np.setdiff1d(view.task[complete(view) & ~view.ok], told)
    return len(blank), len(np.unique(view.task))


# As batch systems write the state of a job that they have not started.
_WAITS = r"(?i)^(?:pending|pd|queued|waiting|held|resv_del_hold)(?:$|[^a-z_])"


def still_waiting(view: View) -> Mask:
    """Say which attempts wait to start by their reported state; shape (n,).

    A log may lack the start of what ran: without such a word, nothing is said to wait.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "outcome": "unknown", "error": "PENDING: Priority"},
    ...     {"task_id": "b", "outcome": "unknown"}]
    >>> still_waiting(View(Trace.from_tables({"tasks": rows}))).tolist()
    [True, False]
    """
    said = pc.match_substring_regex(view.tasks["error"], _WAITS)
    waits = pc.fill_null(said, False).to_numpy().astype(bool)
    never = np.isnan(view.started) & np.isnan(view.ended) & np.isnan(view.number("wall_s"))
    mask: Mask = waits & never & view.outcome_in("unknown", None)
    return mask


def makespan(view: View, *, to_the_end: bool = True) -> float | None:
    """Give the seconds from the first submission (or start) to the last instant of an attempt.

    What has no end on record lasted at least to its start, and for what is known of its time,
    from its submission where no start is known; what still ran, to the end of the trace, unless
    ``to_the_end`` is false.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.view import View
    >>> rows = [{"task_id": "a", "started_ns": 0, "ended_ns": 10**9},
    ...     {"task_id": "b", "started_ns": 5 * 10**9, "outcome": "failed"}]
    >>> made = View(Trace.from_tables({"tasks": rows}))
    >>> makespan(made), bool(lacking(made).any()), open_tasks(made)[0].tolist()
    (5.0, True, [])
    """
    firsts = [t for t in (view.submitted, view.ready, view.started) if not np.isnan(t).all()]
    at_least = np.fmax(view.started, view.started + view.number("wall_s"))
    last = np.where(np.isnan(view.ended), at_least, view.ended)
    if view.n == 0 or not firsts or np.isnan(last).all():
        return None
    if to_the_end:
        rows, ends = still_running(view)
        last[rows] = np.fmax(last[rows], ends)
    last = np.fmax(last, _unstarted_ends(view))
    length = float(np.nanmax(last) - min(np.nanmin(t) for t in firsts))
    if length <= 0 and np.isnan(view.ended).all():
        return None
    return max(0.0, length)


def _unstarted_ends(view: View) -> Floats:
    """Give when attempts whose start is unknown ended at the earliest; NaN for others."""
    since = np.fmax(view.submitted, view.ready)
    unknown = np.isnan(view.started) & np.isnan(view.ended) & ~view.outcome_in("cached")
    earliest: Floats = np.where(unknown, since + view.number("wall_s"), np.nan)
    return earliest


def lacking(view: View) -> Mask:
    """Say which attempts ran and lack a start or an end; shape (n,)."""
    open_ended = np.isnan(view.started) | np.isnan(view.ended)
    ran = (view.wall > 0) | ~np.isnan(view.started)
    mask: Mask = open_ended & ran & ~view.outcome_in("cached")
    return mask


def open_tasks(view: View) -> tuple[Codes, Codes]:
    """Give codes of the tasks that began and did not end, and of those that never started."""
    begun = ~np.isnan(view.started)
    if not begun.any():
        return np.unique(view.task[view.outcome_in("running")]), np.zeros(0, dtype=np.int64)
    ended = ~np.isnan(view.ended) | view.lost | view.outcome_in("ok", "cached")
    took = ~np.isnan(view.number("wall_s")) | ~np.isnan(view.ended)
    idle = ~begun & ~took & view.outcome_in("unknown", "running", "cancelled", None)
    runs = ~ended & (begun | view.outcome_in("running")) & ~view.outcome_in("cancelled")
    over = np.zeros(len(view.task_ids) + 1, dtype=bool)
    over[view.task[ended]] = True
    running = np.setdiff1d(view.task[runs & ~over[view.task]], [-1])
    waiting = np.setdiff1d(view.task[idle & ~over[view.task]], [*running, -1])
    return running, waiting
