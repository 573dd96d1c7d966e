"""Small calls on files: which they are, and what they cost beyond moving their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.profiler.findings._moves import (
    LARGE_CALL_BYTES,
    Moves,
    busy_or_span,
    crowding,
    large_rate,
    moves,
)
from rotameter.profiler.groups import quantiles, rows_of
from rotameter.profiler.live.costs import CALL_S, OPEN_S
from rotameter.profiler.view import floats, lookup

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = [
    "Loss",
    "counted_here",
    "jumps",
    "processes",
    "scattered_loss",
    "small_calls",
    "small_loss",
    "tiny_files",
]

SMALL_CALL_BYTES = 16_384
"""Below this a call's own cost is more than moving its bytes, on any store: 16 KiB take 16 µs at
1 GB/s, and a request to a file server some hundred."""

RECORD_BYTES = 1024
SLOW_RATE = 100e6
"""Calls larger than this may well be bound by a slow disk (bytes a second) that reads ahead: where
the run has no large calls to compare with, that is taken for granted."""

MANY_CALLS = 100
"""Fewer calls on one file are a header, not a way of reading."""

TINY_FILE_BYTES = 65_536
FEW_CALLS = 4
MANY_FILES = 100
"""Fewer files in one task are inputs, not a folder of samples."""

_AROUND_CALL_S = 3e-6
"""What Python spends around one call on a file at most (the call, counting it), unloaded.

Counting is the tracer's, and goes with it: it is taken off again where we counted.
"""

_USUAL_GAP = 5.0
_SLICE_S = 0.02
"""A gap between two files that is many times as long as usual, and longer than a busy machine (or
a slow request) holds a process up, was not spent on opening one."""

_PROCESSES = ("nprocs",)
_SURELY_MANY = 1.5

_AGAIN_RATIO = 1.5
_SPARSE_RATIO = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """Seconds lost, by row of the moves.

    Where an attempt is many processes side by side, their mean: the attempt is not shorter by more.

    Attributes
    ----------
    rows : ndarray of bool, shape (n,)
        What it is about.
    seconds, least : ndarray of float64, shape (n,)
        Likely, and at least: 0 elsewhere.
    rate : float
        Bytes a second of large calls that it is compared with.
    rate_how : str
    sides : ndarray of float64, shape (n,)
        Processes side by side in the row's attempt, 1 where it is one.
    guessed : ndarray of bool, shape (n,)
        Their number is not on record: at least that many.
    """

    rows: Mask
    seconds: Floats
    least: Floats
    rate: float
    rate_how: str
    sides: Floats
    guessed: Mask


def processes(seen: View) -> tuple[Floats, Mask]:
    """Give how many processes each attempt's seconds in calls are summed over.

    Returns
    -------
    count : ndarray of float64, shape (n + 1,)
        What a log of a parallel job says; else as often as the seconds are the attempt's time; at
        least 1.
    guessed : ndarray of bool, shape (n + 1,)
    """
    if "processes" in seen.memo:
        kept: tuple[Floats, Mask] = seen.memo["processes"]
        return kept
    made = moves(seen)
    count = np.full(seen.n + 1, np.nan)
    column = seen.tasks["features"]
    if column.null_count < seen.n:
        for row, pairs in enumerate(column.to_pylist()):
            for name, value in pairs or ():
                if name in _PROCESSES and value is not None and value >= 1:
                    count[row] = float(value)
    good = (made.row >= 0) & (made.busy_s > 0)
    busy = np.bincount(made.row[good], made.busy_s[good], minlength=seen.n + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        times = busy / np.append(seen.wall, np.nan)
    # Clocks and threads make a little more than the time of one; that is not many processes.
    guessed = np.isnan(count) & np.isfinite(times) & (times > _SURELY_MANY)
    count = np.where(guessed, times, np.where(np.isnan(count), 1.0, count))
    seen.memo["processes"] = (count, guessed)
    return count, guessed


def small_calls(made: Moves) -> Mask:
    """Say which rows moved a file in many small calls."""
    with np.errstate(invalid="ignore"):
        small = (made.call_bytes < SMALL_CALL_BYTES) & (made.ops >= MANY_CALLS)
    return np.asarray(small & ~made.remote & ~made.program)


def jumps(made: Moves) -> Mask:
    """Say which rows did not go through their file once from end to end.

    Bytes moved again, or only parts of the object touched; where neither footprint nor size is
    known, nothing tells.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        again = made.bytes > _AGAIN_RATIO * made.footprint
        sparse = np.fmin(made.footprint, made.bytes) < _SPARSE_RATIO * made.size
    return np.asarray(again | sparse)


