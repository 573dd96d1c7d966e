"""EASY backfilling compiled by numba, where that is installed; the same result, many times faster.

The function runs as plain Python too (slowly), which is how its equality is tested without numba.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["available", "easy_arrays", "easy_compiled"]

_HELPERS = ("_up", "_down", "_insert", "_remove", "_reserve")


def available() -> bool:
    """Say whether numba is installed."""
    return find_spec("numba") is not None


@cache
def easy_compiled() -> Any:
    """Compile `easy_arrays`; the machine code is kept beside this file where that can be."""
    import numba

    jit = numba.njit(cache=True)
    for name in _HELPERS:
        globals()[name] = jit(globals()[name])
    return jit(easy_arrays)


def _up(heap: Ints, jobs: Ints, count: int, time: int, job: int) -> None:
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= time:
            break
        heap[at], jobs[at] = heap[parent], jobs[parent]
        at = parent
    heap[at], jobs[at] = time, job


def _down(heap: Ints, jobs: Ints, count: int) -> None:
    """Take the first out of a heap of so many."""
    last = count - 1
    time, job = heap[last], jobs[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= time:
            break
        heap[at], jobs[at] = heap[child], jobs[child]
        at = child
    heap[at], jobs[at] = time, job


def _insert(times: Ints, jobs: Ints, count: int, time: int, job: int) -> None:
    at = count
    while at > 0 and times[at - 1] > time:
        times[at], jobs[at] = times[at - 1], jobs[at - 1]
        at -= 1
    times[at], jobs[at] = time, job


def _remove(times: Ints, jobs: Ints, count: int, time: int, job: int) -> None:
    at, above = 0, count
    while at < above:
        middle = (at + above) >> 1
        if times[middle] < time:
            at = middle + 1
        else:
            above = middle
    while jobs[at] != job:
        at += 1
    while at < count - 1:
        times[at], jobs[at] = times[at + 1], jobs[at + 1]
        at += 1


def _reserve(times: Ints, jobs: Ints, count: int, size: Ints, lacking: int, found: Ints) -> None:
    """Put into ``found`` when what is lacking will be free, and what is left over then."""
    shadow, at = -1, 0
    while at < count and (lacking > 0 or times[at] == shadow):
        shadow = times[at]
        lacking -= size[jobs[at]]
        at += 1
    found[0], found[1] = shadow, -lacking


def easy_arrays(arrive_s: Ints, held_s: Ints, limit_s: Ints, size: Ints, capacity: int) -> Ints:
    """Give what `easy_starts` gives, from arrays and as an array."""
    n = len(arrive_s)
    starts = np.zeros(n, np.int64)
    end_at, end_job = np.empty(n, np.int64), np.empty(n, np.int64)
    release_at, release_job = np.empty(n, np.int64), np.empty(n, np.int64)
    queue = np.empty(n, np.int64)
    found = np.empty(2, np.int64)
    running, queued, free, i = 0, 0, capacity, 0
    known = False
    never = np.int64(1) << 62
    while i < n or queued > 0:
        arrival = arrive_s[i] if i < n else never
        now = end_at[0] if running > 0 else never
        alone = arrival < now
        if alone:
            now = arrival
        else:
            while running > 0 and end_at[0] == now:
                job = end_job[0]
                _down(end_at, end_job, running)
                latest = starts[job] + limit_s[job]
                _remove(release_at, release_job, running, latest, job)
                running -= 1
                free += size[job]
            known = False
        tried = queued if alone else 0  # jobs before this one are known not to start
        while i < n and arrive_s[i] == now:
            queue[queued] = i
            queued += 1
            i += 1
        kept, at, blocked = tried, tried, tried > 0
        while at < queued:
            job = queue[at]
            at += 1
            starting = size[job] <= free
            if starting and blocked:
                if not known:
                    head = queue[0]
                    _reserve(release_at, release_job, running, size, size[head] - free, found)
                    known = True
                if now + limit_s[job] > found[0]:
                    if size[job] > found[1]:
                        starting = False
                    else:
                        found[1] -= size[job]
            if starting:
                starts[job] = now
                free -= size[job]
                _up(end_at, end_job, running, now + held_s[job], job)
                _insert(release_at, release_job, running, now + limit_s[job], job)
                running += 1
            else:
                queue[kept] = job
                kept += 1
                blocked = True
        queued = kept
    return starts
