"""Folding: the data-flow graph with all that plays the same part drawn once.

The method is bounded refinement by sets of neighbours' colours: the first steps of partition
refinement towards a bisimulation (Paige & Tarjan, "Three partition refinement algorithms", SIAM J.
Comput. 1987; on *sets*, so that the number of neighbours does not count), not those of colour
refinement on multisets (Weisfeiler & Leman 1968), and not to the fixpoint, where every instance at
another distance from a boundary is alone:

1. A task's stage is the log's own, else its longest-path depth; it never mixes.
2. An object's kind is the set of (direction, stage) of its tasks; a task's role is its stage and
   the set of (direction, kind) of its objects, and of its recorded dependencies. A further
   round takes roles for stages.
3. A class parts where fan-in, fan-out, operations or bytes of its members form two populations
   more than an order of magnitude apart: the same wiring with another amount of work.
4. Partial profiles join the full one of their stage: few instances that did less, and tasks
   that deliver nothing but consume what a delivering class consumes (helper processes: tracers
   record one task a process).
5. A task with a name (its group) has the role (stage, group); structure decides for the rest.

What it cannot tell apart without names: two roles of one stage that are wired alike and do the
same amount of work; a role that delivers nothing from a delivering one of its stage on the same
inputs; instances that stopped early from a rare role that does less.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.flow._fold_groups import Distribution, Groups
from rotameter.profiler.flow._fold_labels import pattern
from rotameter.profiler.flow._fold_roles import object_kinds, task_roles
from rotameter.profiler.flow._fold_sets import ranked
from rotameter.profiler.flow._fold_stages import stages
from rotameter.profiler.flow._fold_top import Picture, picture
from rotameter.profiler.flow.graph import FlowGraph, flow_graph

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Folded", "FoldedDeps", "FoldedEdges", "fold", "fold_trace"]

_TASK_FIELDS = ("group", "start_s", "end_s", "wall_s", "lost_read_bytes", "lost_write_bytes")
_EDGE_FIELDS = (
    *("edge_write", "bytes", "used_bytes", "footprint_bytes", "ops", "busy_s"),
    *("first_s", "last_s"),
)
_ALONE_MIN = 20


@dataclass(frozen=True, eq=False)
class FoldedEdges:
    """Edges between folds of tasks and of objects, one a (task fold, object fold, direction).

    Parameters
    ----------
    task, object : ndarray of int64, shape (n,)
        Folds.
    write : ndarray of bool, shape (n,)
        True: the tasks make the objects; False: they consume them.
    groups : Groups
        Which edges of the graph are members.
    bytes, ops, busy_s : ndarray of float64, shape (n,)
        Sums of the known values of the members, NaN where none is known.
    """

    task: Codes
    object: Codes
    write: Mask
    groups: Groups
    bytes: Floats
    ops: Floats
    busy_s: Floats

    def __len__(self) -> int:
        return len(self.task)

    @property
    def n(self) -> Codes:
        """How many edges of the graph each stands for; shape (n,)."""
        return self.groups.size


@dataclass(frozen=True, eq=False)
class FoldedDeps:
    """Recorded dependencies between folds of tasks: those of ``task`` depend on ``on``."""

    task: Codes
    on: Codes
    groups: Groups

    def __len__(self) -> int:
        return len(self.task)

    @property
    def n(self) -> Codes:
        """How many dependencies of the graph each stands for; shape (n,)."""
        return self.groups.size


@dataclass(frozen=True, eq=False)
class Folded:
    """A graph with its folds; the members stay, so nothing is lost.

    Nodes are numbered: task folds first (in the order of their stages), then object folds.

    Parameters
    ----------
    graph : FlowGraph
    task_folds, object_folds : Groups
        ``task_folds.of`` is the fold of each task, ``task_folds.members(i)`` the tasks of one.
    stage : ndarray of int64, shape (n_task_folds,)
    object_stage : ndarray of int64, shape (n_object_folds,)
        First stage that makes the objects, -1 = nobody on record.
    edges : FoldedEdges
    deps : FoldedDeps
    named : bool
        Names of groups decided.
    """

    graph: FlowGraph
    task_folds: Groups
    object_folds: Groups
    stage: Codes
    object_stage: Codes
    edges: FoldedEdges
    deps: FoldedDeps
    named: bool
    _labels: dict[int, str] = field(default_factory=dict, repr=False)

    @property
    def ratio(self) -> float:
        """Edges (and recorded dependencies) of the graph for each one drawn; NaN without any."""
        drawn = len(self.edges) + len(self.deps)
        whole = len(self.graph.edge_task) + len(self.graph.dep_task)
        return whole / drawn if drawn else float("nan")

    @property
    def n_nodes(self) -> int:
        """Number of folds of tasks and of objects."""
        return self.task_folds.n + self.object_folds.n

    @cached_property
    def src(self) -> Codes:
        """Node from which each folded edge's data flow; shape (len(edges),)."""
        thing = self.edges.object + self.task_folds.n
        return np.where(self.edges.write, self.edges.task, thing)

    @cached_property
    def dst(self) -> Codes:
        """Node to which each folded edge's data flow; shape (len(edges),)."""
        thing = self.edges.object + self.task_folds.n
        return np.where(self.edges.write, thing, self.edges.task)

    def distribution(self, name: str) -> Distribution:
        """Give count, sum and quantiles of an edge property of each folded edge.

        Parameters
        ----------
        name : str
            ``bytes``, ``ops``, ``busy_s``, ``used_bytes`` or ``footprint_bytes``.
        """
        values: Floats = getattr(self.graph, name)
        return self.edges.groups.distribution(values)

    def label(self, node: int) -> str:
        """Name a node: its group, else the pattern that its members' names fit (display only)."""
        if node not in self._labels:
            self._labels[node] = self._named(node)
        return self._labels[node]

    def _named(self, node: int) -> str:
        if node >= self.task_folds.n:
            members = self.object_folds.members(node - self.task_folds.n)
            return pattern([self.graph.objects[i] for i in members.tolist()])
        members = self.task_folds.members(node)
        groups = np.unique(self.graph.group[members])
        if groups[0] >= 0 and len(groups) <= 3:
            return ", ".join(self.graph.groups[i] for i in groups.tolist())
        return pattern([self.graph.tasks[i] for i in members.tolist()])

    def unfold(self) -> FlowGraph:
        """Give the graph back from the folds, isomorphic to the folded one.

        Tasks and objects come fold by fold, edges folded edge by folded edge.
        """
        graph = self.graph
        task, thing = self.task_folds.order, self.object_folds.order
        edge, dep = self.edges.groups.order, self.deps.groups.order
        new_task, new_object = np.empty_like(task), np.empty_like(thing)
        new_task[task], new_object[thing] = np.arange(len(task)), np.arange(len(thing))
        changed: dict[str, Any] = {name: getattr(graph, name)[task] for name in _TASK_FIELDS}
        changed |= {name: getattr(graph, name)[edge] for name in _EDGE_FIELDS}
        if graph.stage is not None:
            changed["stage"] = graph.stage[task]
        return replace(
            graph,
            tasks=[graph.tasks[i] for i in task.tolist()],
            objects=[graph.objects[i] for i in thing.tolist()],
            size_bytes=graph.size_bytes[thing],
            edge_task=new_task[graph.edge_task[edge]],
            edge_object=new_object[graph.edge_object[edge]],
            dep_task=new_task[graph.dep_task[dep]],
            dep_on=new_task[graph.dep_on[dep]],
            memo={},
            **changed,
        )

    def top(self, n: int = 40) -> Picture:
        """Give a picture of at most ``n`` nodes: the largest folds, the rest as "other".

        Where there are too many stages, what has one name is one node, whatever its stage; else
        the heaviest stages are, and each stretch between them.

        Parameters
        ----------
        n : int
            At least 2.

        Returns
        -------
        Picture
            Sums equal those of the graph.

        Raises
        ------
        ValueError
            For less than 2 nodes.
        """
        return picture(self, n)


