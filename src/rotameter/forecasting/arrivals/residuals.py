"""From points to distributions: rolling quantiles of what several point forecasters were off by.

What a forecast was off by is taken over the scale that was expected then, kept for the newest
``window`` bins, horizon by horizon, and its empirical quantiles are laid around the next points.
The scale follows the level and how unsteady the series has been lately, so that the intervals widen
and narrow with it. Empirical quantiles of past errors as intervals: Williams and Goodman, "A simple
method for the construction of empirical confidence limits for economic forecasts", JASA 66 (1971).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import LEVELS, NORMAL, Array

__all__ = ["Residuals", "Scale"]

_NONE = 1e300
"""Where no error is yet: larger than any."""

_PRIOR = 8.0
"""Bins' worth of belief in normal errors while few are known."""

_OFTEN = 64
"""Up to this many bins quantiles are taken anew at each; later at every eighth."""

_THIN = 4
"""Of the long window every fourth error is kept."""

_WIDE = 1.2533
"""Standard deviation over mean absolute deviation of a normal distribution."""


class Residuals(Kept):
    """Rolling quantiles for ``rows`` forecasters and ``horizon`` steps.

    Parameters
    ----------
    rows, horizon : int
    window : int
        Newest errors that are kept, and as many of every fourth before: four times as long.

    Attributes
    ----------
    table : array, shape (2, rows, horizon, len(LEVELS))
        Quantiles of errors in units of the scale: of the newest (half from the newest fifth), and
        over the long window.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("rows", "horizon", "window")
    LEARNT: ClassVar[tuple[str, ...]] = ("held", "known", "at", "far", "since", "pushed", "table")

    def __init__(self, rows: int, horizon: int, window: int = 1000) -> None:
        self.rows, self.horizon, self.window = rows, horizon, window
        self.held: Array = np.full((rows, horizon, window), _NONE)
        self.far: Array = np.full((rows, horizon, window), _NONE)
        self.known = np.zeros(horizon, dtype=np.int64)
        self.at = np.zeros(horizon, dtype=np.int64)
        self.since = self.pushed = 0
        self.table: Array = np.tile(_WIDE * NORMAL, (2, rows, horizon, 1))

    def push(self, errors: Array, valid: np.ndarray) -> None:
        """Take errors over their scale, shape (rows, horizon), where they are valid."""
        steps = np.flatnonzero(valid)
        if not steps.size:
            return
        self.held[:, steps, self.at[steps]] = errors[:, steps]
        self.at[steps] = (self.at[steps] + 1) % self.window
        self.known[steps] = np.minimum(self.known[steps] + 1, self.window)
        if self.pushed % _THIN == 0:
            self.far[:, :, (self.pushed // _THIN) % self.window] = np.where(valid, errors, 0.0)
        self.pushed += 1
        self.since += 1
        if self.since >= 8 or int(self.known[0]) <= _OFTEN:
            self.since = 0
            self._take()

    def _take(self) -> None:
        """Take the quantiles anew."""
        whole = self._quantiles(self.held, self.known)
        near, few = whole, self.window // 5
        if int(self.known[-1]) > few:
            newest = (self.at[:, None] - 1 - np.arange(few)) % self.window
            held = self.held[:, np.arange(self.horizon)[:, None], newest]
            near = 0.5 * (whole + self._quantiles(held, np.full(self.horizon, few)))
        if self.pushed <= self.window:
            self.table = np.stack([near, whole])
            return
        self.table = np.stack([near, self.table[1]])
        if self.pushed % (8 * _THIN) < 8:
            kept = min(-(-self.pushed // _THIN), self.window)
            self.table[1] = self._quantiles(self.far, np.full(self.horizon, kept))

    def _quantiles(self, held: Array, known: np.ndarray) -> Array:
        most = max(int(known.max()), 2)
        ordered = np.sort(held[:, :, :most], axis=-1)
        places = LEVELS * known[:, None] - 0.5
        places = np.clip(places, 0.0, np.maximum(known[:, None] - 1.0, 0.0))
        low = places.astype(np.int64)
        high = np.minimum(low + 1, np.maximum(known[:, None] - 1, 0))
        steps = np.arange(self.horizon)[:, None]
        below, above = ordered[:, steps, low], ordered[:, steps, high]
        none = (known == 0)[:, None]
        below, above = np.where(none, 0.0, below), np.where(none, 0.0, above)
        made = below + (above - below) * (places - low)
        share = (known / (known + _PRIOR))[:, None]
        out: Array = share * made + (1.0 - share) * _WIDE * NORMAL
        return out


class Scale(Kept):
    """How far off forecasts are expected to be, step by step, in log units.

    The mean absolute error as a regression on what counts of a level must vary by in log space
    (sqrt(level) / (1 + level)) and on how far off one-step forecasts were lately, with forgetting.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("horizon",)
    LEARNT: ClassVar[tuple[str, ...]] = ("a", "b", "w", "mean", "lately", "known", "since")

    FIRST = 0.5
    _FORGET = 0.999
    _FROM = 30

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.a: Array = np.zeros((horizon, 3, 3))
        self.b: Array = np.zeros((horizon, 3))
        self.w: Array = np.zeros((horizon, 3))
        self.mean: Array = np.full(horizon, self.FIRST)
        self.lately = self.FIRST
        self.known = 0
        self.since = 0

    def basis(self, points: Array) -> Array:
        """Give what the scale is regressed on, for points in log units."""
        out = np.empty((len(points), 3))
        out[:, 0] = 1.0
        level = np.exp(np.minimum(points, 60.0))
        out[:, 1] = np.sqrt(np.maximum(level - 1.0, 0.0)) / level
        out[:, 2] = self.lately
        return out

    def expected(self, basis: Array) -> Array:
        """Give the scale for each step ahead; beyond the last one's that of the last."""
        at = np.minimum(np.arange(len(basis)), self.horizon - 1)
        mean = self.mean[at]
        if self.known < self._FROM:
            return np.maximum(mean, 1e-6)
        made = (basis * self.w[at]).sum(axis=1)
        bounded: Array = np.maximum(np.clip(made, 0.25 * mean, 4.0 * mean), 1e-6)
        return bounded

    def learn(self, errors: Array, basis: Array, valid: np.ndarray) -> None:
        """Take errors (log units) and what was known when they were made."""
        size = np.abs(errors)
        rate = max(0.005, 1.0 / (self.known + 2.0))
        self.mean = np.where(valid, self.mean + rate * (size - self.mean), self.mean)
        if valid[0]:
            self.lately += 0.15 * (float(size[0]) - self.lately)
        u = np.where(valid[:, None], basis, 0.0)
        self.a = self._FORGET * self.a + u[:, :, None] * u[:, None, :]
        self.b = self._FORGET * self.b + u * np.where(valid, size, 0.0)[:, None]
        self.known += 1
        self.since += 1
        if self.since >= 8 or self.known <= 2 * self._FROM:
            self.since = 0
            # Towards the plain mean: a ridge on what it adds to it.
            ridge = np.diag([1e-3, 1.0, 1.0])
            first = np.zeros((self.horizon, 3))
            first[:, 0] = self.mean
            gap = self.b - (self.a @ first[:, :, None])[:, :, 0]
            self.w = first + np.linalg.solve(self.a + ridge, gap[:, :, None])[:, :, 0]
