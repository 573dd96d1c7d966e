"""Upper bounds of what completed tasks needed, none of which is taken for a need.

The peak of a task that shared its process with others is bounded by what all of them held. Such a
bound may lie far above the need, so it neither makes a group one that needs much, nor weighs in a
ladder. It still says two things: what would have held every task that was seen, and how little the
least bounded of them needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Ceilings"]


@dataclass(slots=True)
class Ceilings:
    """How many bounds there are, the lowest and the highest of them.

    Attributes
    ----------
    n : int
    lowest, highest : float
        0 before the first.

    Examples
    --------
    >>> seen = Ceilings()
    >>> for value in (3e9, 1e9, 2e9):
    ...     seen.add(value)
    >>> seen
    Ceilings(n=3, lowest=1000000000.0, highest=3000000000.0)
    """

    n: int = 0
    lowest: float = 0.0
    highest: float = 0.0

    def add(self, value: float) -> None:
        """Take one more; positive, finite."""
        self.lowest = min(self.lowest, value) if self.n else value
        self.highest = max(self.highest, value)
        self.n += 1

    def state(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {"n": self.n, "lowest": self.lowest, "highest": self.highest}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ceilings:
        """Make one from :meth:`state`; what earlier versions kept has none."""
        return cls(
            int(state.get("n", 0)), float(state.get("lowest", 0)), float(state.get("highest", 0))
        )
