"""The clocks that the live half reads, in one replaceable value.

All are integer nanoseconds. Records carry epoch times; durations come from the monotonic clock,
so that a step of the system's clock cannot make a task last a negative time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["SYSTEM", "Clock"]


class Clock:
    """Four clocks in ns: ``wall`` (monotonic), ``epoch``, ``thread`` and ``process`` CPU.

    Parameters
    ----------
    wall, epoch, thread, process : callable
        Each gives an int in nanoseconds.

    Examples
    --------
    >>> frozen = Clock(lambda: 5, lambda: 1_000, lambda: 2, lambda: 3)
    >>> frozen.offset_ns() + frozen.wall()
    1000
    """

    __slots__ = ("epoch", "process", "thread", "wall")

    def __init__(
        self,
        wall: Callable[[], int] = time.perf_counter_ns,
        epoch: Callable[[], int] = time.time_ns,
        thread: Callable[[], int] = time.thread_time_ns,
        process: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self.wall = wall
        self.epoch = epoch
        self.thread = thread
        self.process = process

    def offset_ns(self) -> int:
        """Give what to add to ``wall()`` for an epoch time, the tightest of three tries."""
        best_gap, best = None, 0
        for _ in range(3):
            before = self.wall()
            epoch = self.epoch()
            gap = self.wall() - before
            if best_gap is None or gap < best_gap:
                best_gap, best = gap, epoch - before - gap // 2
        return best


SYSTEM = Clock()
