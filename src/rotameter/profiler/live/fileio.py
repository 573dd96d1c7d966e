"""Bytes and calls per task and file, counted at :class:`io.FileIO` under the real buffers.

While a trace is open, ``builtins.open`` and ``io.open`` (hence ``pathlib``, ``os.fdopen``,
``tempfile``, ``gzip`` …) build the same objects as ever, only the raw file at their bottom is a
subclass that counts. Whatever is unusual in the arguments goes to the original, which raises its
own errors. Pipes, sockets and terminals are not counted, nor are files opened before the trace,
files of the kernel (/proc, /sys) and, outside tasks, reads of code and installed packages. What
others move through a descriptor that they asked for is added when the file is closed.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import re
import stat
import sys
import time
from collections.abc import Iterable
from typing import Any

from rotameter.profiler.live.context import current, hook
from rotameter.profiler.live.lent import Lent, lend
from rotameter.profiler.live.redact import clip, redact

__all__ = [
    "CountingFileIO",
    "engine_files",
    "install",
    "installed",
    "object_name",
    "uninstall",
]

_FILES_LIMIT = 10_000
_NAMES_LIMIT = 20_000
_OTHERS = "(other files)"
_now = time.perf_counter_ns
_current = current.get
_NOBODY: tuple[None, list[int]] = (None, [])
_FileIO = io.FileIO
_readinto, _read, _readall, _write = _FileIO.readinto, _FileIO.read, _FileIO.readall, _FileIO.write
_fileno, _close = _FileIO.fileno, _FileIO.close
_names: dict[str, str] = {}
_programs: dict[str, bool] = {}
_PROGRAM = re.compile(r"\.(py|pyc|pyi)$|/(site|dist)-packages/|\.(dist|egg)-info/")
_LIBRARY = os.path.dirname(os.__file__) + os.sep
# Kernel counters, which the tracer and Dask read all the time.
_KERNEL = ("/proc/", "/sys/")
# How the names of an engine's own files begin (spilled results, parts of a shuffle).
_engine: tuple[str, ...] = ()


def object_name(path: str) -> str:
    """Give the name that a path is recorded under: absolute, redacted, of bounded length.

    Examples
    --------
    >>> object_name("/data/a.csv")
    '/data/a.csv'
    """
    name = _names.get(path)
    if name is None:
        absolute = path if path.startswith("/") else os.path.abspath(path)
        name = clip(redact(absolute))
        if path.startswith("/") and len(_names) < _NAMES_LIMIT:
            _names[path] = name
    return name


def _programs_own(name: str) -> bool:
    """Tell whether a file is part of a program: code, installed packages and what lies in them."""
    known = _programs.get(name)
    if known is None:
        known = bool(_PROGRAM.search(name)) or name.startswith(_LIBRARY)
        if len(_programs) < _NAMES_LIMIT:
            _programs[name] = known
    return known


def engine_files(beginnings: Iterable[str]) -> None:
    """Say how the paths of the engine's own files begin, in place of what was said.

    What is written and read in those opened from now on is no task's, whichever thread does it.
    """
    global _engine
    _engine = tuple(map(object_name, beginnings))


def _is_engines(path: Any) -> bool:
    return isinstance(path, str | bytes) and object_name(os.fsdecode(path)).startswith(_engine)


def _note(
    name: str, op: str, count: int, begun: int, unseen: bool = False
) -> tuple[Any, list[int]]:
    """Add one raw call to the task that made it.

    Returns
    -------
    files, sums
        What the task that is current keeps its files in, and the file's sums: as long as the task
        lives and is current these may be added to without asking again. No files where it is
        another's.
    """
    session = hook.active
    if session is None:
        return _NOBODY
    try:
        ended = _now()
        r, lends = _current(), False
        if r is None or not r.live:
            # A helper thread of the only running task works for that task.
            r, lends = session.only_running(), True
        if r is None:
            if op == "read" and _programs_own(name):
                return _NOBODY  # an import, by the program or by the tracer; no data of a task
            files = session.orphans
        else:
            files = r.files
            if files is None:
                files = r.files = {}
        entry = files.get((name, op))
        if entry is None:
            if len(files) >= _FILES_LIMIT:
                name = _OTHERS
                entry = files.get((name, op))
            if entry is None:
                entry = files[name, op] = [count, 1, begun, ended, ended - begun]
                if unseen:
                    entry.append(count)
                return None if lends else files, entry
        if unseen:
            entry[5:] = [count + sum(entry[5:])]
        entry[0] += count
        entry[1] += 1
        entry[3] = ended
        entry[4] += ended - begun
    except Exception as error:
        session.faults.note("files", error)
        return _NOBODY
    return None if lends else files, entry


class CountingFileIO(_FileIO):
    """A raw file that counts; it passes for :class:`io.FileIO` in every other respect."""

    # Where the task that read (wrote) last keeps its files, and its sums of this one: looked up
    # once, as small calls are many. Tasks' objects are used again, their dictionaries are not.
    __slots__ = (
        *("_rotameter_lent", "_rotameter_name"),
        *("_rotameter_read_in", "_rotameter_reads", "_rotameter_write_in", "_rotameter_writes"),
    )
    _rotameter_name: str | None
    _rotameter_lent: Lent | None
    _rotameter_read_in: Any
    _rotameter_reads: list[int]
    _rotameter_write_in: Any
    _rotameter_writes: list[int]

    def readinto(self, buffer: Any, /) -> Any:
        """Read into a buffer."""
        begun = _now()
        count = _readinto(self, buffer)
        if count and self._rotameter_name is not None:
            files, r = self._rotameter_read_in, _current()
            if files is not None and r is not None and r.files is files and r.live:
                entry = self._rotameter_reads
                entry[3] = ended = _now()
                entry[0] += count
                entry[1] += 1
                entry[4] += ended - begun
            else:
                self._rotameter_read_in, self._rotameter_reads = _note(
                    self._rotameter_name, "read", count, begun
                )
            if self._rotameter_lent is not None:
                self._rotameter_lent.seen[0] += count
        return count

    def read(self, size: Any = -1, /) -> Any:
        """Read at most so many bytes."""
        begun = _now()
        data = _read(self, size)
        if data and self._rotameter_name is not None:
            count, files, r = len(data), self._rotameter_read_in, _current()
            if files is not None and r is not None and r.files is files and r.live:
                entry = self._rotameter_reads
                entry[3] = ended = _now()
                entry[0] += count
                entry[1] += 1
                entry[4] += ended - begun
            else:
                self._rotameter_read_in, self._rotameter_reads = _note(
                    self._rotameter_name, "read", count, begun
                )
            if self._rotameter_lent is not None:
                self._rotameter_lent.seen[0] += count
        return data

    def readall(self) -> Any:
        """Read to the end."""
        begun = _now()
        data = _readall(self)
        if data and self._rotameter_name is not None:
            _note(self._rotameter_name, "read", len(data), begun)
            if self._rotameter_lent is not None:
                self._rotameter_lent.seen[0] += len(data)
        return data

    def write(self, data: Any, /) -> Any:
        """Write, perhaps not all."""
        begun = _now()
        count = _write(self, data)
        if count and self._rotameter_name is not None:
            files, r = self._rotameter_write_in, _current()
            if files is not None and r is not None and r.files is files and r.live:
                entry = self._rotameter_writes
                entry[3] = ended = _now()
                entry[0] += count
                entry[1] += 1
                entry[4] += ended - begun
            else:
                self._rotameter_write_in, self._rotameter_writes = _note(
                    self._rotameter_name, "write", count, begun
                )
            if self._rotameter_lent is not None:
                self._rotameter_lent.seen[1] += count
        return count

    def fileno(self) -> int:
        """Give the descriptor; who has it can read and write unseen (numpy does)."""
        fd = _fileno(self)
        if getattr(self, "_rotameter_lent", self) is None and self._rotameter_name is not None:
            self._rotameter_lent = lend(fd)
        return fd

    def close(self) -> None:
        """Close the file."""
        lent = getattr(self, "_rotameter_lent", None)
        if lent is not None:
            self._rotameter_lent = None
            for op, count in lent.unseen(self):
                _note(self._rotameter_name or "", op, count, _now(), unseen=True)
        _close(self)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return _FileIO

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        # An original refuses in its own words, which differ by protocol and version.
        with _FileIO(os.devnull) as original:
            return original.__reduce_ex__(protocol)

    def __getstate__(self) -> Any:
        with _FileIO(os.devnull) as original:
            return original.__getstate__()  # type: ignore[attr-defined, unused-ignore]


class EngineFileIO(CountingFileIO):
    """A raw file of the engine itself: what it moves is taken off the counters of the process."""

    __slots__ = ()

    def readinto(self, buffer: Any, /) -> Any:
        """Read into a buffer."""
        return _owned(_readinto, self, buffer, reads=_size_of(buffer))

    def read(self, size: Any = -1, /) -> Any:
        """Read at most so many bytes."""
        return _owned(_read, self, size, reads=max(0, size) if type(size) is int else 0)

    def readall(self) -> Any:
        """Read to the end."""
        return _owned(_readall, self)

    def write(self, data: Any, /) -> Any:
        """Write, perhaps not all."""
        return _owned(_write, self, data, writes=_size_of(data))


def _size_of(buffer: Any) -> int:
    try:
        return memoryview(buffer).nbytes
    except TypeError:
        return 0  # the call itself says what is wrong with it


def _owned(call: Any, file: Any, *args: Any, reads: int = 0, writes: int = 0) -> Any:
    """Do a raw call that is no task's; whoever reads the counters meanwhile sees it under way."""
    session = hook.active
    if session is None or file._rotameter_name is None:
        return call(file, *args)
    own, count = session.own, 0
    own.busy += 1
    own.reading += reads
    own.writing += writes
    try:
        result = call(file, *args)
        if result:
            count = result if type(result) is int else len(result)
        return result
    finally:
        if call is _write:
            own.written += count
        else:
            own.read += count
        own.reading -= reads
        own.writing -= writes
        own.busy -= 1


