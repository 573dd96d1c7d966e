"""Why a device, or one of its streams, had nothing to do.

A gap is put down to one cause, by the work that ends it, as Holistic Trace Analysis does:

========== ==================================================================================
its name   ours, and the rule
========== ==================================================================================
host_wait  *waiting for the host*: that work was launched after the gap began
kernel_wait *between launches*: launched in time, and the gap is shorter than 30 µs
other      *waiting for other work*: launched in time, yet the gap is longer (an event, another
           stream, a copy), or its launch is not recorded
========== ==================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.profiler.devices.breakdown import seconds, share
from rotameter.profiler.devices.timeline import Ints, groups_of
from rotameter.profiler.devices.work import Work

__all__ = ["KERNEL_WAIT_NS", "device_idle", "gap_causes", "stream_idle"]

KERNEL_WAIT_NS = 30_000
_CAUSES = ("host_wait", "kernel_wait", "other")


def gap_causes(gap_start: Ints, gap_end: Ints, launch: Ints) -> Ints:
    """Give the cause of each gap: 0 host_wait, 1 kernel_wait, 2 other.

    Examples
    --------
    >>> at = np.array([0, 0, 0])
    >>> gap_causes(at, np.array([9, 9, 90_000]), np.array([5, -5, -5])).tolist()
    [0, 1, 2]
    """
    short = gap_end - gap_start < KERNEL_WAIT_NS
    return np.where(launch > gap_start, 0, np.where(short, 1, 2)).astype(np.int64)


def _following(work: Work) -> tuple[Ints, Ints, Ints, Ints]:
    """Give the gaps of work on one line, the launches that end them, and whose those are."""
    order = np.lexsort((work.launch, work.start))
    start, ended = work.start[order], np.maximum.accumulate(work.end[order])
    at = np.flatnonzero(start[1:] > ended[:-1]) + 1
    return ended[at - 1], start[at], work.launch[order][at], order[at]


def _sum(low: Ints, high: Ints, cause: Ints) -> dict[str, Any]:
    total = np.bincount(cause, weights=(high - low).astype(float), minlength=3)
    whole = float(total.sum())
    return {
        "idle_s": seconds(whole),
        **{f"{name}_s": seconds(ns) for name, ns in zip(_CAUSES, total, strict=True)},
        "shares": {name: share(ns, whole) for name, ns in zip(_CAUSES, total, strict=True)},
    }


def device_idle(work: Work, limits: tuple[int, int] | None = None) -> dict[str, Any]:
    """Divide the idle time of one device (no stream has work) by cause.

    Of a gap that reaches beyond the limits (ns) the part within them counts; its cause is that of
    the whole gap.
    """
    low, high, launch, _ = _following(work)
    cause = gap_causes(low, high, launch)
    if limits is not None:
        low = np.clip(low, *limits)
        high = np.clip(high, *limits)
    return _sum(low, high, cause)


def stream_idle(work: Work) -> list[dict[str, Any]]:
    """Divide the idle time of each stream of one device by cause."""
    made = []
    for stream, rows in groups_of(work.stream):
        mine = work.take(rows)
        low, high, launch, _ = _following(mine)
        made.append(
            {
                "stream": stream,
                "count": len(mine),
                **_sum(low, high, gap_causes(low, high, launch)),
            }
        )
    return made


def host_wait_before(work: Work) -> Ints:
    """Give how long each row's stream waited for the host right before it, in ns."""
    made = np.zeros(len(work), dtype=np.int64)
    for _, mine in groups_of(work.device):
        for _, own in groups_of(work.stream[mine]):
            rows = mine[own]
            low, high, launch, whose = _following(work.take(rows))
            waited = gap_causes(low, high, launch) == 0
            made[rows[whose[waited]]] = (high - low)[waited]
    return made
