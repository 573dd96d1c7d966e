"""The quantile levels that forecasters work on, losses, and answers for any other level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rotameter.errors import PolicyError

__all__ = ["ASKED", "LEVELS", "NORMAL", "Array", "answer", "pinball", "weighted_loss"]

Array: TypeAlias = NDArray[np.float64]

ASKED = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels that are given where none are named."""

LEVELS: Array = np.array([0.01, 0.025, *ASKED, 0.975, 0.99])
"""Levels that forecasters work on."""

NORMAL: Array = np.array([NormalDist().inv_cdf(level) for level in LEVELS.tolist()])
"""The normal distribution at `LEVELS`."""


def pinball(quantiles: Array, x: Array | float, levels: Array = LEVELS) -> Array:
    """Give the quantile loss, level by level along the last axis.

    Examples
    --------
    >>> pinball(np.array([2.0, 4.0]), 3.0, np.array([0.1, 0.9])).round(2).tolist()
    [0.1, 0.1]
    """
    off = np.asarray(x, dtype=float)[..., None] - quantiles
    return np.maximum(levels * off, (levels - 1.0) * off)


def weighted_loss(quantiles: Array, truth: Array, levels: Sequence[float] = ASKED) -> float | None:
    """Give the weighted quantile loss: twice the mean loss over the mean truth.

    That is near the continuous ranked probability score over the mean. Values that are not known
    (NaN) do not count; None where nothing is known or all that is known is 0.

    Parameters
    ----------
    quantiles : array, shape (..., n_levels)
    truth : array, shape (...)

    Examples
    --------
    >>> round(weighted_loss(np.array([[1.0, 3.0]]), np.array([2.0]), (0.1, 0.9)), 3)
    0.1
    """
    known = np.isfinite(truth)
    whole = float(np.abs(truth[known]).sum())
    if whole == 0.0:
        return None
    losses = pinball(quantiles[known], truth[known], np.asarray(levels, dtype=float))
    return float(2.0 * losses.mean(axis=-1).sum() / whole)


def answer(grid: Array, quantiles: Sequence[float]) -> Array:
    """Give quantiles of any level from those at `LEVELS`: in order, never below 0.

    Beyond the first and last of `LEVELS` their values are given.

    Parameters
    ----------
    grid : array, shape (horizon, len(LEVELS))
    quantiles : sequence of float
        Above 0 and below 1, in any order.

    Raises
    ------
    PolicyError
        For a level that is none.
    """
    asked = np.asarray(quantiles, dtype=float)
    if asked.ndim != 1 or not all(0.0 < q < 1.0 and math.isfinite(q) for q in asked.tolist()):
        raise PolicyError(
            f"no levels of quantiles: {list(quantiles)!r}", hint="give numbers between 0 and 1"
        )
    made = np.maximum(np.sort(grid, axis=-1), 0.0)
    return np.array([np.interp(asked, LEVELS, row) for row in made]).reshape(len(made), len(asked))
