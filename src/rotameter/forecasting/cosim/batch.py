"""Run jobs on a machine under a policy: the schedule, at speed where there is a faster way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.engine import refuse_foreign, run_policy
from rotameter.forecasting.cosim.kernels import compiled
from rotameter.forecasting.cosim.kernels.conservative import conservative_starts
from rotameter.forecasting.cosim.kernels.easy import easy_starts
from rotameter.forecasting.cosim.kernels.fcfs import fcfs_starts
from rotameter.forecasting.cosim.machine import taken_by
from rotameter.forecasting.cosim.policies.conservative import Conservative
from rotameter.forecasting.cosim.policies.easy import Easy
from rotameter.forecasting.cosim.policies.fcfs import Fcfs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.forecasting.cosim.jobs import Jobs
    from rotameter.forecasting.cosim.machine import Machine, Taken
    from rotameter.forecasting.cosim.room import Held
    from rotameter.protocols import Policy

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = ["Schedule", "run_batch"]

_FAST: dict[type, Any] = {
    Fcfs: fcfs_starts,
    Easy: easy_starts,
    Conservative: conservative_starts,
}
"""By the exact class: what is derived from one of them decides for itself."""

_COMPILE_FROM = 500_000
"""Jobs from which compiling is worth its time."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When jobs ran.

    Attributes
    ----------
    jobs : Jobs
        Those that fit on the machine.
    machine : Machine
    starts_s, ends_s : ndarray of int64, shape (n,)
    too_large : int
        Jobs that the empty machine could not hold; they are left out.
    held : tuple of Held, optional
        The nodes of each job, where jobs share nodes.
    """

    jobs: Jobs
    machine: Machine
    starts_s: Ints
    ends_s: Ints
    too_large: int = 0
    held: tuple[Held, ...] | None = field(default=None, repr=False)

    @property
    def waits_s(self) -> Ints:
        """How long each job waited."""
        return self.starts_s - self.jobs.arrive_s

    @property
    def killed(self) -> Mask:
        """Jobs that were killed at their limit."""
        return np.asarray(self.jobs.run_s > self.jobs.limit_s)


def run_batch(
    jobs: Jobs, machine: Machine, policy: Policy, *, accelerate: bool | None = None
) -> Schedule:
    """Give the schedule of jobs on a machine under a policy.

    Seconds are whole, nothing is drawn at random: the same input gives the same schedule. What is
    faster gives the same as the policy's own ``decide``, job for job.

    Parameters
    ----------
    jobs : Jobs
    machine : Machine
    policy : Policy
        A fresh one.
    accelerate : bool, optional
        With numba or without; None: with it where it is installed and the log is long.

    Raises
    ------
    PolicyError
        If the policy cannot run here, or does what cannot be.

    Examples
    --------
    >>> from rotameter.forecasting.cosim.jobs import make_jobs
    >>> from rotameter.forecasting.cosim.machine import Machine
    >>> jobs = make_jobs([0, 1, 2], [10, 5, 8], [2, 3, 1])
    >>> run_batch(jobs, Machine(cores=3), Easy()).starts_s.tolist()
    [0, 10, 2]
    """
    refuse_foreign(policy)
    taken = taken_by(jobs, machine)
    left_out = int((~taken.fits).sum())
    if left_out:
        jobs = jobs.take(taken.fits)
        taken = taken_by(jobs, machine)
    fast = _FAST.get(type(policy)) if taken.single else None
    held = None
    if fast is not None:
        starts = _at_speed(fast, jobs, taken, accelerate)
    else:
        ran = run_policy(jobs, taken, policy)
        starts = np.asarray(ran.starts_s, np.int64)
        held = tuple(ran.held) if taken.units > 1 else None
    return Schedule(jobs, machine, starts, starts + jobs.held_s, left_out, held)


def _at_speed(fast: Any, jobs: Jobs, taken: Taken, accelerate: bool | None) -> Ints:
    size, capacity = taken.size, taken.unit[0]
    columns = (jobs.arrive_s, jobs.held_s, jobs.limit_s, size)
    if accelerate and not compiled.available():
        raise PolicyError("numba is not installed", hint="pip install 'rotameter[fast]'")
    wanted = len(jobs) >= _COMPILE_FROM if accelerate is None else accelerate
    if wanted and fast is easy_starts and compiled.available():
        arrays = [np.ascontiguousarray(column, np.int64) for column in columns]
        return np.asarray(compiled.easy_compiled()(*arrays, capacity))
    lists = [column.tolist() for column in columns if column is not None]
    return np.asarray(fast(*lists, capacity), np.int64)
