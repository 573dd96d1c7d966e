"""What a replay gives: who ran when and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Schedule"]


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
