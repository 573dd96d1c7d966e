"""Frames travel worker → scheduler → client, counted, bounded and acknowledged.

A :class:`WorkerLink` is the sink of a worker's recorder; the scheduler's part is in ``hub``. The
client's :class:`Inbox` appends to one segment file per origin from one writer thread and
acknowledges what is on disk, so that a lost client loses nothing that the hub cannot send again.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from rotameter.adapters.dask.names import RECORDS_OP
from rotameter.profiler.live.recorder import FileSink

__all__ = ["Inbox", "SegmentStore", "WorkerLink", "pieces"]

MESSAGE_LIMIT_BYTES = 4 << 20
LINK_LIMIT_BYTES = 16 << 20
# Each acknowledgement wakes the client's and the scheduler's event loop: one for several messages,
# at once only where much waits for it or the hub asks.
ACK_EVERY = 4
ACK_BYTES = 1 << 20
_RECENT = 8
_RECENT_LIMIT_BYTES = 256 << 10


def pieces(frames: bytes, limit: int = MESSAGE_LIMIT_BYTES) -> list[bytes]:
    """Cut a run of whole frames into pieces of about ``limit`` bytes, each of whole frames.

    Examples
    --------
    >>> from rotameter.profiler.live.segment import encode_frame
    >>> frame = encode_frame("deps", ("task_id", "depends_on"), [("b", "a")])
    >>> len(pieces(frame * 3, limit=len(frame)))
    3
    """
    out, at = [], 0
    while at < len(frames):
        cut = at
        while cut < len(frames) and cut - at < limit:
            cut += 12 + int.from_bytes(frames[cut + 4 : cut + 8], "little")
        out.append(frames[at:cut])
        at = cut
    return out


class WorkerLink:
    """Sink of a worker process's recorder: frames go over a worker's own stream to the scheduler.

    Parameters
    ----------
    origin : str
        Name of this source.
    trace : str, optional
        Mark of the trace that the frames belong to.
    """

    def __init__(self, origin: str, trace: str | None = None) -> None:
        self.workers: list[Any] = []
        self.trace = trace
        self.origin = origin
        self.sent = 0
        self.lost = 0
        self._waiting_bytes = 0
        # What the event loop has not taken, and what a stream may still hold.
        self._outbox: deque[bytes] = deque()
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=_RECENT)

    def keep(self, frames: bytes) -> None:
        """Hold frames for :meth:`drain`; the event loop has ended."""
        for piece in pieces(frames):
            self._waiting_bytes += len(piece)
            self._outbox.append(piece)

    def drain(self, take: Callable[[str, int, bytes], None]) -> None:
        """Give away what may never be sent, now that the event loop has ended."""
        for seq, data in list(self._recent):
            take(self.origin, seq, data)
        while self._outbox:
            data = self._outbox.popleft()
            self._waiting_bytes -= len(data)
            take(self.origin, self.sent, data)
            self.sent += 1

    def write(self, frames: bytes) -> None:
        """Queue whole frames for the event loop (any thread); OSError when it is too far behind."""
        if self._waiting_bytes > LINK_LIMIT_BYTES:
            raise OSError("the worker's event loop does not take more records")
        for piece in pieces(frames):
            self._waiting_bytes += len(piece)
            self._outbox.append(piece)
            try:
                worker = self.workers[-1]
                worker.loop.add_callback(self._send, worker)
            except (IndexError, RuntimeError) as error:  # no worker is left, the loop is closed
                self._outbox.pop()
                self._waiting_bytes -= len(piece)
                raise OSError(str(error)) from None

    def _send(self, worker: Any) -> None:
        if not self._outbox:
            return
        data = self._outbox.popleft()
        self._waiting_bytes -= len(data)
        stream = worker.batched_stream
        if stream is None or stream.comm is None or stream.comm.closed():
            self.lost += 1
            return
        message = {"op": RECORDS_OP, "origin": self.origin, "seq": self.sent, "data": data}
        if self.trace is not None:
            message["trace"] = self.trace
        try:
            stream.send(message)
            if len(data) <= _RECENT_LIMIT_BYTES:
                self._recent.append((self.sent, data))
            self.sent += 1
        except Exception:
            self.lost += 1

    def close(self) -> None:
        """Nothing is held."""


class SegmentStore:
    """One segment file per origin under ``folder/segments``.

    Parameters
    ----------
    folder : str
        The trace's folder; it is made, mode 0700.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._place = os.path.join(folder, "segments")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.makedirs(self._place, mode=0o700, exist_ok=True)
        self._sinks: dict[str, FileSink] = {}
        self._names: dict[str, str] = {}
        self.written_bytes = 0

    def append(self, origin: str, data: bytes) -> None:
        """Append whole frames to the origin's segment."""
        sink = self._sinks.get(origin)
        if sink is None:
            # An origin whose file was closed goes on in a further file: none is appended to twice.
            for n in range(10_000):
                path = os.path.join(self._place, f"{origin}-{n}.seg")
                if not os.path.exists(path):
                    break
            sink = self._sinks[origin] = FileSink(path)
        sink.write(data)
        self.written_bytes += len(data)

    def close(self) -> None:
        """Close all files."""
        for sink in self._sinks.values():
            with contextlib.suppress(OSError):
                sink.close()
        self._sinks.clear()


