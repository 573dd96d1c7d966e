"""A link or a store whose bandwidth its users share equally.

Source of the method: processor sharing, kept in virtual time as in fair queueing (Demers, Keshav
and Shenker 1989): every active flow is served alike, so that one number (bytes served to each)
and a heap of finishing marks are enough; adding or ending a flow costs O(log n).
"""

from __future__ import annotations

import heapq

__all__ = ["Shared"]


class Shared:
    """One resource under equal sharing.

    Parameters
    ----------
    rate_bps : float
        Bytes a second, all flows together.

    Examples
    --------
    >>> link = Shared(10.0)
    >>> link.add(0.0, 100.0, 1); link.add(0.0, 50.0, 2)
    >>> link.next_s(), link.pop(link.next_s())
    (10.0, [2])
    >>> link.next_s()
    15.0
    """

    __slots__ = ("_at_s", "_flows", "_served", "rate_bps", "version")

    def __init__(self, rate_bps: float) -> None:
        self.rate_bps = rate_bps
        self.version = 0
        self._served = 0.0
        self._at_s = 0.0
        self._flows: list[tuple[float, int]] = []

    def _advance(self, now_s: float) -> None:
        if self._flows:
            self._served += (now_s - self._at_s) * self.rate_bps / len(self._flows)
        self._at_s = now_s

    def add(self, now_s: float, size_bytes: float, node: int) -> None:
        """Begin a flow."""
        self._advance(now_s)
        heapq.heappush(self._flows, (self._served + size_bytes, node))
        self.version += 1

    def next_s(self) -> float:
        """Give when the next flow ends, if none begins before; infinite where there is none."""
        if not self._flows:
            return float("inf")
        left = max(0.0, self._flows[0][0] - self._served)
        return self._at_s + left * len(self._flows) / self.rate_bps

    def pop(self, now_s: float) -> list[int]:
        """End the flows that are done at the time :meth:`next_s` gave."""
        mark = self._flows[0][0]
        self._served, self._at_s = mark, now_s
        done = []
        while self._flows and self._flows[0][0] <= mark * (1 + 1e-12):
            done.append(heapq.heappop(self._flows)[1])
        self.version += 1
        return sorted(done)
