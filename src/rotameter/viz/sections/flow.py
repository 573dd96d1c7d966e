"""Data flow: tasks and data folded by the part they play, at most 40 of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.flow.folding import fold_trace
from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.profiler.flow.folding import Folded
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Mask

__all__ = ["NODES", "data_flow", "leads_back"]

NODES = 40


def _known(number: float) -> float | None:
    return None if math.isnan(number) else float(number)


def _bytes(number: float) -> int | None:
    return None if math.isnan(number) else round(float(number))


def _total(values: Any) -> int | None:
    known = values[~np.isnan(values)]
    return round(float(known.sum())) if len(known) else None


def data_flow(trace: Trace) -> dict[str, Any] | str:
    """Give the folded data-flow graph of a run.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict or str
        ``nodes`` (label, kind, stage, members; ``again``: another one that it stands for, so that
        no link leads back), ``links`` (from, to: numbers of nodes; count,
        bytes, ops, busy_s: None where nothing is known), ``inside`` (dependencies between the
        tasks of one node, that no link shows), ``replaced_bytes`` (of attempts that did not
        deliver) and ``unowned_bytes`` (of no task), both in no link, and what the graph had
        before it was folded; or why there is none.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": f"t{i}", "object": "x", "op": "read", "bytes": 5} for i in range(4)]
    >>> flow = data_flow(Trace.from_tables({"flows": rows}))
    >>> [(n["label"], n["members"]) for n in flow["nodes"]], flow["links"][0]["bytes"]
    ([('t*', 4), ('x', 1)], 20)
    >>> data_flow(Trace.from_tables({}))
    'neither which data tasks touched nor their dependencies were recorded'
    """
    if not trace.table("flows").num_rows and not trace.table("deps").num_rows:
        return "neither which data tasks touched nor their dependencies were recorded"
    folded = fold_trace(trace)
    graph = folded.graph
    if not len(graph.edge_task) and not len(graph.dep_task):
        return "no recorded flow names both a task and what it read or wrote"
    if len(graph.edge_task) + len(graph.dep_task) == 1:
        return "only one task and one thing that it touched or waited for were recorded"
    write = graph.edge_write
    return {
        "tasks": len(graph.tasks),
        "objects": len(graph.objects),
        "touches": len(graph.edge_task),
        "dependencies": len(graph.dep_task),
        "folded_links": len(folded.edges) + len(folded.deps),
        "folded_nodes": folded.n_nodes,
        "ratio": _known(folded.ratio),
        "named": folded.named,
        "read_bytes": _total(graph.bytes[~write]),
        "write_bytes": _total(graph.bytes[write]),
        "replaced_bytes": round(float(graph.lost_read_bytes.sum() + graph.lost_write_bytes.sum())),
        "unowned_bytes": round(float(graph.unowned_bytes)),
        **_picture(folded),
    }


def _picture(folded: Folded) -> dict[str, Any]:
    """Give nodes and links; with fewer folds where links that lead back need nodes of their own."""
    limit = NODES
    while True:
        made = _drawn(folded, limit)
        over = len(made["nodes"]) - NODES
        if over <= 0 or limit <= 2:
            return made
        limit = max(2, limit - over)


def _drawn(folded: Folded, limit: int) -> dict[str, Any]:
    """Give a picture of at most so many folds; one that no link leads to or from is left out."""
    shown = folded.top(limit)
    keep = shown.src != shown.dst
    used = np.unique(np.concatenate([shown.src[keep], shown.dst[keep]]))
    place = np.full(len(shown.labels), -1, dtype=np.int64)
    place[used] = np.arange(len(used))
    src, dst = place[shown.src], place[shown.dst]
    nodes = [
        {
            "label": clip(shown.labels[i], 200),
            "kind": "data" if shown.is_object[i] else "tasks",
            "stage": int(shown.stage[i]) if shown.stage[i] >= 0 else None,
            "members": int(shown.members[i]),
            "other": bool(shown.fold[i] < 0),
            "again": None,
        }
        for i in used.tolist()
    ]
    back = leads_back(src, dst, keep, len(used))
    again: dict[int, int] = {}
    links: list[dict[str, Any]] = []
    for i in np.flatnonzero(keep).tolist():
        to = int(dst[i])
        if back[i]:
            if to not in again:
                again[to] = len(nodes)
                nodes.append({**nodes[to], "again": to})
            to = again[to]
        links.append(
            {
                "from": int(src[i]),
                "to": to,
                "dependency": bool(shown.is_dep[i]),
                "count": int(shown.n[i]),
                "bytes": _bytes(shown.bytes[i]),
                "ops": _bytes(shown.ops[i]),
                "busy_s": _known(shown.busy_s[i]),
            }
        )
    links.sort(key=lambda link: (-(link["bytes"] or 0), -link["count"], link["from"], link["to"]))
    return {"nodes": nodes, "links": links, "inside": int(shown.n[~keep].sum())}


def leads_back(src: Codes, dst: Codes, keep: Mask, count: int) -> Mask:
    """Say which links close a circle: a picture from left to right cannot hold them.

    Nodes are placed once all that leads to them is; where none is left, the first one (they come
    in the order of their stages) is placed all the same.

    Parameters
    ----------
    src, dst : ndarray of int64, shape (n_links,)
    keep : ndarray of bool, shape (n_links,)
        Links that count.
    count : int
        Nodes.

    Returns
    -------
    ndarray of bool, shape (n_links,)

    Examples
    --------
    >>> leads_back(np.array([0, 1, 2]), np.array([1, 2, 1]), np.ones(3, bool), 3).tolist()
    [False, False, True]
    """
    waits = np.bincount(dst[keep], minlength=count)
    leads: list[list[int]] = [[] for _ in range(count)]
    for a, b in zip(src[keep].tolist(), dst[keep].tolist(), strict=True):
        leads[a].append(b)
    rank = np.full(count, -1, dtype=np.int64)
    for at in range(count):
        left = np.flatnonzero(rank < 0)
        node = int(min(left.tolist(), key=lambda i: (waits[i] > 0, i)))
        rank[node] = at
        for other in leads[node]:
            waits[other] -= 1
    made: Mask = keep & (rank[src] > rank[dst])
    return made
