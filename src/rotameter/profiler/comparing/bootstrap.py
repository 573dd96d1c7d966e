"""How sure a ratio of two means is: bootstrap over runs, and over the tasks in them.

Two stages, as the data have two: a replicate draws runs with replacement, and in each of them
tasks (Davison and Hinkley, Bootstrap Methods and their Application, 1997, ch. 3.8). A bootstrap
of n runs is too narrow by sqrt((n - 1) / n) and by the t factor; both are put right (Hesterberg,
What Teachers Should Know About the Bootstrap, 2015). With one run on both sides only the drawing
of tasks is bounded: how much runs vary is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import Floats

__all__ = ["LEAST_RATIO", "Ratio", "called", "ratio_of_means"]

LEAST_RATIO = 0.10
"""With one run a side, a smaller difference is not called a change."""
LITTLE_RATIO = 0.01
"""Nor is a smaller one ever."""
COVERAGE = 0.9
FALSE_RATE = 0.05
REPLICATES = 400
ASSUMED_RATIO = 0.2
"""By how much a task's time is taken to vary where a side has one task only."""
_EXACT = 1_000
"""From this many tasks on, the mean of a draw is taken to be normal."""
_Z = 1.6448536269514722


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio after / before of two means, with its 90 % interval.

    Attributes
    ----------
    value, low, high : float
    p : float
        Probability of such a difference, or a larger one, without a change.
    runs : tuple of int
        Runs on each side.
    tasks : tuple of int
        Tasks on each side.
    """

    value: float
    low: float
    high: float
    p: float
    runs: tuple[int, int]
    tasks: tuple[int, int]

    @property
    def runs_vary(self) -> bool:
        """Whether the interval holds the variation between runs."""
        return max(self.runs) > 1


def ratio_of_means(
    before: Sequence[Floats], after: Sequence[Floats], *, seed: Sequence[int] = (0,)
) -> Ratio | None:
    """Give mean(after) / mean(before), where a side's mean is that of its runs' means.

    Parameters
    ----------
    before, after : sequence of ndarray of float64
        One array a run, one value a task; NaN is left out, and a run without values is no run.
    seed : sequence of int

    Returns
    -------
    Ratio or None
        None where a side has no values, or a mean that is not above 0.

    Examples
    --------
    >>> import numpy as np
    >>> found = ratio_of_means([np.full(9, 2.0)], [np.full(9, 1.0)])
    >>> found.value, found.low, found.high, found.runs_vary
    (0.5, 0.5, 0.5, False)
    """
    sides = [[x[np.isfinite(x)] for x in side] for side in (before, after)]
    sides = [[x for x in side if x.size] for side in sides]
    if not all(sides):
        return None
    means = [np.array([x.mean() for x in side]) for side in sides]
    centre = [float(m.mean()) for m in means]
    if not all(0 < c < math.inf for c in centre):
        return None
    generator = np.random.default_rng(list(seed))
    drawn = [_drawn(side, m, generator) for side, m in zip(sides, means, strict=True)]
    for one, other in ((0, 1), (1, 0)):
        if len(sides[one]) == 1 and len(sides[other]) > 1:  # Its runs vary as the other's do.
            drawn[one] = drawn[one] * _runs(means[other] / centre[other], generator)
    log = np.log(np.maximum(drawn[1], 1e-300)) - np.log(np.maximum(drawn[0], 1e-300))
    value = math.log(centre[1] / centre[0])
    runs = (len(sides[0]), len(sides[1]))
    tasks = (sum(x.size for x in sides[0]), sum(x.size for x in sides[1]))
    freedom = sum(n - 1 for n in runs) or min(tasks) - 1
    if freedom < 1:  # One task on a side: nothing is known of its spread.
        log = value + ASSUMED_RATIO * math.sqrt(2.0) * generator.normal(size=REPLICATES)
    factor, p = _student(value, float(log.std()), freedom)
    tail = (1 - COVERAGE) / 2
    low, high = (float(q) for q in np.quantile(log, [tail, 1 - tail]))
    low, high = min(low - value, 0.0) * factor + value, max(high - value, 0.0) * factor + value
    ends = [math.exp(max(-50.0, min(50.0, end))) for end in (low, high)]
    return Ratio(math.exp(value), ends[0], ends[1], p, runs, tasks)


def _drawn(side: Sequence[Floats], means: Floats, generator: np.random.Generator) -> Floats:
    """Draw the mean of a side; shape (REPLICATES,)."""
    each = np.stack([_mean_drawn(x, generator) for x in side], axis=1)
    n = len(side)
    if n == 1:
        return np.asarray(each[:, 0])
    picked = generator.integers(0, n, (REPLICATES, n))
    inside = (np.take_along_axis(each, picked, axis=1) - means[picked]).mean(axis=1)
    between = means[picked].mean(axis=1) - means.mean()
    # The means of runs differ by the drawing of their tasks too: that must not count twice.
    within = float(np.mean([x.var(ddof=1) / x.size if x.size > 1 else 0.0 for x in side]))
    total = float(means.var(ddof=1))
    share = max(0.0, 1.0 - within / total) if total > 0 else 0.0
    return np.asarray(means.mean() + between * math.sqrt(share * n / (n - 1)) + inside)


def _mean_drawn(x: Floats, generator: np.random.Generator) -> Floats:
    n = x.size
    if n == 1:
        return np.full(REPLICATES, x[0])
    if n > _EXACT:
        error = x.std(ddof=1) / math.sqrt(n)
        return np.asarray(x.mean() + error * generator.normal(size=REPLICATES))
    drawn = x[generator.integers(0, n, (REPLICATES, n))].mean(axis=1)
    return np.asarray(x.mean() + (drawn - x.mean()) * math.sqrt(n / (n - 1)))


def _runs(relative: Floats, generator: np.random.Generator) -> Floats:
    """Draw how far one run is from the mean of many, from runs of the other side."""
    n = len(relative)
    drawn = relative[generator.integers(0, n, REPLICATES)] - 1.0
    return np.asarray(np.maximum(1e-3, 1.0 + drawn * math.sqrt(n / (n - 1))))


def _student(log_ratio: float, spread: float, freedom: int) -> tuple[float, float]:
    """Give by how much to widen an interval for few degrees of freedom, and the p value."""
    from scipy.special import stdtr, stdtrit

    freedom = freedom if freedom >= 1 else 1_000  # An assumed spread is no estimate.
    factor = float(stdtrit(freedom, 0.5 + COVERAGE / 2)) / _Z
    if spread <= 1e-12:
        return factor, 0.0 if abs(log_ratio) > 1e-12 else 1.0
    return factor, 2.0 * float(stdtr(freedom, -abs(log_ratio) / spread))


def called(ratios: Sequence[Ratio | None]) -> list[bool]:
    """Say which of several ratios are changes.

    Of all that are called, at most one in twenty is expected to be chance (Benjamini and
    Hochberg 1995); with one run a side nothing under 10 % is called, as runs may vary by that.

    Examples
    --------
    >>> sure = Ratio(1.5, 1.4, 1.6, 0.0, (1, 1), (9, 9))
    >>> small = Ratio(1.08, 1.07, 1.09, 0.0, (1, 1), (9, 9))
    >>> called([sure, small, None])
    [True, False, False]
    """
    tested = sorted((r.p, place) for place, r in enumerate(ratios) if r is not None)
    limit = -1.0
    for rank, (p, _) in enumerate(tested, start=1):
        if p <= FALSE_RATE * rank / len(tested):
            limit = p
    made = []
    for ratio in ratios:
        if ratio is None:
            made.append(False)
            continue
        least = LITTLE_RATIO if ratio.runs_vary else LEAST_RATIO
        sure = not ratio.low <= 1.0 <= ratio.high
        made.append(ratio.p <= limit and abs(ratio.value - 1.0) >= least - 1e-12 and sure)
    return made
