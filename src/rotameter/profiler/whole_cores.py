"""How many cores to ask for, from how many were busy on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.profiler.view import Floats

__all__ = ["HEADROOM", "SHORTEST_S", "whole_cores"]

HEADROOM = 0.1
"""CPU time counts in ticks, and what a task uses varies: so much of it is added."""

SHORTEST_S = 1.0
"""CPU time of shorter tasks is too coarse in logs to say what they need."""

_HELPERS = 0.2
"""So much of a core needs no further one: collectors of garbage, threads that wait for I/O."""


def whole_cores(busy: Floats, headroom: float = HEADROOM) -> Floats:
    """Give the whole cores that hold a mean of busy ones; NaN stays.

    Examples
    --------
    >>> whole_cores(np.array([0.3, 1.05, 1.3, 12.0])).tolist()
    [1.0, 1.0, 2.0, 13.0]
    """
    wanted = busy * (1 + headroom) - _HELPERS
    # The last digits of a float are no further core.
    made: Floats = np.maximum(1.0, np.ceil(wanted - 4 * np.spacing(wanted)))
    return made
