"""Folders walked through, with a note of what could not be looked into: none is left out unsaid."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rotameter.errors import BadInput
from rotameter.profiler.store import is_trace
from rotameter.units import many

__all__ = ["Unread", "entries", "files_below", "is_file", "is_folder", "matching", "readable"]

_SHOWN = 3


class Unread:
    """Folders and files that could not be looked at, and why.

    Attributes
    ----------
    traces : list of str
        Traces of rotameter that were passed over.

    Examples
    --------
    >>> unread = Unread()
    >>> unread.add("run/sub", "Permission denied")
    >>> unread.words()
    ['1 folder or file cannot be read and is left out: run/sub (Permission denied)']
    """

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self.traces: list[str] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: str | os.PathLike[str], reason: str | None) -> None:
        """Note one; again is once."""
        self._found.setdefault(os.fspath(path), reason or "unknown reason")

    def words(self) -> list[str]:
        """Give a sentence for each kind, or none."""
        return [*self._unread(), *self._passed()]

    def _passed(self) -> list[str]:
        if not self.traces:
            return []
        shown = ", ".join(sorted(self.traces)[:_SHOWN])
        more = f" and {len(self.traces) - _SHOWN:,} more" if len(self.traces) > _SHOWN else ""
        were = "trace of rotameter is" if len(self.traces) == 1 else "traces of rotameter are"
        return [f"{len(self.traces):,} {were} left out (name them to read them): {shown}{more}"]

    def _unread(self) -> list[str]:
        if not self._found:
            return []
        shown = [f"{path} ({reason})" for path, reason in list(self._found.items())[:_SHOWN]]
        more = len(self._found) - len(shown)
        if len(self._found) == 1:
            return [f"1 folder or file cannot be read and is left out: {shown[0]}"]
        rest = f" and {more:,} more" if more else ""
        return [
            f"{many(len(self._found), 'folder')} or files cannot be read and are left out: "
            f"{', '.join(shown)}{rest}"
        ]


def entries(folder: Path | str, unread: Unread) -> list[os.DirEntry[str]]:
    """Give what lies in a folder, in order of name; nothing where it cannot be read.

    A folder that is not there holds nothing, and is not noted.
    """
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        unread.add(folder, error.strerror)
        return []


def is_folder(path: Path, unread: Unread) -> bool:
    """Say whether a path is a folder; one that cannot be looked at is noted, and is none."""
    try:
        return path.is_dir()
    except OSError as error:
        unread.add(path, error.strerror)
        return False


def is_file(path: Path, unread: Unread) -> bool:
    """Say whether a path is a file, as :func:`is_folder` does."""
    try:
        return path.is_file()
    except OSError as error:
        unread.add(path, error.strerror)
        return False


def files_below(folder: Path, unread: Unread, skip: Iterable[str] = ()) -> Iterator[Path]:
    """Give the files below a folder, folder by folder; nothing hidden, no links to folders.

    What lies in a trace of rotameter is no file of another tool: the trace is noted instead.
    """
    passed = frozenset(skip)
    waiting = [os.fspath(folder)]
    while waiting:
        below = []
        for entry in entries(waiting.pop(), unread):
            if entry.name.startswith(".") or entry.name in passed:
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name.endswith(".rmt") and is_trace(entry.path):
                        unread.traces.append(entry.path)
                    else:
                        below.append(entry.path)
                elif entry.is_file():
                    yield Path(entry.path)
            except OSError as error:
                unread.add(entry.path, error.strerror)
        waiting += reversed(below)


def matching(pattern: Path, unread: Unread) -> list[Path]:
    """Give the files that a pattern means, in order of name; folders it goes through are noted."""
    for folder in pattern.parents:
        if glob.has_magic(str(folder)):
            for place in glob.glob(f"{folder}{os.sep}", recursive=True):
                below = place.rstrip(os.sep)
                if not os.access(below, os.R_OK | os.X_OK):
                    unread.add(below, os.strerror(errno.EACCES))
    found = glob.glob(str(pattern), recursive=True)
    return sorted(Path(place) for place in found if os.path.isfile(place))


def readable(path: Path) -> None:
    """Refuse a folder that the user may not look into.

    Raises
    ------
    BadInput
        If it is one.
    """
    try:
        if not path.is_dir() or os.access(path, os.R_OK | os.X_OK):
            return
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise BadInput(f"cannot reach {path}: {reason}", hint=_HINT) from None
    raise BadInput(f"cannot read the folder {path}: Permission denied", hint=_HINT)


_HINT = "ask its owner for the right to read it, or name another path"
