"""Cells of tables as values of ours: numbers, times, amounts, states.

Columns come as Arrow arrays. A column that is plainly numeric is read as a whole; any other, value
by value. What cannot be read comes back as null together with a mark, never as 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_names import UNITS, words
from rotameter.adapters.importers.times import local_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Read",
    "Style",
    "amounts",
    "as_text",
    "durations",
    "numbers",
    "times",
]

_MISSING = frozenset(
    words("- -- na n/a nan null none nil unknown undefined (null) \\n ? . not_set notset *")
)
_MISSING_TEXT = frozenset(("-", "--", "\\N", "NULL", "null", "None", "N/A", "n/a", "NaN", "nan"))
_INT_LIMIT = 1 << 63
_NUMBER = re.compile(r"[+-]?(\d[\d.,'_\u00a0\u202f ]*)(?:[eE]([+-]?\d{1,3}))?")
_PLAIN = re.compile(r"-?\d{1,18}(?:\.\d{1,12})?", re.A)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_EU = re.compile(r"[+-]?\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|[+-]?\d{1,3}(?:\.\d{3})+,\d+")
_ONE_GROUP = re.compile(r"[+-]?\d{1,3},\d{3}")
_AMOUNT = re.compile(
    r"([+-]?\d[\d.,]*(?:[eE][+-]?\d{1,3})?)\s*(?:([KMGTPE])(i)?(b|bytes?|bs)?|(b|bytes?))?", re.I
)
_CLOCK = re.compile(r"(?:(\d+)[-d ]\s*(?:days?,?\s*)?)?(?:(\d+):)?(\d{1,9}):(\d+(?:[.,]\d+)?)")
_PIECE = re.compile(r"(\d+(?:[.,]\d+)?)\s*([a-zµ]+)(?:\(s\))?", re.I)
_ISO_DURATION = re.compile(
    r"P(?:([\d.,]{1,20})W)?(?:([\d.,]{1,20})D)?"
    r"(?:T(?:([\d.,]{1,20})H)?(?:([\d.,]{1,20})M)?(?:([\d.,]{1,20})S)?)?",
    re.I | re.A,
)
_DAYS = re.compile(r"(\d+) days?,?\s+(\d+:\d\d:\d\d(?:\.\d+)?)")
_MONTHS = {
    month: number
    for number, month in enumerate(words("jan feb mar apr may jun jul aug sep oct nov dec"), 1)
}
_CTIME = re.compile(
    r"(?:[A-Za-z]{3},?\s+)?([A-Za-z]{3})[a-z]*\s+(\d{1,2}),?\s+(\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?"
    r"\s+(\d{4})(?:\s*[A-Z])?"
)
_RFC = re.compile(
    r"(?:[A-Za-z]{3},?\s+)?(\d{1,2})[ \-]([A-Za-z]{3})[a-z]*[ \-](\d{4})\s+"
    r"(\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?\s*(GMT|UTC|Z|[+-]\d{4})?"
)
_ISO_LIKE = re.compile(
    r"(\d{4})[-/](\d\d?)[-/](\d\d?)(?:[T ,]\s*(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?(?:\[.*\])?"
)
# Seconds from 1973 to 2128: no overlap with the same in milli-, micro- and nanoseconds.
_EPOCH_S = (1e8, 5e9)
_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Read:
    """A column that was read: the values, and which of them could not be."""

    values: pa.Array
    bad: NDArray[np.bool_] | None = None
    zoned: bool = False
    local: bool = False
    relative: bool = False
    unit: str | None = None
    mixed: str = ""


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


def _known(column: pa.Array) -> pa.Array:
    """Give a text column stripped, with null for words that stand for an unknown number."""
    column = pc.utf8_trim_whitespace(column)
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
        return float(text.replace(".", "").replace(",", "."))
    if style.decimal == "point":
        return float(text.replace(",", ""))
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
        try:
            read = Read(pc.cast(text, pa.float64()))
        except pa.ArrowInvalid:
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


def _amount(text: str, base: float, style: Style, bare: float | None) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None:
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
        try:
            read = Read(pc.cast(text, pa.float64()))
        except pa.ArrowInvalid:
            style = _styled(text, style)
            return _positive(_finite(_each(text, lambda t: _amount(t, base, style, bare))))
        column = read.values
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


def duration_text(text: str, style: Style) -> float:
    """Read one duration: ``1-02:03:04``, ``0:00:01.5``, ``1h 30m``, ``12 second(s)``, ``PT90S``."""
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
            total += float(value.replace(",", ".")) * factor
        return total
    raise ValueError(text)


def durations(column: pa.Array, style: Style, unit: str | None) -> Read:
    """Read a column of durations; bare numbers are in ``unit``, by default seconds."""
    factor = UNITS[unit][1] if unit else 1.0
    if pa.types.is_duration(column.type):
        ns = pc.cast(pc.cast(column, pa.duration("ns"), safe=False), pa.int64())
        return Read(pc.divide(pc.cast(ns, pa.float64(), safe=False), 1e9))
    if not pa.types.is_string(column.type):
        return numbers(column, style, factor)
    text = _known(column)
    try:
        return _finite(Read(pc.multiply(pc.cast(text, pa.float64()), factor)))
    except pa.ArrowInvalid:
        style = _styled(text, style)

    def one(value: str) -> float:
        if _NUMBER.fullmatch(value):
            return number_text(value, style) * factor
        return duration_text(value, style)

    return _finite(_each(text, one))


# -- moments ----------------------------------------------------------------------------------


def moment(text: str, pattern: str | None = None) -> tuple[int, bool]:
    """Read one point in time: (nanoseconds, whether it carries a zone).

    Examples
    --------
    >>> moment("Thu Jan  1 00:00:01 1970"), moment("1970-01-01 00:00:01+0000")
    ((1000000000, False), (1000000000, True))
    """
    if pattern:
        at = datetime.strptime(text, pattern)
        zoned = at.tzinfo is not None
        whole = at if zoned else at.replace(tzinfo=UTC)
        return int(whole.replace(microsecond=0).timestamp()) * 10**9 + at.microsecond * 1000, zoned
    match = _ISO_LIKE.fullmatch(text)
    if match:
        year, month, day, hour, minute, second, part, zone = match.groups()
        zone = {"UTC": "Z", "GMT": "Z"}.get(zone, zone) or ""
        if len(zone) == 3:
            zone += "00"
        return local_ns(
            f"{year}-{int(month):02}-{int(day):02}T{int(hour or 0):02}:{minute or '00'}:"
            f"{second or '00'}.{(part or '0')[:9]}{zone}"
        )
    match = _CTIME.fullmatch(text)
    if match:
        name, day, hour, minute, second, part, year = match.groups()
        zone = ""
    else:
        match = _RFC.fullmatch(text)
        if match is None:
            raise ValueError(text)
        day, name, year, hour, minute, second, part, zone = match.groups()
        zone = "Z" if zone in ("GMT", "UTC", "Z") else zone or ""
    month = _MONTHS.get(name.lower())
    if month is None:
        raise ValueError(text)
    return local_ns(
        f"{year}-{month:02}-{int(day):02}T{int(hour):02}:{minute}:{second or '00'}"
        f"{part or ''}{zone}"
    )


def times(column: pa.Array, unit: str | None, style: Style) -> Read:
    """Read a column of moments as nanoseconds.

    Parameters
    ----------
    column : pyarrow.Array
        Numbers since 1970 (or since some start), text, or time stamps.
    unit : str, optional
        ``s``, ``ms``, ``us``, ``ns``, or a pattern with ``%``; by default the magnitude decides.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        ns = pc.cast(pc.cast(column, pa.timestamp("ns", kind.tz), safe=False), pa.int64())
        return Read(ns, zoned=kind.tz is not None, local=kind.tz is None)
    if pa.types.is_date(kind):
        ns = pc.cast(pc.cast(pc.cast(column, pa.timestamp("s")), pa.timestamp("ns")), pa.int64())
        return Read(ns, local=True)
    pattern = unit if unit and "%" in unit and unit != "%" else None
    if pa.types.is_string(kind):
        text = _known(column)
        if pattern is None:
            texts = [text]
            if style.delimiter != "," or style.decimal == "comma":
                texts.append(pc.replace_substring(text, ",", "."))
            for written in texts:
                for number_kind in (pa.int64(), pa.float64()):
                    try:
                        return _since(pc.cast(written, number_kind), unit)
                    except pa.ArrowInvalid:
                        continue
            mixed = _mostly_numbers(text, unit)
            if mixed is not None:
                return mixed
        return _stamps(text, pattern)
    if pa.types.is_integer(kind):
        return _since(pc.cast(column, pa.int64(), safe=False), unit)
    return _since(numbers(column, style).values, unit)


