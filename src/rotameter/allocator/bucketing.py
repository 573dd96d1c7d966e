"""Greedy and exhaustive bucketing, each with probabilistic or deterministic choice, as published.

Values of completed tasks are cut into buckets; a task gets the top of one of them. Significance
grows with the order of completion, so that what ended last weighs most. Time does not enter.

Methods: T. Phung et al., "Not all tasks are created equal: adaptive resource allocation for
heterogeneous tasks in dynamic workflows" (WORKS 2021) and "Adaptive task-oriented resource
allocation for large dynamic workflows on opportunistic resources" (IPDPS 2024). Written anew from
the published description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = ["MOST_BUCKETS", "exhaustive_tops", "greedy_tops", "shares"]

MOST_BUCKETS = 10


def _sorted(values: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats]:
    made = np.asarray(values, dtype=np.float64)
    mass = np.asarray(weights, dtype=np.float64)
    order = np.argsort(made, kind="stable")
    return made[order], mass[order]


def greedy_tops(values: ArrayLike, weights: ArrayLike, *, deterministic: bool = False) -> Floats:
    """Cut values into buckets by the best single break, again and again.

    Parameters
    ----------
    values : array_like, shape (n,)
        In any order.
    weights : array_like, shape (n,)
        Significances, positive.
    deterministic : bool
        Cost of climbing the buckets from below rather than of drawing one.

    Returns
    -------
    ndarray of float64, shape (n_buckets,)
        The buckets' largest values, ascending.

    Examples
    --------
    >>> values = [4000, 1000, 2000] * 3 + [4000]
    >>> greedy_tops(values, range(1, 11)).tolist()
    [2000.0, 4000.0]
    """
    v, s = _sorted(values, weights)
    if not len(v):
        return np.zeros(0)
    mass, moment = np.r_[0.0, np.cumsum(s)], np.r_[0.0, np.cumsum(s * v)]
    tops: list[float] = []
    open_ = [(0, len(v))]
    while open_:
        low, high = open_.pop()
        at = low + _best_break(v, mass, moment, low, high, deterministic=deterministic)
        if at == high - 1:
            tops.append(float(v[at]))
        else:
            open_ += [(low, at + 1), (at + 1, high)]
    return np.unique(tops)


def _best_break(
    v: Floats, mass: Floats, moment: Floats, low: int, high: int, *, deterministic: bool
) -> int:
    """Give the cheapest break of a range, from its start; the last place is none at all."""
    whole = mass[high] - mass[low]
    below = mass[low + 1 : high + 1] - mass[low]
    above = mass[high] - mass[low + 1 : high + 1]
    under = (moment[low + 1 : high + 1] - moment[low]) / below
    with np.errstate(invalid="ignore", divide="ignore"):
        over = np.where(above > 0, (moment[high] - moment[low + 1 : high + 1]) / above, 0.0)
    p, q = below / whole, above / whole
    q[-1] = 0.0
    top, last = v[low:high], v[high - 1]
    if deterministic:
        cost = p * (top - under) + q * (top + last - over)
    else:
        cost = p * p * (top - under) + p * q * (last - under)
        cost += q * p * (top + last - over) + q * q * (last - over)
    # Of equals the largest: fewer buckets.
    return int(np.flatnonzero(cost <= cost.min() + 1e-12 * last)[-1])


def exhaustive_tops(
    values: ArrayLike,
    weights: ArrayLike,
    *,
    deterministic: bool = False,
    most: int = MOST_BUCKETS,
) -> Floats:
    """Try grids of 1 to ``most`` buckets, linear and by powers of two, and keep the cheapest.

    Parameters
    ----------
    values, weights, deterministic
        As for :func:`greedy_tops`.
    most : int
        Finest grid.

    Returns
    -------
    ndarray of float64, shape (n_buckets,)
        Largest value of each bucket, ascending.

    Examples
    --------
    >>> values = [4000, 1000, 2000] * 3 + [4000]
    >>> exhaustive_tops(values, range(1, 11)).tolist()
    [2000.0, 4000.0]
    """
    v, s = _sorted(values, weights)
    if not len(v):
        return np.zeros(0)
    mass, moment = np.r_[0.0, np.cumsum(s)], np.r_[0.0, np.cumsum(s * v)]
    best, kept, seen = np.inf, v[-1:], set()
    for n in range(1, most + 1):
        at = _grid(v, n)
        key = at.tobytes()
        if key in seen:
            continue
        seen.add(key)
        cost = _grid_cost(v, mass, moment, at, deterministic=deterministic)
        if cost < best * (1 - 1e-12):
            best, kept = cost, v[at]
    return np.asarray(kept)


def _grid(v: Floats, n: int) -> NDArray[np.int64]:
    """Give the places of a grid's tops: the largest values at or under its candidates."""
    top = float(v[-1])
    wanted = [top * i / n for i in range(1, n + 1)]
    if top >= n:
        wanted += [2.0**k for k in range(int(np.floor(np.log2(top / n))))]
    at = np.searchsorted(v, wanted, side="right") - 1
    at[n - 1] = len(v) - 1
    at = np.unique(at[at >= 0])
    # Equal values lie in one bucket: its last place stands for it.
    return np.unique(np.searchsorted(v, v[at], side="right") - 1)


def _grid_cost(
    v: Floats, mass: Floats, moment: Floats, at: NDArray[np.int64], *, deterministic: bool
) -> float:
    edges = np.r_[0, at + 1]
    held = mass[edges[1:]] - mass[edges[:-1]]
    means = (moment[edges[1:]] - moment[edges[:-1]]) / held
    p, tops = held / mass[-1], v[at]
    if deterministic:
        return float(p @ (np.cumsum(tops) - means))
    n = len(tops)
    table = np.zeros((n, n))
    for chosen in range(n - 1, -1, -1):
        table[: chosen + 1, chosen] = tops[chosen] - means[: chosen + 1]
        if chosen + 1 < n:
            later = p[chosen + 1 :] / p[chosen + 1 :].sum()
            rows = slice(chosen + 1, n)
            table[rows, chosen] = tops[chosen] + table[rows, chosen + 1 :] @ later
    return float(p @ table @ p)


def shares(values: ArrayLike, weights: ArrayLike, tops: Floats) -> Floats:
    """Give the part of all significance that lies in each bucket; shape (n_buckets,).

    Examples
    --------
    >>> shares([4000, 1000, 2000] * 3 + [4000], range(1, 11), np.array([2000.0, 4000.0])).tolist()
    [0.6, 0.4]
    """
    held = np.bincount(
        np.minimum(np.searchsorted(tops, np.asarray(values, dtype=np.float64)), len(tops) - 1),
        np.asarray(weights, dtype=np.float64),
        minlength=len(tops),
    )
    return np.asarray(held / held.sum())
