"""Edges between tasks and objects, from the rows of ``flows``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.view import encode, floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["CONSUMES", "PRODUCES", "arrays_of", "delivering"]

CONSUMES = ("read", "receive")
"""Ops of ``flows`` that bring an object to a task."""
PRODUCES = ("write",)
"""Ops of ``flows`` by which a task makes an object; all others are no edges."""


class _Names:
    """A growing list of names with their codes."""

    def __init__(self, names: list[str]) -> None:
        self.names = list(names)
        self.code = {name: code for code, name in enumerate(names)}

    def codes(self, column: Any) -> Codes:
        """Give codes of a text column (-1 = null), adding new names."""
        local, words = encode(column)
        table = np.full(len(words) + 1, -1, dtype=np.int64)
        for place, word in enumerate(words):
            if word not in self.code:
                self.code[word] = len(self.names)
                self.names.append(word)
            table[place] = self.code[word]
        made: Codes = table[local]
        return made


def arrays_of(seen: View) -> dict[str, Any]:
    """Give all fields of a trace's :class:`FlowGraph`."""
    flows, deps = seen.table("flows"), seen.table("deps")
    names = _Names(seen.task_ids)
    known = len(names.names)
    side = _side(flows["op"])
    flow_task = names.codes(flows["task_id"])
    dep_task, dep_on = names.codes(deps["task_id"]), names.codes(deps["depends_on"])
    row = delivering(seen)
    lost = _lost_rows(seen, flows, flow_task, row)
    objects = _Names([])
    keep = (side >= 0) & (flow_task >= 0) & pc.is_valid(flows["object"]).to_numpy().astype(bool)
    n = len(names.names)
    mine = np.flatnonzero(keep & ~lost)
    used = flows if len(mine) == flows.num_rows else flows.take(pa.array(mine))
    object_code = objects.codes(used["object"])
    edges = _edges(seen, used, flow_task[mine], object_code, side[mine] > 0)
    size = _sizes(seen, objects)
    _implied(seen, used, edges, objects, names, size)
    _cap(edges, size)
    good = (dep_task >= 0) & (dep_on >= 0) & (dep_task != dep_on)
    pairs = np.unique(np.stack([dep_task[good], dep_on[good]], axis=1), axis=0)
    moved = floats(flows["bytes"])
    alone = (side >= 0) & (flow_task < 0) & ~np.isnan(moved)

    def per_task(values: Any, blank: Any) -> NDArray[Any]:
        out = np.full(n, blank)
        out[:known] = np.where(row >= 0, values[row], blank) if len(values) else blank
        return out

    return dict(
        tasks=names.names,
        group=per_task(seen.group, -1).astype(np.int64),
        groups=seen.groups,
        objects=objects.names,
        size_bytes=size,
        dep_task=pairs[:, 0],
        dep_on=pairs[:, 1],
        start_s=per_task(seen.started, np.nan),
        end_s=per_task(seen.ended, np.nan),
        wall_s=per_task(seen.wall, np.nan),
        lost_read_bytes=np.bincount(
            flow_task[lost & (side == 0)], moved[lost & (side == 0)], minlength=n
        ).astype(np.float64),
        lost_write_bytes=np.bincount(
            flow_task[lost & (side == 1)], moved[lost & (side == 1)], minlength=n
        ).astype(np.float64),
        unowned_bytes=float(moved[alone].sum()),
        **edges,
    )


def _side(op: Any) -> Codes:
    """Give 1 for what produces, 0 for what consumes, -1 for everything else."""
    codes, words = encode(op)
    table = np.array([1 if w in PRODUCES else 0 if w in CONSUMES else -1 for w in words] + [-1])
    made: Codes = table[codes].astype(np.int64)
    return made


def delivering(seen: View) -> Codes:
    """Give each task's row of ``tasks`` that delivered: the last ok, else cached, else last.

    Returns
    -------
    ndarray of int64, shape (len(seen.task_ids),)
    """
    made = np.full(len(seen.task_ids), -1, dtype=np.int64)
    rank = np.where(seen.ok, 2, np.where(seen.outcome_in("cached"), 1, 0))
    attempt = np.nan_to_num(seen.number("attempt"), nan=0.0)
    order = np.lexsort((np.nan_to_num(seen.started, nan=-np.inf), attempt, rank))
    order = order[seen.task[order] >= 0]
    made[seen.task[order]] = order  # The last assignment to a task stays.
    return made


