"""Counters of /proc, read with the interpreter lock held.

An ordinary ``os.pread`` lets go of the lock; in a process with two busy threads each such call
costs a hand-off, about 200 µs a task. Through :class:`ctypes.PyDLL` the lock is kept. The buffers
stay referenced by their reader: a buffer collected under a read would corrupt memory. Where the C
library is not glibc or musl on Linux, ``os.pread`` serves; where /proc is absent, nothing is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
import weakref
from typing import Any

from rotameter.profiler.live.fds import HeldFd

__all__ = ["Own", "Proc", "ProcFile", "ThreadIo", "parse_io", "read_proc", "renew_lost", "usage"]


class Own:
    """What the tracer itself and the engine read and wrote: no task's (bytes).

    Between a call's return and our note of it another thread may read the counters of the process;
    so what a call that is under way may add to them is known too.

    Attributes
    ----------
    read, written : int
        To be taken off the process's counters.
    busy : int
        How many calls are under way.
    reading, writing : int
        The most that those calls move.
    """

    __slots__ = ("busy", "read", "reading", "writing", "written")

    def __init__(self) -> None:
        self.read = 0
        self.written = 0
        self.busy = 0
        self.reading = 0
        self.writing = 0


def _libc() -> Any:
    """Give the C library with the lock-keeping calling convention, or None."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        lib = ctypes.PyDLL(None)
        if ctypes.sizeof(ctypes.c_long) != 8:
            return None
        lib.pread.restype = ctypes.c_long
        lib.pwrite.restype = ctypes.c_long
    except Exception:
        return None
    return lib


_LIB = _libc()
_files: weakref.WeakSet[ProcFile] = weakref.WeakSet()


def renew_lost() -> None:
    """Open again those files that the program has closed under the tracer."""
    # No lock: a fork or a finaliser may strike inside it. What fails now is done at the next tick.
    files: list[ProcFile] = []
    with contextlib.suppress(RuntimeError):
        files = list(_files)
    for file in files:
        with contextlib.suppress(OSError):
            file.renew()


class ProcFile:
    """One /proc file kept open; ``read()`` fills ``data`` and gives the number of bytes.

    Parameters
    ----------
    path : str
        A file under /proc.
    size_bytes : int
        At most so many bytes are read, from the file's beginning.

    Raises
    ------
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import os
    >>> if os.path.exists("/proc/self/statm"):
    ...     assert ProcFile("/proc/self/statm").read() > 0
    """

    __slots__ = ("__weakref__", "_args", "_held", "_hold", "_path", "_size", "data", "read")

    def __init__(self, path: str, size_bytes: int = 256) -> None:
        self._path = path
        self._held = HeldFd(path, os.O_RDONLY)
        self.data = bytearray(size_bytes)
        self._size = size_bytes
        self._hold: Any = None
        self.read = self._read_os
        if _LIB is not None:
            self._hold = (ctypes.c_char * size_bytes).from_buffer(self.data)
            self._args = self._call_args()
            self.read = self._read_kept
        _files.add(self)

    @property
    def fd(self) -> int:
        """The descriptor, -1 once closed."""
        return self._held.fd

    def _call_args(self) -> tuple[Any, ...]:
        return (
            ctypes.c_int(self._held.fd),
            ctypes.c_void_p(ctypes.addressof(self._hold)),
            ctypes.c_size_t(self._size),
            ctypes.c_long(0),
        )

    def renew(self) -> bool:
        """Open the file again where the descriptor is no longer ours; tell whether it was so."""
        if self._held.fd < 0 or self._held.ours():
            return False
        self._held = HeldFd(self._path, os.O_RDONLY)
        if _LIB is not None:
            self._args = self._call_args()
        return True

    def _read_kept(self) -> int:
        count: int = _LIB.pread(*self._args)
        if count < 0 and self.renew():
            count = _LIB.pread(*self._args)
        if count < 0:
            raise OSError("pread failed")
        return count

    def _read_os(self) -> int:
        try:
            data = os.pread(self._held.fd, self._size, 0)
        except OSError:
            if not self.renew():
                raise
            data = os.pread(self._held.fd, self._size, 0)
        self.data[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the descriptor; reading afterwards fails."""
        self._held.close()
        if self._hold is not None:
            self._args = self._call_args()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def parse_io(data: bytes | bytearray) -> tuple[int, int]:
    r"""Give (rchar, wchar) in bytes from the text of a /proc ``io`` file.

    Examples
    --------
    >>> parse_io(b"rchar: 12\nwchar: 7\nsyscr: 1\n")
    (12, 7)
    """
    fields = data.split(None, 4)
    return int(fields[1]), int(fields[3])


def _usage() -> tuple[float, int]:
    """Give the process's CPU time (s) and kernel's peak of resident memory (bytes)."""
    used = _getrusage(_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * _MAXRSS_UNIT_BYTES


def _no_usage() -> tuple[float, int]:
    return time.process_time(), 0


_MAXRSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
try:
    from resource import RUSAGE_SELF as _SELF
    from resource import getrusage as _getrusage

    usage = _usage
except ImportError:  # not a POSIX system
    usage = _no_usage


def read_proc(path: str, size_bytes: int = 1 << 16) -> str | None:
    """Read a small /proc or /sys file once; None when it cannot be read.

    Examples
    --------
    >>> read_proc("/proc/no/such/file") is None
    True
    """
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    try:
        parts = b""
        while len(parts) < size_bytes and (part := os.read(fd, size_bytes - len(parts))):
            parts += part
        return parts.decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(fd)


class ThreadIo:
    """The I/O counters of the calling thread.

    ``own_read`` and ``own_written`` are the tracer's part (bytes).
    """

    __slots__ = ("file", "own_read", "own_written")

    def __init__(self) -> None:
        self.own_read = self.own_written = 0
        self.file: ProcFile | None = None
        with contextlib.suppress(OSError):
            self.file = ProcFile(f"/proc/self/task/{threading.get_native_id()}/io")


class Proc:
    """The counters of this process, each file open from the first use on.

    Parameters
    ----------
    own : Own
        Bytes read here are added to it.

    Examples
    --------
    >>> proc = Proc(Own())
    >>> rss = proc.rss_bytes()
    >>> rss is None or rss > 0
    True
    """

    def __init__(self, own: Own) -> None:
        self.own = own
        self.page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
        # The two numbers that are read stand at the beginning.
        self.io = self._open("/proc/self/io", 64)
        self.statm = self._open("/proc/self/statm")
        self._status: ProcFile | None = None
        self._local = threading.local()

    @staticmethod
    def _open(path: str, size_bytes: int = 256) -> ProcFile | None:
        try:
            file = ProcFile(path, size_bytes)
            file.read()
        except OSError:
            return None
        return file

    def thread(self) -> ThreadIo:
        """Give the calling thread's counters."""
        state: ThreadIo | None = getattr(self._local, "state", None)
        if state is None:
            state = self._local.state = ThreadIo()
        return state

    def rss_bytes(self) -> int | None:
        """Give the resident memory now, in bytes, or None where it cannot be read."""
        statm = self.statm
        if statm is None:
            return None
        self.own.read += statm.read()
        return int(statm.data.split(None, 2)[1]) * self.page_bytes

    def hwm_bytes(self) -> int | None:
        """Give the kernel's peak of resident memory since its last reset, in bytes (slow)."""
        if self._status is None:
            self._status = self._open("/proc/self/status", 2048)
        if self._status is None:
            return None
        self.own.read += self._status.read()
        at = self._status.data.find(b"VmHWM:")
        return int(self._status.data[at + 6 :].split(None, 1)[0]) * 1024 if at >= 0 else None
