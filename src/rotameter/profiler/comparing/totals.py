"""Sums over a run, compared: run time, task time, bytes, peaks, waste, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.comparing.bootstrap import LEAST_RATIO, Ratio, called, ratio_of_means

if TYPE_CHECKING:
    from rotameter.profiler.comparing.facts import RunFacts

__all__ = ["TOTALS", "Total", "totals_of"]

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
    """

    name: str
    before: float | None
    after: float | None
    change_ratio: float | None
    interval90: tuple[float, float] | None
    is_change: bool


def _value(run: RunFacts, name: str) -> float | None:
    wall = run.totals["task_wall_s"]
    if name == "wall_per_task_s":
        count = int(np.isfinite(run.wall_s).sum())
        return wall / count if wall is not None and count else None
    if name == "wall_per_gb_s":
        size = run.totals["bytes"]
        return wall / size * 1e9 if wall is not None and size else None
    return run.totals[name]


def totals_of(
    before: Sequence[RunFacts], after: Sequence[RunFacts], seed: int
) -> tuple[Total, ...]:
    """Compare the sums of two sides.

    Parameters
    ----------
    before, after : sequence of RunFacts
    seed : int

    Returns
    -------
    tuple of Total
        In the order of :data:`TOTALS`. With one run a side no interval is known, and what differs
        by 10 % is called a change.
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
        if ratio is not None:
            is_change = sure[number]
        elif change is None:
            is_change = bool(was == 0.0 and now)
        else:
            is_change = abs(change) >= LEAST_RATIO - 1e-12
        made.append(Total(name, was, now, change, interval, is_change))
    return tuple(made)
