"""Weights of several forecasters, learnt online from the quantile loss, level by level.

Losses are of the roots of counts and means are of their logs, so that no single burst decides.

Bernstein online aggregation with the gradient trick (Wintenberger, "Optimal learning with Bernstein
online aggregation", Machine Learning 106, 2017): weights of the combination, which may be better
than the best of its parts, with learning rates that fit themselves to how much the losses vary.
Done for each level and step apart, a part of what was learnt shared between them (as in Berrisch
and Ziel, "CRPS learning", J. Econometrics 237, 2023). Slow forgetting, and a fixed share that no
forecaster falls below (Herbster and Warmuth, "Tracking the best expert", 1998), let another one
take over when the series changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import LEVELS, Array

__all__ = ["Aggregate"]

_BOLD = 4.0
"""Learning rates over those of the theory, which are for the worst case."""


class Aggregate(Kept):
    """Weights for ``rows`` forecasters.

    Parameters
    ----------
    rows, horizon : int
    forget : float
        Weight of a bin's loss one bin later.
    share : float
        What all forecasters have in common, in equal parts.
    pooled : float
        How much of what is learnt is shared between levels and steps.
    prior : sequence of float, optional
        How much each is believed in at first, in any unit.

    Attributes
    ----------
    weights : array, shape (rows, horizon, len(LEVELS))
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        "rows", "horizon", "forget", "share", "pooled", "prior"
    )  # fmt: skip
    LEARNT: ClassVar[tuple[str, ...]] = ("regret", "spread", "range", "weights")

    def __init__(
        self,
        rows: int,
        horizon: int,
        forget: float = 0.999,
        share: float = 0.01,
        pooled: float = 0.2,
        prior: Sequence[float] | None = None,
    ) -> None:
        self.rows, self.horizon = rows, horizon
        self.forget, self.share, self.pooled = forget, share, pooled
        self.prior = [1.0] * rows if prior is None else list(prior)
        believed = np.array(self.prior)
        self._believed = (believed / believed.sum())[:, None, None]
        shape = (rows, horizon, len(LEVELS))
        self.regret: Array = np.zeros(shape)
        self.spread: Array = np.zeros(shape[1:])
        self.range: Array = np.zeros(shape[1:])
        self.weights: Array = np.broadcast_to(self._believed, shape).copy()
        self._log = math.log(max(rows, 2))

    def mix(self, grids: Array) -> Array:
        """Give the combination: logs of quantiles averaged, level by level."""
        at = np.minimum(np.arange(grids.shape[1]), self.horizon - 1)
        weights = self.weights if grids.shape[1] == self.horizon else self.weights[:, at]
        made: Array = np.expm1((weights * np.log1p(grids)).sum(axis=0))
        return made

    def learn(self, grids: Array, mixed: Array, x: float, valid: np.ndarray) -> None:
        """Take what each said about a bin 1, 2, … bins before, and what came."""
        x, mixed, grids = math.sqrt(x), np.sqrt(mixed), np.sqrt(grids)
        slope = np.where(x < mixed, 1.0 - LEVELS, np.where(x > mixed, -LEVELS, 0.0))
        gain = np.where(valid[:, None], slope, 0.0) * (mixed - grids)
        self.range = np.maximum(self.range * self.forget, np.abs(gain).max(axis=0))
        self.spread = self.forget * self.spread + (gain * gain).mean(axis=0)
        rate = self._rate()
        self.regret = self.forget * self.regret + gain - rate * gain * gain
        score = _BOLD * rate * self.regret
        if self.pooled:
            whole = score.mean(axis=(1, 2), keepdims=True)
            score = (1.0 - self.pooled) * score + self.pooled * whole
        score = score - score.max(axis=0)
        made = self._believed * np.exp(score)
        made = made / made.sum(axis=0)
        self.weights = (1.0 - self.share) * made + self.share / self.rows

    def _rate(self) -> Array:
        tiny = 1e-12
        bound = 0.5 / np.maximum(self.range, tiny)
        return np.minimum(bound, np.sqrt(self._log / np.maximum(self.spread, tiny * tiny)))
