"""How near a replay of a recorded log comes to what was recorded, and what follows from that."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.forecasting.cosim.batch import Schedule
    from rotameter.forecasting.cosim.jobs import Intake

    Floats = NDArray[np.float64]

__all__ = ["Fidelity", "Limits", "compare", "ks_distance"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond these no what-if is answered, unless it is forced.

    Parameters
    ----------
    covered_ratio : float
        Least part of the log's rows that is simulated.
    ks_distance : float
        Largest distance between the distributions of recorded and simulated waits.
    makespan_factor : float
        Largest factor between the recorded and the simulated makespan.
    """

    covered_ratio: float = 0.95
    ks_distance: float = 0.5
    makespan_factor: float = 1.25


@dataclass(frozen=True, slots=True)
class Fidelity:
    """A replay on the recorded machine beside the record.

    Attributes
    ----------
    jobs : int
        Jobs whose recorded wait is known; only these are compared.
    covered_ratio : float
        Part of the log's rows that is simulated.
    dropped : dict of str to int
        What is not, and why.
    recorded, simulated : dict of str to float
        ``wait_mean_s``, ``wait_p50_s``, ``wait_p95_s``, ``makespan_s``; None where unknown.
    ks_distance : float, optional
        Kolmogorov–Smirnov distance between the two distributions of waits.
    limits : Limits
    policy : str
        Under which it was replayed.
    """

    jobs: int
    covered_ratio: float
    dropped: dict[str, int]
    recorded: dict[str, float | None]
    simulated: dict[str, float | None]
    ks_distance: float | None
    limits: Limits = field(default_factory=Limits)
    policy: str = ""

    @property
    def trouble(self) -> tuple[str, ...]:
        """What is beyond the limits, in words; empty where nothing is."""
        found = []
        if self.covered_ratio < self.limits.covered_ratio:
            found.append(
                f"{self.covered_ratio:.1%} of the rows can be simulated "
                f"(limit {self.limits.covered_ratio:.0%})"
            )
        if self.ks_distance is not None and self.ks_distance > self.limits.ks_distance:
            found.append(
                f"recorded and simulated waits lie {self.ks_distance:.2f} apart "
                f"(KS distance, limit {self.limits.ks_distance:.2f})"
            )
        was, made = self.recorded.get("makespan_s"), self.simulated.get("makespan_s")
        factor = max(was / made, made / was) if was and made else 1.0
        if factor > self.limits.makespan_factor:
            found.append(
                f"the makespan is off by a factor of {factor:.2f} "
                f"(limit {self.limits.makespan_factor:.2f})"
            )
        return tuple(found)

    def interval(self, name: str, value: float | None) -> tuple[float, float] | None:
        """Give between what a simulated number lies, if the error here is its error too.

        The error is a factor: recorded over simulated or the reverse, whichever is above 1. Where
        one of the numbers is 0 it is the difference.

        Parameters
        ----------
        name : str
            One of those of ``recorded``.
        value : float, optional

        Examples
        --------
        >>> near = Fidelity(9, 1.0, {}, {"makespan_s": 120.0}, {"makespan_s": 100.0}, 0.1)
        >>> near.interval("makespan_s", 60.0), near.interval("wait_p50_s", 1.0)
        ((50.0, 72.0), None)
        """
        was, made = self.recorded.get(name), self.simulated.get(name)
        if was is None or made is None or value is None:
            return None
        if min(was, made, value) > 0:
            factor = max(was / made, made / was)
            return value / factor, value * factor
        return max(0.0, value - abs(was - made)), value + abs(was - made)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "beyond_limits": list(self.trouble)}


def compare(
    schedule: Schedule, intake: Intake, limits: Limits | None = None, policy: str = ""
) -> Fidelity:
    """Compare a schedule with what the log recorded of the same jobs.

    Parameters
    ----------
    schedule : Schedule
        On the machine on which the log was recorded.
    intake : Intake
        What became of the log's rows.
    limits : Limits, optional
    policy : str
        Its name.
    """
    jobs = schedule.jobs
    dropped = dict(intake.unusable)
    if schedule.too_large:
        dropped["larger than the machine"] = schedule.too_large
    waits = jobs.started_s - jobs.arrive_s
    known = waits >= 0
    was, made = waits[known], schedule.waits_s[known].astype(np.float64)
    recorded: dict[str, float | None] = dict.fromkeys(_names())
    simulated = dict(recorded)
    if len(was):
        first = float(jobs.arrive_s[known].min())
        recorded = _numbers(was, float((jobs.started_s + jobs.run_s)[known].max()) - first)
        simulated = _numbers(made, float(schedule.ends_s[known].max()) - first)
    return Fidelity(
        jobs=len(was),
        covered_ratio=len(jobs) / intake.rows if intake.rows else 0.0,
        dropped=dropped,
        recorded=recorded,
        simulated=simulated,
        ks_distance=ks_distance(was, made) if len(was) else None,
        limits=limits or Limits(),
        policy=policy,
    )


def _names() -> tuple[str, ...]:
    return ("wait_mean_s", "wait_p50_s", "wait_p95_s", "makespan_s")


def _numbers(waits: Floats, makespan_s: float) -> dict[str, float | None]:
    mid, tail = np.quantile(waits, [0.5, 0.95])
    return dict(
        zip(_names(), (float(waits.mean()), float(mid), float(tail), makespan_s), strict=True)
    )


def ks_distance(a: Floats, b: Floats) -> float:
    """Give the largest distance between two distribution functions.

    Examples
    --------
    >>> ks_distance(np.array([0.0, 0.0, 5.0]), np.array([0.0, 5.0, 5.0]))
    0.333...
    """
    at = np.concatenate([a, b])
    below_a = np.searchsorted(np.sort(a), at, side="right") / len(a)
    below_b = np.searchsorted(np.sort(b), at, side="right") / len(b)
    return float(np.abs(below_a - below_b).max())
