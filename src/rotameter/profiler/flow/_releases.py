"""Which attempt's end let each attempt begin: its input, its slot, or the attempt before it.

All arrays are over the attempts that ran (rows), in the order of ``Ran.row``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.open_ends import still_running
from rotameter.profiler.view import lookup

if TYPE_CHECKING:
    from rotameter.profiler.flow.graph import FlowGraph
    from rotameter.profiler.view import Codes, Floats, View

__all__ = ["Bursts", "Ran", "bursts", "by_input", "by_retry", "by_slot", "nested", "ran"]

ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """The attempts with a place in time; all of shape (n,), seconds on the view's clock.

    ``task`` is an index into the flow graph's tasks; ``submitted`` and ``ready`` never exceed
    ``start``; ``cores`` are those the attempt held (1 where unknown).
    """

    row: Codes
    task: Codes
    worker: Codes
    start: Floats
    end: Floats
    submitted: Floats
    ready: Floats
    cores: Floats

    def __len__(self) -> int:
        return len(self.row)

    @staticmethod
    def joined(one: Ran, two: Ran) -> Ran:
        """Give both, one after the other."""
        names = ("row", "task", "worker", "start", "end", "submitted", "ready", "cores")
        return Ran(*(np.concatenate([getattr(one, n), getattr(two, n)]) for n in names))


def ran(seen: View, first: float, last: float, *, inner: bool = False) -> Ran:
    """Give the attempts that ran (or those nested in others), times inside [first, last].

    A missing start or end follows from the other and the seconds that the attempt took; what still
    ran where the trace ends, ran until then.
    """
    start, end, wall = seen.started.copy(), seen.ended.copy(), seen.wall
    rows, until = still_running(seen)
    end[rows] = np.minimum(until, last)
    start = np.where(np.isnan(start), np.maximum(end - wall, first), start)
    end = np.where(np.isnan(end), start + wall, end)
    with np.errstate(invalid="ignore"):
        good = (end >= start) & (end <= last + ROUNDING_S) & (start >= first - ROUNDING_S)
    good &= ~seen.outcome_in("cached") & (seen.nested == inner)
    row = np.flatnonzero(good)
    start, end = np.clip(start[row], first, last), np.clip(end[row], first, last)
    return Ran(
        row,
        seen.task[row],
        seen.worker[row],
        start,
        end,
        np.minimum(seen.submitted[row], start),
        np.minimum(seen.ready[row], start),
        np.fmax(np.nan_to_num(seen.number("granted_cores")[row], nan=1.0), 1.0),
    )


Children = dict[int, tuple[list[int], list[float]]]


def nested(seen: View, runs: Ran, first: float, last: float) -> tuple[Ran, Children]:
    """Give the attempts nested in others, and for each task what is nested in it.

    Returns
    -------
    inner : Ran
    children : dict of int to (list of int, list of float)
        Task → places in ``runs`` followed by ``inner``, and their ends, ascending.
    """
    inner = ran(seen, first, last, inner=True)
    children: Children = {}
    if not len(inner):
        return inner, children
    parents = lookup(seen.tasks["parent"], seen.task_ids)[inner.row]
    order = np.lexsort((-np.arange(len(inner)), -inner.start, inner.end, parents))
    owners, at = np.unique(parents[order], return_index=True)
    for owner, part in zip(owners.tolist(), np.split(order, at[1:]), strict=True):
        children[owner] = ((part + len(runs)).tolist(), inner.end[part].tolist())
    return inner, children


def _last_of(owner: Codes, end: Floats, candidate: Codes, n: int) -> Codes:
    """Give each owner's candidate that ended last (of equals the lowest), -1 = none."""
    made = np.full(n, -1, dtype=np.int64)
    order = np.lexsort((-candidate, end))
    made[owner[order]] = candidate[order]  # The last assignment stays.
    return made


