"""Times and amounts as other tools write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["binary_bytes", "clock_seconds", "epoch_ns", "local_ns", "number", "zone_text"]

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?"
    r"\s*(Z|[+-]\d\d:?\d\d)?"
)
_CLOCK = re.compile(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)(?:[.,](\d+))?")
_AMOUNT = re.compile(r"([+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?)\s*([KMGTPE]?)(i?B?|[bB])?", re.I)
_THOUSANDS = re.compile(r"[1-9]\d{0,2},\d{3}(?!\d)")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def number(text: str) -> float:
    """Read a decimal number, with a point or a comma.

    Raises
    ------
    ValueError
        If it is none, or not finite.

    Examples
    --------
    >>> number("97,5"), number("1e3")
    (97.5, 1000.0)
    """
    value = float(text.strip().replace(",", "."))
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"not a number: {text[:40]!r}")
    return value


def binary_bytes(text: str, unit: str = "") -> int:
    """Read an amount of memory in multiples of 1024, whatever its unit is called.

    Parameters
    ----------
    text : str
        Such as ``4G``, ``85399.46K``, ``315,6 MB``.
    unit : {"", "K", "M", "G", "T"}
        What a bare number counts.

    Raises
    ------
    ValueError
        If it is none, or negative, or may be two (``1,234 MB``: nobody writes three decimals).

    Examples
    --------
    >>> binary_bytes("1.5K"), binary_bytes("4 MB"), binary_bytes("3", unit="M")
    (1536, 4194304, 3145728)
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or _THOUSANDS.match(match[1]):
        raise ValueError(f"not an amount of memory: {text[:40]!r}")
    value = float(match[1].replace(",", "."))
    power = _POWER[(match[2] or ("" if match[3] else unit)).upper()]
    size: float = value * 1024**power
    if size < 0 or size > 2**62:
        raise ValueError(f"not an amount of memory: {text[:40]!r}")
    return round(size)


def clock_seconds(text: str) -> float:
    """Read ``[DD-[HH:]]MM:SS[.mmm]`` as seconds; a bare number is seconds.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> clock_seconds("1-02:03:04"), clock_seconds("01:40"), clock_seconds("00:37.250")
    (93784.0, 100.0, 37.25)
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a duration: {text[:40]!r}")
    days, hours, minutes, seconds, part = match.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds)
    return whole + (float(f"0.{part}") if part else 0.0)


@lru_cache(maxsize=1 << 16)
def _day_ns(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 10**9


def local_ns(text: str) -> tuple[int, bool]:
    """Read ``YYYY-MM-DD[T ]HH:MM[:SS[.f]][zone]``.

    Returns
    -------
    tuple of (int, bool)
        Nanoseconds since the epoch, read as UTC where no zone is given, and whether one is.

    Raises
    ------
    ValueError
        If it is no such time.

    Examples
    --------
    >>> local_ns("1970-01-01T00:00:01.5"), local_ns("1970-01-01 02:00:00+02:00")
    ((1500000000, False), (0, True))
    """
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a time: {text[:40]!r}")
    year, month, day, hour, minute, second, part, zone = match.groups()
    if int(hour) > 24 or int(minute) > 59 or int(second or 0) > 60:
        raise ValueError(f"not a time: {text[:40]!r}")
    at = _day_ns(int(year), int(month), int(day))
    at += ((int(hour) * 60 + int(minute)) * 60 + int(second or 0)) * 10**9
    at += int((part or "0").ljust(9, "0"))
    if zone and zone != "Z":
        sign = 1 if zone[0] == "+" else -1
        at -= sign * (int(zone[1:3]) * 60 + int(zone[-2:])) * 60 * 10**9
    return at, zone is not None


def epoch_ns(seconds: float | str) -> int:
    """Turn seconds since the epoch into nanoseconds, exactly for text.

    Raises
    ------
    ValueError
        If it is no time between 1970 and 2200.

    Examples
    --------
    >>> epoch_ns("1.000000001"), epoch_ns(2)
    (1000000001, 2000000000)
    """
    if isinstance(seconds, str):
        whole, _, part = seconds.strip().partition(".")
        at = int(whole) * 10**9 + (int(part[:9].ljust(9, "0")) if part else 0)
    else:
        at = round(seconds * 1e9)
    if not 0 <= at < 7_258_118_400 * 10**9:
        raise ValueError(f"not a time: {seconds!r}")
    return at


def zone_text(east_ns: float) -> str:
    """Write a zone, given in nanoseconds east of UTC, as ``--utc-offset`` takes it.

    Examples
    --------
    >>> zone_text(7200 * 10**9), zone_text(-12600e9)
    ('+02:00', '-03:30')
    """
    minutes = round(abs(east_ns) / (60 * 10**9))
    return f"{'-' if east_ns < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
