"""What running tasks hold of the workers, by what they asked for: cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._resources import asked_cores
from rotameter.profiler.groups import quantiles

if TYPE_CHECKING:
    from rotameter.profiler.occupancy import Timeline
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["free_cores", "memory_held", "places"]

MEMORY_SHARE = 0.4
"""Tasks of more than half a worker's memory run one at a time and leave up to half of it free."""


def memory_held(seen: View, line: Timeline) -> Mask:
    """Say when what ran had asked for most of the memory: cores idled for that, not for tasks."""
    asked = seen.number("requested_memory_bytes")
    room = float(np.nansum(seen.held["memory"])) if len(seen.held) else 0.0
    rows = seen.ran & (asked > 0)
    if room <= 0 or not rows.any():
        return np.zeros(len(line.dt), dtype=bool)
    edges = np.concatenate([seen.started[rows], seen.ended[rows]])
    change = np.concatenate([asked[rows], -asked[rows]])
    order = np.argsort(edges, kind="stable")
    level = np.concatenate([[0.0], np.cumsum(change[order])])
    held = level[np.searchsorted(edges[order], line.start + 1e-9, "right")]
    return np.asarray(held >= MEMORY_SHARE * room)


def free_cores(seen: View, line: Timeline) -> Floats:
    """Give the cores that nothing held; a task that asked for several holds them all."""
    asked = asked_cores(seen)
    rows = seen.ran & (asked > 1)
    extra = np.zeros(len(line.dt))
    for cores in np.unique(asked[rows]).tolist():
        mine = rows & (asked == cores)
        extra += (cores - 1.0) * line.count(seen.started[mine], seen.ended[mine])
    return np.asarray(np.maximum(line.free - extra, 0.0))


def places(seen: View) -> Floats:
    """Give how many of each group's tasks fit on the workers at once; shape (n_groups + 1,).

    Most groups ask for the same, and most workers are alike: each pair is looked at once.
    """
    slots, n = float(seen.slots or 1.0), len(seen.groups) + 1
    key = np.where(seen.group < 0, n - 1, seen.group)
    asked = []
    for each in (asked_cores(seen), seen.number("requested_memory_bytes")):
        rows = seen.ran & (each > 0)
        asked.append(np.nan_to_num(quantiles(key[rows], each[rows], n, (0.5,))[0]))
    asks, ask = np.unique(np.stack(asked, axis=1), axis=0, return_inverse=True)
    has = np.nan_to_num(np.stack([seen.held["cores"], seen.held["memory"]], axis=1))
    has, alike = np.unique(has, axis=0, return_counts=True)
    room = np.array([_room(one, has, alike) if one.any() else slots for one in asks])
    made: Floats = np.clip(room, 1.0, max(1.0, slots))[ask.ravel()]
    return made


def _room(ask: Floats, has: Floats, alike: Codes) -> float:
    """Count the tasks that fit on workers by what they ask for of cores and of memory; 0: none."""
    by = [
        np.where(has[:, k] > 0, np.floor(has[:, k] / ask[k]), np.inf) for k in (0, 1) if ask[k] > 0
    ]
    return float(np.minimum.reduce([*by, has[:, 0]]) @ alike)
