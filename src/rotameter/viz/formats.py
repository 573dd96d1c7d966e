"""Numbers and names as people read them; hostile text made plain and short."""

from __future__ import annotations

import math
import re

from rotameter.units import format_bytes, format_seconds

__all__ = [
    "brief",
    "clip",
    "count",
    "gigabyte_hours",
    "plain",
    "ratio",
    "seconds",
    "size",
    "value",
]

MISSING = "—"
# Control characters, line ends and marks that turn the direction of text around: each could make
# a name read as something else.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def _known(number: float | None) -> bool:
    return number is not None and math.isfinite(number)


def _three(number: float) -> str:
    """Three significant digits without an exponent."""
    size_of = abs(number)
    digits = 0 if size_of >= 99.95 else 1 if size_of >= 9.995 else 2
    return f"{number:,.{digits}f}"


def seconds(number: float | None) -> str:
    """Write a time span given in seconds.

    Examples
    --------
    >>> seconds(12.34), seconds(None)
    ('12.3 s', '—')
    """
    return format_seconds(number) if _known(number) else MISSING


def size(number: float | None) -> str:
    """Write a number of bytes; 1 GB = 10**9 bytes.

    Examples
    --------
    >>> size(20_480), size(1_230_000_000), size(None)
    ('20.5 kB', '1.23 GB', '—')
    """
    return format_bytes(number, 3) if _known(number) else MISSING


def count(number: float | None) -> str:
    """Write a count with thousands set apart.

    Examples
    --------
    >>> count(100000), count(2.5), count(None)
    ('100,000', '2.50', '—')
    """
    if number is None or not _known(number):
        return MISSING
    return f"{int(number):,}" if float(number).is_integer() else _three(number)


def ratio(number: float | None) -> str:
    """Write a ratio (0 to 1) as a percentage.

    Examples
    --------
    >>> ratio(0.861), ratio(0.004), ratio(None)
    ('86 %', '0.4 %', '—')
    """
    if number is None or not _known(number):
        return MISSING
    percent = number * 100
    if percent and abs(percent) < 0.1:
        return "< 0.1 %" if percent > 0 else "> -0.1 %"
    return f"{percent:.1f} %" if 0 < abs(percent) < 9.95 else f"{percent:,.0f} %"


def gigabyte_hours(number: float | None) -> str:
    """Write an amount of memory held over time.

    Examples
    --------
    >>> gigabyte_hours(1.5), gigabyte_hours(0.0002), gigabyte_hours(None)
    ('1.50 GB·h', '0.72 GB·s', '—')
    """
    if number is None or not _known(number):
        return MISSING
    if 0 < number < 0.01:
        return f"{_three(number * 3600)} GB·s"
    return f"{_three(number)} GB·h"


_WRITERS = {
    "s": seconds,
    "B": size,
    "bytes": size,
    "ratio": ratio,
    "gbh": gigabyte_hours,
    "GB·h": gigabyte_hours,
    "GB.h": gigabyte_hours,
}


def value(number: float | int | str | bool | None, unit: str = "") -> str:
    """Write a piece of evidence in its unit.

    Examples
    --------
    >>> value(0.5, "ratio"), value(3, "workers"), value("spill"), value(None, "s")
    ('50 %', '3 workers', 'spill', '—')
    """
    if number is None:
        return MISSING
    if isinstance(number, bool):
        return "yes" if number else "no"
    if isinstance(number, str):
        return clip(f"{number} {unit}".strip(), 200)
    writer = _WRITERS.get(unit)
    if writer is not None:
        return writer(number)
    if unit == "ms":
        return seconds(number / 1e3)
    if unit == "ns":
        return seconds(number / 1e9)
    return f"{count(number)} {plain(unit)}".strip()


def plain(text: object) -> str:
    r"""Give text with nothing in it that hides, breaks the line or turns the reading direction.

    Examples
    --------
    >>> plain("a\nb"), plain("x" + chr(0x202E) + "y")
    ('a b', 'x y')
    """
    whole = str(text).encode("utf-8", "replace").decode("utf-8")
    return _UNSEEN.sub(" ", whole)


def clip(text: object, limit: int = 80) -> str:
    """Give plain text of at most ``limit`` characters, with its end kept.

    The end of a name often tells two names apart, so the middle goes.

    Examples
    --------
    >>> clip("read-parquet-0123456789", 12)
    'read-pa…6789'
    """
    whole = plain(text)
    if len(whole) <= limit:
        return whole
    tail = max(1, limit // 3)
    return f"{whole[: limit - 1 - tail]}…{whole[-tail:]}"


def brief(text: object, limit: int = 200) -> str:
    """Give plain prose of at most ``limit`` characters, cut after a word.

    Examples
    --------
    >>> brief("a sentence that goes on", 12)
    'a sentence…'
    """
    whole = plain(text)
    if len(whole) <= limit:
        return whole
    kept = whole[: limit - 1]
    # Not inside a word, unless that would leave little.
    if not whole[limit - 1].isspace() and kept.rfind(" ") >= limit // 2:
        kept = kept[: kept.rfind(" ")]
    return f"{kept.rstrip(' ,;:·(')}…"
