"""The machine that jobs run on, and what each job takes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.room import Need, NodeRoom, PoolRoom, Room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.forecasting.cosim.jobs import Jobs

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = ["Machine", "Taken", "taken_by"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Nodes of one kind; one node alone is a pool, from which any job takes what it needs.

    Parameters
    ----------
    cores : int
        Of one node.
    nodes : int
    memory_bytes, gpus : int, optional
        Of one node; None: not counted.
    exclusive : bool
        A job has its nodes for itself, as nodes are given out whole; else jobs share them.

    Examples
    --------
    >>> Machine(cores=100).all_cores, Machine(cores=32, nodes=4).all_cores
    (100, 128)
    """

    cores: int
    nodes: int = 1
    memory_bytes: int | None = None
    gpus: int | None = None
    exclusive: bool = False

    def __post_init__(self) -> None:
        sizes = {"cores": self.cores, "nodes": self.nodes}
        sizes |= {"memory": self.memory_bytes or 1, "GPUs": self.gpus if self.gpus else 1}
        for name, value in sizes.items():
            if value < 1:
                raise PolicyError(f"a machine with {value} {name}", hint="give a number above 0")
        if self.exclusive and self.nodes == 1:
            raise PolicyError(
                "one node cannot be given out whole to several jobs",
                hint="say how many cores a node has",
            )

    @property
    def all_cores(self) -> int:
        """Cores of all nodes."""
        return self.cores * self.nodes

    @property
    def per_node(self) -> tuple[int, ...]:
        """What a node has of each resource that is counted: cores, memory, GPUs."""
        counted = (self.cores, self.memory_bytes, self.gpus)
        return tuple(value for value in counted if value is not None)


@dataclass(frozen=True, slots=True)
class Taken:
    """What jobs take of a machine.

    Attributes
    ----------
    need : list of (int, tuple of int)
        Of each job: on how many nodes at once, and how much of each resource on each of them.
    unit : tuple of int
        What one node (or the pool) has.
    units : int
        How many there are.
    fits : ndarray of bool, shape (n,)
        Jobs that the empty machine could hold.
    """

    need: list[Need]
    unit: tuple[int, ...]
    units: int
    fits: Mask
    size: Ints | None = field(default=None)

    @property
    def single(self) -> bool:
        """Whether there is one resource in one pool."""
        return self.size is not None

    def room(self) -> Room:
        """Give the empty machine."""
        return PoolRoom(list(self.unit)) if self.units == 1 else NodeRoom.of(self.units, self.unit)

    def share(self, at: int) -> float:
        """Give the largest share of a resource of the whole machine that a job takes."""
        parts, each = self.need[at]
        return max(parts * one / (self.units * all_) for one, all_ in zip(each, self.unit,
                   strict=True) if all_)  # fmt: skip


def taken_by(jobs: Jobs, machine: Machine) -> Taken:
    """Say what each job takes.

    On nodes a job takes the fewest that hold it, or as many as it asked for if that is more, and
    equal parts of it go to each. Nodes given out whole are a pool of nodes. A job of which the
    memory is not known takes none.

    Parameters
    ----------
    jobs : Jobs
    machine : Machine

    Examples
    --------
    >>> from rotameter.forecasting.cosim.jobs import make_jobs
    >>> jobs = make_jobs([0, 0], [1, 1], [4, 48])
    >>> taken_by(jobs, Machine(cores=32, nodes=4)).need
    [(1, (4,)), (2, (24,))]
    >>> taken_by(jobs, Machine(cores=32, nodes=4, exclusive=True)).need
    [(1, (1,)), (1, (2,))]
    """
    wants = [jobs.cores]
    if machine.memory_bytes is not None:
        wants.append(jobs.memory_bytes)
    if machine.gpus is not None:
        wants.append(jobs.gpus)
    unit = machine.per_node
    if machine.nodes == 1:
        fits = np.all([want <= has for want, has in zip(wants, unit, strict=True)], axis=0)
        need = [(1, one) for one in zip(*(want.tolist() for want in wants), strict=True)]
        return Taken(need, unit, 1, fits, jobs.cores if len(unit) == 1 else None)
    count = np.maximum.reduce(
        [np.maximum(jobs.nodes, 1)]
        + [-(-want // max(has, 1)) for want, has in zip(wants, unit, strict=True)]
    )
    fits = count <= machine.nodes
    for want, has in zip(wants, unit, strict=True):
        fits &= (want == 0) | (has > 0)
    if machine.exclusive:
        return Taken([(1, (n,)) for n in count.tolist()], (machine.nodes,), 1, fits, count)
    whole = jobs.exclusive.tolist()
    parts = [(-(-want // count)).tolist() for want in wants]
    need = [
        (n, unit if alone else one)
        for n, alone, one in zip(count.tolist(), whole, zip(*parts, strict=True), strict=True)
    ]
    return Taken(need, unit, machine.nodes, fits)
