"""Shapes in a run's data flow that say what could be moved, joined, kept near or left out.

Fan-in, fan-out, aggregator, splitter, reuse and non-use are those of Lee et al., "Data Flow
Lifecycles for Optimizing Workflow Coordination" (SC '23); disposable data and write-after-read
those of Tang et al., "DaYu" (CLUSTER '24).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.flow._sides import Sides, total

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats

__all__ = ["PATTERNS", "Example", "Pattern", "patterns"]

PATTERNS = (
    "fan_in",
    "fan_out",
    "aggregator",
    "splitter",
    "reuse_inside",
    "reuse_between",
    "unread",
    "rate_mismatch",
    "disposable",
    "write_after_read",
)
"""Kinds, in the order in which :func:`patterns` gives them."""

MANY = 3
"""Inputs of a fan-in, readers of a fan-out: more than a pair."""
_REUSED_RATIO = 1.5
_MISMATCH_RATIO = 4.0
_SHRINKS_RATIO = 0.8
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Example:
    """One case of a pattern.

    Parameters
    ----------
    task, object : str or None
        The task or the object that it is about; both for what lies between them.
    group : str or None
        The task's group; of an object its producer's, else its first reader's.
    value : float
        What makes it a case; see ``measure`` of the pattern.
    bytes : float or None
        None = unknown.
    """

    task: str | None
    object: str | None
    group: str | None
    value: float
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """All cases of one pattern.

    Parameters
    ----------
    kind : str, one of :data:`PATTERNS`
    count : int
        Cases.
    bytes : float or None
        Bytes at stake in all cases whose bytes are known; None where none is.
    unknown : int
        Cases of unknown bytes.
    measure : str
        What ``value`` of an example is.
    groups : tuple of (str, int)
        Task groups with most cases, at most five.
    examples : tuple of Example
        Those with most bytes first, at most five.
    """

    kind: str
    count: int
    bytes: float | None
    unknown: int
    measure: str
    groups: tuple[tuple[str, int], ...]
    examples: tuple[Example, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give plain data."""
        return asdict(self)


def patterns(graph: FlowGraph) -> list[Pattern]:
    """Find all patterns; one entry a kind that occurs.

    Parameters
    ----------
    graph : FlowGraph

    Returns
    -------
    list of Pattern
        In the order of :data:`PATTERNS`; empty where the graph has no flows.

    Notes
    -----
    * fan_in: a task with three inputs or more. aggregator: three or more tasks' data become less
      (at most 0.8 of it) and fewer objects.
    * fan_out: an object with three readers or more. splitter: a task that makes three or more
      objects and more than it reads, for two tasks or more.
    * reuse_inside: an edge that read each byte 1.5 times or more; bytes are the repeats.
    * reuse_between: an object with several readers; bytes are the repeats.
    * unread: written and never read, by a task that others followed (hence no final output).
    * rate_mismatch: producer and consumer of an object differ fourfold in bytes a second.
    * disposable: written once, read by one other task, then never touched again.
    * write_after_read: an object written after it had been read.

    Examples
    --------
    >>> from rotameter.profiler.flow.graph import flow_graph
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [("a", "x", "write", 2), ("b", "x", "read", 4), ("c", "x", "read", 1)]
    >>> graph = flow_graph(Trace.from_tables({"flows": [
    ...     {"task_id": t, "object": o, "op": op, "bytes": n} for t, o, op, n in rows]}))
    >>> [(p.kind, p.count, p.bytes) for p in patterns(graph)]
    [('reuse_between', 1, 1.0)]
    """
    if not len(graph.edge_task):
        return []
    sides = Sides(graph)
    found = {
        **_fans(graph, sides),
        **_shapes(graph, sides),
        **_reuse(graph, sides),
        **_lives(graph, sides),
        "rate_mismatch": _rates(graph, sides),
        "write_after_read": _overwritten(graph, sides),
    }
    return [made for kind in PATTERNS if (made := found[kind]) is not None]


