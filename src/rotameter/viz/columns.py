"""Columns of a trace as NumPy arrays, with what is unknown kept apart from zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = [
    "Floats",
    "Ints",
    "Mask",
    "Spans",
    "codes",
    "floats",
    "ints",
    "spans",
    "texts",
    "wall_s",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def ints(table: pa.Table, name: str) -> tuple[Ints, Mask]:
    """Give an integer column as values (0 where unknown) and a mask of what is known."""
    column = table.column(name)
    known = np.asarray(pc.is_valid(column).to_numpy(), dtype=bool)
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64), known


def floats(table: pa.Table, name: str) -> Floats:
    """Give a numeric column as float64 with NaN where unknown."""
    column = table.column(name)
    return np.asarray(
        # Times in nanoseconds are beyond what a float holds exactly; near enough for a picture.
        pc.fill_null(pc.cast(column, pa.float64(), safe=False), float("nan")).to_numpy(),
        dtype=np.float64,
    )


def codes(table: pa.Table, name: str) -> tuple[Ints, list[str]]:
    """Give a text column as codes (-1 where unknown) into a list of its distinct values."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    encoded = column.dictionary_encode()
    numbers = pc.fill_null(pc.cast(encoded.indices, pa.int64()), -1)
    values: list[str] = encoded.dictionary.to_pylist()
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64), values


def texts(table: pa.Table, name: str) -> list[str | None]:
    """Give a text column as a list."""
    values: list[str | None] = table.column(name).to_pylist()
    return values


class Spans:
    """When each attempt ran.

    Attributes
    ----------
    start_ns, end_ns : ndarray of int64, shape (n_attempts,), nanoseconds
        Meaningful where ``known``.
    known : ndarray of bool, shape (n_attempts,)
    open : ndarray of bool, shape (n_attempts,)
        Started, with no end recorded; ``end_ns`` is then the end of its worker or of the run.
    first_ns, last_ns : int or None, nanoseconds
        The window that the trace covers.
    """

    __slots__ = ("end_ns", "first_ns", "known", "last_ns", "open", "start_ns")

    def __init__(self, start_ns: Ints, end_ns: Ints, known: Mask, open_: Mask) -> None:
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.known = known
        self.open = open_
        self.first_ns: int | None = None
        self.last_ns: int | None = None


def wall_s(table: pa.Table) -> Floats:
    """Give the wall time of each attempt in seconds, NaN where unknown."""
    wall = floats(table, "wall_s")
    start, has_start = ints(table, "started_ns")
    end, has_end = ints(table, "ended_ns")
    derived = np.where(has_start & has_end, np.maximum(end - start, 0) / 1e9, np.nan)
    return np.where(np.isnan(wall), derived, wall)


def _worker_ends(trace: Trace, tasks: pa.Table) -> tuple[Ints, Mask]:
    """Give for each attempt the time at which its worker ended."""
    workers = trace.table("workers")
    ends: dict[str, int] = {}
    ended, known = ints(workers, "ended_ns")
    for name, at_ns, has in zip(texts(workers, "worker"), ended.tolist(), known, strict=True):
        if name is not None and has:
            ends[name] = max(at_ns, ends.get(name, at_ns))
    numbers, names = codes(tasks, "worker")
    by_code = np.array([ends.get(name, -1) for name in names] + [-1], dtype=np.int64)
    at = by_code[numbers]
    return at, at >= 0


def _run_ns(meta: dict[str, Any], key: str) -> int | None:
    run = meta.get("run")
    at = run.get(key) if isinstance(run, dict) else None
    return int(at) if isinstance(at, (int, float)) and not isinstance(at, bool) else None


def spans(trace: Trace) -> Spans:
    """Work out when each attempt ran and the window that the trace covers."""
    tasks = trace.table("tasks")
    start, has_start = ints(tasks, "started_ns")
    end, has_end = ints(tasks, "ended_ns")
    wall = floats(tasks, "wall_s")
    derived = has_start & ~has_end & ~np.isnan(wall)
    end = np.where(derived, start + (np.nan_to_num(wall) * 1e9).astype(np.int64), end)
    has_end = has_end | derived
    ready, has_ready = ints(tasks, "ready_ns")
    begins = [(start, has_start), (ready, has_ready)]
    if trace.meta.get("origin") == "imported":  # There is no program whose start is known.
        begins.append(ints(tasks, "submitted_ns"))
    firsts = [a[m].min() for a, m in begins if m.any()]
    lasts = [a[m].max() for a, m in ((end, has_end), (start, has_start)) if m.any()]
    found = Spans(start, end, has_start, has_start & ~has_end)
    if not firsts or not has_start.any():
        return found
    for bounds, key in ((firsts, "started_ns"), (lasts, "ended_ns")):
        at = _run_ns(trace.meta, key)
        if at is not None:
            bounds.append(at)
    found.first_ns, found.last_ns = int(min(firsts)), int(max(lasts))
    if found.open.any():
        worker_end, has_worker_end = _worker_ends(trace, tasks)
        till = np.where(has_worker_end, np.minimum(worker_end, found.last_ns), found.last_ns)
        found.end_ns = np.where(found.open, till, found.end_ns)
    found.end_ns = np.maximum(found.end_ns, found.start_ns)
    return found
