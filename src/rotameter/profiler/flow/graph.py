"""The data-flow graph of a run: tasks and data objects as vertices, what moved as edges.

The bipartite form (task → object: produced, object → task: consumed) and the properties of an
edge (volume, footprint, reuse, use, rate, blocking) are those of the data-flow lifecycle graphs of
Lee et al., "Data Flow Lifecycles for Optimizing Workflow Coordination" (SC '23).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.flow._edges import CONSUMES, PRODUCES, arrays_of
from rotameter.profiler.flow._fold_stages import recorded_stage
from rotameter.profiler.flow._links import Links, links_of
from rotameter.profiler.view import view

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["CONSUMES", "PRODUCES", "FlowGraph", "flow_graph"]


@dataclass(frozen=True, slots=True, eq=False)
class FlowGraph:
    """Bipartite digraph of tasks and data objects, plus task→task dependencies, as arrays.

    Times are seconds on the view's clock; unknown numbers are NaN. One edge a (task, object,
    direction). An edge carries what the attempt that delivered moved; what other attempts
    moved is in ``lost_*``.

    Parameters
    ----------
    tasks : list of str
        Task ids, one vertex a task (attempts merged).
    group : ndarray of int64, shape (n_tasks,)
        Index into ``groups``, -1 = unknown.
    objects : list of str
    size_bytes : ndarray of float64, shape (n_objects,)
    edge_task, edge_object : ndarray of int64, shape (n_edges,)
    edge_write : ndarray of bool, shape (n_edges,)
        True: the task produced the object; False: it consumed it.
    bytes, used_bytes, footprint_bytes, ops, busy_s, first_s, last_s : float64, shape (n_edges,)
    dep_task, dep_on : ndarray of int64, shape (n_deps,)
        ``dep_task`` depends on ``dep_on``; recorded ones only.
    start_s, end_s, wall_s : ndarray of float64, shape (n_tasks,)
        Of the attempt that delivered: the last that ended well, else the last.
    lost_read_bytes, lost_write_bytes : ndarray of float64, shape (n_tasks,)
        Moved by attempts whose work is gone; 0 = none on record, NaN = some of unknown size.
    unowned_bytes : float
        Moved by no known task, hence on no edge.
    stage : ndarray of int64, shape (n_tasks,), or None
        The stage that the log itself recorded, -1 = unknown; None where it records none.
    """

    tasks: list[str]
    group: Codes
    groups: list[str]
    objects: list[str]
    size_bytes: Floats
    edge_task: Codes
    edge_object: Codes
    edge_write: Mask
    bytes: Floats
    used_bytes: Floats
    footprint_bytes: Floats
    ops: Floats
    busy_s: Floats
    first_s: Floats
    last_s: Floats
    dep_task: Codes
    dep_on: Codes
    start_s: Floats
    end_s: Floats
    wall_s: Floats
    lost_read_bytes: Floats
    lost_write_bytes: Floats
    unowned_bytes: float = 0.0
    stage: Codes | None = None
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_tasks(self) -> int:
        """How many task vertices there are."""
        return len(self.tasks)

    @property
    def n_edges(self) -> int:
        """How many edges between tasks and objects there are."""
        return len(self.edge_task)

    @property
    def reuse_ratio(self) -> Floats:
        """How often each byte of an edge's footprint moved; shape (n_edges,)."""
        return _ratio(self.bytes, self.footprint_bytes)

    @property
    def use_ratio(self) -> Floats:
        """Which part of its object an edge touched; shape (n_edges,)."""
        return _ratio(self.footprint_bytes, self.size_bytes[self.edge_object])

    @property
    def rate(self) -> Floats:
        """Bytes a second while in calls; shape (n_edges,)."""
        return _ratio(self.bytes, self.busy_s)

    @property
    def blocking_ratio(self) -> Floats:
        """Share of the task's time spent in this edge's calls; shape (n_edges,)."""
        return _ratio(self.busy_s, self.wall_s[self.edge_task])

    def links(self) -> Links:
        """Give the precedence of tasks: recorded dependencies, and producer → consumer.

        A consumer that began before the producer ended does not wait for it, nor does a task for
        what it wrote itself. Acyclic: edges of a cycle (of a bad log) that point back in the order
        (start, index) are left out, see ``dropped`` of the result.

        Returns
        -------
        Links
            Unpacks as (src_task, dst_task, via_object), each of int64 and shape (n_links,);
            ``via_object`` is -1 for a recorded dependency.

        Examples
        --------
        >>> from rotameter.profiler.trace import Trace
        >>> rows = [{"task_id": t, "object": "x", "op": op} for t, op in
        ...         (("a", "write"), ("b", "read"))]
        >>> src, dst, via = flow_graph(Trace.from_tables({"flows": rows})).links()
        >>> src.tolist(), dst.tolist(), via.tolist()
        ([0], [1], [0])
        """
        if "links" not in self.memo:
            self.memo["links"] = links_of(self)
        made: Links = self.memo["links"]
        return made


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; 0/0 and x/0 are unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, above / below, np.nan)


def flow_graph(trace: Trace) -> FlowGraph:
    """Give the data-flow graph of a trace; it is kept as long as the trace's view.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    FlowGraph
        Empty arrays where the trace has no flows or no tasks.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": "a", "object": "x", "op": "read", "bytes": n, "busy_s": 1.0}
    ...         for n in (3, 5)]
    >>> graph = flow_graph(Trace.from_tables({"flows": rows}))
    >>> graph.bytes.tolist(), graph.rate.tolist()
    ([8.0], [4.0])
    """
    seen = view(trace)
    if "flow_graph" not in seen.memo:
        arrays = arrays_of(seen)
        stage = recorded_stage(trace, arrays["tasks"])
        seen.memo["flow_graph"] = FlowGraph(**arrays, stage=stage)
    made: FlowGraph = seen.memo["flow_graph"]
    return made
