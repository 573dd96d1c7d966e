"""Lines of a Nextflow trace to fields: Nextflow quotes nothing, so text may break the table.

A tab in a tag shifts columns, a line break in a script splits a row. Both are repaired where only
one reading fits the kinds of the columns; otherwise the row is refused.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from rotameter.adapters.importers._nextflow_values import FIELDS, TEXTS, is_null, parse

__all__ = ["Header", "Record", "find_header", "records"]

_GAP = re.compile(r"[^\w%]+")
_JOINED_LINES = 400
_JOINED_CHARS = 1 << 16
_EXTRA = 8
_TRIES = 500
_KNOWN = 4
_STATUS = re.compile(r"[A-Z_]{2,24}")
_UNQUOTED = frozenset(FIELDS) - frozenset(TEXTS) | {"name", "process"}
"""Columns whose values never begin with a quote."""
_TELLING = frozenset(("hash", "native_id", "realtime", "%cpu", "peak_rss", "rss", "rchar"))


@dataclass(frozen=True)
class Header:
    """A trace's columns and what stands between them."""

    columns: tuple[str, ...]
    separator: str
    quoted: bool = False
    """Whether its cells stand in quotes: Nextflow never writes them, tables made of traces do."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns that Nextflow itself does not write."""
        return tuple(c for c in self.columns if c and c not in FIELDS)

    def split(self, line: str) -> list[str]:
        """Cut a line at the separator."""
        if self.quoted:
            return _unquoted(line, self.separator)
        plain = line.split(self.separator)
        return self._mixed(line, plain) if '"' in line else plain

    def _mixed(self, line: str, plain: list[str]) -> list[str]:
        """Undo quotes of a row under a plain header, as programs set them where they must.

        Texts may begin with a quote of their own; what else does was quoted by a program, and so
        was a text that has the separator in it.
        """
        cells = _unquoted(line, self.separator)
        if len(cells) != len(self.columns):
            return plain
        if len(plain) != len(cells):
            return cells if _bad(self, cells, strict=False) == 0 else plain
        quoted = (
            c in _UNQUOTED and len(text) > 1 and text[0] == text[-1] == '"'
            for c, text in zip(self.columns, map(str.strip, plain), strict=True)
        )
        return cells if any(quoted) else plain


def _unquoted(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [""])
    except csv.Error:
        return line.split(separator)


@dataclass(frozen=True)
class Record:
    """One row: its line, its fields by column, or why it cannot be read.

    ``header`` tells rows of different files that were put one after the other apart.
    """

    line: int
    fields: dict[str, str]
    reason: str | None = None
    repaired: bool = False
    header: int = 0


def find_header(line: str, *, sure: bool = False) -> Header | None:
    r"""Read a header; None if the line is none.

    With ``sure``, one that no other table would have: few columns must all be Nextflow's, and one
    of them be a word of its own.

    Examples
    --------
    >>> find_header("name\tstatus\trealtime\t%cpu").columns
    ('name', 'status', 'realtime', '%cpu')
    >>> find_header("name\tprice\tstatus") is None
    True
    """
    if "status" not in line or len(line) > 10_000:
        return None
    line = line.rstrip("\r")
    gap = _GAP.search(line)
    plain = dict.fromkeys(("\t", ",", ";", "|"))
    ways = [(mark, False) for mark in plain] + [(mark, True) for mark in plain if '"' in line]
    for separator, quoted in [*ways, (gap[0] if gap else "\t", False)]:
        parts = _unquoted(line, separator) if quoted else line.split(separator)
        columns = tuple(part.strip() for part in parts)
        known = {c for c in columns if c in FIELDS}
        own = len(known) >= _KNOWN or len(known) == len(columns)
        if _enough(known) and (not sure or (own and known & _TELLING)):
            if len(known) < sum(c in FIELDS for c in columns):
                return None
            return Header(columns, separator, quoted)
    return None


def _enough(known: set[str]) -> bool:
    named = bool(known & {"name", "process"})
    timed = bool(known & {"realtime", "duration", "complete", "submit"})
    return named and "status" in known and timed


def records(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[Header, Record]]:
    """Give the rows of a trace, its header having been found; refused rows carry a reason.

    Parameters
    ----------
    lines : iterable of (int, str)
        Numbered lines; those before the first header are refused as one row each.
    """
    header: Header | None = None
    count, held, first = 0, "", 0
    early: list[int] = []
    for number, line in lines:
        if not line.strip() and not held:
            continue
        found = find_header(line)
        if found is not None:
            if held and header is not None:
                yield header, Record(first, {}, _short(held, header), header=count)
            header, held, count = found, "", count + 1
            for before in early:
                yield header, Record(before, {}, "stands before the header", header=count)
            early.clear()
            continue
        if header is None:
            early.append(number)
            continue
        wide = len(header.columns)
        if held:
            joined = f"{held}\n{line}"
            if _fits(header, line) or _too_long(joined, number - first):
                yield header, Record(first, {}, _short(held, header), header=count)
                held = ""
            elif len(header.split(joined)) < wide:
                held = joined
                continue
            else:
                yield header, _record(header, first, joined, count)
                held = ""
                continue
        if len(header.split(line)) < wide and _may_break(header):
            held, first = line, number
            continue
        yield header, _record(header, number, line, count)
    if held and header is not None:
        yield header, Record(first, {}, _short(held, header), header=count)


