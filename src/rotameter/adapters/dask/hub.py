"""The scheduler's part of the way of frames: forward, hold, spool.

Whole frames are forwarded without being decoded. While nobody listens, or the listener is slow, a
bounded amount is kept in memory and then spooled to a bounded folder of segments on the scheduler's
own disk, which is a trace in its own right.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from rotameter.adapters.dask.names import RECORDS_OP
from rotameter.adapters.dask.transport import SegmentStore

__all__ = ["Hub"]

logger = logging.getLogger("rotameter")

WINDOW_BYTES = 8 << 20
HELD_LIMIT_BYTES = 8 << 20
SPOOL_LIMIT_BYTES = 2 << 30


class _Spool:
    """Bounded overflow on the scheduler's own disk, as a readable trace folder."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.folder: str | None = None
        self.bytes = 0
        self._entries: deque[tuple[str, int, str, int, int]] = deque()
        self._offsets: dict[str, int] = defaultdict(lambda: 8)
        self._store: SegmentStore | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, origin: str, seq: int, data: bytes) -> bool:
        """Keep one message; False when the disk refuses or the bound is reached."""
        if self.bytes + len(data) > self.limit_bytes:
            return False
        try:
            if self._store is None:
                self.folder = tempfile.mkdtemp(prefix="rotameter-spool-", suffix=".rmt")
                self._store = SegmentStore(self.folder)
            self._store.append(origin, data)
        except OSError:
            return False
        path = os.path.join(str(self.folder), "segments", f"{origin}-0.seg")
        self._entries.append((origin, seq, path, self._offsets[origin], len(data)))
        self._offsets[origin] += len(data)
        self.bytes += len(data)
        return True

    def take(self) -> tuple[str, int, bytes] | None:
        """Give the oldest message back; None when there is none left."""
        while self._entries:
            origin, seq, path, offset, size = self._entries.popleft()
            self.bytes -= size
            with contextlib.suppress(OSError), open(path, "rb") as file:
                file.seek(offset)
                return origin, seq, file.read(size)
        self.remove()
        return None

    def remove(self) -> None:
        """Remove the folder once all of it has been sent."""
        if self._store is not None and not self._entries:
            self._store.close()
            shutil.rmtree(str(self.folder), ignore_errors=True)
            self._store, self.folder = None, None
            self._offsets.clear()

    def close(self) -> None:
        """Close the files; what could not be sent stays on disk."""
        self.remove()
        if self._store is not None:
            self._store.close()


