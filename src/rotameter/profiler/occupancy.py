"""What each worker's cores and memory did at every instant: one sweep over all workers.

All workers lie on one axis: worker ``w``'s time ``t`` is ``w * stride + t - base``, so that one
vectorised sweep serves any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.open_ends import complete, still_running

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = [
    "ATTEMPT_USES",
    "Occupancy",
    "Timeline",
    "attempt_use",
    "occupancy",
    "ready_times",
    "seats",
    "sweep",
    "timeline",
]

ATTEMPT_USES = ("useful", "oom", "worker_lost", "failed", "recomputed", "unfinished", "unknown")
"""What an attempt's time turned out to be, in the order of :func:`attempt_use`'s codes."""


def sweep(
    starts: Floats, ends: Floats, series: Codes, weights: Floats, n_series: int
) -> tuple[Floats, Floats]:
    """Sum weighted intervals over time, one column a series.

    Returns
    -------
    edges : ndarray of float64, shape (n_edges,)
    levels : ndarray of float64, shape (n_edges, n_series)
        Level from each edge to the next; the last row is 0 up to rounding.

    Examples
    --------
    >>> edges, levels = sweep(np.array([0.0, 1.0]), np.array([2.0, 3.0]), np.array([0, 0]),
    ...                       np.ones(2), 1)
    >>> edges.tolist(), levels[:, 0].tolist()
    ([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 1.0, 0.0])
    """
    edges, where = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    change = np.concatenate([weights, -weights])
    column = np.concatenate([series, series])
    flat = np.bincount(where * n_series + column, change, minlength=len(edges) * n_series)
    levels = np.cumsum(flat.reshape(len(edges), n_series), axis=0)
    return edges, np.maximum(levels, 0.0)


def attempt_use(view: View) -> Codes:
    """Say what each attempt's time was, as a code into :data:`ATTEMPT_USES`."""
    use = np.full(view.n, ATTEMPT_USES.index("unfinished"), dtype=np.int64)
    use[complete(view)] = ATTEMPT_USES.index("unknown")
    use[view.ok] = ATTEMPT_USES.index("useful")
    use[view.superseded] = ATTEMPT_USES.index("recomputed")
    use[view.outcome_in("failed", "timeout")] = ATTEMPT_USES.index("failed")
    use[view.outcome_in("worker_lost", "preempted")] = ATTEMPT_USES.index("worker_lost")
    use[view.outcome_in("oom")] = ATTEMPT_USES.index("oom")
    return use


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Per worker and instant: cores held, cores by use, and why the rest were idle.

    ``busy`` columns follow :data:`ATTEMPT_USES` plus transfer and disk inside attempts; they are
    scaled so that they never exceed ``cores``. ``waiting``: idle cores by cause (transfer, disk,
    paused); the remaining idle cores are ``idle``.
    """

    worker: Codes
    start: Floats
    dt: Floats
    cores: Floats
    busy: Floats
    waiting: Floats
    idle: Floats
    stride: float
    base: float
    axis: Floats

    def place(self, worker: Codes, at: Floats) -> Floats:
        """Give instants' places on the axis that all workers share."""
        return np.asarray(worker * self.stride + at - self.base)

    def integral(self, rate: Floats, worker: Codes, starts: Floats, ends: Floats) -> Floats:
        """Integrate a per-segment rate over intervals, each on its worker."""
        if not len(self.axis):
            return np.zeros(len(starts))
        total = np.cumsum(rate * self.dt)
        # Both ends of each segment: between two workers' lives nothing accrues.
        grid = np.stack([self.axis, self.axis + self.dt], axis=1).ravel()
        total = np.stack([total - rate * self.dt, total], axis=1).ravel()
        low = np.interp(self.place(worker, starts), grid, total)
        high = np.interp(self.place(worker, ends), grid, total)
        return np.asarray(high - low)


N_BUSY = len(ATTEMPT_USES) + 2
BUSY_TRANSFER, BUSY_DISK = N_BUSY - 2, N_BUSY - 1
WAITING = ("transfer", "disk", "paused")


