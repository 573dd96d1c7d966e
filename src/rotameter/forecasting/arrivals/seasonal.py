"""The seasonal naive: what came a season ago comes again."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.base import Arrivals, OfPoint
from rotameter.forecasting.arrivals.engine import Expert
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import Array
from rotameter.forecasting.arrivals.past import Past

__all__ = ["Seasonal", "SeasonalNaive"]


class Seasonal(Kept):
    """What came a season before the target; without a season what came last.

    Parameters
    ----------
    around : bool
        The mean of five bins about it instead, which is less noisy.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("around",)

    def __init__(self, around: bool = False) -> None:
        self.around = around
        self.space = "log" if around else "count"

    def learn(self, past: Past) -> None:
        """Take the newest bin: there is nothing to learn."""

    def points(self, past: Past, horizon: int) -> Array:
        """Give it for each of the next bins."""
        if not past.season:
            latest = np.log1p(past.latest) if self.around else past.latest
            return np.full(horizon, latest)
        track = past.tracks["log"]
        if horizon == past.horizon:
            seen = track.now
        else:
            seen = track.features(past.count, past.end, horizon)
        return seen[:, 11].copy() if self.around else np.expm1(seen[:, 10])


class SeasonalNaive(Arrivals):
    """What came a season ago, with quantiles of how far off that was.

    Examples
    --------
    >>> made = SeasonalNaive(season=4, horizon=2)
    >>> made.fit([0.0, 2.0, 9.0, 2.0] * 40)
    >>> made.predict(2, [0.5]).round(2).tolist()
    [[0.0], [2.0]]
    """

    def _expert(self) -> Expert:
        return OfPoint(Seasonal(), self.horizon)
