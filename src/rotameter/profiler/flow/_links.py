"""Which task had to wait for which: dependencies on record, and producers of what was consumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Links", "acyclic", "links_of"]

_PAIRS_LIMIT = 250_000
_NEAREST = 16
_ROUNDING_S = 1e-6  # A float64 holds an instant since the epoch to a quarter of this.


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Task→task precedence as arrays; unpacks as (src_task, dst_task, via_object).

    Parameters
    ----------
    src, dst, via : ndarray of int64, shape (n_links,)
        ``via`` is the object that was handed on, -1 for a recorded dependency.
    dropped : int
        Links left out because they closed a cycle.
    thinned : int
        Objects with so many producers and consumers that each consumer is linked to the last
        producers before it only.
    """

    src: Codes
    dst: Codes
    via: Codes
    dropped: int = 0
    thinned: int = 0

    def __iter__(self) -> Iterator[Codes]:
        return iter((self.src, self.dst, self.via))

    def __len__(self) -> int:
        return len(self.src)


def links_of(graph: FlowGraph) -> Links:
    """Give the links of a graph; see :meth:`FlowGraph.links`."""
    maker, taker, thing, thinned = _pairs(graph)
    with np.errstate(invalid="ignore"):
        early = graph.start_s[taker] < graph.end_s[maker] - _ROUNDING_S
    keep = ~early & (maker != taker)
    src = np.concatenate([graph.dep_on, maker[keep]])
    dst = np.concatenate([graph.dep_task, taker[keep]])
    via = np.concatenate([np.full(len(graph.dep_on), -1, dtype=np.int64), thing[keep]])
    good = acyclic(src, dst, len(graph.tasks), graph.start_s)
    return Links(src[good], dst[good], via[good], int((~good).sum()), thinned)


def _pairs(graph: FlowGraph) -> tuple[Codes, Codes, Codes, int]:
    """Pair each object's producers with its consumers: maker, taker, object, objects thinned."""
    n = len(graph.objects)
    write = np.flatnonzero(graph.edge_write)
    read = np.flatnonzero(~graph.edge_write)
    ends = np.nan_to_num(graph.end_s[graph.edge_task[write]], nan=-np.inf)
    write = write[np.lexsort((graph.edge_task[write], ends, graph.edge_object[write]))]
    read = read[np.argsort(graph.edge_object[read], kind="stable")]
    makers = np.bincount(graph.edge_object[write], minlength=n)
    first = np.cumsum(makers) - makers
    thing = graph.edge_object[read]
    takers = np.bincount(thing, minlength=n)
    wide = makers * takers > _PAIRS_LIMIT
    low, count = first[thing], makers[thing]
    thin = wide[thing]
    if thin.any():
        low, count = _nearest(graph, write, read, low, count, thin)
    total = int(count.sum())
    place = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    maker = graph.edge_task[write[np.repeat(low, count) + place]]
    return maker, np.repeat(graph.edge_task[read], count), np.repeat(thing, count), int(wide.sum())


def _nearest(
    graph: FlowGraph, write: Codes, read: Codes, low: Codes, count: Codes, thin: Mask
) -> tuple[Codes, Codes]:
    """Keep, for consumers of crowded objects, the last producers that ended before they began."""
    low, count = low.copy(), count.copy()
    ends = np.nan_to_num(graph.end_s[graph.edge_task[write]], nan=-np.inf)
    begins = np.nan_to_num(graph.start_s[graph.edge_task[read]], nan=np.inf)
    for thing in np.unique(graph.edge_object[read][thin]):
        rows = np.flatnonzero(graph.edge_object[read] == thing)
        first, many = int(low[rows[0]]), int(count[rows[0]])
        before = np.searchsorted(ends[first : first + many], begins[rows] + _ROUNDING_S, "right")
        count[rows] = np.minimum(before, _NEAREST)
        low[rows] = first + before - count[rows]
    return low, count


def acyclic(src: Codes, dst: Codes, n: int, start_s: Floats | None = None) -> Mask:
    """Say which edges to keep so that no cycle is left; all of them where there is none.

    Inside a strongly connected part (Tarjan, 1972) an edge stays if it points forward in the
    order (start, index).

    Parameters
    ----------
    src, dst : ndarray of int64, shape (n_edges,)
    n : int
        Number of vertices.
    start_s : ndarray of float64, shape (n,), optional

    Examples
    --------
    >>> acyclic(np.array([0, 1, 1]), np.array([1, 0, 2]), 3).tolist()
    [True, False, True]
    """
    if not len(src):
        return np.ones(0, dtype=bool)
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    matrix = coo_matrix((np.ones(len(src)), (src, dst)), shape=(n, n))
    parts, label = connected_components(matrix, directed=True, connection="strong")
    if parts == n:
        keep: Mask = src != dst
        return keep
    start = np.full(n, np.inf) if start_s is None else np.nan_to_num(start_s, nan=np.inf)
    place = np.empty(n, dtype=np.int64)
    place[np.lexsort((np.arange(n), start))] = np.arange(n)
    keep = (label[src] != label[dst]) | (place[src] < place[dst])
    return keep
