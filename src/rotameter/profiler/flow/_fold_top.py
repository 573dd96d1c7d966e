"""The folded graph cut down to what fits on a screen, sums kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow._fold_groups import Groups
from rotameter.profiler.flow._fold_long import by_name, by_stretch, named_after
from rotameter.profiler.flow._fold_sets import ranked

if TYPE_CHECKING:
    from rotameter.profiler.flow.folding import Folded
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Picture", "picture"]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Nodes and links for drawing.

    Parameters
    ----------
    labels : list of str
    is_object : ndarray of bool, shape (n_nodes,)
    stage : ndarray of int64, shape (n_nodes,)
        Of an object: the first stage that makes it, -1 = nobody; of a bar that had to span
        several stages: -2.
    members : ndarray of int64, shape (n_nodes,)
        Tasks or objects in each.
    fold : ndarray of int64, shape (n_nodes,)
        The node of :class:`Folded` that it is, -1 for a bar of several.
    src, dst : ndarray of int64, shape (n_links,)
        Nodes, in the direction in which data (or the dependency) go.
    is_dep : ndarray of bool, shape (n_links,)
        A recorded dependency without data.
    n : ndarray of int64, shape (n_links,)
        Edges of the graph in each.
    bytes, ops, busy_s : ndarray of float64, shape (n_links,)
        Sums of what is known, NaN where nothing is.
    """

    labels: list[str]
    is_object: Mask
    stage: Codes
    members: Codes
    fold: Codes
    src: Codes
    dst: Codes
    is_dep: Mask
    n: Codes
    bytes: Floats
    ops: Floats
    busy_s: Floats


def picture(folded: Folded, n: int) -> Picture:
    """Keep the largest folds and merge the rest; see :meth:`Folded.top`."""
    if n < 2:
        raise ValueError(f"a picture needs at least 2 nodes, not {n}")
    tasks, objects = folded.task_folds, folded.object_folds
    is_object = np.arange(folded.n_nodes) >= tasks.n
    stage = np.concatenate([folded.stage, folded.object_stage])
    side = ranked(is_object, stage)
    weight = _weight(folded)
    node, merged = _bars(folded, weight, is_object, side, stage, n)
    shown, at = np.unique(node, return_inverse=True)
    at = at.ravel()
    groups = Groups(at, len(shown))
    own = (shown < folded.n_nodes) & (groups.size == 1)
    labels = [
        folded.label(i) if own[k] else _named(folded, groups.members(k), weight, merged)
        for k, i in enumerate(shown.tolist())
    ]
    size = np.concatenate([tasks.size, objects.size])
    members = np.bincount(at, size, minlength=len(shown)).astype(np.int64)
    edge_n = np.concatenate([folded.edges.n, folded.deps.n])
    blank = np.full(len(folded.deps), np.nan)
    src = np.concatenate([at[folded.src], at[folded.deps.on]])
    dst = np.concatenate([at[folded.dst], at[folded.deps.task]])
    is_dep = np.arange(len(src)) >= len(folded.edges)
    link = ranked(src, dst, is_dep)
    links = Groups(link, int(link.max(initial=-1)) + 1)

    def total(values: Floats) -> Floats:
        return links.total(np.concatenate([values, blank]))

    return Picture(
        labels=labels,
        is_object=groups.first(is_object.astype(np.int64)) > 0,
        stage=np.where(~own & merged, -2, groups.first(stage)),
        members=members,
        fold=np.where(own, shown, -1),
        src=links.first(src),
        dst=links.first(dst),
        is_dep=links.first(is_dep.astype(np.int64)) > 0,
        n=np.bincount(link, edge_n, minlength=links.n).astype(np.int64),
        bytes=total(folded.edges.bytes),
        ops=total(folded.edges.ops),
        busy_s=total(folded.edges.busy_s),
    )


def _bars(
    folded: Folded, weight: Floats, is_object: Mask, side: Codes, stage: Codes, n: int
) -> tuple[Codes, bool]:
    """Give the bar of each fold, and whether bars span stages; alone, a fold has its own number."""
    count = folded.n_nodes
    kept, merged = _kept(weight, is_object, side, n)
    if not merged:
        return np.where(kept, np.arange(count), count + side), False
    bars = by_name(folded, n)
    if bars is None:
        bars = by_stretch(weight, is_object, stage, n)
    if bars is None:
        bars = is_object.astype(np.int64)
    # A bar has the number of its first fold: they come in the order of their stages.
    _, first, at = np.unique(bars, return_index=True, return_inverse=True)
    return first[at.ravel()], True


def _named(folded: Folded, members: Codes, weight: Floats, merged: bool) -> str:
    return named_after(folded, members, weight) if merged else "other"


def _weight(folded: Folded) -> Floats:
    """Give what makes a node large: bytes through it, else its tasks' time, else members."""
    count = folded.n_nodes
    for values in (folded.edges.bytes, folded.edges.busy_s):
        known = np.nan_to_num(values)
        if known.any():
            through = np.bincount(folded.src, known, minlength=count)
            return np.asarray(through + np.bincount(folded.dst, known, minlength=count))
    wall = np.nan_to_num(folded.task_folds.total(folded.graph.wall_s))
    rest = np.zeros(folded.object_folds.n)
    if wall.any():
        return np.concatenate([wall, rest])
    return np.concatenate([folded.task_folds.size, folded.object_folds.size]).astype(np.float64)


def _kept(weight: Floats, is_object: Mask, side: Codes, n: int) -> tuple[Mask, bool]:
    """Say which nodes stay, and whether the rest spans stages: only where they are too many."""
    count = len(weight)
    kept = np.ones(count, dtype=bool)
    if count <= n:
        return kept, False
    order = np.lexsort((np.arange(count), -weight))
    for place, merged in ((side, False), (is_object.astype(np.int64), True)):
        seen: set[int] = set()
        others = np.empty(count + 1, dtype=np.int64)
        others[count] = 0
        for at in range(count - 1, -1, -1):
            seen.add(int(place[order[at]]))
            others[at] = len(seen)
        fits = np.flatnonzero(np.arange(count + 1) + others <= n)
        if len(fits) and (fits[-1] >= n // 2 or merged):
            kept[order[fits[-1] :]] = False
            return kept, merged
    kept[:] = False
    return kept, True
