"""Where a recorder's frames go: a file, or a function."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from typing import Protocol

from rotameter.profiler.live.fds import HeldFd
from rotameter.profiler.live.segment import MAGIC

__all__ = ["CallSink", "FileSink", "Sink"]


class Sink(Protocol):
    """Takes whole frames; raises OSError when it cannot.

    One that can write again over what it has written also has ``size_bytes``, its length now,
    and ``rewrite(at, frames)``.
    """

    def write(self, frames: bytes) -> None:
        """Append frames."""

    def close(self) -> None:
        """Let go of the target."""


class FileSink:
    """Append frames to a segment file; a write that fails half-way is rolled back.

    Nothing is ever written to another file: where the program has closed the descriptor, the
    segment is opened again by its path, if that is still the same file.

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
        self._place = os.path.abspath(path)
        self._closed = False
        self._held = HeldFd(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        self._mark = self._held.mark
        self.size_bytes = 0
        self.appends = 0
        try:
            self.write(MAGIC)
        except OSError:
            self.close()
            raise

    def _opened(self, flags: int) -> HeldFd:
        """Open the segment again; OSError if its path leads elsewhere."""
        held = HeldFd(self._place, flags)
        if held.mark != self._mark:
            held.close()
            raise OSError(errno.ESTALE, "the segment was closed and is no longer at its path")
        return held

    def write(self, frames: bytes) -> None:
        """Append all of ``frames`` or nothing of them."""
        if self._closed:
            raise OSError(errno.EBADF, "the segment is closed")
        if not self._held.ours():
            self._held = self._opened(os.O_WRONLY | os.O_APPEND)
        fd = self._held.fd
        view = memoryview(frames)
        self.appends += 1
        try:
            while view:
                view = view[os.write(fd, view) :]
        except OSError:
            if self._held.ours():
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, self.size_bytes)
            raise
        self.size_bytes += len(frames)

    def rewrite(self, at: int, frames: bytes) -> None:
        """Write over what lies at an offset (bytes), which takes no more room on the disk."""
        # Through a descriptor of its own: with O_APPEND an offset means nothing.
        held = self._opened(os.O_WRONLY)
        try:
            os.pwrite(held.fd, frames, at)
        finally:
            held.close()

    def close(self) -> None:
        """Close the file."""
        self._closed = True
        self._held.close()


class CallSink:
    """Hand frames to a function (a message to the scheduler, a test's list)."""

    def __init__(self, call: Callable[[bytes], None]) -> None:
        self._call = call

    def write(self, frames: bytes) -> None:
        """Pass the frames on."""
        self._call(frames)

    def close(self) -> None:
        """Nothing is held."""
