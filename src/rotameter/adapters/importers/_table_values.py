"""Cells of tables as values of ours: numbers, durations, amounts.

Columns come as Arrow arrays. A column that is plainly numeric is read as a whole; any other, value
by value. What cannot be read comes back as null together with a mark, never as 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_names import UNITS, words

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Read",
    "Style",
    "amounts",
    "as_text",
    "duration_text",
    "durations",
    "numbers",
    "shares",
    "without_formula",
]

_MISSING = frozenset(
    words("- -- na n/a nan null none nil unknown undefined (null) \\n ? . not_set notset *")
)
_MISSING_TEXT = frozenset(("-", "--", "\\N", "NULL", "null", "None", "N/A", "n/a", "NaN", "nan"))
_INT_LIMIT = 1 << 63
_NUMBER = re.compile(r"[+-]?(\d[\d.,'_\u00a0\u202f ]*)(?:[eE]([+-]?\d{1,3}))?")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_EU = re.compile(r"[+-]?\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|[+-]?\d{1,3}(?:\.\d{3})+,\d+")
_ANY_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{2,3})*\.\d{3}")
_SWAPPED = str.maketrans(",.", ".,")
_ONE_GROUP = re.compile(r"[+-]?\d{1,3},\d{3}")
_AMOUNT = re.compile(
    r"([+-]?(?:\d{1,3}(?:[ '\u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d[\d.,]*)(?:[eE][+-]?\d{1,3})?)"
    r"\s*(?:([KMGTPE])(i)?(b|bytes?|bs)?|(b|bytes?))?",
    re.I,
)
_BITS = re.compile(r"[KMGTPE]i?b$")  # 4 Gb: bits with many, bytes with some
_CLOCK = re.compile(r"(?:(\d+)[-d ]\s*(?:days?,?\s*)?)?(?:(\d+):)?(\d{1,9}):(\d+(?:[.,]\d+)?)")
_PIECE = re.compile(r"(\d[\d.,]*)\s*([a-zµ]+)(?:\(s\))?", re.I)
_ISO_DURATION = re.compile(
    r"P(?:([\d.,]{1,20})W)?(?:([\d.,]{1,20})D)?"
    r"(?:T(?:([\d.,]{1,20})H)?(?:([\d.,]{1,20})M)?(?:([\d.,]{1,20})S)?)?",
    re.I | re.A,
)
_DAYS = re.compile(r"(\d+) days?,?\s+(\d+:\d\d:\d\d(?:\.\d+)?)")
# What a spreadsheet takes for a number although it is written as a formula.
_FORMULA = r"^=([+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?)$"


@dataclass(frozen=True)
class Read:
    """A column that was read: the values, which of them could not be, and which were rounded.

    ``naive`` says which times carry no zone, where others of the column do.
    """

    values: pa.Array
    bad: NDArray[np.bool_] | None = None
    zoned: bool = False
    local: bool = False
    relative: bool = False
    unit: str | None = None
    mixed: str = ""
    rounded: NDArray[np.bool_] | None = None
    naive: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Style:
    """How the numbers of a file are written: its separator, and which decimal sign."""

    delimiter: str = ","
    decimal: str | None = None
    verbatim: bool = False


def as_text(column: pa.Array, *, verbatim: bool = False) -> pa.Array:
    """Give a column as stripped text; words that stand for nothing are null."""
    if not pa.types.is_string(column.type):
        if pa.types.is_floating(column.type):
            whole = [None if v is None or v != v else v for v in column.to_pylist()]
            return pa.array(
                [None if v is None else (str(int(v)) if v == int(v) else repr(v)) for v in whole]
                if all(v is None or abs(v) < 1e300 for v in whole)
                else [None if v is None else repr(v) for v in whole],
                pa.string(),
            )
        column = pc.cast(column, pa.string())
    if verbatim:
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    column = pc.utf8_trim_whitespace(column)
    gone = pc.is_in(column, value_set=pa.array(["", *_MISSING_TEXT]))
    return pc.if_else(gone, pa.scalar(None, pa.string()), column)


def without_formula(column: pa.Array) -> pa.Array:
    """Give numbers that are written as a formula (``=2048``) as numbers."""
    if not pc.any(pc.starts_with(column, "=")).as_py():
        return column
    return pc.replace_substring_regex(column, _FORMULA, r"\1")


def _known(column: pa.Array) -> pa.Array:
    """Give a text column stripped, with null for words that stand for an unknown number.

    A number that is written as a formula (``=2048``) is that number.
    """
    column = pc.utf8_trim_whitespace(column)
    column = without_formula(column)
    lower = pc.utf8_lower(column)
    gone = pc.is_in(lower, value_set=pa.array(["", *_MISSING]))
    return pc.if_else(gone, pa.scalar(None, pa.string()), column)


def _each(column: pa.Array, read: Callable[[str], float]) -> Read:
    """Read value by value; equal texts once."""
    made: dict[str, float | None] = {}
    out: list[float | None] = []
    bad = np.zeros(len(column), dtype=bool)
    for i, text in enumerate(column.to_pylist()):
        if text is None:
            out.append(None)
            continue
        if text not in made:
            try:
                made[text] = read(text)
            except (ValueError, OverflowError):
                made[text] = None
            if len(made) > 1 << 17:
                made = {text: made[text]}
        value = made[text]
        bad[i] = value is None
        out.append(value)
    return Read(pa.array(out, pa.float64()), bad)


def _finite(read: Read) -> Read:
    values = read.values.to_numpy(zero_copy_only=False)
    wrong = np.isinf(values)
    if not wrong.any():
        return read
    bad = wrong if read.bad is None else read.bad | wrong
    return Read(pa.array(values, mask=wrong | np.isnan(values)), bad)


def number_text(text: str, style: Style) -> float:
    """Read one number as people write them; raises ValueError where it is none, or unclear."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    text = text.replace("\u00a0", "").replace("\u202f", "").replace("'", "").replace("_", "")
    text = text.replace(" ", "")
    if style.decimal == "comma" or _GROUPED_EU.fullmatch(text):
        return _with_comma(text)
    if style.decimal == "point":
        return _with_comma(text.translate(_SWAPPED))
    if "," not in text:
        return float(text)
    if _GROUPED.fullmatch(text):
        if _ONE_GROUP.fullmatch(text) and style.delimiter != ",":
            if style.delimiter in ";\t":  # such files come from places that write 0,5
                return float(text.replace(",", "."))
            raise ValueError("one comma: is it a decimal?")
        return float(text.replace(",", ""))
    if text.count(",") == 1 and "." not in text:
        return float(text.replace(",", "."))
    raise ValueError(text)


