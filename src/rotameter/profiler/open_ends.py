"""Attempts without an end on record: how long the run took at least, and which tasks are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Mask, View

__all__ = ["lacking", "makespan", "open_tasks"]


def makespan(view: View) -> float | None:
    """Give the seconds from the first submission (or start) to the last instant of an attempt.

    What has no end on record lasted at least to its start, and for what is known of its time.

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
    length = float(np.nanmax(last) - min(np.nanmin(t) for t in firsts))
    if length <= 0 and np.isnan(view.ended).all():
        return None
    return max(0.0, length)


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
