"""Rows of the trace store: one million attempts with every column filled."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Context, Result, bench
from rotameter.profiler.live.recorder import FileSink, Recorder
from rotameter.profiler.schema import KINDS, OUTCOMES, TABLES, arrow_schema
from rotameter.profiler.store import open_trace
from rotameter.profiler.trace import Trace

__all__ = ["full_attempts"]

_VOCABULARY = {
    "outcome": OUTCOMES,
    "outcome_kind": ("reported", "inferred"),
    "peak_memory_kind": KINDS,
    "io_kind": KINDS,
    "gpu_kind": KINDS,
    "energy_quality": KINDS,
    "error": ("ValueError: bad value", "OSError: no such file", "MemoryError"),
}


def _strings(name: str, rng: np.random.Generator, rows: int) -> pa.Array:
    if name == "task_id":
        # As Dask names them: prefix, 32 hex digits of a token per layer, index in the layer.
        layers = [f"layer{i % 20}-{rng.bytes(16).hex()}" for i in range(400)]
        layer = np.sort(rng.integers(0, len(layers), rows))
        return pa.array([f"('{layers[k]}', {i})" for i, k in enumerate(layer)])
    if name == "run_id":
        return pa.array([str(i + 1) for i in range(rows)])
    words = _VOCABULARY.get(name) or tuple(f"{name}-{i:04d}" for i in range(30))
    return pa.array(np.array(words, dtype=object)[rng.integers(0, len(words), rows)])


def _floats(name: str, wall_ns: Any, rng: np.random.Generator, rows: int) -> Any:
    if name == "wall_s":
        return wall_ns / 1e9
    if name.endswith("cpu_s"):
        return (wall_ns * rng.uniform(0.2, 1.0, rows)).astype(np.int64) / 1e9
    if name.startswith(("requested_", "granted_", "priority", "concurrency")):
        return rng.integers(1, 9, rows).astype(float)
    return rng.lognormal(15, 1.5, rows).astype(np.int64) / 1e9


def _integers(name: str, start: Any, wall_ns: Any, rng: np.random.Generator, rows: int) -> Any:
    times = {
        "started_ns": start,
        "ended_ns": start + wall_ns,
        "ready_ns": start - rng.integers(10**5, 10**8, rows),
        "submitted_ns": start - rng.integers(10**8, 10**10, rows),
    }
    if name in times:
        return times[name]
    if name in ("attempt", "exit_code", "signal", "requested_nodes", "granted_nodes"):
        return rng.integers(0, 4, rows)
    if name.startswith(("requested_", "granted_")):
        return rng.integers(1, 16, rows) * 2**28
    if "memory" in name or "peak" in name:
        return rng.lognormal(10, 1.0, rows).astype(np.int64) * 4096
    return rng.lognormal(12, 2.0, rows).astype(np.int64)


def full_attempts(rows: int, seed: int = 0) -> pa.Table:
    """Attempts with no null anywhere and as much entropy as real ones have."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, 3600 * 10**9, rows)) + 1_790_000_000_000_000_000
    wall_ns = rng.lognormal(19, 1.0, rows).astype(np.int64)
    columns: dict[str, Any] = {}
    for name, kind in TABLES["tasks"]:
        if kind == "s":
            columns[name] = _strings(name, rng, rows)
        elif kind == "b":
            columns[name] = pa.array(rng.random(rows) < 0.5)
        elif kind == "f":
            columns[name] = pa.array(_floats(name, wall_ns, rng, rows))
        elif kind == "i":
            columns[name] = pa.array(_integers(name, start, wall_ns, rng, rows))
        else:
            sizes = rng.lognormal(12, 2, rows).astype(np.int64).astype(float)
            offsets = pa.array(np.arange(rows + 1, dtype=np.int32))
            keys = pa.array(["input_bytes"] * rows)
            columns[name] = pa.MapArray.from_arrays(offsets, keys, pa.array(sizes))
    return pa.table(columns).cast(arrow_schema("tasks"))


def _saved(rows: int) -> tuple[float, float]:
    trace = Trace({"tasks": full_attempts(rows)}, {})
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        folder = trace.save(Path(place) / "full.rmt")
        seconds = time.perf_counter() - began
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
        if not open_trace(folder).table("tasks").equals(trace.table("tasks")):
            raise AssertionError("the trace did not come back as it was")
    return rows / seconds, size / rows


@bench("store_save_rows_per_s", issue=2, target=">= 200000")
def save_rate(context: Context) -> Result:
    """1,000,000 attempts with every column through Trace.save, checked to come back equal."""
    rate, _ = _saved(1_000_000)
    return Result(rate, "rows/s")


@bench("store_bytes_per_row", issue=2, target="<= 120")
def row_size(context: Context) -> Result:
    """Bytes a row on disk after compaction, same table."""
    _, size = _saved(1_000_000)
    return Result(size, "bytes/row")


@bench("store_live_rows_per_s", issue=2, target=">= 200000")
def live_rate(context: Context) -> Result:
    """Wide rows (every column) through the live recorder into a segment, to the last byte."""
    rows = 1_000_000 if context.full else 200_000
    table = full_attempts(rows)
    columns = tuple(table.column_names)
    lists = [table[c].to_pylist() for c in columns]
    at = columns.index("features")
    lists[at] = [dict(value) for value in lists[at]]
    tuples = list(zip(*lists, strict=True))
    gc.collect()
    gc.freeze()  # the prepared rows are the benchmark's, not the recorder's, to collect
    with tempfile.TemporaryDirectory() as place:
        recorder = Recorder(FileSink(f"{place}/a.seg"), {"role": "bench"}, rows_limit=rows + 1)
        channel = recorder.channel("tasks", columns)
        began = time.perf_counter()
        for row in tuples:
            channel.add(row)
        recorder.close()
        seconds = time.perf_counter() - began
        if recorder.records_dropped:
            raise AssertionError(f"{recorder.records_dropped} records dropped")
    gc.unfreeze()
    return Result(rows / seconds, "rows/s")
