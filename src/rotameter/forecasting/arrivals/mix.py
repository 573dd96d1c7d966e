"""Several forecasters, weighed by the quantile loss that each has had.

Unlike any one of them it is never far off: where counts are zero for long and then burst, where a
level hardly moves, and where the season is all there is, another part leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.aggregate import Aggregate
from rotameter.forecasting.arrivals.base import Arrivals
from rotameter.forecasting.arrivals.engine import Engine, Expert, Origins, Point
from rotameter.forecasting.arrivals.ewma import Mean
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.last import Last
from rotameter.forecasting.arrivals.least_squares import LeastSquares
from rotameter.forecasting.arrivals.levels import LEVELS, Array
from rotameter.forecasting.arrivals.past import Past
from rotameter.forecasting.arrivals.seasonal import Seasonal
from rotameter.forecasting.arrivals.tracking import Tracking

__all__ = ["ExpertMix", "Mixed", "parts"]

TUNED_ON = ("nasa", "surf", "kth", "lcg")
"""The series on whose first 70 % the numbers in this file were chosen; none else was."""


_WHOLE = 0.05
"""Quantiles this near to a whole number are it, where all counts were whole."""


def parts(season: int, horizon: int) -> list[tuple[Point, float]]:
    """Give the forecasters that are mixed, and how much each is believed in at first."""
    made: list[tuple[Point, float]] = [
        (LeastSquares(season, horizon, 0.999), 4.0),
        (LeastSquares(season, horizon, 0.999, space="root"), 4.0),
        (LeastSquares(season, horizon, 1.0, kind="steady", every=8), 4.0),
        (LeastSquares(season, horizon, 0.999, space="root", kind="plain"), 4.0),
        (LeastSquares(season, horizon, 0.99, space="root", kind="short", every=2), 2.0),
        (Mean(0.25), 1.0),
        (Last(), 1.0),
    ]
    if season > 1:
        made.append((Seasonal(around=True), 1.0))
    return made


def _is_steady(point: Point) -> bool:
    return isinstance(point, LeastSquares) and point.kind == "steady"


class Mixed(Kept):
    """The mix as an expert: parts with quantiles of their own, weights, levels that are kept.

    Attributes
    ----------
    mixed : array, shape (horizon, len(LEVELS))
        What is said about the next bins.
    """

    PARTS: ClassVar[tuple[str, ...]] = (
        "engine", "weighing", "tracking", "grids_said", "mixed_said", "final_said"
    )  # fmt: skip
    LEARNT: ClassVar[tuple[str, ...]] = ("mixed", "final")

    def __init__(
        self,
        points: Sequence[tuple[Point, float]],
        horizon: int,
        window: int = 1000,
    ) -> None:
        self.horizon = horizon
        slow = [row for row, (point, _) in enumerate(points) if _is_steady(point)]
        self.engine = Engine([point for point, _ in points], horizon, window, steady=slow)
        rows, levels = len(points), len(LEVELS)
        self.weighing = Aggregate(rows, horizon, prior=[belief for _, belief in points])
        self.tracking = Tracking(horizon)
        self.grids_said = Origins(horizon, (rows, levels))
        self.mixed_said = Origins(horizon, (levels,))
        self.final_said = Origins(horizon, (levels,))
        self.mixed: Array = np.zeros((horizon, levels))
        self.final: Array = np.zeros((horizon, levels))

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        if past.fresh:
            newest = past.count - 1
            grids, valid = self.grids_said.about(newest)
            mixed, _ = self.mixed_said.about(newest)
            final, _ = self.final_said.about(newest)
            self.weighing.learn(grids.transpose(1, 0, 2), mixed, past.latest, valid)
            self.tracking.learn(final, past.latest, valid)
        self.engine.learn(past)
        self.mixed = self.weighing.mix(self.engine.grids)
        self.final = self._read(self.mixed, past)
        self.grids_said.say(past.count, self.engine.grids.transpose(1, 0, 2))
        self.mixed_said.say(past.count, self.mixed)
        self.final_said.say(past.count, self.final)

    def grid(self, past: Past, horizon: int) -> Array:
        """Give quantiles at `LEVELS` for each of the next bins."""
        if horizon == self.horizon:
            return self.final
        return self._read(self.weighing.mix(self.engine.all_grids(past, horizon)), past)

    def _read(self, mixed: Array, past: Past) -> Array:
        """Move levels; take what is next to a whole count to be it, where all counts were."""
        made = self.tracking.read(mixed)
        if not past.whole:
            return made
        near = np.rint(made)
        return np.where(np.abs(made - near) <= _WHOLE, near, made)


class ExpertMix(Arrivals):
    """A mix of least squares, weighted means, the last value and the season.

    Examples
    --------
    >>> made = ExpertMix(season=4, horizon=2)
    >>> made.fit([0.0, 2.0, 9.0, 2.0] * 60)
    >>> made.predict(2, [0.5]).round(1).tolist()
    [[0.0], [2.0]]
    """

    SPACES: ClassVar[tuple[str, ...]] = ("log", "root")

    def _expert(self) -> Expert:
        return Mixed(parts(self.season, self.horizon), self.horizon)
