"""Start, End and Elapsed against one another: clock changes and contradictions.

sacct prints local times without their zone, so that a job that ran over a change of the clocks
ends an hour early or late by them, even before it began. Elapsed is counted on the epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.adapters.importers._slurm_values import LAST_S, MISSING_NS

__all__ = ["Spans"]

_HOUR_S, _DAY_S = 3600, 86_400
_NEAR_S = 2
_NEAR_SHARE = 0.01
_MONTHS = (3, 4, 9, 10, 11)
_NIGHTS = (4, 5, 6)
"""Clocks are changed, all over the world, in spring and autumn in the night to a Sunday, in some
countries to a Friday or Saturday (0 is Monday)."""
_NIGHT_S = (-2 * _HOUR_S, 4 * _HOUR_S)
"""And from two hours before midnight to four after it."""
_LONG_DAYS = 120
_THURSDAY = 3
"""The day of the week of 1970-01-01."""


class Spans:
    """Ends, put right where the clocks changed, and jobs whose Elapsed says something else.

    Parameters
    ----------
    start, end : numpy.ndarray
        In ns.
    wall, suspended : numpy.ndarray
        Elapsed (which leaves out time suspended) and Suspended in seconds; NaN is unknown.
    zoned, made : numpy.ndarray
        Whether times carry a zone; whether the job is put together from steps, whose longest is no
        measure of the whole.
    zone_ns : int
        Zone by which times without one were moved: clocks are changed in a local night.

    Attributes
    ----------
    changed, backward, differ : numpy.ndarray
        Jobs that a change of the clocks explains, those that end before they began and which none
        explains, and those whose Elapsed is another than their span.

    Examples
    --------
    >>> begin, end = np.array([1_761_445_800 * 10**9]), np.array([1_761_444_000 * 10**9])
    >>> no = np.array([False])
    >>> spans = Spans(begin, end, np.array([1800.0]), np.array([np.nan]), no, no)
    >>> (spans.end // 10**9).tolist(), spans.changed.tolist()
    ([1761447600], [True])
    """

    def __init__(
        self,
        start: Any,
        end: Any,
        wall: Any,
        suspended: Any,
        zoned: Any,
        made: Any,
        zone_ns: int = 0,
    ) -> None:
        known = (start != MISSING_NS) & (end != MISSING_NS) & (wall >= 0)
        first = np.where(known, start, 0)
        gap = (np.where(known, end, 0) - first) / 1e9
        wall = np.where(known, wall, 0)
        paused = np.where(np.isnan(suspended), 0, suspended)
        most = np.maximum(np.abs(gap), wall)
        near = np.maximum(_NEAR_S, _NEAR_SHARE * most)
        off = gap - wall
        explained = (np.abs(off) <= near) | ((paused > 0) & (np.abs(off - paused) <= near))
        an_hour = known & (np.abs(off - paused) == _HOUR_S) & ~((paused > 0) & explained) & ~made
        fits = first / 1e9 + wall + paused < LAST_S
        self.changed = an_hour & ~zoned & fits
        at = np.flatnonzero(self.changed)
        begun = (first[at] + zone_ns) // 10**9
        lasted = np.maximum(gap[at], wall[at] + paused[at]).astype(np.int64)
        self.changed[at] = [_over_a_change(*one) for one in zip(begun, begun + lasted, strict=True)]
        self.backward = known & ~zoned & ~self.changed & (gap < 0) & fits
        self.differ = known & ~self.changed & ~explained & ~made & (gap >= 0)
        wrong = self.changed | self.backward
        right = start + (np.where(wrong, wall + paused, 0) * 1e9).astype(np.int64)
        self.end = np.where(wrong, right, end)
        self.gap, self.wall = gap, wall


def _over_a_change(start_s: int, end_s: int) -> bool:
    """Say whether clocks may have been changed, somewhere in the world, within a local span.

    Examples
    --------
    >>> march, july = 1_774_746_000, 1_784_448_000  # 29 March and 19 July 2026
    >>> _over_a_change(march, march + 3600), _over_a_change(july, july + 3600)
    (True, False)
    """
    before, after = _NIGHT_S
    days = range(-((after - int(start_s)) // _DAY_S), (int(end_s) - before) // _DAY_S + 1)
    if len(days) > _LONG_DAYS:
        return True
    for day in days:
        month = int(np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64)) % 12 + 1
        if (day + _THURSDAY) % 7 in _NIGHTS and month in _MONTHS:
            return True
    return False
