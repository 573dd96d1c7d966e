"""Copy a finished trace folder to any file system that fsspec knows."""

from __future__ import annotations

from pathlib import Path

import fsspec

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
        Replace what is there.

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
    number, free = 2, target
    while fs.exists(free) and not force:
        stem, dot, suffix = target.rpartition(".")
        free = f"{stem or suffix}-{number}{dot}{suffix if stem else ''}"
        number += 1
    if free == target and fs.exists(target):
        fs.rm(target, recursive=True)
    fs.makedirs(free, exist_ok=True)
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        remote = f"{free}/{file.relative_to(folder).as_posix()}"
        fs.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        fs.put_file(str(file), remote)
    written: str = fs.unstrip_protocol(free)
    return written