# Error messages quote the type's name; of a built-in type that is with its module.
for _class in (CountingFileIO, EngineFileIO):
    _class.__name__ = "_io.FileIO"
    _class.__qualname__ = "FileIO"
    _class.__module__ = "_io"

_original: Any = io.open
_WARNS_ENCODING = bool(sys.flags.warn_default_encoding)


def _name_of(raw: Any, path: Any, opener: Any) -> str | None:
    """Give the name to count under, or None for what is no regular file."""
    try:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            return None
        if opener is not None or isinstance(path, int):
            # What an opener opens need not be what it was asked for.
            path = os.readlink(f"/proc/self/fd/{raw.fileno()}")
        name = object_name(os.fsdecode(path))
        return None if name.startswith(_KERNEL) else name
    except Exception:
        return None


def _raw_mode(mode: str) -> str | None:
    """Give the raw file's mode for a valid mode, else None."""
    modes = set(mode)
    if len(modes) != len(mode) or modes - set("axrwb+t"):
        return None
    if {"b", "t"} <= modes or len(modes & set("axrw")) != 1:
        return None
    kind = (modes & set("axrw")).pop()
    return kind + "+" if "+" in modes else kind


def _counted(
    file: Any,
    mode: str,
    raw_mode: str,
    buffering: int,
    texts: tuple[Any, Any, Any],
    closefd: bool,
    opener: Any,
) -> Any:
    path = file if type(file) is int else os.fspath(file)
    own = _engine and opener is None and _is_engines(path)
    raw = (EngineFileIO if own else CountingFileIO)(path, raw_mode, closefd, opener)
    result: Any = raw
    try:
        raw._rotameter_lent = raw._rotameter_name = None
        raw._rotameter_read_in = raw._rotameter_write_in = None
        if (session := hook.active) is not None:
            session.files_opened += 1
        name = _name_of(raw, path, opener)
        lines = buffering == 1
        if buffering < 0:
            only_open = getattr(raw, "_isatty_open_only", raw.isatty)
            lines = only_open()
            buffering = getattr(raw, "_blksize", 0)
            if buffering <= 1:
                buffering = io.DEFAULT_BUFFER_SIZE
        if buffering == 0:
            raw._rotameter_name = name
            return result
        if lines and buffering == 1:
            buffering = getattr(raw, "_blksize", 0) or io.DEFAULT_BUFFER_SIZE
        kind: Any = io.BufferedReader
        if "+" in raw_mode:
            kind = io.BufferedRandom
        elif raw_mode != "r":
            kind = io.BufferedWriter
        result = kind(raw, buffering)
        if "b" not in mode:
            text: Any = io.TextIOWrapper(result, *texts, lines)
            result = text
            text.mode = mode
        # Only now: the layers above ask for the descriptor as well.
        raw._rotameter_name = name
        return result
    except BaseException:
        result.close()
        raise