def _with_comma(text: str) -> float:
    """Read a number of a file with decimal commas; a sign that can group nothing is decimal."""
    if text.rfind(",") > text.rfind("."):
        if text.count(",") == 1:
            return float(text.replace(".", "").replace(",", "."))
        if "." in text:
            raise ValueError(text)
        return float(text.replace(",", ""))
    if "," not in text and _ANY_GROUP.fullmatch(text):
        return float(text.replace(".", ""))
    return float(text.replace(",", ""))


def _plain(text: pa.Array, style: Style) -> pa.Array | None:
    """Give a column that is plainly numeric as a whole; None where it is not."""
    grouped = style.decimal == "comma" and pc.any(pc.match_substring(text, ".")).as_py()
    try:
        return None if grouped else pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return None


def _styled(text: pa.Array, style: Style) -> Style:
    """Take commas for decimal ones where one of a column can be nothing else (``1800,0``)."""
    if style.decimal is not None:
        return style
    decimal = pc.match_substring_regex(text, r"^[+-]?(\d+,(\d{1,2}|\d{4,})|\d{4,},\d+|0\d*,\d+)$")
    return replace(style, decimal="comma") if pc.any(decimal).as_py() else style


def numbers(column: pa.Array, style: Style, factor: float = 1.0) -> Read:
    """Read a column of numbers, times ``factor``."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    elif pa.types.is_null(kind):
        return Read(pa.nulls(len(column), pa.float64()))
    elif pa.types.is_duration(kind):
        return durations(column, style, "s")
    if pa.types.is_string(column.type):
        text = _known(column)
        plain = _plain(text, style)
        if plain is not None:
            read = Read(plain)
        else:
            style = _styled(text, style)
            read = _each(text, lambda t: number_text(t, style))
    else:
        try:
            read = Read(pc.cast(column, pa.float64(), safe=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return numbers(as_text(column), style, factor)
    if factor != 1.0:
        read = Read(pc.multiply(read.values, factor), read.bad)
    return _finite(read)


def shares(column: pa.Array, style: Style, factor: float) -> Read:
    """Read a column of shares, times ``factor``; of a cell with ``%`` the hundredth counts."""
    if not pa.types.is_string(column.type):
        return numbers(column, style, factor)
    percent = pc.fill_null(pc.match_substring_regex(column, r"%\s*$"), False)
    if not pc.any(percent).as_py():
        return numbers(column, style, factor)
    read = numbers(pc.replace_substring_regex(column, r"\s*%\s*$", ""), style)
    return _finite(Read(pc.multiply(read.values, pc.if_else(percent, 0.01, factor)), read.bad))


def _amount(text: str, base: float, style: Style, bare: float | None) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None or _BITS.search(text):
        raise ValueError(text)
    value = number_text(match[1], style)
    if match[2]:
        # `4G` counts in 1024 with all schedulers; `4 GB` in what the house or the mapping says.
        step = 1024.0 if match[3] or not match[4] else base
        return value * step ** ("KMGTPE".index(match[2].upper()) + 1)
    if match[5]:
        return value
    if bare is None and value:
        raise ValueError("no unit")
    bare = bare or 0.0
    return value * bare


def amounts(column: pa.Array, style: Style, unit: str | None) -> Read:
    """Read a column of bytes; bare numbers need a unit and are marked bad without one."""
    what, factor = UNITS[unit] if unit else ("", 1.0)
    bare = factor if what == "bytes" else None
    base = factor if what == "text" else 1000.0
    if pa.types.is_string(column.type):
        text = _known(column)
        plain = _plain(text, style)
        if plain is None:
            style = _styled(text, style)
            return _positive(_finite(_each(text, lambda t: _amount(t, base, style, bare))))
        column = plain
    read = numbers(column, style)
    if bare is None:
        known = read.values.is_valid().to_numpy(zero_copy_only=False)
        zero = pc.fill_null(pc.equal(read.values, 0.0), False).to_numpy(zero_copy_only=False)
        bad = known & ~zero
        return Read(pc.if_else(pa.array(bad), None, read.values), bad)
    return _positive(_finite(Read(pc.multiply(read.values, bare), read.bad)))


def _positive(read: Read) -> Read:
    values = read.values.to_numpy(zero_copy_only=False)
    wrong = np.nan_to_num(values) < 0
    if not wrong.any():
        return read
    bad = wrong if read.bad is None else read.bad | wrong
    return Read(pa.array(values, mask=wrong | np.isnan(values)), bad)


def duration_text(text: str, style: Style, first_s: float = 60.0) -> float:
    """Read one duration: ``1-02:03:04``, ``0:00:01.5``, ``1h 30m``, ``12 second(s)``, ``PT90S``.

    ``first_s`` is what 1 of the first part of ``1:30`` is: a minute, or an hour.
    """
    match = _ISO_DURATION.fullmatch(text)
    if match and any(match.groups()):
        each = [float((part or "0").replace(",", ".")) for part in match.groups()]
        return sum(n * f for n, f in zip(each, (604800.0, 86400.0, 3600.0, 60.0, 1.0), strict=True))
    match = _DAYS.fullmatch(text)
    if match:
        return int(match[1]) * 86400.0 + duration_text(match[2], style)
    match = _CLOCK.fullmatch(text)
    if match:
        days, hours, minutes, seconds = match.groups()
        if days is None and hours is None:
            return int(minutes) * first_s + float(seconds.replace(",", ".")) * first_s / 60.0
        whole = (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes)
        return whole * 60.0 + float(seconds.replace(",", "."))
    pieces = _PIECE.findall(text)
    if pieces and not _PIECE.sub("", text).strip(" ,"):
        total = 0.0
        for value, unit in pieces:
            word = "min" if unit.lower() == "m" else unit.lower()
            what, factor = UNITS.get(word, ("", 0.0))
            if what != "seconds":
                raise ValueError(text)
            total += number_text(value.rstrip(".,"), style) * factor
        return total
    raise ValueError(text)


def durations(column: pa.Array, style: Style, unit: str | None, first_s: float = 60.0) -> Read:
    """Read a column of durations; bare numbers are in ``unit``, by default seconds."""
    factor = UNITS[unit][1] if unit else 1.0
    if pa.types.is_duration(column.type):
        ns = pc.cast(pc.cast(column, pa.duration("ns"), safe=False), pa.int64())
        return Read(pc.divide(pc.cast(ns, pa.float64(), safe=False), 1e9))
    if not pa.types.is_string(column.type):
        return numbers(column, style, factor)
    text = _known(column)
    plain = _plain(text, style)
    if plain is not None:
        return _finite(Read(pc.multiply(plain, factor)))
    style = _styled(text, style)

    def one(value: str) -> float:
        """Read one cell: a number, or a length of time."""
        if _NUMBER.fullmatch(value):
            return number_text(value, style) * factor
        return duration_text(value, style, first_s)

    return _finite(_each(text, one))
