"""How long the tasks of a trace took, and which ran into their time limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.recorded import sizes_of, unmet_of, usable
from rotameter.allocator.resources import TIME
from rotameter.allocator.workload import Workload, near_limit

if TYPE_CHECKING:
    from rotameter.allocator.workload import Codes, Floats
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["as_time", "time_from_trace"]

_CUT_SHORT = ("preempted", "worker_lost")
"""Outcomes that end an attempt whatever it does: it would have taken longer than it had."""


def time_from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace whose duration is known.

    Tasks are in the order in which they ended, as
    :func:`~rotameter.allocator.recorded.from_trace` has them. A run that ended within 3 % of its
    limit may have been told to end there: its duration is an upper bound.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where none has a duration.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> ended = {"outcome": "ok", "wall_s": 60.0, "requested_wall_s": 3600.0}
    >>> killed = {"outcome": "timeout", "wall_s": 3601.0, "requested_wall_s": 3600.0}
    >>> rows = [{"task_id": "a", **ended}, {"task_id": "b", **killed}]
    >>> work = time_from_trace(Trace.from_tables({"tasks": rows}))
    >>> work.need.tolist(), work.killed
    ([60.0], ((0, 3601.0),))
    """
    from rotameter.profiler.view import view

    seen = view(trace)
    took = _took(seen)
    fit = ~seen.nested & (took > 0)
    rows, earlier, notes = usable(trace, seen, fit, took, "a duration")
    limit = _limit(seen)
    names = (*seen.groups, "(unnamed)")
    group = seen.group % len(names)
    dead = np.flatnonzero(seen.outcome_in("timeout") & ~seen.nested)
    had = _had(took, limit)[dead]
    blind = np.isnan(had)
    cut = _cut_short(seen, rows, took, limit)
    return Workload(
        name=name,
        group=group[rows],
        groups=names,
        need=took[rows],
        wall_s=took[rows],
        size=sizes_of(seen)[rows],
        asked=limit[rows],
        at_most=near_limit(took, limit)[rows],
        killed=tuple(zip(group[dead[~blind]].tolist(), had[~blind].tolist(), strict=True)),
        killed_blind=tuple(group[dead[blind]].tolist()),
        unmet=tuple((int(group[row]), most) for row, most in unmet_of(seen, rows, took, dead, had)),
        cached=earlier[rows],
        least=tuple(zip(group[cut].tolist(), took[cut].tolist(), strict=True)),
        notes=notes,
        resource=TIME,
    )


def _cut_short(seen: View, rows: Codes, took: Floats, limit: Floats) -> Codes:
    """Give attempts that ended whatever they did, of tasks that never completed.

    One that lasted beyond its limit did not: its end was noticed late, or is a mistake.
    """
    known = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    known[seen.task[rows]] = True
    cut = seen.outcome_in(*_CUT_SHORT) & ~seen.nested & (took > 0) & ~known[seen.task]
    return np.flatnonzero(cut & ~(took > limit))


def _took(seen: View) -> Floats:
    """Give how long each attempt ran, by its limit's clock; NaN = unknown."""
    took = np.where(np.isfinite(seen.wall), seen.wall, np.nan)
    if seen.meta.get("engine") == "nextflow":
        # A job's limit also covers what lies around the command: inputs and results are moved.
        took = np.fmax(took, seen.ended - seen.started)
    return took


def _limit(seen: View) -> Floats:
    """Give each attempt's time limit: requested, else granted; NaN = unknown or none."""
    asked = seen.number("requested_wall_s")
    limit = np.where(np.isnan(asked), seen.number("granted_wall_s"), asked)
    return np.where(np.isfinite(limit) & (limit > 0), limit, np.nan)


def _had(took: Floats, limit: Floats) -> Floats:
    """Give what was not enough for an attempt that ran out of time.

    It is what it took: one that was stopped before its limit (a maintenance, a deadline) says
    nothing of the limit. Only where both are about the same, or no time is known, the limit counts.
    """
    whole = np.where(np.isnan(took) | near_limit(took, limit), np.fmax(took, limit), took)
    return np.where(whole > 0, whole, np.nan)


def as_time(work: Workload) -> Workload:
    """Give a workload's durations as what is needed; what limits there were is not known.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> work = Workload("w", np.zeros(1, int), ("g",), one * 1e9, one * 60.0, one, one)
    >>> as_time(work).need.tolist(), as_time(work).resource.name
    ([60.0], 'time')
    """
    return replace(
        work,
        need=work.wall_s,
        asked=np.full(len(work), np.nan),
        curve=None,
        at_most=None,
        kinds=None,
        killed=(),
        killed_blind=(),
        unmet=None,
        least=(),
        resource=TIME,
    )
