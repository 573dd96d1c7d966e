"""First come, first served, in one pool of one resource."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["fcfs_starts"]


def fcfs_starts(
    arrive_s: Sequence[int],
    held_s: Sequence[int],
    limit_s: Sequence[int],
    size: Sequence[int],
    capacity: int,
) -> list[int]:
    """Give when each job starts if none may overtake another.

    Parameters
    ----------
    arrive_s : sequence of int
        Non-decreasing.
    held_s, limit_s : sequence of int
        How long each job runs; how long it may (of no use here).
    size : sequence of int
        What each takes, at most ``capacity``.
    capacity : int

    Examples
    --------
    >>> fcfs_starts([0, 0, 1], [5, 5, 1], [5, 5, 1], [2, 2, 1], 3)
    [0, 5, 5]
    """
    bits = int(capacity).bit_length()
    mask = (1 << bits) - 1
    ends: list[int] = []
    starts: list[int] = []
    free, now = capacity, arrive_s[0] if len(arrive_s) else 0
    for arrive, held, wants in zip(arrive_s, held_s, size, strict=True):
        if arrive > now:
            now = arrive
        while ends and ends[0] >> bits <= now:
            free += heappop(ends) & mask
        while free < wants:
            code = heappop(ends)
            now = code >> bits
            free += code & mask
        starts.append(now)
        free -= wants
        heappush(ends, (now + held) << bits | wants)
    return starts
