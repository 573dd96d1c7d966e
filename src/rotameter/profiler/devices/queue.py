"""How much launched work waits in a stream: up at each launch, down when the work starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.profiler.devices.timeline import Ints, groups_of
from rotameter.profiler.devices.work import Work

__all__ = ["queue_lengths", "queue_steps"]

_SERIES = 60
FULL = 1024
"""A stream holds about this many launches; the host's next launch then waits."""


def queue_steps(launch: Ints, start: Ints) -> tuple[Ints, Ints]:
    """Give the times at which the queue's length changes, and the length from each on.

    Examples
    --------
    >>> at, length = queue_steps(np.array([0, 1]), np.array([5, 6]))
    >>> at.tolist(), length.tolist()
    ([0, 1, 5, 6], [1, 2, 1, 0])
    """
    # A clock that is a little off may show work before its launch: it waited no time then.
    times = np.concatenate((np.minimum(launch, start), start))
    step = np.repeat(np.array([1, -1]), len(launch))
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(step[order])


def queue_lengths(work: Work) -> list[dict[str, Any]]:
    """Describe the queue of each stream of one device; work without a launch is not in it.

    What one call launched (the kernels of a graph) waits as one.

    Returns
    -------
    list of dict
        ``stream``, ``points`` (changes), ``mean`` and ``max`` over these, ``time_mean`` (over
        time), ``full_s`` (seconds with 1,024 or more waiting), ``series`` (at most 60 times, s
        from the stream's first launch, with the longest queue since the one before).
    """
    made: list[dict[str, Any]] = []
    known = work.launch > -(1 << 61)
    for stream, mine in groups_of(work.stream):
        rows = mine[known[mine]]
        if not len(rows):
            made.append({"stream": stream, "points": 0, "mean": None, "max": None,
                         "time_mean": None, "full_s": None, "series": []})  # fmt: skip
            continue
        at, length = queue_steps(*_launches(work.launch[rows], work.start[rows]))
        lasting = np.diff(at).astype(float)
        whole = float(lasting.sum())
        made.append(
            {
                "stream": stream,
                "points": len(at),
                "mean": round(float(length.mean()), 4),
                "max": int(length.max()),
                "time_mean": round(float((length[:-1] * lasting).sum() / whole), 4)
                if whole
                else None,
                "full_s": round(float(lasting[length[:-1] >= FULL].sum()) / 1e9, 9),
                "series": _series(at, length),
            }
        )
    return made


def _launches(launch: Ints, start: Ints) -> tuple[Ints, Ints]:
    """Count what one call launched once: a graph of kernels waits until its first one starts."""
    order = np.lexsort((start, launch))
    launch, start = launch[order], start[order]
    first = np.diff(launch, prepend=launch[0] - 1) > 0
    return launch[first], start[first]


def _series(at: Ints, length: Ints) -> list[list[float]]:
    width = max(1, -(-(int(at[-1]) - int(at[0]) + 1) // _SERIES))
    box = (at - at[0]) // width
    first = np.flatnonzero(np.diff(box, prepend=-1))
    tops = np.maximum.reduceat(length, first)
    return [
        [round(float(number) * width / 1e9, 6), int(top)]
        for number, top in zip(box[first], tops, strict=True)
    ]
