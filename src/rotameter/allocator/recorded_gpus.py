"""How much of the GPUs that they held the attempts of a trace used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.resources import GPUS
from rotameter.allocator.workload import Workload
from rotameter.profiler.gpu_use import gpu_use

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["gpus_from_trace"]


def gpus_from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the attempts of named groups that held GPUs, however they ended.

    The need is how many GPUs were kept busy on average, 0 where they were not used, NaN where
    nothing is on record; where only memory of theirs was used it is all of them, an upper bound.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where none held a GPU.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [{"task_id": "a", "group": "g", "wall_s": 60.0, "requested_gpus": 2.0, "gpu_s": used}
    ...         for used in (30.0, 0.0, None)]
    >>> work = gpus_from_trace(Trace.from_tables({"tasks": rows}))
    >>> work.need.tolist(), work.asked.tolist()
    ([0.5, 0.0, nan], [2.0, 2.0, 2.0])
    """
    from rotameter.profiler.view import view

    seen = view(trace)
    use = gpu_use(seen)
    held = (use.held > 0) & np.isfinite(use.held) & (seen.group >= 0) & ~seen.nested
    timed = np.isfinite(seen.wall) & ((seen.wall > 0) | seen.ran)
    rows = np.flatnonzero(held & timed & ~seen.outcome_in("cached"))
    wall, asked, used = seen.wall[rows], use.held[rows], use.used[rows]
    busy_s = seen.number("gpu_s")[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        busy = np.where(np.isfinite(busy_s) & (wall > 0), busy_s / wall, np.nan)
    opened = used & ~(busy > 0)
    need = np.where(used, np.where(opened, asked, busy), 0.0)
    return Workload(
        name=name,
        group=seen.group[rows],
        groups=tuple(seen.groups),
        need=np.where(use.told[rows], need, np.nan),
        wall_s=wall,
        size=np.full(len(rows), np.nan),
        asked=asked,
        at_most=opened,
        resource=GPUS,
        row=rows,
    )
