"""Bytes read and written, as the kernel counts them (rchar, wchar).

They count read and write calls, the page cache included; memory-mapped files and sockets are not
in them. The process's counters also hold what other threads and waited-for children did.
"""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.proc import Own, Proc, ProcFile, parse_io

__all__ = ["Probe"]


class Probe:
    """Bytes from start to stop, of the process or, if other tasks ran, of the thread.

    Examples
    --------
    >>> probe = Probe()
    >>> sorted(probe.stop(probe.start(None)))
    ['io_kind', 'read_bytes', 'write_bytes']
    """

    columns = ("read_bytes", "write_bytes", "io_kind")

    def __init__(self) -> None:
        self._own = Own()
        self._proc = Proc(self._own)

    def start(self, context: Any) -> tuple[Any, ...]:
        """Begin; of the attempt ``context`` it is asked at the end whether it was ``shared``."""
        thread = self._proc.thread()
        return context, thread, self._read(thread.file), self._read(self._proc.io)

    def _read(self, file: ProcFile | None) -> tuple[int, int, int] | None:
        """Give (read, written, read by the probes themselves before), in bytes."""
        if file is None:
            return None
        own = self._own.read
        self._own.read += file.read()
        return (*parse_io(file.data), own)

    def stop(self, token: tuple[Any, ...]) -> dict[str, Any]:
        """Give ``read_bytes``, ``write_bytes`` and the kind of the two."""
        context, thread, in_thread, in_process = token
        shared = bool(getattr(context, "shared", False))
        file, before = (thread.file, in_thread) if shared else (self._proc.io, in_process)
        after = self._read(file)
        if before is None or after is None:
            return {"read_bytes": None, "write_bytes": None, "io_kind": None}
        return {
            "read_bytes": max(0, after[0] - before[0] - (after[2] - before[2])),
            "write_bytes": max(0, after[1] - before[1]),
            "io_kind": "lower_bound" if shared else "exact",
        }
