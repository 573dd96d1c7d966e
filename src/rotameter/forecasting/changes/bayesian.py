"""Bayesian online detection: the chances of each moment at which the present regime began.

Adams and MacKay (2007), "Bayesian online changepoint detection", arXiv 0710.3742. Counts follow a
negative binomial distribution, whose dispersion is estimated; the chance p of each regime has a
beta prior, so that a regime's evidence is exact. Tempering a Poisson likelihood by the dispersion
instead gives fifty times as many false alarms.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.baseline import LARGEST, WARM, centre, reading
from rotameter.values import Change

__all__ = ["Bayesian"]

MOST = 8
"""Beginnings that are kept; the least likely go first."""

YOUNG = 3

FAR = {"counts": 5.0, "values": 3.0}
"""A single value counts as at most so many spreads; the normal distribution has no long tail."""

RECENT = 32
"""Values that the level after a change is taken from."""

MEMORY = 500
"""Values that a regime's level goes back, about."""

SPREAD_MEMORY = 250
"""Values that the dispersion goes back, over all regimes."""

PRIOR = 2.0
"""Values' worth of belief that a new regime is like the present one (counts)."""

WIDE = 9.0
"""Prior variance of a new regime's level, in variances (other values)."""

_NEAR_POISSON = 100.0
_LEAST = 1e-300

Likelihood = Literal["counts", "values"]


def _beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


class _Regime:
    """A beginning, what followed, and how likely it is."""

    __slots__ = ("at_ns", "kept", "n", "prior", "total", "weight")

    def __init__(self, at_ns: int, weight: float, prior: float) -> None:
        self.at_ns, self.weight, self.prior = at_ns, weight, prior
        self.n, self.total = 0.0, 0.0
        self.kept = 0.0

    def state(self) -> list[Any]:
        return [self.at_ns, self.weight, self.prior, self.n, self.total, self.kept]

    @classmethod
    def from_state(cls, state: list[Any]) -> _Regime:
        made = cls(int(state[0]), float(state[1]), float(state[2]))
        made.n, made.total, made.kept = map(float, state[3:6])
        return made


