"""Bounded buffers in front of a sink, drained by one background thread a process.

The traced thread only appends a tuple to a deque. The drain thread encodes batches and hands the
sink at most two appends a second (more only when each is megabytes long). When a buffer is full,
or the sink cannot take more, records are dropped and counted, and the count itself is recorded.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rotameter.profiler.live.segment import MAGIC, encode_frame

__all__ = ["CallSink", "Channel", "FileSink", "Recorder", "Sink"]

FLUSH_S = 0.5
ROWS_LIMIT = 50_000
PENDING_LIMIT_BYTES = 64 << 20
_EARLY_APPEND_BYTES = 16 << 20  # such an append is no small I/O
_BATCH_ROWS = 5_000


class Sink(Protocol):
    """Takes whole frames; raises OSError when it cannot."""

    def write(self, frames: bytes) -> None:
        """Append frames."""

    def close(self) -> None:
        """Let go of the target."""


class FileSink:
    """Append frames to a segment file; a write that fails half-way is rolled back.

    Parameters
    ----------
    path : str
        The segment file; it is created, mode 0600, and never appended to twice.

    Raises
    ------
    OSError
        If the file cannot be created or written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._good = 0
        self.appends = 0
        try:
            self.write(MAGIC)
        except OSError:
            self.close()
            raise

    def write(self, frames: bytes) -> None:
        """Append all of ``frames`` or nothing of them."""
        view = memoryview(frames)
        self.appends += 1
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._good)
            raise
        self._good += len(frames)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class CallSink:
    """Hand frames to a function (a message to the scheduler, a test's list)."""

    def __init__(self, call: Callable[[bytes], None]) -> None:
        self._call = call

    def write(self, frames: bytes) -> None:
        """Pass the frames on."""
        self._call(frames)

    def close(self) -> None:
        """Nothing is held."""


class Channel:
    """A bounded buffer of rows of one table with fixed columns; ``add`` never blocks."""

    __slots__ = ("_high", "_wake", "columns", "dropped", "limit", "rows", "table")

    def __init__(
        self, table: str, columns: Sequence[str], limit: int, wake: Callable[[], None]
    ) -> None:
        self.table = table
        self.columns = tuple(columns)
        self.rows: deque[tuple[Any, ...]] = deque()
        self.limit = limit
        self.dropped = 0
        self._high = limit // 4
        self._wake = wake

    def add(self, row: tuple[Any, ...]) -> None:
        """Append one row (values in the order of ``columns``), or count it as dropped."""
        rows = self.rows
        held = len(rows)
        if held >= self._high:
            if held >= self.limit:
                self.dropped += 1
                return
            self._wake()
        rows.append(row)


