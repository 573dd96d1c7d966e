"""Simulations by brute force, written apart from the co-simulator, to check it against.

`brute_queue` moves single workers from event to event. `brute_batch` goes second by second and
asks of every second whether there is room.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["brute_batch", "brute_queue"]

_INF = math.inf


@dataclass(slots=True)
class _Worker:
    asked: float
    ready: float
    free: float = -_INF
    busy: bool = False
    leaving: bool = False
    left: float = _INF


def brute_queue(
    arrive: Sequence[float],
    service: Sequence[float],
    workers: int,
    changes: Sequence[tuple[float, int]],
    startup: float,
) -> tuple[list[float], float]:
    """Give when each task starts, and the worker-seconds held."""
    there = [_Worker(0.0, 0.0) for _ in range(workers)]
    starts = [_INF] * len(arrive)
    queue: deque[int] = deque()
    coming, wanted = deque(enumerate(arrive)), deque(changes)
    while True:
        now = _next(there, coming, wanted)
        if now == _INF:
            break
        for worker in there:
            if worker.busy and worker.free == now:
                worker.busy = False
                if worker.leaving:
                    worker.left = now
        while wanted and wanted[0][0] == now:
            _change(there, now, wanted.popleft()[1], startup)
        while coming and coming[0][1] == now:
            queue.append(coming.popleft()[0])
        for worker in there:
            idle = not worker.busy and worker.left == _INF and worker.ready <= now
            if idle and queue:
                task = queue.popleft()
                starts[task] = now
                worker.busy, worker.free = True, now + service[task]
        for worker in there:
            worker.ready = -_INF if worker.ready <= now else worker.ready
    ends = [s + t for s, t in zip(starts, service, strict=True) if s < _INF]
    ready = [w.asked + startup for w in there[workers:] if w.left == _INF]
    over = max([0.0, *ends, *(at for at, _ in changes), *ready])
    return starts, sum((over if w.left == _INF else w.left) - w.asked for w in there)


def _next(there: list[_Worker], coming: deque, wanted: deque) -> float:
    moments = [coming[0][1]] if coming else []
    moments += [wanted[0][0]] if wanted else []
    moments += [w.free for w in there if w.busy]
    moments += [w.ready for w in there if w.left == _INF and w.ready > -_INF]
    return min(moments, default=_INF)


def _change(there: list[_Worker], now: float, wanted: int, startup: float) -> None:
    counted = [w for w in there if w.left == _INF and not w.leaving]
    there += [_Worker(now, now + startup) for _ in range(wanted - len(counted))]
    for _ in range(len(counted) - wanted):
        starting = [w for w in counted if w.ready > now]
        idle = [w for w in counted if not w.busy and w.ready <= now]
        if starting:
            gone = max(starting, key=lambda w: w.asked)
            gone.left = now
        elif idle:
            gone = idle[0]
            gone.left = now
        else:
            gone = min(counted, key=lambda w: w.free)
            gone.leaving = True
        counted.remove(gone)


@dataclass(slots=True)
class _Job:
    number: int
    arrive: int
    held: int
    limit: int
    size: int
    start: int | None = None
    booked: int | None = None


def brute_batch(
    rows: Sequence[tuple[int, int, int, int]], capacity: int, rule: str
) -> list[int | None]:
    """Give when each job starts: rows of (arrive, held, limit, size), in order of arrival.

    ``rule`` is fcfs, easy or conservative. Limits are small: every second is looked at.
    """
    jobs = [_Job(number, *row) for number, row in enumerate(rows)]
    last = sum(job.limit + 1 for job in jobs) + max((job.arrive for job in jobs), default=0) + 1
    for now in range(last):
        before = [j for j in jobs if j.start is not None and j.start < now]
        early = any(j.start + j.held == now < j.start + j.limit for j in before)
        while True:
            waiting = [j for j in jobs if j.start is None and j.arrive <= now]
            _RULES[rule](jobs, list(waiting), now, capacity, early)
            started = [j for j in waiting if j.start == now]
            if not any(j.held == 0 for j in started):
                break
            early = any(j.held == 0 for j in started)
    return [job.start for job in jobs]


def _room(jobs: list[_Job], now: int, capacity: int) -> Callable[[int], int]:
    """Give what is free at a second from now on, by the limits of those that run."""

    def free(second: int) -> int:
        taken = 0
        for job in jobs:
            if job.start is not None and _runs(job, now) and second < job.start + job.limit:
                taken += job.size
            elif job.start is None and job.booked is not None:
                taken += job.size * (job.booked <= second < job.booked + job.limit)
        return capacity - taken

    return free


def _runs(job: _Job, now: int) -> bool:
    """Say whether it still runs: one of no length that starts now is seen once before it ends."""
    assert job.start is not None
    return job.start + job.held > now or (job.start == now and job.booked == -1)


def _fits(free: Callable[[int], int], job: _Job, start: int) -> bool:
    return all(free(second) >= job.size for second in range(start, start + job.limit))


def _earliest(free: Callable[[int], int], job: _Job, now: int) -> int:
    start = now
    while not _fits(free, job, start):
        start += 1
    return start


def _begin(job: _Job, now: int) -> None:
    job.start, job.booked = now, -1


def _settle(jobs: list[_Job], now: int) -> None:
    """Let jobs of no length that started in an earlier round of this second end."""
    for job in jobs:
        if job.start == now and job.held == 0:
            job.booked = None


def _fcfs(jobs: list[_Job], waiting: list[_Job], now: int, capacity: int, _: bool) -> None:
    _settle(jobs, now)
    for job in waiting:
        if _room(jobs, now, capacity)(now) < job.size:
            break
        _begin(job, now)


def _easy(jobs: list[_Job], waiting: list[_Job], now: int, capacity: int, _: bool) -> None:
    _settle(jobs, now)
    while waiting and _room(jobs, now, capacity)(now) >= waiting[0].size:
        _begin(waiting.pop(0), now)
    if not waiting:
        return
    head = waiting[0]
    head.booked = _earliest(_room(jobs, now, capacity), head, now)
    for job in waiting[1:]:
        if _fits(_room(jobs, now, capacity), job, now):
            _begin(job, now)
    head.booked = None


def _conservative(jobs: list[_Job], waiting: list[_Job], now: int, capacity: int, early: bool):
    _settle(jobs, now)
    if early:
        for job in [j for j in waiting if j.booked is not None]:
            job.booked = None
            job.booked = _earliest(_room(jobs, now, capacity), job, now)
    for job in [j for j in waiting if j.booked is None]:
        job.booked = _earliest(_room(jobs, now, capacity), job, now)
    for job in waiting:
        if job.booked == now:
            _begin(job, now)


_RULES = {"fcfs": _fcfs, "easy": _easy, "conservative": _conservative}
