"""Recursive least squares with forgetting on transformed counts, one regression a horizon.

Exponentially weighted recursive least squares: Ljung and Söderström, "Theory and Practice of
Recursive Identification" (1983), kept here as the normal equations rather than their inverse, with
a ridge that is never forgotten, so that a series that stands still cannot wind them up. One
regression a horizon ("direct" forecasts): Marcellino, Stock and Watson, J. Econometrics 135 (2006).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.base import Arrivals, OfPoint
from rotameter.forecasting.arrivals.engine import Expert
from rotameter.forecasting.arrivals.features import columns
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import Array
from rotameter.forecasting.arrivals.past import Past

__all__ = ["LeastSquares", "RecursiveLeastSquares"]

_EARLY = 400
"""Bins during which the weights are solved for at each one."""


class LeastSquares(Kept):
    """Regressions of the next bins on what came before.

    Parameters
    ----------
    season, horizon : int
    forget : float
        Weight of a bin one bin later; 1: nothing is forgotten.
    space : {"log", "root"}
    kind : {"full", "plain", "short", "steady"}
        Which features.
    ridge : float
        Pull towards the first guess (as the last bins), in bins.
    every : int
        Bins between two solutions of the weights, once there are many.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        "season", "horizon", "forget", "space", "kind", "ridge", "every"
    )  # fmt: skip
    LEARNT: ClassVar[tuple[str, ...]] = ("a", "b", "w", "known", "since")

    def __init__(
        self,
        season: int,
        horizon: int,
        forget: float = 0.999,
        space: str = "log",
        kind: str = "full",
        ridge: float = 8.0,
        every: int = 4,
    ) -> None:
        self.season, self.horizon, self.forget = season, horizon, forget
        self.space, self.kind, self.ridge, self.every = space, kind, ridge, every
        season = season if season > 1 else 0
        self.names = columns(season, kind)
        every_name = columns(season)
        self.columns = [every_name.index(name) for name in self.names]
        self._all = self.names == every_name
        d = len(self.names)
        self.a: Array = np.zeros((horizon, d, d))
        self.b: Array = np.zeros((horizon, d))
        self.first = self._first_guess()
        self.w: Array = np.tile(self.first, (horizon, 1))
        self.known = 0
        self.since = 0
        self._ridges = ridge * np.eye(d)

    def _first_guess(self) -> Array:
        guess = {"lag1": 0.7, "mean": 0.3}
        return np.array([guess.get(name, 0.0) for name in self.names])

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        if not past.fresh:
            return
        x = past.tracks[self.space].then
        if not self._all:
            x = x[:, self.columns]
        # Features are zero where there was no origin: such a row changes nothing.
        off = np.where(x[:, 0] > 0.0, past.of(self.space), 0.0) - x @ self.first
        self.a *= self.forget
        self.a += x[:, :, None] * x[:, None, :]
        self.b *= self.forget
        self.b += x * off[:, None]
        self.known += 1
        self.since += 1
        if self.since >= self.every or self.known <= _EARLY:
            self.solve()

    def solve(self) -> None:
        """Take the weights anew."""
        self.since = 0
        # What is so much larger than all else that it hides it must not make them singular.
        size = np.trace(self.a, axis1=1, axis2=2)[:, None, None] * (1e-9 / len(self.columns))
        whole = self.a + self._ridges * (1.0 + size)
        self.w = self.first + np.linalg.solve(whole, self.b[:, :, None])[:, :, 0]

    def points(self, past: Past, horizon: int) -> Array:
        """Give the middle of what comes in each of the next bins, in this space."""
        track = past.tracks[self.space]
        same = horizon == self.horizon
        x = track.now if same else track.features(past.count, past.end, horizon)
        if not self._all:
            x = x[:, self.columns]
        w = self.w if same else self.w[np.minimum(np.arange(horizon), self.horizon - 1)]
        made: Array = (x * w).sum(axis=1)
        return made


class RecursiveLeastSquares(Arrivals):
    """Least squares on log counts that forget slowly, with rolling quantiles of their errors.

    Parameters
    ----------
    season, horizon, step_ns
        As of every forecaster of arrivals.
    forget : float
        Weight of a bin one bin later.

    Examples
    --------
    >>> made = RecursiveLeastSquares(season=4, horizon=2)
    >>> made.fit([0.0, 2.0, 9.0, 2.0] * 60)
    >>> made.predict(2, [0.5]).round(1).tolist()
    [[0.0], [2.0]]
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (*Arrivals.SETTINGS, "forget")

    def __init__(
        self,
        season: int = 0,
        horizon: int = 6,
        step_ns: int | None = None,
        forget: float = 0.999,
    ) -> None:
        super().__init__(season, horizon, step_ns, forget=forget)

    forget: float

    def _expert(self) -> Expert:
        return OfPoint(LeastSquares(self.season, self.horizon, self.forget), self.horizon)