def _mostly_numbers(text: pa.Array, unit: str | None) -> Read | None:
    """Read times that are numbers but for a few damaged ones; None where most are not."""
    listed = text.to_pylist()
    good = [t is not None and _PLAIN.fullmatch(t) is not None for t in listed]
    if not sum(good) or 2 * sum(good) < len(listed) - text.null_count:
        return None
    texts = pa.array([t if ok else None for t, ok in zip(listed, good, strict=True)], pa.string())
    whole = all(not ok or "." not in t for t, ok in zip(listed, good, strict=True))
    read = _since(pc.cast(texts, pa.int64() if whole else pa.float64()), unit)
    bad = np.array([t is not None and not ok for t, ok in zip(listed, good, strict=True)])
    return replace(read, bad=bad if read.bad is None else read.bad | bad)


def _stamps(text: pa.Array, pattern: str | None) -> Read:
    zones: set[bool] = set()
    made: dict[str, int | None] = {}
    values: list[int | None] = []
    bad = np.zeros(len(text), dtype=bool)
    for i, word in enumerate(text.to_pylist()):
        if word is None:
            values.append(None)
            continue
        if word not in made:
            try:
                at, zoned = moment(word, pattern)
                made[word] = at if 0 < at < _INT_LIMIT else None if at else 0
                zones.add(zoned)
            except (ValueError, OverflowError):
                made[word] = None
            if len(made) > 1 << 17:
                made = {word: made[word]}
        at_ns = made[word]
        bad[i] = at_ns is None
        values.append(at_ns or None)  # 1970 itself stands for "not yet" in many logs
    return Read(pa.array(values, pa.int64()), bad, zoned=True in zones, local=False in zones)


