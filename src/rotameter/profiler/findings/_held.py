"""What running tasks hold of the workers, by what they asked for: cores and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._resources import asked_cores

if TYPE_CHECKING:
    from rotameter.profiler.occupancy import Timeline
    from rotameter.profiler.view import Floats, Mask, View

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
    """Give how many of each group's tasks fit on the workers at once; shape (n_groups + 1,)."""
    slots = float(seen.slots or 1.0)
    asked = np.stack([asked_cores(seen), seen.number("requested_memory_bytes")])
    fits = np.full(len(seen.groups) + 1, slots)
    for group in np.unique(seen.group[seen.ran & (asked > 0).any(axis=0)]).tolist():
        mine = seen.ran & (seen.group == group)
        each = [float(np.median(a[mine & (a > 0)])) if (a[mine] > 0).any() else 0.0 for a in asked]
        room = 0.0
        for has in seen.held:
            by = [
                np.floor(float(has[name]) / ask)
                for name, ask in zip(("cores", "memory"), each, strict=True)
                if ask > 0 and has[name] > 0
            ]
            room += min([*by, float(np.nan_to_num(has["cores"]))])
        fits[group] = max(1.0, min(slots, room))
    return fits
