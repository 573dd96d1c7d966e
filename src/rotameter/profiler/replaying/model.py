"""What is replayed: a task graph with durations in parts, on workers with slots, as arrays.

A node is one attempt of a task, or a *gate*: a moment of the user's program (a submission) that
takes no slot. The model is plain data; :mod:`rotameter.profiler.replaying.build` makes one from a
trace, :mod:`rotameter.profiler.replaying.changes` edits it, and
:mod:`rotameter.profiler.replaying.engine` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from rotameter.profiler.replaying.engine import Loop
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

    Placer = Callable[[int, Loop], int]

__all__ = ["BEFORE", "INSIDE", "PARTS", "Model", "Policy", "Worker", "make_model"]

PARTS = (
    "compute", "read", "write", "spill", "overhead", "stall", "transfer", "latency", "wait",
)  # fmt: skip
"""What a node's time is made of.

``compute``, ``read`` and ``write`` are the attempt's wall time. ``spill``, ``overhead`` (the
engine's work) and ``stall`` (its worker did nothing, though work was there) hold its slot before
it begins. ``transfer``, ``latency`` (the engine's delay) and ``wait`` (a delay that nothing on
record explains) pass before it may take a slot.
"""

INSIDE = slice(0, 6)
"""Parts that hold a slot."""

BEFORE = slice(6, 9)
"""Parts that pass before a slot is taken."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One place with slots.

    Attributes
    ----------
    name, host : str or None
    cores : float
        Slots.
    memory_bytes : float
        Memory for what nodes ask for; infinite where it does not limit.
    from_s, until_s : float
        When it takes work, in the model's seconds.
    speed_ratio : float
        How fast it computes; 1 is usual.
    was_ratio : float
        How fast it computed when the durations of its nodes were recorded.
    """

    name: str | None
    host: str | None = None
    cores: float = 1.0
    memory_bytes: float = float("inf")
    from_s: float = 0.0
    until_s: float = float("inf")
    speed_ratio: float = 1.0
    was_ratio: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """How ready nodes get slots.

    Attributes
    ----------
    place : {"recorded", "any", "bytes", "even"} or callable
        ``recorded``: pinned nodes at home, others at home if it is free, else where a slot is;
        ``any``: wherever a slot is free; ``bytes``: chosen when ready, the soonest start counting
        what must be fetched; ``even``: chosen when ready, the least occupied worker. A callable
        gets ``(node, loop)`` when a node is ready and gives a worker, or -1 for any.
    order : ndarray of float64, shape (n,), or None
        Priorities instead of the model's; lower goes first.
    """

    place: Literal["recorded", "any", "bytes", "even"] | Placer = "recorded"
    order: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A run that can be replayed. Second 0 is the first submission.

    Attributes
    ----------
    parts_s : ndarray of float64, shape (n, len(PARTS))
        Seconds of each node.
    row : ndarray of int64, shape (n,)
        Row of the trace's ``tasks``; -1 for gates and for nodes that a change made.
    group : ndarray of int64, shape (n,)
        Into ``groups``; -1 unknown and gates.
    cores : ndarray of float64, shape (n,)
        Slots held; 0 for gates.
    memory_bytes : ndarray of float64, shape (n,)
        Memory held on the worker; 0 where it does not limit.
    read_bytes, write_bytes, received_bytes : ndarray of float64, shape (n,)
        Moved by the node; 0 where unknown. Used where a bandwidth is set.
    output_bytes : ndarray of float64, shape (n,)
        Size of its result: what a node on another worker has to fetch.
    home : ndarray of int64, shape (n,)
        Recorded worker, -1 unknown.
    pinned : ndarray of bool, shape (n,)
        Runs at home only; the others run where a slot is free.
    priority : ndarray of float64, shape (n,)
        Lower goes first.
    release_s : ndarray of float64, shape (n,)
        Not before this second (0: no such limit).
    dep_task, dep_on : ndarray of int64, shape (n_deps,)
        Node ``dep_task`` waits for node ``dep_on``.
    lost, again : ndarray of bool, shape (n,)
        Attempts whose work is gone, and attempts that compute what was computed before.
    workers : tuple of Worker
    link_bps, storage_bps : float or None
        Bytes a second of each worker's link and of the shared storage, shared fairly; None replays
        transfers, reads and writes with their recorded seconds.
    move_bps : float or None
        Bytes a second seen between workers: prices the inputs of a node that runs elsewhere.
    policy : Policy
        How nodes get slots if :func:`simulate` is not told otherwise.
    recorded_s : float or None
        Makespan on record.
    notes : tuple of str
        What could not be taken from the trace.
    """

    parts_s: Floats
    row: Codes
    group: Codes
    groups: tuple[str, ...]
    cores: Floats
    memory_bytes: Floats
    read_bytes: Floats
    write_bytes: Floats
    received_bytes: Floats
    output_bytes: Floats
    home: Codes
    pinned: Mask
    priority: Floats
    release_s: Floats
    dep_task: Codes
    dep_on: Codes
    lost: Mask
    again: Mask
    workers: tuple[Worker, ...]
    link_bps: float | None = None
    storage_bps: float | None = None
    move_bps: float | None = None
    policy: Policy = Policy()
    recorded_s: float | None = None
    notes: tuple[str, ...] = ()

    @staticmethod
    def from_trace(trace: Trace) -> Model | None:
        """Make a model of a run; None where no attempt has a start and an end."""
        from rotameter.profiler.replaying.build import build

        return build(trace)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.row)

    @property
    def gate(self) -> Mask:
        """Nodes that hold no slot."""
        return np.asarray(self.cores <= 0)

    @property
    def wall_s(self) -> Floats:
        """Seconds of each node inside its task: compute, read and write; shape (n,)."""
        return np.asarray(self.parts_s[:, :3].sum(axis=1))

    @property
    def held_s(self) -> Floats:
        """Seconds that each node holds its slot; shape (n,)."""
        return np.asarray(self.parts_s[:, INSIDE].sum(axis=1))

    @property
    def delay_s(self) -> Floats:
        """Seconds between a node's last input and its claim to a slot; shape (n,)."""
        return np.asarray(self.parts_s[:, BEFORE].sum(axis=1))


