"""A queue of tasks and its workers: many sampled futures at once, each exact.

Tasks are served in order of arrival by any worker (G/G/c, first come, first served), so only the
moments at which workers become free matter: the recursion of Kiefer and Wolfowitz, "On the theory
of queues with many servers" (1955). A task starts at the later of its arrival and the first of
those moments; the worker is free again when it is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.workers import Lives, WorkerPlan

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["QueueRun", "run_queue"]

_INF = float("inf")
_MOST_WORKERS = 64
_FUTURES_A_WORKER = 8
"""With fewer futures for each worker it is faster to take one future after another."""


@dataclass(frozen=True, slots=True, eq=False)
class QueueRun:
    """What became of the tasks of each future.

    Attributes
    ----------
    arrive_s, service_s : ndarray of float64, shape (futures, tasks)
    starts_s : ndarray of float64, shape (futures, tasks)
        Infinite for tasks that never start, and for those that never come.
    held_s : ndarray of float64, shape (futures,)
        Worker-seconds from when each worker was asked for until it left, or all was over.
    until_s : ndarray of float64, shape (futures,)
        When all was over: the last task done, and the last change of the workers.
    """

    arrive_s: Floats
    service_s: Floats
    starts_s: Floats
    held_s: Floats
    until_s: Floats

    @property
    def ends_s(self) -> Floats:
        """When each task is done."""
        return self.starts_s + self.service_s

    @property
    def waits_s(self) -> Floats:
        """How long each task waits; NaN for one that never comes, infinite if never served."""
        come = np.isfinite(self.arrive_s)
        return np.where(come, self.starts_s, np.nan) - np.where(come, self.arrive_s, 0.0)

    @property
    def busy_s(self) -> Floats:
        """Worker-seconds at work, of each future."""
        served: Floats = np.where(np.isfinite(self.starts_s), self.service_s, 0.0).sum(axis=1)
        return served


def run_queue(
    arrive_s: ArrayLike,
    service_s: ArrayLike,
    plan: WorkerPlan,
    *,
    until_s: float | None = None,
) -> QueueRun:
    """Serve the tasks of one or many futures.

    Parameters
    ----------
    arrive_s : array_like of float, shape (tasks,) or (futures, tasks)
        Non-decreasing along tasks. A future with fewer tasks ends in infinities.
    service_s : array_like of float
        How long each task takes; one row may serve all futures.
    plan : WorkerPlan
        How many workers there are; the same in all futures.
    until_s : float, optional
        Workers are held until then, where it is later than the last that happens.

    Raises
    ------
    PolicyError
        If arrivals are not in order, or a service time is negative or not a number.

    Examples
    --------
    >>> run = run_queue([0.0, 1.0, 2.0], [5.0, 5.0, 1.0], WorkerPlan(1, [(1.0, 2)], startup_s=1.0))
    >>> run.starts_s.tolist(), run.held_s.tolist()
    ([[0.0, 2.0, 5.0]], [13.0])
    """
    arrive = np.atleast_2d(np.asarray(arrive_s, np.float64))
    service = np.atleast_2d(np.asarray(service_s, np.float64))
    shape = np.broadcast_shapes(arrive.shape, service.shape)
    arrive, service = np.broadcast_to(arrive, shape), np.broadcast_to(service, shape)
    _refuse_odd(arrive, service)
    lives = plan.lives()
    most = lives.ready + sum(comes for _, comes in lives.events)
    together = 0 < most <= _MOST_WORKERS and shape[0] >= _FUTURES_A_WORKER * most
    serve = _together if together else _one_by_one
    starts, left = serve(arrive, service, lives, most)
    last = np.where(np.isfinite(starts), starts + service, -_INF).max(axis=1, initial=-_INF)
    over = np.maximum(last, max(lives.last_s, -_INF if until_s is None else until_s))
    gone = sum(not comes for _, comes in lives.events)
    held = left + (most - gone) * over - lives.asked_s + lives.cancelled_s
    return QueueRun(arrive, service, starts, held, over)


def _refuse_odd(arrive: Floats, service: Floats) -> None:
    later = arrive[:, 1:] >= arrive[:, :-1]
    if not later.all() or np.isnan(arrive).any():
        raise PolicyError("tasks are not in order of arrival", hint="sort each future's tasks")
    served = service[np.isfinite(arrive)]
    if not ((served >= 0) & np.isfinite(served)).all():
        raise PolicyError("a service time is no time", hint="finite numbers from 0 on")


def _one_by_one(arrive: Floats, service: Floats, lives: Lives, most: int) -> tuple[Floats, Floats]:
    """Serve one future after another; give the starts, and when workers left, summed."""
    starts = np.empty(arrive.shape)
    left = np.empty(len(arrive))
    for row in range(len(arrive)):
        come = int(np.isfinite(arrive[row]).sum())
        tasks = (arrive[row, :come].tolist(), service[row, :come].tolist())
        if lives.events:
            made, gone = _changing(*tasks, lives)
        else:
            made, gone = _plain(*tasks, lives.ready, lives.from_s)
        starts[row, :come] = made
        starts[row, come:] = _INF
        left[row] = gone
    return starts, left


def _plain(
    arrive: list[float], service: list[float], workers: int, from_s: float
) -> tuple[list[float], float]:
    if not workers:
        return [_INF] * len(arrive), 0.0
    free = [from_s] * workers
    starts: list[float] = []
    append = starts.append
    for arrival, takes in zip(arrive, service, strict=True):
        first = free[0]
        start = arrival if arrival > first else first
        append(start)
        heapreplace(free, start + takes)
    return starts, 0.0


def _changing(arrive: list[float], service: list[float], lives: Lives) -> tuple[list[float], float]:
    free = [lives.from_s] * lives.ready
    starts: list[float] = []
    events = lives.events
    left, at = 0.0, 0
    change = events[0][0]
    for arrival, takes in zip(arrive, service, strict=True):
        start = max(arrival, free[0]) if free else _INF
        while change <= start and at < len(events):
            left += _apply(free, *events[at])
            at += 1
            change = events[at][0] if at < len(events) else _INF
            start = max(arrival, free[0]) if free else _INF
        starts.append(start)
        if free:
            heapreplace(free, start + takes)
    for event in events[at:]:
        left += _apply(free, *event)
    return starts, left


def _apply(free: list[float], moment: float, comes: bool) -> float:
    """Let a worker come or leave; give when it left."""
    if comes:
        heappush(free, moment)
        return 0.0
    return max(moment, heappop(free))


def _together(arrive: Floats, service: Floats, lives: Lives, most: int) -> tuple[Floats, Floats]:
    """Serve all futures task by task; ``free`` holds each one's workers, the first free first."""
    futures, tasks = arrive.shape
    arrivals, services = np.ascontiguousarray(arrive.T), np.ascontiguousarray(service.T)
    padded = not np.isfinite(arrivals).all()
    if padded:
        services = np.where(np.isfinite(arrivals), services, 0.0)
    free = np.full((most, futures), _INF)
    free[: lives.ready] = lives.from_s
    starts = np.empty((tasks, futures))
    state = _Changes(lives, futures)
    back, spare = np.empty(futures), np.empty(futures)
    for task in range(tasks):
        start = starts[task]
        np.maximum(arrivals[task], free[0], out=start)
        if state.pending:
            state.apply(free, start, arrivals[task])
        np.add(start, services[task], out=back)
        if padded:  # a task that never comes leaves the worker as it is
            np.copyto(back, free[0], where=np.isinf(arrivals[task]))
        for k in range(most - 1):
            row = free[k + 1]
            np.minimum(back, row, out=free[k])
            np.maximum(back, row, out=spare)
            back, spare = spare, back
        free[most - 1] = back
    state.finish(free)
    return np.ascontiguousarray(starts.T), state.left


