"""A model as plain lists: what the event loop reads once a node, without numpy's cost a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.model import INSIDE, PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model, Policy
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Plain", "plain"]

_TRANSFER, _FIRST = PARTS.index("transfer"), slice(3, INSIDE.stop)


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """One entry a node, but for ``speed`` (a worker) and the lists of neighbours.

    ``after[first_after[i]:first_after[i + 1]]`` are the nodes that wait for node ``i``, ``inputs``
    likewise those that it waits for. ``before`` passes in the slot before the task begins.
    """

    rank: list[int]
    home: list[int]
    origin: list[int]
    fixed: list[bool]
    cores: list[float]
    memory: list[float]
    delay: list[float]
    release: list[float]
    before: list[float]
    compute: list[float]
    io: list[float]
    held: list[float]
    transfer: list[float]
    output: list[float]
    own_speed: list[float]
    speed: list[float]
    after: list[int]
    first_after: list[int]
    inputs: list[int]
    first_input: list[int]
    waits: list[int]


def plain(model: Model, policy: Policy) -> Plain:
    """Turn a model into lists, with what a policy changes of it."""
    n, parts = model.n, model.parts_s
    order = model.priority if policy.order is None else policy.order
    rank = np.empty(n, dtype=np.int64)
    rank[np.lexsort((np.arange(n), np.asarray(order)))] = np.arange(n)
    known = (model.home >= 0) & (model.home < len(model.workers))
    home = np.where(known & (policy.place == "recorded"), model.home, -1)
    fixed = model.pinned & (home >= 0)
    cores, memory = _capped(model, np.where(fixed, home, -1))
    delay = model.delay_s
    if model.link_bps:
        delay = delay - np.where(model.received_bytes > 0, parts[:, _TRANSFER], 0.0)
    was = np.array([w.was_ratio for w in model.workers] or [1.0])
    after, first_after = _neighbours(model.dep_on, model.dep_task, n)
    inputs, first_input = _neighbours(model.dep_task, model.dep_on, n)
    return Plain(
        rank=rank.tolist(),
        home=home.tolist(),
        origin=np.where(known, model.home, -1).tolist(),
        fixed=fixed.tolist(),
        cores=cores.tolist(),
        memory=memory.tolist(),
        delay=delay.tolist(),
        release=model.release_s.tolist(),
        before=parts[:, _FIRST].sum(axis=1).tolist(),
        compute=parts[:, 0].tolist(),
        io=(parts[:, 1] + parts[:, 2]).tolist(),
        held=model.held_s.tolist(),
        transfer=parts[:, _TRANSFER].tolist(),
        output=np.nan_to_num(model.output_bytes).tolist(),
        own_speed=np.where(known, was[np.where(known, model.home, 0)], 1.0).tolist(),
        speed=[w.speed_ratio for w in model.workers],
        after=after,
        first_after=first_after,
        inputs=inputs,
        first_input=first_input,
        waits=np.bincount(model.dep_task, minlength=n).tolist(),
    )


def _neighbours(of: Codes, other: Codes, n: int) -> tuple[list[int], list[int]]:
    order = np.argsort(of, kind="stable")
    return other[order].tolist(), np.searchsorted(of[order], np.arange(n + 1)).tolist()


def _capped(model: Model, fixed: Codes) -> tuple[Floats, Floats]:
    """Cut what nodes ask for down to what their worker, or the largest one, has."""
    cores, memory = model.cores.copy(), model.memory_bytes.copy()
    have = np.array([(w.cores, w.memory_bytes) for w in model.workers] or [(1.0, np.inf)])
    at = fixed >= 0
    cores[at] = np.minimum(cores[at], have[fixed[at], 0])
    memory[at] = np.minimum(memory[at], have[fixed[at], 1])
    cores[~at] = np.minimum(cores[~at], have[:, 0].max())
    for need in np.unique(cores[~at]).tolist():
        mine = ~at & (cores == need)
        memory[mine] = np.minimum(memory[mine], have[have[:, 0] >= need - 1e-9, 1].max())
    return cores, memory
