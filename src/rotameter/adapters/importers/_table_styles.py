"""Which decimal sign the numbers of a file have, as told by those that can have no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from rotameter.adapters.importers._table_values import Style

__all__ = ["Styles"]

_LEAD = r"^\s*=?[+-]?"
_TAIL = r"\s*(?:[A-Za-zµ%]+(?:\(s\))?)?\s*$"
# What can only be with S as the decimal sign and G between thousands.
_ONLY = (
    r"\d{1,3}(?:G\d{3})+S\d+|\d{1,3}(?:G\d{3}){2,}|\d+S(?:\d{1,2}|\d{4,})|\d{4,}S\d+|0\d*S\d+"
    r"|\d+S\d+[eE][+-]?\d{1,3}|\d{1,3}(?:[ '_\x{a0}\x{202f}]\d{3})+S\d+"
)


def _proof(sign: str, other: str) -> str:
    return f"{_LEAD}(?:{_ONLY.replace('S', sign).replace('G', other)}){_TAIL}"


_PROOFS = {"comma": _proof(",", r"\."), "point": _proof(r"\.", ",")}
_EITHER = {sign: f"{_LEAD}[1-9]\\d{{0,2}}[{sign}]\\d{{3}}{_TAIL}" for sign in ".,"}


@dataclass(slots=True)
class _Seen:
    """What was seen of one column: how many numbers prove each sign, and the first of them."""

    counts: dict[str, int]
    first: dict[str, str]
    read_as: str | None = None
    unclear: bool = False


class Styles:
    """Tells the decimal sign of each column of a file.

    A number such as ``1.024,5`` proves its sign for its column, and for the columns of the same
    file in which no number proves any.

    Parameters
    ----------
    style : Style
        What is known beforehand; a decimal sign that the user gave holds for all.
    warn : callable
        Takes what is to be said.
    """

    def __init__(self, style: Style, warn: Callable[[str], None]) -> None:
        self.style, self._warn = style, warn
        self._seen: dict[str, _Seen] = {}

    def see(self, columns: Mapping[str, pa.Array]) -> None:
        """Take note of the next part of the columns that hold numbers."""
        if self.style.decimal is not None:
            return
        unclear: dict[str, dict[str, str]] = {}
        for name, column in columns.items():
            if pa.types.is_string(column.type):
                unclear[name] = self._look(name, column)
        self._say_opposite()
        for name, cells in unclear.items():
            self._say(name, cells)

    def of(self, name: str) -> Style:
        """Give how the numbers of a column are written."""
        if self.style.decimal is not None:
            return self.style
        return replace(self.style, decimal=self._own(name) or self._common())

    def _look(self, name: str, column: pa.Array) -> dict[str, str]:
        """Count the proofs of a column; give a number of each sign that proves nothing."""
        seen = self._seen.setdefault(name, _Seen({"comma": 0, "point": 0}, {}))
        if not pc.any(pc.match_substring_regex(column, "[.,]")).as_py():
            return {}
        for decimal, pattern in _PROOFS.items():
            rows = pc.fill_null(pc.match_substring_regex(column, pattern), False)
            found = pc.sum(rows).as_py() or 0
            if found and not seen.counts[decimal]:
                seen.first[decimal] = column[pc.index(rows, True).as_py()].as_py().strip()[:40]
            seen.counts[decimal] += found
        out = {}
        for sign, pattern in _EITHER.items():
            at = pc.index(pc.fill_null(pc.match_substring_regex(column, pattern), False), True)
            if at.as_py() >= 0:
                out[sign] = column[at.as_py()].as_py().strip()[:40]
        return out

    def _own(self, name: str) -> str | None:
        seen = self._seen.get(name)
        if seen is None or not any(seen.counts.values()):
            return None
        return "point" if seen.counts["point"] > seen.counts["comma"] else "comma"

    def _proven(self) -> dict[str, str]:
        """Give one column that proves each sign."""
        out: dict[str, str] = {}
        for name in self._seen:
            if (own := self._own(name)) is not None:
                out.setdefault(own, name)
        return out

    def _common(self) -> str | None:
        proven = list(self._proven())
        return proven[0] if len(proven) == 1 else None

    def _say_opposite(self) -> None:
        """Say where numbers of one file, or of one column, prove opposite signs."""
        for name, seen in self._seen.items():
            if all(seen.counts.values()):
                self._warn(
                    f"numbers in {name} have a decimal comma and a decimal point (such as "
                    f"{seen.first['comma']!r} and {seen.first['point']!r}): unclear ones are read "
                    "as most are; say --opt decimal=comma or point"
                )
        proven = self._proven()
        if len(proven) == 2:
            comma, point = proven["comma"], proven["point"]
            self._warn(
                f"numbers in {comma} have a decimal comma ({self._seen[comma].first['comma']!r}), "
                f"in {point} a decimal point ({self._seen[point].first['point']!r}): each column "
                "is read by its own"
            )

    def _say(self, name: str, cells: Mapping[str, str]) -> None:
        """Say how unclear numbers are read, where other columns decide that."""
        seen, decimal = self._seen[name], self.of(name).decimal
        if seen.unclear and decimal != seen.read_as and decimal is not None:
            self._warn(
                f"only a later part of the file shows that {name} has a decimal {decimal}: say "
                f"--opt decimal={decimal}, and import it again"
            )
        if not cells:
            return
        seen.unclear, seen.read_as = True, decimal
        if decimal is None or self._own(name) is not None:
            return
        usual = {".": "point", ",": {",": "point"}.get(self.style.delimiter, "comma")}
        changed = [text for sign, text in cells.items() if usual[sign] != decimal]
        if changed:
            other = self._proven()[decimal]
            self._warn(
                f"numbers in {name} (such as {changed[0]!r}) have a decimal {decimal}, as "
                f"{self._seen[other].first[decimal]!r} in {other} shows; say --opt decimal="
                f"{'point' if decimal == 'comma' else 'comma'} if they do not"
            )
