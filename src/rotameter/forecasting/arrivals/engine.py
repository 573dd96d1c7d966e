"""What all point forecasters share: errors made at earlier origins, and quantiles from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from rotameter.forecasting.arrivals.features import back, into
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import LEVELS, Array
from rotameter.forecasting.arrivals.past import Past
from rotameter.forecasting.arrivals.residuals import Residuals, Scale

__all__ = ["Engine", "Expert", "Origins", "Point"]


class Point(Protocol):
    """A point forecaster that works in one space of counts.

    Attributes
    ----------
    space : {"log", "root", "count"}
    """

    space: str

    def learn(self, past: Past) -> None:
        """Take the newest bin; it may be missing (``past.fresh``)."""

    def points(self, past: Past, horizon: int) -> Array:
        """Give the middle of what comes in each of the next bins, in its space."""


class Expert(Protocol):
    """A forecaster of quantiles without an intake of its own."""

    def learn(self, past: Past) -> None:
        """Take the newest bin; it may be missing (``past.fresh``)."""

    def grid(self, past: Past, horizon: int) -> Array:
        """Give quantiles at `LEVELS` for each of the next bins: shape (horizon, n_levels)."""


class Origins(Kept):
    """What was said at the last few origins, and which of it is about the newest bin.

    Parameters
    ----------
    horizon : int
    shape : sequence of int
        Of what is said about one step ahead.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("horizon", "shape")
    LEARNT: ClassVar[tuple[str, ...]] = ("said", "when")

    def __init__(self, horizon: int, shape: Sequence[int]) -> None:
        self.horizon, self.shape = horizon, tuple(shape)
        self.said: Array = np.zeros((horizon, horizon, *self.shape))
        self.when = np.full(horizon, -1, dtype=np.int64)
        self._steps = np.arange(horizon)

    def about(self, newest: int) -> tuple[Array, np.ndarray]:
        """Give what was said about a bin 1, 2, … bins before it, and where that is so."""
        origins = newest - self._steps
        slots = origins % self.horizon
        return self.said[slots, self._steps], self.when[slots] == origins

    def say(self, origin: int, value: Array) -> None:
        """Keep what is said at an origin, shape (horizon, *shape)."""
        self.said[origin % self.horizon] = value
        self.when[origin % self.horizon] = origin


class Engine(Kept):
    """Several point forecasters and the quantiles around each.

    Parameters
    ----------
    experts : sequence of Point
        The first one's errors set the scale. Those that work in counts themselves do without it.
    horizon : int
    window : int
        Bins whose errors are kept.
    steady : sequence of int
        Numbers of the experts whose quantiles are those of the long window, whatever the scale is
        expected to be.

    Attributes
    ----------
    grids : array, shape (len(experts), horizon, len(LEVELS))
        What each says about the next bins, in counts.
    """

    PARTS: ClassVar[tuple[str, ...]] = ("experts", "residuals", "scale", "points_said", "bases")
    LEARNT: ClassVar[tuple[str, ...]] = ("grids",)

    def __init__(
        self,
        experts: Sequence[Point],
        horizon: int,
        window: int = 1000,
        *,
        steady: Sequence[int] = (),
    ) -> None:
        self.experts, self.horizon = list(experts), horizon
        rows = len(self.experts)
        self._kinds = np.zeros(rows, dtype=np.int64)
        self._kinds[list(steady)] = 1
        self._rows = np.arange(rows)
        self.residuals = Residuals(rows, horizon, window)
        self.scale = Scale(horizon)
        self.points_said = Origins(horizon, (rows,))
        self.bases = Origins(horizon, (3,))
        self.grids: Array = np.zeros((rows, horizon, len(LEVELS)))
        spaces = np.array([expert.space for expert in self.experts])
        self._of = {name: np.flatnonzero(spaces == name) for name in np.unique(spaces).tolist()}
        self._plain = ((self._kinds == 1) | (spaces == "count"))[:, None]

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        if past.fresh:
            self._take(past)
        for expert in self.experts:
            expert.learn(past)
        ceiling = past.ceiling()
        points = self._points(past, self.horizon, ceiling)
        self.points_said.say(past.count, points.T)
        basis = self.scale.basis(self._level(points))
        self.bases.say(past.count, basis)
        self.grids = self._spread(points, basis, ceiling)

    def _take(self, past: Past) -> None:
        newest = past.count - 1
        said, valid = self.points_said.about(newest)
        basis, _ = self.bases.about(newest)
        said = said.T
        truth = np.array([past.of(expert.space) for expert in self.experts])
        errors = truth[:, None] - said
        over = self._scales(self._level(said), self.scale.expected(basis))
        self.residuals.push(errors / over, valid)
        self.scale.learn(errors[0], basis, valid)

    def _points(self, past: Past, horizon: int, ceiling: float) -> Array:
        points = np.array([expert.points(past, horizon) for expert in self.experts])
        clipped: Array = np.clip(points, 0.0, self._top(ceiling)[:, None])
        return clipped

    def _top(self, ceiling: float) -> Array:
        """Give a count in the space of each expert."""
        return np.array([into(expert.space, ceiling) for expert in self.experts])

    def _level(self, points: Array) -> Array:
        """Give what the first expert says in log units."""
        first: Array = points[0]
        return first if self.experts[0].space == "log" else np.log1p(first)

    def _scales(self, level: Array, scale: Array) -> Array:
        """Give the scale for each expert in its space: a root's is steeper by its level."""
        out: Array = np.where(self._plain, 1.0, scale)
        if "root" in self._of:
            out[self._of["root"]] = scale * (0.5 * np.exp(0.5 * np.clip(level, 0.0, 40.0)))
        return out

    def _spread(self, points: Array, basis: Array, ceiling: float) -> Array:
        """Lay the quantiles of past errors around points; give counts."""
        table = self.residuals.table[self._kinds, self._rows]
        if points.shape[1] != self.horizon:
            table = table[:, np.minimum(np.arange(points.shape[1]), self.horizon - 1)]
        wide = self._scales(self._level(points), self.scale.expected(basis))
        made = points[:, :, None] + wide[:, :, None] * table
        # Twice the ceiling of points: what is above the middle may be rare.
        made = np.clip(made, 0.0, self._top(2.0 * ceiling)[:, None, None])
        for space, rows in self._of.items():
            if space != "count":
                made[rows] = back(space, made[rows])
        return made

    def all_grids(self, past: Past, horizon: int) -> Array:
        """Give what each says about any number of next bins."""
        if horizon == self.horizon:
            return self.grids
        ceiling = past.ceiling()
        points = self._points(past, horizon, ceiling)
        return self._spread(points, self.scale.basis(self._level(points)), ceiling)
