"""How child processes hear of a trace, mark that they write to it, and are waited for."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Any

from rotameter.profiler.live.context import ENV
from rotameter.profiler.live.proc import read_proc
from rotameter.profiler.live.recorder import Recorder

__all__ = [
    "at_child_exit",
    "call_in",
    "disown",
    "leave_word",
    "mark_live",
    "unmark_live",
    "withdraw_word",
]

WAIT_S = 1.5
POOL_WAIT_S = 1.0
_before: list[str | None] = []


def leave_word(text: str) -> None:
    """Put into the environment what a child needs to join."""
    _before.append(os.environ.get(ENV))
    os.environ[ENV] = text
    _patch_pools()


def withdraw_word() -> None:
    """Take the word back; processes that exist already keep theirs."""
    if not _before:
        return
    before = _before.pop()
    if before is None:
        os.environ.pop(ENV, None)
    else:
        os.environ[ENV] = before
    _unpatch_pools()


def _live_mark(recorder: Recorder) -> str | None:
    path = getattr(recorder.sink, "path", "")
    return f"{path.removesuffix('.seg')}.live" if path else None


def mark_live(recorder: Recorder) -> None:
    """Leave a mark beside the segment while this process may still write to it."""
    mark = _live_mark(recorder)
    if mark is not None:
        with contextlib.suppress(OSError):
            fd = os.open(mark, os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(fd, f"{os.getpid()} {platform.node()}".encode())
            os.close(fd)


def unmark_live(recorder: Recorder) -> None:
    """Take the mark away."""
    mark = _live_mark(recorder)
    if mark is not None:
        with contextlib.suppress(OSError):
            os.unlink(mark)


def _alive(mark: str) -> bool:
    try:
        fd = os.open(mark, os.O_RDONLY)
        try:
            pid, _, host = os.read(fd, 200).decode().partition(" ")
        finally:
            os.close(fd)
        if host != platform.node():
            return False
        os.kill(int(pid), 0)
        stat = read_proc(f"/proc/{int(pid)}/stat")
        # A zombie has written all that it ever will.
        return stat is not None and stat.rpartition(") ")[2][:1] != "Z"
    except (OSError, ValueError):
        return False


def call_in(segments: str, stop_mark: str) -> None:
    """Tell children on this host that the trace is over and wait, briefly, until they have closed.

    Parameters
    ----------
    segments : str
        The trace's folder of segments.
    stop_mark : str
        Name of the file whose presence tells them.
    """

    def marks() -> list[str]:
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(segments) if name.endswith(".live")]
            return [os.path.join(segments, name) for name in names]
        return []

    if not marks():
        return
    stop_path = os.path.join(segments, stop_mark)
    with contextlib.suppress(OSError):
        os.close(os.open(stop_path, os.O_WRONLY | os.O_CREAT, 0o600))
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and any(_alive(mark) for mark in marks()):
        time.sleep(0.01)
    for mark in marks():
        if not _alive(mark):
            with contextlib.suppress(OSError):
                os.unlink(mark)


def at_child_exit(close: Callable[[], None]) -> None:
    """Call ``close`` before a multiprocessing child ends (``atexit`` does not run there)."""
    with contextlib.suppress(Exception):
        from multiprocessing import util

        util.Finalize(None, close, exitpriority=1_000)


def disown(recorder: Recorder) -> None:
    """In a forked child: forget the parent's recorder without writing what it holds."""
    recorder._closed = True
    for channel in list(recorder._channels.values()):
        channel.rows.clear()
    recorder._pending.clear()
    with contextlib.suppress(Exception):
        recorder.sink._file.close()  # type: ignore[attr-defined]


# -- multiprocessing.Pool ----------------------------------------------------------------------
# `with Pool() as pool` ends with terminate(), a SIGTERM at workers that may hold half a second of
# records. A pool that has delivered every result can as well be closed: its workers then end in
# an orderly way within milliseconds; after a second it is terminated all the same.

_pool_original: list[Any] = []
_pool_lock = threading.Lock()


def _patch_pools() -> None:
    try:
        from multiprocessing import pool

        original = pool.Pool.terminate
    except Exception:
        return
    with _pool_lock:
        if _pool_original:
            return

        def terminate(self: Any) -> Any:
            with contextlib.suppress(Exception):
                if isinstance(self._pool, list) and not self._cache:
                    self.close()
                    deadline = time.monotonic() + POOL_WAIT_S
                    for worker in list(self._pool):
                        if hasattr(worker, "exitcode"):
                            worker.join(max(0.0, deadline - time.monotonic()))
            return original(self)

        terminate.__doc__ = original.__doc__
        terminate.__name__ = original.__name__
        terminate.__qualname__ = original.__qualname__
        _pool_original.extend((original, terminate))
        pool.Pool.terminate = terminate  # type: ignore[method-assign]


def _unpatch_pools() -> None:
    with _pool_lock:
        if not _pool_original:
            return
        from multiprocessing import pool

        original, ours = _pool_original
        if pool.Pool.terminate is ours:
            pool.Pool.terminate = original  # type: ignore[method-assign]
        _pool_original.clear()
