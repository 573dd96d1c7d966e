"""Gradient-boosted trees for each quantile and step, fitted anew now and then.

Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29
(2001), with histograms as scikit-learn has them. A fit takes seconds, so it is done seldom: this is
a yardstick, and a part for those who can wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from rotameter.forecasting.arrivals.base import Arrivals
from rotameter.forecasting.arrivals.engine import Expert
from rotameter.forecasting.arrivals.features import back
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import ASKED, LEVELS, NORMAL, Array
from rotameter.forecasting.arrivals.past import Past

__all__ = ["Boosted", "BoostedQuantiles", "fit_quantiles"]

_LEAST = 100
_ASKED: Array = np.array(ASKED)


def fit_quantiles(
    x: Array, z: Array, levels: Iterable[float] = ASKED, trees: int = 100
) -> list[Any]:
    """Fit one model a level to features ``x`` and values ``z``."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return [
        HistGradientBoostingRegressor(
            loss="quantile",
            quantile=level,
            max_iter=trees,
            learning_rate=0.08,
            max_leaf_nodes=15,
            min_samples_leaf=20,
            early_stopping=False,
            random_state=0,
        ).fit(x, z)
        for level in levels
    ]


class Boosted(Kept):
    """Quantiles by boosted trees in log space.

    Parameters
    ----------
    horizon : int
    refit : int
        Known bins between two fits; the first is after 100.
    window : int
        Newest bins that a fit sees.
    trees : int
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("horizon", "refit", "window", "trees")
    LEARNT: ClassVar[tuple[str, ...]] = ("x", "z", "fitted_x", "fitted_z", "since")

    def __init__(
        self, horizon: int, refit: int = 2000, window: int = 8000, trees: int = 100
    ) -> None:
        self.horizon, self.refit, self.window, self.trees = horizon, refit, window, trees
        self.x: list[Array] = []
        self.z: list[float] = []
        self.fitted_x: list[Array] = []
        self.fitted_z: list[float] = []
        self.since = 0
        self.models: list[list[Any]] = []

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        if not past.fresh:
            return
        then = past.tracks["log"].then
        if then[-1, 0] == 0.0:  # It was not foretold from every step.
            return
        self.x.append(then)
        self.z.append(past.of("log"))
        if len(self.x) > self.window:
            del self.x[0], self.z[0]
        self.since += 1
        due = self.since >= self.refit if self.fitted_x else len(self.x) >= _LEAST
        if due:
            self.fitted_x, self.fitted_z, self.since = list(self.x), list(self.z), 0
            self.models = []

    def _fit(self) -> None:
        """Fit to what was set aside when it was due: only where someone asks."""
        x, z = np.array(self.fitted_x), np.array(self.fitted_z)
        self.models = [
            fit_quantiles(x[:, step], z, trees=self.trees) for step in range(self.horizon)
        ]

    def grid(self, past: Past, horizon: int) -> Array:
        """Give quantiles at `LEVELS` for each of the next bins."""
        if self.fitted_x and not self.models:
            self._fit()
        track = past.tracks["log"]
        if not self.models:
            middle = np.full((horizon, 1), track.mean(0, past.end))
            made = middle + NORMAL
        else:
            x = track.features(past.count, past.end, horizon)
            rows = [
                [float(m.predict(x[step : step + 1])[0]) for m in self.models[at]]
                for step in range(horizon)
                for at in [min(step, self.horizon - 1)]
            ]
            made = np.array([_tails(row) for row in np.sort(rows, axis=1)])
        top = np.log1p(2.0 * past.ceiling())
        return back("log", np.clip(made, 0.0, top))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what was learnt; the trees grow again from what they were fitted to."""
        super().restore(state)
        self.models = []


def _tails(row: Array) -> Array:
    """Give `LEVELS` from the levels that are fitted: the tails are drawn on straight."""
    made = np.interp(LEVELS, _ASKED, row)
    low, high = row[1] - row[0], row[-1] - row[-2]
    made[:2] = row[0] - low * np.array([0.8, 0.5])
    made[-2:] = row[-1] + high * np.array([0.5, 0.8])
    return made


class BoostedQuantiles(Arrivals):
    """Gradient-boosted trees for each quantile and step.

    Parameters
    ----------
    season, horizon, step_ns
        As of every forecaster of arrivals.
    refit, window, trees : int
        Bins between two fits, bins that a fit sees, and trees a model.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (*Arrivals.SETTINGS, "refit", "window", "trees")

    def __init__(
        self,
        season: int = 0,
        horizon: int = 6,
        step_ns: int | None = None,
        refit: int = 2000,
        window: int = 8000,
        trees: int = 100,
    ) -> None:
        super().__init__(season, horizon, step_ns, refit=refit, window=window, trees=trees)

    refit: int
    window: int
    trees: int

    def _expert(self) -> Expert:
        return Boosted(self.horizon, self.refit, self.window, self.trees)