class Recorder:
    """All channels of one process and the thread that drains them.

    Parameters
    ----------
    sink : Sink
        Where frames go.
    meta : mapping
        Facts of this segment (role, host, pid, worker …), written as its first record.
    flush_s : float
        Longest time, in seconds, that a record stays only in memory.
    rows_limit : int
        Rows that a channel holds before it drops.
    on_error : callable, optional
        Called once with the first sink error.

    Examples
    --------
    >>> got = []
    >>> recorder = Recorder(CallSink(got.append), {"role": "client"})
    >>> recorder.channel("deps", ("task_id", "depends_on")).add(("b", "a"))
    >>> recorder.close()
    >>> len(got) >= 1
    True
    """

    def __init__(
        self,
        sink: Sink,
        meta: Mapping[str, Any],
        *,
        flush_s: float = FLUSH_S,
        rows_limit: int = ROWS_LIMIT,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.sink = sink
        self.meta = dict(meta)
        self.frames_written = 0
        self.records_written = 0
        self.records_dropped = 0
        self.busy_ns = 0
        self.before_flush: list[Callable[[], None]] = []
        self._flush_s = flush_s
        self._rows_limit = rows_limit
        self._on_error = on_error
        self._channels: dict[tuple[str, tuple[str, ...]], Channel] = {}
        self._pending: list[tuple[bytes, int]] = []
        self._pending_bytes = 0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closed = False
        self._reported_drops = 0
        self._queue_frame(encode_frame("meta", ("value",), [(self.meta,)]), 0)
        self._thread = threading.Thread(target=self._run, name="rotameter-flush", daemon=True)
        self._thread.start()

    def channel(self, table: str, columns: Sequence[str]) -> Channel:
        """Give the channel for these columns of ``table``, made on first use."""
        key = (table, tuple(columns))
        with self._lock:
            if key not in self._channels:
                self._channels[key] = Channel(table, columns, self._rows_limit, self._wake.set)
            return self._channels[key]

    def _run(self) -> None:
        deadline = time.monotonic() + self._flush_s
        while not self._closed:
            self._wake.wait(max(0.0, deadline - time.monotonic()))
            self._wake.clear()
            early = self._pending_bytes >= _EARLY_APPEND_BYTES
            if early or time.monotonic() >= deadline:
                self.flush()
                deadline = time.monotonic() + self._flush_s
            else:
                self._encode()

    def _queue_frame(self, frame: bytes, rows: int) -> None:
        if self._pending_bytes + len(frame) > PENDING_LIMIT_BYTES:
            self.records_dropped += rows
            return
        self._pending.append((frame, rows))
        self._pending_bytes += len(frame)

    def _encode(self) -> None:
        """Turn buffered rows into frames; a row that cannot be packed is dropped and counted."""
        with self._lock:
            began = time.thread_time_ns()
            for channel in list(self._channels.values()):
                while channel.rows and self._pending_bytes < _EARLY_APPEND_BYTES:
                    count = min(len(channel.rows), _BATCH_ROWS)
                    rows = [channel.rows.popleft() for _ in range(count)]
                    self._encode_rows(channel, rows)
                self.records_dropped += channel.dropped
                channel.dropped = 0
            self.busy_ns += time.thread_time_ns() - began

    def _encode_rows(self, channel: Channel, rows: list[tuple[Any, ...]]) -> None:
        try:
            self._queue_frame(encode_frame(channel.table, channel.columns, rows), len(rows))
        except Exception as error:
            if len(rows) == 1 or not isinstance(error, ValueError):
                self.records_dropped += len(rows)
                return
            middle = len(rows) // 2
            self._encode_rows(channel, rows[:middle])
            self._encode_rows(channel, rows[middle:])

    def flush(self) -> None:
        """Encode what is buffered and append it to the sink: one append, unless it is huge."""
        for hook in self.before_flush:
            with contextlib.suppress(Exception):
                hook()
        with self._lock:
            while True:
                self._encode()
                full = self._pending_bytes >= _EARLY_APPEND_BYTES
                if not self._append() or not full:
                    return

    def _append(self) -> bool:
        """Hand the pending frames to the sink; False when there were none or it failed."""
        dropped = self.records_dropped
        self._note_drops(dropped)
        if not self._pending:
            return False
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        try:
            self.sink.write(b"".join(frame for frame, _ in pending))
        except Exception as error:
            self._sink_failed(error, pending)
            return False
        self._reported_drops = dropped
        self.frames_written += len(pending)
        self.records_written += sum(rows for _, rows in pending)
        return True

    def _sink_failed(self, error: BaseException, pending: list[tuple[bytes, int]]) -> None:
        # The head frame carries the segment's meta: it is kept for the next try.
        head = [item for item in pending if item[1] == 0][:1] if not self.frames_written else []
        self._pending = head
        self._pending_bytes = sum(len(frame) for frame, _ in head)
        self.records_dropped += sum(rows for _, rows in pending)
        on_error, self._on_error = self._on_error, None
        if on_error is not None:
            on_error(error)

    def _note_drops(self, dropped: int) -> None:
        new = dropped - self._reported_drops
        if new > 0:
            row = (time.time_ns(), "records_dropped", self.meta.get("worker"), new)
            columns = ("at_ns", "kind", "worker", "count")
            with contextlib.suppress(Exception):
                self._queue_frame(encode_frame("events", columns, [row]), 0)

    def close(self) -> None:
        """Write everything, say how much, and stop the thread."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(timeout=10)
        self.flush()
        with self._lock:
            end = {
                "end": True,
                "records": self.records_written,
                "dropped": self.records_dropped,
                "encode_s": self.busy_ns / 1e9,
            }
            with contextlib.suppress(Exception):
                self.sink.write(encode_frame("meta", ("value",), [(end,)]))
            with contextlib.suppress(Exception):
                self.sink.close()