def _clipped(view: View, worker: Codes, starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Clip intervals to the hull of their worker's recorded lives."""
    low = np.full(len(view.workers) + 1, np.inf)
    high = np.full(len(view.workers) + 1, -np.inf)
    np.minimum.at(low, view.held["worker"], view.held["started"])
    np.maximum.at(high, view.held["worker"], view.held["ended"])
    return np.maximum(starts, low[worker]), np.minimum(ends, high[worker])


def _inside(view: View, found: dict[str, Any]) -> Mask:
    """Say which intervals lie within their attempt's run (so that its core waited on them)."""
    inside: Mask = np.zeros(len(found["start"]), dtype=bool)
    rows = np.flatnonzero(view.ran)
    if not rows.size or not len(inside):
        return inside
    # The attempt of that task that began last before the interval's middle.
    middle = (found["start"] + found["end"]) / 2
    order = rows[np.lexsort((view.started[rows], view.task[rows]))]
    span = float(np.nanmax(np.abs(view.ended[rows]))) + float(np.abs(middle).max()) + 1.0
    keys = view.task[order] * 4 * span + view.started[order]
    at = np.searchsorted(keys, found["task"] * 4 * span + middle, "right")
    candidate = order[np.maximum(at - 1, 0)]
    inside = (
        (at > 0)
        & (found["task"] >= 0)
        & (view.task[candidate] == found["task"])
        & (view.worker[candidate] == found["worker"])
        & (view.started[candidate] <= middle)
        & (view.ended[candidate] >= middle)
    )
    return inside


def seats(view: View) -> tuple[Any, Codes]:
    """Give the lives that hold cores, and for each worker the one whose cores it uses.

    Processes of a plain Python program share the cores of their machine: all of a host are
    one life with the cores that any of them may use, at most the machine's.
    """
    seat = np.arange(len(view.workers) + 1, dtype=np.int64)
    seat[-1] = -1
    lives = view.lives
    if view.meta.get("engine") not in (None, "python") or not len(lives):
        return lives, seat
    table = view.table("workers")
    host_of = dict(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    limits = view.machines("cores")
    hosts = [host_of.get(view.workers[code]) for code in lives["worker"]]
    merged = []
    for host in dict.fromkeys(hosts):
        here = lives[[h == host for h in hosts]]
        limit = limits.get(host or "", np.nan)
        cores = here["cores"][here["cores"] > 0]
        most = len(np.unique(here["worker"])) > 1 and cores.sum() > limit
        if host is None or not (most or (len(cores) < len(here))):
            merged.append(here)
            continue
        one = here[:1].copy()
        one["started"], one["ended"] = here["started"].min(), here["ended"].max()
        one["cores"] = np.fmin(cores.max() if len(cores) else np.nan, limit)
        one["memory"] = np.nan if np.isnan(here["memory"]).all() else np.nanmax(here["memory"])
        seat[here["worker"]] = one["worker"][0]
        merged.append(one)
    made: Any = np.concatenate(merged)
    return made, seat


def paused_spans(view: View) -> tuple[Codes, Floats, Floats]:
    """Give the spans in which workers were paused: worker code, start, end."""
    codes = {name: code for code, name in enumerate(view.workers)}
    ends = {int(life["worker"]): float(life["ended"]) for life in view.lives}
    open_at: dict[int, float] = {}
    spans: list[tuple[int, float, float]] = []
    for event in view.events("worker_paused", "worker_resumed", "worker_removed"):
        code = codes.get(event["worker"] or event["subject"])
        if code is None or event["at_s"] is None:
            continue
        if event["kind"] == "worker_paused":
            open_at.setdefault(code, event["at_s"])
        elif code in open_at:
            spans.append((code, open_at.pop(code), event["at_s"]))
    spans.extend((code, at, ends.get(code, at)) for code, at in open_at.items())
    made = np.array(spans, dtype=np.float64).reshape(-1, 3)
    return made[:, 0].astype(np.int64), made[:, 1], made[:, 2]


def occupancy(view: View) -> Occupancy | None:
    """Sweep all workers; None where no worker's life and cores are recorded."""
    if "occupancy" not in view.memo:
        view.memo["occupancy"] = _occupancy(view)
    made: Occupancy | None = view.memo["occupancy"]
    return made


def _occupancy(view: View) -> Occupancy | None:
    lives = view.held[np.nan_to_num(view.held["cores"]) > 0]
    window = view.window
    if not len(lives) or window is None:
        return None
    stride = 2.0 * (window[1] - window[0]) + 2.0
    parts: list[tuple[Codes, Floats, Floats, Codes, Floats]] = []

    def add(worker: Codes, starts: Floats, ends: Floats, column: Any, weight: Any) -> None:
        worker = view.seat[worker]
        lo, hi = _clipped(view, worker, starts, ends)
        keep = hi > lo
        lo, hi, worker = lo[keep], hi[keep], worker[keep]
        columns = np.broadcast_to(np.asarray(column), keep.shape)[keep].astype(np.int64)
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), keep.shape)[keep]
        parts.append((worker, lo, hi, columns, weights))

    add(lives["worker"], lives["started"], lives["ended"], 0, lives["cores"])
    rows = np.flatnonzero(view.ran & (view.worker >= 0))
    cores = np.fmax(np.nan_to_num(view.number("granted_cores")[rows], nan=1.0), 1.0)
    use = attempt_use(view)[rows]
    add(view.worker[rows], view.started[rows], view.ended[rows], 1 + use, cores)
    held, until = still_running(view)
    held, until = held[view.worker[held] >= 0], until[view.worker[held] >= 0]
    cores = np.fmax(np.nan_to_num(view.number("granted_cores")[held], nan=1.0), 1.0)
    use = attempt_use(view)[held]
    add(view.worker[held], view.started[held], until, 1 + use, cores)
    for kind, into, wait in (("transfer", BUSY_TRANSFER, 0), ("disk", BUSY_DISK, 1)):
        found = view.intervals(kind)
        inside = _inside(view, found) & (found["worker"] >= 0)
        outside = ~inside & (found["worker"] >= 0)
        add(found["worker"][inside], found["start"][inside], found["end"][inside], 1 + into, 1.0)
        idle_for = 1 + N_BUSY + wait
        add(found["worker"][outside], found["start"][outside], found["end"][outside], idle_for, 1.0)
    pauses = paused_spans(view)
    add(*pauses, 1 + N_BUSY + 2, 1.0)
    worker, starts, ends, column, weight = (np.concatenate(x) for x in zip(*parts, strict=True))
    place = worker * stride - window[0]
    edges, levels = sweep(place + starts, place + ends, column, weight, 1 + N_BUSY + len(WAITING))
    return _shares(edges, levels, stride, window[0])


