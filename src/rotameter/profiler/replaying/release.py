"""When the user's program handed over work: submissions as moments after what it waited for.

A program that calls ``compute`` twice submits the second graph some time after the first has
ended. That time is its own and stays; the instant does not: in a shorter run it comes earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.graph import recalled
from rotameter.profiler.view import is_dask, plain_python

if TYPE_CHECKING:
    from rotameter.profiler.replaying.graph import Edges
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["Gates", "gates"]

TOGETHER_S = 1e-6
"""Submissions closer than this are one."""
SERIAL_S = 0.005
"""A submission this soon after the one before it follows that one, whatever ended meanwhile."""
FOLLOWS_S = 0.05
"""A submission this soon after a result's end may have waited for it."""
SLACK_S = 0.001
LANE_S = 0.02
"""A start this soon after an end on the same worker waited for that core."""


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """Submissions as nodes ``n … n + m - 1`` behind ``n`` attempts.

    Attributes
    ----------
    at_s, gap_s, not_before_s : ndarray of float64, shape (m,)
        When on record; the program's own time after what it waited for; fixed instants (0: none).
    dep_task, dep_on : ndarray of int64
        Edges: attempts wait for gates, gates for attempts and for the gate before.
    syncs : int
        Gates that waited for results.
    """

    at_s: Floats
    gap_s: Floats
    not_before_s: Floats
    dep_task: Codes
    dep_on: Codes
    syncs: int


def gates(
    seen: View,
    rows: Codes,
    begun: Floats,
    ended: Floats,
    edges: Edges,
    origin: float,
    *,
    absolute: bool = False,
) -> Gates:
    """Find the submissions and what each waited for.

    Where nothing submitted before is left to do, the program waited for all of it. Where some is,
    it waited for a result only if that ended just before, and if submissions follow results more
    often than chance would have it. Else a submission follows the one before it.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Attempts in order of their start.
    begun, ended : ndarray of float64, shape (n,)
    edges : pair of ndarray of int64
        Attempt and attempt that it waited for.
    origin : float
        The view's second that is the model's 0.
    absolute : bool
        Submissions are arrivals of their own accord (a log of many people's jobs).

    Returns
    -------
    Gates
    """
    n = len(rows)
    when = _when(seen, rows, begun, edges, origin)
    batch, at = _batches(seen, rows, when, begun)
    anew = recalled(seen, rows, begun, ended)
    if anew.any() and len(at):
        asked = np.fmin(seen.ready[rows[anew]] - origin, begun[anew])
        asked = np.where(np.isnan(asked), begun[anew], asked)
        batch[anew] = np.maximum(np.searchsorted(at, asked + SLACK_S, side="right") - 1, 0)
    # What is asked for anew belongs to the submission that asked, not to its task's first one.
    inner = (batch[edges[0]] == batch[edges[1]]) & (batch[edges[0]] >= 0)
    released = np.zeros(n, dtype=bool)
    released[edges[0][inner]] = True
    waits = (batch >= 0) & ~released
    task, on = np.flatnonzero(waits), n + batch[waits]
    if absolute or not len(at):
        zero = np.zeros(len(at))
        return Gates(at, zero, np.maximum(at, 0.0), task, on, 0)
    seen_by_client = np.ones(n, dtype=bool)
    seen_by_client[edges[1][inner]] = False
    gap, gate_task, gate_on, syncs = _follow(at, batch, ended, seen_by_client, n)
    return Gates(
        at,
        gap,
        np.zeros(len(at)),
        np.concatenate([task, gate_task]),
        np.concatenate([on, gate_on]),
        syncs,
    )


def _when(seen: View, rows: Codes, begun: Floats, edges: Edges, origin: float) -> Floats:
    """Give when each attempt's task was handed over; NaN where its inputs alone released it."""
    when = seen.submitted[rows] - origin
    blank = np.isnan(when)
    if blank.any():
        has = np.zeros(len(rows), dtype=bool)
        has[edges[0]] = True
        fill = np.fmin(seen.ready[rows] - origin, begun)
        fill = np.where(np.isnan(fill), begun, fill)
        bare = blank & ~has
        when = np.where(bare, fill, when)
        bare &= np.isnan(seen.ready[rows])
        if bare.any() and not (is_dask(seen.meta) or plain_python(seen.meta)):
            when = _as_lanes(seen, rows, when, begun, (seen.ended[rows] - origin), bare)
    when = np.minimum(when, begun)
    if is_dask(seen.meta) or plain_python(seen.meta):
        return when
    # An engine that submits a task as its inputs end has no wait of its own.
    last = np.full(len(rows), -np.inf)
    np.maximum.at(last, edges[0], (seen.ended[rows] - origin)[edges[1]])
    follows = (when >= last - SLACK_S) & (when <= last + FOLLOWS_S)
    return np.where(follows, np.nan, when)


