"""A workflow's stages as storage sees them: who reads whose bytes, in calls of what size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.flow.graph import FlowGraph

__all__ = ["Flow", "Stage", "stages_of_graph"]


@dataclass(frozen=True, slots=True)
class Flow:
    """What a stage reads from one source.

    Parameters
    ----------
    source : str or None
        The stage that wrote it; None: it was there before the workflow.
    read_bytes : float
        Bytes moved by all tasks together, repeats included.
    calls : float or None
        Calls that moved them.
    readers : tuple of (int, float)
        Unique bytes by how many tasks read them: what copying to the nodes costs.
    shares : tuple of float
        Shares of the unique bytes in pieces that exchange nothing with each other (connected
        components of producers and consumers). One piece: every node needs every other's data.
    """

    source: str | None
    read_bytes: float
    calls: float | None = None
    readers: tuple[tuple[int, float], ...] = ()
    shares: tuple[float, ...] = (1.0,)

    def copy_bytes(self, nodes: int) -> float:
        """Bytes that arrive on the nodes when each node gets what its tasks read."""
        if not self.readers:
            return self.read_bytes
        return sum(size * min(nodes, max(count, 1)) for count, size in self.readers)

    @property
    def unique_bytes(self) -> float:
        """Bytes of the objects, each counted once."""
        return sum(size for _, size in self.readers) if self.readers else self.read_bytes

    def remote_bytes(self, nodes: int) -> float:
        """Bytes that must cross between nodes when producer and consumer use node-local stores.

        A piece that fits one node's share stays there; a larger one spans several nodes, and of
        its bytes a node holds only its part.
        """
        kept = sum(share / max(1, math.ceil(share * nodes - 1e-9)) for share in self.shares)
        return max(0.0, self.copy_bytes(nodes) - self.unique_bytes * kept)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: tasks of one kind that run together.

    ``order`` ranks the stages: equal orders run at once, a later one waits for all earlier ones.
    ``kept_bytes`` are results nobody in the workflow reads. ``compute_s`` is a task's mean time
    outside I/O, None where unknown.

    Examples
    --------
    >>> Stage("train", 1, 8, (Flow("prepare", 1e9),), write_bytes=1e6).tasks
    8
    """

    name: str
    order: int
    tasks: int
    reads: tuple[Flow, ...] = ()
    write_bytes: float = 0.0
    write_calls: float | None = None
    kept_bytes: float = 0.0
    compute_s: float | None = None


def _depth(n: int, src: NDArray[Any], dst: NDArray[Any]) -> NDArray[np.int64]:
    """Longest distance from a root of each task of an acyclic graph."""
    depth = np.zeros(n, dtype=np.int64)
    waiting = np.bincount(dst, minlength=n)
    order = np.argsort(src, kind="stable")
    start = np.searchsorted(src[order], np.arange(n + 1))
    ready = np.flatnonzero(waiting == 0)
    while len(ready):
        counts = start[ready + 1] - start[ready]
        if not counts.sum():
            break
        base = np.repeat(start[ready] - np.cumsum(counts) + counts, counts)
        edges = order[base + np.arange(counts.sum())]
        np.maximum.at(depth, dst[edges], depth[src[edges]] + 1)
        np.subtract.at(waiting, dst[edges], 1)
        ready = np.unique(dst[edges][waiting[dst[edges]] == 0])
    return depth


