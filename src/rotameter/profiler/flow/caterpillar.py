"""Caterpillar trees of a run's data flow: a critical path and what hangs on it.

After Lee et al., "Data Flow Lifecycles for Optimizing Workflow Coordination" (SC '23): the spine
is a longest path, the legs are its neighbours at distance 1; a forest comes from taking the
spine's tasks out and doing so again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow.paths import Dag, Path, flow_dag, longest_path

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Mask

__all__ = ["Caterpillar", "Forest", "caterpillar", "caterpillars"]


@dataclass(frozen=True, slots=True)
class Caterpillar:
    """A path through the run and its neighbours.

    Parameters
    ----------
    length : float
        Weight of the spine.
    spine : tuple of int
        Task indices along the path.
    spine_objects : tuple of int
        Objects on the path, in order (those handed on, and its outer ends).
    leg_tasks, leg_objects : tuple of int
        Neighbours at distance 1 of the spine's tasks that are not on it, ascending.
    bytes : float or None
        What the spine's tasks moved; None where no edge of theirs says it.
    """

    length: float
    spine: tuple[int, ...]
    spine_objects: tuple[int, ...]
    leg_tasks: tuple[int, ...]
    leg_objects: tuple[int, ...]
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Forest:
    """Caterpillars, heaviest spine first, no task on two spines.

    Parameters
    ----------
    trees : tuple of Caterpillar
    rest_tasks : int
        Tasks on no spine because ``limit`` trees were made.
    """

    trees: tuple[Caterpillar, ...]
    rest_tasks: int


def caterpillar(graph: FlowGraph, weight: str = "time") -> Caterpillar | None:
    """Give the caterpillar of the critical path; None for a graph without tasks.

    Parameters
    ----------
    graph : FlowGraph
    weight : str, one of :data:`rotameter.profiler.flow.paths.WEIGHTS`

    Raises
    ------
    UsageError
        If the weight is unknown.

    Examples
    --------
    >>> from rotameter.profiler.flow.graph import flow_graph
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [("a", "x", "write", 2), ("b", "x", "read", 4), ("c", "x", "read", 1)]
    >>> tree = caterpillar(flow_graph(Trace.from_tables({"flows": [
    ...     {"task_id": t, "object": o, "op": op, "bytes": n} for t, o, op, n in rows]})), "bytes")
    >>> tree.spine, tree.spine_objects, tree.leg_tasks
    ((0, 1), (0,), (2,))
    """
    trees = caterpillars(graph, weight, limit=1).trees
    return trees[0] if trees else None


def caterpillars(graph: FlowGraph, weight: str = "time", limit: int = 16) -> Forest:
    """Give the forest: caterpillar, take its spine's tasks out, and again.

    Parameters
    ----------
    graph : FlowGraph
    weight : str
    limit : int
        Most trees; each costs one pass over the links.

    Raises
    ------
    UsageError
        If the weight is unknown.
    """
    dag = flow_dag(graph, weight)
    left: Mask = np.ones(dag.n, dtype=bool)
    src, dst, _ = graph.links()
    trees: list[Caterpillar] = []
    rest = len(graph.tasks)
    while rest and len(trees) < limit:
        path, names = _heaviest(dag, left)
        spine = [int(v) for v in names if v < len(graph.tasks)]
        if not spine:
            break
        trees.append(_tree(graph, dag, path, names, src, dst))
        left[spine] = False
        rest -= len(spine)
    return Forest(tuple(trees), rest)


def _heaviest(dag: Dag, left: Mask) -> tuple[Path, list[int]]:
    """Find the heaviest path with a task among the vertices left; its vertices in ``dag``."""
    keep = left[dag.src] & left[dag.dst]
    used = np.zeros(dag.n, dtype=bool)
    used[: dag.n_tasks] = left[: dag.n_tasks]
    used[dag.src[keep]] = True
    used[dag.dst[keep]] = True
    names = np.flatnonzero(used)
    place = np.full(dag.n, -1, dtype=np.int64)
    place[names] = np.arange(len(names))
    src, dst = place[dag.src[keep]], place[dag.dst[keep]]
    path = longest_path(Dag(len(names), src, dst, dag.vertex[names], dag.link[keep]))
    assert path is not None  # Called only while tasks are left.
    links = np.flatnonzero(keep)[list(path.links)] if path.links else ()
    found = Path(path.length, path.vertices, tuple(int(at) for at in links))
    return found, [int(names[v]) for v in path.vertices]


def _tree(
    graph: FlowGraph, dag: Dag, path: Path, names: list[int], src: Codes, dst: Codes
) -> Caterpillar:
    n = len(graph.tasks)
    on: Mask = np.zeros(n, dtype=bool)
    on[[v for v in names if v < n]] = True
    via = dag.via if dag.via is not None else np.full(len(dag.src), -1)
    objects = [int(via[at]) for at in path.links if via[at] >= 0]
    near = np.union1d(dst[on[src]], src[on[dst]])
    mine = on[graph.edge_task]
    touched = np.unique(graph.edge_object[mine])
    moved = graph.bytes[mine]
    known = ~np.isnan(moved)
    return Caterpillar(
        path.length,
        tuple(v for v in names if v < n),
        tuple(dict.fromkeys(objects)),
        tuple(near[~on[near]].tolist()),
        tuple(np.setdiff1d(touched, objects).tolist()),
        float(moved[known].sum()) if known.any() else None,
    )
