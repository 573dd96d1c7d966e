"""When clocks are changed: nights and hours at which that is usual, and the changes of other dates.

Local times without a zone say nothing of it; what is certain comes from tasks that ran over one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

__all__ = ["may_change", "others", "whole_hours"]

_HOUR_NS = 3600 * 10**9
_DAY_NS = 24 * _HOUR_NS
_MONTHS = (3, 4, 9, 10, 11)
_NIGHTS = (4, 5, 6)
"""In the night to a Sunday, in some countries to a Friday or Saturday (0 is Monday)."""
_FROM_NS, _TO_NS = -2 * _HOUR_NS, 4 * _HOUR_NS
"""From two hours before midnight to four after it."""
_LONG_DAYS = 120
_SUNDAY, _THURSDAY = 6, 3
_USUAL = (3, 2, 4, 1)
"""The hours at which most countries change theirs: what the clock shows then, where it is set
ahead, and what it would show, where it is set back."""
_NOVEMBER = (2, 3, 1, 4)
_EVENING_NS = 2 * _HOUR_NS
"""What is later in the evening belongs to the night to the next day."""
_EARLY_DAY = 14


def may_change(low_ns: int, high_ns: int) -> bool:
    """Say whether clocks may be changed, somewhere in the world, between two local times.

    Examples
    --------
    >>> march, july = 1_774_746_000 * 10**9, 1_784_448_000 * 10**9  # 29 March and 19 July 2026
    >>> may_change(march, march + 3600 * 10**9), may_change(july, july + 3600 * 10**9)
    (True, False)
    """
    days = range(-((_TO_NS - low_ns) // _DAY_NS), (high_ns - _FROM_NS) // _DAY_NS + 1)
    return len(days) > _LONG_DAYS or any(_usual_day(day) for day in days)


def _usual_day(day: int) -> bool:
    month = _date(day * _DAY_NS).month
    return (day + _THURSDAY) % 7 in _NIGHTS and month in _MONTHS


def _date(at_ns: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_ns // 10**9)).date()


def whole_hours(low_ns: int, high_ns: int, by_ns: int = 1) -> list[int]:
    """Give the whole hours from one time to another, those at which clocks mostly change first.

    Parameters
    ----------
    low_ns, high_ns : int
        Local times.
    by_ns : int
        What the clocks were set ahead, below 0 if back.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> [at // hour for at in whole_hours(hour // 2, 4 * hour)]
    [3, 2, 4, 1]
    """
    first, last = -(-low_ns // _HOUR_NS), high_ns // _HOUR_NS
    hours = [hour * _HOUR_NS for hour in range(first, min(last, first + 24 * 400) + 1)]

    def place(at: int) -> tuple[bool, int, int]:
        """Give how usual a time is; the least is the most usual."""
        order = _NOVEMBER if by_ns < 0 and _date(at).month == 11 else _USUAL
        hour = at % _DAY_NS // _HOUR_NS
        known = order.index(hour) if hour in order else len(order)
        return not may_change(at, at), known, at

    return sorted(hours, key=place)


def others(at_ns: int, by_ns: int, low_ns: int, high_ns: int) -> Iterator[tuple[int, int]]:
    """Give the changes that go with one in other seasons and years, as they are usual.

    Parameters
    ----------
    at_ns, by_ns : int
        When the clocks changed, and by how much.
    low_ns, high_ns : int
        Only changes between these are given.

    Yields
    ------
    tuple of int
        A time and what the clocks are set ahead then. For a change back the time is what the clock
        would have shown: the hour before it comes twice.

    Examples
    --------
    >>> march = 1_774_753_200 * 10**9  # 29 March 2026, 03:00
    >>> year = 365 * 24 * 3600 * 10**9
    >>> [str(datetime.fromtimestamp(at // 10**9, UTC).date())
    ...  for at, _ in others(march, 3600 * 10**9, march - year, march + year)]
    ['2025-03-30', '2025-10-26', '2026-03-29', '2026-10-25', '2027-03-28']
    """
    begun = _date(at_ns + _EVENING_NS)
    ahead, back = _rule(begun, by_ns > 0)
    hour_ns = at_ns - _midnight(begun)
    # In North America it is two o'clock by the clock that goes: 02 becomes 03, and 02 becomes 01.
    less = _HOUR_NS if back[0] == 11 else 0
    size = abs(by_ns)
    hours = (hour_ns, hour_ns - less) if by_ns > 0 else (hour_ns + less, hour_ns)
    for year in range(_date(low_ns).year, _date(high_ns).year + 1):
        made = [
            (_midnight(_sunday(year, *which)) + hour, sign * size)
            for which, hour, sign in ((ahead, hours[0], 1), (back, hours[1], -1))
        ]
        yield from (one for one in sorted(made) if low_ns <= one[0] <= high_ns)


def _rule(day: date, is_ahead: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Give the months, and which of their Sundays, at which clocks go ahead and back."""
    month, early = day.month, day.day <= _EARLY_DAY
    if is_ahead == (month <= 6):  # the north: ahead in spring
        if (month == 3 and early) or month == 11:
            return (3, 2), (11, 1)
        return (3, -1), (10, -1)
    if is_ahead and month == 9:
        return ((9, 1) if early else (9, -1)), (4, 1)
    return (10, 1), (4, 1)


def _sunday(year: int, month: int, which: int) -> date:
    """Give the first, second … or, -1, the last Sunday of a month."""
    if which > 0:
        first = date(year, month, 1)
        return first + timedelta(days=(_SUNDAY - first.weekday()) % 7 + 7 * (which - 1))
    last = date(year, month + 1, 1) - timedelta(days=1)
    return last - timedelta(days=(last.weekday() - _SUNDAY) % 7)


def _midnight(day: date) -> int:
    return (day - date(1970, 1, 1)).days * _DAY_NS