class _Changes:
    """Applies the changes of the workers to each future when its tasks have come so far."""

    def __init__(self, lives: Lives, futures: int) -> None:
        self.times = np.array([*(moment for moment, _ in lives.events), _INF])
        self.comes = [comes for _, comes in lives.events]
        self.at = np.zeros(futures, np.int64)
        self.next = np.full(futures, self.times[0])
        self.left = np.zeros(futures)
        self.pending = bool(self.comes)

    def apply(self, free: Floats, start: Floats, arrivals: Floats) -> None:
        """Let happen what comes before the starts; correct the starts."""
        due = (self.next <= start) & np.isfinite(arrivals)
        while due.any():
            rows = np.flatnonzero(due & (self.next < _INF))
            if not len(rows):
                break
            self._change(free, rows)
            start[rows] = np.maximum(arrivals[rows], free[0, rows])
            due = (self.next <= start) & np.isfinite(arrivals)
        self.pending = bool((self.next < _INF).any())

    def finish(self, free: Floats) -> None:
        """Let happen what is left."""
        while len(rows := np.flatnonzero(self.next < _INF)):
            self._change(free, rows)

    def _change(self, free: Floats, rows: Ints) -> None:
        comes: Any = np.take(self.comes, self.at[rows])
        moments = self.next[rows]
        come, go = rows[comes], rows[~comes]
        if len(come):
            some = free[:, come]
            some[-1] = moments[comes]
            free[:, come] = np.sort(some, axis=0)
        if len(go):
            some = free[:, go]
            self.left[go] += np.maximum(moments[~comes], some[0])
            some[:-1] = some[1:]
            some[-1] = _INF
            free[:, go] = some
        self.at[rows] += 1
        self.next[rows] = self.times[self.at[rows]]
