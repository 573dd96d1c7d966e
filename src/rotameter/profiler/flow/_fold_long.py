"""What is drawn of a graph with more stages than there is room for: rounds and long chains.

Where tasks have names, all that has one name is one bar, whatever its stage: a loop of `load` and
`map` is these two. Else the heaviest stages stand alone, in their order, and each stretch of
stages between them is one bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow._fold_labels import pattern
from rotameter.profiler.flow._fold_sets import ranked

if TYPE_CHECKING:
    from rotameter.profiler.flow.folding import Folded
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["by_name", "by_stretch", "named_after"]

_NAMES = 4096


def by_name(folded: Folded, n: int) -> Codes | None:
    """Give the bar of each fold: tasks by group, objects by the groups that make and read them.

    Parameters
    ----------
    folded : Folded
    n : int
        Bars at most.

    Returns
    -------
    ndarray of int64, shape (n_nodes,), or None
        None where tasks have no names, one only, or too many.
    """
    tasks, objects = folded.task_folds, folded.object_folds
    group = tasks.first(folded.graph.group)
    if not folded.named or not 2 <= len(np.unique(group)) <= n:
        return None
    edges = folded.edges
    touched: list[set[int]] = [set() for _ in range(objects.n)]
    sides = zip(
        edges.object.tolist(), group[edges.task].tolist(), edges.write.tolist(), strict=True
    )
    for thing, name, write in sides:
        touched[thing].add(2 * name + write)
    codes: dict[tuple[int, ...], int] = {}
    for own in touched:
        codes.setdefault(tuple(sorted(own)), len(codes))
    kind = [codes[tuple(sorted(own))] for own in touched]
    is_object = np.arange(folded.n_nodes) >= tasks.n
    made: Codes = ranked(is_object, np.concatenate([group, np.array(kind, dtype=np.int64)]))
    return made if int(made.max()) < n else None


def by_stretch(weight: Floats, is_object: Mask, stage: Codes, n: int) -> Codes | None:
    """Give the bar of each fold: the heaviest stages, and the stretches between them.

    Parameters
    ----------
    weight : ndarray of float64, shape (n_nodes,)
    is_object : ndarray of bool, shape (n_nodes,)
    stage : ndarray of int64, shape (n_nodes,)
        -1 for objects that nobody makes: they have a bar of their own.
    n : int
        Bars at most.

    Returns
    -------
    ndarray of int64, shape (n_nodes,), or None
        None where not even one stretch fits.

    Examples
    --------
    >>> tasks = np.zeros(6, dtype=bool)
    >>> weight = np.array([1.0, 1.0, 9.0, 1.0, 1.0, 1.0])
    >>> by_stretch(weight, tasks, np.arange(6), 3).tolist()
    [0, 0, 1, 2, 2, 2]
    """
    stages, at = np.unique(stage, return_inverse=True)
    at = at.ravel()
    total = np.bincount(at, weight, minlength=len(stages))
    order = np.lexsort((np.arange(len(stages)), -total))
    for heavy in range(min(n, len(stages)), -1, -1):
        alone = stages < 0
        alone[order[:heavy]] = True
        begins = alone | np.concatenate([[True], alone[:-1]])
        made: Codes = ranked(np.cumsum(begins)[at], is_object)
        if int(made.max(initial=-1)) < n:
            return made
    return None


def named_after(folded: Folded, members: Codes, weight: Floats) -> str:
    """Name a bar of several folds: their common name, else the largest and how many more.

    Parameters
    ----------
    folded : Folded
    members : ndarray of int64, shape (m,)
        Folds: all of tasks, or all of objects.
    weight : ndarray of float64, shape (n_nodes,)
    """
    first = int(members[0])
    tasks = folded.task_folds
    if first < tasks.n:
        names = np.unique(tasks.first(folded.graph.group)[members])
        if len(names) == 1 and folded.named:
            return folded.graph.groups[names[0]] if names[0] >= 0 else "no group"
        largest = int(members[np.argmax(weight[members])])
        return f"{folded.label(largest)} and {len(members) - 1:,} more"
    things: list[str] = []
    for fold in members.tolist():
        own = folded.object_folds.members(fold - tasks.n)
        things += [folded.graph.objects[i] for i in own[:_NAMES].tolist()]
        if len(things) >= _NAMES:
            break
    return pattern(things)
