"""Members of a tar archive, read in one pass within bounds; nothing is unpacked to a path.

Only ordinary files are taken: links, devices and sparse files are passed over, names are labels
and never opened. Headers as of POSIX.1-1988 (ustar), long names as of GNU and pax.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

from rotameter.errors import BadInput
from rotameter.units import many

__all__ = ["Member", "Oversized", "is_tar", "members_of"]

_MARK = b"ustar"
_BLOCK = 512
_PIECE = 1 << 20
_NAME_LIMIT = 1 << 16
_IN_MEMORY_BYTES = 32 << 20
_FILES = (b"0", b"\0", b"7")
_UNPACK: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),  # type: ignore[dict-item,return-value]
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}


class Oversized(BadInput):
    """More comes out of a file than may."""


def is_tar(head: bytes) -> bool:
    """Say whether bytes begin a tar archive.

    Examples
    --------
    >>> is_tar(b"x" * 257 + b"ustar"), is_tar(b"")
    (True, False)
    """
    return head[257:262] == _MARK


class _Store:
    """Where the members' bytes lie: in memory while they are few, else in a nameless file."""

    def __init__(self) -> None:
        self.file: Any = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115

    def __del__(self) -> None:
        self.file.close()


class Member:
    """One file of an archive: its name there, its size (bytes), and its bytes."""

    def __init__(self, name: str, store: _Store, start: int, size: int) -> None:
        self.name, self.size = name, size
        self._store, self._start = store, start

    def open(self) -> IO[bytes]:
        """Open the bytes; those of a packed member unpacked."""
        view: Any = _View(self._store, self._start, self.size)
        head = view.read(6)
        view.seek(0)
        if self.name.endswith((".gz", ".bz2", ".xz")):
            for mark, unpack in _UNPACK.items():
                if head.startswith(mark):
                    return unpack(view)
        return view  # type: ignore[no-any-return]


class _View(io.RawIOBase):
    """A stretch of the store; several may be read in turn."""

    def __init__(self, store: _Store, start: int, size: int) -> None:
        self._store, self._start, self._size, self._at = store, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._store.file.seek(self._start + self._at)
        data = self._store.file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def members_of(stream: IO[bytes], name: str, limit: int) -> tuple[list[Member], list[str]]:
    """Read an archive to its end.

    Parameters
    ----------
    stream : file
        The unpacked archive; must itself refuse to grow beyond a limit.
    name : str
        What messages call it.
    limit : int
        Most members that are taken.

    Returns
    -------
    list of Member
        In order of name; of members with one name the last, as tar itself does.
    list of str
        What was passed over, in words.

    Raises
    ------
    BadInput
        If it holds too many members, or is damaged before the first one's end.
    """
    store = _Store()
    found: dict[str, Member] = {}
    passed, troubles, seen = 0, [], 0
    try:
        for member_name, size, kind in _headers(stream):
            seen += 1
            if seen > limit:
                raise _TooMany
            if kind not in _FILES:
                passed += kind != b"5"
                _pass(stream, size)
                continue
            label = _label(member_name)
            if label is None:
                _pass(stream, size)
                continue
            start = store.file.seek(0, io.SEEK_END)
            _copy(stream, store.file, size)
            found[label] = Member(label, store, start, size)
    except _TooMany:
        text = f"{name} holds more than {limit:,} files: refused"
        raise BadInput(text, hint="unpack and choose") from None
    except Oversized:
        raise
    except (_Damaged, BadInput) as error:
        if not found:
            raise BadInput(f"{name} is a damaged archive: {error}", hint="copy it again") from None
        troubles.append(f"{name} is damaged after {many(len(found), 'file')}: {error}")
    if passed:
        troubles.append(f"{name}: {passed:,} links and other special files passed over")
    return [found[label] for label in sorted(found)], troubles


class _Damaged(Exception):
    """No tar archive from here on."""


class _TooMany(Exception):
    """More members than may be."""


def _headers(stream: IO[bytes]) -> Iterator[tuple[str, int, bytes]]:
    """Give (name, size, type) of each member; its bytes must be read before the next."""
    long_name: str | None = None
    long_size: int | None = None
    while True:
        block = stream.read(_BLOCK)
        if not block.strip(b"\0"):
            return
        if len(block) < _BLOCK:
            raise _Damaged("it is cut")
        kind, size = block[156:157], _number(block[124:136])
        if not is_tar(block) or _number(block[148:156]) != _checksum(block):
            raise _Damaged("a header that is none")
        if kind in (b"L", b"x", b"X"):
            data = _small(stream, size)
            if kind == b"L":
                long_name = data.rstrip(b"\0").decode("utf-8", "replace")
            else:
                facts = _pax(data)
                long_name = facts.get("path", long_name)
                if "size" in facts and facts["size"].isdecimal() and len(facts["size"]) < 19:
                    long_size = int(facts["size"])
                if any(key.startswith("GNU.sparse") for key in facts):
                    kind = b"S"
            if kind != b"S":
                continue
            _sparse_behind(stream)
            long_name = long_size = None
            continue
        if kind == b"g" or kind == b"K":
            _small(stream, size)
            continue
        short = block[:100].partition(b"\0")[0]
        front = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
        plain = (front + b"/" + short if front else short).decode("utf-8", "replace")
        yield long_name or plain, size if long_size is None else long_size, kind
        long_name = long_size = None


def _sparse_behind(stream: IO[bytes]) -> None:
    """Pass over the member that a pax header calls sparse."""
    block = stream.read(_BLOCK)
    if len(block) < _BLOCK or not is_tar(block):
        raise _Damaged("it is cut")
    _pass(stream, _number(block[124:136]))


def _number(field: bytes) -> int:
    """Read an octal number, or a binary one as of GNU."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    try:
        return int(text or b"0", 8)
    except ValueError:
        raise _Damaged("a size that is no number") from None


def _checksum(block: bytes) -> int:
    return sum(block[:148]) + sum(block[156:]) + 8 * 32


def _small(stream: IO[bytes], size: int) -> bytes:
    if not 0 <= size <= _NAME_LIMIT:
        raise _Damaged("a name that is too long")
    padded = size + -size % _BLOCK
    data = stream.read(padded)
    if len(data) < padded:
        raise _Damaged("it is cut")
    return data[:size]


def _pax(data: bytes) -> dict[str, str]:
    """Read records: their length, a blank, key=value and an end of line."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        length, blank, _ = data[at : at + 20].partition(b" ")
        if not blank or not length.isdigit() or not len(length) < int(length) <= len(data) - at:
            break
        record = data[at + len(length) + 1 : at + int(length)].rstrip(b"\n")
        key, _, value = record.partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        at += int(length)
    return found


def _label(name: str) -> str | None:
    """Give a name for messages; None for hidden files, as in folders."""
    parts = [part for part in name.replace("\0", "").split("/") if part not in ("", ".", "..")]
    return None if not parts or any(part.startswith(".") for part in parts) else "/".join(parts)


def _pass(stream: IO[bytes], size: int) -> None:
    _move(stream, size, None)


def _copy(stream: IO[bytes], store: IO[bytes], size: int) -> None:
    _move(stream, size, store)


def _move(stream: IO[bytes], size: int, store: IO[bytes] | None) -> None:
    left, padded = size, size + -size % _BLOCK
    while padded > 0:
        data = stream.read(min(_PIECE, padded))
        if not data:
            raise _Damaged("it is cut")
        if store is not None and left > 0:
            store.write(data[:left])
        left -= len(data)
        padded -= len(data)
