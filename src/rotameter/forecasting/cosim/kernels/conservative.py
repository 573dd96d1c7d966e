"""Conservative backfilling in one pool of one resource."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate

__all__ = ["conservative_starts"]

_NEVER = 1 << 62


class _Profile:
    """What will be free from when on: ``free[k]`` from ``times[k]`` to ``times[k + 1]``."""

    __slots__ = ("free", "times")

    def __init__(self, capacity: int) -> None:
        self.times = [-_NEVER]
        self.free = [capacity]

    def begin(self, now: int) -> None:
        """Forget what is over."""
        times = self.times
        over = 0
        while over + 1 < len(times) and times[over + 1] <= now:
            over += 1
        if over:
            del times[:over], self.free[:over]
        times[0] = now

    def earliest(self, wants: int, length: int) -> int:
        """Give the first moment from which so much is free for so long."""
        times, free = self.times, self.free
        k, m = 0, len(times)
        while True:
            while free[k] < wants:
                k += 1
            stop = times[k] + length
            e = k + 1
            while e < m and times[e] < stop and free[e] >= wants:
                e += 1
            if e >= m or times[e] >= stop:
                return times[k]
            k = e

    def sooner(self, wants: int, length: int, was: int) -> int:
        """Give the first moment before its reservation at which a job fits; -1: there is none.

        What it holds itself from then on is no obstacle, so only the time before counts.
        """
        times, free = self.times, self.free
        k, m = 0, len(times)
        while True:
            while k < m and free[k] < wants:
                k += 1
            if k == m or times[k] >= was:
                return -1
            stop = min(times[k] + length, was)
            e = k + 1
            while e < m and times[e] < stop and free[e] >= wants:
                e += 1
            if e == m or times[e] >= stop:
                return times[k]
            k = e

    def add(self, start: int, stop: int, wants: int) -> None:
        """Take (or with a negative number give back) something for a stretch of time."""
        times, free = self.times, self.free
        first = self._split(start)
        last = self._split(stop)
        for k in range(first, last):
            free[k] -= wants
        for k in (last, first):
            if 0 < k < len(times) and free[k] == free[k - 1]:
                del times[k], free[k]

    def _split(self, at: int) -> int:
        times = self.times
        k = bisect_left(times, at)
        if k == len(times) or times[k] != at:
            times.insert(k, at)
            self.free.insert(k, self.free[k - 1])
        return k

    def crest(self) -> list[int]:
        """Give the most that is free at any moment up to the end of each step."""
        return list(accumulate(self.free, max))


def conservative_starts(
    arrive_s: Sequence[int],
    held_s: Sequence[int],
    limit_s: Sequence[int],
    size: Sequence[int],
    capacity: int,
) -> list[int]:
    """Give when each job starts if none that waits may be delayed by a later one.

    Each job gets a reservation when it arrives, at the first moment at which it fits among the
    reservations of the others. When a job ends before its limit each that waits is, in order of
    arrival, moved to the first moment at which it fits then; so none is ever moved back (Mu'alem
    and Feitelson 2001).

    Parameters
    ----------
    arrive_s, held_s, limit_s, size : sequence of int
        As for `easy_starts`.
    capacity : int

    Examples
    --------
    >>> conservative_starts([0, 1, 2, 3], [10, 5, 8, 9], [10, 5, 8, 9], [2, 3, 1, 1], 3)
    [0, 10, 2, 15]
    """
    return _Run(arrive_s, held_s, limit_s, size, capacity).run()


class _Run:
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
        self.reserved = [-1] * n
        self.ends: list[int] = []  # a heap of end << bits | job
        self.due: list[int] = []  # one of reservation << bits | job; those that moved stay in it
        self.waiting: list[int] = []
        self.profile = _Profile(capacity)

    def run(self) -> list[int]:
        """Give the start of each job (s)."""
        arrive_s, ends, due, bits, mask = self.arrive_s, self.ends, self.due, self.bits, self.mask
        n, i = len(arrive_s), 0
        while i < n or self.waiting:
            while due and self.reserved[due[0] & mask] != due[0] >> bits:
                heappop(due)
            now = min(
                arrive_s[i] if i < n else _NEVER,
                ends[0] >> bits if ends else _NEVER,
                due[0] >> bits if due else _NEVER,
            )
            self.profile.begin(now)
            if self._end(now):
                self._compress()
            while i < n and arrive_s[i] == now:
                self._book(i)
                i += 1
            self._start(now)
        return self.starts

    def _end(self, now: int) -> bool:
        """Take out all that end at this moment; say whether one ended before its limit."""
        early = False
        while self.ends and self.ends[0] >> self.bits == now:
            job = heappop(self.ends) & self.mask
            latest = self.starts[job] + self.limit_s[job]
            if latest > now:
                self.profile.add(now, latest, -self.size[job])
                early = True
        return early

    def _compress(self) -> None:
        """Move each reservation, in order, to the first moment at which it fits now."""
        profile, reserved, size = self.profile, self.reserved, self.size
        crest = profile.crest()
        for job in self.waiting:
            was, wants, length = reserved[job], size[job], self.limit_s[job]
            before = bisect_left(profile.times, was)
            if not before or crest[before - 1] < wants:
                continue  # nowhere before its reservation is there so much
            at = profile.sooner(wants, length, was)
            if at < 0:
                continue
            profile.add(at, min(at + length, was), wants)
            profile.add(max(at + length, was), was + length, -wants)
            reserved[job] = at
            heappush(self.due, at << self.bits | job)
            crest = profile.crest()

    def _book(self, job: int) -> None:
        at = self.profile.earliest(self.size[job], self.limit_s[job])
        self.profile.add(at, at + self.limit_s[job], self.size[job])
        self.reserved[job] = at
        heappush(self.due, at << self.bits | job)
        self.waiting.append(job)

    def _start(self, now: int) -> None:
        due, bits = self.due, self.bits
        while due and due[0] >> bits <= now:
            job = heappop(due) & self.mask
            if self.reserved[job] != now:
                continue
            self.starts[job] = now
            self.reserved[job] = -1
            self.waiting.remove(job)
            heappush(self.ends, (now + self.held_s[job]) << bits | job)