def _since(values: pa.Array, unit: str | None) -> Read:
    """Scale numbers since 1970, or since some start, to nanoseconds."""
    raw = values.to_numpy(zero_copy_only=False)
    whole = pa.types.is_integer(values.type)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    measured = np.where(known, raw, 0).astype(float)
    known &= np.isfinite(measured)
    measured = np.where(known, measured, 0.0)
    usual = measured[known & (measured != 0)]
    middle = float(np.median(np.abs(usual))) if len(usual) else 0.0
    scale = unit if unit in _SCALES else _guess(middle)
    if unit is None and middle >= _EPOCH_S[0]:
        by_size = _each_by_size(values, measured, known)
        if by_size is not None:
            return by_size
    if scale is None:
        return Read(pa.nulls(len(values), pa.int64()), known, unit="?")
    factor = UNITS[scale][1] if unit is None or unit in _SCALES else UNITS[unit][1]
    seconds = middle * factor
    relative = 0 < seconds < _EPOCH_S[0] or (not len(usual) and bool(known.any()))
    fits = known & (np.abs(measured) * factor < 9.2e9) & (measured >= 0)
    if not relative:
        fits &= measured != 0  # 0 stands for "not yet"
    bad = known & ~fits & (measured != 0)
    if whole:
        step = round(factor * 1e9)
        made = np.where(fits, np.where(known, raw, 0), 0).astype(np.int64) * np.int64(step or 1)
    else:
        micro = np.rint(np.where(fits, measured, 0.0) * (factor * 1e6))
        made = micro.astype(np.int64) * 1000
    return Read(pa.array(made, mask=~fits), bad, zoned=not relative, relative=relative, unit=scale)


def _each_by_size(
    values: pa.Array, measured: NDArray[np.float64], known: NDArray[np.bool_]
) -> Read | None:
    """Read times since 1970 of which some count in other units; None where all count in one."""
    size = np.abs(measured)
    fits = {
        name: known & (_EPOCH_S[0] <= size * scale) & (size * scale < _EPOCH_S[1])
        for name, scale in _SCALES.items()
    }
    units = [name for name, rows in fits.items() if rows.any()]
    if len(units) < 2:
        return None
    reads = [
        _since(pc.if_else(pa.array(fits[name]), values, pa.scalar(None, values.type)), name)
        for name in units
    ]
    made = pc.coalesce(*(read.values for read in reads))
    missing = made.is_null().to_numpy(zero_copy_only=False)
    bad = known & missing & (measured != 0)
    return Read(made, bad, zoned=True, unit=units[-1], mixed=" and ".join(units))


def _guess(middle: float) -> str | None:
    """Tell the unit of times by their magnitude; below 1973 they count from some start."""
    if middle < _EPOCH_S[0]:
        return "s"
    for name, scale in _SCALES.items():
        if _EPOCH_S[0] <= middle * scale < _EPOCH_S[1]:
            return name
    return None
