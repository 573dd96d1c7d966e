"""What the tasks of a trace needed of disks and of the memory of GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.attempts import Use, cut_short, workload_of
from rotameter.allocator.resources import DISK, GPU_MEMORY, Resource
from rotameter.allocator.workload import near_limit
from rotameter.profiler import ran_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["disk_from_trace", "gpu_memory_from_trace"]

_BOUNDS = ("lower_bound", "missing")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of a trace that tell of a resource, and the errors of what ran out of it."""

    resource: Resource
    peak: str
    kind: str
    asked: str
    granted: str
    error: str


_DISK = _Columns(
    DISK, "peak_disk_bytes", "peak_disk_kind", "requested_disk_bytes", "granted_disk_bytes",
    ran_out.DISK,
)  # fmt: skip
_GPU_MEMORY = _Columns(
    GPU_MEMORY, "gpu_peak_bytes", "gpu_kind", "requested_gpu_memory_bytes",
    "granted_gpu_memory_bytes", ran_out.GPU_MEMORY,
)  # fmt: skip


def disk_from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace whose peak of disk and duration are known.

    What a task wrote is no such peak: files are deleted, written twice, or lie elsewhere. A peak of
    0 is one.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where none has a peak.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> done = {"outcome": "ok", "wall_s": 60.0, "peak_disk_bytes": 10**9}
    >>> dead = {"outcome": "failed", "error": "SANDBOX_EXHAUSTION", "granted_disk_bytes": 10**9}
    >>> rows = [{"task_id": "a", **done}, {"task_id": "b", **dead}]
    >>> work = disk_from_trace(Trace.from_tables({"tasks": rows}))
    >>> work.need.tolist(), work.killed
    ([1000000000.0], ((0, 1000000000.0),))
    """
    return _peaks(trace, _DISK, name)


def gpu_memory_from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace whose peak of GPU memory and duration are known.

    As :func:`disk_from_trace` does. Where several GPUs were held it is the peak that was recorded.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where none has a peak.
    """
    return _peaks(trace, _GPU_MEMORY, name)


def _peaks(trace: Trace, columns: _Columns, name: str) -> Workload:
    from rotameter.profiler.view import view

    seen = view(trace)
    peak, asked = seen.number(columns.peak), seen.number(columns.asked)
    asked = np.where(asked > 0, asked, np.nan)
    kinds = _kinds(seen, columns.kind)
    lower = kinds == "lower_bound"
    dead = ran_out.out_of(seen, columns.error) & ~seen.ok
    cut = cut_short(seen, peak, kinds)
    # What was measured of one that ran out was not enough either.
    seen_with = np.where(lower | (dead & cut), peak, np.nan)
    had = np.fmax(np.fmax(seen.number(columns.granted), asked), seen_with)
    use = Use(
        resource=columns.resource,
        what="a peak and a duration",
        need=peak,
        asked=asked,
        wall_s=seen.wall,
        fit=(peak >= 0) & (seen.wall > 0) & ~np.isin(kinds, _BOUNDS),
        kinds=kinds,
        at_most=near_limit(peak, asked) | (kinds == "upper_bound"),
        dead=dead,
        had=np.where(had > 0, had, np.nan),
        least=(seen.ok & (peak > 0) & lower) | (cut & ~dead),
    )
    return workload_of(trace, seen, use, name)


def _kinds(seen: View, column: str) -> NDArray[Any]:
    """Say how each peak was obtained; not said counts as an estimate."""
    kinds = seen.tasks[column]
    if kinds.null_count == seen.n:
        return np.full(seen.n, "estimate", dtype=object)
    return np.array(kinds.fill_null("estimate").to_pylist(), dtype=object)
