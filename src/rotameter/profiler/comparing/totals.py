"""Sums over a run, compared: run time, task time, bytes, peaks, waste, failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.comparing.bootstrap import LEAST_RATIO, Ratio, called, ratio_of_means
from rotameter.profiler.comparing.facts import LEAST_BYTES

if TYPE_CHECKING:
    from rotameter.profiler.comparing.facts import RunFacts
    from rotameter.profiler.comparing.spread import Spread

__all__ = ["TOTALS", "Total", "least_ratio", "totals_of"]

_BYTES = ("read_bytes", "write_bytes", "received_bytes")
_PART_OF_TASKS = ("io_s", "spill_s", "transfer_s")
_LEAST_PART = 0.01
"""Of task time: less of it is no change."""
_VARIES = ("task_wall_s", "wall_per_task_s", "wall_per_gb_s", "cpu_s", *_PART_OF_TASKS)
"""What varies as the tasks' times do."""
_HELD = {"wasted_core_s": "held_core_s", "wasted_gbh": "held_gbh"}
"""What was held for as long as the run lasts, and varies as the run time does."""

TOTALS = (
    "makespan_s",
    "tasks",
    "attempts",
    "failed_attempts",
    "failed_wall_s",
    "task_wall_s",
    "wall_per_task_s",
    "wall_per_gb_s",
    "io_s",
    "cpu_s",
    "transfer_s",
    "spill_s",
    "read_bytes",
    "write_bytes",
    "received_bytes",
    "peak_memory_bytes",
    "wasted_core_s",
    "wasted_gbh",
    "slots",
)
"""Sums over a run that are compared, in order."""


@dataclass(frozen=True, slots=True)
class Total:
    """One sum over a run, on both sides (means of the runs).

    Attributes
    ----------
    name : str
    before, after : float or None
    change_ratio : float or None
        (after - before) / before.
    interval90 : tuple of float or None
        Of ``change_ratio``; None where one run a side leaves it unknown.
    is_change : bool
    matters : bool
        Whether it is enough to say something of the run: a kilobyte read, or a millisecond in
        calls, is not.
    """

    name: str
    before: float | None
    after: float | None
    change_ratio: float | None
    interval90: tuple[float, float] | None
    is_change: bool
    matters: bool = True


def _value(run: RunFacts, name: str) -> float | None:
    wall = run.totals["task_wall_s"]
    if name == "wall_per_task_s":
        count = int(np.isfinite(run.wall_s).sum())
        return wall / count if wall is not None and count else None
    if name == "wall_per_gb_s":
        size = run.totals["bytes"]
        known = wall is not None and size and run.heavy(size, run.totals["io_s"])
        return wall / size * 1e9 if known and wall is not None and size else None
    return run.totals[name]


def totals_of(
    before: Sequence[RunFacts],
    after: Sequence[RunFacts],
    seed: int,
    spread: Spread | None = None,
) -> tuple[Total, ...]:
    """Compare the sums of two sides.

    Parameters
    ----------
    before, after : sequence of RunFacts
    seed : int
    spread : Spread, optional
        By how much the drawing of tasks alone may move times.

    Returns
    -------
    tuple of Total
        In the order of :data:`TOTALS`. With one run a side no interval is known, and what differs
        by 10 % and what its spread allows is called a change.
    """
    several = max(len(before), len(after)) > 1
    values = [
        [[v for run in side if (v := _value(run, name)) is not None] for side in (before, after)]
        for name in TOTALS
    ]
    ratios: list[Ratio | None] = []
    for number, (old, new) in enumerate(values):
        arrays = [[np.array([v]) for v in side] for side in (old, new)]
        ratios.append(ratio_of_means(*arrays, seed=(seed, 10**6 + number)) if several else None)
    sure = called(ratios)
    made = []
    for number, name in enumerate(TOTALS):
        was, now = (float(np.mean(v)) if v else None for v in values[number])
        change = (now - was) / was if was and now is not None else None
        ratio = ratios[number]
        interval = None if ratio is None else (ratio.low - 1.0, ratio.high - 1.0)
        matters = _matters(name, before, after)
        if name == "wall_per_gb_s":  # A kilobyte on one side tells nothing of a byte's time.
            matters = was is not None and now is not None
        if ratio is not None:
            is_change = sure[number]
        elif change is None:
            is_change = bool(was == 0.0 and now)
        else:
            least = least_ratio(name, change, spread, _by_request(name, before, after))
            is_change = abs(change) >= least - 1e-12
        is_change &= matters and _enough(name, was, now, before, after, spread)
        made.append(Total(name, was, now, change, interval, is_change, matters))
    return tuple(made)


def least_ratio(name: str, change: float, spread: Spread | None, by_request: bool = False) -> float:
    """Give from which part on a difference between one run a side is called a change.

    By what runs usually differ, and what the drawing of tasks allows: as many times longer as
    shorter, so that a reduction never needs more than the whole.

    Parameters
    ----------
    name : str
        Of a sum.
    change : float
        Its sign says which way.
    spread : Spread or None
    by_request : bool
        Whether what is held is held by tasks, for as long as each lasts, and not by workers.

    Examples
    --------
    >>> from rotameter.profiler.comparing.spread import Spread
    >>> wide = Spread(run=0.5)
    >>> [round(least_ratio("makespan_s", sign, wide), 2) for sign in (-1, 1)]
    [0.45, 0.81]
    """
    away = 0.0
    if spread is not None and name in _VARIES:
        away = spread.tasks
    elif spread is not None and (name == "makespan_s" or name in _HELD):
        away = spread.tasks if by_request else spread.run
    if change < 0:
        return 1.0 - (1.0 - LEAST_RATIO) * math.exp(-away)
    return (1.0 + LEAST_RATIO) * math.exp(min(away, 50.0)) - 1.0


def _by_request(name: str, before: Sequence[RunFacts], after: Sequence[RunFacts]) -> bool:
    """Say whether what is held is that of tasks' requests: there are no workers that hold it."""
    return name in _HELD and not all(run.totals["slots"] for run in (*before, *after))


def _matters(name: str, before: Sequence[RunFacts], after: Sequence[RunFacts]) -> bool:
    """Say whether a sum is a workload on either side."""
    for run in (*before, *after):
        value, wall = run.totals.get(name), run.totals["task_wall_s"]
        if name in _BYTES:
            if run.heavy(value, run.totals["io_s"] if name != "received_bytes" else None):
                return True
        elif name == "peak_memory_bytes":
            if value is not None and value >= LEAST_BYTES:
                return True
        elif name not in _PART_OF_TASKS or not wall or (value or 0.0) >= _LEAST_PART * wall:
            return True
    return False


def _enough(
    name: str,
    was: float | None,
    now: float | None,
    before: Sequence[RunFacts],
    after: Sequence[RunFacts],
    spread: Spread | None,
) -> bool:
    """Say whether the difference is worth a word, beside the whole that it is a part of."""
    change = (now or 0.0) - (was or 0.0)
    moved = abs(change)
    if name == "peak_memory_bytes":
        return moved >= LEAST_BYTES
    if name in _HELD and max(len(before), len(after)) == 1:
        held = [h for run in (*before, *after) if (h := run.totals[_HELD[name]]) is not None]
        least = least_ratio(name, change, spread, _by_request(name, before, after))
        return not held or moved >= least * max(held)
    return True
