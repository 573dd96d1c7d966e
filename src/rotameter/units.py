"""Bytes and seconds, as people write and read them.

``1 GB`` is 10⁹ bytes; binary units are written GiB. Unknown (None, NaN) prints as ``–``.
"""

from __future__ import annotations

import math
import re

__all__ = [
    "bare_number",
    "clock",
    "format_bytes",
    "format_count",
    "format_number",
    "format_seconds",
    "many",
    "next_whole",
    "parse_bytes",
    "parse_seconds",
]

UNKNOWN = "–"
_YEAR = 365.25 * 86400

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([a-zµμ]*)\s*", re.I)
_BYTE_UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1}
for _power, _letter in enumerate("kmgtpe", start=1):
    _BYTE_UNITS[f"{_letter}b"] = _BYTE_UNITS[_letter] = 1000**_power
    _BYTE_UNITS[f"{_letter}ib"] = _BYTE_UNITS[f"{_letter}i"] = 1024**_power
_SECOND_UNITS = {
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "m": 60.0,
    "min": 60.0,
    "mins": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}


def format_number(value: float | None, digits: int = 3) -> str:
    """Write a number with about ``digits`` significant digits and no exponent.

    Examples
    --------
    >>> format_number(5.83, 2), format_number(1234.6), format_number(None)
    ('5.8', '1,235', '–')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    whole = math.floor(math.log10(abs(value))) + 1
    text = f"{value:,.{min(12, max(0, digits - whole))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_count(value: int | None) -> str:
    """Write a count with thousands separated.

    Examples
    --------
    >>> format_count(1368)
    '1,368'
    """
    return UNKNOWN if value is None else f"{value:,}"


def many(count: int, word: str, words: str | None = None) -> str:
    """Write a count and its noun, in the plural unless there is one.

    Parameters
    ----------
    count : int
    word : str
        The noun, and what follows it where that depends on the number.
    words : str, optional
        The same of several; by default with an ``s``.

    Examples
    --------
    >>> many(1, "task"), many(1368, "task")
    ('1 task', '1,368 tasks')
    >>> many(1, "record was", "records were"), many(2, "dependency", "dependencies")
    ('1 record was', '2 dependencies')
    """
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def format_bytes(value: float | None, digits: int = 2) -> str:
    """Write a number of bytes in decimal units.

    Parameters
    ----------
    value : float or None
        Bytes; None and NaN are unknown.
    digits : int
        Significant digits below 1,000 of the unit.

    Examples
    --------
    >>> format_bytes(5_800_000_000), format_bytes(999), format_bytes(16e9)
    ('5.8 GB', '999 B', '16 GB')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    power = 0
    # 999.6 kB would print as 1000 kB: it is 1 MB.
    while power < len(_DECIMAL) - 1 and float(f"{size:.3g}") >= 1000:
        size /= 1000
        power += 1
    sign = "-" if value < 0 else ""
    digits = max(digits, 3) if size >= 100 else digits
    return f"{sign}{format_number(size, digits)} {_DECIMAL[power]}"


def clock(minutes: int, *, days: bool = True) -> str:
    """Write minutes as batch systems do.

    Examples
    --------
    >>> clock(95), clock(3000), clock(3000, days=False)
    ('01:35:00', '2-02:00:00', '50:00:00')
    """
    hours, rest = divmod(minutes, 60)
    whole, part = divmod(hours, 24)
    if days and whole:
        return f"{whole}-{part:02d}:{rest:02d}:00"
    return f"{hours:02d}:{rest:02d}:00"