def _lost_rows(seen: View, flows: Any, flow_task: Codes, row: Codes) -> Mask:
    """Say which rows of ``flows`` belong to an attempt on record that did not deliver."""
    lost: Mask = np.zeros(flows.num_rows, dtype=bool)
    if seen.n <= np.count_nonzero(row >= 0):
        return lost  # No task has a second attempt.
    delivered = np.zeros(seen.n, dtype=bool)
    delivered[row[row >= 0]] = True
    owned = (flow_task >= 0) & (flow_task < len(seen.task_ids))
    places = _Names([])
    run_of_row, run_of_flow = (places.codes(t["run_id"]) for t in (seen.tasks, flows))
    attempt_of_row = seen.number("attempt")
    attempt_of_flow = floats(flows["attempt"])
    by_attempt = owned & ~np.isnan(attempt_of_flow)
    by_run = owned & ~by_attempt & (run_of_flow >= 0)
    for mine, of_flow, of_row, known in (
        (by_attempt, attempt_of_flow, attempt_of_row, ~np.isnan(attempt_of_row)),
        (by_run, run_of_flow, run_of_row, run_of_row >= 0),
    ):
        sure = known & (seen.task >= 0)
        values, dense = np.unique(
            np.concatenate([of_flow[mine], of_row[sure]]), return_inverse=True
        )
        owner = np.concatenate([flow_task[mine], seen.task[sure]])
        key, ours = np.split(owner * len(values) + dense, [np.count_nonzero(mine)])
        gone, kept = ours[~delivered[sure]], ours[delivered[sure]]
        lost[mine] = np.isin(key, np.setdiff1d(gone, kept))
    return lost


_SUMS = ("bytes", "used_bytes", "footprint_bytes", "ops", "busy_s")


def _edges(seen: View, used: Any, task: Codes, thing: Codes, write: Mask) -> dict[str, Any]:
    """Join rows to one edge a (task, object, direction); two media are two views of the same."""
    medium, media = encode(used["medium"])
    width = int(thing.max(initial=-1)) + 1
    key = (task * width + thing) * 2 + write
    fine, at = np.unique(key * (len(media) + 1) + medium + 1, return_inverse=True)
    edge_of, last = np.unique(fine // (len(media) + 1), return_inverse=True)
    n = len(edge_of)
    out: dict[str, Any] = {
        "edge_task": edge_of // 2 // max(width, 1),
        "edge_object": edge_of // 2 % max(width, 1),
        "edge_write": edge_of % 2 == 1,
    }
    for name in _SUMS:
        values = floats(used[name])
        good = ~np.isnan(values)
        total = np.full(len(fine), np.nan)
        if good.any():
            some = np.bincount(at[good], minlength=len(fine)) > 0
            total[some] = np.bincount(at[good], values[good], minlength=len(fine))[some]
        out[name] = _extreme(np.fmax, total, last, n)
    highest = _extreme(np.fmax, floats(used["footprint_bytes"]), last[at], n)
    out["_single_footprint"] = highest
    out["first_s"] = _extreme(np.fmin, seen.seconds(used["first_ns"]), last[at], n)
    out["last_s"] = _extreme(np.fmax, seen.seconds(used["last_ns"]), last[at], n)
    return out


def _extreme(pick: Any, values: Floats, at: Any, n: int) -> Floats:
    """Give the largest or smallest known value a bin, NaN where none is."""
    made: Floats = np.full(n, np.nan)
    good = ~np.isnan(values)
    pick.at(made, at[good], values[good])
    return made


def _sizes(seen: View, objects: _Names) -> Floats:
    table = seen.table("objects")
    codes = objects.codes(table["object"])
    size = np.full(len(objects.names), np.nan)
    good = codes >= 0
    np.fmax.at(size, codes[good], floats(table["size_bytes"])[good])
    return size


def _implied(
    seen: View, used: Any, edges: dict[str, Any], objects: _Names, names: _Names, size: Floats
) -> None:
    """Add who made an object that is itself a task's result (Dask names both alike)."""
    local = pc.is_in(used["medium"], value_set=pa.array(["memory", "network"]))
    moved = pc.unique(pc.drop_null(used["object"].filter(pc.fill_null(local, False)))).to_pylist()
    made = np.zeros(len(objects.names), dtype=bool)
    made[edges["edge_object"][edges["edge_write"]]] = True
    known = len(seen.task_ids)
    found = [
        (names.code[name], objects.code[name])
        for name in moved
        if names.code.get(name, known) < known and not made[objects.code[name]]
    ]
    if not found:
        return
    task, thing = np.array(found, dtype=np.int64).T
    row = delivering(seen)[task]
    output = seen.number("output_bytes")[row]
    size[thing] = np.where(np.isnan(size[thing]), output, size[thing])
    blank = np.full(len(task), np.nan)
    new = {"edge_task": task, "edge_object": thing, "edge_write": np.ones(len(task), dtype=bool)}
    for name in edges:
        extra = output if "footprint" in name else new.get(name, blank)
        edges[name] = np.concatenate([edges[name], extra])
    order = np.lexsort((edges["edge_write"], edges["edge_object"], edges["edge_task"]))
    for name in edges:
        edges[name] = edges[name][order]


def _cap(edges: dict[str, Any], size: Floats) -> None:
    """Bound the footprint of several rows by the object: parts of it may overlap."""
    limit = np.fmax(size[edges["edge_object"]], edges.pop("_single_footprint"))
    above = edges["footprint_bytes"] > limit
    above &= ~np.isnan(size[edges["edge_object"]])
    edges["footprint_bytes"] = np.where(above, limit, edges["footprint_bytes"])