_Acknowledge = Callable[[int], None]
_Item = tuple[_Acknowledge | None, int, str, bytes, int, bool]


class Inbox:
    """The client's end: a writer thread that appends what arrives and acknowledges it.

    Parameters
    ----------
    folder : str
        The trace's folder.
    on_error : callable
        Called once with the first error of the disk.

    Attributes
    ----------
    trace : str
        Mark that its messages carry: one that comes late is not to get into a later trace.

    Examples
    --------
    >>> import os, tempfile
    >>> place = tempfile.mkdtemp()
    >>> inbox = Inbox(place, print)
    >>> inbox.receive(None, 0, "worker-a-1-ff", 0, b"frames")
    >>> inbox.close()
    >>> os.listdir(os.path.join(place, "segments"))
    ['worker-a-1-ff-0.seg']
    """

    def __init__(self, folder: str, on_error: Callable[[BaseException], None]) -> None:
        self.store = SegmentStore(folder)
        self.trace = os.urandom(8).hex()
        self.batches = 0
        self.lost_batches = 0
        # Per origin, the first message that has not come, and those beyond it that have.
        self._next: dict[str, int] = {}
        self._ahead: dict[str, set[int]] = {}
        # By whom to tell: clients of several clusters may write to one folder.
        self._unsaid: dict[_Acknowledge, tuple[int, int]] = {}
        self._on_error: Callable[[BaseException], None] | None = on_error
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="rotameter-write", daemon=True)
        self._thread.start()

    def receive(
        self,
        acknowledge: Callable[[int], None] | None,
        n: int,
        origin: str,
        seq: int,
        data: bytes,
        now: bool = False,
    ) -> None:
        """Take one message; one that came before is not written twice.

        Parameters
        ----------
        acknowledge : callable or None
            Called from the writer thread with ``n`` when all messages up to it are on disk, once
            for every few of them.
        n : int
            The hub's number of the message.
        origin : str
            Where its frames come from.
        seq : int
            The origin's number of the message.
        data : bytes
            Whole frames.
        now : bool
            Acknowledge this one by itself.
        """
        size = len(data)
        if not self._is_new(origin, seq):
            data = b""
        self._queue.put((acknowledge, n, origin, data, size, now))

    def _is_new(self, origin: str, seq: int) -> bool:
        """Note a message; the workers of one process share an origin, and theirs overtake others.

        Their messages go over several streams, the last ones over that of whoever leaves last.
        """
        due, ahead = self._next.get(origin, 0), self._ahead.setdefault(origin, set())
        if seq < due or seq in ahead:
            return False
        ahead.add(seq)
        while due in ahead:
            ahead.remove(due)
            due += 1
        self._next[origin] = due
        return True

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            acknowledge, n, origin, data, size, now = item
            try:
                if data:
                    self.store.append(origin, data)
                    self.batches += 1
            except Exception as error:
                self.lost_batches += 1
                on_error, self._on_error = self._on_error, None
                if on_error is not None:
                    on_error(error)
            # What the disk refused is acknowledged too: it would be refused again.
            if acknowledge is not None and self._due(acknowledge, size, now):
                with contextlib.suppress(Exception):
                    acknowledge(n)

    def _due(self, to: _Acknowledge, size_bytes: int, now: bool) -> bool:
        """Tell whether to acknowledge all messages so far; the size is as the hub counts it."""
        unsaid, unsaid_bytes = self._unsaid.pop(to, (0, 0))
        unsaid, unsaid_bytes = unsaid + 1, unsaid_bytes + size_bytes
        due = now or unsaid >= ACK_EVERY or unsaid_bytes >= ACK_BYTES
        if not due:
            self._unsaid[to] = unsaid, unsaid_bytes
        return due

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what has arrived and stop."""
        self._queue.put(None)
        self._thread.join(timeout_s)
        self.store.close()
