"""By how much two runs may differ by the drawing of their tasks alone.

Each side's own tasks say how much a task's time varies, group by group, so that the bound is the
same whichever side is called the earlier one. A straggler is a difference between two runs and no
sign of how much the other tasks vary: it is told by a test of outliers on the logarithm of the
times (Grubbs, Sample criteria for testing outlying observations, 1950; for a few at once from the
least extreme on, Rosner 1983), which leaves the long tail of a skewed group where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.comparing.bootstrap import ASSUMED_RATIO, COVERAGE

if TYPE_CHECKING:
    from rotameter.profiler.comparing.facts import RunFacts
    from rotameter.profiler.view import Floats

__all__ = ["Spread", "spread_of"]

_ONE_SIDED = 0.5 + COVERAGE / 2
_OUTLIER_RATE = 0.01
"""Of groups without a straggler, in how many one is seen."""
_STRAGGLERS = 3
_ONE_IN = 20
"""More of a group than three tasks, or than one in twenty beyond the first, are no stragglers."""
_TIMELESS_S = 1e-9


@dataclass(frozen=True, slots=True)
class Spread:
    """By how much the drawing of tasks alone may move a time.

    Attributes
    ----------
    run, tasks : float
        Run time and task time: one-sided 95 % bounds of the logarithm of after / before.
    """

    run: float = 0.0
    tasks: float = 0.0


def spread_of(sides: Sequence[RunFacts], slots: float | None) -> Spread:
    """Give by how much two runs may differ by the drawing of their tasks alone.

    Parameters
    ----------
    sides : sequence of RunFacts
        One run each.
    slots : float or None
        Tasks that share the run time.

    Examples
    --------
    >>> from rotameter.profiler.comparing.facts import facts_of
    >>> from rotameter.profiler.trace import Trace
    >>> def run(times):
    ...     return facts_of(Trace.from_tables({"tasks": [
    ...         {"task_id": str(i), "group": "g", "wall_s": t} for i, t in enumerate(times)]}))
    >>> calm, late = run([1.0, 1.1] * 9), run([1.0, 1.1] * 9 + [9.0])
    >>> round(spread_of([calm, calm], None).tasks, 3), round(spread_of([calm, late], None).tasks, 3)
    (0.028, 0.024)
    """
    timed = all(run.timed for run in sides)
    run_part = tasks_part = 0.0
    for run in sides:
        times = run.wall_s if timed else run.io_s
        known = np.isfinite(times)
        wall_s = float(times[known].sum())
        if not wall_s > 0:
            continue
        own = (times[known & (run.group == code)] for code in np.unique(run.group[known]))
        error_s = math.hypot(*(_error_s(group) for group in own))
        # What tasks do not take of the run, they do not vary.
        run_s = max(slots * run.makespan_s, wall_s) if run.makespan_s and slots else math.inf
        tasks_part = math.hypot(tasks_part, error_s / wall_s)
        run_part = math.hypot(run_part, error_s / run_s)
    return Spread(run_part, tasks_part)


def _error_s(times: Floats) -> float:
    """Give by how much the sum of a group's times may be off (one-sided 95 %)."""
    from scipy.special import ndtri, stdtrit

    n = len(times)
    if n < 3:  # Nothing tells how much these vary.
        return float(ndtri(_ONE_SIDED) * ASSUMED_RATIO * times.mean() * math.sqrt(n))
    usual = _without_stragglers(np.sort(times))
    factor = float(stdtrit(len(usual) - 1, _ONE_SIDED))
    return factor * float(usual.std(ddof=1)) * math.sqrt(n)


def _without_stragglers(ordered: Floats) -> Floats:
    """Leave out the longest times, in order, that do not belong to the others."""
    from scipy.special import stdtrit

    n = len(ordered)
    log = np.log(np.maximum(ordered, _TIMELESS_S))
    for count in range(min(max(1, n // _ONE_IN), _STRAGGLERS), 0, -1):
        m = n - count
        if m < 2:
            continue
        away = float(stdtrit(m - 1, 1 - _OUTLIER_RATE / n)) * math.sqrt(1 + 1 / m)
        if log[m] > log[:m].mean() + away * log[:m].std(ddof=1):
            return ordered[:m]
    return ordered