def by_input(runs: Ran, graph: FlowGraph) -> Codes:
    """Give each attempt's input that was done last, among those done before it began."""
    n = len(runs)
    order = np.argsort(runs.task, kind="stable")
    count = np.bincount(runs.task[runs.task >= 0], minlength=len(graph.tasks))
    skip = int((runs.task < 0).sum())
    first = skip + np.cumsum(count) - count
    src, dst, _ = graph.links()
    makers, takers = count[src], count[dst]
    pairs = makers * takers
    link = np.repeat(np.arange(len(src)), pairs)
    place = np.arange(len(link)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    maker = order[first[src[link]] + place % np.maximum(makers[link], 1)]
    taker = order[first[dst[link]] + place // np.maximum(makers[link], 1)]
    good = runs.end[maker] <= runs.start[taker] + ROUNDING_S
    maker, taker = maker[good], taker[good]
    return _last_of(taker, runs.end[maker], maker, n)


def by_retry(seen: View, runs: Ran) -> Codes:
    """Give the lost attempt of the same task that ended last before each attempt began.

    One that ended well is no retry's cause: its result was dropped, and asked for again later.
    """
    made = np.full(len(runs), -1, dtype=np.int64)
    if len(runs) < 2:
        return made
    order = np.lexsort((runs.end, runs.start, runs.task))
    before, after = order[:-1], order[1:]
    good = (runs.task[before] == runs.task[after]) & (runs.task[after] >= 0)
    good &= runs.end[before] <= runs.start[after] + ROUNDING_S
    good &= ~seen.ok[runs.row[before]]
    made[after[good]] = before[good]
    return made


def by_slot(runs: Ran) -> Codes:
    """Give the attempt whose end made room on the worker that each attempt then began on.

    A worker's slots are the most cores that its attempts held at once. The one that ended last
    before the start counts, if without its end there had been no room, and if the attempt was
    waiting by then; where nothing says since when it waited, it counts in any case.
    """
    n = len(runs)
    made = np.full(n, -1, dtype=np.int64)
    if n < 2:
        return made
    # All workers on one axis of whole numbers, so that comparisons stay exact.
    times, rank = np.unique(np.concatenate([runs.start, runs.end]), return_inverse=True)
    width = len(times) + 1
    begin, finish = (runs.worker * width + part for part in np.split(rank, 2))
    by_begin, by_end = np.argsort(begin, kind="stable"), np.argsort(finish, kind="stable")
    begun = np.concatenate([[0.0], np.cumsum(runs.cores[by_begin])])
    ended = np.concatenate([[0.0], np.cumsum(runs.cores[by_end])])
    begins, ends = begin[by_begin], finish[by_end]
    held = begun[np.searchsorted(begins, begin, "right")]
    held = held - ended[np.searchsorted(ends, begin, "right")]
    peak = np.zeros(int(runs.worker.max(initial=-1)) + 2)
    np.maximum.at(peak, runs.worker, held)
    # One that took no time cannot have waited for another at that very instant.
    at = np.where(
        runs.end > runs.start,
        np.searchsorted(ends, begin, "right"),
        np.searchsorted(ends, begin, "left"),
    )
    order = np.lexsort((-np.arange(n), -runs.start, finish))
    before = order[np.maximum(at - 1, 0)]
    full = begun[np.searchsorted(begins, finish[before], "left")]
    full = full - ended[np.searchsorted(ends, finish[before], "left")]
    good = (at > 0) & (runs.worker >= 0) & (runs.worker[before] == runs.worker)
    unsaid = np.isnan(runs.ready)
    good &= (full + runs.cores > peak[runs.worker] + 1e-9) | unsaid
    good &= ~(runs.end[before] < runs.ready)
    made[good] = before[good]
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Stretches in which something was submitted and not done, and all ends in order.

    Parameters
    ----------
    start, rate : ndarray of float64, shape (n_bursts,)
        ``rate``: attempts that ended a second.
    ends : ndarray of float64, shape (n,)
        Ends of attempts, ascending; ``by_end`` are the attempts.
    """

    start: Floats
    rate: Floats
    ends: Floats
    by_end: Codes


def bursts(runs: Ran) -> Bursts:
    """Find the stretches in which the run had work."""
    begin = np.fmin(runs.submitted, runs.start)
    order = np.lexsort((runs.end, begin))
    begin, end = begin[order], runs.end[order]
    reach = np.maximum.accumulate(end)
    fresh = np.concatenate([np.ones(min(1, len(end)), bool), begin[1:] >= reach[:-1]])
    at = np.flatnonzero(fresh)
    many = np.diff(np.append(at, len(end)))
    last = reach[np.append(at[1:], len(end)) - 1] if len(at) else reach[:0]
    span = last - begin[at]
    rate = np.where(span > 0, many / np.where(span > 0, span, 1.0), np.inf)
    by_end = np.lexsort((-np.arange(len(runs)), runs.end))
    return Bursts(begin[at], rate, runs.end[by_end], by_end)
