"""Start, End and Elapsed against one another: clock changes and contradictions.

sacct prints local times without their zone, so that a job that ran over a change of the clocks
ends an hour early or late by them, even before it began. Elapsed is counted on the epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.adapters.importers._clock_changes import may_change
from rotameter.adapters.importers._slurm_values import LAST_S, MISSING_NS

__all__ = ["Spans"]

_HOUR_S = 3600
_NEAR_S = 2
_NEAR_SHARE = 0.01


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
        begun = first[at] + zone_ns
        lasted = (np.maximum(gap[at], wall[at] + paused[at]) * 1e9).astype(np.int64)
        self.changed[at] = [
            may_change(first_ns, first_ns + wall_ns)
            for first_ns, wall_ns in zip(begun.tolist(), lasted.tolist(), strict=True)
        ]
        self.backward = known & ~zoned & ~self.changed & (gap < 0) & fits
        self.differ = known & ~self.changed & ~explained & ~made & (gap >= 0)
        wrong = self.changed | self.backward
        right = start + (np.where(wrong, wall + paused, 0) * 1e9).astype(np.int64)
        self.end = np.where(wrong, right, end)
        self.gap, self.wall = gap, wall
