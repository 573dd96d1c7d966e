"""Ready tasks that stand behind a long one of another kind: no free core could take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings.uneven_workers import slow_workers
from rotameter.profiler.view import is_dask

if TYPE_CHECKING:
    from rotameter.profiler.occupancy import Timeline
    from rotameter.profiler.view import Floats, Mask, View

__all__ = ["really_waiting", "stood"]

STOOD_S, STOOD_TIMES = 0.2, 3.0
"""What is ready this long, and several times as long as it takes, stands behind another."""

MOST_KINDS = 200
"""A bound for the time it takes only: of further groups whatever was ready counts as waiting."""


def really_waiting(seen: View, line: Timeline) -> Floats:
    """Count what is ready, less a few short tasks that stood behind a long one; (n_segments,).

    The engine had given them to that one's worker before; they would not have filled the others.
    """
    rows = stood(seen)
    few = line.waiting <= 2.0 * float(seen.slots or 1.0) + 0.5
    standing = line.count(seen.ready[rows], seen.started[rows])
    return np.where(few, np.maximum(line.waiting - standing, 0.0), line.waiting)


def stood(seen: View) -> Mask:
    """Say which attempts stood ready for long behind one long task of another kind.

    Only Dask gives tasks to a worker before it can take them. What waits in a queue, for a slow
    worker or behind its own kind is work that a free core could do: then there is no lack of it.
    """
    if "stood" in seen.memo:
        kept: Mask = seen.memo["stood"]
        return kept
    wait = seen.started - seen.ready
    with np.errstate(invalid="ignore"):
        made: Mask = seen.ran & (wait > STOOD_S) & (wait > STOOD_TIMES * seen.wall)
    made &= is_dask(seen.meta) & ~slow_workers(seen).is_[seen.worker]
    if made.any():
        made &= _behind_another(seen, made)
    seen.memo["stood"] = made
    return made


def _behind_another(seen: View, rows: Mask) -> Mask:
    """Say which of some attempts began when one task of another group ended, or hardly before.

    That one ran for half of the time that they waited, or more.
    """
    ran = np.flatnonzero(seen.ran)
    ran = ran[np.argsort(seen.started[ran], kind="stable")]
    begun, ends, group = seen.started[ran], seen.ended[ran], seen.group[ran]
    found = np.zeros(seen.n, dtype=bool)
    for own in np.unique(seen.group[rows])[:MOST_KINDS].tolist():
        mine = np.flatnonzero(rows & (seen.group == own))
        wait = seen.started[mine] - seen.ready[mine]
        last = np.maximum.accumulate(np.where(group != own, ends, -np.inf))
        at = np.searchsorted(begun, seen.ready[mine] + 0.5 * wait, "right") - 1
        until = np.where(at >= 0, last[np.maximum(at, 0)], -np.inf)
        found[mine] = until >= seen.started[mine] - 0.1 * wait
    return found
