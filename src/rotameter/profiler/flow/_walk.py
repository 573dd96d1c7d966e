"""The walk back from a run's last end over what released each attempt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow._releases import (
    Bursts,
    Ran,
    bursts,
    by_input,
    by_retry,
    by_slot,
    nested,
)
from rotameter.profiler.flow._stretches import Stretches

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import View

__all__ = ["Step", "Walk"]

Step = tuple[float, float, str, int, str | None]
"""Start, end, kind, attempt (-1 = none), what released it."""

_ROUNDING_S = 1e-6
_TRIGGERED = 0.1
_DEEPEST = 32


class Walk:
    """The walk back; pieces are collected last first."""

    def __init__(self, seen: View, graph: FlowGraph, runs: Ran, first: float, last: float) -> None:
        self.seen, self.first, self.last = seen, first, last
        inner, self.children = nested(seen, runs, first, last)
        self.every = Ran.joined(runs, inner)
        self.stretches = Stretches(seen, graph, self.every)
        self.start, self.end = self.every.start.tolist(), self.every.end.tolist()
        self.task, self.worker = self.every.task.tolist(), self.every.worker.tolist()
        self.submitted, self.ready = runs.submitted.tolist(), runs.ready.tolist()
        self.input = by_input(runs, graph).tolist()
        self.retry = by_retry(seen, runs).tolist()
        self.slot = by_slot(runs).tolist()
        made: Bursts = bursts(runs)
        self.burst, self.rate = made.start.tolist(), made.rate.tolist()
        self.ends, self.by_end = made.ends.tolist(), made.by_end.tolist()
        self.visited: set[int] = set()
        self.pieces: list[Step] = []

    def pieces_in_time(self) -> list[Step]:
        """Walk, and give the pieces in order of time, like neighbours joined."""
        at, now = self._last_ended(self.last), self.last
        while at is not None:
            if self.end[at] < now and not self.visited:
                self._add(self.end[at], now, "other", -1)
            at, now = self._step(at, min(now, self.end[at]))
        if now > self.first:
            self._add(self.first, now, "other" if not self.visited else "wait_client", -1)
        return _neighbours(reversed(self.pieces))

    def _add(self, low: float, high: float, kind: str, at: int, by: str | None = None) -> None:
        if high > low:
            self.pieces.append((low, high, kind, at, by))

    def _step(self, at: int, now: float) -> tuple[int | None, float]:
        """Go back over one attempt's run and its wait: the attempt before, and when it ended."""
        self.visited.add(at)
        start = min(self.start[at], now)
        by, other, until = self._released(at, start)
        whole = self.end[at] - now <= _ROUNDING_S and self.start[at] - start <= _ROUNDING_S
        parts = self._run(at, start, now, whole, 0)
        for place, (low, high, kind, owner) in reversed(list(enumerate(parts))):
            self._add(low, high, kind, owner, by if place == 0 else None)
        if by == "submission":
            self._wait(at, until, start)
            return self._before(at, until, other)
        if by == "none":
            return self._before(at, start, None)
        self._wait(at, until, start, again=by == "retry")
        return other, until

    def _released(self, at: int, start: float) -> tuple[str, int | None, float]:
        """Say what let an attempt begin: (what, the attempt if any, when)."""
        causes = (("input", self.input[at]), ("retry", self.retry[at]), ("slot", self.slot[at]))
        best: tuple[str, int | None, float] = ("none", None, -np.inf)
        for name, other in causes:
            if other >= 0 and other not in self.visited and self.end[other] > best[2]:
                best = (name, other, self.end[other])
        known_at = self.submitted[at]
        unsaid = known_at != known_at and self.ready[at] != self.ready[at]
        if unsaid and best[1] is not None and not self._close(best[2], start):
            # Nothing says since when it waited: an end right before may be what it waited for.
            other = self._last_ended(start)
            if other is not None and self.end[other] > best[2]:
                fresh = self.burst[bisect_right(self.burst, start) - 1] >= start
                if fresh or self._close(self.end[other], start):
                    return "order", other, min(self.end[other], start)
        if best[1] is None and known_at != known_at:
            known_at = self.ready[at]
        if known_at == known_at and known_at > best[2]:
            return "submission", None if best[0] == "slot" else best[1], min(known_at, start)
        return best[0], best[1], min(best[2], start)

    def _close(self, ended: float, now: float) -> bool:
        """Say whether an end this near would be rare by chance, as ends come in this burst."""
        place = max(bisect_right(self.burst, now) - 1, 0)
        return bool((now - ended) * self.rate[place] < _TRIGGERED)

    def _before(self, at: int, now: float, cause: int | None) -> tuple[int | None, float]:
        """Go back from a submission: what the client waited for, or how long it took alone."""
        waiting = "wait_client" if self.submitted[at] == self.submitted[at] else self.stretches.idle
        ended = self._last_ended(now)
        place = max(bisect_right(self.burst, now) - 1, 0)
        begun = self.burst[place]
        if begun < now:
            # Work was under way: only an end right before can have made the client submit.
            close = ended is not None and self._close(self.end[ended], now)
            if not close and cause is None:
                self._add(begun, now, waiting, at)
                now, ended = begun, self._last_ended(begun)
            elif not close:
                ended = cause
        if ended is None:
            self._add(self.first, now, waiting, at)
            return None, self.first
        until = min(self.end[ended], now)
        self._add(until, now, waiting, at)
        return ended, until

    def _last_ended(self, now: float) -> int | None:
        """Give the attempt that ended last until then, of those not walked yet."""
        place = bisect_right(self.ends, now) - 1
        while place >= 0 and self.by_end[place] in self.visited:
            place -= 1
        return self.by_end[place] if place >= 0 else None

    def _wait(self, at: int, low: float, high: float, *, again: bool = False) -> None:
        if high <= low:
            return
        holder = self.input[at]
        peers = {self.worker[holder]} - {-1} if holder >= 0 else set()
        for start, end, kind in reversed(self.stretches.wait(at, low, high, peers, again=again)):
            self._add(start, end, kind, at)

    def _run(
        self, at: int, low: float, high: float, whole: bool, depth: int
    ) -> list[tuple[float, float, str, int]]:
        """Split a run, going into the attempts nested in it."""
        kids, ends = self.children.get(self.task[at], ((), ()))
        if not kids or self.stretches.lost[at] or depth >= _DEEPEST:
            pieces = self.stretches.run(at, low, high, whole=whole)
            return [(start, end, kind, at) for start, end, kind in pieces]
        made: list[tuple[float, float, str, int]] = []
        now, place = high, bisect_right(ends, high) - 1
        while place >= 0 and ends[place] > low:
            kid = kids[place]
            place -= 1
            if ends[place + 1] > now or self.start[kid] < low or self.start[kid] >= now:
                continue
            own = self.stretches.run(at, ends[place + 1], now, whole=False)
            made.extend((s, e, kind, at) for s, e, kind in reversed(own) if e > s)
            inner = self._run(kid, self.start[kid], ends[place + 1], True, depth + 1)
            made.extend(reversed(inner))
            now = self.start[kid]
        own = self.stretches.run(at, low, now, whole=False)
        made.extend((s, e, kind, at) for s, e, kind in reversed(own) if e > s)
        return made[::-1]


def _neighbours(pieces: Iterable[Step]) -> list[Step]:
    """Join what follows itself: the same attempt, the same kind."""
    made: list[Step] = []
    for low, high, kind, at, by in pieces:
        if made and made[-1][2:4] == (kind, at) and by is None:
            made[-1] = (made[-1][0], high, kind, at, made[-1][4])
        else:
            made.append((low, high, kind, at, by))
    return made
