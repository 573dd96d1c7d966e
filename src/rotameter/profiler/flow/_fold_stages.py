"""Stages: the log's own where it has one, and the depth of precedence inside each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes

__all__ = ["depths", "recorded_stage", "stages"]

_FEATURES = ("stage_order", "stage")
_NARROW = 64


def depths(n: int, src: Codes, dst: Codes) -> Codes:
    """Give the number of edges on the longest path that ends in each vertex of a DAG.

    Kahn, "Topological sorting of large networks" (CACM 1962): peel the sources, wide fronts at
    once with numpy, and from the first narrow one on vertex by vertex, so that neither a million
    edges in three levels nor a chain of 100,000 levels is slow.

    Parameters
    ----------
    n : int
    src, dst : ndarray of int64, shape (n_edges,)
        Vertices that a cycle holds up get a lower bound.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> depths(4, np.array([0, 1, 0]), np.array([1, 2, 2])).tolist()
    [0, 1, 2, 0]
    """
    depth = np.zeros(n, dtype=np.int64)
    waits = np.bincount(dst, minlength=n)
    after = dst[np.argsort(src, kind="stable")]
    ends = np.cumsum(np.bincount(src, minlength=n))
    starts = np.concatenate([[0], ends])[:n]
    front = np.flatnonzero(waits == 0)
    level = 0
    narrow = max(_NARROW, n // 1000)  # A wide step costs a pass over all vertices.
    while len(front) >= narrow:
        depth[front] = level
        level += 1
        counts = ends[front] - starts[front]
        shift = np.repeat(starts[front] - (np.cumsum(counts) - counts), counts)
        hits = np.bincount(after[np.arange(len(shift)) + shift], minlength=n)
        waits -= hits
        front = np.flatnonzero((hits > 0) & (waits == 0))
    if not len(front):
        return depth
    depth[front] = level
    bounds = (starts.tolist(), ends.tolist())
    return np.array(_one_by_one(depth.tolist(), waits.tolist(), after.tolist(), bounds, front))


def _one_by_one(
    depth: list[int],
    waits: list[int],
    after: list[int],
    bounds: tuple[list[int], list[int]],
    front: Codes,
) -> list[int]:
    """Peel the rest of the graph vertex by vertex."""
    starts, ends = bounds
    stack = front.tolist()
    while stack:
        vertex = stack.pop()
        below = depth[vertex] + 1
        for at in range(starts[vertex], ends[vertex]):
            other = after[at]
            if depth[other] < below:
                depth[other] = below
            waits[other] -= 1
            if waits[other] == 0:
                stack.append(other)
    return depth


def stages(graph: FlowGraph, recorded: Codes | None = None) -> Codes:
    """Give each task's stage: dense numbers, in the order of precedence.

    A stage is a pair: the one that the log gives, and inside it the longest-path depth over the
    links that stay inside. Where the log gives none (-1 for every task), it is the longest-path
    depth of the whole graph; a task without a recorded stage among tasks that have one forms
    stages of its own before them.

    Parameters
    ----------
    graph : FlowGraph
    recorded : ndarray of int64, shape (n_tasks,), optional
        The log's own stage of each task, -1 = unknown.

    Returns
    -------
    ndarray of int64, shape (n_tasks,)
    """
    n = len(graph.tasks)
    given = np.full(n, -1, dtype=np.int64) if recorded is None else recorded
    src, dst, _ = graph.links()
    inside = given[src] == given[dst]
    depth = depths(n, src[inside], dst[inside])
    key = (given - given.min(initial=0)) * (int(depth.max(initial=0)) + 1) + depth
    dense: Codes = np.unique(key, return_inverse=True)[1].ravel().astype(np.int64)
    return dense


def recorded_stage(trace: Trace, tasks: Sequence[str]) -> Codes | None:
    """Give the stage that the log recorded for each task, as an importer kept it.

    Parameters
    ----------
    trace : Trace
    tasks : sequence of str
        Task ids, the graph's vertices.

    Returns
    -------
    ndarray of int64, shape (n_tasks,), or None
        -1 = unknown; numbers in the order of the log's. None where it records no stage.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": t, "features": {"stage": s}} for t, s in (("a", 2.0), ("b", 1.5))]
    >>> recorded_stage(Trace.from_tables({"tasks": rows}), ["a", "b"]).tolist()
    [1, 0]
    """
    import pyarrow.compute as pc

    table = trace.table("tasks")
    if table["features"].null_count == table.num_rows:
        return None
    place = {task: code for code, task in enumerate(tasks)}
    value = np.full(len(tasks), np.nan)
    for name in _FEATURES:
        column = pc.map_lookup(table["features"], name, "first")
        if column.null_count < table.num_rows:
            for task, stage in zip(table["task_id"].to_pylist(), column.to_pylist(), strict=True):
                if stage is not None and task in place:
                    value[place[task]] = stage
            break
    known = ~np.isnan(value)
    if not known.any():
        return None
    made = np.full(len(value), -1, dtype=np.int64)
    made[known] = np.unique(value[known], return_inverse=True)[1]
    return made
