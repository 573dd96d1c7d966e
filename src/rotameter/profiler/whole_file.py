"""Write a file as a whole, or not at all: a full disk must not leave half a report."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    r"""Write a text as UTF-8; where that fails, what was there before is there still.

    Parameters
    ----------
    path : path
        What is no regular file (a pipe, ``/dev/stdout``) is written to directly.
    text : str

    Raises
    ------
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "a.html"
    >>> write_whole(place, "<p>one</p>\n")
    >>> place.read_text(), len(list(place.parent.iterdir()))
    ('<p>one</p>\n', 1)
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        Path(path).write_text(text, encoding="utf-8")
        return
    part = target.with_name(f".{target.name[:200]}.part-{os.getpid()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except PermissionError:
        if not target.exists():
            raise
        target.write_text(text, encoding="utf-8")  # A file of ours in a folder of others.
        return
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
        with contextlib.suppress(OSError):
            os.chmod(part, target.stat().st_mode & 0o7777)
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
