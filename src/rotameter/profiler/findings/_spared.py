"""Attempts that need not have been made: what came after begins as the first of them did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.replaying.reshape import dropped

if TYPE_CHECKING:
    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Mask, View

__all__ = ["Spared"]

_WAITS = np.array([PARTS.index(name) for name in ("stall", "latency", "wait")])


@dataclass(frozen=True, slots=True, eq=False)
class Spared:
    """Some attempts are not made, and what their tasks waited for in between is not waited for.

    A retry waits for the attempt before it, and then for a back-off or another turn in a queue. Had
    nothing been lost, the task would have waited once: as its first attempt did.

    Attributes
    ----------
    seen : View
    rows : ndarray of bool, shape (n attempts,)
    """

    seen: View
    rows: Mask

    def beside(self, other: Spared) -> Spared:
        """Give the change in which neither these attempts nor those are made."""
        return Spared(self.seen, self.rows | other.rows)

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = chosen(model, self.rows)
        known = np.flatnonzero((model.row >= 0) & ~model.gate)
        node_of = np.full(self.seen.n + 1, -1, dtype=np.int64)
        node_of[model.row[known]] = known
        heirs = known[~nodes[known]]
        first = node_of[_first_before(self.seen, self.rows)[model.row[heirs]]]
        heirs, first = heirs[first >= 0], first[first >= 0]
        parts = model.parts_s.copy()
        parts[np.ix_(heirs, _WAITS)] = model.parts_s[np.ix_(first, _WAITS)]
        return dropped(replace(model, parts_s=parts), nodes)


def _by_task(seen: View, some: Mask) -> Codes:
    """Give the attempts of the tasks of some attempts, task by task in order of their starts."""
    of = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    of[seen.task[some]] = True
    of[-1] = False
    rows = np.flatnonzero(of[seen.task])
    begun = np.nan_to_num(seen.started[rows], nan=np.inf)
    return rows[np.lexsort((begun, seen.task[rows]))]


def _first_before(seen: View, rows: Mask) -> Codes:
    """Give for each attempt the first of those lost of its task that went before it; -1 = none.

    Only what was lost and is among ``rows``, with nothing else between; shape (n,).
    """
    gone = rows & ~seen.ok
    order = _by_task(seen, gone)
    made = np.full(seen.n, -1, dtype=np.int64)
    head, task = -1, -1
    for row in order.tolist():
        if int(seen.task[row]) != task:
            head, task = -1, int(seen.task[row])
        if gone[row]:
            head = row if head < 0 else head
        else:
            made[row], head = head, -1
    return made
