"""Counts and sums of what each task and each object read and wrote, for the patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Sides", "total"]


class Sides:
    """Counts and sums a task and an object, of what was read and what was written."""

    def __init__(self, graph: FlowGraph) -> None:
        self.n, self.m = len(graph.tasks), len(graph.objects)
        self.read = np.flatnonzero(~graph.edge_write)
        self.write = np.flatnonzero(graph.edge_write)
        self.inputs = np.bincount(graph.edge_task[self.read], minlength=self.n)
        self.outputs = np.bincount(graph.edge_task[self.write], minlength=self.n)
        self.readers = np.bincount(graph.edge_object[self.read], minlength=self.m)
        self.writers = np.bincount(graph.edge_object[self.write], minlength=self.m)
        # What moved, or where that is unknown what was touched.
        self.moved = np.where(np.isnan(graph.bytes), graph.footprint_bytes, graph.bytes)
        self.task_in = total(graph.edge_task, self.moved, self.read, self.n)
        self.task_out = total(graph.edge_task, self.moved, self.write, self.n)
        self.object_in = total(graph.edge_object, self.moved, self.read, self.m)
        self.object_out = total(graph.edge_object, self.moved, self.write, self.m)
        key = graph.edge_task * max(self.m, 1) + graph.edge_object
        both = np.intersect1d(key[self.read], key[self.write])
        self.own_reads = np.isin(key, both) & ~graph.edge_write
        self.writer = _first(graph.edge_object, graph.edge_task, self.write, self.m)
        self.reader = _first(graph.edge_object, graph.edge_task, self.read, self.m)
        owner = np.where(self.writer >= 0, self.writer, self.reader)
        self.object_group = np.append(graph.group, -1)[owner]
        self.src, self.dst, self.via = graph.links()

    def partners(self, own: Codes, other: Codes, by_object: Mask) -> Codes:
        """Count each task's different neighbours over links that hand on an object."""
        pairs = np.unique(own[by_object] * max(self.n, 1) + other[by_object])
        return np.bincount(pairs // max(self.n, 1), minlength=self.n)


def total(owner: Codes, values: Floats, rows: Codes, n: int) -> Floats:
    """Sum what is known an owner; NaN where nothing is."""
    good = rows[~np.isnan(values[rows])]
    sums: Floats = np.bincount(owner[good], values[good], minlength=n).astype(np.float64)
    sums[np.bincount(owner[good], minlength=n) == 0] = np.nan
    return sums


def _first(owner: Codes, value: Codes, rows: Codes, n: int) -> Codes:
    """Give each owner's lowest value, -1 = none."""
    made = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(made, owner[rows], value[rows])
    made[made == np.iinfo(np.int64).max] = -1
    return made
