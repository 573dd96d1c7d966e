"""Reading and writing over time: bytes by worker in fixed parts of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.groups import moved
from rotameter.profiler.view import encode, floats, lookup, view
from rotameter.viz.timeline import short_worker

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["BINS", "ROWS", "io_over_time", "spread"]

BINS = 60
ROWS = 40
_SIDES = ("read", "write")
_NOT_STORAGE = ("memory", "network", "device")
_RATES = ("disk_read_bytes_per_s", "disk_write_bytes_per_s")


@dataclass(frozen=True, slots=True)
class _Moves:
    """Bytes moved between two times; ``side`` 0 reads, 1 writes; ``row`` is an attempt or -1."""

    worker: Codes
    row: Codes
    side: Codes
    start: Floats
    end: Floats
    bytes: Floats
    timed: int
    source: str
    workers: list[str]


def spread(
    row: Codes, start: Floats, end: Floats, amount: Floats, edges: Floats, rows: int
) -> Floats:
    """Spread amounts evenly over their times into bins; sums are kept.

    Parameters
    ----------
    row : ndarray of int64, shape (n,)
    start, end, amount : ndarray of float64, shape (n,)
    edges : ndarray of float64, shape (bins + 1,)
        What lies outside is put at the nearer end.
    rows : int

    Returns
    -------
    ndarray of float64, shape (rows, bins)

    Examples
    --------
    >>> zero = np.zeros(1, np.int64)
    >>> spread(zero, np.array([0.5]), np.array([2.0]), np.array([3.0]), np.arange(4.0), 1).tolist()
    [[1.0, 2.0, 0.0]]
    """
    bins = len(edges) - 1
    width = (edges[-1] - edges[0]) / bins
    low = np.clip((start - edges[0]) / width, 0, bins)
    high = np.clip((end - edges[0]) / width, 0, bins)
    # A moment belongs to one bin; so does what lies beyond the end.
    first = np.minimum(np.floor(low), bins - 1).astype(np.int64)
    last = np.clip(np.ceil(high) - 1, first, bins - 1).astype(np.int64)
    length = high - low
    made = np.zeros((rows, bins))
    one = (last == first) | (length <= 0)
    np.add.at(made, (row[one], first[one]), amount[one])
    row, low, high, first, last = (x[~one] for x in (row, low, high, first, last))
    rate = amount[~one] / (high - low)
    np.add.at(made, (row, first), rate * (first + 1 - low))
    np.add.at(made, (row, last), rate * (high - last))
    # Whole bins in between, as steps up and down that are then summed.
    steps = np.zeros((rows, bins + 1))
    np.add.at(steps, (row, first + 1), rate)
    np.add.at(steps, (row, last), -rate)
    between: Floats = np.maximum(np.cumsum(steps, axis=1)[:, :bins], 0.0)
    # What rounding leaves where nothing is.
    count = np.zeros((rows, bins + 1), np.int64)
    np.add.at(count, (row, first + 1), 1)
    np.add.at(count, (row, last), -1)
    between[np.cumsum(count, axis=1)[:, :bins] == 0] = 0.0
    return made + between


def _from_flows(seen: View) -> _Moves | None:
    """Give what tasks read and wrote of named data, as recorded."""
    flows = seen.table("flows")
    if not flows.num_rows:
        return None
    op, ops = encode(flows["op"])
    medium, media = encode(flows["medium"])
    side = np.array([_SIDES.index(o) if o in _SIDES else -1 for o in ops] + [-1])[op]
    stored = np.array([m not in _NOT_STORAGE for m in media] + [True])[medium]
    amount = floats(flows["bytes"])
    use = (side >= 0) & stored & (amount > 0)
    if not use.any():
        return None
    task = lookup(flows["task_id"], seen.task_ids)
    row = _attempts(seen, task, floats(flows["attempt"]))
    start, end = seen.seconds(flows["first_ns"]), seen.seconds(flows["last_ns"])
    own = ~np.isnan(start) & ~np.isnan(end)
    start = np.where(own, start, np.append(seen.started, np.nan)[row])
    end = np.where(own, end, np.append(seen.ended, np.nan)[row])
    _, listed = encode(flows["worker"])
    workers = seen.workers + sorted(set(listed) - set(seen.workers))
    worker = lookup(flows["worker"], workers)
    worker = np.where(worker >= 0, worker, np.append(seen.worker, -1)[row])
    return _Moves(
        worker[use], row[use], side[use].astype(np.int64), start[use], end[use], amount[use],
        int(own[use].sum()), "flows", workers,
    )  # fmt: skip


def _attempts(seen: View, task: Codes, attempt: Floats) -> Codes:
    """Give each flow's row of ``tasks``: of its attempt, else the last of its task; -1 = none."""
    number = np.nan_to_num(seen.number("attempt"), nan=0.0)
    last = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    order = np.lexsort((number, seen.task))
    last[seen.task[order]] = order
    last[-1] = -1
    row: Codes = last[task]
    if seen.n <= len(seen.task_ids):
        return row
    key = seen.task * 10_000.0 + number
    ranked = np.argsort(key, kind="stable")
    wanted = task * 10_000.0 + np.nan_to_num(attempt, nan=-1.0)
    at = np.clip(np.searchsorted(key[ranked], wanted), 0, seen.n - 1)
    exact = (key[ranked][at] == wanted) & (task >= 0)
    return np.where(exact, ranked[at], row)


