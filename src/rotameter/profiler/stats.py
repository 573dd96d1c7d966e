"""The counts and totals of a trace: what ``rotameter stats`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.figures import recorded_makespan
from rotameter.profiler.gpu import device_rows
from rotameter.profiler.groups import cpu_used, moved
from rotameter.profiler.hang_words import never_started
from rotameter.profiler.usage import usage
from rotameter.profiler.view import View, view

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["SUMMED", "stats"]

SUMMED = (
    "wall_s",
    "cpu_s",
    "process_cpu_s",
    "io_s",
    "transfer_s",
    "spill_s",
    "deserialize_s",
    "gpu_s",
    "read_bytes",
    "write_bytes",
    "received_bytes",
    "output_bytes",
    "energy_j",
)
"""The columns of ``tasks`` whose total means something."""


def _sum(seen: View, name: str, outer: Any, could: Any) -> dict[str, Any]:
    """Sum a column over the outermost attempts; "at least" where one of them has no value."""
    values, least = seen.number(name), np.zeros(seen.n, dtype=bool)
    if name in ("read_bytes", "write_bytes"):
        values, least = moved(seen, name.removesuffix("_bytes"))
    elif name == "cpu_s":
        values, least = cpu_used(seen)
    elif name == "wall_s":
        values = seen.wall  # Start and end tell it too: the sum is `task_wall_s`.
    known = outer & ~np.isnan(values)
    n, of = int(known.sum()), int((outer & (could | known)).sum())
    total: float | int | None = None
    if n and name.endswith("_bytes"):  # Whole numbers, beyond what a float holds.
        own = ~np.isnan(seen.number(name))
        exact = pc.sum(seen.tasks[name].filter(pa.array(known & own))).as_py() or 0
        total = exact + round(float(values[known & ~own].sum()))
    elif n:
        total = round(float(values[known].sum()), 9)
    return {
        "sum": total,
        "n": n,
        "of": of,
        "at_least": bool(n) and (n < of or bool(least[known].any())),
    }


def stats(trace: Trace) -> dict[str, Any]:
    """Count a trace: tasks, attempts, outcomes, seconds, bytes. Unknown is None.

    Returns
    -------
    dict
        ``tasks`` counts those that have a record, ``never_started`` those beside them that were
        submitted and have none (None where no graph was recorded: the verdict counts both);
        ``dropped`` counts the records that could not be kept;
        ``makespan_how`` is ``measured`` where the attempts' times give ``makespan_s``, ``recorded``
        where they have none and the input states it; ``makespan_at_least`` says whether attempts
        that ran lack a start or an end, so that ``makespan_s`` is a lower bound; ``task_wall_s`` is
        the sum over attempts not taken from a cache and not nested in another recorded task, the
        same as that of ``wall_s`` in ``sums``, which says whether it is a lower bound;
        ``compute_s`` the sum of compute intervals, else of such durations; ``sums`` holds, per
        column, the total over the attempts of ``task_wall_s`` (``sum``), how many of them had a
        value (``n``) of those that ran (``of``), and whether the total is therefore a lower bound
        (``at_least``); ``usage`` is what :func:`rotameter.profiler.usage.usage` gives, ``devices``
        one row for each GPU (:func:`rotameter.profiler.gpu.device_rows`), empty where the trace has
        no device timeline.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> made = stats(Trace.from_tables({"tasks": [
    ...     {"task_id": "a", "wall_s": 2.0, "outcome": "ok"},
    ...     {"task_id": "b", "wall_s": 1.0, "outcome": "cached"}]}))
    >>> made["tasks"], made["attempts"], made["task_wall_s"], made["makespan_s"]
    (2, 2, 2.0, None)
    """
    seen = view(trace)
    outcomes = seen.tasks["outcome"].value_counts().to_pylist()
    counts = {item["values"]: item["counts"] for item in outcomes}
    cached = seen.outcome_in("cached")
    # What a nested task used is in the readings of the task around it already; what a cached one
    # shows, another run used.
    outer, could = ~seen.nested & ~cached, seen.could_measure
    sums = {name: _sum(seen, name, outer, could) for name in SUMMED}
    how = "measured" if seen.makespan is not None else "recorded"
    makespan = seen.makespan if how == "measured" else recorded_makespan(trace.meta)
    return {
        "schema": 1,
        "tasks": len(seen.task_ids),
        "never_started": _never_started(seen),
        "attempts": seen.n,
        "deps": trace.table("deps").num_rows,
        "rejected": trace.table("rejects").num_rows,
        "dropped": trace.dropped,
        "outcomes": {str(k or "unknown"): counts[k] for k in sorted(counts, key=str)},
        "makespan_s": None if makespan is None else round(makespan, 9),
        "makespan_how": None if makespan is None else how,
        "makespan_at_least": seen.makespan_at_least,
        "task_wall_s": sums["wall_s"]["sum"],
        "compute_s": _compute(trace),
        "sums": sums,
        "warnings": [str(text) for text in trace.warnings],
        "usage": usage(trace),
        "devices": device_rows(trace.meta),
    }


def _never_started(seen: View) -> int | None:
    if not seen.events("graph_submitted"):
        return None
    never, again = never_started(seen)
    return never - again


def _compute(trace: Trace) -> float | None:
    """Sum compute intervals; where there are none, durations that hold nothing else."""
    table = trace.table("intervals")
    rows = table.filter(pc.equal(table["kind"], pa.scalar("compute")))
    if rows.num_rows:
        return round(float(pc.sum(pc.subtract(rows["end_ns"], rows["start_ns"])).as_py()) / 1e9, 9)
    seen = view(trace)
    wall = np.where(seen.outcome_in("cached") | seen.nested, np.nan, seen.wall)
    known = ~np.isnan(wall)
    return round(float(wall[known].sum()), 9) if known.any() else None
