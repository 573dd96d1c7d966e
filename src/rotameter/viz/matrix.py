"""Bytes between each pair of workers, as pairs and as a heat table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rotameter.viz.columns import texts
from rotameter.viz.formats import clip

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["heat", "pairs"]

SIDE_LIMIT = 24
LEVELS = 6
FEW = 6
_SENDS = ("send", "sent", "write", "put", "outgoing", "upload")
_KEYS = ["worker", "peer", "way"]


def _sum_by_pair(table: pa.Table, way: str, seconds: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Sum bytes per (worker, peer, way of transfer)."""
    keep = pc.and_(
        pc.and_(pc.is_valid(table["worker"]), pc.is_valid(table["peer"])),
        pc.is_valid(table["bytes"]),
    )
    slim = pa.table(
        {
            "worker": table["worker"],
            "peer": table["peer"],
            "bytes": table["bytes"],
            "seconds": seconds,
            "way": pc.utf8_lower(pc.fill_null(table[way], "")),
        }
    ).filter(keep)
    if not slim.num_rows:
        return []
    sums = slim.group_by(_KEYS).aggregate([("bytes", "sum"), ("seconds", "sum"), ([], "count_all")])
    found: list[dict[str, Any]] = sums.to_pylist()
    return found


def _add(view: dict[Any, list[Any]], key: tuple[str, str, bool], row: dict[str, Any]) -> None:
    total = view.setdefault(key, [0, 0, None])
    total[0] += row["bytes_sum"]
    total[1] += row["count_all"]
    if row["seconds_sum"] is not None:
        total[2] = (total[2] or 0.0) + row["seconds_sum"]


def pairs(trace: Trace) -> list[dict[str, Any]]:
    """Sum the bytes that went from each worker to each other one.

    Both ends of a transfer may have recorded it, as a flow or as an interval: these are views of
    the same bytes, so for each pair the largest view counts, never their sum. An interval is a
    transfer from its peer to its worker; a flow says its direction in ``op``.

    Returns
    -------
    list of dict
        ``from``, ``to``, ``bytes``, ``p2p_bytes`` (the part sent by a peer-to-peer shuffle),
        ``transfers``, ``busy_s`` (None where no duration was recorded); most bytes first.
    """
    flows = trace.table("flows")
    flows = flows.filter(pc.equal(flows["medium"], "network"))
    moves = trace.table("intervals")
    moves = moves.filter(pc.is_in(moves["kind"], pa.array(["transfer", "communication"])))
    if "device_timeline" in trace.meta:  # Copies between a host and its devices are no one else's.
        moves = moves.filter(pc.not_equal(pc.fill_null(moves["peer"], ""), "host"))
    lasted = pc.divide(pc.cast(pc.subtract(moves["end_ns"], moves["start_ns"]), pa.float64()), 1e9)
    views: dict[str, dict[Any, list[Any]]] = {}
    for row in _sum_by_pair(flows, "op", flows["busy_s"]):
        sent = row["way"].startswith(_SENDS) or row["way"].endswith(("_send", "-send", "_out"))
        ends = (row["worker"], row["peer"]) if sent else (row["peer"], row["worker"])
        p2p = "p2p" in row["way"] or "shuffle" in row["way"]
        _add(views.setdefault(f"flow {sent}", {}), (*ends, p2p), row)
    for row in _sum_by_pair(moves, "name", lasted):
        p2p = "p2p" in row["way"] or "shuffle" in row["way"]
        _add(views.setdefault("interval", {}), (row["peer"], row["worker"], p2p), row)
    best: dict[Any, list[Any]] = {}
    for view in views.values():
        for key, total in view.items():
            if key not in best or total[0] > best[key][0]:
                best[key] = total
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for (sender, receiver, p2p), (amount, transfers, busy_s) in best.items():
        pair = joined.setdefault(
            (sender, receiver),
            {
                "from": clip(sender, 200),
                "to": clip(receiver, 200),
                "bytes": 0,
                "p2p_bytes": 0,
                "transfers": 0,
                "busy_s": None,
            },
        )
        pair["bytes"] += amount
        pair["p2p_bytes"] += amount if p2p else 0
        pair["transfers"] += transfers
        if busy_s is not None:
            pair["busy_s"] = round((pair["busy_s"] or 0.0) + busy_s, 6)
    return sorted(joined.values(), key=lambda p: (-p["bytes"], p["from"], p["to"]))


def _sides(trace: Trace, found: list[dict[str, Any]]) -> dict[str, str]:
    """Give each worker its row: itself, else its host, else a share of "other hosts"."""
    names = sorted({p["from"] for p in found} | {p["to"] for p in found})
    if len(names) <= SIDE_LIMIT:
        return {name: name for name in names}
    workers = trace.table("workers")
    hosts = {
        clip(name, 200): host
        for name, host in zip(texts(workers, "worker"), texts(workers, "host"), strict=True)
        if name is not None
    }
    side = {name: hosts.get(name) or name.rsplit("://", 1)[-1].rsplit(":", 1)[0] for name in names}
    weight: dict[str, int] = {}
    for pair in found:
        for end in (side[pair["from"]], side[pair["to"]]):
            weight[end] = weight.get(end, 0) + pair["bytes"]
    kept = set(sorted(weight, key=lambda h: (-weight[h], h))[: SIDE_LIMIT - 1])
    few = len(weight) <= SIDE_LIMIT
    return {name: host if few or host in kept else "other hosts" for name, host in side.items()}


def heat(trace: Trace, found: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Lay the pairs out as a square table.

    Returns
    -------
    dict or None
        ``sides`` (names), ``cells`` (rows: from, columns: to) of ``{"bytes", "p2p_bytes",
        "level"}`` with level 0 (nothing) to 6 (most), ``by`` ("worker" or "host"), ``rows`` and
        ``columns`` (which sides to show); None without pairs.
    """
    if not found:
        return None
    side_of = _sides(trace, found)
    sides = sorted(set(side_of.values()), key=lambda s: (s == "other hosts", s))
    at = {name: i for i, name in enumerate(sides)}
    amount = [[0] * len(sides) for _ in sides]
    p2p = [[0] * len(sides) for _ in sides]
    for pair in found:
        row, column = at[side_of[pair["from"]]], at[side_of[pair["to"]]]
        amount[row][column] += pair["bytes"]
        p2p[row][column] += pair["p2p_bytes"]
    most = max(max(row) for row in amount) or 1
    cells = [
        [
            {
                "bytes": value,
                "p2p_bytes": p2p[i][j],
                "level": math.ceil(LEVELS * math.sqrt(value / most)),
            }
            for j, value in enumerate(row)
        ]
        for i, row in enumerate(amount)
    ]
    every = list(range(len(sides)))
    rows, columns = every, every
    if len(sides) > FEW:  # A row or a column of nothing tells nothing.
        rows = [i for i in every if any(amount[i])]
        columns = [j for j in every if any(line[j] for line in amount)]
        rows.sort(key=lambda i: -sum(amount[i]))
        columns.sort(key=lambda j: -sum(line[j] for line in amount))
    by = "worker" if all(k == v for k, v in side_of.items()) else "host"
    return {
        "by": by,
        "sides": sides,
        "cells": cells,
        "rows": rows,
        "columns": columns,
        "left_out": len(set(every) - (set(rows) & set(columns))),
    }
