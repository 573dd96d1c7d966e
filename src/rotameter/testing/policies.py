"""What every policy of a batch system must do: the conformance kit for such ``policies``."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rotameter.protocols import Policy

__all__ = ["check_batch_policy"]

_CASES = 40


def check_batch_policy(make: Callable[[], Any]) -> None:
    """Check a policy that places jobs, on small random workloads of several kinds.

    Every job starts once, after it arrived, where it fits; the machine never holds more than it
    has; two runs give one schedule.

    Parameters
    ----------
    make : callable
        Gives a fresh one.

    Raises
    ------
    AssertionError
        Saying what it does wrong.

    Examples
    --------
    >>> from rotameter.forecasting.cosim.policies.easy import Easy
    >>> check_batch_policy(Easy)
    """
    from rotameter.errors import RotameterError
    from rotameter.forecasting.cosim.engine import run_policy
    from rotameter.forecasting.cosim.machine import Machine, taken_by

    assert isinstance(make(), Policy), "a policy has needs and decide(state)"
    draw = random.Random(0)
    machines = (
        Machine(cores=6),
        Machine(cores=6, memory_bytes=8, gpus=2),
        Machine(cores=4, nodes=3, memory_bytes=6),
    )
    for number in range(_CASES):
        machine = machines[number % len(machines)]
        jobs = _jobs(draw)
        jobs = jobs.take(taken_by(jobs, machine).fits)
        taken = taken_by(jobs, machine)
        try:
            first, again = (run_policy(jobs, taken, make()) for _ in range(2))
        except RotameterError as error:
            raise AssertionError(str(error)) from error
        assert first == again, "two runs of one workload differ"
        assert (jobs.arrive_s <= first.starts_s).all(), "a job starts before it arrives"


def _jobs(draw: random.Random) -> Any:
    from rotameter.forecasting.cosim.jobs import make_jobs

    n = draw.randrange(12)

    def column(low: int, high: int) -> list[int]:
        return [draw.randint(low, high) for _ in range(n)]

    return make_jobs(
        sorted(column(0, 15)),
        column(0, 12),
        column(1, 7),
        limit_s=column(1, 12),
        memory_bytes=column(0, 8),
        gpus=column(0, 2),
        user=column(0, 2),
    )
