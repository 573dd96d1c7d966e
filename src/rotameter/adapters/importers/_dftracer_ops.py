"""Which calls of libc move data, which only ask about files, and how much each moved."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

__all__ = ["LIMIT", "operation", "size_of", "whole"]

LIMIT = 1 << 62
_READS = frozenset(["read", "pread", "readv", "preadv", "preadv2", "fread", "fgets"])
_WRITES = frozenset(["write", "pwrite", "writev", "pwritev", "pwritev2", "fwrite", "fputs"])
# These return a pointer, or just not a failure.
_UNSAID = frozenset(["fgets", "fputs"])
_ITEMS = frozenset(("fread", "fwrite"))
_OTHERS = {
    "open": "open openat creat fopen fdopen freopen opendir",
    "close": "close fclose closedir",
    "seek": "seek lseek fseek fseeko ftell rewind",
    "stat": "stat fstat lstat statx fstatat newfstatat xstat fxstat lxstat fxstatat access "
    "faccessat",
    "sync": "sync fsync fdatasync msync syncfs fflush",
    "delete": "unlink unlinkat remove rmdir",
}
_OPS = {name: op for op, names in _OTHERS.items() for name in names.split()}


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Take off what libc adds to a call's name.

    Examples
    --------
    >>> _plain("__xstat64"), _plain("fread_unlocked"), _plain("pread64"), _plain("__read_chk")
    ('xstat', 'fread', 'pread', 'read')
    """
    plain = name.strip().lstrip("_").lower()
    for end in ("_chk", "_unlocked", "64"):
        plain = plain.removesuffix(end)
    return plain


@lru_cache(maxsize=4096)
def operation(name: str) -> str:
    """Give the kind of a call: read, write, open, close, seek, stat, sync, delete or metadata.

    Examples
    --------
    >>> operation("pread64"), operation("fwrite"), operation("__lxstat"), operation("readlink")
    ('read', 'write', 'stat', 'metadata')
    """
    plain = _plain(name)
    if plain in _READS:
        return "read"
    return "write" if plain in _WRITES else _OPS.get(plain, "metadata")


def whole(value: Any) -> int | None:
    """Read a whole number, given as one or as text; None where it is none that fits.

    Examples
    --------
    >>> whole(3), whole("17"), whole(-1), whole("x"), whole(1e999), whole(True)
    (3, 17, -1, None, None, None)
    """
    kind = type(value)
    if kind is str:
        text = value.strip()
        if not text.lstrip("-").isdecimal() or len(text) > 20:
            return None
        value = int(text)
    elif kind is float:
        if not -LIMIT < value < LIMIT:
            return None
        value = round(value)
    elif kind is not int:
        return None
    number: int = value
    return number if -LIMIT < number < LIMIT else None


def size_of(name: str, args: Mapping[str, Any], calls: int) -> int | None:
    """Give the bytes that a call (or ``calls`` calls in one record) moved; None where not said.

    ``fread`` and ``fwrite`` return how many items, not bytes; a failed call moved nothing. In an
    aggregated record a number that was the same in all calls stands there once.

    Examples
    --------
    >>> size_of("read", {"ret": 10}, 1), size_of("fread", {"ret": 3, "size": 8}, 1)
    (10, 24)
    >>> size_of("read", {"ret": -1}, 1), size_of("read", {}, 1)
    (0, None)
    >>> size_of("read", {"ret_sum": 30}, 3), size_of("read", {"ret": 10}, 3)
    (30, 30)
    """
    plain = _plain(name)
    total = whole(args.get("size_sum")) if plain not in _ITEMS else None
    if total is None:
        total = whole(args.get("ret_sum"))
        if total is None:
            returned = whole(args.get("ret"))
            total = None if returned is None else returned * calls
        if total is not None and plain in _ITEMS:
            item = whole(args.get("size"))
            total = None if item is None else total * item
    if plain in _UNSAID:
        return None
    if total is None:
        return None
    return min(total, LIMIT) if total > 0 else 0
