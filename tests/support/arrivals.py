"""Series that tests make for themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def daily(
    bins: int, seed: int = 0, level: float = 20.0, phi: float = 3.0, season: int = 24
) -> np.ndarray:
    """Give negative binomial counts with a season; variance ``phi`` times the mean."""
    rng = np.random.default_rng(seed)
    mean = level * np.exp(0.6 * np.sin(2 * math.pi * np.arange(bins) / season))
    return rng.negative_binomial(mean / (phi - 1.0), 1.0 / phi).astype(float)


def shifted(
    bins: int, at: Sequence[int], factors: Sequence[float], seed: int = 0
) -> tuple[np.ndarray, list[int]]:
    """Give counts whose level changes at some bins; and those bins."""
    rng = np.random.default_rng(seed)
    mean = 20.0 * np.exp(0.6 * np.sin(2 * math.pi * np.arange(bins) / 24))
    for where, factor in zip(at, factors, strict=True):
        mean[where:] *= factor
    return rng.negative_binomial(mean / 2.0, 1.0 / 3.0).astype(float), list(at)
