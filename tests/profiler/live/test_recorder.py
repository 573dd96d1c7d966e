"""Buffers in front of a sink: nothing blocks, nothing is lost uncounted, appends are few."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rotameter.profiler.live import recorder as module
from rotameter.profiler.live.recorder import CallSink, FileSink, Recorder
from rotameter.profiler.live.segment import MAGIC, read_segment

COLUMNS = ("task_id", "depends_on")


def _rows(data: bytes) -> list[tuple[Any, ...]]:
    frames = read_segment(data if data.startswith(MAGIC) else MAGIC + data).frames
    return [r for f in frames if f.table == "deps" for r in zip(*f.values, strict=True)]


def _events(data: bytes, kind: str) -> list[dict[str, Any]]:
    found = []
    for frame in read_segment(MAGIC + data).frames:
        if frame.table == "events":
            for row in zip(*frame.values, strict=True):
                event = dict(zip(frame.columns, row, strict=True))
                if event["kind"] == kind:
                    found.append(event)
    return found


class _Sink:
    """Keeps frames; fails while told to."""

    def __init__(self) -> None:
        self.data = b""
        self.error: OSError | None = None

    def write(self, frames: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.data += frames

    def close(self) -> None:
        pass


def test_threads_lose_and_double_nothing() -> None:
    got: list[bytes] = []
    recorder = Recorder(CallSink(got.append), {}, flush_s=0.01)
    channel = recorder.channel("deps", COLUMNS)

    def work(name: int) -> None:
        for number in range(5_000):
            channel.add((f"{name}-{number}", "x"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    names = [row[0] for row in _rows(b"".join(got))]
    assert len(names) == len(set(names)) == 20_000
    assert recorder.records_dropped == 0


def test_overflow_is_dropped_counted_and_said() -> None:
    sink = _Sink()
    recorder = Recorder(sink, {"worker": "w"}, flush_s=60, rows_limit=8)
    channel = recorder.channel("deps", COLUMNS)
    with recorder._lock:  # the drain thread cannot run meanwhile
        for number in range(20):
            channel.add((str(number), "x"))
    recorder.close()
    assert len(_rows(sink.data)) == 8
    events = _events(sink.data, "records_dropped")
    assert [(e["worker"], e["count"]) for e in events] == [("w", 12)]


def test_a_sink_that_recovers_is_told_what_was_lost() -> None:
    sink = _Sink()
    told: list[BaseException] = []
    recorder = Recorder(sink, {"role": "r"}, flush_s=60, on_error=told.append)
    channel = recorder.channel("deps", COLUMNS)
    sink.error = OSError(errno.ENOSPC, "no space")
    for _ in range(3):
        channel.add(("lost", "x"))
        recorder.flush()
    sink.error = None
    channel.add(("kept", "x"))
    recorder.close()
    assert _rows(sink.data) == [("kept", "x")]
    assert sum(e["count"] for e in _events(sink.data, "records_dropped")) == 3
    assert len(told) == 1  # once, not at each try
    heads = [f for f in read_segment(MAGIC + sink.data).frames if f.table == "meta"]
    assert heads[0].values[0][0] == {"role": "r"}  # the head frame came after all


def test_a_row_that_cannot_be_packed_costs_only_itself() -> None:
    sink = _Sink()
    recorder = Recorder(sink, {}, flush_s=60)
    channel = recorder.channel("deps", COLUMNS)
    for number in range(100):
        channel.add((str(number), object() if number in (3, 70) else "x"))
    channel.add(("short",))
    channel.add((2**70, "too large"))
    recorder.close()
    assert [row[0] for row in _rows(sink.data)] == [str(n) for n in range(100) if n not in (3, 70)]
    assert recorder.records_dropped == 4


def test_appends_are_few(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path / "a.seg"))
    recorder = Recorder(sink, {})
    channel = recorder.channel("deps", COLUMNS)
    begun = time.monotonic()
    while time.monotonic() - begun < 1.3:
        channel.add(("a", "b"))
        time.sleep(0.001)
    lasted = time.monotonic() - begun
    assert sink.appends <= 1 + 2 * lasted  # the magic, then two a second
    recorder.close()


def test_a_write_that_fails_half_way_leaves_no_half_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.seg"
    sink = FileSink(str(path))
    recorder = Recorder(sink, {}, flush_s=60)
    channel = recorder.channel("deps", COLUMNS)
    channel.add(("before", "x"))
    recorder.flush()
    real = os.write
    left = [1]

    def half(fd: int, data: Any) -> int:
        if left[0]:
            left[0] -= 1
            return real(fd, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "write", half)
    channel.add(("lost", "x"))
    recorder.flush()
    monkeypatch.undo()
    channel.add(("after", "x"))
    recorder.close()
    read = read_segment(path.read_bytes())
    assert read.torn_bytes == 0
    assert [row[0] for row in _rows(path.read_bytes())] == ["before", "after"]


def test_megabytes_go_out_early_and_none_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EARLY_APPEND_BYTES", 10_000)
    monkeypatch.setattr(module, "PENDING_LIMIT_BYTES", 2_000_000)
    sizes: list[int] = []
    recorder = Recorder(CallSink(lambda frames: sizes.append(len(frames))), {}, flush_s=60)
    channel = recorder.channel("deps", COLUMNS)
    for number in range(30_000):
        channel.add((str(number), "x" * 20))
    recorder.close()
    assert recorder.records_dropped == 0
    assert len(sizes) > 2


def test_closing_twice_and_a_hook_that_raises() -> None:
    recorder = Recorder(CallSink(lambda frames: None), {}, flush_s=60)
    recorder.before_flush.append(lambda: 1 / 0)
    recorder.flush()
    recorder.close()
    recorder.close()
    assert not recorder._thread.is_alive()


def test_a_fault_of_its_own_does_not_end_the_thread() -> None:
    got: list[bytes] = []
    faults: list[BaseException] = []
    struck = threading.Event()

    class Once(Recorder):
        """Fails at its first flush; a class of its own, as recorders of other tests live on."""

        def flush(self) -> None:
            if struck.is_set():
                super().flush()
            elif self.on_fault is not None:
                struck.set()
                raise RuntimeError("planted")

    recorder = Once(CallSink(got.append), {"role": "client"}, flush_s=0.05)
    recorder.on_fault = faults.append
    assert struck.wait(10)
    recorder.channel("deps", COLUMNS).add(("b", "a"))
    until = time.monotonic() + 10
    while not got and time.monotonic() < until:
        time.sleep(0.005)
    assert got and recorder._thread.is_alive()
    recorder.close()
    assert _rows(b"".join(got)) == [("b", "a")]
    assert [str(fault) for fault in faults] == ["planted"]
