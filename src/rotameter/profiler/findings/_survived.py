"""The run as it would have been had some workers lived on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.findings.base import OUTLIER, group_median
from rotameter.profiler.findings.recomputed_work import computed_again
from rotameter.profiler.open_ends import complete
from rotameter.profiler.replaying.model import PARTS
from rotameter.profiler.replaying.reshape import dropped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.view import Codes, Floats, Mask, View

__all__ = ["Survived", "replacements", "taken_along"]

_HELD = np.array([PARTS.index("stall"), PARTS.index("wait")])
_TRANSFER = PARTS.index("transfer")


def replacements(seen: View, dead: Iterable[int]) -> dict[int, int]:
    """Give for each dead worker (code) the one that began next after it, each once."""
    births = sorted((float(life["started"]), int(life["worker"])) for life in seen.lives)
    ends = {int(life["worker"]): float(life["ended"]) for life in seen.lives}
    found: dict[int, int] = {}
    taken: set[int] = set()
    for worker in sorted((w for w in dead if w in ends), key=lambda w: (ends[w], w)):
        for at, other in births:
            if at >= ends[worker] - 1e-6 and other != worker and other not in taken:
                found[worker] = other
                taken.add(other)
                break
    return found


def taken_along(seen: View, dead: Mask) -> Mask:
    """Say which attempts would not have been made: lost with these workers, or made up for them.

    Parameters
    ----------
    dead : ndarray of bool, shape (n_workers + 1,)
    """
    on_dead = dead[seen.worker] & (seen.worker >= 0)
    lost = on_dead & seen.outcome_in("oom", "worker_lost") & seen.ran
    # Only what ran again later: what never ended well would still have to be done.
    last = np.full(len(seen.task_ids) + 1, -np.inf)
    begun = np.nan_to_num(seen.started, nan=-np.inf)
    np.maximum.at(last, seen.task, begun)
    lost &= last[seen.task] > begun
    again, earlier = computed_again(seen)
    holder = np.where(earlier >= 0, seen.worker[np.where(earlier >= 0, earlier, 0)], -1)
    made: Mask = lost | (again & dead[holder] & (holder >= 0))
    return made


@dataclass(frozen=True, slots=True, eq=False)
class Survived:
    """Some workers live on: nothing is lost with them, nor done again, nor do cores lack.

    Attributes
    ----------
    seen : View
    dead : ndarray of bool, shape (n_workers + 1,)
    """

    seen: View
    dead: Mask

    def beside(self, other: Survived) -> Survived:
        """Give the change in which the workers of both live on."""
        return Survived(self.seen, self.dead | other.dead)

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        seen = self.seen
        known = model.row >= 0
        row = np.where(known, model.row, 0)
        gone = known & taken_along(seen, self.dead)[row]
        codes = {name: code for code, name in enumerate(seen.workers)}
        place = {codes.get(w.name or "", -1): at for at, w in enumerate(model.workers)}
        dead = [w for w in np.flatnonzero(self.dead[:-1]).tolist() if w in place]
        if not dead:
            return dropped(model, gone)
        after = replacements(seen, dead)
        fresh = np.zeros(len(seen.workers) + 1, dtype=bool)
        fresh[list(after.values())] = True
        model = self._warm(model, known & fresh[seen.worker[row]])
        # The one that came instead of a dead one is that one.
        into = np.arange(len(model.workers) + 1)
        into[-1] = -1
        workers = list(model.workers)
        for old in sorted(dead, key=lambda w: -workers[place[w]].from_s):
            new = after.get(old)
            until = float("inf")
            if new is not None and new in place:
                until = workers[place[new]].until_s
                into[place[new]] = place[old]
            workers[place[old]] = replace(workers[place[old]], until_s=until)
        while (into[into] != into).any():
            into = into[into]
        kept = np.flatnonzero(into[:-1] == np.arange(len(workers)))
        renumber = np.full(len(workers) + 1, -1, dtype=np.int64)
        renumber[kept] = np.arange(len(kept))
        renumber[-1] = -1
        ends = [
            float(e)
            for w, e in zip(seen.lives["worker"], seen.lives["ended"], strict=True)
            if self.dead[w]
        ]
        late = known & (seen.started[row] >= min(ends, default=np.inf) - 1e-6)
        parts = model.parts_s.copy()
        parts[np.ix_(late, _HELD)] = 0.0
        # Where the results still were, they did not have to be fetched again.
        usual = _usual(model, ~late & known & ~gone, _TRANSFER)
        parts[late, _TRANSFER] = np.minimum(parts[late, _TRANSFER], usual[model.group[late]])
        return dropped(
            replace(
                model,
                parts_s=parts,
                workers=tuple(workers[k] for k in kept.tolist()),
                home=renumber[into[model.home]],
                pinned=model.pinned & ~late,
            ),
            gone,
        )

    def _warm(self, model: Model, mine: Mask) -> Model:
        """Let the first tasks on a new worker take no longer than others."""
        if not mine.any():
            return model
        seen = self.seen
        rows = model.row[mine]
        usual = group_median(seen, seen.wall, seen.ran & complete(seen))[seen.group[rows]]
        first = _first(seen, rows)
        with np.errstate(invalid="ignore"):
            cold = first & (seen.wall[rows] > OUTLIER * usual)
        parts = model.parts_s.copy()
        nodes = np.flatnonzero(mine)[cold]
        parts[nodes, :3] *= (usual[cold] / seen.wall[rows][cold])[:, None]
        return replace(model, parts_s=parts)


def _usual(model: Model, nodes: Mask, part: int) -> Floats:
    """Give the median of a part by group; that of all nodes where a group has none."""
    made = np.full(len(model.groups) + 1, np.nan)
    for group in np.unique(model.group[nodes]).tolist():
        made[group] = np.median(model.parts_s[nodes & (model.group == group), part])
    every = float(np.median(model.parts_s[nodes, part])) if nodes.any() else 0.0
    return np.where(np.isnan(made), every, made)


def _first(seen: View, rows: Codes) -> Mask:
    """Say which attempts began on their worker before any had ended there."""
    end: Floats = np.full(len(seen.workers) + 1, np.inf)
    np.minimum.at(end, seen.worker[rows], seen.ended[rows])
    made: Mask = seen.started[rows] < end[seen.worker[rows]]
    return made
