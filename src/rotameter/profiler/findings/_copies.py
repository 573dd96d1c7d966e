"""Tasks that only copy files from one store to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._moves import moves, total_by

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["Copies", "copies"]

_SAME_RATIO = 0.01
_OF_WALL = 0.5
"""A task that is in calls for less of its time than this does more than copy."""

LEAST_BYTES = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Attempts that copy.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        Rows of ``tasks``.
    seconds : ndarray of float64, shape (n,)
        What each copy took.
    source, target : ndarray of int64, shape (n,)
        Stores (codes of the moves' tiers).
    read_rate : ndarray of float64, shape (n,)
        Bytes a second of the source.
    """

    rows: Codes
    seconds: Floats
    source: Codes
    target: Codes
    read_rate: Floats


def copies(seen: View) -> Copies:
    """Find attempts that read from one store what they write to another, and nothing else."""
    if "copies" not in seen.memo:
        seen.memo["copies"] = _copies(seen)
    made: Copies = seen.memo["copies"]
    return made


def _copies(seen: View) -> Copies:
    made, n = moves(seen), seen.n
    known = (made.row >= 0) & ~made.program
    sides = []
    for write in (False, True):
        rows = known & (made.write == write)
        size = total_by(made.row[rows], made.bytes[rows], n)
        busy = total_by(made.row[rows], made.busy_s[rows], n)
        first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, -1, dtype=np.int64)
        np.minimum.at(first, made.row[rows], made.tier[rows])
        np.maximum.at(last, made.row[rows], made.tier[rows])
        sides.append((size, busy, np.where(first == last, first, -1)))
    (size_in, busy_in, source), (size_out, busy_out, target) = sides
    busy = busy_in + busy_out
    wall = seen.wall
    with np.errstate(invalid="ignore", divide="ignore"):
        same = np.abs(size_in - size_out) <= _SAME_RATIO * size_in
        mostly = np.isnan(wall) | (busy >= _OF_WALL * wall)
        is_copy = same & mostly & (size_in >= LEAST_BYTES)
        is_copy &= (source >= 0) & (target >= 0) & (source != target)
        # Where only one side has seconds, they are of the whole copy.
        rate = size_in / np.where(busy_in > 0, busy_in, busy)
    rows = np.flatnonzero(is_copy)
    seconds = np.where(np.isnan(wall), busy, wall)[rows]
    return Copies(rows, seconds, source[rows], target[rows], rate[rows])
