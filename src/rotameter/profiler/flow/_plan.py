"""A weighted acyclic digraph, prepared for passes over it in topological order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Dag", "Plan", "heads", "known", "plan_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Dag:
    """A weighted acyclic digraph.

    Vertices below ``n_tasks`` are tasks; the next ``n_objects`` are objects that only flow in,
    the last ``n_objects`` those that only flow out.

    Parameters
    ----------
    n : int
        Number of vertices.
    src, dst : ndarray of int64, shape (n_links,)
    vertex, link : ndarray of float64, shapes (n,) and (n_links,)
        Weights, not negative; NaN (unknown) adds nothing.
    via : ndarray of int64, shape (n_links,), optional
        The object that a link hands on, -1 = none.
    n_tasks, n_objects : int

    Raises
    ------
    UsageError
        If a weight is negative or a shape does not fit.
    """

    n: int
    src: Codes
    dst: Codes
    vertex: Floats
    link: Floats
    via: Codes | None = None
    n_tasks: int = 0
    n_objects: int = 0

    def __post_init__(self) -> None:
        if len(self.vertex) != self.n or not len(self.src) == len(self.dst) == len(self.link):
            raise UsageError("a weight for every vertex and every link is needed")
        if (self.vertex < 0).any() or (self.link < 0).any():
            raise UsageError("weights of a longest path cannot be negative")

    def name(self, graph: FlowGraph, vertex: int) -> str:
        """Name a vertex: a task's id, or the object's name."""
        if vertex < self.n_tasks:
            return graph.tasks[vertex]
        return graph.objects[(vertex - self.n_tasks) % max(self.n_objects, 1)]


def known(values: Floats) -> Floats:
    """Let what is unknown (or no number) add nothing."""
    return np.where(np.isfinite(values), values, 0.0)


@dataclass(slots=True)
class Plan:
    """A dag as lists, one link a pair of vertices (the heaviest), vertices in order."""

    order: list[int]
    first: list[int]  # Incoming links of v are first[v] … first[v + 1].
    source: list[int]
    weight: list[float]
    link: list[int]
    vertex: list[float]
    ends: list[int]


def plan_of(dag: Dag) -> Plan:
    """Prepare a dag for passes in topological order."""
    weight = known(dag.link)
    rows = np.lexsort((np.arange(len(weight)), -weight, dag.src, dag.dst))
    src, dst = dag.src[rows], dag.dst[rows]
    if len(rows):
        fresh = np.concatenate([[True], (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])])
        rows, src, dst = rows[fresh], src[fresh], dst[fresh]
    count = np.bincount(dst, minlength=dag.n)
    has_next = np.bincount(src, minlength=dag.n) > 0
    return Plan(
        _order(src, dst, dag.n),
        np.concatenate([[0], np.cumsum(count)]).tolist(),
        src.tolist(),
        weight[rows].tolist(),
        rows.tolist(),
        known(dag.vertex).tolist(),
        np.flatnonzero(~has_next).tolist(),
    )


def _order(src: Codes, dst: Codes, n: int) -> list[int]:
    """Give the vertices in topological order (Kahn, 1962)."""
    out = np.argsort(src, kind="stable")
    target = dst[out].tolist()
    first = np.concatenate([[0], np.cumsum(np.bincount(src, minlength=n))]).tolist()
    open_ = np.bincount(dst, minlength=n).tolist()
    order = np.flatnonzero(np.bincount(dst, minlength=n) == 0).tolist()
    for vertex in order:  # Grows while it is walked.
        for at in range(first[vertex], first[vertex + 1]):
            other = target[at]
            open_[other] -= 1
            if not open_[other]:
                order.append(other)
    if len(order) != n:
        raise UsageError("the graph has a cycle")
    made: list[int] = order
    return made


def heads(plan: Plan) -> tuple[list[float], list[int]]:
    """Give the heaviest path that ends in each vertex, and the place of its last link (-1)."""
    n = len(plan.order)
    head, came = [0.0] * n, [-1] * n
    first, source, weight, vertex = plan.first, plan.source, plan.weight, plan.vertex
    for v in plan.order:
        best, by = 0.0, -1
        for at in range(first[v], first[v + 1]):
            length = head[source[at]] + weight[at]
            if length > best or by < 0:  # Sources ascend: of equals the lowest index stays.
                best, by = length, at
        head[v], came[v] = best + vertex[v], by
    return head, came
