"""Copy a finished trace folder to any file system that fsspec knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fsspec

from rotameter.profiler.folder import META
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.replaceable import part_of_trace

__all__ = ["upload"]


def upload(folder: Path, url: str, *, force: bool = False) -> str:
    """Copy a trace folder to a URL; where one exists a free name beside it is taken.

    Parameters
    ----------
    folder : pathlib.Path
        The local trace.
    url : str
        An fsspec URL of the target folder.
    force : bool
        Replace a trace that is there. What holds anything else is kept all the same.

    Returns
    -------
    str
        The URL that was written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "meta.json").write_text("{}")
    2
    >>> upload(folder, "memory://bucket/run.rmt")
    'memory:///bucket/run.rmt'
    """
    fs, target = fsspec.core.url_to_fs(url)
    replace = force and _is_trace(fs, target)
    number, free = 2, target
    while fs.exists(free) and not replace:
        stem, dot, suffix = target.rpartition(".")
        free = f"{stem or suffix}-{number}{dot}{suffix if stem else ''}"
        number += 1
    if replace and fs.exists(target):
        fs.rm(target, recursive=True)
    elif force and free != target:
        warn_once(f"{target} holds more than a trace and is kept: the trace went to {free}")
    fs.makedirs(free, exist_ok=True)
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        remote = f"{free}/{file.relative_to(folder).as_posix()}"
        fs.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        fs.put_file(str(file), remote)
    written: str = fs.unstrip_protocol(free)
    return written


def _is_trace(fs: Any, target: str) -> bool:
    """Tell whether there is a trace at a place, and nothing but a trace; or nothing at all."""
    if not fs.exists(target):
        return True
    if not fs.isdir(target):
        return False
    names = [str(path)[len(target.rstrip("/")) + 1 :] for path in fs.find(target)]
    if not all(part_of_trace(name) for name in names) or META not in names:
        return False
    try:
        meta = json.loads(fs.cat_file(f"{target.rstrip('/')}/{META}"))
    except (OSError, ValueError):
        return False
    return isinstance(meta, dict) and type(meta.get("schema")) is int
