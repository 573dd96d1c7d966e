"""Which workers compute faster or slower than the others, where the record shows it plainly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats

__all__ = ["speed_ratios"]

FEWEST = 8
"""Attempts of a worker that can be compared with the same group elsewhere."""
APART = 1.1
"""How far the middle halves must lie apart."""


def speed_ratios(home: Codes, group: Codes, wall_s: Floats, n_workers: int) -> Floats:
    """Estimate how fast each worker computes, from groups of tasks that ran on several.

    Each attempt is compared with the median of its group on the *other* workers. A worker counts
    as different only where the middle half of its ratios lies apart from 1 as a whole; the usual
    speed is that of the fastest of up to three workers, of the middle one of more.

    Parameters
    ----------
    home, group : ndarray of int64, shape (n,)
    wall_s : ndarray of float64, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n_workers,)
        1 is usual, 0.5 takes twice as long.

    Examples
    --------
    >>> home, group = np.repeat([0, 1], 10), np.zeros(20, dtype=np.int64)
    >>> speed_ratios(home, group, np.repeat([1.0, 2.0], 10), 2).tolist()
    [1.0, 0.5]
    """
    speed = np.ones(n_workers)
    used = np.flatnonzero((home >= 0) & (group >= 0) & (wall_s > 0))
    if n_workers < 2 or not used.size:
        return speed
    home, group, wall = home[used], group[used], wall_s[used]
    ratio = _against_others(home, group, wall)
    found = np.full(n_workers, np.nan)
    apart = np.zeros(n_workers, dtype=bool)
    for worker in np.unique(home).tolist():
        mine = ratio[(home == worker) & ~np.isnan(ratio)]
        if len(mine) < FEWEST:
            continue
        low, middle, high = np.quantile(mine, (0.25, 0.5, 0.75))
        found[worker] = middle
        apart[worker] = low > APART or high < 1.0 / APART
    if not apart.any():
        return speed
    # A worker is only as different as its ratio to the usual one says.
    known = found[~np.isnan(found)]
    usual = float(known.min() if len(known) <= 3 else np.median(known))
    if len(known) == 2:
        # Each is compared with the other: the ratios are each other's inverse.
        usual, found = 1.0, np.maximum(found, 1.0)
    speed[apart] = usual / found[apart]
    return speed


def _against_others(home: Codes, group: Codes, wall: Floats) -> Floats:
    """Divide each attempt by the median of its group on other workers; NaN where there is none."""
    ratio = np.full(len(wall), np.nan)
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0, True])
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = order[low:high]
        places = np.unique(home[mine])
        if len(places) < 2:
            continue
        medians = {w: float(np.median(wall[mine[home[mine] == w]])) for w in places.tolist()}
        for worker in places.tolist():
            others = [m for w, m in medians.items() if w != worker]
            here = mine[home[mine] == worker]
            ratio[here] = wall[here] / max(float(np.median(others)), 1e-12)
    return ratio
