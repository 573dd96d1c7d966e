"""Forecasts at the origins of one series, with what came, and how good they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rotameter.forecasting.arrivals.levels import Array, weighted_loss

__all__ = ["Forecasts"]


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Quantiles for several origins.

    Attributes
    ----------
    forecaster : str
    season, horizon : int
    levels : tuple of float
        Levels of the quantiles.
    origins : array of int
        Index of the first bin that is foretold, of each.
    values : array, shape (origins, horizon, levels)
    truth : array, shape (origins, horizon)
        What came; NaN where that is not known.
    """

    forecaster: str
    season: int
    horizon: int
    levels: tuple[float, ...]
    origins: np.ndarray
    values: Array
    truth: Array

    @property
    def weighted_loss(self) -> float | None:
        """Twice the mean quantile loss over the mean of what came; None where nothing did."""
        return weighted_loss(self.values, self.truth, self.levels)

    def coverage(self, low: float = 0.1, high: float = 0.9) -> float | None:
        """Give the share of bins between two levels; None where they are not among them."""
        known = np.isfinite(self.truth)
        if low not in self.levels or high not in self.levels or not known.any():
            return None
        below, above = self.levels.index(low), self.levels.index(high)
        inside = (self.truth >= self.values[..., below]) & (self.truth <= self.values[..., above])
        return float(inside[known].mean())
