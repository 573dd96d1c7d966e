"""An exponentially weighted mean and a negative binomial about it.

The dispersion (variance over mean) of real arrivals is 2 to 6,000: Poisson intervals are always
too narrow. Weighted means: Brown, "Statistical Forecasting for Inventory Control" (1959); the
negative binomial as a Poisson whose rate is a gamma variable: Greenwood and Yule, JRSS 83 (1920).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.base import Arrivals
from rotameter.forecasting.arrivals.engine import Expert
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import LEVELS, NORMAL, Array
from rotameter.forecasting.arrivals.past import Past

__all__ = ["Ewma", "EwmaNegativeBinomial", "Mean", "negative_binomial"]

_RATES = (0.05, 0.1, 0.2, 0.4, 0.7)
_FORGET = 0.99
_EXACT = 20_000
_PACE, _LEAST = 0.01, 0.1


def negative_binomial(mean: float, variance: float) -> Array:
    """Give the quantiles at `LEVELS` of a negative binomial; Poisson where variance ≤ mean.

    Means for which the sum over counts would be long are given the cube-root normal of a gamma
    (Wilson and Hilferty, 1931).

    Examples
    --------
    >>> negative_binomial(4.0, 4.0)[[2, 7, 12]].tolist()
    [1.0, 4.0, 8.0]
    """
    if mean <= 0.0:
        return np.zeros(len(LEVELS))
    variance = max(variance, mean)
    most = int(mean + 12.0 * math.sqrt(variance)) + 20
    if most > _EXACT:
        shape = max(mean * mean / variance, 1e-6)
        root = 1.0 - 1.0 / (9.0 * shape) + NORMAL * math.sqrt(1.0 / (9.0 * shape))
        return np.asarray(mean * np.maximum(root, 0.0) ** 3)
    k = np.arange(most)
    if variance <= mean * (1.0 + 1e-9):
        first, ratio = -mean, mean / (k + 1.0)
    else:
        share = min(1.0 - mean / variance, 1.0 - 1e-12)
        size = mean * (1.0 - share) / share
        first, ratio = size * math.log1p(-share), share * (k + size) / (k + 1.0)
    logs = first + np.concatenate([[0.0], np.cumsum(np.log(np.maximum(ratio, 1e-300)))])
    below = np.cumsum(np.exp(np.maximum(logs, -700.0)))
    return np.minimum(np.searchsorted(below, LEVELS), most).astype(float)


class Mean(Kept):
    """The exponentially weighted mean in log space, as a point forecaster.

    Parameters
    ----------
    rate : float
        Weight of the newest bin.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("rate",)
    LEARNT: ClassVar[tuple[str, ...]] = ("mean", "known")
    space = "log"

    def __init__(self, rate: float = 0.2) -> None:
        self.rate, self.mean, self.known = rate, 0.0, 0

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        if past.fresh:
            self.known += 1
            self.mean += max(self.rate, 1.0 / self.known) * (past.of("log") - self.mean)

    def points(self, past: Past, horizon: int) -> Array:
        """Give the mean for each of the next bins."""
        return np.full(horizon, self.mean)


class Ewma(Kept):
    """Weighted means at several rates, the best so far used, and the dispersion about each."""

    LEARNT: ClassVar[tuple[str, ...]] = ("mean", "dispersion", "loss", "known")

    def __init__(self) -> None:
        self.mean: Array = np.zeros(len(_RATES))
        self.dispersion: Array = np.zeros(len(_RATES))
        self.loss: Array = np.zeros(len(_RATES))
        self.known = 0

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        if not past.fresh:
            return
        self.known += 1
        x = past.latest
        off = x - self.mean
        if self.known > 1:
            near = np.log1p(x) - np.log1p(np.maximum(self.mean, 0.0))
            self.loss = _FORGET * self.loss + near * near
            pace = max(_PACE, 1.0 / self.known)
            ratio = off * off / np.maximum(self.mean, _LEAST)
            self.dispersion = self.dispersion + pace * (ratio - self.dispersion)
        self.mean = self.mean + np.maximum(_RATES, 1.0 / self.known) * off

    def grid(self, past: Past, horizon: int) -> Array:
        """Give the same quantiles for each of the next bins."""
        best = int(np.argmin(self.loss))
        mean = min(max(float(self.mean[best]), 0.0), past.ceiling())
        variance = float(self.dispersion[best]) * max(mean, _LEAST)
        row = np.minimum(negative_binomial(mean, variance), 2.0 * past.ceiling())
        return np.tile(row, (horizon, 1))


class EwmaNegativeBinomial(Arrivals):
    """A weighted mean of the newest counts, and a negative binomial with their variance.

    Examples
    --------
    >>> made = EwmaNegativeBinomial(horizon=1)
    >>> made.fit([4.0, 2.0, 6.0, 4.0] * 50)
    >>> made.predict(1, [0.5]).shape, bool(2.0 <= made.predict(1, [0.5])[0, 0] <= 6.0)
    ((1, 1), True)
    """

    def _expert(self) -> Expert:
        return Ewma()