class Bayesian:
    """Bayesian online change point detection with few beginnings kept.

    Parameters
    ----------
    likelihood : {"counts", "values"}
        Negative binomial, for counts and other amounts, of which negative ones count as 0; or
        normal, for residuals and logarithms.
    hazard : float
        Chance of a change at each value.
    sure : float
        How likely it must be that a regime has begun since the last change.

    Notes
    -----
    Counts may have any unit: the smallest step between the first values serves as one. Level and
    dispersion of the present regime are estimated from it and shared by all beginnings.
    ``confidence`` is the probability that there was a change.

    Examples
    --------
    >>> watch = Bayesian()
    >>> values = [20.0, 21.0, 19.0, 28.0, 12.0] * 10 + [45.0] * 5
    >>> [c.at_ns for at, x in enumerate(values) if (c := watch.update(at, x))]
    [50]
    """

    __slots__ = ("_age", "_first", "_level", "_n", "_present", "_r", "_ratio", "_recent", "_regimes", "_unit", "hazard", "likelihood", "sure")  # fmt: skip  # noqa: E501

    def __init__(
        self, likelihood: Likelihood = "counts", hazard: float = 1e-3, sure: float = 0.7
    ) -> None:
        if likelihood not in ("counts", "values"):
            raise PolicyError(f"unknown likelihood {likelihood!r}", hint="counts or values")
        if not (0 < hazard < 1 and 0 < sure < 1):
            raise PolicyError(f"hazard {hazard!r} and sure {sure!r} must be between 0 and 1")
        self.likelihood, self.hazard, self.sure = likelihood, float(hazard), float(sure)
        self._first: list[tuple[int, float]] = []
        # Level and dispersion (variance over level of counts, else variance) in units of one.
        self._unit = self._r = self._ratio = 1.0
        self._level = self._n = 0.0
        self._age = 0
        self._regimes: list[_Regime] = []
        self._present = 1
        self._recent: deque[float] = deque(maxlen=RECENT)

    def update(self, at_ns: int, x: float) -> Change | None:
        """Take one value; give the change that it reveals, at the first value after it."""
        value = reading(x)
        if value is None:
            return None
        if self.likelihood == "counts":
            value = max(value, 0.0)
        if not self._regimes:
            self._gather(at_ns, value)
            return None
        self._recent.append(min(max(value / self._unit, -LARGEST), LARGEST))
        y = self._pulled(self._recent[-1])
        # By what was believed before: what looks odd would else never count as ordinary.
        believed = sum(regime.weight for regime in self._regimes[: self._present])
        self._weigh(at_ns, y)
        self._follow(y, believed)
        new = sum(regime.weight for regime in self._regimes[self._present :])
        if new < self.sure:
            return None
        return self._changed(new)

    # -- beginning --------------------------------------------------------------------------

    def _gather(self, at_ns: int, value: float) -> None:
        first = self._first
        first.append((at_ns, value))
        if len(first) < WARM:
            return
        values = [x for _, x in first]
        mean, spread = centre(values)
        counts = self.likelihood == "counts"
        if counts and mean <= 0.0:
            del first[0]  # Nothing yet that could be counted in.
            return
        self._unit = self._step(values, mean, spread)
        self._level = mean / self._unit
        variance = max(spread / self._unit, 1e-3 * abs(self._level)) ** 2
        self._ratio = max(variance / self._level, 1.0) if counts else max(variance, 1e-18)
        self._n = float(len(values))
        self._shape()
        begun = _Regime(first[0][0], 1.0, self._prior())
        begun.n, begun.total = self._n, self._n * self._level
        self._regimes, self._present = [begun], 1
        self._reckon()
        first.clear()

    def _step(self, values: list[float], mean: float, spread: float) -> float:
        """Give the amount that counts as one."""
        if self.likelihood == "values":
            return max(spread, 1e-9 * abs(mean)) or 1.0
        spread = max(spread, 1e-3 * mean)
        marks = sorted({0.0, *values})
        gaps = (b - a for a, b in pairwise(marks))
        step = min((gap for gap in gaps if gap > 1e-9 * mean), default=mean)
        # What varies less than a Poisson variable is counted in coarser steps.
        return min(step, spread * spread / mean)

    def _shape(self) -> None:
        """Find r of the negative binomial: level + level² / r is the variance."""
        level = max(self._level, 1e-3)
        self._r = level / max(self._ratio - 1.0, 1.0 / _NEAR_POISSON)

    def _prior(self) -> float:
        if self.likelihood == "values":
            return self._level
        return PRIOR / max(self._level, 1e-3)

    def _pulled(self, y: float) -> float:
        """Pull in what is far from the present level, so that one odd value is no change."""
        scale = self._ratio
        if self.likelihood == "counts":
            scale *= max(self._level, 1e-3)
        far = FAR[self.likelihood] * math.sqrt(scale)
        low, high = self._level - far, self._level + far
        return low if y < low else high if y > high else y

    # -- evidence ---------------------------------------------------------------------------

    def _reckon(self) -> None:
        """Compute each beginning's evidence anew, after r has changed."""
        if self.likelihood == "counts":
            for regime in self._regimes:
                regime.kept = self._evidence(regime)

    def _evidence(self, regime: _Regime) -> float:
        """Give the logarithm of a regime's evidence but for what all regimes share."""
        return _beta(1.0 + self._r * (regime.prior + regime.n), PRIOR + regime.total)

    def _weigh(self, at_ns: int, y: float) -> None:
        """Update how likely each beginning is; one may be now."""
        regimes = self._regimes
        begun = _Regime(at_ns, self.hazard, self._prior())
        counts = self.likelihood == "counts"
        if counts:
            begun.kept = self._evidence(begun)
        for regime in regimes:
            regime.weight *= 1.0 - self.hazard
        regimes.append(begun)
        logs = []
        for regime in regimes:
            regime.n += 1.0
            regime.total += y
            if counts:
                kept = self._evidence(regime)
                logs.append(kept - regime.kept)
                regime.kept = kept
            else:
                logs.append(self._normal(regime, y))
            if regime.n > MEMORY:
                self._forget(regime)
        top = max(logs)
        whole = 0.0
        for regime, log in zip(regimes, logs, strict=True):
            regime.weight = max(regime.weight * math.exp(log - top), _LEAST)
            whole += regime.weight
        for regime in regimes:
            regime.weight /= whole
        if len(regimes) > MOST:
            self._drop()

    def _drop(self) -> None:
        """Drop the least likely of the beginnings that are not new; one of the present stays."""
        regimes = self._regimes
        old = range(0 if self._present > 1 else 1, len(regimes) - YOUNG)
        least = min(old, key=lambda k: regimes[k].weight)
        del regimes[least]
        if least < self._present:
            self._present -= 1

    def _normal(self, regime: _Regime, y: float) -> float:
        """Give the log density of a value that has just been added to a regime."""
        precision = 1.0 / WIDE + regime.n - 1.0
        mean = (regime.prior / WIDE + regime.total - y) / precision
        variance = self._ratio * (1.0 + 1.0 / precision)
        return -0.5 * (math.log(variance) + (y - mean) ** 2 / variance)

    def _forget(self, regime: _Regime) -> None:
        kept = MEMORY / regime.n
        regime.n *= kept
        regime.total *= kept
        if self.likelihood == "counts":
            regime.kept = self._evidence(regime)

    def _follow(self, y: float, believed: float) -> None:
        """Learn level and dispersion of the present regime."""
        self._n = min(self._n + 1.0, MEMORY)
        weight = believed / self._n
        away = y - self._level
        self._level += weight * away
        self._age += 1
        square = (1.0 - weight) * away * away
        if self.likelihood == "counts":
            square /= max(self._level, 1e-3)
        # The dispersion is that of all regimes: a new one alone would say little of it.
        known = believed / min(self._age + WARM, SPREAD_MEMORY)
        least = 1e-3 if self.likelihood == "counts" else 1e-18
        self._ratio = max(self._ratio + known * (square - self._ratio), least)
        if self._age % 16 == 0 and self.likelihood == "counts":
            self._shape()
            self._reckon()

    def _changed(self, sure: float) -> Change:
        regimes = self._regimes[self._present :]
        best = max(range(len(regimes)), key=lambda k: regimes[k].weight)
        before, new = self._level * self._unit, regimes[best]
        # As they were, not pulled in: what they are is the level now.
        after = median(list(self._recent)[-math.ceil(new.n) :])
        new.total = after * new.n
        self._n, self._level = new.n, self._posterior(new)
        # All that began until now explain this change; the next one begins later.
        self._regimes = regimes[best:]
        self._present = len(self._regimes)
        whole = sum(regime.weight for regime in self._regimes)
        for regime in self._regimes:
            regime.weight /= whole
        self._shape()
        self._reckon()
        return Change(new.at_ns, before, after * self._unit, min(sure, 1.0))

    def _posterior(self, regime: _Regime) -> float:
        """Give the level that a regime's values and the prior make likely."""
        if self.likelihood == "counts":
            return (PRIOR + regime.total) / (regime.prior + regime.n)
        return (regime.prior / WIDE + regime.total) / (1.0 / WIDE + regime.n)

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "schema": 1,
            "likelihood": self.likelihood,
            "hazard": self.hazard,
            "sure": self.sure,
            "first": [list(pair) for pair in self._first],
            "unit": self._unit,
            "r": self._r,
            "ratio": self._ratio,
            "level": self._level,
            "n": self._n,
            "age": self._age,
            "present": self._present,
            "recent": list(self._recent),
            "regimes": [regime.state() for regime in self._regimes],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Bayesian:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = cls(state["likelihood"], state["hazard"], state["sure"])
        made._first = [(int(at), float(x)) for at, x in state["first"]]
        made._unit, made._r = float(state["unit"]), float(state["r"])
        made._ratio, made._level = float(state["ratio"]), float(state["level"])
        made._n, made._age = float(state["n"]), int(state["age"])
        made._present = int(state["present"])
        made._recent.extend(map(float, state["recent"]))
        made._regimes = [_Regime.from_state(kept) for kept in state["regimes"]]
        return made
