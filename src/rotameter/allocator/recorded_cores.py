"""How many cores the tasks of a trace kept busy, as a mean over each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.attempts import Use, workload_of
from rotameter.allocator.resources import CORES
from rotameter.profiler.whole_cores import SHORTEST_S
from rotameter.units import format_seconds

if TYPE_CHECKING:
    from rotameter.allocator.workload import Floats, Workload
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

__all__ = ["cores_from_trace", "why_unknown"]

WHOLE = (
    "slurm", "pbs", "sge", "lsf", "htcondor", "pods", "swf", "nextflow", "snakemake", "taskvine",
    "work_queue", "wfcommons", "table",
)  # fmt: skip
"""Engines whose logs count the CPU time of all processes and threads of a task. Tracers of threads
(ours, Chrome traces, Kineto) count one, and say nothing of the others."""


def cores_from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace: CPU seconds over duration, NaN where not known.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where of none it is known how many cores it kept busy.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": "a", "outcome": "ok", "wall_s": 60.0, "cpu_s": 72.0,
    ...          "requested_cores": 8.0}]
    >>> work = cores_from_trace(Trace.from_tables({"tasks": rows}, {"engine": "slurm"}))
    >>> work.need.tolist(), work.asked.tolist()
    ([1.2], [8.0])
    """
    from rotameter.profiler.view import view

    seen = view(trace)
    busy = _busy(seen)
    fit = ~seen.nested & (seen.wall >= SHORTEST_S) & np.isfinite(seen.wall)
    if np.isnan(busy[fit]).all():
        fit[:] = False
    asked = seen.number("requested_cores")
    asked = np.where(np.isnan(asked), seen.number("granted_cores"), asked)
    use = Use(
        resource=CORES,
        what="a duration",
        need=busy,
        asked=np.where(np.isfinite(asked) & (asked > 0), asked, np.nan),
        wall_s=seen.wall,
        fit=fit,
    )
    return workload_of(trace, seen, use, name)


def why_unknown(seen: View) -> tuple[str, str]:
    """Say why of no completed task it is known how many cores it kept busy, and what to do.

    Parameters
    ----------
    seen : View
        Of a trace with completed tasks that have durations, and none that counts.
    """
    rows = seen.ok & ~seen.nested & (seen.wall > 0)
    cpu = np.fmax(seen.number("cpu_s"), seen.number("process_cpu_s"))
    timed = rows & np.isfinite(cpu)
    log = "import a log that counts all of a task: of Slurm, Nextflow, Snakemake or a table"
    if not timed.any():
        return "no completed task has a known CPU time", log
    if seen.meta.get("engine") not in WHOLE:
        return "the CPU time that is known is of one thread of a task", log
    if not (timed & (cpu > 0)).any():
        return "the CPU time of all completed tasks is 0, which a log writes where it saw none", log
    keep = "keep what is asked for"
    if not (timed & (seen.wall >= SHORTEST_S)).any():
        least = format_seconds(SHORTEST_S)
        return f"no completed task lasted {least}, and CPU time is too coarse below that", keep
    return f"the completed tasks of {format_seconds(SHORTEST_S)} or more ran on several nodes", keep


def _busy(seen: View) -> Floats:
    """Give the mean of busy cores of each attempt; NaN where its CPU time is not that of it all."""
    if seen.meta.get("engine") not in WHOLE:
        return np.full(seen.n, np.nan)
    cpu = np.fmax(seen.number("cpu_s"), seen.number("process_cpu_s"))
    with np.errstate(invalid="ignore", divide="ignore"):
        busy = np.where((cpu > 0) & np.isfinite(cpu) & (seen.wall > 0), cpu / seen.wall, np.nan)
    # Cores of several nodes are a sum that no request for each of them follows from.
    nodes = np.fmax(seen.number("granted_nodes"), seen.number("requested_nodes"))
    return np.where(nodes > 1, np.nan, busy)