def _from_tasks(seen: View) -> _Moves | None:
    """Give what attempts read and wrote in all, over the whole time that they ran."""
    sides = [moved(seen, side)[0] for side in _SIDES]
    rows = [np.flatnonzero((values > 0) & ~seen.nested) for values in sides]
    row = np.concatenate(rows)
    if not len(row):
        return None
    side = np.repeat(np.arange(2), [len(r) for r in rows])
    amount = np.concatenate([v[r] for v, r in zip(sides, rows, strict=True)])
    return _Moves(
        seen.worker[row], row, side, seen.started[row], seen.ended[row], amount, 0, "attempts",
        seen.workers,
    )  # fmt: skip


def _from_samples(seen: View) -> _Moves | None:
    """Give what workers' hosts read and wrote, from rates that were sampled."""
    parts: list[list[Any]] = [[], [], [], [], []]
    for side, metric in enumerate(_RATES):
        code, at, rate = seen.samples(metric)
        good = (code >= 0) & ~np.isnan(at) & ~np.isnan(rate)
        order = np.lexsort((at[good], code[good]))
        code, at, rate = code[good][order], at[good][order], rate[good][order]
        same = np.flatnonzero(code[1:] == code[:-1]) + 1
        amount = np.maximum(rate[same], 0) * (at[same] - at[same - 1])
        found = (code[same], np.full(len(same), side), at[same - 1], at[same], amount)
        for part, values in zip(parts, found, strict=True):
            part.append(values)
    worker, side_of, start, end, amount = (np.concatenate(part) for part in parts)
    if not (amount > 0).any():
        return None
    keep = amount > 0
    nobody = np.full(int(keep.sum()), -1, dtype=np.int64)
    return _Moves(
        worker[keep], nobody, side_of[keep], start[keep], end[keep], amount[keep],
        int(keep.sum()), "samples", seen.workers,
    )  # fmt: skip


def _rows(seen: View, moves: _Moves) -> tuple[Codes, list[str], str]:
    """Say what a row of the map is: a worker, a host, else a task group."""
    if (moves.worker >= 0).any():
        names = moves.workers
        code, by = moves.worker, "worker"
        if len(np.unique(code[code >= 0])) > ROWS:
            host_of = dict(
                zip(
                    *(seen.table("workers")[c].to_pylist() for c in ("worker", "host")), strict=True
                )
            )
            hosts = [host_of.get(name) for name in names]
            if all(hosts) and len(set(hosts)) < len(names):
                listed = sorted({str(host) for host in hosts})
                of = np.array([listed.index(str(host)) for host in hosts] + [-1])
                return of[code], listed, "host"
        return code, names, by
    group: Codes = np.append(seen.group, -1)[moves.row]
    return group, seen.groups, "task group"


