"""Whether a folder is a trace and nothing but a trace, so that it may be replaced or removed.

A name alone proves nothing: a folder of a user may well be called ``tables``. So a trace has to
show that it is one, and whatever a trace does not write keeps the whole folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rotameter.profiler.folder import DECISIONS, META, read_meta
from rotameter.profiler.live.segment import MAGIC, STOP_MARK
from rotameter.profiler.schema import TABLES

__all__ = ["part_of_trace", "why_kept"]

_META = re.compile(rf"{re.escape(META)}(\.tmp-\d+)?")
_TABLES = re.compile(r"tables(\.tmp-(old-)?\d+)?")
_TABLE_FILES = frozenset(f"{name}.parquet" for name in TABLES)
_DECISIONS = re.compile(rf"{re.escape(DECISIONS)}(\.tmp-\d+)?")
_SEGMENTS = "segments"
_SEGMENT_FILE = re.compile(rf".+\.(seg|seg\.part|spool|live)|{re.escape(STOP_MARK)}")


def part_of_trace(name: str) -> bool:
    """Tell whether a file of this name, relative to its folder, is one that a trace writes.

    Examples
    --------
    >>> part_of_trace("tables/tasks.parquet"), part_of_trace("tables/mine.csv")
    (True, False)
    >>> part_of_trace("segments/stopped")
    True
    """
    folder, _, file = name.rpartition("/")
    if not folder:
        return _META.fullmatch(file) is not None
    if folder == _SEGMENTS:
        return _SEGMENT_FILE.fullmatch(file) is not None
    known = file in _TABLE_FILES or _DECISIONS.fullmatch(file) is not None
    return _TABLES.fullmatch(folder) is not None and known


def why_kept(folder: Path) -> str | None:
    """Say why a folder is not to be replaced; None where it is a trace and nothing else.

    An empty folder may be replaced too. Links are never followed.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> why_kept(place)
    >>> (place / "tables").mkdir(); (place / "tables" / "x.csv").touch(); why_kept(place)
    'holds tables/x.csv, which is no part of a trace'
    """
    if folder.is_symlink() or not folder.is_dir():
        return "is not a trace"
    empty = True
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        empty = False
        stray = _stray(entry)
        if stray is not None:
            return f"holds {stray}, which is no part of a trace"
    return None if empty or _proven(folder) else "is not a trace"


def _stray(entry: os.DirEntry[str]) -> str | None:
    """Name the first thing at an entry of the folder, or in it, that a trace does not write."""
    if entry.is_file(follow_symlinks=False):
        return None if part_of_trace(entry.name) else entry.name
    if not entry.is_dir(follow_symlinks=False):
        return entry.name
    if entry.name != _SEGMENTS and not _TABLES.fullmatch(entry.name):
        return entry.name
    for file in sorted(os.scandir(entry.path), key=lambda e: e.name):
        name = f"{entry.name}/{file.name}"
        if not (file.is_file(follow_symlinks=False) and part_of_trace(name)):
            return name
    return None


def _proven(folder: Path) -> bool:
    """Tell whether the facts or, where they are torn, every segment says that this is a trace."""
    schema = read_meta(folder).get("schema")
    if isinstance(schema, int) and not isinstance(schema, bool):
        return True
    files = list((folder / _SEGMENTS).glob("*.seg"))
    return bool(files) and all(_begins_as_segment(file) for file in files)


def _begins_as_segment(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            head = opened.read(len(MAGIC))
    except OSError:
        return False
    return MAGIC.startswith(head)
