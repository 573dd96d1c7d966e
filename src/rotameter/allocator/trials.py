"""Trials of allocators on a workload, as ``rotameter size`` reports them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.baselines import make_allocator
from rotameter.allocator.ladder import cheapest, grouped
from rotameter.allocator.ledger import GB_HOUR
from rotameter.allocator.online import Nodes, Outcome, concurrent, sequential
from rotameter.allocator.workload import orders

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["SHUFFLES", "Trial", "best_in_hindsight", "machine_bytes", "trials"]

SHUFFLES = 4
"""Shuffled orders that a concurrent trial is repeated on, besides the file's own."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An allocator on a workload, over seeds (and orders, where many run at once).

    Attributes
    ----------
    file, allocator, mode : str
        ``sequential`` or ``concurrent``.
    awe : float
        Memory-seconds used over held.
    waste_gbh, surplus_gbh, failed_gbh : float
        Held and not used; of it what completed attempts held too much, and failed ones in all.
    retries_per_task, most_attempts, makespan_s : float
    p99_us : float or None
        Time of a decision and of what it learns after, by the timer; None without one.
    """

    file: str
    allocator: str
    mode: str
    awe: float
    waste_gbh: float
    surplus_gbh: float
    failed_gbh: float
    retries_per_task: float
    most_attempts: int
    makespan_s: float
    p99_us: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON has it: what the machine's speed decides is under ``timing``."""
        made = {name: getattr(self, name) for name in self.__slots__ if name != "p99_us"}
        return {**made, "timing": {"p99_us": self.p99_us}}


def machine_bytes(work: Workload) -> float:
    """Give a machine that holds every task: a power of two GB, 64 GB at least.

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> one = np.ones(1)
    >>> machine_bytes(Workload("w", np.zeros(1, int), ("g",), one * 90e9, one, one, one)) / 1e9
    128.0
    """
    most, made = float(work.need.max(initial=0.0)), 64e9
    while made < most:
        made *= 2
    return made


def trials(
    work: Workload,
    names: Iterable[str],
    *,
    most_bytes: float,
    nodes: Nodes | None,
    seeds: Sequence[int] = (0,),
    sizes: bool = False,
    timer: Callable[[], int] | None = None,
) -> list[Trial]:
    """Try allocators, one task after another and, where ``nodes`` are given, many at once.

    Parameters
    ----------
    work : Workload
    names : iterable of str
    most_bytes : float
        What the largest machine has.
    nodes : Nodes, optional
    seeds : sequence of int
        For allocators that draw, and for the shuffled orders.
    sizes : bool
        Whether allocators are told the tasks' sizes.
    timer : callable, optional
        Gives nanoseconds of the thread's CPU, to time decisions.

    Raises
    ------
    PolicyError
        For an unknown name, or an allocator that gives what cannot be used.
    """
    made = []
    told: dict[str, Any] = {"sizes": sizes} if timer is None else {"sizes": sizes, "timer": timer}
    for name in names:
        alone = [
            sequential(work, make_allocator(name, most_bytes, seed=s), most_bytes, **told)
            for s in seeds
        ]
        made.append(_summed(work.name, name, "sequential", alone))
        if nodes is None:
            continue
        together = []
        for s in seeds:
            for order in orders(len(work), SHUFFLES, np.random.default_rng(s)):
                allocator = make_allocator(name, most_bytes, seed=s)
                out = concurrent(work, allocator, most_bytes, nodes, order, **told)
                together.append(out)
        made.append(_summed(work.name, name, "concurrent", together))
    return made


def _summed(file: str, name: str, mode: str, outs: list[Outcome]) -> Trial:
    def middle(values: Iterable[float | None]) -> float:
        return float(statistics.fmean(v for v in values if v is not None))

    spent = np.concatenate([np.asarray(out.decisions_ns, dtype=np.float64) for out in outs])
    return Trial(
        file,
        name,
        mode,
        awe=middle(out.ledger.efficiency for out in outs),
        waste_gbh=middle(out.ledger.waste_gbh for out in outs),
        surplus_gbh=middle(out.ledger.surplus / GB_HOUR for out in outs),
        failed_gbh=middle(out.ledger.failed / GB_HOUR for out in outs),
        retries_per_task=middle(out.ledger.retries_per_task for out in outs),
        most_attempts=max(out.ledger.most_attempts for out in outs),
        makespan_s=middle(out.makespan_s for out in outs),
        p99_us=round(float(np.percentile(spent, 99)) / 1e3, 1) if spent.any() else None,
    )


def best_in_hindsight(work: Workload) -> float:
    """Give the efficiency of the best fixed ladder a group, knowing all its tasks.

    Failed attempts count in full; allocators that follow drift or input size may do better.

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> need, wall, nan = np.array([1e9, 4e9]), np.ones(2), np.full(2, np.nan)
    >>> best_in_hindsight(Workload("w", np.zeros(2, int), ("g",), need, wall, nan, nan))
    0.8333333333333334
    """
    held = 0.0
    for code in range(len(work.groups)):
        mine = work.group == code
        if not mine.any():
            continue
        pairs = zip(work.need[mine].tolist(), work.wall_s[mine].tolist(), strict=True)
        values, weights = grouped(pairs)
        held += cheapest(values, weights).cost * sum(weights)
    return float(work.need @ work.wall_s) / held
