"""Logs of batch systems that end inside their last line: which value, or record, is cut there."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rotameter.adapters.importers._table_ends import OPEN_END

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["CUT_ID", "SHORTER", "Peers", "is_whole", "lines_of", "say_cut"]

CUT_ID = "the file ends inside this record, before its id is whole; copy the file again"
"""Why a record is refused whose id, or part of it, is cut."""

SHORTER = "the last record ends before others do: the file may be cut; copy it again"
"""What is said of a whole last line behind which others of its record may be missing."""

_CUT = (
    "the last line has no end, and its last value is cut: {what} of {whose} is left unknown; "
    "copy the file again"
)
# Forms of values that nothing may follow: in quotes, 01:02:03, 4gb, 1.5s, (Killed), a date.
_WHOLE = re.compile(
    r"\"[^\"]*\"|'[^']*'|\d{2,}:\d\d:\d\d|\d[\d.]*[KMGTP]?i?B|\d[\d.]*s|.*\([^()]*\)"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|true|false|undefined|NONE|-/-",
    re.I,
)


def lines_of(file: InputFile) -> Iterator[tuple[int, str, bool]]:
    """Give (number from 1, line without its end, whether it has none) of a text file."""
    utf16 = file.head[:2] in (b"\xff\xfe", b"\xfe\xff")
    with file.open() as stream:
        text = io.TextIOWrapper(
            stream,
            encoding="utf-16" if utf16 else "utf-8-sig",
            errors="replace" if utf16 else "surrogateescape",
        )
        for number, line in enumerate(text, start=1):
            line = line if line.isascii() else file.spelled(line)
            yield number, line.rstrip("\n"), not line.endswith("\n")


def is_whole(value: str) -> bool:
    """Say whether the form of a value shows that nothing of it is missing.

    Examples
    --------
    >>> is_whole("01:00:00"), is_whole("1048576kb"), is_whole("137 (Killed)"), is_whole('"x"')
    (True, True, True, True)
    >>> is_whole("27"), is_whole("01:00:0"), is_whole("1048576k"), is_whole('"x')
    (False, False, False, False)
    """
    return _WHOLE.fullmatch(value.strip()) is not None


class Peers:
    """What the records of one kind end with, as the whole ones of a file show.

    Examples
    --------
    >>> peers = Peers()
    >>> peers.see("run_count", "12")
    >>> peers.has("run_count", "14"), peers.has("run_count", "1"), peers.has("end", "14")
    (True, False, False)
    """

    def __init__(self) -> None:
        self._shortest: dict[str, int] = {}

    def see(self, key: str, value: str) -> None:
        """Take note of a whole record's last value."""
        self._shortest[key] = min(len(value), self._shortest.get(key, len(value)))

    @property
    def any(self) -> bool:
        """Whether any whole record was seen."""
        return bool(self._shortest)

    def ends_with(self, key: str) -> bool:
        """Say whether others end with this value."""
        return key in self._shortest

    def has(self, key: str, value: str) -> bool:
        """Say whether others end with this value, and with none that is longer than this."""
        return len(value) >= self._shortest.get(key, len(value) + 1)


def say_cut(build: Builder, what: str | None, whose: str) -> None:
    """Warn of a last value that is cut, or (None) of a last line that may be."""
    build.warn(OPEN_END if what is None else _CUT.format(what=what[:60], whose=whose[:80]))
