"""Which files of a folder may belong to a run, within bounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rotameter.adapters.importers.inputs import InputFile, open_members
from rotameter.adapters.importers.walking import Unread, entries
from rotameter.errors import InputError
from rotameter.values import Head

__all__ = ["SKIPPED", "named", "opened", "plausible", "small_text", "walk"]

SKIPPED = frozenset(
    ("work", "node_modules", "__pycache__", "venv", "env", "conda", "singularity", "site-packages")
)
_TEXTUAL = frozenset(
    ("", ".txt", ".tsv", ".csv", ".tab", ".psv", ".dat", ".json", ".jsonl", ".ndjson")
) | frozenset((".out", ".log", ".list", ".trace", ".sacct", ".benchmark", ".bench", ".bmk"))
_FILES_LIMIT = 50_000
_TEXT_LIMIT = 64 << 20


def walk(folder: Path, unread: Unread, *, depth: int = 6, hidden: bool = False) -> Iterator[Path]:
    """Give the files below a folder in order of name; no links to folders, no scratch folders."""
    left = [_FILES_LIMIT]
    yield from _walk(folder, unread, depth, hidden, left)


def _walk(
    folder: Path, unread: Unread, depth: int, hidden: bool, left: list[int]
) -> Iterator[Path]:
    for entry in entries(folder, unread):
        if left[0] <= 0 or (entry.name.startswith(".") and not hidden):
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                if depth > 0 and entry.name not in SKIPPED:
                    yield from _walk(Path(entry.path), unread, depth - 1, hidden, left)
            elif entry.is_file():
                left[0] -= 1
                yield Path(entry.path)
        except OSError as error:
            unread.add(entry.path, error.strerror)


def plausible(path: Path) -> bool:
    """Say whether a file may be a table of text, by its name only.

    Examples
    --------
    >>> plausible(Path("trace.txt.1")), plausible(Path("jobs.tsv.gz")), plausible(Path("a.bam"))
    (True, True, False)
    """
    name = path.name.lower()
    for packed in (".gz", ".bz2", ".xz", ".zip"):
        name = name.removesuffix(packed)
    suffix = os.path.splitext(name)[1]
    return suffix in _TEXTUAL or suffix[1:].isdigit()


def named(folder: Path, path: Path) -> str:
    """Give a path as it lies in the run's folder."""
    try:
        return path.relative_to(folder).as_posix()
    except ValueError:
        return str(path)


def opened(folder: Path, path: Path, unread: Unread | None = None) -> tuple[InputFile, Head] | None:
    """Open one plain or packed file and its beginning; None where that does not go."""
    try:
        members = open_members(path)
        if len(members) != 1:
            return None
        file = members[0]
        return file, Head(named(folder, path), file.head, file.path)
    except InputError:
        if unread is not None and not os.access(path, os.R_OK):
            unread.add(path, "Permission denied")
        return None


def small_text(path: Path, limit: int = _TEXT_LIMIT) -> str | None:
    """Read a text file of bounded size; None where that does not go."""
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError:
        return None
    return None if len(data) > limit else data.decode("utf-8", "replace")
