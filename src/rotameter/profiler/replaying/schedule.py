"""What a replay gives: who ran when and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Schedule", "last_end", "made"]


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """What a replay gave.

    Attributes
    ----------
    ready_s, start_s, begin_s, end_s : ndarray of float64, shape (n,)
        Last input there; slot taken; task itself begins (after overhead and spill); end. NaN for
        nodes in a cycle, which never ran.
    worker : ndarray of int64, shape (n,)
        Where each ran, -1 for gates.
    makespan_s : float
        From second 0 to the last end of a node that holds a slot.
    busy_s : ndarray of float64, shape (n_workers,)
        Slot-seconds used.
    stuck : int
        Nodes that never ran, as their dependencies go in a circle.
    """

    ready_s: Floats
    start_s: Floats
    begin_s: Floats
    end_s: Floats
    worker: Codes
    makespan_s: float
    busy_s: Floats
    stuck: int = 0


def last_end(model: Model, end: Floats) -> float:
    """Give the last end of a node that holds a slot, or of any where none does."""
    ran = ~np.isnan(end)
    holds = ran & ~model.gate
    counted = end[holds] if holds.any() else end[ran]
    return float(counted.max()) if len(counted) else 0.0


def made(
    model: Model, times: tuple[list[float], ...], at: list[int], cores: list[float]
) -> Schedule:
    """Make a schedule of what the event loop noted by node: ready, start, begin, end; where."""
    ready, start, begin, end = (np.array(column, float) for column in times)
    worker = np.array(at, dtype=np.int64)
    ran = ~np.isnan(end)
    held = np.where(ran & ~model.gate, (end - start) * np.asarray(cores, float), 0.0)
    place = np.where(worker >= 0, worker, len(model.workers))
    busy = np.bincount(place, held, minlength=len(model.workers) + 1)[:-1]
    return Schedule(
        ready_s=ready,
        start_s=start,
        begin_s=begin,
        end_s=end,
        worker=worker,
        makespan_s=last_end(model, end),
        busy_s=np.asarray(busy, dtype=np.float64),
        stuck=int((~ran).sum()),
    )
