"""Dates that need a pattern: which patterns fit how a cell is written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from datetime import datetime

__all__ = ["patterns_of", "why_none"]

_DATE = re.compile(r"(\d{4}|\d\d?)([-/. ])(\d\d?)([-/. ])(\d{4}|\d\d?)(?![\d:])", re.A)
_TIME = re.compile(
    r"(?P<between>[ T,]{1,3})(?P<hour>\d\d?)(?P<colon>[:.])\d\d"
    r"(?P<seconds>(?P=colon)\d\d(?:(?P<point>[.,])\d{1,6})?)?"
    r"(?P<half>\s?[AaPp][Mm])?(?P<zone>\s?(?:Z|[+-]\d\d:?\d\d))?",
    re.A,
)
_MOST_MONTHS = 12
_HELD = (1970, 2261)
"""Years of which every day has nanoseconds since 1970 that 64 bits hold."""


def patterns_of(text: str) -> list[str]:
    """Give the patterns by which a date can be read, day before month first; none if it is none.

    Examples
    --------
    >>> patterns_of("01.03.2024 10:00:00"), patterns_of("3/25/24")
    (['%d.%m.%Y %H:%M:%S', '%m.%d.%Y %H:%M:%S'], ['%m/%d/%y'])
    >>> patterns_of("2024.03.01 10:00"), patterns_of("1.5"), patterns_of("soon")
    (['%Y.%m.%d %H:%M'], [], [])
    """
    text = text.strip()
    match = _DATE.match(text)
    if match is None:
        return []
    first, one, second, two, last = match.groups()
    time = _time(text[match.end() :])
    if time is None or len(second) > 2:
        return []
    if len(first) == 4:
        return [f"%Y{one}%m{two}%d{time}"] if len(last) <= 2 else []
    if len(last) not in (2, 4):
        return []
    year = "%Y" if len(last) == 4 else "%y"
    made = []
    if int(second) <= _MOST_MONTHS:
        made.append(f"%d{one}%m{two}{year}{time}")
    if int(first) <= _MOST_MONTHS:
        made.append(f"%m{one}%d{two}{year}{time}")
    return made


def why_none(text: str, patterns: Sequence[str]) -> str | None:
    """Say why a date that is written as one of these patterns is none; None where it is one.

    Examples
    --------
    >>> why_none("2025-02-30 10:00", ["%Y-%m-%d %H:%M"]), why_none("9999-12-31", ["%Y-%m-%d"])
    ('there is no such day', 'years from 1970 to 2261 can be held')
    >>> why_none("2025-02-03 25:00", ["%Y-%m-%d %H:%M"]), why_none("2025-02-03", ["%Y-%m-%d"])
    ('there is no such time of day', None)
    """
    years = []
    for pattern in patterns:
        with contextlib.suppress(ValueError):
            years.append(datetime.strptime(text.strip(), pattern).year)
    if years:
        held = any(_HELD[0] <= year <= _HELD[1] for year in years)
        return None if held else f"years from {_HELD[0]} to {_HELD[1]} can be held"
    match = _DATE.match(text.strip())
    for pattern in patterns if match else ():
        with contextlib.suppress(ValueError):
            datetime.strptime(match[0] if match else "", re.split(r"[ T,]+%", pattern)[0])
            return "there is no such time of day"
    return "there is no such day" if patterns else None


def _time(text: str) -> str | None:
    """Give the pattern of what follows a date; None where there is none."""
    if not text:
        return ""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    half, zone, colon = match["half"], match["zone"], match["colon"]
    made = f"{match['between']}{'%I' if half else '%H'}{colon}%M"
    made += f"{colon}%S" if match["seconds"] else ""
    made += f"{match['point']}%f" if match["point"] else ""
    made += f"{' ' if half[0].isspace() else ''}%p" if half else ""
    return made + (f"{' ' if zone[0].isspace() else ''}%z" if zone else "")
