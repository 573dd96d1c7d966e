"""Whether a folder is a trace and nothing but a trace, so that it may be replaced or removed.

A name alone proves nothing: a folder of a user may well be called ``tables``. So a trace has to
show that it is one, and whatever a trace does not write keeps the whole folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from rotameter.profiler.folder import META, read_meta
from rotameter.profiler.live.segment import MAGIC
from rotameter.profiler.schema import TABLES

__all__ = ["why_kept"]

_META = re.compile(rf"{re.escape(META)}(\.tmp-\d+)?")
_TABLES = re.compile(r"tables(\.tmp-(old-)?\d+)?")
_TABLE_FILES = frozenset(f"{name}.parquet" for name in TABLES)
_SEGMENTS = "segments"
_SEGMENT_FILE = re.compile(r".+\.(seg|seg\.part|spool)")


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
    """Name the first thing under an entry of the folder that a trace does not write."""
    if _META.fullmatch(entry.name):
        return None if entry.is_file(follow_symlinks=False) else entry.name
    if not entry.is_dir(follow_symlinks=False):
        return entry.name
    if _TABLES.fullmatch(entry.name):
        return _first_stray(entry, lambda name: name in _TABLE_FILES)
    if entry.name == _SEGMENTS:
        return _first_stray(entry, lambda name: _SEGMENT_FILE.fullmatch(name) is not None)
    return entry.name


def _first_stray(folder: os.DirEntry[str], ours: Callable[[str], bool]) -> str | None:
    for file in sorted(os.scandir(folder.path), key=lambda e: e.name):
        if not (file.is_file(follow_symlinks=False) and ours(file.name)):
            return f"{folder.name}/{file.name}"
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
