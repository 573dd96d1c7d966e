"""What an attempt's time was made of: inside its wall, and between its inputs and its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.groups import moved, rows_of
from rotameter.profiler.replaying.intervals import covered
from rotameter.profiler.replaying.model import BEFORE, PARTS
from rotameter.profiler.view import floats, lookup

if TYPE_CHECKING:
    from rotameter.profiler.replaying.graph import Edges
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["Waits", "before", "inside", "moved_bytes", "seen_bandwidth"]

COMPUTE, READ, WRITE, SPILL, OVERHEAD, STALL, TRANSFER, LATENCY, WAIT = range(len(PARTS))
LONGEST_OVERHEAD_S = 0.25
"""A longer delay is not the engine's work on one task but a wait for something."""
_FEW_BYTES = 1e6
_STOOD_S = 0.005
"""A core that stood still for less waited for nothing."""
_GOT = "receive"


def inside(seen: View, rows: Codes, parts: Floats, notes: list[str]) -> None:
    """Split each attempt's wall time into compute, read and write.

    Read and write are the seconds inside calls on files and object stores: by flow where flows
    have them, else ``io_s`` in proportion to the bytes. Where nothing is on record, all is compute.

    Parameters
    ----------
    parts : ndarray of float64, shape (n, len(PARTS))
        Filled in.
    """
    wall = (seen.ended - seen.started)[rows]
    read, write = _busy(seen)
    read, write = read[rows], write[rows]
    total = np.nan_to_num(seen.number("io_s")[rows])
    bare = (read + write <= 0) & (total > 0)
    if bare.any():
        size_in = np.nan_to_num(moved(seen, "read")[0][rows])
        size_out = np.nan_to_num(moved(seen, "write")[0][rows])
        both = size_in + size_out
        share = np.where(both > 0, size_in / np.where(both > 0, both, 1.0), 1.0)
        read = np.where(bare, share * total, read)
        write = np.where(bare, (1.0 - share) * total, write)
    files = read + write
    scale = np.where(files > wall, wall / np.where(files > 0, files, 1.0), 1.0)
    parts[:, READ], parts[:, WRITE] = read * scale, write * scale
    parts[:, COMPUTE] = np.maximum(0.0, wall - parts[:, READ] - parts[:, WRITE])
    if not files.any():
        notes.append("no time in calls on files is on record: all of it counts as computing")


def _busy(seen: View) -> tuple[Floats, Floats]:
    flows = seen.table("flows")
    made = []
    outside = pc.is_in(flows["medium"], value_set=pa.array(["file", "object_store"], pa.string()))
    for op in ("read", "write"):
        mine = flows.filter(pc.and_(outside, pc.equal(flows["op"], op)))
        row, busy = rows_of(seen, mine), np.nan_to_num(floats(mine["busy_s"]))
        known = row >= 0
        made.append(np.bincount(row[known], busy[known], minlength=seen.n).astype(np.float64))
    return made[0], made[1]


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """What decided when attempts began; arrays of shape (n,), seconds.

    Attributes
    ----------
    ready, free, begun : ndarray of float64
        Last input there; a slot free since; start.
    home : ndarray of int64
        Workers of the model.
    pinned : ndarray of bool
    edges : pair of ndarray of int64
        Attempt and attempt that it waited for.
    """

    ready: Floats
    free: Floats
    begun: Floats
    home: Codes
    pinned: Mask
    edges: Edges


