"""Where attempts ran: workers with slots, when a slot was free, and who might run elsewhere."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.occupancy import sweep
from rotameter.profiler.open_ends import complete
from rotameter.profiler.replaying.intervals import covered
from rotameter.profiler.replaying.model import Worker
from rotameter.profiler.replaying.speeds import speed_ratios
from rotameter.profiler.view import encode

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["Placed", "free_since", "pinned", "place"]

TOUCH_S = 1e-3
"""Two attempts of one slot may overlap by this much in the record."""
PAUSE_S = (0.01, 0.05)
"""Bounds of how long a worker may be idle between two tasks."""
STUCK_RATIO = 0.3
"""An attempt that waited had to, if others were idle for this part of its last moments."""
FREE_CORES = 1e-6
"""What an attempt that asks for no core takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Attempts on workers.

    Attributes
    ----------
    home : ndarray of int64, shape (n,)
        Into ``workers``.
    cores : ndarray of float64, shape (n,)
    workers : tuple of Worker
    """

    home: Codes
    cores: Floats
    workers: tuple[Worker, ...]


def place(
    seen: View, rows: Codes, begun: Floats, ended: Floats, origin: float, notes: list[str]
) -> Placed:
    """Find each attempt's worker and how many slots the workers have.

    A worker without cores on record has as many slots as it was seen to use; attempts without a
    worker share one by host, or one in all.
    """
    home = seen.worker[rows].copy()
    names: list[str | None] = list(seen.workers)
    lost = home < 0
    if lost.any():
        hosts, host_names = encode(seen.tasks["host"])
        where = hosts[rows]
        kept, codes = np.unique(where[lost], return_inverse=True)
        home[lost] = len(names) + codes
        names += [host_names[k] if k >= 0 else None for k in kept.tolist()]
    cores = seen.number("granted_cores")[rows]
    cores = np.where(np.isnan(cores), seen.number("requested_cores")[rows], cores)
    # What asks for no core (a copy, a GPU task) takes none; unknown is one.
    cores = np.where(np.isnan(cores), 1.0, np.where(cores <= 0, FREE_CORES, cores))
    used = _most_used(home, cores, begun, ended, len(names))
    lives = seen.lives
    has = np.zeros(len(names))
    memory = np.full(len(names), np.nan)
    start, stop = np.full(len(names), np.nan), np.full(len(names), np.nan)
    np.maximum.at(has, lives["worker"], np.nan_to_num(lives["cores"]))
    np.fmax.at(memory, lives["worker"], lives["memory"])
    np.fmin.at(start, lives["worker"], lives["started"] - origin)
    np.fmax.at(stop, lives["worker"], lives["ended"] - origin)
    unknown = (has <= 0) & (used > 0)
    if unknown.any():
        notes.append(
            f"{int(unknown.sum())} of {int((used > 0).sum())} workers have no cores on record; "
            "they count with the most that ran there at once"
        )
    more = (has > 0) & (used > has + 1e-9)
    slots = np.where(more | unknown, used, has)
    first, last = _first_last(home, begun, ended, len(names))
    dies = stop < float(ended.max()) - 0.05
    renumber = np.full(len(names), -1, dtype=np.int64)
    keep = np.flatnonzero(slots > 0)
    renumber[keep] = np.arange(len(keep))
    fine = np.where(complete(seen)[rows], seen.group[rows], -1)
    speed = np.ones(len(names))
    speed[keep] = speed_ratios(renumber[home], fine, ended - begun, len(keep))
    workers = tuple(
        Worker(
            name=name,
            cores=float(slots[code]),
            memory_bytes=float(memory[code]) if memory[code] > 0 else float("inf"),
            from_s=float(max(0.0, np.fmin(np.nan_to_num(start[code]), first[code]))),
            until_s=float(np.fmax(stop[code], last[code])) if dies[code] else float("inf"),
            speed_ratio=float(speed[code]),
            was_ratio=float(speed[code]),
        )
        for code, name in enumerate(names)
    )
    return Placed(renumber[home], cores, tuple(workers[k] for k in keep.tolist()))


def _first_last(home: Codes, begun: Floats, ended: Floats, n: int) -> tuple[Floats, Floats]:
    first, last = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(first, home, begun)
    np.maximum.at(last, home, ended)
    return first, last


def _most_used(home: Codes, cores: Floats, begun: Floats, ended: Floats, n: int) -> Floats:
    """Give the most cores in use at once, by worker; ends just after a start do not count."""
    most = np.zeros(n)
    shorter = np.maximum(begun, ended - np.minimum(TOUCH_S, 0.5 * (ended - begun)))
    times = np.concatenate([begun, shorter])
    change = np.concatenate([cores, -cores])
    where = np.concatenate([home, home])
    order = np.lexsort((change, times, where))
    level = np.cumsum(change[order])
    np.maximum.at(most, where[order], level)  # every worker ends at its own zero
    ran = np.zeros(n)
    np.maximum.at(ran, home, cores)
    return np.maximum(most, ran)


def free_since(
    home: Codes, cores: Floats, begun: Floats, ended: Floats, workers: tuple[Worker, ...]
) -> Floats:
    """Give since when each attempt could have had its slot; attempts in order of start.

    The slot that was freed first is taken first, so that a slot that stood idle does not hide
    that another was there.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    since = [w.from_s for w in workers]
    free = [w.cores for w in workers]
    used: list[list[tuple[float, float]]] = [[] for _ in workers]
    found: list[float] = []
    columns = (home.tolist(), cores.tolist(), begun.tolist(), ended.tolist())
    for worker, need, start, end in zip(*columns, strict=True):
        heap = used[worker]
        while free[worker] < need - 1e-9 and heap:
            freed, size = heapq.heappop(heap)
            free[worker] += size
            since[worker] = max(since[worker], freed)
        free[worker] -= need
        found.append(min(since[worker], start))
        heapq.heappush(heap, (end, need))
    return np.array(found)


