"""What a comma in a number of a trace is: a decimal one, or one between thousands.

Old versions of Nextflow wrote the decimals of the user's locale, one or two of them at most; other
programs put signs between thousands. ``1,234`` may be either: the file's other values tell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from rotameter.adapters.importers._nextflow_values import FIELDS, ungrouped
from rotameter.profiler.live.redact import redact

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["ENERGY", "Commas"]

ENERGY = "energy_consumption"
"""The column of the plug-in nf-co2footprint."""
_MARK = re.compile(r"\d(?:,\d|\.\d{3})")
_SIGN = re.compile(r"\d[.,]\d")
_EITHER = re.compile(r"(?<![\d.,:])[1-9]\d{0,2}([.,])\d{3}(?![\d.,])")
_DECIMAL = {
    mark: re.compile(
        rf"\d{re.escape(mark)}(?:\d{{1,2}}|\d{{4,}})(?![\d.,])|(?<![\d.,])0{re.escape(mark)}\d"
        rf"|{re.escape(other)}\d{{3}}{re.escape(mark)}\d+(?![\d.,])"
    )
    for mark, other in (",.", ".,")
}
_GROUPING = re.compile(r"\d,\d{3}(?:\.\d|,\d{3}(?!\d))")
_SHOWN = 40

Scan = Callable[[], Iterable[Mapping[str, str]]]


class Commas:
    """Reads signs in numbers, and says how over all files.

    Examples
    --------
    >>> commas = Commas()
    >>> commas.begin(lambda: [{"rchar": "2,5 MB"}, {"rchar": "1,234 MB"}])
    >>> commas.read("rchar", "1,234 MB")
    '1.234 MB'
    >>> commas.begin(lambda: [{"rchar": "1,234 MB"}])
    >>> commas.read("rchar", "1,234 MB") is None
    True
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, tuple[str, str]] = {}
        self._scan: Scan = tuple
        self._found: frozenset[str] | None = None

    def begin(self, scan: Scan) -> None:
        """Begin a file; ``scan`` gives its rows, where they are needed to tell."""
        self._scan, self._found = scan, None

    def read(self, column: str, text: str) -> str | None:
        """Give a value with a decimal point alone; None where it may be two values."""
        if not _counts(column) or not _MARK.search(text):
            return text
        plain = ungrouped(text)
        either = _EITHER.search(plain)
        if either is not None:
            groups = self._groups(either[1])
            if groups is None:
                self._note("either", text, plain)
                return None
            plain = plain.replace(either[1], "" if groups else ".")
        return plain.replace(",", ".")

    def took(self, text: str, plain: str) -> None:
        """Count a value that was read."""
        if plain != text:
            mark = max(text.rfind(","), text.rfind("."))
            decimal = text[mark : mark + 1] == "," and "." in plain
            self._note("decimal" if decimal else "groups", text, plain)

    def say(self, build: Builder) -> None:
        """Say what was read how."""
        for kind, words in (
            ("decimal", "decimal comma: values such as {0} are read as {1}"),
            ("groups", "signs between thousands: values such as {0} are read as {1}"),
        ):
            if self._counts[kind]:
                build.note(words.format(*self._first[kind]), self._counts[kind])
        if self._counts["either"]:
            text, _ = self._first["either"]
            mark = "," if "," in text else "."
            few, lot = text.replace(mark, "."), text.replace(mark, "")
            build.warn(
                f"values such as {text} may be {few} or {lot}, and no other value of the file "
                "tells which: left unknown",
                self._counts["either"],
            )

    def _note(self, kind: str, text: str, plain: str) -> None:
        self._counts[kind] += 1
        shown = (redact(text.strip())[:_SHOWN], redact(plain.strip())[:_SHOWN])
        self._first.setdefault(kind, shown)

    def _groups(self, mark: str) -> bool | None:
        """Say whether three digits behind a single sign are thousands; None if nothing tells."""
        if self._found is None:
            self._found = _signs(self._scan())
        comma, point, groups = (sign in self._found for sign in ("comma", "point", "groups"))
        if mark == ",":
            return None if comma == groups else groups
        if comma and point:
            return None
        return comma


def _counts(column: str) -> bool:
    return FIELDS.get(column) in ("mem", "time", "perc") or column == ENERGY


def _signs(rows: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Give what a file's values show: decimal commas, decimal points, commas between thousands."""
    found: set[str] = set()
    for fields in rows:
        for column, text in fields.items():
            if not _counts(column) or not _SIGN.search(text):
                continue
            if _DECIMAL[","].search(text):
                found.add("comma")
            if _DECIMAL["."].search(text):
                found.add("point")
            if _GROUPING.search(text):
                found.add("groups")
    return frozenset(found)