def io_over_time(trace: Trace) -> dict[str, Any] | str:
    """Give bytes read and written by worker in 60 equal parts of the run.

    Recorded touches of data come first, else the sums of attempts, else sampled rates of hosts.

    Parameters
    ----------
    trace : Trace

    Returns
    -------
    dict or str
        ``rows``: name, ``read_bytes`` and ``write_bytes`` (a number a bin; sums are exact), at
        most 40 of them, the last one then of all others; ``source`` says where they come from,
        ``unplaced_bytes`` what has no time; or why there is none.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> second = 10**9
    >>> flow = {"task_id": "a", "object": "x", "op": "read", "bytes": 600, "worker": "w"}
    >>> made = io_over_time(Trace.from_tables({"flows": [
    ...     {**flow, "first_ns": 0, "last_ns": 60 * second}]}))
    >>> made["rows"][0]["read_bytes"][:2], made["bin_s"]
    ([10, 10], 1.0)
    """
    seen = view(trace)
    moves = _from_flows(seen) or _from_tasks(seen) or _from_samples(seen)
    if moves is None:
        return "no bytes read or written were recorded"
    placed = ~np.isnan(moves.start) & ~np.isnan(moves.end) & (moves.end >= moves.start)
    if not placed.any():
        return "bytes were recorded, but not when they were read or written"
    low, high = float(moves.start[placed].min()), float(moves.end[placed].max())
    if seen.window is not None:
        low, high = min(low, seen.window[0]), max(high, seen.window[1])
    if high <= low:
        return "all bytes moved at one moment"
    code, names, by = _rows(seen, moves)
    rank, labels = _largest(code[placed], moves.bytes[placed], names)
    edges = np.linspace(low, high, BINS + 1)
    return {
        "by": by,
        "source": moves.source,
        "start_s": 0.0,
        "bin_s": (high - low) / BINS,
        # An attempt that read and wrote is one.
        "moves": len(np.unique(moves.row) if moves.source == "attempts" else moves.bytes),
        "timed": moves.timed,
        "unplaced_bytes": round(float(moves.bytes[~placed].sum())),
        "rows": _binned(moves, placed, rank, labels, edges),
    }


def _binned(
    moves: _Moves, placed: Mask, rank: Codes, labels: list[str], edges: Floats
) -> list[dict[str, Any]]:
    """Give the rows of the map: bytes a bin and in all, read and written."""
    maps = [
        spread(
            rank[mine], moves.start[placed][mine], moves.end[placed][mine],
            moves.bytes[placed][mine], edges, len(labels),
        )
        for mine in (moves.side[placed] == side for side in range(2))
    ]  # fmt: skip
    rows = []
    for at, label in enumerate(labels):
        whole = {f"{side}_bytes": _integers(maps[i][at]) for i, side in enumerate(_SIDES)}
        totals = {f"total_{key}": sum(values) for key, values in whole.items()}
        rows.append({"name": label, **whole, **totals})
    return rows


def _largest(code: Codes, amount: Floats, names: list[str]) -> tuple[Codes, list[str]]:
    """Give each move's row, and the rows' names: the largest by bytes, then all others."""
    total = np.bincount(code + 1, weights=amount, minlength=len(names) + 1)
    present = np.flatnonzero(np.bincount(code + 1, minlength=len(names) + 1))
    ranked = sorted(present.tolist(), key=lambda c: (-total[c], c))
    kept = ranked if len(ranked) <= ROWS else ranked[: ROWS - 1]
    kept.sort(key=lambda c: (c == 0, names[c - 1] if c else ""))
    rank = np.full(len(names) + 1, len(kept), dtype=np.int64)
    rank[kept] = np.arange(len(kept))
    labels = [short_worker(names[c - 1]) if c else "not recorded" for c in kept]
    if len(kept) < len(ranked):
        labels.append(f"{len(ranked) - len(kept):,} others")
    return rank[code + 1], labels


def _integers(values: Floats) -> list[int]:
    """Round so that the sum is the rounded sum."""
    whole = np.round(np.cumsum(values)).astype(np.int64)
    made: list[int] = np.diff(whole, prepend=0).tolist()
    return made
