"""Cumulative sums, up and down, of values in units of their own dispersion.

Page (1954), "Continuous inspection schemes", Biometrika 41; the two sums are of log-likelihood
ratios for a level that moved by a set number of spreads (Lorden 1971). What the series was like
before is learnt on the way, and again after each change.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.baseline import Baseline, reading, tilt
from rotameter.values import Change

__all__ = ["Cusum"]


class Cusum:
    """Two-sided CUSUM, scaled by dispersion, that learns its baseline anew after each change.

    Parameters
    ----------
    shift : float
        The move to look for, in spreads.
    threshold : float
        Log-likelihood ratio at which there is a change.

    Notes
    -----
    Values count in the order in which they are given; times are labels. What is no finite number
    is passed over. Twenty-four values are needed before anything is judged.

    Examples
    --------
    >>> watch = Cusum()
    >>> values = [20.0, 21.0, 19.0, 22.0, 18.0] * 10 + [35.0] * 5
    >>> [c.at_ns for at, x in enumerate(values) if (c := watch.update(at, x))]
    [50]
    """

    __slots__ = ("_base", "_down", "_tilts", "_up", "shift", "threshold")

    def __init__(self, shift: float = 1.2, threshold: float = 8.0) -> None:
        if not (shift > 0 and threshold > 0):
            raise PolicyError(f"shift {shift!r} and threshold {threshold!r} must be positive")
        self.shift, self.threshold = float(shift), float(threshold)
        self._base = Baseline()
        self._up = self._down = 0.0
        self._tilts = (0.0, 0.0, 0.0, 0.0)

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
        rise, off, fall, less = self._tilts
        up = self._up + rise * z - off
        down = self._down + fall * z - less
        self._up = up if up > 0.0 else 0.0
        self._down = down if down > 0.0 else 0.0
        if up < self.threshold and down < self.threshold:
            return None
        return self._changed(1.0 if up >= down else -1.0)

    def _learnt(self) -> None:
        lean = self._base.lean
        self._tilts = (*tilt(self.shift, lean), *tilt(-self.shift, lean))

    def _changed(self, sign: float) -> Change:
        base = self._base
        before = base.level
        kept = base.renew(base.since(sign))
        self._up = self._down = 0.0
        if base.n:
            self._learnt()
        return Change(kept[0][0], before, median(x for _, x in kept))

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "schema": 1,
            "shift": self.shift,
            "threshold": self.threshold,
            "up": self._up,
            "down": self._down,
            "base": self._base.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Cusum:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = cls(state["shift"], state["threshold"])
        made._up, made._down = float(state["up"]), float(state["down"])
        made._base = Baseline.from_state(state["base"])
        made._learnt()
        return made
