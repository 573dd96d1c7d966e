"""Cells of tables as points in time, and the unit that numbers count."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._table_names import UNITS, words
from rotameter.adapters.importers._table_values import _INT_LIMIT, Read, Style, _known, numbers
from rotameter.adapters.importers.times import local_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DAYS", "ROUNDED", "moment", "rounded_times", "serial_days", "times"]

DAYS = (
    "times in {name} are read as days since 1899-12-30, as spreadsheets count them; say "
    "--map {word}={name}:s if they are seconds"
)
"""What is said of times that a spreadsheet wrote as numbers."""

ROUNDED = "times in {name} that were rounded by more than a second (such as {text}) are left out"
"""What is said of times in exponent form with too few digits, as spreadsheets write them."""
_PLAIN = re.compile(r"-?\d{1,18}(?:\.\d{1,12})?", re.A)
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
# 20250102T100000Z, and the same without T: no number of seconds or parts of them is like it.
_COMPACT = (
    r"^((?:19[7-9]|20[0-9]|21[0-9])[0-9])(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])[T ]?"
    r"([01][0-9]|2[0-3])([0-5][0-9])([0-5][0-9])((?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)$"
)
# Seconds from 1973 to 2128: no overlap with the same in milli-, micro- and nanoseconds.
_EPOCH_S = (1e8, 5e9)
_SERIAL = (20_000, 80_000)  # days since 1899-12-30: 1954 to 2119
_DAYS_TO_1970 = 25_569
_SPAN_DAYS = 30.0
_DAY_WORDS = frozenset(("d", "day", "days"))
_SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_MOST_EXPONENT = 60
_EXPONENT = re.compile(r"[+-]?\d{1,40}(?:[.,](\d{0,40}))?[eE]([+-]?\d{1,3})", re.A)


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
    if pa.types.is_string(kind):
        return _of_texts(_known(column), unit, style)
    if pa.types.is_integer(kind):
        if unit is None and _compact(column):
            return _stamps(_spread(pc.cast(column, pa.string())), None)
        return _since(pc.cast(column, pa.int64(), safe=False), unit)
    return _since(numbers(column, style).values, unit)


def _of_texts(text: pa.Array, unit: str | None, style: Style) -> Read:
    """Read texts: numbers, numbers but for a few, or dates."""
    pattern = unit if unit and "%" in unit and unit != "%" else None
    if pattern is not None:
        return _stamps(text, pattern)
    read = None
    text = _ungrouped(_spread(text) if unit is None else text, style)
    texts = [text]
    if style.delimiter != "," or style.decimal == "comma":
        texts.append(pc.replace_substring(text, ",", "."))
    for written in texts:
        for number_kind in (pa.int64(), pa.float64()):
            if read is None:
                with contextlib.suppress(pa.ArrowInvalid):
                    read = _since(pc.cast(written, number_kind), unit)
    read = read or _mostly_numbers(text, unit) or _stamps(text, None)
    rough = rounded_times(text, UNITS[unit][1] if unit else None)
    if not rough.any():
        return read
    values = pc.if_else(pa.array(rough), pa.scalar(None, pa.int64()), read.values)
    bad = None if read.bad is None else read.bad & ~rough
    return replace(read, values=values, bad=bad, rounded=rough)


def _compact(column: pa.Array) -> bool:
    """Whether whole numbers are stamps such as 20250102100000, all of them."""
    most = pc.max(column).as_py() or 0
    if not 19_700_101_000_000 <= most <= 21_991_231_235_959:
        return False
    texts = pc.cast(column, pa.string())
    return bool(pc.all(pc.or_(pc.equal(texts, "0"), pc.match_substring_regex(texts, _COMPACT))))


def _spread(text: pa.Array) -> pa.Array:
    """Write compact stamps with their signs between."""
    return pc.replace_substring_regex(text, _COMPACT, r"\1-\2-\3T\4:\5:\6\7")


def _ungrouped(text: pa.Array, style: Style) -> pa.Array:
    """Take out what groups thousands, in a file of which the decimal sign is known."""
    if style.decimal is None:
        return text
    sign, other = (r"\.", ",") if style.decimal == "comma" else (",", r"\.")
    pattern = f"^[1-9][0-9]{{0,2}}({sign}[0-9]{{3}})+({other}[0-9]+)?$"
    grouped = pc.fill_null(pc.match_substring_regex(text, pattern), False)
    if not pc.any(grouped).as_py():
        return text
    return pc.if_else(grouped, pc.replace_substring(text, sign[-1], ""), text)


def serial_days(columns: Sequence[pa.Array], style: Sequence[Style]) -> bool:
    """Say whether starts, and ends if there are any, are days as spreadsheets count them.

    All lie between 1954 and 2119 so counted, some with a part of a day, and most ends within 30
    days of their starts.

    Examples
    --------
    >>> serial_days([pa.array(["45352.41667"]), pa.array(["45352.42361"])], [Style(), Style()])
    True
    >>> serial_days([pa.array(["45352.5"]), pa.array(["46352.5"])], [Style(), Style()])
    False
    """
    made = []
    for column, one in zip(columns, style, strict=True):
        text = pa.types.is_string(column.type)
        if not text and not pa.types.is_floating(column.type):
            return False
        usual = r"^\s*([2-7][0-9]{4}([.,][0-9]*)?|0?)\s*$"
        if text and not pc.all(pc.match_substring_regex(_known(column), usual)).as_py():
            return False
        read = numbers(column, one)
        values = read.values.to_numpy(zero_copy_only=False).astype(float)
        values = np.where(values == 0, np.nan, values)
        known = values[~np.isnan(values)]
        if not len(known) or known.min() < _SERIAL[0] or known.max() > _SERIAL[1]:
            return False
        made.append(values)
    if not any((np.nan_to_num(values) % 1 != 0).any() for values in made):
        return False
    lasted = made[-1] - made[0]
    lasted = lasted[~np.isnan(lasted)]
    return not len(lasted) or 0 <= float(np.median(lasted)) <= _SPAN_DAYS


def rounded_times(text: pa.Array, factor: float | None = None) -> NDArray[np.bool_]:
    """Mark the times since 1970 of which rounding left too little, such as ``1,86E+12``.

    Parameters
    ----------
    text : pyarrow.Array
        Numbers as they are written, without blanks around them.
    factor : float, optional
        Seconds that 1 is; by default each number's magnitude decides.

    Examples
    --------
    >>> rounded_times(pa.array(["1,86E+12", "1.704067200123E+12", "1704067200000", "1.5E+3"]))
    array([ True, False, False, False])
    """
    rough = np.zeros(len(text), dtype=bool)
    written = pc.match_substring_regex(text, r"^[+-]?[0-9]+([.,][0-9]*)?[eE][+-]?[0-9]{1,3}$")
    if not pc.any(written).as_py():
        return rough
    for row in pc.fill_null(written, False).to_numpy(zero_copy_only=False).nonzero()[0]:
        rough[row] = _is_rounded(text[int(row)].as_py(), factor)
    return rough


def _is_rounded(text: str, factor: float | None) -> bool:
    """Whether the last digit of a time since 1970 in exponent form is more than a second."""
    match = _EXPONENT.fullmatch(text)
    if match is None or int(match[2]) > _MOST_EXPONENT:
        return False
    size = abs(float(text.replace(",", ".")))
    if factor is None:
        factor = _SCALES[_guess(size) or "ns"]
    last_digit = 10.0 ** (int(match[2]) - len(match[1] or ""))
    return size * factor >= _EPOCH_S[0] and last_digit * factor > 1.000001


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
    made: dict[str, tuple[int | None, bool | None]] = {}
    zones: list[bool | None] = []
    values: list[int | None] = []
    bad = np.zeros(len(text), dtype=bool)
    for i, word in enumerate(text.to_pylist()):
        if word is None:
            values.append(None)
            zones.append(None)
            continue
        if word not in made:
            try:
                at, zoned = moment(word, pattern)
                made[word] = at if 0 < at < _INT_LIMIT else None if at else 0, zoned
            except (ValueError, OverflowError):
                made[word] = None, None
            if len(made) > 1 << 17:
                made = {word: made[word]}
        at_ns, zone = made[word]
        zones.append(zone)
        bad[i] = at_ns is None
        values.append(at_ns or None)  # 1970 itself stands for "not yet" in many logs
    both = True in zones and False in zones
    return Read(
        pa.array(values, pa.int64()),
        bad,
        zoned=True in zones,
        local=False in zones,
        naive=np.array([one is False for one in zones]) if both else None,
    )


def in_zone(read: Read, zone_ns: int | None) -> Read:
    """Put times that carry no zone into the one that the user gave, nanoseconds east of UTC.

    Examples
    --------
    >>> in_zone(Read(pa.array([7200 * 10**9]), local=True), 3600 * 10**9).values.to_pylist()
    [3600000000000]
    """
    if zone_ns is None or not read.local:
        return read
    moved = pc.subtract(read.values, zone_ns)
    if read.naive is not None:
        moved = pc.if_else(pa.array(read.naive), moved, read.values)
    return replace(read, values=moved, zoned=True, local=False, naive=None)


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
    if unit in _DAY_WORDS and _SERIAL[0] <= middle <= _SERIAL[1]:
        return _serial(measured, known)
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


def _serial(measured: NDArray[np.float64], known: NDArray[np.bool_]) -> Read:
    """Read days since 1899-12-30, to the millisecond; 0 stands for "not yet"."""
    fits = known & (measured >= _SERIAL[0]) & (measured <= _SERIAL[1])
    ms = np.rint(np.where(fits, measured - _DAYS_TO_1970, 0.0) * 86_400_000.0)
    bad = known & ~fits & (measured != 0)
    return Read(pa.array(ms.astype(np.int64) * 1_000_000, mask=~fits), bad, local=True, unit="d")


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