def format_seconds(value: float | None) -> str:
    """Write a duration in the unit that people would use.

    Parameters
    ----------
    value : float or None
        Seconds; None and NaN are unknown.

    Examples
    --------
    >>> format_seconds(1e300)
    '3.2e+292 years'
    >>> format_seconds(1e-16)
    '<1 ns'
    >>> format_seconds(12.34), format_seconds(0.0034), format_seconds(95), format_seconds(7265)
    ('12.3 s', '3.4 ms', '1 min 35 s', '2 h 1 min')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    sign = "-" if value < 0 else ""
    value = abs(value)
    if value == 0:
        return "0 s"
    if value < 5e-10:
        return "<1 ns"
    if value < 1e-6:
        return f"{sign}{format_number(value * 1e9, 2)} ns"
    if value < 1e-3:
        return f"{sign}{format_number(value * 1e6, 2 if value < 1e-4 else 3)} µs"
    if value < 0.9995:
        return f"{sign}{format_number(value * 1e3, 2 if value < 0.1 else 3)} ms"
    if value < 59.95:
        return f"{sign}{format_number(value, 3)} s"
    if value < 3599.5:
        minutes, rest = divmod(round(value), 60)
        return f"{sign}{minutes} min {rest} s" if rest else f"{sign}{minutes} min"
    if value < 86400 * 2:
        hours, rest = divmod(round(value / 60), 60)
        return f"{sign}{hours} h {rest} min" if rest else f"{sign}{hours} h"
    if value >= 1e5 * _YEAR:
        return f"{sign}{value / _YEAR:.2g} years"
    if value >= 1e3 * _YEAR:
        return f"{sign}{format_number(value / _YEAR)} years"
    days, rest = divmod(round(value / 3600), 24)
    return f"{sign}{days} d {rest} h" if rest else f"{sign}{days} d"


def _split(text: str, units: dict[str, float] | dict[str, int], what: str) -> tuple[str, float]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"not a {what}: {text[:60]!r}")
    factor = units.get(match[2].lower())
    if factor is None:
        known = ", ".join(unit for unit in units if unit)
        raise ValueError(f"unknown unit {match[2][:20]!r} in {text[:60]!r}; known: {known}")
    return match[1], factor


def bare_number(text: str) -> float | None:
    """Give the number of a text that names no unit; None where it names one, or is no number.

    Examples
    --------
    >>> bare_number("4"), bare_number(" 4e3 "), bare_number("4 B"), bare_number("1:30")
    (4.0, 4000.0, None, None)
    """
    match = _NUMBER.fullmatch(text)
    return float(match[1]) if match is not None and not match[2] else None


def parse_bytes(text: str | float) -> int:
    """Read a number of bytes; ``GB`` is 10⁹, ``GiB`` 2³⁰, a bare number is bytes.

    Raises
    ------
    ValueError
        If the text is no number with a known unit, is negative or is not finite.

    Examples
    --------
    >>> parse_bytes("2GiB"), parse_bytes("128GB"), parse_bytes("1.5 kB"), parse_bytes(7)
    (2147483648, 128000000000, 1500, 7)
    """
    number, factor = (
        (text, 1)
        if isinstance(text, (int, float))
        else _split(text, _BYTE_UNITS, "number of bytes")
    )
    value = float(number) * factor
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"not a number of bytes: {str(text)[:60]!r}")
    if isinstance(number, int):
        return number
    if isinstance(number, str) and number.lstrip("+").isdigit():
        return int(number) * int(factor)
    return round(value)


def next_whole(number: float) -> int:
    """Give the next whole number; what lies in the last digits of a float is not above one.

    Examples
    --------
    >>> next_whole(1.1 * 3e9), next_whole(2.1), next_whole(2.0)
    (3300000000, 3, 2)
    """
    return math.ceil(number - 4 * math.ulp(number))


def parse_seconds(text: str | float) -> float:
    """Read a duration; a bare number is seconds, ``1h30m`` and ``1:30:00`` are understood.

    So are the days of batch systems: ``7-00:00:00``, and ``7-12:00``, where hours come first.

    Raises
    ------
    ValueError
        If the text is no duration, is negative or is not finite.

    Examples
    --------
    >>> parse_seconds("250 ms"), parse_seconds("1h30m"), parse_seconds("1:30:00")
    (0.25, 5400.0, 5400.0)
    >>> parse_seconds("1-00:30:00"), parse_seconds("1-00:30")
    (88200.0, 88200.0)
    """
    if isinstance(text, (int, float)):
        value = float(text)
    elif ":" in text:
        days, _, rest = text.strip().rpartition("-")
        parts = rest.split(":")
        if days and len(parts) == 2:
            parts.append("0")
        if len(parts) > 3 or not all(re.fullmatch(r"\d+(\.\d+)?", part) for part in parts):
            raise ValueError(f"not a duration: {text[:60]!r}")
        value = sum(float(part) * 60**power for power, part in enumerate(reversed(parts)))
        value += 86400.0 * float(days or 0)
    else:
        pieces = re.findall(r"[^a-zµμ]+[a-zµμ]*", text, re.I)
        if not pieces or "".join(pieces) != text:
            raise ValueError(f"not a duration: {text[:60]!r}")
        value = 0.0
        for piece in pieces:
            number, factor = _split(piece, _SECOND_UNITS, "duration")
            value += float(number) * factor
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"not a duration: {str(text)[:60]!r}")
    return value
