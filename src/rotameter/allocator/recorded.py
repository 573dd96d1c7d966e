"""What the tasks of a trace needed: which count, what is known of those that were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.attempts import Use, cut_short, workload_of
from rotameter.allocator.resources import MEMORY
from rotameter.allocator.workload import near_limit

if TYPE_CHECKING:
    from rotameter.allocator.workload import Mask, Workload
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["from_trace", "of_unknown_state"]


def from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace whose peak memory and duration are known.

    A peak that is a lower bound only is no need, but no request should be below it: that of a run
    that was killed for memory, or did not complete for another reason. Tasks are in the order in
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
    from rotameter.profiler.view import view

    seen = view(trace)
    peak, asked = seen.number("peak_memory_bytes"), seen.number("requested_memory_bytes")
    lower = seen.peak_kinds == "lower_bound"
    granted = np.fmax(seen.number("granted_memory_bytes"), asked)
    dead, cut = seen.outcome_in("oom"), cut_short(seen, peak, seen.peak_kinds)
    # Of one that was killed for memory, what was measured was not enough either.
    had = np.fmax(granted, np.where(lower | (dead & cut), peak, np.nan))
    use = Use(
        resource=MEMORY,
        what="a peak and a duration",
        need=peak,
        asked=asked,
        wall_s=seen.wall,
        fit=_fit(seen),
        kinds=seen.peak_kinds,
        at_most=near_limit(peak, asked) | (seen.peak_kinds == "upper_bound"),
        dead=dead,
        had=np.where(had > 0, had, np.nan),
        least=(seen.ok & (peak > 0) & lower) | (cut & ~dead),
    )
    return workload_of(trace, seen, use, name)


def of_unknown_state(trace: Trace) -> int:
    """Count attempts with a peak and a duration of which it is not known how they ended."""
    from rotameter.profiler.view import view

    seen = view(trace)
    return int((_fit(seen) & seen.outcome_in(None, "unknown")).sum())


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
