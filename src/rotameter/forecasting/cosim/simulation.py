"""Simulate a log: first on its own machine, to see how true that is, then on the one asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import FidelityError, UsageError
from rotameter.forecasting.cosim.as_trace import trace_of
from rotameter.forecasting.cosim.batch import Schedule, run_batch
from rotameter.forecasting.cosim.fidelity import Fidelity, Limits, compare
from rotameter.forecasting.cosim.jobs import Intake, Jobs, jobs_of
from rotameter.forecasting.cosim.machine import Machine
from rotameter.forecasting.cosim.measures import Measures, measure
from rotameter.forecasting.cosim.policies.easy import Easy
from rotameter.forecasting.cosim.wws import Terms, WaitScore, wait_score
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.protocols import Policy

__all__ = ["CLASSES", "CapacityPoint", "Simulation", "capacity_curve", "score_of", "simulate"]

CLASSES = ("queue", "user", "account", "group")
"""Columns by which jobs can be parted into classes."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What a log would have become.

    Attributes
    ----------
    policy : str
    schedule : Schedule
    measures : Measures
    score : WaitScore
    fidelity : Fidelity
        Of the replay on the recorded machine, under the policy or under ``easy``, whichever comes
        nearer to the record; of the simulation itself where no other machine is asked for.
    intake : Intake
    recorded_cores : int, optional
        Cores of the machine on which the log was recorded.
    what_if : bool
        Whether another machine was simulated than the recorded one.
    """

    policy: str
    schedule: Schedule
    measures: Measures
    score: WaitScore
    fidelity: Fidelity
    intake: Intake
    recorded_cores: int | None
    what_if: bool

    @property
    def trace(self) -> Trace:
        """The schedule as a trace."""
        return trace_of(self.schedule, self.policy)

    @property
    def intervals(self) -> dict[str, tuple[float, float] | None]:
        """Between what the numbers lie, if they are as wrong as the replay of the record."""
        made = self.measures.to_dict()
        return {name: self.fidelity.interval(name, made[name]) for name in self.fidelity.recorded}

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know."""
        intake, notes = self.intake, []
        if intake.lost:
            words = ", ".join(f"{reason}: {n:,}" for reason, n in intake.unusable.items())
            notes.append(f"{many(intake.lost, 'row')} of {intake.rows:,} cannot be used ({words})")
        if self.schedule.too_large:
            notes.append(
                f"{many(self.schedule.too_large, 'job is', 'jobs are')} larger than the machine "
                "and left out"
            )
        if intake.cores_differ:
            were = many(intake.cores_differ, "job was", "jobs were")
            notes.append(
                f"{were} granted other processors than asked for: what was {intake.cores_from} is "
                "taken"
            )
        if intake.beyond_limit:
            notes.append(
                f"{many(intake.beyond_limit, 'job')} ran longer than the limit: killed at it"
            )
        if intake.without_limit:
            notes.append(
                f"{many(intake.without_limit, 'job')} without a known limit: planned with the run "
                "time, as if it were known before"
            )
        if not self.fidelity.jobs:
            notes.append("the log has no start times: how true the simulation is, is not known")
        elif self.recorded_cores is None:
            notes.append(
                "the log does not say on how many processors it was recorded: it is compared with "
                "the simulated machine"
            )
        notes += [f"beyond the limit: {word}" for word in self.fidelity.trouble]
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON (schema 1)."""
        machine = self.schedule.machine
        intervals = {
            name: None if pair is None else list(pair) for name, pair in self.intervals.items()
        }
        return {
            "schema": 1,
            "policy": self.policy,
            "processors": machine.all_cores,
            "machine": asdict(machine),
            "recorded_processors": self.recorded_cores,
            "what_if": self.what_if,
            "jobs": {
                "rows": self.intake.rows,
                "simulated": len(self.schedule.jobs),
                "unusable": dict(self.intake.unusable),
                "larger_than_machine": self.schedule.too_large,
                "without_limit": self.intake.without_limit,
                "beyond_limit": self.intake.beyond_limit,
                "cores_from": self.intake.cores_from,
                "cores_differ": self.intake.cores_differ,
            },
            "measures": self.measures.to_dict(),
            "measures_interval": intervals,
            "wait_score": self.score.to_dict(),
            "fidelity": self.fidelity.to_dict(),
            "notes": self.notes,
        }


def simulate(
    trace: Trace,
    make_policy: Callable[[], Policy],
    machine: Machine | None = None,
    *,
    name: str = "",
    cores_from: str | None = None,
    by: str | None = None,
    terms: Terms | None = None,
    limits: Limits | None = None,
    forced: bool = False,
    price_core_h: float | None = None,
    wait_limit_s: float | None = None,
) -> Simulation:
    """Simulate the jobs of a log under a policy.

    Parameters
    ----------
    trace : Trace
    make_policy : callable
        Gives a fresh policy.
    machine : Machine, optional
        Without it the one on which the log was recorded.
    name : str
        The policy's.
    cores_from : {"requested", "granted"}, optional
        As for :func:`~rotameter.forecasting.cosim.jobs.jobs_of`.
    by : {"queue", "user", "account", "group"}, optional
        Classes of the wait score.
    terms : Terms, optional
        Parameters of the wait score.
    limits : Limits, optional
        How far the replay of the record may be off for a what-if.
    forced : bool
        Answer beyond the limits too.
    price_core_h, wait_limit_s : float, optional
        As for :func:`~rotameter.forecasting.cosim.measures.measure`.

    Raises
    ------
    EmptyTrace
        If no job can be simulated.
    UsageError
        If no machine is given and the log names none.
    FidelityError
        If another machine is asked for than the recorded one, and the replay of the record is
        beyond the limits.
    """
    jobs, intake = jobs_of(trace, cores_from=cores_from)
    recorded = _recorded_cores(trace)
    if machine is None and recorded is None:
        raise UsageError(
            "the log does not say how many processors there are", hint="add --processors N"
        )
    machine = machine or Machine(cores=recorded or 1)
    fidelity = None
    if recorded is not None and machine.all_cores != recorded:
        own = Machine(cores=recorded)
        fidelity = _nearest(jobs, intake, own, {name: make_policy, "easy": Easy}, limits)
        _refuse_untrue(fidelity, recorded, forced=forced)
    schedule = run_batch(jobs, machine, make_policy())
    return Simulation(
        policy=name,
        schedule=schedule,
        measures=measure(schedule, price_core_h=price_core_h, wait_limit_s=wait_limit_s),
        score=score_of(schedule, by=by, terms=terms),
        fidelity=fidelity or compare(schedule, intake, limits, name),
        intake=intake,
        recorded_cores=recorded,
        what_if=fidelity is not None,
    )


def _nearest(
    jobs: Jobs,
    intake: Intake,
    own: Machine,
    policies: Mapping[str, Callable[[], Policy]],
    limits: Limits | None,
) -> Fidelity:
    """Replay the record under several policies; give the replay that comes nearest to it.

    Which policy the recorded system ran is not known. What differs because another one is asked
    for says nothing about how well log and machine are understood.
    """
    found = [
        compare(run_batch(jobs, own, make()), intake, limits, name)
        for name, make in policies.items()
    ]
    return min(found, key=lambda one: (len(one.trouble), one.ks_distance or 0.0))


def _refuse_untrue(found: Fidelity, recorded: int, *, forced: bool) -> None:
    """Raise where the replay of the record is beyond the limits."""
    if found.trouble and not forced:
        raise FidelityError(
            f"no what-if: replayed on the recorded {recorded:,} processors under {found.policy}, "
            f"{'; '.join(found.trouble)}",
            hint=f"simulate --processors {recorded} shows the difference; --force-what-if "
            "answers all the same",
        )


def _recorded_cores(trace: Trace) -> int | None:
    cores = trace.meta.get("machine_cores")
    return int(cores) if isinstance(cores, (int, float)) and cores >= 1 else None


def score_of(schedule: Schedule, *, by: str | None = None, terms: Terms | None = None) -> WaitScore:
    """Score the waits of a schedule; a class counts as much as the core-hours it asked for.

    Parameters
    ----------
    schedule : Schedule
    by : str, optional
        Column that names the classes; without it there is one.
    terms : Terms, optional
    """
    jobs = schedule.jobs
    classes = None
    if by is not None:
        if by not in CLASSES:
            raise UsageError(f"no classes by {by!r}", hint=f"one of {', '.join(CLASSES)}")
        if jobs.table is not None:
            classes = [one or "unknown" for one in jobs.table[by].to_pylist()]
    weights = jobs.cores.astype(np.float64) * jobs.limit_s
    waits = schedule.waits_s.astype(np.float64)
    return wait_score(waits, classes=classes, weights=weights, terms=terms)


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """One machine of a capacity curve."""

    cores: int
    measures: Measures
    score: WaitScore
    too_large: int


def capacity_curve(
    jobs: Jobs,
    make_policy: Callable[[], Policy],
    cores: list[int],
    *,
    by: str | None = None,
    terms: Terms | None = None,
) -> list[CapacityPoint]:
    """Simulate the same jobs on pools of several sizes.

    Parameters
    ----------
    jobs : Jobs
    make_policy : callable
        Gives a fresh policy.
    cores : list of int
    by, terms
        As for `score_of`.

    Examples
    --------
    >>> from rotameter.forecasting.cosim.jobs import make_jobs
    >>> from rotameter.forecasting.cosim.policies.easy import Easy
    >>> jobs = make_jobs([0] * 8, [60] * 8, [1] * 8)
    >>> [point.measures.makespan_s for point in capacity_curve(jobs, Easy, [1, 2, 4])]
    [480.0, 240.0, 120.0]
    """
    points = []
    for count in cores:
        schedule = run_batch(jobs, Machine(cores=count), make_policy())
        points.append(
            CapacityPoint(
                cores=count,
                measures=measure(schedule),
                score=score_of(schedule, by=by, terms=terms),
                too_large=schedule.too_large,
            )
        )
    return points
