"""How fast the same work could run at best: if all that can overlap did."""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.profiler.devices.breakdown import seconds, share
from rotameter.profiler.devices.timeline import (
    clip,
    grouped_length,
    groups_of,
    length,
    subtract,
    union,
)
from rotameter.profiler.devices.work import Host

__all__ = ["fully_overlapped", "host_activity"]


def host_activity(host: Host, window: tuple[int, int] | None = None) -> dict[str, Any]:
    """Say how busy the host's threads were.

    Parameters
    ----------
    host : Host
    window : tuple of int, optional
        Count only what lies between these times, ns.

    Returns
    -------
    dict
        ``threads``; ``op_s`` (operators, each thread's union, summed over threads); ``call_s``
        (calls of the runtime that do work), ``wait_s`` (those that wait for a device);
        ``busiest_s`` (the longest time for which one thread did anything but wait).

    Examples
    --------
    >>> i = lambda *v: np.array(v)
    >>> host = Host(i(0, 5), i(4, 9), i(0, 0), np.array([True, False]), np.array([False, True]))
    >>> host_activity(host)["busiest_s"], host_activity(host)["wait_s"]
    (4e-09, 4e-09)
    """
    low, high = window if window is not None else (-(1 << 62), 1 << 62)
    threads = np.unique(host.thread)
    number = np.searchsorted(threads, host.thread)
    start, end = np.maximum(host.start, low), np.minimum(host.end, high)
    inside = end > start
    parts = {
        "op_s": inside & host.is_op,
        "call_s": inside & ~host.is_op & ~host.waits,
        "wait_s": inside & host.waits,
    }
    sums = {
        name: seconds(int(grouped_length(number[rows], start[rows], end[rows], len(threads)).sum()))
        for name, rows in parts.items()
    }
    busiest = 0
    for _, mine in groups_of(number):
        waits = mine[host.waits[mine]]
        busy = subtract(
            union(*clip(host.start[mine], host.end[mine], low, high)),
            union(*clip(host.start[waits], host.end[waits], low, high)),
        )
        busiest = max(busiest, length(busy))
    return {"threads": len(threads), **sums, "busiest_s": seconds(busiest)}


def fully_overlapped(parts: dict[str, Any], host_s: float) -> dict[str, Any]:
    """Give the least time if computing, communicating, copying and the host all ran at once.

    It is the longest of the four, and a bound, no forecast: dependencies may not allow it.

    Parameters
    ----------
    parts : dict
        What :func:`breakdown` gives.
    host_s : float
        How long the busiest host thread worked in the window, seconds.

    Examples
    --------
    >>> parts = {"window_s": 4.0, "compute_s": 2.0, "communication_s": 1.0, "copy_s": 0.0}
    >>> fully_overlapped(parts, 0.5)
    {'bound_s': 2.0, 'by': 'compute', 'saving_s': 2.0, 'saving_share': 0.5}
    """
    sides = {
        "compute": parts["compute_s"],
        "communication": parts["communication_s"],
        "copy": parts["copy_s"],
        "host": host_s,
    }
    by = max(sides, key=lambda name: sides[name])
    window = parts["window_s"]
    bound = min(sides[by], window)
    return {
        "bound_s": round(bound, 9),
        "by": by,
        "saving_s": round(window - bound, 9),
        "saving_share": share(window - bound, window),
    }