def _names(graph: FlowGraph) -> Codes:
    """Give the groups of tasks where they name roles; all -1 where each names one instance."""
    named = graph.group >= 0
    size = np.bincount(graph.group[named], minlength=1)
    alone = np.count_nonzero(size == 1)
    if named.sum() >= _ALONE_MIN and 2 * alone > named.sum():
        return np.full(len(graph.tasks), -1, dtype=np.int64)
    return graph.group


def fold(
    graph: FlowGraph,
    *,
    rounds: int = 2,
    use_names: bool = True,
    stage: Codes | None = None,
) -> Folded:
    """Fold tasks that play the same role, and objects of the same kind.

    Parameters
    ----------
    graph : FlowGraph
    rounds : int
        How far structure is looked at: 1 = stages of the neighbours, 2 = their roles.
    use_names : bool
        Let a task's group name its role; names of tasks and objects never count.
    stage : ndarray of int64, shape (n_tasks,), optional
        The log's own stages (-1 = unknown), else the graph's, else depth decides.

    Returns
    -------
    Folded

    Raises
    ------
    ValueError
        For no round, or stages of another number of tasks.

    Examples
    --------
    >>> from rotameter.profiler.flow.graph import flow_graph
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": f"t{i}", "object": o, "op": op, "bytes": 5} for i in range(4)
    ...         for o, op in ((f"in{i}.nc", "read"), (f"out{i}.nc", "write"))]
    >>> folded = fold(flow_graph(Trace.from_tables({"flows": rows})))
    >>> folded.ratio, [folded.label(i) for i in range(3)], folded.edges.bytes.tolist()
    (4.0, ['t*', 'in*.nc', 'out*.nc'], [20.0, 20.0])
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
    given = graph.stage if stage is None else stage
    if given is not None and len(given) != len(graph.tasks):
        raise ValueError(f"{len(given)} stages for {len(graph.tasks)} tasks")
    place = stages(graph, given)
    group = _names(graph) if use_names else np.full(len(graph.tasks), -1, dtype=np.int64)
    role = seed = ranked(place, group)
    kind = None
    for _ in range(rounds):
        kind = object_kinds(graph, role, kind)
        inner = task_roles(graph, place, role, kind)
        role = ranked(seed, np.where(group >= 0, -1, inner))
    kind = object_kinds(graph, role, kind)
    return _folded(graph, place, role, kind, bool((group >= 0).any()))


def fold_trace(trace: Trace, *, rounds: int = 2, use_names: bool = True) -> Folded:
    """Fold the data-flow graph of a trace, by the log's own stages where it has them.

    Parameters
    ----------
    trace : Trace
    rounds : int
    use_names : bool
        See :func:`fold`.

    Returns
    -------
    Folded

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": f"t{i}", "object": f"x{i}", "op": "read"} for i in range(6)]
    >>> fold_trace(Trace.from_tables({"flows": rows})).ratio
    6.0
    """
    return fold(flow_graph(trace), rounds=rounds, use_names=use_names)


def _folded(graph: FlowGraph, place: Codes, role: Codes, kind: Codes, named: bool) -> Folded:
    """Put the folds in order for reading, and sum up."""
    tasks = Groups(*_renumbered(role, place))
    made_at = np.full(len(graph.objects), np.iinfo(np.int64).max)
    write = graph.edge_write
    np.minimum.at(made_at, graph.edge_object[write], place[graph.edge_task[write]])
    made_at[made_at == np.iinfo(np.int64).max] = -1
    objects = Groups(*_renumbered(kind, made_at))
    task, thing = tasks.of[graph.edge_task], objects.of[graph.edge_object]
    edge = ranked(task, thing, write)
    groups = Groups(edge, int(edge.max(initial=-1)) + 1)
    edges = FoldedEdges(
        task=groups.first(task),
        object=groups.first(thing),
        write=groups.first(write.astype(np.int64)) > 0,
        groups=groups,
        bytes=groups.total(graph.bytes),
        ops=groups.total(graph.ops),
        busy_s=groups.total(graph.busy_s),
    )
    below, above = tasks.of[graph.dep_task], tasks.of[graph.dep_on]
    dep = ranked(below, above)
    pairs = Groups(dep, int(dep.max(initial=-1)) + 1)
    deps = FoldedDeps(pairs.first(below), pairs.first(above), pairs)
    stage = tasks.first(place)
    return Folded(graph, tasks, objects, stage, objects.first(made_at), edges, deps, named)


def _renumbered(colour: Codes, place: Codes) -> tuple[Codes, int]:
    """Order classes by their stage, then by their first member."""
    if not len(colour):
        return colour, 0
    classes, first, of = np.unique(colour, return_index=True, return_inverse=True)
    rank = np.empty(len(classes), dtype=np.int64)
    rank[np.lexsort((first, place[first]))] = np.arange(len(classes))
    return rank[of.ravel()], len(classes)
