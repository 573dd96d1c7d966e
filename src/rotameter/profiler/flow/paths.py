"""Longest paths through a run under any weight, slack, and the k heaviest paths.

Longest paths of an acyclic digraph by one pass in topological order (Cormen et al., Introduction
to Algorithms, ch. 22), slack as in the critical path method (Kelley and Walker, 1959), k best by
keeping k partial paths a vertex. Time is linear in vertices + links (times k for k paths).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import UsageError
from rotameter.profiler.flow._plan import Dag, Plan, heads, known, plan_of

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats

__all__ = ["WEIGHTS", "Dag", "Path", "Slack", "flow_dag", "k_paths", "longest_path", "slack"]

WEIGHTS = ("time", "bytes", "used_bytes", "footprint_bytes", "ops", "busy_s")
"""What :func:`flow_dag` can weigh by: seconds of tasks, or a number of the data's edges."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Path:
    """A path from a vertex without predecessors to one without successors.

    Parameters
    ----------
    length : float
        Sum of its vertices' and links' weights.
    vertices : tuple of int
    links : tuple of int
        Positions in ``src``; one less than vertices.
    """

    length: float
    vertices: tuple[int, ...]
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """How much heavier a vertex or link could be without a heavier longest path.

    Parameters
    ----------
    length : float
        Of the longest path.
    vertex, link : ndarray of float64, shapes (n,) and (n_links,)
        0 = on a longest path.
    """

    length: float
    vertex: Floats
    link: Floats


def flow_dag(graph: FlowGraph, weight: str = "time") -> Dag:
    """Weigh a data-flow graph.

    ``time``: tasks weigh their seconds (of the attempt that delivered), so that the longest path
    bounds the run from below. All others: a link weighs what its producer wrote plus what its
    consumer read of the object, and objects that no link hands on (inputs, outputs) are vertices.

    Parameters
    ----------
    graph : FlowGraph
    weight : str, one of :data:`WEIGHTS`

    Raises
    ------
    UsageError
        If the weight is unknown.

    Examples
    --------
    >>> from rotameter.profiler.flow.graph import flow_graph
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [("a", "in", "read", 9), ("a", "x", "write", 2), ("b", "x", "read", 4)]
    >>> graph = flow_graph(Trace.from_tables({"flows": [
    ...     {"task_id": t, "object": o, "op": op, "bytes": n} for t, o, op, n in rows]}))
    >>> dag = flow_dag(graph, "bytes")
    >>> best = longest_path(dag)
    >>> best.length, [dag.name(graph, v) for v in best.vertices]
    (15.0, ['in', 'a', 'b'])
    """
    if weight not in WEIGHTS:
        raise UsageError(f"no weight {weight!r}; known: {', '.join(WEIGHTS)}")
    src, dst, via = graph.links()
    n, m = len(graph.tasks), len(graph.objects)
    if weight == "time":
        span = graph.end_s - graph.start_s
        with np.errstate(invalid="ignore"):
            took = np.fmin(graph.wall_s, np.where(span >= 0, span, np.nan))
            # A dependency on record that ended later was not waited for.
            real = ~(graph.start_s[dst] < graph.end_s[src] - 1e-6)
        weights = np.zeros(int(real.sum()))
        return Dag(n, src[real], dst[real], took, weights, via[real], n, m)
    values = np.maximum(known(getattr(graph, weight)), 0.0)
    wrote, read = (_per_pair(graph, values, side) for side in (True, False))
    link = np.where(via >= 0, wrote(src, via) + read(dst, via), 0.0)
    inner = np.unique(np.concatenate([src * m + via, (n + dst) * m + via])[np.tile(via >= 0, 2)])
    made = graph.edge_write
    key = np.where(made, graph.edge_task, n + graph.edge_task) * m + graph.edge_object
    outer = np.flatnonzero(~np.isin(key, inner))
    task, thing, out = graph.edge_task[outer], graph.edge_object[outer], made[outer]
    return Dag(
        n + 2 * m,
        np.concatenate([src, np.where(out, task, n + thing)]),
        np.concatenate([dst, np.where(out, n + m + thing, task)]),
        np.zeros(n + 2 * m),
        np.concatenate([link, values[outer]]),
        np.concatenate([via, thing]),
        n,
        m,
    )


def _per_pair(graph: FlowGraph, values: Floats, write: bool) -> Any:
    """Give a function of (task, object) arrays: the edge's value, 0 where there is none."""
    rows = np.flatnonzero(graph.edge_write == write)
    m = max(len(graph.objects), 1)
    key = graph.edge_task[rows] * m + graph.edge_object[rows]
    order = np.argsort(key, kind="stable")
    key, mine = key[order], values[rows[order]]

    def of(task: Codes, thing: Codes) -> Floats:
        if not len(key):
            return np.zeros(len(task))
        wanted = task * m + thing
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        return np.where(key[at] == wanted, mine[at], 0.0)

    return of