class Hub:
    """The scheduler's end: counts what arrives and forwards it (event loop only).

    Parameters
    ----------
    send : callable
        ``send(client, message)`` puts a message on a client's stream; raises when it is gone.
    store : SegmentStore, optional
        Where to write when no client is wanted (a preloaded scheduler).
    trace : str, optional
        Mark of the trace, for the client.
    """

    def __init__(
        self,
        send: Callable[[str, dict[str, Any]], None],
        store: SegmentStore | None = None,
        *,
        trace: str | None = None,
        spool_limit_bytes: int = SPOOL_LIMIT_BYTES,
    ) -> None:
        self._send = send
        self.trace = trace
        self._marks: dict[str, Any] = {} if trace is None else {"trace": trace}
        self.store = store
        self.client: str | None = None
        self.received: dict[str, int] = defaultdict(int)
        self.forwarded = 0
        self.acknowledged = 0
        self.lost_batches = 0
        self._unacknowledged: deque[tuple[int, str, int, bytes]] = deque()
        self._window_bytes = 0
        self._held: deque[tuple[str, int, bytes]] = deque()
        self._held_bytes = 0
        self._spool = _Spool(spool_limit_bytes)

    @property
    def pending(self) -> int:
        """Messages that are not yet on the client's disk."""
        return len(self._unacknowledged) + len(self._held) + len(self._spool)

    @property
    def spool_folder(self) -> str | None:
        """The folder of what could not be sent, if there is any."""
        return self._spool.folder

    def receive(self, origin: str, seq: int, data: bytes) -> None:
        """Take one message of an origin."""
        self.received[origin] += 1
        if self.store is not None and self.client is None:
            try:
                self.store.append(origin, data)
            except Exception:
                self.lost_batches += 1
            return
        if self._held or len(self._spool) or not self._forward(origin, seq, data):
            self._hold(origin, seq, data)

    def _hold(self, origin: str, seq: int, data: bytes) -> None:
        if not len(self._spool) and self._held_bytes + len(data) <= HELD_LIMIT_BYTES:
            self._held.append((origin, seq, data))
            self._held_bytes += len(data)
        elif not self._spool.put(origin, seq, data):
            self.lost_batches += 1

    def _forward(self, origin: str, seq: int, data: bytes, *, always: bool = False) -> bool:
        full = self._window_bytes > WINDOW_BYTES and not always
        if self.client is None or full:
            return False
        n = self.forwarded
        message = {"op": RECORDS_OP, "n": n, "origin": origin, "seq": seq, "data": data}
        message.update(self._marks)
        try:
            self._send(self.client, message)
        except Exception:
            self.detach(self.client)
            return False
        self.forwarded += 1
        self._unacknowledged.append((n, origin, seq, data))
        self._window_bytes += len(data)
        return True

    async def settle(self, origin: str, deadline: float) -> None:
        """Wait until the client has on disk what it was sent.

        Parameters
        ----------
        origin : str
            Any origin that has sent something.
        deadline : float
            When to give up, on the monotonic clock, in seconds.
        """
        # From now on each message is acknowledged, and with this one all that came before.
        self._marks["now"] = True
        if self._unacknowledged:
            self._forward(origin, -1, b"", always=True)
        while self.pending and self.client and time.monotonic() < deadline:
            await asyncio.sleep(0.01)

    def acknowledge(self, n: int, client: str) -> None:
        """Note that all messages up to number ``n`` are on the client's disk."""
        if client != self.client:
            return
        while self._unacknowledged and self._unacknowledged[0][0] <= n:
            self._window_bytes -= len(self._unacknowledged.popleft()[3])
            self.acknowledged += 1
        self._pump()

    def _pump(self) -> None:
        while self.client is not None and self._window_bytes <= WINDOW_BYTES:
            if self._held:
                item = self._held.popleft()
                self._held_bytes -= len(item[2])
            else:
                taken = self._spool.take()
                if taken is None:
                    return
                item = taken
            if not self._forward(*item):
                self._held.appendleft(item)
                self._held_bytes += len(item[2])
                return

    def drain(self, take: Callable[[str, int, bytes], None]) -> None:
        """Give away all that no client has on disk, now that the event loop has ended."""
        for _, origin, seq, data in self._unacknowledged:
            take(origin, seq, data)
        for item in self._held:
            take(*item)
        while (taken := self._spool.take()) is not None:
            take(*taken)
        self._unacknowledged.clear()
        self._held.clear()
        self._window_bytes = self._held_bytes = 0

    def attach(self, client: str) -> None:
        """Send to this client from now on, beginning with what is held."""
        if self.client is not None and self.client != client:
            self.detach(self.client)
        self.client = client
        self._pump()

    def detach(self, client: str) -> None:
        """Let go of a client; what it had not acknowledged is sent again to the next one."""
        if client != self.client:
            return
        self.client = None
        for _, origin, seq, data in reversed(self._unacknowledged):
            self._held.appendleft((origin, seq, data))
            self._held_bytes += len(data)
        self._unacknowledged.clear()
        self._window_bytes = 0

    def close(self) -> None:
        """Put what nobody took on this machine's disk and say where."""
        while self._held:
            item = self._held.popleft()
            if not self._spool.put(*item):
                self.lost_batches += 1
        self._held_bytes = 0
        self._spool.close()
        if self.store is not None:
            self.store.close()
        if self._spool.folder is not None:
            logger.warning("rotameter: no client took these records: %s", self._spool.folder)
