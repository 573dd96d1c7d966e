"""Ridge regression on log counts, solved seldom: least squares that forget nothing.

Hoerl and Kennard, "Ridge regression", Technometrics 12 (1970).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rotameter.forecasting.arrivals.base import Arrivals, OfPoint
from rotameter.forecasting.arrivals.engine import Expert
from rotameter.forecasting.arrivals.least_squares import LeastSquares

__all__ = ["RidgeLog"]

_NEVER = 1 << 62


class RidgeLog(Arrivals):
    """One regression a horizon on log counts, all bins weighing alike.

    Parameters
    ----------
    season, horizon, step_ns
        As of every forecaster of arrivals.
    refit : int, optional
        Bins between two solutions; None: after `fit` the weights stay as they are.

    Examples
    --------
    >>> made = RidgeLog(season=4, horizon=2)
    >>> made.fit([0.0, 2.0, 9.0, 2.0] * 60)
    >>> made.predict(2, [0.5]).round(1).tolist()
    [[0.0], [2.0]]
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (*Arrivals.SETTINGS, "refit")

    def __init__(
        self,
        season: int = 0,
        horizon: int = 6,
        step_ns: int | None = None,
        refit: int | None = 500,
    ) -> None:
        super().__init__(season, horizon, step_ns, refit=refit)

    refit: int | None

    def _expert(self) -> Expert:
        every = _NEVER if self.refit is None else self.refit
        return OfPoint(
            LeastSquares(self.season, self.horizon, forget=1.0, every=every), self.horizon
        )

    def fit(self, series: Iterable[float]) -> None:
        """Begin anew and learn from a whole series."""
        squares = None
        self._begin()
        for number, x in enumerate(series, 1):
            self.take(float(x))
            squares = self.expert.engine.experts[0]
            if number % 500 == 0:
                squares.solve()
        if squares is not None:
            squares.solve()