@functools.wraps(_original)
def _open(
    file: Any,
    mode: Any = "r",
    buffering: Any = -1,
    encoding: Any = None,
    errors: Any = None,
    newline: Any = None,
    closefd: Any = True,
    opener: Any = None,
) -> Any:
    if hook.active is not None and type(mode) is str and type(buffering) is int:
        raw_mode = _raw_mode(mode)
        binary = "b" in mode
        usual = (
            raw_mode is not None
            and (type(file) is int or isinstance(file, str | bytes | os.PathLike))
            and buffering >= -1
            and not (binary and (buffering == 1 or encoding or errors or newline))
            and not (binary and (encoding, errors, newline) != (None, None, None))
            and (binary or buffering != 0)
            and not (_WARNS_ENCODING and encoding is None and not binary)
        )
        if usual:
            texts = (encoding, errors, newline)
            return _counted(file, mode, raw_mode or "r", buffering, texts, closefd, opener)
    return _original(file, mode, buffering, encoding, errors, newline, closefd, opener)


def installed() -> bool:
    """Tell whether files opened now are counted."""
    return builtins.open is _open


def install() -> None:
    """Count files opened from now on; a second call changes nothing."""
    if builtins.open is _original and io.open is _original:
        builtins.open = _open
        io.open = _open


def uninstall() -> None:
    """Put the original back; files that are open go on working, uncounted."""
    if builtins.open is _open:
        builtins.open = _original
    if io.open is _open:
        io.open = _original
    _names.clear()
    _programs.clear()
