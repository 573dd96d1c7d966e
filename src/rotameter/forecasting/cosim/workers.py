"""How many workers there are when: changes of their number, with the time that a start takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from rotameter.errors import PolicyError

__all__ = ["Lives", "WorkerPlan"]


@dataclass(frozen=True, slots=True)
class Lives:
    """What a plan means for single workers.

    Attributes
    ----------
    ready : int
        Workers that are there from the beginning.
    from_s : float
        When that is.
    events : tuple of (float, bool)
        In order: at a moment one more is ready (True), or one leaves (False).
    asked_s : float
        Sum of the moments at which the workers that come were asked for.
    cancelled_s : float
        Worker-seconds held by those that were given up before they were ready.
    last_s : float
        The last moment at which anything changes.
    """

    ready: int
    from_s: float
    events: tuple[tuple[float, bool], ...]
    asked_s: float
    cancelled_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """How many workers are wanted from when on.

    A worker that is asked for takes tasks ``startup_s`` later. When fewer are wanted those that
    are still starting are given up first, the last asked for before the others; then an idle one
    leaves, and where none is idle the one that ends its task first. No task is broken off.

    Parameters
    ----------
    workers : int
        Ready at the beginning, at moment ``from_s``.
    changes : sequence of (float, int)
        (moment, how many are wanted from then on), in order.
    startup_s : float
    from_s : float

    Examples
    --------
    >>> WorkerPlan(1, [(10.0, 3), (12.0, 2)], startup_s=5.0).lives().events
    ((15.0, True),)
    >>> WorkerPlan(2, [(10.0, 1)]).lives().events
    ((10.0, False),)
    """

    workers: int
    changes: Sequence[tuple[float, int]] = ()
    startup_s: float = 0.0
    from_s: float = 0.0

    def __post_init__(self) -> None:
        times = [self.from_s, *(at for at, _ in self.changes)]
        counts = [self.workers, *(count for _, count in self.changes)]
        in_order = all(b >= a for a, b in pairwise(times))
        if not in_order or times[0] != times[0]:
            raise PolicyError("changes of the workers are not in order", hint="sort them by time")
        if min(counts) < 0 or not self.startup_s >= 0:
            raise PolicyError(
                "a negative number of workers or time to start", hint="0 is the least"
            )

    def lives(self) -> Lives:
        """Say when single workers come and go."""
        there = self.workers
        pending: list[tuple[float, float]] = []  # (ready, asked), in order
        events: list[tuple[float, bool]] = []
        asked_s, cancelled_s = self.from_s * self.workers, 0.0
        for at, wanted in self.changes:
            while pending and pending[0][0] <= at:
                there += 1
                events.append((pending[0][0], True))
                asked_s += pending.pop(0)[1]
            more = wanted - there - len(pending)
            pending += [(at + self.startup_s, at)] * max(more, 0)
            for _ in range(-more):
                if pending:
                    cancelled_s += at - pending.pop()[1]
                else:
                    there -= 1
                    events.append((at, False))
        for ready, asked in pending:
            events.append((ready, True))
            asked_s += asked
        events.sort(key=itemgetter(0))  # at one moment they stay as they came about
        last = max([self.from_s, *(at for at, _ in self.changes), *(at for at, _ in events)])
        return Lives(
            ready=self.workers,
            from_s=self.from_s,
            events=tuple(events),
            asked_s=asked_s,
            cancelled_s=cancelled_s,
            last_s=last,
        )
