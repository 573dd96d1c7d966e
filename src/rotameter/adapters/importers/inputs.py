"""Files of others, opened within bounds: plain, gz, bz2, xz, zip or tar; nothing is trusted.

An importer gets an :class:`InputFile`: its name as the user knows it, its first bytes, and streams
that refuse to grow beyond a limit.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar

from rotameter.adapters.importers.tarring import Member, Oversized, is_tar, members_of
from rotameter.errors import BadInput

__all__ = ["FOREIGN", "HEAD_BYTES", "LIMIT_BYTES", "InputFile", "open_members", "spelled"]

HEAD_BYTES = 1 << 16
LIMIT_BYTES = 8 << 30
"""No file is read beyond this many bytes, unpacked."""
_RATIO_LIMIT = 100
"""How many times its size a packed file may unpack to: logs of real jobs reach some 60 times."""
_RATIO_FREE_BYTES = 64 << 20
_MEMBERS_LIMIT = 100_000
_ARCHIVES_OPEN = 8
_BLOCK_BYTES = 512
_TEXT_LIMIT_BYTES = 2 << 30
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError)

_RAW = re.compile("[\udc80-\udcff]")
_LETTERS = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0x100)
}
FOREIGN = (
    "text that is not UTF-8 is read as Windows-1252 (Latin-1): letters such as é may be others; "
    "convert the file, or run the tool in a UTF-8 locale"
)
"""What is said of a file that is not UTF-8."""

Opener = Callable[[], IO[bytes]]


def _gunzip(raw: IO[bytes]) -> IO[bytes]:
    return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]


_PACKED: dict[bytes, tuple[str, Callable[[IO[bytes]], IO[bytes]]]] = {
    b"\x1f\x8b": ("gzip -dc", _gunzip),
    b"BZh": ("bzip2 -dc", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz -dc", lzma.LZMAFile),
}
"""First bytes of packed files: the command that unpacks one as far as it goes, and how we do."""


class _Bounded(io.RawIOBase):
    """A stream that raises once more comes out of it than may."""

    def __init__(
        self, raw: IO[bytes], name: str, packed_bytes: int | None, unpack: str = ""
    ) -> None:
        self._raw, self._name, self._got = raw, name, 0
        self._unpack = unpack
        # One piece at a time: what lies before the damage of a cut file is not lost.
        self._read = getattr(raw, "read1", raw.read)
        self._limit = LIMIT_BYTES
        if packed_bytes is not None:
            allowed = max(_RATIO_FREE_BYTES, packed_bytes * _RATIO_LIMIT)
            self._limit = min(self._limit, allowed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read on, within the limit; what is damaged is a ``BadInput``."""
        try:
            data = self._read(len(buffer))
        except _BROKEN as error:
            raise BadInput(
                f"{self._name} is damaged after {self._got:,} bytes: {error}",
                hint=self._hint(),
            ) from None
        self._got += len(data)
        if self._got > self._limit:
            raise Oversized(
                f"{self._name} unpacks to more than {self._limit:,} bytes: refused",
                hint="unpack it yourself if you trust it, and split it",
            )
        buffer[: len(data)] = data
        return len(data)

    def _hint(self) -> str:
        """Say what to do about damage; what lies before it may be given by itself."""
        if not (self._unpack and self._got):
            return "copy the file again"
        return f"copy the file again, or give what is left of it: {self._unpack} FILE > PART"

    def close(self) -> None:
        self._raw.close()
        super().close()


