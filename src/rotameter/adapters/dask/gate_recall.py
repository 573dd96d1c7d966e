"""Which tasks of a group that is gated from now on can still be held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["recall"]


def recall(
    workers: Iterable[Any], queued: Iterable[Any], wanted: Callable[[Any], bool]
) -> tuple[dict[Any, str], list[tuple[str, Any]]]:
    """Give tasks that are queued, or assigned and surely not started, and those that run.

    Parameters
    ----------
    workers : iterable of WorkerState
    queued : iterable of TaskState
    wanted : callable
        Says whether a task is one to hold.

    Returns
    -------
    dict
        Key → state to move it to, from where it comes back to be held.
    list of (str, key)
        Worker and task of what may have begun: it runs on.
    """
    back: dict[Any, str] = {}
    begun = []
    for ws in workers:
        first = sorted(ws.processing, key=lambda t: t.priority)[: ws.nthreads]
        for ts in filter(wanted, ws.processing):
            if ts in first or ts in ws.executing:
                begun.append((ws.address, ts.key))
            else:
                back[ts.key] = "released"
    back |= {ts.key: "waiting" for ts in queued if wanted(ts)}
    return back, begun
