"""Changes of the graph itself: nodes dropped, merged, split, staged; and orders of work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.replaying.model import PARTS

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["dropped", "group_medians", "levels", "merged", "split", "staged", "work_behind"]

_FIELDS = (
    "row", "group", "cores", "memory_bytes", "read_bytes", "write_bytes", "received_bytes",
    "output_bytes", "home", "pinned", "priority", "release_s", "lost", "again",
)  # fmt: skip
_SUMMED = ("read_bytes", "write_bytes", "received_bytes", "output_bytes")
_ONCE = (PARTS.index("overhead"), PARTS.index("latency"))


def group_medians(model: Model, values: Floats) -> Floats:
    """Give each node the median of its group; NaN for nodes without a group; shape (n,)."""
    from rotameter.profiler.groups import quantiles

    n = len(model.groups)
    key = np.where((model.group >= 0) & ~model.gate, model.group, n)
    medians = quantiles(key, np.where(key < n, values, np.nan), n + 1, (0.5,))[0]
    return np.asarray(np.asarray(medians, dtype=np.float64)[key])


def dropped(model: Model, nodes: Mask) -> Model:
    """Turn nodes into gates that take no time."""
    parts = model.parts_s.copy()
    parts[nodes] = 0.0
    return replace(
        model,
        parts_s=parts,
        cores=np.where(nodes, 0.0, model.cores),
        memory_bytes=np.where(nodes, 0.0, model.memory_bytes),
        received_bytes=np.where(nodes, 0.0, model.received_bytes),
    )


def levels(model: Model) -> Codes:
    """Give each node's depth: 0 without dependencies, else one more than its deepest input.

    Level by level (Kahn 1962); nodes in a circle stay at 0.
    """
    depth = np.zeros(model.n, dtype=np.int64)
    order = np.argsort(model.dep_on, kind="stable")
    after = model.dep_task[order]
    bounds = np.searchsorted(model.dep_on[order], np.arange(model.n + 1))
    waits = np.bincount(model.dep_task, minlength=model.n)
    front = np.flatnonzero(waits == 0)
    level = 0
    while front.size:
        depth[front] = level
        sizes = bounds[front + 1] - bounds[front]
        start = np.repeat(bounds[front] - np.r_[0, np.cumsum(sizes)[:-1]], sizes)
        reached = after[start + np.arange(int(sizes.sum()))]
        np.subtract.at(waits, reached, 1)
        reached = np.unique(reached)
        front = reached[waits[reached] == 0]
        level += 1
    return depth


def work_behind(model: Model) -> Floats:
    """Give the longest chain of work from each node's start to the end; seconds, shape (n,).

    Upward rank without communication (Topcuoglu, Hariri and Wu, HEFT 2002).
    """
    rank = (model.held_s + model.delay_s).tolist()
    own = list(rank)
    order = np.lexsort((-levels(model)[model.dep_task],))
    for task, on in zip(model.dep_task[order].tolist(), model.dep_on[order].tolist(), strict=True):
        rank[on] = max(rank[on], own[on] + rank[task])
    return np.asarray(rank, dtype=np.float64)


def merged(model: Model, nodes: Mask, k: int) -> Model:
    """Merge ``k`` nodes each, of one group and one depth, in their order.

    No edge joins nodes of one depth, so that merging them makes no circle.
    """
    if k <= 1 or not nodes.any():
        return model
    which = np.flatnonzero(nodes)
    depth = levels(model)[which]
    order = np.lexsort((model.priority[which], depth, model.group[which]))
    which, depth = which[order], depth[order]
    group = model.group[which]
    new = np.r_[True, (np.diff(depth) != 0) | (np.diff(group) != 0)]
    start = np.maximum.accumulate(np.where(new, np.arange(len(which)), 0))
    head = which[(np.arange(len(which)) - start) // k * k + start]
    into = np.arange(model.n)
    into[which] = head
    kept = np.unique(into)
    place = np.full(model.n, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return _folded(model, place[into], kept)


def _folded(model: Model, target: Codes, kept: Codes) -> Model:
    n = len(kept)
    members = np.bincount(target, minlength=n)
    parts = np.stack(
        [
            np.bincount(target, model.parts_s[:, c], minlength=n) / (members if c in _ONCE else 1)
            for c in range(len(PARTS))
        ],
        axis=1,
    )
    fields = {name: getattr(model, name)[kept] for name in _FIELDS}
    for name in _SUMMED:
        fields[name] = np.bincount(target, getattr(model, name), minlength=n)
    fields["row"] = np.where(members > 1, -1, fields["row"])
    for name in ("memory_bytes", "cores"):
        most = np.zeros(n)
        np.maximum.at(most, target, getattr(model, name))
        fields[name] = most
    homes = np.full(n, True)
    homes[target[model.home != model.home[kept][target]]] = False
    fields["pinned"] = fields["pinned"] & homes
    task, on = target[model.dep_task], target[model.dep_on]
    apart = task != on
    pairs = np.unique(np.stack([task[apart], on[apart]], axis=1), axis=0)
    return replace(
        model, parts_s=parts, dep_task=pairs[:, 0].copy(), dep_on=pairs[:, 1].copy(), **fields
    )


def split(model: Model, nodes: Mask, k: int) -> Model:
    """Do each node's work in ``k`` nodes side by side, with its inputs and for its dependents."""
    if k <= 1 or not nodes.any():
        return model
    which = np.flatnonzero(nodes)
    parts = model.parts_s.copy()
    shared = [c for c in range(len(PARTS)) if c not in _ONCE]
    parts[np.ix_(which, np.array(shared))] /= k
    fields = {name: getattr(model, name).copy() for name in _FIELDS}
    for name in _SUMMED:
        fields[name][which] = fields[name][which] / k
    fields["pinned"][which] = False
    copies = np.concatenate([which] * (k - 1))
    fields = {name: np.concatenate([v, v[copies]]) for name, v in fields.items()}
    fields["row"][model.n :] = -1
    number = np.full(model.n, -1, dtype=np.int64)
    number[which] = np.arange(len(which))
    task, on = [model.dep_task], [model.dep_on]
    in_task, in_on = number[model.dep_task] >= 0, number[model.dep_on] >= 0
    for piece in range(k - 1):
        base = model.n + piece * len(which)
        task += [base + number[model.dep_task[in_task]], model.dep_task[in_on]]
        on += [model.dep_on[in_task], base + number[model.dep_on[in_on]]]
    both = in_task & in_on  # a chosen node that waits for a chosen node: every piece for every
    for one in range(k - 1):
        for other in range(k - 1):
            task.append(model.n + one * len(which) + number[model.dep_task[both]])
            on.append(model.n + other * len(which) + number[model.dep_on[both]])
    return replace(
        model,
        parts_s=np.concatenate([parts, parts[copies]]),
        dep_task=np.concatenate(task),
        dep_on=np.concatenate(on),
        **fields,
    )