def _shares(edges: Floats, levels: Floats, stride: float, base: float) -> Occupancy:
    """Turn counts of overlapping things into a split of the cores that were held."""
    dt = np.diff(edges)
    level = levels[:-1]
    held = level[:, 0]
    keep = held > 1e-9
    dt, level, held, axis = dt[keep], level[keep], held[keep], edges[:-1][keep]
    busy = level[:, 1 : 1 + N_BUSY].copy()
    # A core inside its own transfer or disk wait is not computing: take it from the attempts.
    inner = busy[:, BUSY_TRANSFER] + busy[:, BUSY_DISK]
    outer = busy[:, :BUSY_TRANSFER].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        inner_scale = np.where(inner > 0, np.minimum(1.0, outer / inner), 0.0)
        busy[:, BUSY_TRANSFER:] *= inner_scale[:, None]
        inner = busy[:, BUSY_TRANSFER:].sum(axis=1)
        busy[:, :BUSY_TRANSFER] *= np.where(outer > 0, (outer - inner) / outer, 0.0)[:, None]
        total = busy.sum(axis=1)
        busy *= np.where(total > held, held / total, 1.0)[:, None]
    rest = np.maximum(held - busy.sum(axis=1), 0.0)
    waiting = np.zeros((len(dt), len(WAITING)))
    counts = level[:, 1 + N_BUSY :]
    # A paused worker starts nothing: all its idle cores are the pause's.
    waiting[:, 2] = np.where(counts[:, 2] > 0, rest, 0.0)
    rest = rest - waiting[:, 2]
    for column in (1, 0):
        waiting[:, column] = np.minimum(rest, np.round(counts[:, column], 9))
        rest = rest - waiting[:, column]
    worker = np.floor(axis / stride).astype(np.int64)
    return Occupancy(
        worker=worker,
        start=axis - worker * stride + base,
        dt=dt,
        cores=held,
        busy=busy,
        waiting=waiting,
        idle=np.maximum(rest, 0.0),
        stride=stride,
        base=base,
        axis=axis,
    )


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole run at every instant, all workers together; one row a segment of time.

    ``running`` attempts, ``waiting`` tasks that were ready and had not begun, ``known`` tasks
    submitted and not ended, ``moving`` transfers, ``slots`` cores offered.
    """

    start: Floats
    dt: Floats
    slots: Floats
    running: Floats
    waiting: Floats
    known: Floats
    moving: Floats

    @property
    def free(self) -> Floats:
        """Cores that ran nothing."""
        return np.maximum(self.slots - self.running, 0.0)

    def count(self, starts: Floats, ends: Floats) -> Floats:
        """Count, in each segment, how many of some stretches of the run cover it."""
        begun = np.searchsorted(np.sort(starts), self.start, "right")
        gone = np.searchsorted(np.sort(ends), self.start, "right")
        return np.asarray(begun - gone, dtype=np.float64)

    def integral(self, rate: Floats, starts: Floats, ends: Floats) -> Floats:
        """Integrate a per-segment rate over stretches of the run."""
        grid = np.concatenate([self.start, [self.start[-1] + self.dt[-1]]])
        total = np.concatenate([[0.0], np.cumsum(rate * self.dt)])
        return np.asarray(np.interp(ends, grid, total) - np.interp(starts, grid, total))


def ready_times(view: View, rows: Mask) -> tuple[Floats, Floats]:
    """Give when attempts could begin and when they did, the first never after the second."""
    started = view.started[rows]
    return np.fmin(
        np.where(np.isnan(view.ready[rows]), started, view.ready[rows]), started
    ), started


def timeline(view: View) -> Timeline | None:
    """Sweep the whole run; None where no worker's life and cores are recorded."""
    if "timeline" not in view.memo:
        view.memo["timeline"] = _timeline(view)
    made: Timeline | None = view.memo["timeline"]
    return made


