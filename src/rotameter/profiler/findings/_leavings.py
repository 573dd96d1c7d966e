"""What attempts may have left in their worker's memory, measured in full or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings.base import group_median

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["left", "left_between"]

_KEPT = ("output_bytes", "read_bytes", "received_bytes")

ENGINE_BYTES = 10_000.0
"""What the engine and the tracer keep of a task: its key, its state, its records."""


def left(seen: View) -> Floats:
    """Give the bytes that each attempt may have left, but for what it freed; shape (n,).

    Of many short tasks only some are measured in full: the others are taken to be like those of
    their group.
    """
    if "left" in seen.memo:
        kept: Floats = seen.memo["left"]
        return kept
    total = np.full(seen.n, ENGINE_BYTES)
    for name in _KEPT:
        value = seen.number(name)
        known = ~np.isnan(value)
        usual = group_median(seen, value, known)[seen.group]
        total += np.nan_to_num(np.where(known, value, usual))
    seen.memo["left"] = total
    return total


def left_between(seen: View, rows: Codes, previous: Codes) -> Floats:
    """Give the bytes that were left on a worker from the start of one attempt to that of another.

    Parameters
    ----------
    rows, previous : ndarray of int64, shape (k,)
        The later attempt and the earlier one, each pair on one worker.
    """
    ran = np.flatnonzero(seen.ran & (seen.worker >= 0))
    ran = ran[np.lexsort((seen.started[ran], seen.worker[ran]))]
    before = np.zeros(seen.n)
    before[ran] = np.concatenate([[0.0], np.cumsum(left(seen)[ran])])[:-1]
    return np.asarray(before[rows] - before[previous])
