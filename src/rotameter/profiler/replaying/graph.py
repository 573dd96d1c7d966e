"""Who waited for whom: recorded dependencies, attempt by attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rotameter.profiler.open_ends import complete
from rotameter.profiler.view import lookup, view

if TYPE_CHECKING:
    from rotameter.profiler.replaying.release import Gates
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes, Floats, Mask, View

    Edges = tuple[Codes, Codes]

__all__ = ["attempt_edges", "computed_again", "join", "recalled"]

SKEW_S = 0.05
"""Clocks of two machines may differ by this much."""
RESCUE_S = 1.0
"""An attempt that computes again what was lost begins this soon after the loss."""


def attempt_edges(
    trace: Trace, rows: Codes, begun: Floats, ended: Floats, notes: list[str]
) -> Edges:
    """Turn dependencies between tasks into such between attempts.

    An attempt waited for the last attempt of each input that had ended well when it began, and
    for the attempt of its own task before it. What contradicts the times is left out and said;
    what is left has no circle, as every edge points from an earlier start to a later one.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Attempts, in order of their start.
    begun, ended : ndarray of float64, shape (n,)

    Returns
    -------
    task, on : ndarray of int64
        Places in ``rows``.
    """
    seen = view(trace)
    own = seen.task[rows]
    task, on = _task_deps(trace, seen)
    known = (task >= 0) & (on >= 0) & (task != on)
    task, on = task[known], on[known]
    # Each attempt of the dependent task, once per dependency.
    order = np.argsort(own, kind="stable")
    first = np.searchsorted(own[order], np.arange(len(seen.task_ids) + 1))
    count = np.diff(first)
    times = count[task]
    each = np.repeat(np.arange(len(task)), times)
    step = np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)
    node = order[first[task[each]] + step]
    source = _providers(seen, rows, on[each], begun[node], ended)
    bad = (source >= 0) & ((ended[source] > begun[node] + SKEW_S) | (source >= node))
    if bad.any():
        notes.append(
            f"{int(bad.sum()):,} of {len(bad):,} dependencies contradict the recorded times and "
            "are left out of the replay"
        )
    good = (source >= 0) & ~bad
    chain = _retries(seen, rows, begun, ended)
    return (
        np.concatenate([node[good], chain[0]]),
        np.concatenate([source[good], chain[1]]),
    )


def _task_deps(trace: Trace, seen: View) -> Edges:
    """Give dependencies of tasks: those on record, else those that the files imply."""
    task, on = seen.deps
    if len(task) or not seen.table("flows").num_rows:
        return task, on
    from rotameter.profiler.flow.graph import flow_graph

    flow = flow_graph(trace)
    source, target, _ = flow.links()
    codes = lookup(pa.array(flow.tasks, pa.string()), seen.task_ids)
    return codes[target], codes[source]


def _providers(seen: View, rows: Codes, on: Codes, by: Floats, ended: Floats) -> Codes:
    """Give, per wanted task, its last attempt that had ended by then and is not lost; -1 = none."""
    good = np.flatnonzero(complete(seen)[rows])
    own = seen.task[rows][good]
    order = np.lexsort((ended[good], own))
    good, own = good[order], own[order]
    last = np.searchsorted(own, on, side="right") - 1
    has = (last >= 0) & (own[np.maximum(last, 0)] == on) if len(own) else np.zeros(len(on), bool)
    found = np.where(has, good[np.maximum(last, 0)] if len(good) else -1, -1)
    several = has & (np.searchsorted(own, on) < last)
    for index in np.flatnonzero(several).tolist():
        low = int(np.searchsorted(own, on[index]))
        mine = good[low : int(last[index]) + 1]
        early = mine[ended[mine] <= by[index] + SKEW_S]
        found[index] = early[-1] if early.size else mine[0]
    return np.asarray(found, dtype=np.int64)


def _retries(seen: View, rows: Codes, begun: Floats, ended: Floats) -> Edges:
    """Chain the attempts of a task; what is computed again waits for the loss before it too."""
    own = seen.task[rows]
    order = np.lexsort((np.arange(len(rows)), own))
    same = (own[order][1:] == own[order][:-1]) & (own[order][1:] >= 0)
    later, earlier = order[1:][same], order[:-1][same]
    apart = ended[earlier] <= begun[later] + SKEW_S
    later, earlier = later[apart], earlier[apart]
    again = later[seen.ok[rows][earlier]]
    loss = _loss_before(seen, rows, begun, ended, again)
    near = loss >= 0
    return (
        np.concatenate([later, again[near]]),
        np.concatenate([earlier, loss[near]]),
    )


def _loss_before(seen: View, rows: Codes, begun: Floats, ended: Floats, which: Codes) -> Codes:
    """Give the lost attempt that ended just before each of some attempts began; -1 = none."""
    lost = np.flatnonzero(seen.lost[rows])
    if not (lost.size and which.size):
        return np.full(len(which), -1, dtype=np.int64)
    lost = lost[np.argsort(ended[lost], kind="stable")]
    at = np.searchsorted(ended[lost], begun[which], side="right") - 1
    found = lost[np.maximum(at, 0)]
    near = (at >= 0) & (found < which) & (begun[which] - ended[found] <= RESCUE_S)
    return np.asarray(np.where(near, found, -1))


def recalled(seen: View, rows: Codes, begun: Floats, ended: Floats) -> Mask:
    """Say which attempts compute again what no loss had taken: the program asked for it anew."""
    again = np.flatnonzero(computed_again(seen, rows))
    mask = np.zeros(len(rows), dtype=bool)
    mask[again[_loss_before(seen, rows, begun, ended, again) < 0]] = True
    return mask


def computed_again(seen: View, rows: Codes) -> Mask:
    """Say which attempts compute what an earlier attempt had computed well."""
    own, good = seen.task[rows], seen.ok[rows]
    order = np.lexsort((np.arange(len(rows)), own))
    known = np.cumsum(good[order])
    start = np.r_[True, own[order][1:] != own[order][:-1]]
    base = np.maximum.accumulate(np.where(start, known - good[order], 0))
    again = np.zeros(len(rows), dtype=bool)
    again[order] = (known - good[order] > base) & (own[order] >= 0)
    return again


def join(edges: Edges, gates: Gates) -> Edges:
    """Put the edges of attempts and of gates together."""
    return (
        np.concatenate([edges[0], gates.dep_task]),
        np.concatenate([edges[1], gates.dep_on]),
    )
