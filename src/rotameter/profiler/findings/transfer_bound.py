"""RM104 transfer_bound: cores waited for data to come from other workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from rotameter.profiler.findings._likes import comparable, long_ones
from rotameter.profiler.findings._saved import Shorter
from rotameter.profiler.findings.base import Tools, price, severity_of, worth_saying
from rotameter.profiler.occupancy import BUSY_TRANSFER, Occupancy, occupancy, sweep
from rotameter.profiler.replaying.changes import Cap, Scale
from rotameter.profiler.replaying.intervals import covered
from rotameter.profiler.view import View, floats, lookup, short, view
from rotameter.units import format_bytes, format_number, format_seconds
from rotameter.values import Evidence, Finding

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask

__all__ = ["Advisor"]

SMALL_BYTES = 100_000
"""Moves smaller than this on average cost latency rather than bandwidth."""

MUCH_BYTES = 1e6


class Advisor:
    """Find groups whose tasks waited for data while cores had nothing else to do."""

    name = "transfer_bound"

    def check(self, trace: Trace, tools: Tools) -> list[Finding]:
        """Look for time lost to moving data."""
        seen = view(trace)
        moved = seen.intervals("transfer")
        placed = bool(len(moved["start"]))
        if not placed:
            moved = _before_starts(seen)
            # Also what has no worker or start on record moved: that its cost is unknown is told.
            waited = float(np.nansum(seen.number("transfer_s")[~seen.outcome_in("cached")]))
            if not worth_saying(seen, waited):
                return []
        swept = occupancy(seen)
        if swept is None:
            tools.cannot_tell("what moving data cost", "no worker's life and cores were recorded")
            return []
        lost = _lost(swept, moved) if placed else _idle_before(swept, moved)
        total = float(lost.sum())
        cost = total / float(seen.slots or 1.0)
        if not worth_saying(seen, cost):
            if not placed:
                tools.cannot_tell(
                    "what moving data cost", "transfers have a duration but no place in time"
                )
            return []
        priced = _priced(seen, tools, moved, lost, cost)
        if priced is None:
            return []
        return [self._finding(seen, swept, moved, lost, priced)]

    def _finding(
        self,
        seen: View,
        swept: Occupancy,
        moved: dict[str, Any],
        lost: Floats,
        priced: tuple[float, tuple[float, float], str],
    ) -> Finding:
        cost, interval, how = priced
        consumers = _by_group(seen, moved["task"], lost)
        shuffled = float(lost[moved["task"] < 0].sum()) > 0.5 * float(lost.sum())
        if shuffled:
            consumers = _senders(seen, swept, moved)
        first = consumers[0][0] if consumers and not shuffled else None
        makers = _producers(trace_flows=_flows(seen), seen=seen, consumer=first)
        size, measured = _size(moved)
        mean = size / measured if measured else None
        what = format_bytes(size) if measured else "data (of unknown size)"
        who = seen.label(first) if first is not None else "other workers, mostly in shuffles"
        source = f" from {seen.label(makers[0][0], 24)}" if makers and not shuffled else ""
        chatty = mean is not None and mean < SMALL_BYTES
        return Finding(
            code="RM104",
            kind="transfer_bound",
            severity=severity_of(seen, cost),
            title=(
                f"Cores idled {format_seconds(float(lost.sum()))} while {what} moved "
                f"to {who}{source}"
            ),
            groups=tuple(seen.groups[g] for g, _ in consumers[:3])
            + tuple(seen.groups[g] for g, _ in makers[:2] if g not in dict(consumers[:3])),
            evidence=_evidence(seen, moved, lost, makers),
            **price(seen, cost),
            cost_s_interval80=interval,
            cost_how=how,
            confidence="medium",
            advice=(
                "Many small pieces move: use fewer output partitions, or fuse the two steps."
                if chatty
                else "Keep producer and consumer together: fuse the steps, reduce before moving "
                "(filter, aggregate, smaller types), repartition once, or use fewer workers."
            ),
            change=(
                "df = df.repartition(npartitions=df.npartitions // 4)  # fewer pieces to move"
                if chatty
                else "LocalCluster(n_workers=1, threads_per_worker=…)  # data stays in one process"
            ),
            apply={
                "placement": {"factor": None},
                "partitioning": {"factor": 0.25},
                "task_granularity": {"factor": 4.0},
            },
        )


def _priced(
    seen: View, tools: Tools, moved: dict[str, Any], lost: Floats, bound: float
) -> tuple[float, tuple[float, float], str] | None:
    """Give the cost, its interval and how it was found; None where data travelled beside work.

    Replayed with all inputs there at once. Moves that no task asked for (a shuffle's) are in no
    task's time, so that there the idle cores are the bound that remains.
    """
    asked = float(lost[moved["task"] >= 0].sum()) > 0.5 * float(lost.sum())
    changes = (
        Scale(None, "transfer", 0.0),
        Shorter(_inside_s(seen), "compute"),
        Cap(_slowed(seen), "wall", "median"),
    )
    saving = tools.replay.saving(*changes) if tools.replay and asked else None
    if saving is None or saving.mid_s is None or saving.low_s is None or saving.high_s is None:
        how = (
            f"idle core time over {format_number(seen.slots)} cores: an upper bound, if the "
            "data had been where it was needed and other work had filled those cores"
        )
        return bound, (round(0.3 * bound, 6), round(bound, 6)), how
    if not worth_saying(seen, saving.mid_s):
        return None
    interval = (max(0.0, saving.low_s), saving.high_s)
    return saving.mid_s, interval, f"all inputs where they are needed: {saving.how}"


def _slowed(seen: View) -> Mask:
    """Say which attempts got much data from elsewhere and were far longer than their mates.

    What a task allocates where the data was already is there; on another worker it is new memory.
    """
    with np.errstate(invalid="ignore"):
        got = seen.number("received_bytes") >= MUCH_BYTES
    return long_ones(seen, comparable(seen)) & got


def _size(moved: dict[str, Any]) -> tuple[float, int]:
    """Give the bytes that moved, and how many transfers told theirs."""
    known = ~np.isnan(moved["bytes"])
    return float(moved["bytes"][known].sum()), int(known.sum())


def _evidence(
    seen: View, moved: dict[str, Any], lost: Floats, makers: list[tuple[int, float]]
) -> tuple[Evidence, ...]:
    (size, measured), count = _size(moved), len(lost)
    pair = _worst_pair(seen, moved, lost)
    return (
        Evidence(
            "cores idle during transfers",
            round(float(lost.sum()), 3),
            "core·s",
            "free cores of a worker while data was on its way to it",
            count,
        ),
        *(
            (
                Evidence("moved", round(size), "B", "transfer records", measured),
                Evidence("bytes a move", round(size / measured), "B", "mean", measured),
            )
            if measured
            else ()
        ),
        Evidence(
            "time on the wire",
            round(float((moved["end"] - moved["start"]).sum()), 3),
            "s",
            "sum over transfers, which may overlap",
            count,
        ),
        *(
            Evidence(f"from {seen.label(g, 24)}", round(b), "B", "moved objects")
            for g, b in makers[:3]
        ),
        *([Evidence("busiest pair of workers", pair, "", "sender → receiver")] if pair else []),
    )


def _lost(swept: Occupancy, moved: dict[str, Any]) -> Floats:
    """Share out, among transfers, the cores that waited for them."""
    rate = swept.waiting[:, 0] + swept.busy[:, BUSY_TRANSFER]
    worker, starts, ends = moved["worker"], moved["start"], moved["end"]
    known = worker >= 0
    # Overlapping transfers share the cores that wait.
    integral = np.where(known, swept.integral(rate, np.maximum(worker, 0), starts, ends), 0.0)
    total = float(rate @ swept.dt)
    weight = float(integral.sum())
    return np.asarray(integral * (total / weight) if weight > 0 else integral * 0.0)


def _before_starts(seen: View) -> dict[str, Any]:
    """Give the transfers of which only how long they took is on record, just before each start."""
    took = seen.number("transfer_s")
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(seen.ran & (seen.worker >= 0) & (took > 0))
    return {
        "task": seen.task[rows],
        "worker": seen.worker[rows],
        "peer": np.full(len(rows), -1, dtype=np.int64),
        "start": seen.started[rows] - took[rows],
        "end": seen.started[rows],
        "bytes": seen.number("received_bytes")[rows],
    }


def _idle_before(swept: Occupancy, moved: dict[str, Any]) -> Floats:
    """Share out the cores that stood idle during transfers that no interval tells of.

    Each transfer waits for one core at most, and those at one time share the idle ones.
    """
    if not len(moved["start"]) or not len(swept.axis):
        return np.zeros(len(moved["start"]))
    # Not into another worker's time, however long before the run.
    begun = np.clip(moved["start"], swept.base, moved["end"])
    starts, ends = (swept.place(moved["worker"], at) for at in (begun, moved["end"]))
    edges, going = sweep(starts, ends, np.zeros(len(starts), np.int64), np.ones(len(starts)), 1)
    grid = np.unique(np.concatenate([edges, swept.axis, swept.axis + swept.dt]))
    at = np.searchsorted(swept.axis, grid[:-1], "right") - 1
    held = (at >= 0) & (grid[:-1] < (swept.axis + swept.dt)[at])
    idle = np.where(held, swept.idle[at], 0.0)
    count = going[np.maximum(np.searchsorted(edges, grid[:-1], "right") - 1, 0), 0]
    count = np.where(grid[:-1] < edges[0], 0.0, np.round(count))
    each = np.minimum(idle, count) / np.maximum(count, 1.0)
    total = np.concatenate([[0.0], np.cumsum(each * np.diff(grid))])
    return np.asarray(np.interp(ends, grid, total) - np.interp(starts, grid, total))


def _inside_s(seen: View) -> Floats:
    """Give the seconds of each attempt in which its own data was on its way; shape (n,).

    Never more than it did not compute: data may come beside the work.
    """
    moved = seen.intervals("transfer")
    one = np.flatnonzero(seen.ran & (seen.worker >= 0))
    width = len(seen.workers) + 1
    lane = np.where(moved["task"] >= 0, moved["task"] * width + moved["worker"], -1)
    lane = np.where(moved["worker"] >= 0, lane, -1)
    names = np.unique(np.r_[lane, seen.task[one] * width + seen.worker[one]])
    made = np.zeros(seen.n)
    at = np.searchsorted(names, seen.task[one] * width + seen.worker[one])
    code = np.where(lane >= 0, np.searchsorted(names, lane), -1)
    made[one] = covered(code, moved["start"], moved["end"], at, seen.started[one], seen.ended[one])
    spent = seen.ended - seen.started
    rest = np.maximum(spent - np.nan_to_num(seen.number("cpu_s")), 0.0)
    return np.asarray(np.where(made > 0, np.minimum(made, np.nan_to_num(rest)), 0.0))


def _by_group(seen: View, tasks: Codes, weight: Floats) -> list[tuple[int, float]]:
    """Sum a weight by the group of tasks, largest first; what no task waited for is left out."""
    group_of = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    group_of[seen.task] = seen.group
    groups = group_of[tasks]
    good = groups >= 0
    sums = np.bincount(groups[good], weight[good], minlength=len(seen.groups))
    order = np.lexsort((np.arange(len(sums)), -sums))
    return [(int(g), float(sums[g])) for g in order if sums[g] > 0]


def _senders(seen: View, swept: Occupancy, moved: dict[str, Any]) -> list[tuple[int, float]]:
    """Name the groups that ran on the senders while data travelled that no task had asked for."""
    free = (moved["task"] < 0) & (moved["peer"] >= 0)
    starts, ends = (
        np.sort(swept.place(moved["peer"][free], moved[side][free])) for side in ("start", "end")
    )
    going = np.searchsorted(starts, swept.axis, "right") - np.searchsorted(
        ends, swept.axis, "right"
    )
    rows = np.flatnonzero(seen.ran & (seen.worker >= 0) & (seen.group >= 0))
    during = swept.integral(
        (going > 0).astype(np.float64), seen.worker[rows], seen.started[rows], seen.ended[rows]
    )
    sums = np.bincount(seen.group[rows], during, minlength=len(seen.groups))
    return [(int(g), float(sums[g])) for g in np.argsort(-sums, kind="stable")[:2] if sums[g] > 0]


def _flows(seen: View) -> tuple[Codes, Codes, Floats]:
    """Give what came over the network: consumer task, producer task, bytes."""
    table = seen.table("flows")
    rows = table.filter(pc.equal(table["medium"], "network"))
    return (
        lookup(rows["task_id"], seen.task_ids),
        lookup(rows["object"], seen.task_ids),
        np.nan_to_num(floats(rows["bytes"])),
    )


def _producers(
    trace_flows: tuple[Codes, Codes, Floats], seen: View, consumer: int | None
) -> list[tuple[int, float]]:
    """Sum bytes by the group that made what the consumer group received."""
    taker, maker, size = trace_flows
    group_of = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    group_of[seen.task] = seen.group
    mine = (maker >= 0) & (group_of[taker] == consumer) if consumer is not None else maker >= 0
    return _by_group(seen, maker[mine], size[mine])


def _worst_pair(seen: View, moved: dict[str, Any], lost: Floats) -> str | None:
    known = (moved["worker"] >= 0) & (moved["peer"] >= 0)
    if not known.any():
        return None
    n = len(seen.workers)
    sums = np.bincount(
        moved["peer"][known] * n + moved["worker"][known], np.nan_to_num(moved["bytes"][known])
    )
    sender, receiver = divmod(int(np.argmax(sums)), n)
    return (
        f"{short(seen.workers[sender], 32)} → {short(seen.workers[receiver], 32)}: "
        f"{format_bytes(float(sums.max()))}"
    )