def before(seen: View, rows: Codes, parts: Floats, waits: Waits, origin: float) -> None:
    """Split the time from an attempt's last input to its start.

    A worker that does nothing though an attempt could begin holds that attempt's slot: ``spill``
    while its disk works, else ``overhead``, or ``stall`` if that lasts. An attempt that could have
    begun before one that a free slot waited for was itself not ready: it has a ``wait``. What is
    sent to a worker with a free slot keeps that slot; what was given to a worker beforehand
    (pinned) leaves it to others for the time of its ``latency``.

    Parameters
    ----------
    parts : ndarray of float64, shape (n, len(PARTS))
        Filled in.
    waits : Waits
    origin : float
        The view's second that is the model's 0.
    """
    begun, free, home = waits.begun, waits.free, waits.home
    ready = np.minimum(waits.ready, begun)
    arrived = _arrived(seen, rows, ready, waits, origin)
    could = np.minimum(np.maximum(arrived, _not_before(home, arrived, free)), begun)
    parts[:, TRANSFER] = arrived - ready
    _add_delay(parts, could - arrived)
    claimed = np.maximum(could, free)
    rest = begun - claimed
    disk = seen.intervals("disk")
    low, high = claimed + origin, begun + origin
    worker = seen.worker[rows]
    spill = covered(disk["worker"], disk["start"], disk["end"], worker, low, high)
    spill = np.maximum(spill, np.minimum(np.nan_to_num(seen.number("spill_s")[rows]), rest))
    rest = rest - spill
    parts[:, SPILL] = spill
    keeps = (free >= could) | ~waits.pinned
    brief = rest <= LONGEST_OVERHEAD_S
    usual = _usual(rest, (free >= could) & brief, brief)
    parts[:, OVERHEAD] = np.where(brief, np.where(keeps, rest, np.minimum(rest, usual)), 0.0)
    stalled = ~brief & (keeps | _others_waited(home, could, begun))
    parts[:, STALL] = np.where(stalled, rest, 0.0)
    _add_delay(parts, np.where(stalled, 0.0, rest - parts[:, OVERHEAD]))
    # Who came after one that a free slot waited for is not let in before it.
    claims = ready + parts[:, BEFORE].sum(axis=1)
    behind = np.minimum(_not_before(home, claims, free), np.maximum(free, claims)) - claims
    _add_delay(parts, np.maximum(behind, 0.0))


def _add_delay(parts: Floats, seconds: Floats) -> None:
    """Add a delay: the engine's if it is brief, else a wait that nothing explains."""
    brief = seconds <= LONGEST_OVERHEAD_S
    parts[:, LATENCY] += np.where(brief, seconds, 0.0)
    parts[:, WAIT] += np.where(brief, 0.0, seconds)


def _usual(rest: Floats, best: Mask, second: Mask) -> float:
    """Give the usual overhead of an attempt: the median of those that only waited for a slot."""
    for rows in (best, second):
        if rows.any():
            return float(np.median(rest[rows]))
    return 0.0


def _arrived(seen: View, rows: Codes, ready: Floats, waits: Waits, origin: float) -> Floats:
    """Give when the last of each attempt's inputs had come over the network.

    An input that another worker made came when that worker's result last came to this one; where
    results are not on record, when the attempt's own transfers ended. Where those are not either,
    ``transfer_s`` counts from the moment the inputs were there, or from when a core was free if
    only that explains why the core stood still.
    """
    begun, home = waits.begun, waits.home
    took = np.nan_to_num(seen.number("transfer_s")[rows])
    arrived = np.minimum(ready + took, begun)
    flows = seen.table("flows")
    came = flows.filter(pc.and_(pc.equal(flows["medium"], "network"), pc.equal(flows["op"], _GOT)))
    if not came.num_rows:
        claimed = np.maximum(waits.free, ready)
        stood = (took > 0) & (begun - np.maximum(arrived, claimed) > _STOOD_S)
        arrived = np.where(stood, claimed + took, arrived)
        own = _own_transfers(seen, rows, begun + origin) - origin
        return np.asarray(np.clip(np.where(np.isnan(own), arrived, own), ready, begun))
    width = len(seen.workers) + 1
    what, where = lookup(came["object"], seen.task_ids), lookup(came["worker"], seen.workers)
    ends = seen.seconds(came["last_ns"]) - origin
    known = (what >= 0) & (where >= 0) & ~np.isnan(ends)
    key, ends = (what * width + where)[known], ends[known]
    order = np.lexsort((ends, key))
    key, ends = key[order], ends[order]
    task, on = waits.edges
    away = home[task] != home[on]
    task, on = task[away], on[away]
    wanted = seen.task[rows][on] * width + seen.worker[rows][task]
    # The last time that this result came to this worker before the attempt began.
    stride = float(max(ends.max(initial=0.0), begun.max(initial=0.0))) + 1.0
    at = np.searchsorted(key * stride + ends, wanted * stride + begun[task] + 1e-3, "right") - 1
    found = at >= 0
    found[found] = key[at[found]] == wanted[found]
    last = np.full(len(rows), -np.inf)
    np.maximum.at(last, task[found], ends[at[found]])
    arrived = np.where(np.isfinite(last), last, arrived)
    return np.asarray(np.clip(arrived, ready, begun))


