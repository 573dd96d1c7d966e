"""A weighted record of needs in bounded memory: as many candidate rungs as a ladder can use.

Up to ``most`` needs are kept exactly. Beyond that the two neighbours are joined whose joining costs
least: everything in the lower one is then taken to need as much as the upper one, which is safe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

__all__ = ["Sketch"]


class Sketch:
    """Needs, ascending, and the weight of each.

    Parameters
    ----------
    most : int
        Different needs that are kept.

    Attributes
    ----------
    values, weights : list of float
        Ascending; each weight is of the needs above the value before and up to this one.

    Examples
    --------
    >>> kept = Sketch(most=2)
    >>> for need in (1.0, 5.0, 1.1):
    ...     kept.add(need, 1.0)
    >>> kept.values, kept.weights
    ([1.1, 5.0], [2.0, 1.0])
    """

    __slots__ = ("most", "values", "weights")

    def __init__(self, most: int = 96) -> None:
        self.most = most
        self.values: list[float] = []
        self.weights: list[float] = []

    def add(self, value: float, weight: float) -> None:
        """Take a need of this weight; both positive and finite."""
        at = bisect_left(self.values, value)
        if at < len(self.values) and self.values[at] == value:
            self.weights[at] += weight
            return
        self.values.insert(at, value)
        self.weights.insert(at, weight)
        if len(self.values) > self.most:
            self._join()

    def _join(self) -> None:
        values, weights = self.values, self.weights
        costs = [
            (upper - lower) * weight
            for lower, upper, weight in zip(values, values[1:], weights, strict=False)
        ]
        at = costs.index(min(costs))
        weights[at + 1] += weights[at]
        del values[at], weights[at]

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {"most": self.most, "values": list(self.values), "weights": list(self.weights)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Sketch:
        """Make one from :meth:`state`."""
        made = cls(int(state["most"]))
        made.values = [float(v) for v in state["values"]]
        made.weights = [float(w) for w in state["weights"]]
        return made
