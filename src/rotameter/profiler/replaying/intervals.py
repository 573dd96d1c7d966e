"""How much of some stretches of time a set of intervals covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats

__all__ = ["covered"]


def covered(
    lane: Codes, start: Floats, end: Floats, at: Codes, low: Floats, high: Floats
) -> Floats:
    """Give how much of each stretch ``low … high`` of lane ``at`` some intervals cover.

    Parameters
    ----------
    lane, start, end : ndarray, shape (k,)
        The intervals, overlapping or not; seconds.
    at, low, high : ndarray, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n,), seconds

    Examples
    --------
    >>> one = np.array([0])
    >>> covered(np.array([0, 0]), np.array([0.0, 1.0]), np.array([2.0, 3.0]),
    ...         one, np.array([1.5]), np.array([9.0])).tolist()
    [1.5]
    """
    good = (lane >= 0) & (end > start)
    lane, start, end = lane[good], start[good], end[good]
    if not len(lane):
        return np.zeros(len(at))
    base = min(float(start.min()), float(np.min(low, initial=0.0)))
    stride = max(float(end.max()), float(np.max(high, initial=0.0))) - base + 1.0
    first, last = lane * stride + start - base, lane * stride + end - base
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    new = np.r_[True, first[1:] > last[:-1]]
    begin, stop = first[new], last[np.r_[np.flatnonzero(new)[1:] - 1, len(last) - 1]]
    before_ = np.r_[0.0, np.cumsum(stop - begin)]

    def until(when: Floats) -> Floats:
        x = np.maximum(at, 0) * stride + when - base
        index = np.searchsorted(begin, x, side="right")
        place = np.maximum(index - 1, 0)
        part = np.minimum(x, stop[place]) - begin[place]
        return np.asarray(np.where(index > 0, before_[place] + part, 0.0))

    return np.where(at >= 0, until(np.maximum(high, low)) - until(low), 0.0)
