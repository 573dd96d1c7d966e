"""Arguments that come with round after round of tasks, and are gone when the round is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings._cores import controller
from rotameter.profiler.findings._leavings import left
from rotameter.profiler.findings._likes import sizes

if TYPE_CHECKING:
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["Rounds", "in_rounds"]

TOGETHER_S = 0.05
"""What is submitted within this goes together."""

SURE_BYTES = 5e6
"""Memory that came and went by less is not told from what a process does by itself."""

PIECE_BYTES = 1e6
"""An argument as large as this is sent by itself."""

FEWEST = 2

MOST_ROUNDS = 32
"""So many rounds, those with the most data, show whether the client held it."""

READING_S = 1.0
"""Memory is read every half second: a change shows within this."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """What came inside the tasks of one group, submitted several times.

    Attributes
    ----------
    size_bytes, grown_bytes : float
        What came to all workers; growth of the client's or scheduler's memory for them.
    count : int
        Rounds.
    away : tuple of (float, float)
        From the last end before each round's submission to its first start: seconds of the view.
    """

    size_bytes: float
    grown_bytes: float
    count: int
    away: tuple[tuple[float, float], ...]

    @property
    def away_s(self) -> float:
        """Time in which nothing of the rounds ran."""
        return sum(end - begin for begin, end in self.away)


def in_rounds(seen: View) -> dict[int, Rounds]:
    """Find groups submitted in rounds whose tasks brought their data, by group.

    At the start of a task its worker holds more than both at some time before and at some time
    after, and no input, result, file or working memory of the tasks there explains it: it came
    with the tasks and went with them. Code that is loaded, results that are kept and leaks stay.
    """
    rows, extra = _beyond(seen)
    if not rows.size:
        return {}
    made = {}
    for group in np.unique(seen.group[rows]).tolist():
        found = _of_group(seen, group, rows[seen.group[rows] == group], extra)
        if found is not None:
            made[int(group)] = found
    return made


def _of_group(seen: View, group: int, rows: Codes, extra: Floats) -> Rounds | None:
    at = seen.submitted[rows]
    order = np.argsort(at, kind="stable")
    rows, at = rows[order], at[order]
    number = np.cumsum(np.diff(at, prepend=at[0]) > TOGETHER_S)
    count = int(number[-1]) + 1
    if count < FEWEST:
        return None
    # All arguments of a round are there when the first of its tasks starts.
    cell, at_cell = np.unique(
        number * (len(seen.workers) + 1) + seen.worker[rows], return_inverse=True
    )
    size = np.zeros(len(cell))
    np.fmax.at(size, at_cell, extra[rows])
    size[size < SURE_BYTES] = 0.0
    brought = np.bincount(cell // (len(seen.workers) + 1), size, minlength=count)
    if (brought > 0).sum() < max(FEWEST, 0.5 * count):
        return None
    begin = at[np.flatnonzero(np.diff(number, prepend=-1))]
    one = float(np.max(size / _tasks_of(seen, group, cell, begin)))
    first = np.full(count, np.inf)
    np.minimum.at(first, number, seen.started[rows])
    largest = np.argsort(-brought, kind="stable")[:MOST_ROUNDS]
    grown = _controller_grew(seen, begin[largest], first[largest])
    # Large pieces may be packed one by one, small ones go all at once.
    if grown < 0.5 * (one if one >= PIECE_BYTES else float(brought.max())):
        return None
    ends = np.sort(seen.ended[seen.ran])
    place = np.searchsorted(ends, begin)
    before = np.where(place > 0, ends[np.maximum(place - 1, 0)], begin)
    before = np.maximum(before, np.r_[-np.inf, np.maximum.accumulate(first)[:-1]])
    away = tuple((float(b), float(f)) for b, f in zip(before, first, strict=True) if f > b)
    return Rounds(float(size.sum()), grown, count, away)


def _tasks_of(seen: View, group: int, cell: Codes, begin: Floats) -> Codes:
    """Count all tasks of a group by round and worker, also those not measured in full.

    Parameters
    ----------
    cell : ndarray of int64
        Round times workers plus worker.
    begin : ndarray of float64, shape (n_rounds,)
        When each round was submitted.
    """
    width = len(seen.workers) + 1
    every = np.flatnonzero(seen.ran & (seen.group == group) & (seen.worker >= 0))
    every = every[seen.submitted[every] >= begin[0] - 1e-9]
    of = np.searchsorted(begin, seen.submitted[every] + 1e-9, "right") - 1
    count = np.bincount(of * width + seen.worker[every], minlength=int(cell.max()) + 1)
    return np.asarray(np.maximum(count[cell], 1))


def _controller_grew(seen: View, begin: Floats, first: Floats) -> float:
    """Give the most by which client or scheduler grew (or shrank) over a round, results off."""
    at, rss = controller(seen, "process_rss_bytes")
    most = 0.0
    for sent, started in zip(begin.tolist(), first.tolist(), strict=True):
        ended = seen.ended[seen.ran & (seen.ended <= sent)]
        # Packing before the first submission takes about as long as sending and unpacking.
        since = float(ended.max()) if ended.size else sent - (started - sent)
        begin_s, end_s = since - READING_S, started + READING_S
        around = rss[(at >= begin_s) & (at <= end_s)]
        came = seen.ran & (seen.ended > begin_s) & (seen.ended <= end_s)
        if around.size:
            gathered = float(np.nansum(seen.number("output_bytes")[came]))
            most = max(most, float(np.ptp(around)) - gathered)
    return most


def _beyond(seen: View) -> tuple[Codes, Floats]:
    """Give starts, and what was in memory at each that came and went and nothing explains."""
    memory, extra = seen.number("start_memory_bytes"), np.zeros(seen.n)
    known = seen.ran & (seen.worker >= 0) & (seen.group >= 0) & ~np.isnan(memory)
    rows = np.flatnonzero(known & ~np.isnan(seen.submitted))
    peak = seen.number("peak_memory_bytes")
    code, at, value = seen.samples("process_rss_bytes")
    inputs = np.nan_to_num(
        np.fmax(seen.number("received_bytes"), sizes(seen)["input_bytes"]),
    )
    kept: list[Codes] = []
    for worker in np.unique(seen.worker[rows]).tolist():
        mine = rows[seen.worker[rows] == worker]
        mine = mine[np.argsort(seen.started[mine], kind="stable")]
        here = (code == worker) & ~np.isnan(value) & ~np.isnan(at)
        if here.sum() < 2 or np.isnan(peak[mine]).any():
            continue
        order = np.argsort(at[here], kind="stable")
        readings = (at[here][order], value[here][order])
        extra[mine] = _on_worker(seen, worker, mine, readings, inputs[mine])
        kept.append(mine)
    return (np.sort(np.concatenate(kept)) if kept else rows[:0]), extra


def _on_worker(
    seen: View,
    worker: int,
    rows: Codes,
    readings: tuple[Floats, Floats],
    inputs: Floats,
) -> Floats:
    """Give the same for the starts of one worker, from what all tasks there leave and get."""
    (at, value), started = readings, seen.started[rows]
    low = np.minimum.accumulate(value)
    lowest_at = at[np.searchsorted(-low, -low, side="left")]
    later = np.minimum.accumulate(value[::-1])[::-1]
    place = np.searchsorted(at, started)
    both = (place > 0) & (place < len(at))
    last = np.clip(place - 1, 0, len(at) - 1)
    rest = np.maximum(low[last], later[np.clip(place, 0, len(at) - 1)])
    every = np.flatnonzero(seen.ran & (seen.worker == worker))
    every = every[np.argsort(seen.started[every], kind="stable")]
    done = np.r_[0.0, np.cumsum(left(seen)[every])]
    begun = np.searchsorted(seen.started[every], started, "left")
    # What ended before the lowest reading left nothing that is there beyond it.
    ended = np.maximum.accumulate(seen.ended[every])
    explained = done[begun] - done[np.minimum(np.searchsorted(ended, lowest_at[last]), begun)]
    threads = seen.lives["cores"][seen.lives["worker"] == worker]
    at_once = max(1.0, float(np.nanmax(threads))) if (~np.isnan(threads)).any() else 1.0
    working = np.maximum.accumulate(seen.number("peak_memory_bytes")[rows]) * at_once
    working = np.r_[0.0, working[:-1]]
    beyond = seen.number("start_memory_bytes")[rows] - rest - 1.2 * (explained + inputs + working)
    return np.where(both, np.maximum(beyond, 0.0), 0.0)
