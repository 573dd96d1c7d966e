"""Adaptive windowing: the window of what is alike is cut where its two parts differ.

Bifet and Gavaldà (2007), "Learning from time-changing data with adaptive windowing", SDM. The
bound there is for values between 0 and 1; here Bernstein's for values of a given variance is used,
with the spread in place of the range, so that it is free of units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.baseline import WARM, centre, reading
from rotameter.values import Change

__all__ = ["Adwin"]

BUCKETS = 4
"""Buckets of a size before the two oldest become one of twice the size."""

NEWEST = 8
"""Cuts, from the newest on, that are tried with each value; all are with every sixteenth."""

LEVELS = 14
FEWEST = 3
FAR = 6.0

# A bucket: values in it, their sum, the sum of their squares, the time of its first.
Bucket = list[Any]


class Adwin:
    """ADWIN on a window of exponential buckets.

    Parameters
    ----------
    delta : float
        Chance of a false cut that the bound allows for each value, about.

    Notes
    -----
    Slow drifts are cut away too, since the window is compared as a whole; a jump is found some
    values later than by the other detectors. ``confidence`` is not told: the bound holds for all
    cuts together.

    Examples
    --------
    >>> watch = Adwin()
    >>> values = [20.0, 21.0, 19.0, 22.0, 18.0] * 10 + [35.0] * 15
    >>> [c.at_ns for at, x in enumerate(values) if (c := watch.update(at, x))]
    [50]
    """

    __slots__ = ("_first", "_levels", "_n", "_seen", "_squares", "_total", "_unit", "delta")

    def __init__(self, delta: float = 0.05) -> None:
        if not 0 < delta < 1:
            raise PolicyError(f"delta {delta!r} is not between 0 and 1")
        self.delta = float(delta)
        self._first: list[tuple[int, float]] = []
        self._unit = (0.0, 0.0)
        self._levels: list[list[Bucket]] = [[]]
        self._n, self._total, self._squares = 0, 0.0, 0.0
        self._seen = 0

    def update(self, at_ns: int, x: float) -> Change | None:
        """Take one value; give the change that it reveals, at the first value after it."""
        value = reading(x)
        if value is None:
            return None
        if not self._unit[1]:
            self._gather(at_ns, value)
            return None
        self._seen += 1
        self._add(at_ns, self._scaled(value))
        if self._n < WARM or not self._differs(NEWEST if self._seen % 16 else 1 << 30):
            return None
        return self._cut()

    # -- the window -------------------------------------------------------------------------

    def _gather(self, at_ns: int, value: float) -> None:
        first = self._first
        first.append((at_ns, value))
        if len(first) < WARM:
            return
        level, spread = centre([x for _, x in first])
        if spread <= 1e-9 * abs(level):
            # All alike so far: whatever differs next gives the unit.
            away = abs(value - level)
            if away <= 1e-9 * abs(level):
                del first[0]
                return
            spread = away
        self._unit = (level, spread)
        for at, x in first:
            self._add(at, self._scaled(x))
        first.clear()

    def _scaled(self, x: float) -> float:
        """Give a value in units of the first ones' spread, pulled in where it is far away."""
        y = (x - self._unit[0]) / self._unit[1]
        if self._n < WARM:
            return min(max(y, -1e3), 1e3)
        mean = self._total / self._n
        spread = math.sqrt(max(self._squares / self._n - mean * mean, 1e-4))
        return min(max(y, mean - FAR * spread), mean + FAR * spread)

    def _add(self, at_ns: int, y: float) -> None:
        self._n += 1
        self._total += y
        self._squares += y * y
        levels = self._levels
        levels[0].append([1, y, y * y, at_ns])
        for k, level in enumerate(levels):
            if len(level) <= BUCKETS:
                return
            one, two = level[0], level[1]
            del level[:2]
            if k + 1 == len(levels):
                if len(levels) == LEVELS:
                    level[:0] = [two]
                    self._count()
                    return
                levels.append([])
            levels[k + 1].append([one[0] + two[0], one[1] + two[1], one[2] + two[2], one[3]])

    def _count(self) -> None:
        """Sum up anew what is left of the window."""
        buckets = [bucket for level in self._levels for bucket in level]
        self._n = sum(bucket[0] for bucket in buckets)
        self._total = math.fsum(bucket[1] for bucket in buckets)
        self._squares = math.fsum(bucket[2] for bucket in buckets)

    # -- cutting ----------------------------------------------------------------------------

    def _bounds(self) -> tuple[float, float]:
        """Give the two terms of the bound, for means of one value each."""
        mean = self._total / self._n
        variance = max(self._squares / self._n - mean * mean, 1e-12)
        log = math.log(2.0 * math.log(self._n) / self.delta)
        return 2.0 * variance * log, 2.0 / 3.0 * math.sqrt(variance) * log

    def _differs(self, tries: int) -> bool:
        square, line = self._bounds()
        n, total = self._n, self._total
        new, added = 0, 0.0
        for level in self._levels:
            for bucket in reversed(level):
                new += bucket[0]
                added += bucket[1]
                old = n - new
                if old < FEWEST:
                    return False
                if new < FEWEST:
                    continue
                each = 1.0 / new + 1.0 / old
                gap = added / new - (total - added) / old
                if abs(gap) > math.sqrt(square * each) + line * each:
                    return True
                tries -= 1
                if not tries:
                    return False
        return False

    def _cut(self) -> Change:
        """Cut where the parts differ most, and give the change there."""
        square, line = self._bounds()
        n, total = self._n, self._total
        new, added = 0, 0.0
        best, most, means = 0, -1.0, (0.0, 0.0)
        buckets = [bucket for level in self._levels for bucket in reversed(level)]
        for place, bucket in enumerate(buckets, 1):
            new += bucket[0]
            added += bucket[1]
            old = n - new
            if old < FEWEST:
                break
            if new < FEWEST:
                continue
            each = 1.0 / new + 1.0 / old
            gap = added / new - (total - added) / old
            excess = abs(gap) / (math.sqrt(square * each) + line * each)
            if excess > most:
                best, most, means = place, excess, ((total - added) / old, added / new)
        at_ns = buckets[best - 1][3]
        for level in self._levels:
            kept = min(best, len(level))
            level[:] = level[len(level) - kept :]
            best -= kept
        while len(self._levels) > 1 and not self._levels[-1]:
            self._levels.pop()
        self._count()
        level_, unit = self._unit
        return Change(at_ns, level_ + unit * means[0], level_ + unit * means[1])

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "schema": 1,
            "delta": self.delta,
            "first": [list(pair) for pair in self._first],
            "unit": list(self._unit),
            "levels": [[list(bucket) for bucket in level] for level in self._levels],
            "sums": [self._n, self._total, self._squares],
            "seen": self._seen,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Adwin:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = cls(state["delta"])
        made._first = [(int(at), float(x)) for at, x in state["first"]]
        made._unit = (float(state["unit"][0]), float(state["unit"][1]))
        made._levels = [[list(bucket) for bucket in level] for level in state["levels"]]
        n, total, squares = state["sums"]
        made._n, made._total, made._squares = int(n), float(total), float(squares)
        made._seen = int(state["seen"])
        return made
