"""EASY backfilling in one pool of one resource."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["easy_starts"]

_NEVER = 1 << 62


def easy_starts(
    arrive_s: Sequence[int],
    held_s: Sequence[int],
    limit_s: Sequence[int],
    size: Sequence[int],
    capacity: int,
) -> list[int]:
    """Give when each job starts if those behind the first may overtake without delaying it.

    The first job of the queue has a reservation at the moment at which, by the limits of those
    that run, enough will be free (Lifka 1995; Mu'alem and Feitelson 2001). Another may start now
    if it is over by then, or takes only what the first will leave free.

    A job that arrives while nothing ends is the only new thing: it alone is tried. At an end all
    are, and only then is the reservation worked out again.

    Parameters
    ----------
    arrive_s : sequence of int
        Non-decreasing.
    held_s, limit_s : sequence of int
        How long each job runs, and may run; the first is never larger.
    size : sequence of int
        What each takes, at most ``capacity``.
    capacity : int

    Examples
    --------
    The third job is short and overtakes the second; the fourth is long and may not.

    >>> easy_starts([0, 1, 2, 3], [10, 5, 8, 9], [10, 5, 8, 9], [2, 3, 1, 1], 3)
    [0, 10, 2, 15]
    """
    return _Run(arrive_s, held_s, limit_s, size, capacity).run()


class _Run:
    """Starts are written out where they happen: a call for each would cost a fifth of the speed."""

    __slots__ = (
        "arrive_s", "bits", "ends", "extra", "free", "held_s", "limit_s", "mask", "queue",
        "release", "shadow", "size", "starts",
    )  # fmt: skip

    def __init__(
        self,
        arrive_s: Sequence[int],
        held_s: Sequence[int],
        limit_s: Sequence[int],
        size: Sequence[int],
        capacity: int,
    ) -> None:
        n = len(arrive_s)
        self.arrive_s, self.held_s, self.limit_s, self.size = arrive_s, held_s, limit_s, size
        self.bits = max(n, 1).bit_length()
        self.mask = (1 << self.bits) - 1
        self.starts = [0] * n
        self.ends: list[int] = []  # a heap of end << bits | job
        self.release: list[int] = []  # sorted, latest end << bits | job
        self.queue: list[int] = []
        self.free = capacity
        self.shadow, self.extra = -1, 0  # the first job's reservation; -1: not worked out

    def run(self) -> list[int]:
        """Give the start of each job (s)."""
        arrive_s, ends, queue, bits = self.arrive_s, self.ends, self.queue, self.bits
        n, i = len(arrive_s), 0
        moment = -_NEVER  # of the last arrival tried alone: others then come before any end
        while i < n or queue:
            arrival = arrive_s[i] if i < n else _NEVER
            now = ends[0] >> bits if ends else _NEVER
            if arrival < now or arrival == moment:
                moment = arrival
                self._arrive(i, arrival)
                i += 1
                continue
            self._end(now)
            while i < n and arrive_s[i] == now:
                queue.append(i)
                i += 1
            if queue:
                self._in_order(now)
                if self.free and len(queue) > 1:
                    self._fill(now)
        return self.starts

    def _arrive(self, job: int, now: int) -> None:
        """Try a job that arrives while nothing ends."""
        wants = self.size[job]
        if wants > self.free:
            self.queue.append(job)
            return
        latest = now + self.limit_s[job]
        if self.queue:
            if self.shadow < 0:
                self._reserve()
            if latest > self.shadow:
                if wants > self.extra:
                    self.queue.append(job)
                    return
                self.extra -= wants
        self.starts[job] = now
        self.free -= wants
        heappush(self.ends, (now + self.held_s[job]) << self.bits | job)
        insort(self.release, latest << self.bits | job)

    def _end(self, now: int) -> None:
        """Take out all that end at this moment."""
        ends, release, bits, mask = self.ends, self.release, self.bits, self.mask
        while ends and ends[0] >> bits == now:
            job = heappop(ends) & mask
            self.free += self.size[job]
            latest = self.starts[job] + self.limit_s[job]
            del release[bisect_left(release, latest << bits | job)]
        self.shadow = -1

    def _in_order(self, now: int) -> None:
        """Start what fits, up to the first that does not."""
        size, bits, queue, free = self.size, self.bits, self.queue, self.free
        first = 0
        for job in queue:
            wants = size[job]
            if wants > free:
                break
            self.starts[job] = now
            free -= wants
            heappush(self.ends, (now + self.held_s[job]) << bits | job)
            insort(self.release, (now + self.limit_s[job]) << bits | job)
            first += 1
        self.free = free
        if first:
            del queue[:first]

    def _fill(self, now: int) -> None:
        """Start what delays the first by nothing."""
        size, limit_s, bits, queue, free = self.size, self.limit_s, self.bits, self.queue, self.free
        fitting = [job for job in queue if size[job] <= free]
        if not fitting:
            return
        self._reserve()
        shadow, extra = self.shadow, self.extra
        for job in fitting:
            wants = size[job]
            if wants > free:
                continue
            latest = now + limit_s[job]
            if latest > shadow:
                if wants > extra:
                    continue
                extra -= wants
            self.starts[job] = now
            free -= wants
            heappush(self.ends, (now + self.held_s[job]) << bits | job)
            insort(self.release, latest << bits | job)
            queue.remove(job)
            if not free:
                break
        self.free, self.extra = free, extra

    def _reserve(self) -> None:
        """Work out when the first of the queue will have enough, and what is left over then."""
        size, bits, mask = self.size, self.bits, self.mask
        lacking = size[self.queue[0]] - self.free
        shadow = -1
        for code in self.release:
            if lacking <= 0 and code >> bits != shadow:
                break
            shadow = code >> bits
            lacking -= size[code & mask]
        self.shadow, self.extra = shadow, -lacking
