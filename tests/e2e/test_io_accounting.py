"""Bytes that a task reads and writes are those that went through the kernel (DK-P6)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rotameter as rm
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/io"), reason="no I/O counters of processes here"
)

SIZE = 20_000_000


@rm.task(group="write")
def write_and_sync(path: Path) -> None:
    with path.open("wb", buffering=0) as out:
        for _ in range(20):
            out.write(b"x" * (SIZE // 20))
        os.fsync(out.fileno())


@rm.task(group="read")
def read_from_the_page_cache(path: Path) -> int:
    return len(path.read_bytes())


@rm.task(group="descriptor")
def write_by_descriptor(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"x" * SIZE)
    os.close(descriptor)


@rm.task(group="child")
def let_a_child_write(path: Path) -> None:
    program = f"open({str(path)!r}, 'wb').write(b'x' * {SIZE})"
    subprocess.run([sys.executable, "-S", "-c", program], check=True)


@rm.task(group="arrow")
def read_by_arrow(path: Path) -> int:
    return int(pq.read_table(path).num_rows)


def test_bytes_are_the_kernels_own(tmp_path: Path) -> None:
    table = pa.table({"a": np.random.default_rng(0).random(2_000_000)})
    pq.write_table(table, tmp_path / "a.parquet", compression=None, use_dictionary=False)
    stored = (tmp_path / "a.parquet").stat().st_size
    with rm.trace(tmp_path / "run.rmt") as run:
        write_and_sync(tmp_path / "w")
        assert read_from_the_page_cache(tmp_path / "w") == SIZE
        write_by_descriptor(tmp_path / "d")
        let_a_child_write(tmp_path / "c")
        assert read_by_arrow(tmp_path / "a.parquet") == 2_000_000
    rows = {r["group"]: r for r in run.trace.table("tasks").to_pylist()}
    assert {r["io_kind"] for r in rows.values()} == {"exact"}
    for group in ("write", "descriptor", "child"):
        assert rows[group]["write_bytes"] == pytest.approx(SIZE, rel=0.01), group
    assert rows["read"]["read_bytes"] == pytest.approx(SIZE, rel=0.01)
    # Arrow reads in threads of its own; alone in its process, a task has the process's counters.
    assert rows["arrow"]["read_bytes"] == pytest.approx(stored, rel=0.01)
    flows = {
        (Path(f["object"]).name, f["op"]): f["bytes"]
        for f in run.trace.table("flows").to_pylist()
        if f["task_id"] is not None
    }
    assert flows["w", "write"] == SIZE
    assert flows["w", "read"] == SIZE


@pytest.mark.parametrize("threads", [1, 3])
def test_resets_of_the_peak_are_no_writes_of_tasks(tmp_path: Path, threads: int) -> None:
    @rm.task(group="known")
    def known(number: int) -> None:
        time.sleep(0.03)
        with (tmp_path / str(number)).open("wb", buffering=0) as out:
            out.write(b"x" * 8)

    with (
        rm.trace(tmp_path / "run.rmt", exact_peak=True, host_samples=False),
        ThreadPoolExecutor(threads) as pool,
    ):
        list(pool.map(known, range(12)))
    rows = open_trace(str(tmp_path / "run.rmt")).table("tasks").to_pylist()
    assert {r["write_bytes"] for r in rows} == {8}
    assert {r["peak_memory_kind"] for r in rows} <= {"exact", "upper_bound"}