@dataclass(frozen=True)
class InputFile:
    """One file to import.

    Parameters
    ----------
    name : str
        As messages and rejects call it: the path, ``archive.zip/member`` for a member.
    opener : callable
        Opens the unpacked bytes.
    path : pathlib.Path, optional
        Where the plain, unpacked file lies, for formats that need one (SQLite, Parquet); None
        inside archives.
    """

    name: str
    opener: Opener
    path: Path | None = None
    _head: list[bytes] = field(default_factory=list, repr=False)
    _foreign: list[bool] = field(default_factory=list, repr=False, compare=False)

    @property
    def stem(self) -> str:
        """The file's name without folders, packing and last suffix."""
        base = self.name.replace("\\", "/").rpartition("/")[2]
        for suffix in (".gz", ".bz2", ".xz"):
            base = base.removesuffix(suffix)
        return base.rpartition(".")[0] or base

    @property
    def head(self) -> bytes:
        """The first 64 KiB (bytes), unpacked; of a damaged file what lies before the damage."""
        if not self._head:
            parts: list[bytes] = []
            with self.open() as stream:
                try:
                    while sum(map(len, parts)) < HEAD_BYTES and (part := stream.read1(HEAD_BYTES)):
                        parts.append(part)
                except BadInput:
                    if not parts:
                        raise
            self._head.append(b"".join(parts)[:HEAD_BYTES])
        return self._head[0]

    def told_foreign(self) -> bool:
        """Say, the first time that it is asked, whether bytes that are not UTF-8 were read."""
        first = len(self._foreign) == 1
        if first:
            self._foreign.append(True)
        return first

    def spelled(self, text: str) -> str:
        """Give text that was decoded with ``surrogateescape`` in letters, and remember it."""
        made = spelled(text)
        if made is not text and not self._foreign:
            self._foreign.append(True)
        return made

    @property
    def head_text(self) -> str:
        """The same as text, without a byte order mark."""
        return decode(self.head)

    def open(self) -> io.BufferedReader:
        """Open the unpacked bytes.

        Raises
        ------
        BadInput
            If it cannot be opened; reading raises it too, for damage and beyond the limits.
        """
        try:
            raw = self.opener()
        except _BROKEN as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(f"cannot open {self.name}: {reason}", hint="check the file") from None
        return io.BufferedReader(raw, 1 << 18)  # type: ignore[arg-type]

    def read_bytes(self, limit_bytes: int = _TEXT_LIMIT_BYTES) -> bytes:
        """Read all of it, at most ``limit_bytes``."""
        parts, size = [], 0
        with self.open() as stream:
            while part := stream.read(1 << 20):
                parts.append(part)
                size += len(part)
                if size > limit_bytes:
                    raise BadInput(
                        f"{self.name} is larger than {limit_bytes:,} bytes: too much for one piece",
                        hint="split it, or import a part",
                    )
        return b"".join(parts)

    def read_text(self, limit_bytes: int = _TEXT_LIMIT_BYTES) -> str:
        """Read all of it as text; bytes that are not UTF-8 are taken as Windows-1252."""
        return decode(self.read_bytes(limit_bytes), self.spelled)

    def lines(self) -> Iterator[tuple[int, str]]:
        r"""Give (number from 1, line without its end) for \n, \r\n and \r."""
        with self.open() as stream:
            coding = _encoding(self.head)
            text = io.TextIOWrapper(stream, encoding=coding, errors=_errors(coding))
            for number, line in enumerate(text, start=1):
                if number == 1:
                    line = line.removeprefix("\ufeff")
                if not line.isascii():
                    line = self.spelled(line)
                yield number, line.rstrip("\n")


def _encoding(head: bytes) -> str:
    return "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"


def _errors(coding: str) -> str:
    # Half a pair of UTF-16 is no letter of any other encoding.
    return "surrogateescape" if coding == "utf-8" else "replace"


def spelled(text: str) -> str:
    r"""Turn the bytes that ``surrogateescape`` kept into letters: those of Windows-1252.

    Different bytes stay different. A text without any is given back as it is.

    Examples
    --------
    >>> spelled(b"caf\xe9 \x80".decode("utf-8", "surrogateescape"))
    'café €'
    """
    if text.isascii() or _RAW.search(text) is None:
        return text
    return text.translate(_LETTERS)