def _pieces(task: NDArray[Any], obj: NDArray[Any], size: NDArray[Any], n: int) -> tuple[float, ...]:
    """Shares of the bytes by connected component of (task, object) pairs, largest first."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    total = int(max(obj.max(), 0)) + 1
    pairs = coo_array((np.ones(len(task)), (task, n + obj)), shape=(n + total, n + total))
    _, label = connected_components(pairs, directed=False)
    objects = np.unique(obj)
    by_piece = np.bincount(label[n + objects], weights=size[objects])
    by_piece = by_piece[by_piece > 0]
    if not len(by_piece):
        return (1.0,)
    return tuple(float(v) for v in np.sort(by_piece / by_piece.sum())[::-1])


def _sum(values: NDArray[Any]) -> float:
    return float(np.nansum(values))


def _calls(values: NDArray[Any]) -> float | None:
    return _sum(values) if len(values) and np.isfinite(values).all() else None


def _sizes(graph: FlowGraph) -> NDArray[np.float64]:
    """Bytes of each object: as recorded, else the largest footprint or volume of an edge."""
    size = graph.size_bytes.astype(np.float64).copy()
    seen = np.zeros(len(size))
    touched = np.where(np.isfinite(graph.footprint_bytes), graph.footprint_bytes, graph.bytes)
    np.maximum.at(seen, graph.edge_object, np.nan_to_num(touched))
    return np.where(np.isfinite(size), size, seen)


def stages_of_graph(graph: FlowGraph) -> tuple[tuple[Stage, ...], tuple[str, ...]]:
    """Give the stages (task groups) of a data-flow graph, and notes on what is not known.

    Returns
    -------
    stages : tuple of Stage
        By order, then name. Groups without any byte are no stages.
    notes : tuple of str
    """
    notes: list[str] = []
    unknown = int((~np.isfinite(graph.bytes)).sum())
    if unknown:
        notes.append(f"{unknown} of {graph.n_edges} accesses have no bytes and are not priced")
    if not graph.n_edges or unknown == graph.n_edges:
        return (), ("the trace holds no bytes of files or objects", *notes)
    src, dst, _ = graph.links()
    depth = _depth(graph.n_tasks, np.asarray(src), np.asarray(dst))
    group = np.where(graph.group >= 0, graph.group, len(graph.groups))
    names = [*graph.groups, "(no group)"]
    level = {g: float(np.median(depth[group == g])) for g in np.unique(group)}
    ranks = {v: i for i, v in enumerate(sorted(set(level.values())))}
    size, maker = _sizes(graph), _makers(graph, group)
    edge_group, owner = group[graph.edge_task], maker[graph.edge_object]
    was_read = np.zeros(len(graph.objects), dtype=bool)
    was_read[graph.edge_object[~graph.edge_write]] = True
    busy = np.bincount(
        graph.edge_task, weights=np.nan_to_num(graph.busy_s), minlength=graph.n_tasks
    )
    stages = []
    for g in sorted(level):
        own = (edge_group == g) & np.isfinite(graph.bytes)
        if not own.any():
            continue
        writes = own & graph.edge_write
        made = np.unique(graph.edge_object[writes])
        members = group == g
        rest = np.maximum(graph.wall_s[members] - busy[members], 0.0)
        known = rest[np.isfinite(rest)]
        flows = tuple(
            _flow(graph, own & ~graph.edge_write & (owner == m), int(m), names, size, edge_group)
            for m in np.unique(owner[own & ~graph.edge_write])
            if m != g
        ) + _own_reads(graph, own & ~graph.edge_write & (owner == g), names[g])
        stages.append(
            Stage(
                names[g],
                ranks[level[g]],
                int(members.sum()),
                flows,
                _sum(graph.bytes[writes]),
                _calls(graph.ops[writes]),
                float(size[made[~was_read[made]]].sum()),
                float(known.mean()) if len(known) else None,
            )
        )
    if any(stage.compute_s is None for stage in stages):
        notes.append("some stages have no task times: their computing is taken as 0 s")
    return tuple(sorted(stages, key=lambda s: (s.order, s.name))), tuple(notes)


def _makers(graph: FlowGraph, group: NDArray[Any]) -> NDArray[np.int64]:
    """Group that wrote most of each object, -1 for none."""
    maker = np.full(len(graph.objects), -1, dtype=np.int64)
    writes = np.flatnonzero(graph.edge_write)
    # The largest writer last, so that it is the one that stays.
    writes = writes[np.argsort(np.nan_to_num(graph.bytes[writes]), kind="stable")]
    maker[graph.edge_object[writes]] = group[graph.edge_task[writes]]
    return maker


def _readers(graph: FlowGraph, edges: NDArray[Any], size: NDArray[Any]) -> tuple[Any, ...]:
    count = np.bincount(graph.edge_object[edges], minlength=len(size))
    found: dict[int, float] = {}
    for obj in np.unique(graph.edge_object[edges]):
        found[int(count[obj])] = found.get(int(count[obj]), 0.0) + float(size[obj])
    return tuple(sorted(found.items()))


def _flow(
    graph: FlowGraph,
    edges: NDArray[Any],
    maker: int,
    names: list[str],
    size: NDArray[Any],
    edge_group: NDArray[Any],
) -> Flow:
    shares: tuple[float, ...] = (1.0,)
    if maker >= 0:
        objects = np.zeros(len(size), dtype=bool)
        objects[graph.edge_object[edges]] = True
        made = graph.edge_write & objects[graph.edge_object] & (edge_group == maker)
        both = edges | made
        shares = _pieces(graph.edge_task[both], graph.edge_object[both], size, graph.n_tasks)
    return Flow(
        names[maker] if maker >= 0 else None,
        _sum(graph.bytes[edges]),
        _calls(graph.ops[edges]),
        _readers(graph, edges, size),
        shares,
    )


def _own_reads(graph: FlowGraph, edges: NDArray[Any], name: str) -> tuple[Flow, ...]:
    """Give the reads of what the same group wrote: they stay on its store, nothing is copied."""
    if not edges.any():
        return ()
    return (Flow(name, _sum(graph.bytes[edges]), _calls(graph.ops[edges])),)
