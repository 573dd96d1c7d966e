"""How a device's time divides: computing, communicating, copying, both at once, nothing."""

from __future__ import annotations

from typing import Any

from rotameter.profiler.devices.timeline import (
    Ints,
    Spans,
    intersect,
    length,
    partition,
    subtract,
    union,
    within,
)
from rotameter.profiler.devices.work import COMMUNICATION, COMPUTE, COPY, Work

__all__ = ["breakdown", "launched_in_steps", "seconds", "share", "spans_of", "window_of"]

_NAMES = {COMPUTE: "compute", COMMUNICATION: "communication", COPY: "copy"}


def seconds(ns: float) -> float:
    """Give seconds, to the nanosecond.

    Examples
    --------
    >>> seconds(1_500_000_000)
    1.5
    """
    return round(float(ns) / 1e9, 9)


def share(part: float, whole: float) -> float | None:
    """Give a share, 0 to 1; None of nothing.

    Examples
    --------
    >>> share(1, 4), share(0, 0)
    (0.25, None)
    """
    return round(float(part) / float(whole), 6) if whole > 0 else None


def spans_of(work: Work, kind: int) -> Spans:
    """Give when work of a kind ran, merged."""
    rows = work.kind == kind
    return union(work.start[rows], work.end[rows])


def window_of(work: Work, limits: tuple[int, int] | None = None) -> tuple[int, int]:
    """Give when a device's first work began and its last ended, cut to limits; ns.

    The second lies before the first where no such time lies within the limits.
    """
    low, high = int(work.start.min()), int(work.end.max())
    return (low, high) if limits is None else (max(low, limits[0]), min(high, limits[1]))


def launched_in_steps(work: Work, step_start: Ints, step_end: Ints) -> Any:
    """Say which work belongs to whole recorded steps.

    With two steps or more, work counts whose launch was recorded and lies before the end of the
    last step; what an earlier step launched before recording began is left out. This is what
    Holistic Trace Analysis counts, so that shares can be compared. With fewer steps, or where no
    launch is recorded at all, None: all work counts.

    Parameters
    ----------
    step_start, step_end : ndarray of int64
        Nanoseconds.
    """
    if len(step_start) < 2:
        return None
    chosen = (work.launch > -(1 << 61)) & (work.launch <= step_end.max())
    return chosen if chosen.any() else None


def breakdown(work: Work, limits: tuple[int, int] | None = None) -> dict[str, Any]:
    """Divide the time of one device, from the start of its first work to the end of its last.

    Parameters
    ----------
    work : Work
    limits : tuple of int, optional
        Only what of that window lies between these times, ns.

    Returns
    -------
    dict
        Seconds: ``window_s``, ``busy_s``, ``idle_s``, ``compute_s``, ``communication_s``,
        ``copy_s`` (each a union: they may overlap), ``overlap_s`` (communication while
        computing), ``exposed_communication_s`` (the rest of communication); ``exactly_s``
        divides busy time without overlaps; ``shares`` are ratios, 0 to 1, null of nothing.

    Examples
    --------
    >>> import numpy as np
    >>> i = lambda *v: np.array(v)
    >>> work = Work(i(0, 5), i(10, 15), i(0, 1), i(0, 1), i(0, 0), i(7, 8), i(0, 0), i(-1, -1),
    ...             names=("gemm", "ncclDevKernel_AllReduce"))
    >>> breakdown(work)["shares"]["overlap_of_communication"]
    0.5
    """
    sets = [within(spans_of(work, kind), limits) for kind in (COMPUTE, COMMUNICATION, COPY)]
    low, high = window_of(work, limits)
    busy = within(union(work.start, work.end), limits)
    window = max(0, high - low)
    compute, communication, copy = (length(spans) for spans in sets)
    overlap = length(intersect(sets[COMPUTE], sets[COMMUNICATION]))
    bare = length(subtract(sets[COMMUNICATION], sets[COMPUTE]))
    busy_ns = length(busy)
    exactly = {
        "+".join(name for bit, name in _NAMES.items() if mask >> bit & 1): seconds(ns)
        for mask, ns in sorted(partition(sets).items())
    }
    return {
        "window_s": seconds(window),
        "busy_s": seconds(busy_ns),
        "idle_s": seconds(window - busy_ns),
        "compute_s": seconds(compute),
        "communication_s": seconds(communication),
        "copy_s": seconds(copy),
        "overlap_s": seconds(overlap),
        "exposed_communication_s": seconds(bare),
        "exactly_s": exactly,
        "shares": {
            "busy": share(busy_ns, window),
            "idle": share(window - busy_ns, window),
            "compute": share(compute, window),
            "not_compute": share(busy_ns - compute, window),
            "communication": share(communication, window),
            "copy": share(copy, window),
            "exposed_communication": share(bare, window),
            "overlap_of_communication": share(overlap, communication),
        },
    }
