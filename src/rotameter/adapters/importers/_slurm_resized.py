"""A job that changed its size while it ran: one record a size, put together as one run.

Slurm closes the record with the state RESIZING at the change and opens another one, submitted and
started at that moment (``as_mysql_job.c``). The job itself goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_values import ENDED, MISSING_NS, NEAR_NS, words

__all__ = ["end_resized", "fold_resized"]

_SUMS = ("cpu", "read", "write", "energy")
_MEANS = words("cpus tres_cpus tres_gpus")
_LARGEST = words("nodes tres_nodes tres_memory")


def end_resized(out: dict[str, Any]) -> None:
    """Take rows of the state RESIZING that have an End as over; how the job ended they do not say.

    Examples
    --------
    >>> rows = {"outcome": pa.array(["running"]), "error": pa.array(["RESIZING"])}
    >>> rows |= {"phase": np.array([1], np.int8), "end": np.array([5 * 10**9])}
    >>> end_resized(rows)
    >>> rows["outcome"].to_pylist(), rows["phase"].tolist()
    (['unknown'], [0])
    """
    if "error" not in out or "end" not in out:
        return
    over = _resizing(out) & (out["end"] != MISSING_NS)
    if over.any():
        out["outcome"] = pc.if_else(pa.array(over), pa.scalar("unknown"), out["outcome"])
        out["phase"] = np.where(over, ENDED, out["phase"]).astype(np.int8)


def _resizing(columns: dict[str, Any]) -> Any:
    said = pc.fill_null(pc.equal(columns["error"], "RESIZING"), False)
    return said.to_numpy(zero_copy_only=False)


def fold_resized(jobs: dict[str, Any], runs: Sequence[int]) -> list[tuple[int, int]]:
    """Add each record that ended with a change of size to the one that goes on.

    Parameters
    ----------
    jobs : dict
        Columns; changed.
    runs : sequence of int
        Rows of one job in order of their start.

    Returns
    -------
    list of (int, int)
        The row that was added, and the row to which.
    """
    if "error" not in jobs or not all(name in jobs for name in ("start", "end", "phase")):
        return []
    made = []
    for row, after in pairwise(runs):
        if jobs["phase"][row] != ENDED or jobs["error"][row].as_py() != "RESIZING":
            continue
        end, start = jobs["end"][row], jobs["start"][after]
        if MISSING_NS not in (end, start) and abs(int(end) - int(start)) <= NEAR_NS:
            _add(jobs, row, after)
            made.append((row, after))
    return made


def _add(jobs: dict[str, Any], row: int, after: int) -> None:
    """Let a run begin with the record before: what it used adds up, its cores are the mean.

    What one record does not tell is unknown of the whole, but for a suspension: no time is none.
    """
    for name in ("submit", "eligible", "start"):
        if name in jobs and jobs[name][row] != MISSING_NS:
            jobs[name][after] = jobs[name][row]
    first, second = (jobs["wall"][at] if "wall" in jobs else np.nan for at in (row, after))
    whole = first + second
    for name in _MEANS:
        if name in jobs:
            one, two = jobs[name][row], jobs[name][after]
            mean = (one * first + two * second) / whole if whole > 0 else np.nan
            jobs[name][after] = one if one == two else mean
    for name in _LARGEST:
        if name in jobs:
            jobs[name][after] = np.fmax(jobs[name][row], jobs[name][after])
    for name in _SUMS:
        if name in jobs:
            jobs[name][after] += jobs[name][row]
    if "suspended" in jobs:
        both = jobs["suspended"][[row, after]]
        jobs["suspended"][after] = np.nan if np.isnan(both).all() else np.nansum(both)
    if "wall" in jobs:
        jobs["wall"][after] = whole
