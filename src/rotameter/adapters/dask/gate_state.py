"""What a gate has learnt, in a file: read with care, written as a whole."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rotameter.allocator.default import Default
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line

__all__ = ["read_state", "write_state"]

VERSION = 1
ASIDE = ".unreadable"


def read_state(place: str | os.PathLike[str] | None) -> dict[str, Any] | None:
    """Give what an earlier run has learnt, or None.

    Parameters
    ----------
    place : path or None
        A file that cannot be used is set aside, with a warning: it is not written over.

    Returns
    -------
    dict or None
        As ``Default.from_state`` takes it.

    Examples
    --------
    >>> read_state("/nonexistent/learnt.json") is None
    True
    """
    if place is None or not Path(place).exists():
        return None
    path = Path(place)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(kept, dict) or kept.get("version") != VERSION:
            raise ValueError("not what this version of rotameter wrote")
        learnt: dict[str, Any] = kept["learnt"]
        Default.from_state(learnt)
        return learnt
    except Exception as error:  # whatever the file holds
        aside = path.with_name(path.name + ASIDE)
        with contextlib.suppress(OSError):
            os.replace(path, aside)
        warn_once(
            f"{path} cannot be used ({first_line(error)}): sizing begins with nothing learnt; the "
            f"file is kept as {aside.name}",
            stacklevel=3,
        )
        return None


def write_state(place: str | os.PathLike[str], learnt: Mapping[str, Any]) -> None:
    """Keep what was learnt; a reader sees the old file or the new one.

    Parameters
    ----------
    place : path
    learnt : mapping
        As ``Default.state`` gives it.

    Raises
    ------
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "learnt.json"
    >>> write_state(place, Default().state())
    >>> sorted(read_state(place))[:2]
    ['defaults', 'groups']
    """
    path = Path(place)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps({"version": VERSION, "learnt": learnt}), encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