def _timeline(view: View) -> Timeline | None:
    lives = view.held[np.nan_to_num(view.held["cores"]) > 0]
    rows = view.ran
    if not len(lives) or not rows.any():
        return None
    ready, started = ready_times(view, rows)
    ended = view.ended[rows]
    known = np.fmin(np.where(np.isnan(view.submitted[rows]), ready, view.submitted[rows]), ready)
    open_, until = still_running(view)
    begun = view.started[open_]
    moves = view.intervals("transfer")
    spans = [
        (lives["started"], lives["ended"], lives["cores"]),
        (np.r_[started, begun], np.r_[ended, until], np.ones(len(started) + len(begun))),
        (ready, started, np.ones(len(started))),
        (np.r_[known, begun], np.r_[ended, until], np.ones(len(started) + len(begun))),
        (moves["start"], moves["end"], np.ones(len(moves["start"]))),
    ]
    columns = [np.full(len(span[0]), code) for code, span in enumerate(spans)]
    edges, levels = sweep(
        np.concatenate([span[0] for span in spans]),
        np.concatenate([span[1] for span in spans]),
        np.concatenate(columns),
        np.concatenate([span[2] for span in spans]),
        len(spans),
    )
    level = levels[:-1]
    return Timeline(edges[:-1], np.diff(edges), *(level[:, code] for code in range(len(spans))))