def _own_transfers(seen: View, rows: Codes, begun: Floats) -> Floats:
    """Give the end of each attempt's last transfer to its worker before it began; NaN = none.

    Shape (n,), the view's seconds.
    """
    moves = seen.intervals("transfer")
    width = len(seen.workers) + 1
    last = np.full(len(rows), np.nan)
    known = (moves["task"] >= 0) & (moves["worker"] >= 0) & ~np.isnan(moves["end"])
    if not known.any():
        return last
    key, ends = (moves["task"] * width + moves["worker"])[known], moves["end"][known]
    order = np.lexsort((ends, key))
    key, ends = key[order], ends[order]
    place = np.unique(key)
    wanted = np.where(seen.worker[rows] >= 0, seen.task[rows] * width + seen.worker[rows], -1)
    low = float(min(ends.min(), begun.min()))
    stride = float(max(ends.max(), begun.max())) - low + 1.0
    code = np.searchsorted(place, key)
    want = np.minimum(np.searchsorted(place, wanted), len(place) - 1)
    at = np.searchsorted(code * stride + ends - low, want * stride + begun - low + 1e-3, "right")
    at = np.maximum(at - 1, 0)
    found = (place[want] == wanted) & (key[at] == wanted) & (ends[at] <= begun + 1e-3)
    last[found] = ends[at[found]]
    return last


def _not_before(home: Codes, arrived: Floats, free: Floats) -> Floats:
    """Give the latest moment at which an earlier attempt of the worker met a free slot."""
    met = np.where(arrived > free, arrived, -np.inf)
    made = np.full(len(home), -np.inf)
    order = np.argsort(home, kind="stable")
    bounds = np.flatnonzero(np.r_[True, np.diff(home[order]) != 0, True])
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = order[low:high]
        made[mine[1:]] = np.maximum.accumulate(met[mine])[:-1]
    return made


def _others_waited(home: Codes, could: Floats, begun: Floats) -> Mask:
    """Say before which starts a later attempt of the same worker could have begun as well."""
    made = np.zeros(len(home), dtype=bool)
    order = np.argsort(home, kind="stable")
    bounds = np.flatnonzero(np.r_[True, np.diff(home[order]) != 0, True])
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = order[low:high]
        following = np.minimum.accumulate(could[mine][::-1])[::-1]
        made[mine[:-1]] = following[1:] < begun[mine][:-1] - 1e-3
    return made


def moved_bytes(seen: View, rows: Codes) -> dict[str, Floats]:
    """Give what attempts read, wrote and received; NaN = unknown."""
    return {
        "read": moved(seen, "read")[0][rows],
        "write": moved(seen, "write")[0][rows],
        "received": seen.number("received_bytes")[rows],
    }


def seen_bandwidth(seen: View) -> float | None:
    """Give the bytes a second that a large transfer between workers reaches; None if hardly any.

    The upper decile, by bytes, of the rates of the transfers that hold the upper half of all
    bytes: small ones show the delay of a message, and slow ones a link that others shared.
    """
    moves = seen.intervals("transfer")
    took = moves["end"] - moves["start"]
    known = (moves["bytes"] > 0) & (took > 0) & (moves["worker"] >= 0)
    size, took = moves["bytes"][known], took[known]
    if size.sum() < _FEW_BYTES:
        return None
    order = np.argsort(-size, kind="stable")
    large = order[: int(np.searchsorted(np.cumsum(size[order]), 0.5 * size.sum())) + 1]
    rate = size[large] / took[large]
    order = np.argsort(rate, kind="stable")
    weight = np.cumsum(size[large][order])
    return float(rate[order][np.searchsorted(weight, 0.9 * weight[-1])])