def _as_lanes(
    seen: View, rows: Codes, when: Floats, begun: Floats, ended: Floats, bare: Mask
) -> Floats:
    """Take starts that follow an end on the same worker for waits for that core.

    Nothing says when those were handed over: as they began when a core came free, it was as early
    as what ran on that core before. What begins where nothing else ran was handed over then, unless
    it is more of the same on one core alone: a program's next step begins like that.
    """
    order = np.argsort(ended, kind="stable")
    ends = ended[order]
    # How many began before each start and ended after it: the run went on meanwhile.
    going = np.searchsorted(begun, begun - SLACK_S, side="left") - np.searchsorted(
        ends, begun + SLACK_S, side="right"
    )
    beside = np.searchsorted(begun, begun + LANE_S, side="right") - np.searchsorted(
        begun, begun - LANE_S, side="left"
    )
    group, worker = seen.group[rows], seen.worker[rows]
    alone = (going < 1) & (beside == 1) & _not_first(group)
    follows = bare & (worker >= 0) & ((going >= 1) | alone)
    free: dict[int, list[int]] = {}
    at = 0
    made = when.copy()
    for node in np.flatnonzero(worker >= 0).tolist():
        while at < len(ends) and ends[at] <= begun[node] + SLACK_S:
            one = int(order[at])
            free.setdefault(int(worker[one]), []).append(one)
            at += 1
        lane = free.get(int(worker[node]))
        if not lane:
            continue
        before = lane.pop()
        if follows[node] and bare[before] and begun[node] - ended[before] <= LANE_S:
            made[node] = made[before]
    return made


def _not_first(group: Codes) -> Mask:
    """Say which attempts, in order of their start, are not the first of their group."""
    first = np.zeros(len(group), dtype=bool)
    first[np.unique(group, return_index=True)[1]] = True
    return np.asarray(~first & (group >= 0))


def _batches(seen: View, rows: Codes, when: Floats, begun: Floats) -> tuple[Codes, Floats]:
    """Give each attempt the number of its submission in order of time; -1 where there is none.

    It is the first of its task's, but for what ran before that.
    """
    own = seen.task[rows]
    first = np.full(len(seen.task_ids) + 1, np.nan)
    np.fmin.at(first, own, when)
    with np.errstate(invalid="ignore"):
        when = np.where((own >= 0) & (first[own] <= begun + SLACK_S), first[own], when)
    known = ~np.isnan(when)
    batch = np.full(len(rows), -1, dtype=np.int64)
    if not known.any():
        return batch, np.zeros(0)
    order = np.flatnonzero(known)[np.argsort(when[known], kind="stable")]
    new = np.r_[True, np.diff(when[order]) > TOGETHER_S]
    batch[order] = np.cumsum(new) - 1
    return batch, when[order][new]


def _follow(
    at: Floats, batch: Codes, ended: Floats, visible: Mask, n: int
) -> tuple[Floats, Codes, Codes, int]:
    """Say what each submission followed: all results so far, one result, or the one before."""
    m = len(at)
    last = np.full(m, -np.inf)
    known = batch >= 0
    np.maximum.at(last, batch[known], ended[known])
    before = np.r_[-np.inf, np.maximum.accumulate(last)[:-1]]
    results = np.flatnonzero(visible & known)
    results = results[np.argsort(ended[results], kind="stable")]
    ends = ended[results]
    recent = np.searchsorted(ends, at + SLACK_S, side="right") - 1
    single = _single(at, batch, results, ends, recent, before)
    by_batch = results[np.argsort(batch[results], kind="stable")]
    bounds = np.searchsorted(batch[by_batch], np.arange(m + 1))
    # Where all submitted before has ended, it waited for what no submission before had waited for.
    whole = before <= at + SLACK_S
    whole[0] = False
    reached = np.r_[0, np.maximum.accumulate(np.where(whole, bounds[:-1], 0))[:-1]]
    whole &= bounds[:-1] > reached
    single[0] = False
    single &= ~whole
    base = np.r_[0.0, at[:-1]]
    base[whole] = np.maximum(base[whole], before[whole])
    base[single] = np.maximum(base[single], ends[recent[single]])
    gap = np.maximum(0.0, at - base)
    # First the submission before, then the results.
    count = np.where(whole, bounds[:-1] - reached, 0) + single
    sizes = 1 + count[1:]
    heads = np.cumsum(sizes) - sizes
    on = np.empty(int(sizes.sum()), dtype=np.int64)
    is_head = np.zeros(len(on), dtype=bool)
    is_head[heads] = True
    on[heads] = n + np.arange(m - 1)
    if count.any():
        which = np.repeat(np.arange(m), count)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        alone = results[np.maximum(recent[which], 0)]
        on[~is_head] = np.where(
            single[which], alone, by_batch[(reached[which] + nth) % len(by_batch)]
        )
    task = np.repeat(n + np.arange(1, m), sizes)
    return gap, task, on, int(whole.sum() + single.sum())


def _single(
    at: Floats, batch: Codes, results: Codes, ends: Floats, recent: Codes, before: Floats
) -> Mask:
    """Say which submissions plainly followed one result while others were still to come."""
    m = len(at)
    if not len(ends):
        return np.zeros(m, dtype=bool)
    place = np.maximum(recent, 0)
    previous = np.r_[-np.inf, at[:-1]]
    open_ = (before > at + SLACK_S) & (at - previous > SERIAL_S)
    follows = open_ & (recent >= 0) & (ends[place] > previous) & (at - ends[place] <= FOLLOWS_S)
    follows &= batch[results[place]] < np.arange(m)
    tried = int(open_.sum())
    if not tried:
        return np.asarray(follows)
    span = max(float(ends[-1]), float(at[-1]), 1e-9)
    covered = float(np.minimum(np.diff(np.r_[ends, ends[-1] + FOLLOWS_S]), FOLLOWS_S).sum())
    chance = min(1.0, covered / span)
    margin = 2.0 * (chance * (1.0 - chance) / tried) ** 0.5
    plain = follows.sum() / tried > chance + margin
    return np.asarray(follows & plain)