def make_model(
    compute_s: ArrayLike,
    deps: ArrayLike = (),
    workers: Sequence[Worker] = (),
    *,
    parts_s: Mapping[str, ArrayLike] | None = None,
    group: ArrayLike | None = None,
    groups: Sequence[str] = ("task",),
    cores: ArrayLike | None = None,
    memory_bytes: ArrayLike | None = None,
    bytes_: Mapping[str, ArrayLike] | None = None,
    home: ArrayLike | None = None,
    pinned: ArrayLike | None = None,
    release_s: ArrayLike | None = None,
    link_bps: float | None = None,
    storage_bps: float | None = None,
) -> Model:
    """Make a model by hand: for tests, simulated workflows and what has no trace.

    Parameters
    ----------
    compute_s : array_like, shape (n,)
        Seconds of each node.
    deps : array_like of int, shape (n_deps, 2)
        ``(node, what it waits for)``.
    workers : sequence of Worker
        One worker of one slot if none.
    parts_s : mapping, optional
        Other parts by name (see :data:`PARTS`).
    bytes_ : mapping, optional
        ``read``, ``write``, ``received``, ``output``: bytes of each node.
    group, groups, cores, memory_bytes, home, pinned, release_s, link_bps, storage_bps
        As in :class:`Model`.

    Returns
    -------
    Model

    Examples
    --------
    >>> make_model([1.0, 2.0], [(1, 0)]).n
    2
    """
    compute = np.asarray(compute_s, dtype=np.float64)
    n = len(compute)
    parts = np.zeros((n, len(PARTS)))
    parts[:, 0] = compute
    for name, seconds in (parts_s or {}).items():
        parts[:, PARTS.index(name)] = seconds
    pairs = np.asarray(deps, dtype=np.int64).reshape(-1, 2)
    moved = {k: np.asarray((bytes_ or {}).get(k, np.zeros(n)), float) for k in _MOVED}
    return Model(
        parts_s=parts,
        row=np.arange(n, dtype=np.int64),
        group=np.asarray(np.zeros(n) if group is None else group, dtype=np.int64),
        groups=tuple(groups),
        cores=np.asarray(np.ones(n) if cores is None else cores, dtype=np.float64),
        memory_bytes=np.asarray(np.zeros(n) if memory_bytes is None else memory_bytes, float),
        read_bytes=moved["read"],
        write_bytes=moved["write"],
        received_bytes=moved["received"],
        output_bytes=moved["output"],
        home=np.asarray(np.full(n, -1) if home is None else home, dtype=np.int64),
        pinned=np.asarray(np.zeros(n) if pinned is None else pinned, dtype=bool),
        priority=np.arange(n, dtype=np.float64),
        release_s=np.asarray(np.zeros(n) if release_s is None else release_s, float),
        dep_task=pairs[:, 0].copy(),
        dep_on=pairs[:, 1].copy(),
        lost=np.zeros(n, dtype=bool),
        again=np.zeros(n, dtype=bool),
        workers=tuple(workers) or (Worker("worker-0"),),
        link_bps=link_bps,
        storage_bps=storage_bps,
    )


_MOVED = ("read", "write", "received", "output")
