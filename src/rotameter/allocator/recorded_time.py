"""How long the tasks of a trace took, and which ran into their time limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.attempts import Use, workload_of
from rotameter.allocator.resources import TIME
from rotameter.allocator.workload import near_limit

if TYPE_CHECKING:
    from rotameter.allocator.workload import Floats, Workload
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["as_time", "time_from_trace"]

_CUT_SHORT = ("preempted", "worker_lost", "oom", "running")
"""Attempts that would have taken longer than they had: they were ended, or have not ended yet."""


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
    took, limit = _took(seen), _limit(seen)
    cut = seen.outcome_in(*_CUT_SHORT) & (took > 0)
    use = Use(
        resource=TIME,
        what="a duration",
        need=took,
        asked=limit,
        wall_s=took,
        fit=took > 0,
        at_most=near_limit(took, limit),
        dead=seen.outcome_in("timeout"),
        had=_had(took, limit),
        # One that lasted beyond its limit did not: its end was noticed late, or is a mistake.
        least=cut & ~(took > limit),
        least_of_unknown=True,
    )
    return workload_of(trace, seen, use, name)


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
    >>> from rotameter.allocator.workload import Workload
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
        killed_names=(),
        least_names=(),
        resource=TIME,
    )
