"""What the gate knows of its groups' needs, from what workers measured of their tasks.

The peak of a task that ran alone is its need. Of one that ran beside others (a worker of several
threads) the process tells two bounds. It needed no more than all of them held; and no less than
what the process grew by, without what results were left and what the others need at most, as far
as that is known. Most such tasks are light, so the upper bound alone makes no group a hungry one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rotameter.adapters.dask.gate_limits import MEMORY
from rotameter.allocator.learner import COLD
from rotameter.allocator.needs import Record
from rotameter.units import format_bytes

if TYPE_CHECKING:
    from rotameter.allocator.default import Default

__all__ = ["Needs"]

SMALL = 0.5
"""A group is small whose tasks need no more than this part of what comes with a thread."""


class Needs:
    """Learns needs and bounds, and says which groups are large and small.

    Parameters
    ----------
    allocator : Default
    group_of : callable
        Gives the group of a key.
    share : callable
        Gives what comes with one thread now, bytes.
    """

    def __init__(
        self, allocator: Default, group_of: Callable[[Any], str], share: Callable[[], float]
    ) -> None:
        self._allocator, self._group_of, self._share = allocator, group_of, share

    def largest(self, group: str) -> float | None:
        """Give the largest need of a group's tasks that was measured."""
        return self._allocator.largest(group, MEMORY)

    def is_small(self, group: str) -> bool:
        """Say whether all that is known of a group's tasks is that they need little."""
        need, most = self.largest(group), self._allocator.ceilings(group, MEMORY)
        if need is None:
            need = most.highest if most.n >= COLD else None
        return need is not None and need <= SMALL * self._share()

    def learn(self, said: Mapping[str, Any], *, hungry: bool) -> bool:
        """Take what a completed task used; say whether its group is a hungry one.

        Parameters
        ----------
        said : mapping
            As a worker tells it.
        hungry : bool
            Whether it was one already: then a bound counts as a need, which errs to the safe side.
        """
        group, share = self._group_of(said["key"]), self._share()
        need, kind = float(max(1, said["peak"])), str(said["kind"])
        wall_s = float(said["wall"])
        record = Record(
            str(said["key"]), group, "ok", {MEMORY: need}, {MEMORY: kind}, wall_s=wall_s
        )
        if kind == "upper_bound" and not hungry and not self._is_large(said, group, need):
            self._allocator.bounded(record)
            return False
        self._allocator.observe(record)
        return need > share

    def _is_large(self, said: Mapping[str, Any], group: str, most: float) -> bool:
        """Say whether a task that ran beside others needs more than a thread's share for sure.

        It does not where any of its like is known to have needed less.
        """
        share, seen = self._share(), self._allocator.ceilings(group, MEMORY)
        if min(most, seen.lowest or most) <= share or seen.n + 1 < COLD:
            return False
        need = self.largest(group)
        return self._least(said, group) > share and (need is None or need > share)

    def _least(self, said: Mapping[str, Any], group: str) -> float:
        """Give what a task that ran beside others needed at least; 0 where nothing tells."""
        beside, at_once = said.get("beside"), int(said.get("at_once") or 0)
        if not beside or at_once < 2:
            return 0.0
        grew = float(said.get("grew") or 0) - float(said.get("left") or 0)
        groups = {self._group_of(name) for name in beside}
        if groups == {group}:  # Its like, which grew as much: one of them had its part at least.
            return grew / at_once
        known = [self._little(other) for other in groups]
        if group in groups or None in known:
            return 0.0
        return grew - (at_once - 1) * max(one for one in known if one is not None)

    def _little(self, group: str) -> float | None:
        """Give what the tasks of a group need at most, as far as it is known."""
        if self._allocator.completed(group, MEMORY) >= COLD:
            return self.largest(group)
        seen = self._allocator.ceilings(group, MEMORY)
        return seen.lowest if seen.n >= COLD else None

    def words(self, group: str, *, hungry: bool, watching: bool) -> str:
        """Say whether the tasks of a group wait for room, and why."""
        share = self._share()
        much = f" ({format_bytes(share)})" if math.isfinite(share) else ""
        comes = f"than comes with a thread{much}"
        if not hungry:
            return f"not held: no task is known to need more {comes}"
        held = "would be held but for `observe`" if watching else "held until there is room"
        return f"{held}: a task needed more {comes}, or ran out of memory"
