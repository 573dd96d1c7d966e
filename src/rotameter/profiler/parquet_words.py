"""Why a Parquet file cannot be read, in words: Arrow's own are long and name its internals."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

__all__ = ["why_unreadable"]

_MAGIC = b"PAR1"


def why_unreadable(source: Path | bytes, error: Exception) -> str:
    """Say what is wrong with a Parquet file, as the end of a sentence about it.

    Parameters
    ----------
    source : path or bytes
        The file, or what it holds.
    error : Exception
        What reading it raised.

    Examples
    --------
    >>> why_unreadable(b"PAR1 and then nothing", pa.ArrowInvalid("Parquet magic bytes not found"))
    'is cut off: 21 bytes of it are there, without its end'
    >>> why_unreadable(b"%PDF-1.7", pa.ArrowInvalid("Parquet magic bytes not found"))
    'is no Parquet file'
    """
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return f"cannot be read: {os.strerror(error.errno)}"
    try:
        head, tail, size = _ends(source)
    except OSError as other:
        return f"cannot be read: {other.strerror or type(other).__name__}"
    if not size:
        return "is empty"
    if head != _MAGIC:
        return "is no Parquet file"
    if tail != _MAGIC or size < 12:
        return f"is cut off: {size:,} bytes of it are there, without its end"
    if isinstance(error, (pa.ArrowException, OSError)):
        return "is damaged"
    return f"cannot be used: {' '.join(str(error).split())}"


def _ends(source: Path | bytes) -> tuple[bytes, bytes, int]:
    """Give the first and last four bytes, and how many there are."""
    if isinstance(source, bytes):
        return source[:4], source[-4:], len(source)
    with source.open("rb") as opened:
        head = opened.read(4)
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - 4))
        return head, opened.read(4), size
