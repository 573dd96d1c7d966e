"""The cheapest ladder of allocations: what to try first, and what after each failure.

A task climbs rungs ``b_1 < … < b_k`` until one holds it. With ``T(x)`` the weight of tasks that
need at most ``x``, and a failed attempt taking the part ``phi`` of a whole one, a ladder costs

    sum over j of  b_j * ( T(b_j) - T(b_{j-1}) + phi * (T(all) - T(b_j)) )

The cheapest one over all sets of rungs is a shortest path; with lines in place of the inner
minimum (a lower envelope, queried in ascending order) it takes O(K) for K candidate rungs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["TAIL", "Ladder", "cheapest", "cost_of", "grouped", "priced", "with_tail"]

TAIL = ((1.05, 0.5), (1.25, 0.3), (2.0, 0.2))
"""Where needs beyond the largest seen may lie (times it), and how likely each is of them."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs, ascending, and the cost of a task under them: value times weight, over all weight.

    Attributes
    ----------
    rungs : tuple of float
    cost : float
        Expected allocation, failed attempts included, in the unit of the rungs.
    """

    rungs: tuple[float, ...]
    cost: float

    def first_from(self, least: float) -> float | None:
        """Give the lowest rung that is at least this; None where none is."""
        return next((rung for rung in self.rungs if rung >= least), None)

    def above(self, value: float) -> float | None:
        """Give the lowest rung above a value; None where none is."""
        return next((rung for rung in self.rungs if rung > value), None)


def cheapest(values: Sequence[float], weights: Sequence[float], phi: float = 1.0) -> Ladder:
    """Find the cheapest ladder whose last rung holds every value.

    Parameters
    ----------
    values : sequence of float
        Ascending, distinct, positive: candidates, each the need of what weighs so much.
    weights : sequence of float
        Not negative, one at least positive.
    phi : float
        Part of a whole attempt's time that a failed one takes, 0 to 1.

    Returns
    -------
    Ladder

    Examples
    --------
    >>> cheapest([1.0, 2.0, 10.0], [8.0, 1.0, 1.0])
    Ladder(rungs=(1.0, 2.0, 10.0), cost=2.4)
    >>> cheapest([9.0, 10.0], [1.0, 1.0]).rungs
    (10.0,)
    """
    whole = sum(weights)
    # Lines D[l] - C[l] * x that may be the lowest somewhere, slopes falling: the lower envelope.
    slopes, starts, owners = [0.0], [0.0], [-1]
    parents: list[int] = []
    at, passed, best = 0, 0.0, 0.0
    for place, (value, weight) in enumerate(zip(values, weights, strict=True)):
        while at + 1 < len(slopes) and (
            starts[at + 1] - slopes[at + 1] * value <= starts[at] - slopes[at] * value
        ):
            at += 1
        passed += weight
        best = value * (passed + phi * (whole - passed)) + starts[at] - slopes[at] * value
        parents.append(owners[at])
        while len(slopes) - at >= 2 and _useless(slopes, starts, passed, best):
            slopes.pop()
            starts.pop()
            owners.pop()
        slopes.append(passed)
        starts.append(best)
        owners.append(place)
    rungs = []
    place = len(parents) - 1
    while place >= 0:
        rungs.append(float(values[place]))
        place = parents[place]
    return Ladder(tuple(reversed(rungs)), best / whole if whole > 0 else 0.0)


def _useless(slopes: list[float], starts: list[float], slope: float, start: float) -> bool:
    """Say whether the last line is nowhere the lowest once a steeper one is there."""
    m1, c1, m2, c2 = slopes[-2], starts[-2], slopes[-1], starts[-1]
    # Where the first and the new one meet, at or before where the first and the last meet.
    return (start - c1) * (m2 - m1) <= (c2 - c1) * (slope - m1)


def cost_of(
    rungs: Sequence[float], values: Sequence[float], weights: Sequence[float], phi: float = 1.0
) -> float:
    """Give the cost of climbing given rungs, the last of which holds every value.

    Examples
    --------
    >>> cost_of([1.0, 10.0], [1.0, 2.0, 10.0], [8.0, 1.0, 1.0])
    3.0
    """
    whole = sum(weights)
    total, below = 0.0, 0.0
    for rung in rungs:
        held = sum(w for v, w in zip(values, weights, strict=True) if v <= rung)
        total += rung * (held - below + phi * (whole - held))
        below = held
    return total / whole


def with_tail(
    values: Sequence[float], weights: Sequence[float], n: float, largest: float
) -> tuple[list[float], list[float]]:
    """Add what has not been seen yet: the next of n + 1 like tasks is the largest 1 time in n + 1.

    Parameters
    ----------
    values, weights
        As for :func:`cheapest`.
    n : float
        Tasks seen.
    largest : float
        Largest need seen.

    Examples
    --------
    >>> with_tail([4.0], [3.0], 3, 4.0)
    ([4.0, 4.2, 5.0, 8.0], [3.0, 0.5, 0.3, 0.2])
    """
    mass = sum(weights) / max(n, 1.0)
    more = [(largest * times, mass * part) for times, part in TAIL]
    made, held = list(values), list(weights)
    for value, weight in more:
        if made and value <= made[-1]:
            held[-1] += weight
        else:
            made.append(value)
            held.append(weight)
    return made, held


def grouped(pairs: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Give the different values of (value, weight) pairs, ascending, and the weight of each.

    Examples
    --------
    >>> grouped([(2.0, 1.0), (1.0, 5.0), (2.0, 3.0)])
    ([1.0, 2.0], [5.0, 4.0])
    """
    held: dict[float, float] = {}
    for value, weight in pairs:
        held[value] = held.get(value, 0.0) + weight
    values = sorted(held)
    return values, [held[value] for value in values]


def priced(
    values: Sequence[float], weights: Sequence[float], n: float, slot_ratio: float
) -> Ladder:
    """Find the cheapest ladder with the unseen tail, where each attempt also holds a slot.

    Parameters
    ----------
    values, weights
        As for :func:`cheapest`.
    n : float
        Tasks seen.
    slot_ratio : float
        Price of a slot in mean needs.

    Examples
    --------
    >>> safe, bold = (priced([1.0, 9.0], [60.0, 40.0], 1e9, ratio) for ratio in (4.0, 0.0))
    >>> safe.rungs[0], bold.rungs[0]
    (9.0, 1.0)
    """
    made, held = with_tail(values, weights, n, values[-1])
    slot = slot_ratio * sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    found = cheapest([value + slot for value in made], held)
    return Ladder(tuple(rung - slot for rung in found.rungs), found.cost - slot)
