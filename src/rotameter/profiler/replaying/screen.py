"""Which changes cannot matter, without a replay: those off the path that made the length.

Going back from a schedule's last end, each node began when its last input came, or when another
node left the slot that it took. With places and order kept, a schedule cannot get shorter by more
than what a change takes from the nodes of that chain (critical chain of a resource-constrained
schedule; Wiest, "Some properties of schedules for large projects with limited resources", 1964).
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.replaying.schedule import Schedule
    from rotameter.profiler.view import Codes

__all__ = ["chain", "taken_s"]

_TOUCH_S = 1e-6


def chain(model: Model, schedule: Schedule) -> Codes:
    """Give the nodes of the chain that made the makespan, last first.

    Parameters
    ----------
    model : Model
    schedule : Schedule
        Of that model.

    Returns
    -------
    ndarray of int64

    Examples
    --------
    >>> from rotameter.profiler.replay import make_model, simulate
    >>> model = make_model([2.0, 1.0, 1.0], [(2, 0)])
    >>> chain(model, simulate(model)).tolist()
    [2, 1, 0]
    """
    end, start, ready = schedule.end_s, schedule.start_s, schedule.ready_s
    if not np.isfinite(end).any():
        return np.zeros(0, dtype=np.int64)
    by_dep = np.argsort(model.dep_task, kind="stable")
    on, first = (
        model.dep_on[by_dep],
        np.searchsorted(model.dep_task[by_dep], np.arange(model.n + 1)),
    )
    order = np.lexsort((end, schedule.worker))
    place = np.searchsorted(schedule.worker[order], np.arange(schedule.worker.max() + 2))
    at = int(np.nanargmax(np.where(schedule.worker >= 0, end, -np.inf)))
    found, seen = [], set()
    while at >= 0 and at not in seen:
        seen.add(at)
        found.append(at)
        worker = int(schedule.worker[at])
        before = -1
        if worker >= 0 and start[at] > ready[at] + _TOUCH_S:
            mates = order[place[worker] : place[worker + 1]]
            k = int(np.searchsorted(end[mates], start[at] + _TOUCH_S, side="right")) - 1
            before = int(mates[k]) if k >= 0 else -1
        if before < 0:
            inputs = on[first[at] : first[at + 1]]
            before = int(inputs[np.nanargmax(end[inputs])]) if len(inputs) else -1
        at = before
    return np.asarray(found, dtype=np.int64)


def taken_s(model: Model, other: Model, path: Codes) -> float | None:
    """Give the seconds that a change takes from the nodes of a chain.

    Returns
    -------
    float or None
        None where the change is more than shorter durations, so that a chain bounds nothing.
    """
    for field in fields(model):
        if field.name != "parts_s" and getattr(other, field.name) is not getattr(model, field.name):
            return None
    less = model.parts_s[path].sum(axis=1) - other.parts_s[path].sum(axis=1)
    return float(np.maximum(0.0, less).sum())
