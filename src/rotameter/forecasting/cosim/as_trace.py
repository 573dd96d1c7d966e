"""A schedule as a trace, for the report and every other command."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rotameter.profiler.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.forecasting.cosim.batch import Schedule

    Ints = NDArray[np.int64]

__all__ = ["trace_of"]

_NS = 1_000_000_000
_KEPT = (
    "group", "user", "account", "queue", "priority", "requested_cores", "requested_memory_bytes",
    "requested_gpus", "requested_nodes", "requested_exclusive", "requested_wall_s",
)  # fmt: skip
"""What a simulation leaves as it was recorded."""


def trace_of(schedule: Schedule, policy: str) -> Trace:
    """Give the trace of a schedule; its origin is ``simulated``.

    A job ends as it was recorded to end, or with ``timeout`` where it is killed at its limit; that
    is inferred.

    Parameters
    ----------
    schedule : Schedule
    policy : str
        Its name, for the metadata.

    Examples
    --------
    >>> from rotameter.forecasting.cosim.batch import run_batch
    >>> from rotameter.forecasting.cosim.jobs import make_jobs
    >>> from rotameter.forecasting.cosim.machine import Machine
    >>> from rotameter.forecasting.cosim.policies.fcfs import Fcfs
    >>> schedule = run_batch(make_jobs([0, 0], [60, 60], [1, 1]), Machine(cores=1), Fcfs())
    >>> trace = trace_of(schedule, "fcfs")
    >>> trace.meta["origin"], trace.makespan_s, trace.table("tasks")["started_ns"][1].as_py()
    ('simulated', 120.0, 60000000000)
    """
    jobs, killed = schedule.jobs, schedule.killed
    n = len(jobs)
    columns: dict[str, Any] = {
        "task_id": pa.array(jobs.ids, pa.string()),
        "submitted_ns": _ns(jobs.arrive_s, jobs.zero_ns),
        "started_ns": _ns(schedule.starts_s, jobs.zero_ns),
        "ended_ns": _ns(schedule.ends_s, jobs.zero_ns),
        "wall_s": pa.array(jobs.held_s.astype(np.float64)),
        "granted_cores": pa.array(jobs.cores.astype(np.float64)),
        "granted_wall_s": pa.array(jobs.limit_s.astype(np.float64)),
        "outcome_kind": pa.repeat("inferred", n),
        "source": pa.repeat("simulated", n),
    }
    recorded = ["unknown"] * n
    if jobs.table is not None:
        columns |= {name: jobs.table[name] for name in _KEPT}
        recorded = [name or "unknown" for name in jobs.table["outcome"].to_pylist()]
    columns["outcome"] = pa.array(
        ["timeout" if cut else was for cut, was in zip(killed.tolist(), recorded, strict=True)]
    )
    if schedule.held is not None:
        names = ["+".join(f"node-{at}" for at in held) for held in schedule.held]
        columns["worker"] = pa.array(names, pa.string())
    return Trace.from_tables({"tasks": pa.table(columns)}, _meta(schedule, policy))


def _meta(schedule: Schedule, policy: str) -> dict[str, Any]:
    machine = schedule.machine
    return {
        "origin": "simulated",
        "engine": "rotameter",
        "log_start_ns": schedule.jobs.zero_ns,
        "machine_cores": machine.all_cores,
        "simulated": {
            "policy": policy,
            **asdict(machine),
            "too_large": schedule.too_large,
        },
    }


def _ns(seconds: Ints, zero_ns: int) -> Any:
    """Give nanoseconds; null for what lies beyond the year 2262, as far as they reach."""
    last = ((1 << 63) - 1 - max(zero_ns, 0)) // _NS
    beyond = seconds > last
    return pa.array(np.where(beyond, 0, seconds) * _NS + zero_ns, mask=beyond)
