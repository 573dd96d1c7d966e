"""The last value: what came in the last bin comes in the next ones."""

from __future__ import annotations

import numpy as np

from rotameter.forecasting.arrivals.base import Arrivals, OfPoint
from rotameter.forecasting.arrivals.engine import Expert
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import Array
from rotameter.forecasting.arrivals.past import Past

__all__ = ["Last", "LastValue"]


class Last(Kept):
    """The newest count that is known."""

    space = "count"

    def learn(self, past: Past) -> None:
        """Take the newest bin: there is nothing to learn."""

    def points(self, past: Past, horizon: int) -> Array:
        """Give it for each of the next bins."""
        return np.full(horizon, past.latest)


class LastValue(Arrivals):
    """The last value, with quantiles of how far off that was: hard to beat for levels.

    Examples
    --------
    >>> made = LastValue(horizon=2)
    >>> made.fit([5.0] * 100)
    >>> made.predict(2, [0.5]).round(3).tolist()
    [[5.0], [5.0]]
    """

    def _expert(self) -> Expert:
        return OfPoint(Last(), self.horizon)
