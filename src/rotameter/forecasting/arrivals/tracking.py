"""Coverage that is kept: levels moved where too many or too few bins fell below them lately.

Quantile tracking, online conformal prediction under distribution shift: Gibbs and Candès, "Adaptive
conformal inference under distribution shift" (2021); Angelopoulos, Candès and Tibshirani,
"Conformal PID control for time series prediction" (2023). Levels are moved rather than values,
which needs no unit; and only by what chance does not explain, so that a forecaster that is right
is left alone. Counts are whole: a level is right where fewer lie below its quantile and more lie at
or below it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import LEVELS, Array

__all__ = ["Tracking"]

_MEMORY = 0.005
"""Weight of the newest bin in the shares that fell below; of 400 bins, about."""

_DOUBT = 2.0 * np.sqrt(LEVELS * (1.0 - LEVELS) * _MEMORY / (2.0 - _MEMORY))
"""Two standard deviations of such a share."""


class Tracking(Kept):
    """Levels at which the quantiles of a forecaster are read, so that they hold what they say.

    Parameters
    ----------
    horizon : int
    rate : float
        How much of what is off a level moves by after a bin; 0: never.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("horizon", "rate")
    LEARNT: ClassVar[tuple[str, ...]] = ("moved", "under", "upto")

    def __init__(self, horizon: int, rate: float = 0.005) -> None:
        self.horizon, self.rate = horizon, rate
        self.moved: Array = np.zeros((horizon, len(LEVELS)))
        self.under: Array = np.tile(LEVELS, (horizon, 1))
        self.upto: Array = np.tile(LEVELS, (horizon, 1))
        self._most = 0.5 * np.minimum(LEVELS, 1.0 - LEVELS)

    def learn(self, said: Array, x: float, valid: np.ndarray) -> None:
        """Take quantiles said 1, 2, … bins before a bin, and what came in it."""
        pace = np.where(valid, _MEMORY, 0.0)[:, None]
        self.under = self.under + pace * ((x < said) - self.under)
        self.upto = self.upto + pace * ((x <= said) - self.upto)
        # Steps are correlated: what was off is off for as many bins as there are steps.
        doubt = _DOUBT * np.sqrt(np.arange(1, self.horizon + 1))[:, None]
        down = np.maximum(self.under - LEVELS - doubt, 0.0)
        up = np.maximum(LEVELS - self.upto - doubt, 0.0)
        step = self.rate * np.where(valid[:, None], up - down, 0.0)
        self.moved = np.clip(self.moved + step, -self._most, self._most)

    def read(self, grid: Array) -> Array:
        """Give the quantiles at the moved levels, in order."""
        out = np.sort(grid, axis=-1)
        if not self.rate or not self.moved.any():
            return out
        for row in range(len(grid)):
            moved = self.moved[min(row, self.horizon - 1)]
            if moved.any():
                out[row] = np.interp(LEVELS + moved, LEVELS, out[row])
        out.sort(axis=-1)
        return out