def pinned(placed: Placed, ready: Floats, free: Floats, begun: Floats, ended: Floats) -> Mask:
    """Say which attempts waited for a slot of their own worker while another one was idle.

    Those had to run where they ran (or were not moved in time); the others would have run where a
    slot was free. Attempts that never waited are taken for what most of the waiting ones are.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    if len(placed.workers) < 2:
        return np.zeros(len(ready), dtype=bool)
    until = np.minimum(free, begun)
    gaps = (begun - free)[free > ready]
    pause = float(np.clip(3.0 * np.median(gaps), *PAUSE_S)) if gaps.size else PAUSE_S[1]
    total = sum(w.cores for w in placed.workers)
    one = np.zeros(len(begun), dtype=np.int64)
    first = min(w.from_s for w in placed.workers)
    anyone = _idle(one, placed.cores, begun, ended, np.array([total]), np.array([first]), pause)
    capacity = np.array([w.cores for w in placed.workers])
    since = np.array([w.from_s for w in placed.workers])
    own = _idle(placed.home, placed.cores, begun, ended, capacity, since, pause)
    # Only the last moments of the wait tell: what happened long before does not hold it there.
    recent = np.maximum(ended - begun, 2.0 * pause)
    low = np.minimum(np.maximum(np.maximum(ready, 0.0), until - recent), until)
    elsewhere = covered(*anyone, one, low, until) - covered(*own, placed.home, low, until)
    stuck = elsewhere > np.maximum(pause, STUCK_RATIO * (until - low))
    counts = until - ready > pause
    if counts.any() and stuck.sum() > 0.5 * counts.sum():
        stuck |= ~counts
    return np.asarray(stuck)


def _idle(
    lane: Codes,
    cores: Floats,
    begun: Floats,
    ended: Floats,
    capacity: Floats,
    since: Floats,
    pause: float,
) -> tuple[Codes, Floats, Floats]:
    """Give stretches in which a lane had a free slot for longer than a pause.

    Returns
    -------
    lane, start, end : ndarray
    """
    stop = float(ended.max())
    stride = stop + 1.0
    base = np.arange(len(capacity)) * stride
    edges, levels = sweep(
        np.concatenate([lane * stride + begun, base + np.minimum(since, stop)]),
        np.concatenate([lane * stride + ended, base + stop]),
        np.zeros(len(lane) + len(capacity), dtype=np.int64),
        np.concatenate([cores, np.zeros(len(capacity))]),
        1,
    )
    where = np.floor(edges[:-1] / stride).astype(np.int64)
    inside = np.floor(edges[1:] / stride).astype(np.int64) == where
    idle = inside & (levels[:-1, 0] < capacity[where] - 0.5)
    begins = np.flatnonzero(np.diff(np.r_[False, idle].astype(np.int8)) == 1)
    ends = np.flatnonzero(np.diff(np.r_[idle, False].astype(np.int8)) == -1) + 1
    long = edges[ends] - edges[begins] > pause
    begins, ends = begins[long], ends[long]
    at = where[begins]
    return at, edges[begins] - at * stride, edges[ends] - at * stride
