"""Splitting a class whose members do the same at two sizes an order of magnitude apart."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow._fold_sets import ranked

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats

__all__ = ["split_scales"]

_DECADE = float(np.log(10.0))


def split_scales(colour: Codes, values: Floats, share: float) -> Codes:
    """Split classes at gaps of a positive quantity between what are two populations.

    Neighbouring values a factor of 10 or more apart bound two runs. The class parts there if the
    gap is wider (in logarithms) than either run, and if either has at least ``share`` of the
    members (and two where ``share`` is positive: outliers are skew, not a role). A class with an
    unknown value is left alone.

    Parameters
    ----------
    colour : ndarray of int64, shape (n,)
    values : ndarray of float64, shape (n,)
        Zeros and negatives count as 1, NaN = unknown.
    share : float
        0 = a single member may part.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> split_scales(np.zeros(5, int), np.array([1.0, 3000, 2, 3004, 2]), 0.1).tolist()
    [0, 1, 0, 1, 0]
    """
    n = len(colour)
    if n == 0:
        return colour
    logs = np.log(np.where(values > 1, values, np.where(np.isnan(values), np.nan, 1.0)))
    unknown = np.bincount(colour, np.isnan(logs)) > 0
    logs[unknown[colour]] = 0.0
    order = np.lexsort((logs, colour))
    sorted_logs, sorted_colour = logs[order], colour[order]
    jump = np.diff(sorted_logs)
    if not np.any((jump >= _DECADE) & (np.diff(sorted_colour) == 0)):
        return colour
    edges = np.flatnonzero(np.diff(sorted_colour)) + 1
    bounds = [0, *edges.tolist(), n]
    part = np.zeros(n, dtype=np.int64)
    for low, high in pairwise(bounds):
        inner = sorted_logs[low:high]
        if high - low > 1 and inner[-1] - inner[0] >= _DECADE:
            least = max(share * (high - low), 2 if share else 1)
            for cut in _cuts(inner, least):
                part[low + cut : high] += 1
    made = np.empty(n, dtype=np.int64)
    made[order] = part
    return ranked(colour, made)


def _cuts(inner: Floats, least: float) -> list[int]:
    """Give the places at which sorted logarithms part."""
    jumps = np.diff(inner)
    bounds = [0, *(np.flatnonzero(jumps >= _DECADE) + 1).tolist(), len(inner)]
    runs = [(low, high, inner[high - 1] - inner[low]) for low, high in pairwise(bounds)]
    return [
        high
        for (low, high, before), (_, end, after) in pairwise(runs)
        if jumps[high - 1] > max(before, after) and min(high - low, end - high) >= least
    ]