def longest_path(dag: Dag) -> Path | None:
    """Give the heaviest path; None for a graph without vertices.

    Of equals the one whose last vertex, then the one before it (and so on), has the lowest index.

    Raises
    ------
    UsageError
        If the graph has a cycle.

    Examples
    --------
    >>> dag = Dag(3, np.array([0, 1]), np.array([2, 2]), np.array([1.0, 2, 3]), np.zeros(2))
    >>> longest_path(dag)
    Path(length=5.0, vertices=(1, 2), links=(1,))
    """
    if not dag.n:
        return None
    plan = plan_of(dag)
    head, came = heads(plan)
    v = max(plan.ends, key=lambda end: (head[end], -end))
    length, vertices, links = head[v], [v], []
    while came[v] >= 0:
        links.append(plan.link[came[v]])
        v = plan.source[came[v]]
        vertices.append(v)
    return Path(length, tuple(reversed(vertices)), tuple(reversed(links)))


def slack(dag: Dag) -> Slack:
    """Give the slack of every vertex and link.

    Raises
    ------
    UsageError
        If the graph has a cycle.

    Examples
    --------
    >>> dag = Dag(3, np.array([0, 1]), np.array([2, 2]), np.array([1.0, 2, 3]), np.zeros(2))
    >>> found = slack(dag)
    >>> found.length, found.vertex.tolist(), found.link.tolist()
    (5.0, [1.0, 0.0, 0.0], [1.0, 0.0])
    """
    if not dag.n:
        return Slack(0.0, np.zeros(0), np.zeros(0))
    plan = plan_of(dag)
    head, _ = heads(plan)
    tail = [0.0] * dag.n  # Heaviest continuation after each vertex.
    for v in reversed(plan.order):
        beyond = tail[v] + plan.vertex[v]
        for at in range(plan.first[v], plan.first[v + 1]):
            u = plan.source[at]
            tail[u] = max(tail[u], plan.weight[at] + beyond)
    length = max(head[v] for v in plan.ends)
    before, after = np.array(head), np.array(tail)
    vertex = length - (before + after)
    onward = known(dag.vertex)[dag.dst] + after[dag.dst]
    link = length - (before[dag.src] + known(dag.link) + onward)
    limit = _ROUNDING * max(length, 0.0)
    return Slack(
        length,
        np.where(vertex <= limit, 0.0, vertex),
        np.where(link <= limit, 0.0, link),
    )


def k_paths(dag: Dag, k: int = 5) -> list[Path]:
    """Give the k heaviest paths that differ in their vertices, heaviest first.

    Of several links between two vertices the heaviest counts. Equals come in the order of
    :func:`longest_path`. Fewer than ``k`` where the graph has fewer.

    Raises
    ------
    UsageError
        If the graph has a cycle or k < 1.

    Examples
    --------
    >>> dag = Dag(3, np.array([0, 1]), np.array([2, 2]), np.array([1.0, 2, 3]), np.zeros(2))
    >>> [(p.length, p.vertices) for p in k_paths(dag, 9)]
    [(5.0, (1, 2)), (4.0, (0, 2))]
    """
    if k < 1:
        raise UsageError("k_paths needs k of 1 or more")
    plan = plan_of(dag)
    # Of each vertex: [(length, place of the last link or -1, rank at its source), …], best first.
    kept: list[list[tuple[float, int, int]]] = [[] for _ in range(dag.n)]
    for v in plan.order:
        own = plan.vertex[v]
        low, high = plan.first[v], plan.first[v + 1]
        if low == high:
            kept[v] = [(own, -1, 0)]
            continue
        runs = [
            [
                (-(length + plan.weight[at] + own), at, rank)
                for rank, (length, _, _) in enumerate(kept[plan.source[at]])
            ]
            for at in range(low, high)
        ]
        best = runs[0] if len(runs) == 1 else heapq.nsmallest(k, (x for run in runs for x in run))
        kept[v] = [(-minus, at, rank) for minus, at, rank in best]
    ends = [(-length, v, rank) for v in plan.ends for rank, (length, _, _) in enumerate(kept[v])]
    return [_trace_back(plan, kept, v, rank) for _, v, rank in heapq.nsmallest(k, ends)]


def _trace_back(plan: Plan, kept: list[list[tuple[float, int, int]]], v: int, rank: int) -> Path:
    length, at, _ = kept[v][rank]
    vertices, links = [v], []
    while at >= 0:
        rank = kept[v][rank][2]
        links.append(plan.link[at])
        v = plan.source[at]
        vertices.append(v)
        at = kept[v][rank][1]
    return Path(length, tuple(reversed(vertices)), tuple(reversed(links)))