def _pattern(
    graph: FlowGraph,
    kind: str,
    measure: str,
    value: Floats,
    size: Floats,
    group: Codes,
    *,
    task: Codes | None = None,
    thing: Codes | None = None,
) -> Pattern | None:
    """Sum the cases up; all arrays have one entry a case."""
    if not len(value):
        return None
    good = ~np.isnan(size)
    places = np.zeros(len(value), dtype=np.int64)
    keys = (places if thing is None else thing, places if task is None else task)
    order = np.lexsort((*keys, -value, -np.nan_to_num(size, nan=-1.0)))[:_EXAMPLES]
    counts = np.bincount(group[group >= 0], minlength=len(graph.groups))
    most = sorted(np.flatnonzero(counts), key=lambda g: (-counts[g], graph.groups[g] or ""))
    return Pattern(
        kind,
        len(value),
        float(size[good].sum()) if good.any() else None,
        int((~good).sum()),
        measure,
        tuple((graph.groups[g], int(counts[g])) for g in most[:_EXAMPLES]),
        tuple(
            Example(
                None if task is None else graph.tasks[task[at]],
                None if thing is None else graph.objects[thing[at]],
                graph.groups[group[at]] if group[at] >= 0 else None,
                float(value[at]),
                float(size[at]) if good[at] else None,
            )
            for at in order
        ),
    )


def _fans(graph: FlowGraph, sides: Sides) -> dict[str, Pattern | None]:
    task = np.flatnonzero(sides.inputs >= MANY)
    thing = np.flatnonzero(sides.readers >= MANY)
    return {
        "fan_in": _pattern(
            graph,
            "fan_in",
            "objects read",
            sides.inputs[task].astype(np.float64),
            sides.task_in[task],
            graph.group[task],
            task=task,
        ),
        "fan_out": _pattern(
            graph,
            "fan_out",
            "tasks that read it",
            sides.readers[thing].astype(np.float64),
            sides.object_in[thing],
            sides.object_group[thing],
            thing=thing,
        ),
    }


def _shapes(graph: FlowGraph, sides: Sides) -> dict[str, Pattern | None]:
    handed = sides.via >= 0
    before = sides.partners(sides.dst, sides.src, handed)
    after = sides.partners(sides.src, sides.dst, handed)
    fewer = (sides.outputs > 0) & (sides.outputs < sides.inputs)
    with np.errstate(invalid="ignore"):
        less = ~(sides.task_out > _SHRINKS_RATIO * sides.task_in)
    join = np.flatnonzero((before >= MANY) & fewer & less)
    split = (sides.outputs >= MANY) & (sides.outputs > sides.inputs) & (after >= 2)
    part = np.flatnonzero(split)
    return {
        "aggregator": _pattern(
            graph,
            "aggregator",
            "tasks whose data it joins",
            before[join].astype(np.float64),
            sides.task_in[join],
            graph.group[join],
            task=join,
        ),
        "splitter": _pattern(
            graph,
            "splitter",
            "tasks that it feeds",
            after[part].astype(np.float64),
            sides.task_out[part],
            graph.group[part],
            task=part,
        ),
    }


def _reuse(graph: FlowGraph, sides: Sides) -> dict[str, Pattern | None]:
    ratio = graph.reuse_ratio[sides.read]
    with np.errstate(invalid="ignore"):
        again = sides.read[ratio >= _REUSED_RATIO]
    task = graph.edge_task[again]
    several = np.flatnonzero(sides.readers >= 2)
    most = np.full(sides.m, np.nan)
    np.fmax.at(most, graph.edge_object[sides.read], sides.moved[sides.read])
    return {
        "reuse_inside": _pattern(
            graph,
            "reuse_inside",
            "times that each byte was read",
            graph.reuse_ratio[again],
            graph.bytes[again] - graph.footprint_bytes[again],
            graph.group[task],
            task=task,
            thing=graph.edge_object[again],
        ),
        "reuse_between": _pattern(
            graph,
            "reuse_between",
            "tasks that read it",
            sides.readers[several].astype(np.float64),
            sides.object_in[several] - most[several],
            sides.object_group[several],
            thing=several,
        ),
    }


