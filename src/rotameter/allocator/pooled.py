"""What is guessed of groups that nothing is known of: the needs of all others."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from rotameter.allocator.ladder import Ladder, grouped, priced
from rotameter.allocator.learner import HEADROOM, SLOT

__all__ = ["FEWEST", "Pool"]

FEWEST = 4
"""Groups from which another's needs are guessed."""

LATEST = 20
MOST_GROUPS = 256
"""Groups that are kept: those that completed something last."""

STEPS = 16
"""Needs within a step, of so many to a doubling, count as the step's upper end."""


class Pool:
    """The latest needs of every group, each group weighing the same."""

    __slots__ = ("_ladder", "_recent")

    def __init__(self) -> None:
        self._recent: dict[str, deque[int]] = {}
        self._ladder: Ladder | None = None

    def learn(self, group: str, need: float) -> None:
        """Take what a completed task needed; positive, finite."""
        kept = self._recent.pop(group, None)
        kept = deque(maxlen=LATEST) if kept is None else kept
        kept.append(math.ceil(STEPS * math.log2(need * (1 + HEADROOM)) - 1e-9))
        self._recent[group] = kept
        if len(self._recent) > MOST_GROUPS:
            del self._recent[next(iter(self._recent))]
        self._ladder = None

    @property
    def known(self) -> bool:
        """Whether there are enough groups to guess from."""
        return len(self._recent) >= FEWEST

    def first(self) -> float:
        """Size a first attempt."""
        return self._made().rungs[0]

    @property
    def largest(self) -> float:
        """Largest need among those kept, rounded up."""
        return float(2.0 ** (max(max(kept) for kept in self._recent.values()) / STEPS))

    def _made(self) -> Ladder:
        if self._ladder is None:
            pairs = (
                (2.0 ** (step / STEPS), 1.0 / len(kept))
                for kept in self._recent.values()
                for step in kept
            )
            self._ladder = priced(*grouped(pairs), len(self._recent), SLOT)
        return self._ladder

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {"recent": [[group, list(kept)] for group, kept in self._recent.items()]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Pool:
        """Make one from :meth:`state`."""
        made = cls()
        for group, kept in state["recent"]:
            made._recent[str(group)] = deque((int(v) for v in kept), maxlen=LATEST)
        return made