def staged(model: Model, nodes: Mask, in_s: float, out_s: float) -> Model:
    """Put one copy before the chosen nodes and one behind them; copies take no slot."""
    which = np.flatnonzero(nodes)
    if not which.size:
        return model
    n = model.n
    extra = np.zeros((2, len(PARTS)))
    extra[:, 0] = in_s, out_s
    fill = {"row": -1, "group": -1, "home": -1, "pinned": False, "lost": False, "again": False}
    fields: dict[str, Any] = {
        name: np.concatenate(
            [getattr(model, name), np.full(2, fill.get(name, 0), getattr(model, name).dtype)]
        )
        for name in _FIELDS
    }
    fields["priority"][n:] = model.priority.min(), model.priority.max()
    depends = nodes[model.dep_task] & ~nodes[model.dep_on]
    # A copy waits only for what is there before any chosen node has run.
    outside = np.unique(model.dep_on[depends])
    outside = outside[~_reached(model, nodes)[outside]]
    feeds = nodes[model.dep_on] & ~nodes[model.dep_task]
    after = np.unique(model.dep_task[feeds])
    clear = after[~_reaches(model, nodes)[after]]
    task = [model.dep_task, which, np.full(len(outside), n), np.full(len(which), n + 1), clear]
    on = [model.dep_on, np.full(len(which), n), outside, which, np.full(len(clear), n + 1)]
    return replace(
        model,
        parts_s=np.concatenate([model.parts_s, extra]),
        dep_task=np.concatenate(task),
        dep_on=np.concatenate(on),
        **fields,
    )


def _reached(model: Model, nodes: Mask) -> Mask:
    """Say which nodes come after a chosen one."""
    return _spread(model.dep_on, model.dep_task, nodes)


def _reaches(model: Model, nodes: Mask) -> Mask:
    """Say which nodes come before a chosen one."""
    return _spread(model.dep_task, model.dep_on, nodes)


def _spread(source: Codes, target: Codes, nodes: Mask) -> Mask:
    n = len(nodes)
    order = np.argsort(source, kind="stable")
    after = target[order]
    bounds = np.searchsorted(source[order], np.arange(n + 1))
    found = np.zeros(n, dtype=bool)
    front = np.flatnonzero(nodes)
    while front.size:
        sizes = bounds[front + 1] - bounds[front]
        start = np.repeat(bounds[front] - np.r_[0, np.cumsum(sizes)[:-1]], sizes)
        reached = np.unique(after[start + np.arange(int(sizes.sum()))])
        front = reached[~found[reached]]
        found[front] = True
    return found
