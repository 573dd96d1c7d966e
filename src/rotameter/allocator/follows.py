"""Needs that follow a number known before the run, such as the bytes of input.

Each need is divided by what a line through the earlier ones says (recency-weighted least squares,
clipped to between half the smallest and twice the largest need); the cheapest ladder of these
ratios, times what the line says of the next task, is its ladder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from rotameter.allocator.ladder import Ladder, grouped, priced

__all__ = ["FEWEST", "Follows"]

FEWEST = 5
"""Tasks from which a line is drawn."""

LATEST = 100


class Follows:
    """A line from sizes to needs, and the needs' ratios to it.

    Parameters
    ----------
    headroom, slot : float
        As in :mod:`~rotameter.allocator.learner`: added to needs; price of an attempt's slot.
    """

    __slots__ = ("_headroom", "_ladder", "_range", "_ratios", "_slot", "_sums", "n")

    def __init__(self, headroom: float, slot: float) -> None:
        self._headroom, self._slot = headroom, slot
        self.n = 0
        # Weights, and their sums with x, y, x², xy; x about the first size, for the digits' sake.
        self._sums = [0.0] * 6
        self._range = (0.0, 0.0)
        self._ratios: deque[tuple[float, float]] = deque(maxlen=LATEST)
        self._ladder: Ladder | None = None

    def learn(self, need: float, seconds: float, size: float) -> None:
        """Take what a completed task of this size needed, and how long it ran."""
        said = self._says(size)
        if said is not None:
            self._ratios.append((need * (1 + self._headroom) / said, seconds * said * self.n))
            self._ladder = None
        if not self.n:
            self._sums[5], self._range = size, (need, need)
        self.n += 1
        x, w = size - self._sums[5], float(self.n)
        for at, term in enumerate((1.0, x, need, x * x, x * need)):
            self._sums[at] += w * term
        self._range = (min(self._range[0], need), max(self._range[1], need))

    def _says(self, size: float) -> float | None:
        """Give the line's need for a size; None where there is no line yet."""
        whole, sx, sy, sxx, sxy, origin = self._sums
        if self.n < 2:
            return None
        spread = sxx - sx * sx / whole
        slope = (sxy - sx * sy / whole) / spread if spread > 1e-12 * max(sxx, 1e-300) else 0.0
        value = (sy - slope * sx) / whole + slope * (size - origin)
        return min(max(value, 0.5 * self._range[0]), 2.0 * self._range[1])

    def ladder(self, size: float) -> Ladder | None:
        """Give the ladder of a task of this size; None where too few are known."""
        said = self._says(size)
        if said is None or len(self._ratios) < FEWEST:
            return None
        if self._ladder is None:
            values, weights = grouped(self._ratios)
            self._ladder = priced(values, weights, len(self._ratios), self._slot)
        return Ladder(tuple(rung * said for rung in self._ladder.rungs), self._ladder.cost * said)

    def seen(self, size: float) -> tuple[list[float], list[float], int]:
        """Give what a task of this size may need, the weight of each, and from how many."""
        said = self._says(size) or 0.0
        values, weights = grouped(self._ratios)
        return [value * said for value in values], weights, len(self._ratios)

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "n": self.n,
            "sums": list(self._sums),
            "range": list(self._range),
            "ratios": [list(pair) for pair in self._ratios],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self.n = int(state["n"])
        self._sums = [float(v) for v in state["sums"]]
        low, high = state["range"]
        self._range = (float(low), float(high))
        self._ratios.extend((float(a), float(b)) for a, b in state["ratios"])
        self._ladder = None
