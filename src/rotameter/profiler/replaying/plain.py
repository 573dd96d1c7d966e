"""A model as plain lists: what the event loop reads once a node, without numpy's cost a look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.replaying.model import INSIDE, PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model, Policy
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["GATE", "Plain", "Shape", "plain", "shape"]

_TRANSFER, _FIRST = PARTS.index("transfer"), slice(3, INSIDE.stop)
GATE = -2
"""The place of what holds no slot."""
_SHAPE = (
    "priority", "home", "cores", "memory_bytes", "release_s", "output_bytes",
    "dep_task", "dep_on", "workers", "move_bps",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """All but the seconds of a model's nodes: what models with other durations share.

    ``after[first_after[i]:first_after[i + 1]]`` are the nodes that wait for node ``i``, ``inputs``
    likewise those that it waits for (if moving them has a price). ``by_rank`` lists the nodes in
    order; ``roots`` are those that wait for none. ``spot`` is the worker of a node that runs there
    only, :data:`GATE`, or -1. ``tight`` says whether memory may limit.
    """

    of: Model
    policy: Policy
    rank: list[int]
    by_rank: list[int]
    home: list[int]
    origin: list[int]
    fixed: list[bool]
    spot: list[int]
    cores: list[float]
    memory: list[float]
    release: list[float]
    output: list[float]
    after: list[int]
    first_after: list[int]
    inputs: list[int]
    first_input: list[int]
    waits: list[int]
    roots: list[int]
    tight: bool

    def fits(self, model: Model, policy: Policy) -> bool:
        """Say whether a model has this shape, too, but for which of its nodes are pinned."""
        return policy is self.policy and all(
            getattr(model, name) is getattr(self.of, name) for name in _SHAPE
        )


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """The seconds of each node, but for ``speed`` (of a worker).

    ``before`` passes in the slot before the task begins; ``compute`` is at speed 1.
    """

    delay: list[float]
    before: list[float]
    compute: list[float]
    io: list[float]
    held: list[float]
    transfer: list[float]
    speed: list[float]


def plain(model: Model) -> Plain:
    """Turn the seconds of a model into lists."""
    parts, delay = model.parts_s, model.delay_s
    if model.link_bps:
        delay = delay - np.where(model.received_bytes > 0, parts[:, _TRANSFER], 0.0)
    known = _known(model)
    was = np.array([w.was_ratio for w in model.workers] or [1.0])
    own_speed = np.where(known, was[np.where(known, model.home, 0)], 1.0)
    return Plain(
        delay=delay.tolist(),
        before=parts[:, _FIRST].sum(axis=1).tolist(),
        compute=(parts[:, 0] * own_speed).tolist(),
        io=(parts[:, 1] + parts[:, 2]).tolist(),
        held=model.held_s.tolist(),
        transfer=parts[:, _TRANSFER].tolist(),
        speed=[w.speed_ratio for w in model.workers],
    )


def shape(model: Model, policy: Policy, like: Shape | None = None) -> Shape:
    """Turn all else of a model into lists, with what a policy changes of it.

    Parameters
    ----------
    model : Model
    policy : Policy
    like : Shape, optional
        Of another model; what fits is taken from it.
    """
    if like is not None and like.fits(model, policy):
        if np.array_equal(model.pinned, like.of.pinned):
            return like
        return replace(like, of=model, **_places(model, policy))
    n = model.n
    order = model.priority if policy.order is None else policy.order
    by_rank = np.lexsort((np.arange(n), np.asarray(order)))
    rank = np.empty(n, dtype=np.int64)
    rank[by_rank] = np.arange(n)
    after, first_after = _neighbours(model.dep_on, model.dep_task, n)
    priced = bool(model.move_bps)
    inputs, first_input = _neighbours(model.dep_task, model.dep_on, n) if priced else ([], [])
    waits = np.bincount(model.dep_task, minlength=n)
    return Shape(
        of=model,
        policy=policy,
        rank=rank.tolist(),
        by_rank=by_rank.tolist(),
        home=_home(model, policy).tolist(),
        origin=np.where(_known(model), model.home, -1).tolist(),
        release=model.release_s.tolist(),
        output=np.nan_to_num(model.output_bytes).tolist(),
        after=after,
        first_after=first_after,
        inputs=inputs,
        first_input=first_input,
        waits=waits.tolist(),
        roots=np.flatnonzero(waits == 0).tolist(),
        **_places(model, policy),
    )


def _places(model: Model, policy: Policy) -> dict[str, Any]:
    """Give the fields of a shape that depend on which nodes are pinned."""
    home = _home(model, policy)
    fixed = model.pinned & (home >= 0)
    cores, memory = _capped(model, np.where(fixed, home, -1))
    limits = all(w.memory_bytes >= 0 for w in model.workers)
    return {
        "fixed": fixed.tolist(),
        "spot": _spots(model, home, fixed, cores, memory).tolist(),
        "cores": cores.tolist(),
        "memory": memory.tolist(),
        "tight": bool((memory != 0).any()) or not limits,
    }


def _home(model: Model, policy: Policy) -> Codes:
    return np.where(_known(model) & (policy.place == "recorded"), model.home, -1)


def _known(model: Model) -> Mask:
    return np.asarray((model.home >= 0) & (model.home < len(model.workers)))


def _neighbours(of: Codes, other: Codes, n: int) -> tuple[list[int], list[int]]:
    order = np.argsort(of, kind="stable")
    return other[order].tolist(), np.searchsorted(of[order], np.arange(n + 1)).tolist()


def _have(model: Model) -> Floats:
    """Give the cores and the memory of each worker; shape (n_workers, 2)."""
    return np.array([(w.cores, w.memory_bytes) for w in model.workers] or [(1.0, np.inf)])


def _spots(model: Model, home: Codes, fixed: Mask, cores: Floats, memory: Floats) -> Codes:
    have = _have(model)[np.maximum(home, 0)]
    able = (have[:, 0] >= cores - 1e-9) & (have[:, 1] >= memory - 0.5)
    return np.where(cores <= 0, GATE, np.where(fixed & able, home, -1))


def _capped(model: Model, fixed: Codes) -> tuple[Floats, Floats]:
    """Cut what nodes ask for down to what their worker, or the largest one, has."""
    cores, memory = model.cores.copy(), model.memory_bytes.copy()
    have = _have(model)
    at = fixed >= 0
    cores[at] = np.minimum(cores[at], have[fixed[at], 0])
    memory[at] = np.minimum(memory[at], have[fixed[at], 1])
    cores[~at] = np.minimum(cores[~at], have[:, 0].max())
    for need in np.unique(cores[~at]).tolist():
        mine = ~at & (cores == need)
        memory[mine] = np.minimum(memory[mine], have[have[:, 0] >= need - 1e-9, 1].max())
    return cores, memory
