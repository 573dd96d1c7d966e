"""What a schedule is worth: waits, slowdown, makespan, use, cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.forecasting.cosim.batch import Schedule

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["SHORT_S", "Measures", "measure"]

SHORT_S = 10.0
"""Jobs shorter than this count as so long in the slowdown (Feitelson's bound)."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Numbers of a schedule; None where they cannot be told.

    Attributes
    ----------
    jobs : int
    wait_mean_s, wait_p50_s, wait_p95_s, wait_max_s : float
    slowdown_mean, slowdown_p50, slowdown_p95 : float
        (wait + run) / max(run, 10 s), at least 1: the bounded slowdown.
    makespan_s : float
        From the first arrival to the last end.
    used_core_h, held_core_h : float
        What jobs held, and what the machine had over the makespan.
    utilisation_ratio : float, optional
        One over the other.
    cost : float, optional
        What the machine costs over the makespan, where a price is given.
    killed : int
        Jobs killed at their limit.
    late_ratio : float, optional
        Part of the jobs that waited longer than was asked for, where something was.
    """

    jobs: int
    wait_mean_s: float | None
    wait_p50_s: float | None
    wait_p95_s: float | None
    wait_max_s: float | None
    slowdown_mean: float | None
    slowdown_p50: float | None
    slowdown_p95: float | None
    makespan_s: float | None
    used_core_h: float
    held_core_h: float | None
    utilisation_ratio: float | None
    cost: float | None
    killed: int
    late_ratio: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def measure(
    schedule: Schedule, *, price_core_h: float | None = None, wait_limit_s: float | None = None
) -> Measures:
    """Measure a schedule.

    Parameters
    ----------
    schedule : Schedule
    price_core_h : float, optional
        Price of one core of the machine for one hour, busy or not.
    wait_limit_s : float, optional
        Jobs that wait longer are late.

    Examples
    --------
    >>> from rotameter.forecasting.cosim.batch import run_batch
    >>> from rotameter.forecasting.cosim.jobs import make_jobs
    >>> from rotameter.forecasting.cosim.machine import Machine
    >>> from rotameter.forecasting.cosim.policies.fcfs import Fcfs
    >>> schedule = run_batch(make_jobs([0, 0], [60, 60], [1, 1]), Machine(cores=1), Fcfs())
    >>> got = measure(schedule)
    >>> got.wait_mean_s, got.makespan_s, got.utilisation_ratio, got.slowdown_mean
    (30.0, 120.0, 1.0, 1.5)
    """
    jobs, waits = schedule.jobs, schedule.waits_s
    n = len(jobs)
    used = float((jobs.cores * jobs.held_s).sum()) / 3600
    if not n:
        return _nothing()
    run = jobs.held_s
    slowdown = np.maximum((waits + run) / np.maximum(run, SHORT_S), 1.0)
    makespan = float(schedule.ends_s.max() - jobs.arrive_s.min())
    held = schedule.machine.all_cores * makespan / 3600
    return Measures(
        jobs=n,
        wait_mean_s=float(waits.mean()),
        wait_p50_s=float(np.quantile(waits, 0.5)),
        wait_p95_s=float(np.quantile(waits, 0.95)),
        wait_max_s=float(waits.max()),
        slowdown_mean=float(slowdown.mean()),
        slowdown_p50=float(np.quantile(slowdown, 0.5)),
        slowdown_p95=float(np.quantile(slowdown, 0.95)),
        makespan_s=makespan,
        used_core_h=used,
        held_core_h=held,
        utilisation_ratio=used / held if held else None,
        cost=None if price_core_h is None else price_core_h * held,
        killed=int(schedule.killed.sum()),
        late_ratio=None if wait_limit_s is None else float((waits > wait_limit_s).mean()),
    )


def _nothing() -> Measures:
    return Measures(
        jobs=0,
        wait_mean_s=None,
        wait_p50_s=None,
        wait_p95_s=None,
        wait_max_s=None,
        slowdown_mean=None,
        slowdown_p50=None,
        slowdown_p95=None,
        makespan_s=None,
        used_core_h=0.0,
        held_core_h=None,
        utilisation_ratio=None,
        cost=None,
        killed=0,
        late_ratio=None,
    )