def decode(data: bytes, spell: Callable[[str], str] = spelled) -> str:
    r"""Decode UTF-8 (or UTF-16 with a mark), ends of lines as ``\n``.

    Other bytes are taken as Windows-1252, by ``spell``.

    Examples
    --------
    >>> decode(b"\xef\xbb\xbfa\r\nb")
    'a\nb'
    """
    coding = _encoding(data)
    text = spell(data.decode(coding, errors=_errors(coding)).removeprefix("\ufeff"))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def open_members(
    path: Path, troubles: list[str] | None = None, *, tar: bool = False
) -> list[InputFile]:
    """Give the files that a path stands for: itself, unpacked, or the members of an archive.

    Parameters
    ----------
    path : pathlib.Path
        A plain file, a packed one (gz, bz2, xz), a zip or a tar archive, packed or not.
    troubles : list of str, optional
        What was passed over in an archive is added here.
    tar : bool
        Whether a tar archive stands for its members. All of it must be read for that, so it is
        for archives that the user names, not for those that lie in a folder.

    Raises
    ------
    BadInput
        If it cannot be opened, or an archive has too many members.
    """
    name = str(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            magic = stream.read(_BLOCK_BYTES)
    except OSError as error:
        raise BadInput(f"cannot open {name}: {error.strerror}", hint="check the path") from None
    if magic[:4] == b"PK\x03\x04":
        return _zip_members(path)
    for mark, (command, unpack) in _PACKED.items():
        if magic.startswith(mark):
            file = InputFile(name, _packed_opener(path, name, unpack, size, command))
            return _tar_members(file, troubles) if tar and _holds_tar(file) else [file]
    file = InputFile(name, lambda: _Bounded(path.open("rb"), name, None), path)  # type: ignore[return-value,arg-type]
    return _tar_members(file, troubles) if tar and is_tar(magic) else [file]


def _holds_tar(file: InputFile) -> bool:
    try:
        return is_tar(file.head)
    except BadInput:  # said again, and counted, when it is read
        return False


def _tar_members(file: InputFile, troubles: list[str] | None) -> list[InputFile]:
    with file.open() as stream:
        members, passed = members_of(stream, file.name, _MEMBERS_LIMIT)
    if troubles is not None:
        troubles += passed
    return [
        InputFile(f"{file.name}/{member.name}", _tar_opener(file.name, member))
        for member in members
    ]


def _tar_opener(name: str, member: Member) -> Opener:
    # The archive's own bound held already; a member packed again has one of its own.
    return lambda: _Bounded(member.open(), f"{name}/{member.name}", member.size)  # type: ignore[return-value]


def _packed_opener(
    path: Path, name: str, unpack: Callable[[IO[bytes]], IO[bytes]], size: int, command: str
) -> Opener:
    return lambda: _Bounded(unpack(path.open("rb")), name, size, command)  # type: ignore[return-value]


class _Archive:
    """A zip archive that stays open while its members are read, one after the other.

    Its directory is read once for all members. Only the last few archives stay open: a folder may
    hold thousands of them.
    """

    _opened: ClassVar[list[weakref.ref[_Archive]]] = []

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zip: zipfile.ZipFile | None = None

    def infos(self) -> list[zipfile.ZipInfo]:
        """Give what the directory says of the files."""
        return [info for info in self._ready().infolist() if not info.is_dir()]

    def member(self, info: zipfile.ZipInfo) -> IO[bytes]:
        """Open a member; it may be read after the archive was put aside for others."""
        return self._ready().open(info)

    def _ready(self) -> zipfile.ZipFile:
        if self._zip is None:
            self._zip = zipfile.ZipFile(self._path)
            opened = _Archive._opened
            opened.append(weakref.ref(self))
            while len(opened) > _ARCHIVES_OPEN:
                # A member that is being read keeps the file open until it is closed itself.
                if (oldest := opened.pop(0)()) is not None:
                    oldest._aside()
        return self._zip

    def _aside(self) -> None:
        held, self._zip = self._zip, None
        if held is not None:
            held.close()


def _zip_members(path: Path) -> list[InputFile]:
    archive = _Archive(path)
    try:
        infos = archive.infos()
    except _BROKEN as error:
        raise BadInput(f"{path} is a damaged zip file: {error}", hint="copy it again") from None
    if len(infos) > _MEMBERS_LIMIT:
        raise BadInput(f"{path} holds {len(infos):,} files: refused", hint="unpack and choose")
    return [
        InputFile(f"{path}/{info.filename}", _member_opener(archive, path, info))
        for info in sorted(infos, key=lambda i: i.filename)
    ]


def _member_opener(archive: _Archive, path: Path, info: zipfile.ZipInfo) -> Opener:
    def opener() -> IO[bytes]:
        raw = archive.member(info)
        name = f"{path}/{info.filename}"
        for mark, (_, unpack) in _PACKED.items():
            if os.path.splitext(info.filename)[1] in (".gz", ".bz2", ".xz"):
                head = raw.peek(8) if hasattr(raw, "peek") else b""
                if head.startswith(mark):
                    raw = unpack(raw)
                    break
        return _Bounded(raw, name, info.compress_size)  # type: ignore[return-value]

    return opener
