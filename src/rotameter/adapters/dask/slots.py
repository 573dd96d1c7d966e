"""Memory-mapped slots that outlive their process: what really ran when a SIGKILL came.

A worker process maps one small file and writes a slot when an attempt begins. After its death any
process of the host reads the file: the scheduler, the nanny, or a sibling worker. Writing a slot
is a few stores, the key before the start time that marks it as taken; nothing is synchronised,
the kernel keeps the page.

An attempt that ends leaves its slot as it is, with the time of its end, and the slot that was
free for longest is taken next: a worker tells of an end a little later, and what it had no time
to tell is still there.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import struct
import tempfile
import time
from collections import deque
from typing import Any, NamedTuple

__all__ = ["KEY_LIMIT", "SlotFile", "SlotRead", "SlotRecord", "folder", "read_slots", "remove_dead"]

_MAGIC = b"RMTSLOT4"
_HEAD = struct.Struct("<8sqqq")  # magic, pid, rss_bytes, rss_at_ns
_HEAD_SIZE = 64
_SLOT = struct.Struct("=qqqq224s")  # start_ns (0: none), run_id, key length, end_ns, key
_SLOT_SIZE = _SLOT.size
KEY_LIMIT = 224
_COUNT = 128


class SlotRecord(NamedTuple):
    """One attempt that was running, or had ended at ``end_ns``."""

    start_ns: int
    run_id: str
    task_id: str
    end_ns: int | None = None


class SlotRead(NamedTuple):
    """What a slot file says: the process, its last known memory, what ran and what last ended."""

    pid: int
    rss_bytes: int | None
    rss_at_ns: int | None
    running: tuple[SlotRecord, ...]
    ended: tuple[SlotRecord, ...] = ()

    def as_message(self) -> dict[str, Any]:
        """Give the same as plain data, for a message."""
        return {
            "pid": self.pid,
            "rss_bytes": self.rss_bytes,
            "rss_at_ns": self.rss_at_ns,
            "running": [list(r) for r in self.running],
            "ended": [list(r) for r in self.ended],
        }

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> SlotRead:
        """Read the plain data again."""
        running, ended = (
            tuple(SlotRecord(*r) for r in message.get(name, ())) for name in ("running", "ended")
        )
        return cls(message["pid"], message["rss_bytes"], message["rss_at_ns"], running, ended)


def folder() -> str:
    """Give this user's folder for slot files, made if need be (mode 0700).

    Raises
    ------
    OSError
        If it cannot be made, or what has its name is no folder of this user's.
    """
    uid = os.getuid() if hasattr(os, "getuid") else 0
    path = os.path.join(tempfile.gettempdir(), f"rotameter-slots-{uid}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise PermissionError(errno.EACCES, "not a folder of this user", path)
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


class SlotFile:
    """The slots of one worker.

    Parameters
    ----------
    path : str
        The file to make; an existing one is replaced.

    Raises
    ------
    OSError
        If the file cannot be made.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "1.slots")
    >>> slots = SlotFile(path)
    >>> slot = slots.begin("('x', 0)", 7, 1_000)
    >>> read_slots(path).running
    (SlotRecord(start_ns=1000, run_id='7', task_id="('x', 0)", end_ns=None),)
    >>> slots.end(slot, 2_000)
    >>> read_slots(path).ended
    (SlotRecord(start_ns=1000, run_id='7', task_id="('x', 0)", end_ns=2000),)
    >>> slots.close(remove=True)
    """

    def __init__(self, path: str) -> None:
        self.path = path
        size = _HEAD_SIZE + _COUNT * _SLOT_SIZE
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            # No holes: a page that a full disk cannot give later would be this process's death.
            if os.write(fd, bytes(size)) < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        # A slot is named by the place of its first word (8 bytes).
        self._free = deque(range(_HEAD_SIZE // 8, size // 8, _SLOT_SIZE // 8))
        self._view = memoryview(self._map)
        self._words = self._view.cast("q")
        _HEAD.pack_into(self._map, 0, _MAGIC, os.getpid(), 0, 0)

    @property
    def parts(self) -> tuple[deque[int], memoryview, memoryview]:
        """Free slots, words and bytes, for who writes slots as :meth:`begin` without its call."""
        return self._free, self._words, self._view

    def begin(self, task_id: str, run_id: int, start_ns: int) -> int:
        """Take a slot for an attempt; -1 when none is free."""
        try:
            at = self._free.popleft()
        except IndexError:
            return -1
        key = task_id.encode("utf-8", "replace")[:KEY_LIMIT]
        words = self._words
        words[at] = words[at + 3] = 0
        words[at + 2] = size = len(key)
        words[at + 1] = run_id
        self._view[8 * at + 32 : 8 * at + 32 + size] = key
        words[at] = start_ns
        return at

    def end(self, at: int, end_ns: int) -> None:
        """Give a slot back; what ended stays in it until it is taken again."""
        if at >= 0:
            try:  # noqa: SIM105 - on the path of every task
                self._words[at + 3] = end_ns
            except (ValueError, TypeError, IndexError):  # closed meanwhile
                pass
            self._free.append(at)

    def memory(self, rss_bytes: int) -> None:
        """Note the process's memory, so that its last value outlives it."""
        with contextlib.suppress(ValueError, TypeError):
            _HEAD.pack_into(self._map, 0, _MAGIC, os.getpid(), rss_bytes, time.time_ns())

    def close(self, *, remove: bool) -> None:
        """Unmap, and remove the file at an orderly end."""
        self._words.release()
        self._view.release()
        self._map.close()
        if remove:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


def read_slots(path: str, pid: int | None = None) -> SlotRead | None:
    """Read a slot file; None when it is not there, not one, or of another process.

    Parameters
    ----------
    path : str
        The file.
    pid : int, optional
        The process that must have written it.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_HEAD_SIZE + _COUNT * _SLOT_SIZE)
        magic, wrote, rss, at_ns = _HEAD.unpack_from(data, 0)
        if magic != _MAGIC or (pid is not None and wrote != pid):
            return None
        running: list[SlotRecord] = []
        ended: list[SlotRecord] = []
        for at in range(_HEAD_SIZE, len(data) - _SLOT_SIZE + 1, _SLOT_SIZE):
            start_ns, run_id, length, end_ns, key = _SLOT.unpack_from(data, at)
            if start_ns:
                text = key[: max(0, min(length, KEY_LIMIT))].decode("utf-8", "replace")
                record = SlotRecord(start_ns, str(run_id), text, end_ns or None)
                (ended if end_ns else running).append(record)
    except (OSError, struct.error):
        return None
    return SlotRead(wrote, rss or None, at_ns or None, tuple(running), tuple(ended))


def alive(pid: int) -> bool:
    """Tell whether there is a process of this number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def remove_dead(place: str, older_than_s: float = 3600.0) -> int:
    """Remove slot files of processes that died long ago; gives how many."""
    removed = 0
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(place)):
            with contextlib.suppress(OSError, ValueError):
                old = time.time() - entry.stat().st_mtime > older_than_s
                if old and not alive(int(entry.name.partition("-")[0])):
                    os.unlink(entry.path)
                    removed += 1
    return removed
