"""What an answer of an allocator must be."""

from __future__ import annotations

import math
from typing import Any

from rotameter.allocator.needs import RESOURCES
from rotameter.values import Allocation, Hold

__all__ = ["trouble"]


def trouble(made: Any, most_bytes: float, above: float = 0.0, *, hold: bool = True) -> str:
    """Say what is wrong with an answer; empty where nothing is.

    Parameters
    ----------
    made : object
    most_bytes : float
        What the largest worker has.
    above : float
        What was too little before, 0 for a first attempt.
    hold : bool
        Whether it may be a hold.

    Examples
    --------
    >>> trouble(Allocation(memory_bytes=10), 64e9), trouble(None, 64e9)
    ('', 'gives NoneType, no Allocation')
    """
    if isinstance(made, Hold) and hold and not above:
        return ""
    if not isinstance(made, Allocation):
        return f"gives {type(made).__name__}, no Allocation"
    for name in RESOURCES:
        value = getattr(made, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"{name} is {value!r}, no number"
        if not math.isfinite(value) or value < 0:
            return f"{name} is {value!r}"
    if made.memory_bytes is None or made.memory_bytes <= 0:
        return f"memory_bytes is {made.memory_bytes!r}"
    if made.memory_bytes > math.ceil(most_bytes):
        return f"memory_bytes {made.memory_bytes:,} is beyond the largest worker"
    if made.memory_bytes <= above < most_bytes:
        return f"memory_bytes {made.memory_bytes:,} after {above:,.0f} was too little"
    return ""
