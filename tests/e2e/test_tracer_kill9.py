"""A process killed at any moment leaves a trace that opens and lacks at most half a second."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
import warnings

import pytest

from rotameter.errors import EmptyTrace, TraceWarning
from rotameter.profiler import store
from rotameter.profiler.live import process
from rotameter.profiler.live.segment import read_segment
from rotameter.profiler.schema import TABLES

pytestmark = pytest.mark.e2e
KILLS = 50
AT_ONCE = 5
FLUSH_S = 0.5


def _write_forever(folder, out):
    """In the child: record the time, over and over, and tell when the first row went in."""
    recorder = process.open_segment(folder, "process")
    channel = recorder.channel("samples", ("at_ns", "subject", "metric", "value", "quality"))
    os.write(out, b"x")
    while True:
        channel.add((time.time_ns(), "s" * 50, "m", 1.0, None))
        time.sleep(0.0005)


def _child(folder):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _write_forever(str(folder), writer)
        os._exit(1)
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    return pid, time.monotonic()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.timeout(90)
def test_fifty_kills(tmp_path):
    rng = random.Random(9)
    opened = 0
    for round_ in range(KILLS // AT_ONCE):
        folder = tmp_path / f"{round_}.rmt"
        alive = [_child(folder) for _ in range(AT_ONCE)]
        deaths = {}
        ends = sorted((begun + rng.uniform(0, 1.3), pid) for pid, begun in alive)
        for end, pid in ends:
            time.sleep(max(0.0, end - time.monotonic()))
            deaths[pid] = time.time_ns()
            os.kill(pid, signal.SIGKILL)
        for pid, _ in alive:
            os.waitpid(pid, 0)
        segments = list((folder / "segments").glob("*.seg"))
        assert len(segments) == AT_ONCE
        for path in segments:
            pid = int(path.stem.split("-")[-2])
            read = read_segment(path.read_bytes())
            assert not read.foreign
            rows = [at for f in read.frames if f.table == "samples" for at in f.values[0]]
            assert read.records >= len(rows)
            _check_loss(read, rows, deaths[pid], path)
        opened += _check_folder(folder, [read_segment(p.read_bytes()) for p in segments])
    assert opened >= KILLS // AT_ONCE - 1


def _check_folder(folder, reads):
    """The folder opens, says how many records it holds, and warns of each torn end."""
    frames = [f for read in reads for f in read.frames]
    records = sum(len(f.values[0]) for f in frames if f.table in TABLES)
    torn = sum(bool(read.torn_bytes) for read in reads)
    rows = sum(len(f.values[0]) for f in frames if f.table == "samples")
    if not rows:
        with pytest.raises(EmptyTrace):  # all were killed before their first flush
            store.open_trace(folder)
        return False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = store.open_trace(folder)
    assert trace.table("samples").num_rows == rows
    assert trace.meta["records"] == records
    assert trace.meta["segments"] == AT_ONCE
    assert sum("torn end" in word for word in trace.warnings) == torn
    assert bool([w for w in caught if issubclass(w.category, TraceWarning)]) == bool(trace.warnings)
    return True


def _check_loss(read, rows, death_ns, path):
    """Rows are without a gap up to at most half a second (and the machine's delay) before."""
    metas = [f.values[0][0] for f in read.frames if f.table == "meta"]
    if not metas:
        # Killed before the first flush: the file is there, young, and says nothing.
        assert not rows and death_ns - os.stat(path).st_ctime_ns < 1.5e9
        return
    last = max(rows, default=metas[0]["start_ns"])
    assert (death_ns - last) / 1e9 <= FLUSH_S + 0.5
    assert sorted(rows) == rows
