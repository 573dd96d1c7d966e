"""Trials of allocators on a workload, as ``rotameter size`` reports them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.baselines import make_allocator
from rotameter.allocator.ladder import cheapest, grouped
from rotameter.allocator.online import Nodes, Outcome, concurrent, sequential
from rotameter.allocator.resources import MEMORY, Resource
from rotameter.allocator.workload import orders

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["SHUFFLES", "Trial", "best_in_hindsight", "machine_of", "trials"]

SHUFFLES = 4
"""Shuffled orders that a concurrent trial is repeated on, besides the file's own."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An allocator on a workload, over seeds (and orders, where many run at once).

    Attributes
    ----------
    file, allocator, mode : str
        ``sequential``, ``concurrent``, or ``packed``: many at once that share what nodes have.
    awe : float
        Used over held; of time what was taken over what was asked for.
    waste, surplus, failed : float
        Held and not used, GB·h (of time hours that were asked for); of it what completed attempts
        held too much, and failed ones in all.
    retries_per_task, most_attempts, makespan_s : float
    p99_us : float or None
        Time of a decision and of what it learns after, by the timer; None without one.
    resource : Resource
    nodes_used_ratio : float or None
        What tasks needed, of what the nodes had all the time; None where nothing limits them.
    """

    file: str
    allocator: str
    mode: str
    awe: float
    waste: float
    surplus: float
    failed: float
    retries_per_task: float
    most_attempts: int
    makespan_s: float
    p99_us: float | None
    resource: Resource = MEMORY
    nodes_used_ratio: float | None = None

    @property
    def unit(self) -> str:
        """That of what was wasted, as it ends names."""
        return self.resource.held or "h"

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON has it: what the machine's speed decides is under ``timing``."""
        packed = self.mode == "packed"
        return {
            "file": self.file,
            "allocator": self.allocator,
            "mode": self.mode,
            "resource": self.resource.name,
            "awe": self.awe,
            **{f"{n}_{self.unit}": getattr(self, n) for n in ("waste", "surplus", "failed")},
            "retries_per_task": self.retries_per_task,
            "most_attempts": self.most_attempts,
            "makespan_s": self.makespan_s,
            **({"nodes_used_ratio": self.nodes_used_ratio} if packed else {}),
            "timing": {"p99_us": self.p99_us},
        }


def machine_of(work: Workload) -> float:
    """Give what a machine has that holds every task, in doublings of a usual one.

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> one = np.ones(1)
    >>> machine_of(Workload("w", np.zeros(1, int), ("g",), one * 90e9, one, one, one)) / 1e9
    128.0
    """
    most, made = float(work.need.max(initial=0.0)), work.resource.machine
    while made < most:
        made *= 2
    return made


def trials(
    works: Workload | Sequence[Workload],
    names: Iterable[str],
    *,
    most: float | Sequence[float],
    nodes: Nodes | None,
    seeds: Sequence[int] = (0,),
    sizes: bool = False,
    timer: Callable[[], int] | None = None,
) -> list[Trial]:
    """Try allocators, one task after another and, where ``nodes`` are given, many at once.

    Parameters
    ----------
    works : Workload, or a sequence of them
        One a resource, of the same tasks: they are then sized in all of these.
    names : iterable of str
    most : float, or a sequence of them
        What the largest machine has of each.
    nodes : Nodes, optional
    seeds : sequence of int
        For allocators that draw, and for the shuffled orders.
    sizes : bool
        Whether allocators are told the tasks' sizes.
    timer : callable, optional
        Gives nanoseconds of the thread's CPU, to time decisions.

    Returns
    -------
    list of Trial
        One for each name, way of running and resource.

    Raises
    ------
    PolicyError
        For an unknown name, or an allocator that gives what cannot be used.
    """
    works = tuple(works) if isinstance(works, Sequence) else (works,)
    has = tuple(most) if isinstance(most, Sequence) else (most,)
    caps = {one.resource.field: cap for one, cap in zip(works, has, strict=True)}
    made = []
    told: dict[str, Any] = {"sizes": sizes} if timer is None else {"sizes": sizes, "timer": timer}
    for name in names:
        alone = [sequential(works, make_allocator(name, caps, seed=s), has, **told) for s in seeds]
        made += _summed(works, name, "sequential", alone)
        if nodes is None:
            continue
        together = []
        for s in seeds:
            for order in orders(len(works[0]), SHUFFLES, np.random.default_rng(s)):
                allocator = make_allocator(name, caps, seed=s)
                together.append(concurrent(works, allocator, has, nodes, order, **told))
        mode = "packed" if nodes.limits else "concurrent"
        made += _summed(works, name, mode, together, nodes)
    return made


def _summed(
    works: Sequence[Workload],
    name: str,
    mode: str,
    outs: list[Outcome],
    nodes: Nodes | None = None,
) -> list[Trial]:
    def middle(values: Iterable[float | None]) -> float:
        return float(statistics.fmean(v for v in values if v is not None))

    spent = np.concatenate([np.asarray(out.decisions_ns, dtype=np.float64) for out in outs])
    p99_us = round(float(np.percentile(spent, 99)) / 1e3, 1) if spent.any() else None
    made = []
    for work in works:
        resource = work.resource
        books = [out.ledgers[resource.field] for out in outs]
        per = resource.per_held
        made.append(
            Trial(
                work.name,
                name,
                mode,
                awe=middle(one.efficiency for one in books),
                waste=middle((one.surplus + one.failed) / per for one in books),
                surplus=middle(one.surplus / per for one in books),
                failed=middle(one.failed / per for one in books),
                retries_per_task=middle(one.retries_per_task for one in books),
                most_attempts=max(one.most_attempts for one in books),
                makespan_s=middle(out.makespan_s for out in outs),
                p99_us=p99_us,
                resource=resource,
                nodes_used_ratio=_of_nodes(resource, outs, nodes),
            )
        )
    return made


def _of_nodes(resource: Resource, outs: Sequence[Outcome], nodes: Nodes | None) -> float | None:
    has = None if nodes is None else nodes.limits.get(resource.field)
    if has is None or nodes is None:
        return None
    used = [
        out.ledgers[resource.field].used / (nodes.count * has * out.makespan_s)
        for out in outs
        if out.makespan_s > 0
    ]
    return statistics.fmean(used) if used else None


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
