"""Bounded buffers in front of a sink, drained by one background thread a process.

The traced thread only appends a tuple to a deque. The drain thread encodes batches and hands the
sink at most two appends a second (more only when each is megabytes long). When a buffer is full,
or the sink cannot take more, records are dropped and counted, and the count itself is recorded. A
segment keeps some bytes for that count, since a disk that is full takes nothing more.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rotameter.profiler.live.segment import encode_frame
from rotameter.profiler.live.sink import CallSink, FileSink, Sink

__all__ = ["CallSink", "Channel", "FileSink", "Recorder", "Sink"]

FLUSH_S = 0.5
ROWS_LIMIT = 50_000
PENDING_LIMIT_BYTES = 64 << 20
_EARLY_APPEND_BYTES = 16 << 20  # such an append is no small I/O
_BATCH_ROWS = 5_000
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_DROP_COLUMNS = ("at_ns", "kind", "worker", "count")


def _pad_frame(size_bytes: int) -> bytes | None:
    """Give a frame that says nothing and is so long; None for the few lengths without one."""
    for length in range(max(0, size_bytes - 48), size_bytes):
        frame = encode_frame("meta", ("value",), [({"reserve": "." * length},)])
        if len(frame) == size_bytes:
            return frame
    return None


def _drops_frame(worker: Any, count: int) -> bytes:
    row = (time.time_ns(), "records_dropped", worker, count)
    return encode_frame("events", _DROP_COLUMNS, [row])


def _reserve_frame(worker: Any) -> bytes:
    """Give a frame whose place a count of drops, and a frame for the rest, can take."""
    size_bytes = len(_drops_frame(worker, 1 << 62)) + 110
    while (frame := _pad_frame(size_bytes)) is None:
        size_bytes += 1
    return frame


class Channel:
    """A bounded buffer of rows of one table with fixed columns; ``add`` never blocks.

    What is not a tuple is handed to ``render`` in the drain thread, which makes a row of it.
    """

    __slots__ = ("_high", "_wake", "columns", "dropped", "limit", "render", "rows", "table")

    def __init__(
        self,
        table: str,
        columns: Sequence[str],
        limit: int,
        wake: Callable[[], None],
        render: Callable[[Any], tuple[Any, ...]] | None = None,
    ) -> None:
        self.table = table
        self.columns = tuple(columns)
        self.render = render
        self.rows: deque[Any] = deque()
        self.limit = limit
        self.dropped = 0
        self._high = limit // 4
        self._wake = wake

    def add(self, row: Any) -> None:
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
        self.on_fault: Callable[[BaseException], None] | None = None
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
        self._head = [encode_frame("meta", ("value",), [(self.meta,)])]
        if hasattr(sink, "rewrite"):
            self._head.append(_reserve_frame(self.meta.get("worker")))
        self._reserve_at: int | None = None
        self._reserved_drops = 0
        for frame in self._head:
            self._queue_frame(frame, 0)
        self._thread = threading.Thread(target=self._run, name="rotameter-flush", daemon=True)
        self._thread.start()

    def channel(
        self,
        table: str,
        columns: Sequence[str],
        render: Callable[[Any], tuple[Any, ...]] | None = None,
    ) -> Channel:
        """Give the channel for these columns of ``table``, made on first use."""
        key = (table, tuple(columns))
        with self._lock:
            channel = self._channels.get(key)
            if channel is None:
                wake, limit = self._wake.set, self._rows_limit
                channel = self._channels[key] = Channel(table, columns, limit, wake)
            channel.render = render or channel.render
            return channel

    def _run(self) -> None:
        deadline = time.monotonic() + self._flush_s
        while not self._closed:
            self._wake.wait(max(0.0, deadline - time.monotonic()))
            self._wake.clear()
            early = self._pending_bytes >= _EARLY_APPEND_BYTES
            due = early or time.monotonic() >= deadline
            try:
                self.flush() if due else self._encode()
            except Exception as error:
                self._tell(error)
            if due:
                deadline = time.monotonic() + self._flush_s

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
                    if channel.render is not None:
                        rows = self._rendered(channel.render, rows)
                    self._encode_rows(channel, rows)
                self.records_dropped += channel.dropped
                channel.dropped = 0
            self.busy_ns += time.thread_time_ns() - began

    def _rendered(
        self, render: Callable[[Any], tuple[Any, ...]], items: list[Any]
    ) -> list[tuple[Any, ...]]:
        """Make rows of what a busy thread left for this one to do."""
        rows = []
        for item in items:
            try:
                rows.append(item if item.__class__ is tuple else render(item))
            except Exception as error:
                self.records_dropped += 1
                self._tell(error)
        return rows

    def _tell(self, error: BaseException) -> None:
        if self.on_fault is not None:
            with contextlib.suppress(Exception):
                self.on_fault(error)

    def _encode_rows(self, channel: Channel, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
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
            try:
                hook()
            except Exception as error:
                self._tell(error)
        with self._lock:
            while True:
                self._encode()
                full = self._pending_bytes >= _EARLY_APPEND_BYTES
                if not self._append() or not full:
                    return

    def _append(self) -> bool:
        """Hand the pending frames to the sink; False when there were none or it failed."""
        dropped = self.records_dropped
        note = self._note_drops(dropped)
        if not self._pending:
            return False
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        try:
            self._write(pending)
        except Exception as error:
            self._sink_failed(error, pending, note, dropped)
            return False
        self._reported_drops = dropped
        return True

    def _write(self, pending: list[tuple[bytes, int]]) -> None:
        first = not self.frames_written
        at = getattr(self.sink, "size_bytes", None)
        self.sink.write(b"".join(frame for frame, _ in pending))
        if first and at is not None and len(self._head) > 1:
            self._reserve_at = at + len(self._head[0])
        self.frames_written += len(pending)
        self.records_written += sum(rows for _, rows in pending)

    def _sink_failed(
        self,
        error: BaseException,
        pending: list[tuple[bytes, int]],
        note: tuple[bytes, int] | None,
        dropped: int,
    ) -> None:
        left = pending
        if getattr(error, "errno", None) in _FULL:
            left = self._write_what_fits(pending, note, dropped)
        # The head carries the segment's meta: it is kept for the next try.
        self._pending = [] if self.frames_written else left[: len(self._head)]
        self._pending_bytes = sum(len(frame) for frame, _ in self._pending)
        self.records_dropped += sum(rows for _, rows in left)
        self._tell_in_reserve()
        self._tell_sink(error)

    def _tell_sink(self, error: BaseException) -> None:
        on_error, self._on_error = self._on_error, None
        if on_error is not None:
            on_error(error)

    def _write_what_fits(
        self, pending: list[tuple[bytes, int]], note: tuple[bytes, int] | None, dropped: int
    ) -> list[tuple[bytes, int]]:
        """Write frames one by one where all together found no room; give those that do not fit."""
        heads = 0 if self.frames_written else len(self._head)
        left: list[tuple[bytes, int]] = []
        for part in [pending[:heads]] * bool(heads) + [[item] for item in pending[heads:]]:
            try:
                self._write(part)
            except Exception:
                if not self.frames_written:
                    return pending  # without its head nothing else is of use
                left.extend(part)
            else:
                if part[0] is note:
                    self._reported_drops = dropped
        return left

    def _tell_in_reserve(self) -> None:
        """Write the drops that nothing tells of yet into the bytes kept for that."""
        unsaid = self.dropped_unsaid
        if unsaid <= 0 or self._reserve_at is None:
            return
        with contextlib.suppress(Exception):
            count = self._reserved_drops + unsaid
            frame = _drops_frame(self.meta.get("worker"), count)
            rest = _pad_frame(len(self._head[1]) - len(frame))
            if rest is not None:
                self.sink.rewrite(self._reserve_at, frame + rest)  # type: ignore[attr-defined]
                self._reserved_drops = count
                self._reported_drops += unsaid

    @property
    def dropped_unsaid(self) -> int:
        """Number of dropped records that the sink holds no word of."""
        return self.records_dropped - self._reported_drops

    def _note_drops(self, dropped: int) -> tuple[bytes, int] | None:
        new = dropped - self._reported_drops
        if new > 0:
            with contextlib.suppress(Exception):
                before = len(self._pending)
                self._queue_frame(_drops_frame(self.meta.get("worker"), new), 0)
                return self._pending[before] if len(self._pending) > before else None
        return None

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
            try:
                self.sink.write(encode_frame("meta", ("value",), [(end,)]))
            except Exception as error:
                with contextlib.suppress(Exception):
                    self._tell_sink(error)
            self._tell_in_reserve()
            with contextlib.suppress(Exception):
                self.sink.close()
