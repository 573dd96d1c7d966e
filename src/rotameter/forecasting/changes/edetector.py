"""An e-detector: a mixture of Shiryaev-Roberts sums of e-values.

Shin, Ramdas and Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change
detection", New England Journal of Statistics in Data Science 2. Where what came before is known, a
false alarm comes after 1/α values on average, or later. Here it is learnt on the way, so that this
holds about, not exactly; the benchmarks count false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.baseline import Baseline, reading, tilt
from rotameter.values import Change

__all__ = ["EDetector"]

SHIFTS = (0.7, -0.7, 1.3, -1.3, 2.4, -2.4)
"""Moves of the level that are mixed, in spreads, with equal weights."""


class EDetector:
    """Mixture e-SR detector on values in units of their own dispersion.

    Parameters
    ----------
    alpha : float
        One over the mean number of values until a false alarm.

    Notes
    -----
    ``confidence`` of a change is 1 - n / M, where M is the sum after n values: M / n is the mean
    of n e-values. It is 0 where that says nothing.

    Examples
    --------
    >>> watch = EDetector()
    >>> values = [20.0, 21.0, 19.0, 22.0, 18.0] * 10 + [35.0] * 5
    >>> [c.at_ns for at, x in enumerate(values) if (c := watch.update(at, x))]
    [50]
    """

    __slots__ = ("_base", "_n", "_sums", "_tilts", "alpha")

    def __init__(self, alpha: float = 1e-4) -> None:
        if not 0 < alpha < 1:
            raise PolicyError(f"alpha {alpha!r} is not between 0 and 1")
        self.alpha = float(alpha)
        self._base = Baseline()
        self._sums, self._n = [0.0] * len(SHIFTS), 0
        self._tilts = [(0.0, 0.0)] * len(SHIFTS)

    def update(self, at_ns: int, x: float) -> Change | None:
        """Take one value; give the change that it reveals, at the first value after it."""
        value = reading(x)
        if value is None:
            return None
        base = self._base
        if not base.n:
            if base.gather(at_ns, value):
                self._learnt()
            return None
        z = base.z(value)
        if base.take(at_ns, value):
            self._learnt()
        self._n += 1
        exp, sums = math.exp, self._sums
        self._sums = sums = [
            (1.0 + m) * exp(weight * z - off)
            for m, (weight, off) in zip(sums, self._tilts, strict=True)
        ]
        total = sum(sums) / len(sums)
        if total * self.alpha < 1.0:
            return None
        return self._changed(total)

    def _learnt(self) -> None:
        lean = self._base.lean
        self._tilts = [tilt(shift, lean) for shift in SHIFTS]

    def _changed(self, total: float) -> Change:
        base = self._base
        sign = math.copysign(1.0, SHIFTS[self._sums.index(max(self._sums))])
        before, sure = base.level, max(0.0, 1.0 - self._n / total)
        kept = base.renew(base.since(sign))
        self._sums, self._n = [0.0] * len(SHIFTS), 0
        if base.n:
            self._learnt()
        return Change(kept[0][0], before, median(x for _, x in kept), sure)

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "schema": 1,
            "alpha": self.alpha,
            "n": self._n,
            "sums": list(self._sums),
            "base": self._base.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EDetector:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = cls(state["alpha"])
        made._n, made._sums = int(state["n"]), [float(m) for m in state["sums"]]
        made._base = Baseline.from_state(state["base"])
        made._learnt()
        return made