def _lives(graph: FlowGraph, sides: Sides) -> dict[str, Pattern | None]:
    followed = np.zeros(sides.n + 1, dtype=bool)
    followed[sides.src] = True
    # Of several writers each must have been followed: else one's output may be final.
    final = np.zeros(sides.m, dtype=bool)
    ends_here = sides.write[~followed[graph.edge_task[sides.write]]]
    final[graph.edge_object[ends_here]] = True
    unread = np.flatnonzero((sides.writers > 0) & (sides.readers == 0) & ~final)
    own = np.zeros(sides.m, dtype=bool)
    own[graph.edge_object[sides.own_reads]] = True
    once = np.flatnonzero((sides.writers == 1) & (sides.readers == 1) & ~own)
    size = np.where(np.isnan(sides.object_out), graph.size_bytes, sides.object_out)
    return {
        "unread": _pattern(
            graph,
            "unread",
            "tasks that wrote it",
            sides.writers[unread].astype(np.float64),
            size[unread],
            sides.object_group[unread],
            thing=unread,
        ),
        "disposable": _pattern(
            graph,
            "disposable",
            "tasks that read it",
            sides.readers[once].astype(np.float64),
            size[once],
            sides.object_group[once],
            thing=once,
        ),
    }


def _rates(graph: FlowGraph, sides: Sides) -> Pattern | None:
    """Compare the rates of an object's producers together and its consumers together."""
    rates = []
    for rows in (sides.write, sides.read):
        timed = rows[(graph.busy_s[rows] > 0) & ~np.isnan(graph.bytes[rows])]
        size = total(graph.edge_object, graph.bytes, timed, sides.m)
        busy = total(graph.edge_object, graph.busy_s, timed, sides.m)
        with np.errstate(invalid="ignore", divide="ignore"):
            rates.append(size / busy)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = rates[0] / rates[1]  # Above 1: made faster than taken.
        thing = np.flatnonzero(
            (np.maximum(ratio, 1.0 / ratio) >= _MISMATCH_RATIO) & np.isfinite(ratio) & (ratio > 0)
        )
    return _pattern(
        graph,
        "rate_mismatch",
        "producer's bytes a second over the consumers'",
        ratio[thing],
        sides.object_in[thing],
        sides.object_group[thing],
        thing=thing,
    )


def _overwritten(graph: FlowGraph, sides: Sides) -> Pattern | None:
    """Find objects that a write began on after a read: by the edges' times, else the tasks'."""
    begun = np.where(np.isnan(graph.first_s), graph.start_s[graph.edge_task], graph.first_s)
    # A task's time says that it had read something only once it was over.
    over = np.where(np.isnan(graph.first_s), graph.end_s[graph.edge_task], graph.first_s)
    # Within one task only the edges' own times say what came first.
    read = sides.read[~(sides.own_reads[sides.read] & np.isnan(graph.first_s[sides.read]))]
    early = np.full(sides.m, np.nan)
    np.fmin.at(early, graph.edge_object[read], over[read])
    with np.errstate(invalid="ignore"):
        late = sides.write[begun[sides.write] >= early[graph.edge_object[sides.write]]]
    thing, at = np.unique(graph.edge_object[late], return_inverse=True)
    writes = np.bincount(at, minlength=len(thing)).astype(np.float64)
    size = total(graph.edge_object, sides.moved, late, sides.m)[thing]
    return _pattern(
        graph,
        "write_after_read",
        "tasks that wrote it after a read",
        writes,
        size,
        sides.object_group[thing],
        thing=thing,
    )
