"""Law 5, checked: what a schedule does that no cluster could do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.replaying.schedule import Schedule
    from rotameter.profiler.view import Codes, Floats

__all__ = ["violations"]

_EPS_S = 1e-9


def violations(model: Model, schedule: Schedule) -> list[str]:
    """List what a schedule does against its model; empty where it keeps law 5.

    Every node runs once, after its dependencies and its release, for at least its own time, on a
    worker that has joined; no worker holds more cores or memory than it has.

    Parameters
    ----------
    model : Model
        Without circles; nodes that ask for more than any worker has count with all it has.
    schedule : Schedule

    Returns
    -------
    list of str

    Examples
    --------
    >>> from rotameter.profiler.replaying.engine import simulate
    >>> from rotameter.profiler.replaying.model import make_model
    >>> model = make_model([1.0, 2.0], [(1, 0)])
    >>> violations(model, simulate(model))
    []
    """
    found = []
    start, end = schedule.start_s, schedule.end_s
    ran = ~np.isnan(end)
    if not ran.all() or len(end) != model.n or schedule.stuck:
        found.append(f"{int((~ran).sum())} nodes never ran")
    late = start[model.dep_task] < end[model.dep_on] - _EPS_S
    if late.any():
        found.append(f"{int(late.sum())} nodes began before an input was there")
    if (start < model.release_s - _EPS_S).any():
        found.append("nodes began before their release")
    if (schedule.begin_s < start - _EPS_S).any() or (end < schedule.begin_s - _EPS_S).any():
        found.append("nodes ended before they began")
    holds = ~model.gate & ran
    worker = schedule.worker
    if (worker[holds] < 0).any() or (worker[holds] >= len(model.workers)).any():
        return [*found, "nodes ran nowhere"]
    joined = np.array([w.from_s for w in model.workers])
    if (start[holds] < joined[worker[holds]] - _EPS_S).any():
        found.append("nodes ran on a worker that had not joined")
    fixed = holds & model.pinned & (model.home >= 0)
    if (worker[fixed] != model.home[fixed]).any() and model.policy.place == "recorded":
        found.append("pinned nodes ran elsewhere")
    have = np.array([(w.cores, w.memory_bytes) for w in model.workers])
    for name, need, room in (
        ("cores", model.cores, have[:, 0]),
        ("memory", model.memory_bytes, have[:, 1]),
    ):
        most = _most(worker[holds], need[holds], start[holds], end[holds], room)
        if (most > room * (1 + 1e-9) + 1e-6).any():
            found.append(f"workers held more {name} than they have")
    return found


def _most(worker: Codes, need: Floats, start: Floats, end: Floats, room: Floats) -> Floats:
    """Give the most that each worker held at once; ends come before starts of the same instant."""
    need = np.minimum(need, room[worker])
    long = end > start
    worker, need, start, end = worker[long], need[long], start[long], end[long]
    times = np.concatenate([start, end])
    change = np.concatenate([need, -need])
    where = np.concatenate([worker, worker])
    order = np.lexsort((change > 0, times, where))
    most = np.zeros(len(room))
    for code in np.unique(worker).tolist():
        mine = order[where[order] == code]
        most[code] = float(np.cumsum(change[mine]).max(initial=0.0))
    return most