def _may_break(header: Header) -> bool:
    return any(c in ("script", "env", "name", "tag") for c in header.columns)


def _too_long(text: str, lines: int) -> bool:
    return len(text) > _JOINED_CHARS or lines > _JOINED_LINES


def _short(text: str, header: Header) -> str:
    return f"{len(header.split(text))} of {len(header.columns)} columns: the row is cut"


def _fits(header: Header, line: str) -> bool:
    """Say whether a line is a whole row by itself."""
    fields = header.split(line)
    return len(fields) == len(header.columns) and _bad(header, fields) == 0


def _record(header: Header, line: int, text: str, count: int) -> Record:
    fields = header.split(text.rstrip("\r"))
    wide = len(header.columns)
    repaired = "\n" in text
    if len(fields) == wide + 1 and not fields[-1].strip():
        fields = fields[:-1]  # a separator at the end of the line
    if len(fields) < wide:
        return Record(line, {}, _short(text, header), header=count)
    if len(fields) > wide:
        found = _unshift(header, fields)
        if isinstance(found, str):
            return Record(line, {}, found, header=count)
        fields, repaired = found, True
    elif _bad(header, fields, strict=False) > 1:
        return Record(line, {}, _misfit(header, fields), header=count)
    return Record(line, dict(zip(header.columns, fields, strict=True)), None, repaired, count)


def _misfit(header: Header, fields: list[str]) -> str:
    for column, text in zip(header.columns, fields, strict=True):
        if _wrong(column, text):
            return f"values do not fit their columns (shifted?): {column} = {text[:60]!r}"
    return "values do not fit their columns"


def _bad(header: Header, fields: list[str], *, strict: bool = True) -> int:
    wrong = 0
    for column, text in zip(header.columns, fields, strict=True):
        if _wrong(column, text) and (strict or FIELDS[column] != "date" or text.strip().isalpha()):
            # A status that is none tells of a shift at once; dates may have any format.
            wrong += 2 if column == "status" else 1
    return wrong


def _wrong(column: str, text: str) -> bool:
    kind = FIELDS.get(column)
    if kind is None or kind == "text" or is_null(text):
        return False
    if column == "status":
        return _STATUS.fullmatch(text.strip()) is None
    if kind == "word":
        return False
    try:
        parse(column, text)
    except ValueError:
        return True
    return False


def _unshift(header: Header, fields: list[str]) -> list[str] | str:
    """Put separators back into the texts that hold them; a reason where that is not clear."""
    extra = len(fields) - len(header.columns)
    holders = [i for i, c in enumerate(header.columns) if c in TEXTS]
    said = f"{len(fields)} fields for {len(header.columns)} columns"
    if not holders or extra > _EXTRA:
        return f"{said}: shifted, and no text column could hold them"
    found: list[tuple[bool, list[str]]] = []
    for tried, shares in enumerate(_shares(extra, len(holders))):
        if tried > _TRIES:
            break
        wide = dict(zip(holders, shares, strict=True))
        made, at = [], 0
        for i in range(len(header.columns)):
            size = 1 + wide.get(i, 0)
            made.append(header.separator.join(fields[at : at + size]))
            at += size
        if _bad(header, made) == 0:
            found.append((_agrees(header, made), made))
    best = [made for agrees, made in found if agrees] or [made for _, made in found]
    if len(best) == 1:
        return best[0]
    if best:
        return f"{said}: shifted, and {len(best)} readings fit"
    return f"{said}: shifted, and no reading fits"


def _agrees(header: Header, fields: list[str]) -> bool:
    """Say whether name is "process (tag)", as Nextflow makes it."""
    row: dict[str, Any] = dict(zip(header.columns, fields, strict=True))
    name, process, tag = (row.get(c) for c in ("name", "process", "tag"))
    if name is None or (process is None and tag is None):
        return False
    if process is not None and tag is not None:
        return bool(name == (process if is_null(tag) else f"{process} ({tag})"))
    if tag is not None:
        return is_null(tag) or bool(name.endswith(f" ({tag})"))
    return bool(name == process or name.startswith(f"{process} ("))


def _shares(total: int, places: int) -> Iterator[tuple[int, ...]]:
    """Give all ways to share a number out over places."""
    for bars in combinations(range(total + places - 1), places - 1):
        edges = (-1, *bars, total + places - 1)
        yield tuple(b - a - 1 for a, b in pairwise(edges))