def small_loss(seen: View, *, jumping: bool) -> Loss:
    """Give what small calls cost beyond the same bytes in large ones."""
    made = moves(seen)
    rows = small_calls(made) & (jumps(made) == jumping)
    seconds, least = np.zeros(made.n), np.zeros(made.n)
    count, guessed = processes(seen)
    sides = (count[made.row], guessed[made.row])
    if not rows.any():
        return Loss(rows, seconds, least, 0.0, "", *sides)
    rate, how, known = large_rate(made, rows)
    each = float(np.nansum(made.bytes[rows])) / float(np.nansum(made.ops[rows]))
    if not known and each > RECORD_BYTES:
        rate = SLOW_RATE
    busy = busy_or_span(made)
    counting = CALL_S if counted_here(seen) else 0.0
    outside = np.fmax(made.span_s - busy - made.ops * counting, 0.0)
    around = np.fmin(outside, made.ops * (_AROUND_CALL_S - counting) * crowding(seen))
    bulk = made.bytes / rate
    core = np.maximum(np.nan_to_num(busy) - bulk, 0.0)
    least[rows] = (core / sides[0])[rows]
    seconds[rows] = ((core + np.nan_to_num(around)) / sides[0])[rows]
    return Loss(rows, seconds, least, rate, how, *sides)


def tiny_files(seen: View) -> Mask:
    """Say which rows touched one of many tiny files of one task."""
    made = moves(seen)
    with np.errstate(invalid="ignore"):
        tiny = (made.bytes < TINY_FILE_BYTES) & ~(made.ops > FEW_CALLS)
    tiny &= ~made.remote & ~made.program & (made.row >= 0)
    count = np.bincount(made.row[tiny], minlength=seen.n + 1)
    return np.asarray(tiny & (count[made.row] >= MANY_FILES))


def scattered_loss(seen: View) -> tuple[Loss, Floats]:
    """Give what many tiny files cost beyond one file of their size.

    Returns
    -------
    loss : Loss
    opening : ndarray of float64, shape (n_attempts,)
        Seconds on record for opening and asking about files, 0 where there are none.
    """
    made = moves(seen)
    rows = tiny_files(seen)
    seconds, least = np.zeros(made.n), np.zeros(made.n)
    count, guessed = processes(seen)
    sides = (count[made.row], guessed[made.row])
    opening = _opening(seen) / count[:-1]
    if not rows.any():
        return Loss(rows, seconds, least, 0.0, "", *sides), opening * 0.0
    touched = np.zeros(seen.n + 1, dtype=bool)
    touched[made.row[rows]] = True
    opening = np.where(touched[:-1], opening, 0.0)
    rate, how, _ = large_rate(made, rows)
    busy = np.maximum(np.nan_to_num(busy_or_span(made)) - made.bytes / rate, 0.0) / sides[0]
    least[rows] = busy[rows]
    between = _between(seen, made, rows) - (OPEN_S if counted_here(seen) else 0.0)
    seconds[rows] = busy[rows] + np.maximum(between, 0.0)[rows]
    return Loss(rows, seconds, least, rate, how, *sides), opening


def counted_here(seen: View) -> bool:
    """Say whether this tracer counted the calls, which took time of the tasks."""
    return seen.meta.get("origin") == "recorded"


def _between(seen: View, made: Moves, rows: Mask) -> Floats:
    """Give for each tiny file the time since the one before it was done, as far as it is usual."""
    out = np.zeros(made.n)
    timed = np.flatnonzero(rows & ~np.isnan(made.first_s) & ~np.isnan(made.last_s))
    order = timed[np.lexsort((made.first_s[timed], made.row[timed]))]
    if len(order) < 2:
        return out
    same = made.row[order][1:] == made.row[order][:-1]
    gap = np.maximum(made.first_s[order][1:] - made.last_s[order][:-1], 0.0)
    later, gap = order[1:][same], gap[same]
    usual = quantiles(made.row[later], gap, seen.n, (0.5,))[0]
    out[later] = np.fmin(gap, np.fmax(_USUAL_GAP * usual[made.row[later]], _SLICE_S))
    return out


def _opening(seen: View) -> Floats:
    """Sum the seconds that tools put down to opening files and asking about them, by attempt."""
    made = np.zeros(seen.n)
    if not seen.n:
        return made
    flows = seen.table("flows")
    names = pa.array(["open", "close", "stat", "metadata"], pa.string())
    mine = flows.filter(pc.is_in(flows["op"], value_set=names))
    row, busy = rows_of(seen, mine), floats(mine["busy_s"])
    good = (row >= 0) & (busy > 0)
    made += np.bincount(row[good], busy[good], minlength=seen.n)
    samples = seen.table("samples")
    mine = samples.filter(pc.equal(samples["metric"], "metadata_s"))
    task, value = lookup(mine["subject"], seen.task_ids), floats(mine["value"])
    by_task = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    by_task[seen.task] = np.arange(seen.n)
    by_task[-1] = -1
    at: Codes = by_task[task]
    good = (at >= 0) & (value > 0)
    return np.asarray(made + np.bincount(at[good], value[good], minlength=seen.n))


# Large calls are those that `large_rate` compares with: the two must not meet.
assert SMALL_CALL_BYTES < LARGE_CALL_BYTES
