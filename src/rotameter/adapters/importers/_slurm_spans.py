"""Start, End and Elapsed against one another: clock changes and contradictions.

sacct prints local times without their zone, so that a job that ran over a change of the clocks
ends an hour early or late by them, even before it began. Elapsed is counted on the epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.adapters.importers._slurm_values import MISSING_NS

__all__ = ["Spans"]

_HOUR_S = 3600
_NEAR_S = 2
_NEAR_SHARE = 0.01
_LAST_NS = 7_258_118_400 * 10**9


class Spans:
    """Ends, put right where the clocks changed, and jobs whose Elapsed says something else.

    Parameters
    ----------
    start, end : numpy.ndarray
        In ns.
    wall, suspended : numpy.ndarray
        Elapsed (which leaves out time suspended) and Suspended in seconds; NaN is unknown.
    zoned, made : numpy.ndarray
        Whether a zone is known; whether the job is put together from steps, whose longest is no
        measure of the whole.

    Examples
    --------
    >>> begin, end = np.array([9_900 * 10**9]), np.array([8_100 * 10**9])
    >>> no = np.array([False])
    >>> spans = Spans(begin, end, np.array([1800.0]), np.array([np.nan]), no, no)
    >>> (spans.end // 10**9).tolist(), spans.changed.tolist()
    ([11700], [True])
    """

    def __init__(
        self, start: Any, end: Any, wall: Any, suspended: Any, zoned: Any, made: Any
    ) -> None:
        known = (start != MISSING_NS) & (end != MISSING_NS) & (wall >= 0)
        gap_ns = np.where(known, end, 0) - np.where(known, start, 0)
        gap = gap_ns / 1e9
        wall = np.where(known, wall, 0)
        paused = np.where(np.isnan(suspended), 0, suspended)
        most = np.maximum(np.abs(gap), wall)
        near = np.maximum(_NEAR_S, _NEAR_SHARE * most)
        off = gap - wall
        explained = (np.abs(off) <= near) | ((paused > 0) & (np.abs(off - paused) <= near))
        an_hour = (np.abs(off) == _HOUR_S) & ~((paused > 0) & explained) & ~made
        fits = np.where(known, start, 0) / 1e9 + wall < _LAST_NS / 1e9
        self.changed = known & ~zoned & ((gap < 0) | an_hour) & fits
        self.differ = known & ~self.changed & ~explained & ~made & (gap >= 0)
        right = start + (np.where(self.changed, wall, 0) * 1e9).astype(np.int64)
        self.end = np.where(self.changed, right, end)
        self.gap, self.wall = gap, wall
