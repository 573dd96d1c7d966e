"""How many seconds of the makespan each change contributed: by replay, from both ends.

The earlier run is replayed with a group's durations as they are on the later side (rank by rank,
so that the longest becomes as long as the longest there; worker by worker where both sides have
the same, as one may be slow or hold more of the work), and the later run with them as they were;
the mean of the two differences is what the change contributed. One number from each end
shares out what only several changes together do. What a replay cannot do within its budget is
estimated as task time over the tasks that run at once, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.comparing.settings import most_at_once
from rotameter.profiler.replaying.changes import Change, Scale, Workers
from rotameter.profiler.replaying.choose import chosen
from rotameter.profiler.replaying.model import PARTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.replaying.model import Model
    from rotameter.profiler.replaying.savings import Replayer
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Contribution", "Ends"]

BUDGET_NODES = 400_000
"""Nodes simulated in all: about ten seconds."""
_LEAST_RATIO = 0.005
"""Parts that changed by less than this share of the makespan are not replayed."""
_OTHERS = (
    ("transfers", "transfer", ("transfer",)),
    ("spilling to disk", "spill", ("spill",)),
    ("the engine's own work", "overhead", ("overhead",)),
    ("stalls and waits", "wait", ("wait", "stall")),
)


@dataclass(frozen=True, slots=True)
class Contribution:
    """Seconds that a change added to the makespan; negative: took off it.

    Attributes
    ----------
    seconds : float or None
    how : str
    """

    seconds: float | None
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class Like:
    """The chosen groups take the time that others took: the same sum, and rank by rank.

    Attributes
    ----------
    groups : tuple of str
    wall_s : ndarray of float64, shape (k,), seconds
        Durations of the others, in order of size; empty: no time at all.
    by_home : tuple of (int, ndarray), optional
        Recorded worker, and the durations that its nodes take instead of ``wall_s``.

    Examples
    --------
    >>> from rotameter.profiler.replaying.model import make_model
    >>> model = make_model([5.0, 1.0, 9.0], group=[0, 0, 1], groups=["a", "b"])
    >>> Like(("a",), np.array([2.0, 3.0])).apply(model).wall_s.tolist()
    [3.0, 2.0, 9.0]
    """

    groups: tuple[str, ...]
    wall_s: Floats
    by_home: tuple[tuple[int, Floats], ...] = ()

    def apply(self, model: Model) -> Model:
        """Give the model with the change."""
        nodes = np.flatnonzero(chosen(model, list(self.groups)))
        columns = np.array([PARTS.index(name) for name in ("compute", "read", "write")])
        parts = model.parts_s.copy()
        if not self.by_home:
            _take(parts, nodes, columns, self.wall_s)
            return replace(model, parts_s=parts)
        mine = _split(nodes, model.home[nodes])
        for home, walls in self.by_home:
            _take(parts, mine.get(home, nodes[:0]), columns, walls)
        # How much each worker did is what is taken over: none of it may move on.
        pinned = model.pinned.copy()
        pinned[nodes] = True
        return replace(model, parts_s=parts, pinned=pinned)


def _take(parts: Floats, nodes: Codes, columns: Codes, walls: Floats) -> None:
    """Give nodes other durations, rank by rank and the same sum; in place."""
    own = parts[np.ix_(nodes, columns)].sum(axis=1)
    if not walls.size:
        parts[np.ix_(nodes, columns)] = 0.0
        return
    rank = np.empty(len(nodes))
    rank[np.argsort(own, kind="stable")] = (np.arange(len(nodes)) + 0.5) / len(nodes)
    places = (np.arange(walls.size) + 0.5) / walls.size
    wanted = np.interp(rank, places, walls)
    total = float(wanted.sum())
    wanted *= float(walls.sum()) / total if total > 0 else 0.0
    idle = own <= 0
    factor = np.where(idle, 0.0, wanted / np.where(idle, 1.0, own))
    parts[np.ix_(nodes, columns)] *= factor[:, None]
    parts[nodes[idle], columns[0]] = wanted[idle]


def _walls(model: Model, names: tuple[str, ...]) -> Floats:
    """Give the durations of some groups' nodes, in order of size."""
    if not names:
        return np.empty(0)
    return np.sort(model.wall_s[chosen(model, list(names))])


def _by_worker(model: Model, names: tuple[str, ...]) -> dict[int, Floats]:
    """Give the same for each recorded worker; nothing where one of them is not known."""
    nodes = np.flatnonzero(chosen(model, list(names)))
    home = model.home[nodes]
    if (home < 0).any():
        return {}
    order = np.lexsort((model.wall_s[nodes], home))
    return _split(model.wall_s[nodes][order], home[order])


def _split(values: NDArray[Any], keys: Codes) -> dict[int, NDArray[Any]]:
    """Give the values of each key, in their order."""
    order = np.argsort(keys, kind="stable")
    found, first = np.unique(keys[order], return_index=True)
    return dict(zip(found.tolist(), np.split(values[order], first[1:]), strict=True))


def _partners(models: tuple[Model, Model], sides: Sequence[dict[int, Floats]]) -> dict[int, int]:
    """Give earlier worker → later one: by name, else by how much time their tasks took.

    Nothing where the sides' workers are not as many: no one then did the work of another.
    """
    before, after = sides
    if len(before) != len(after) or len(before) < 2:
        return {}
    names = [
        {model.workers[one].name: one for one in side}
        for model, side in zip(models, sides, strict=True)
    ]
    if names[0].keys() == names[1].keys() and len(names[0]) == len(before):
        return {one: names[1][name] for name, one in names[0].items()}
    ranked = [sorted(side, key=lambda one: (float(side[one].sum()), one)) for side in sides]
    return dict(zip(*ranked, strict=True))


class Ends:
    """Two runs to replay, one of each side, with a budget.

    Parameters
    ----------
    before, after : Replayer
    slots : float or None
        Tasks that run at once, for what is not replayed.
    """

    def __init__(self, before: Replayer, after: Replayer, slots: float | None) -> None:
        self._sides = (before, after)
        self._slots = slots
        nodes = sum(side.model.n for side in self._sides if side.model is not None)
        # Two simulations, one an end, cost so many nodes; the replays themselves cost as much.
        self.affordable = BUDGET_NODES // max(1, nodes)
        self._ready = self.affordable > 0 and all(s.replay is not None for s in self._sides)

    def estimate(self, more_s: float) -> float | None:
        """Give what more task time adds if all slots share it; seconds."""
        return more_s / self._slots if self._slots else None

    def group(
        self, before: Sequence[str], after: Sequence[str], old_s: float, new_s: float
    ) -> Contribution:
        """Say what one group's change of total task time contributed.

        Parameters
        ----------
        before, after : sequence of str
            Its names on each side.
        old_s, new_s : float, seconds
            Its task time in a run.
        """
        if self._ready and self.affordable > 0:
            self.affordable -= 1
            there, back = self._likes(tuple(before), tuple(after))
            return Contribution(self._both(there, back), "replayed from both ends")
        how = "task time over the tasks that run at once, not replayed"
        if self._slots is None:
            return Contribution(None, "neither a replay nor how many tasks run at once is known")
        return Contribution(self.estimate(new_s - old_s), how)

    def _likes(
        self, before: tuple[str, ...], after: tuple[str, ...]
    ) -> tuple[Change | None, Change | None]:
        """Give what makes a group of each run as it is in the other one."""
        models = self._models()
        if models is None:
            return None, None
        old, new = (_walls(m, names) for m, names in zip(models, (before, after), strict=True))
        if not (old.size and new.size):
            there = Like(before, new) if old.size else None
            return there, Like(after, old) if new.size else None
        sides = [_by_worker(m, names) for m, names in zip(models, (before, after), strict=True)]
        pairs = _partners(models, sides)
        homes = tuple((one, sides[1][other]) for one, other in pairs.items())
        back = tuple((other, sides[0][one]) for one, other in pairs.items())
        return Like(before, new, homes), Like(after, old, back)

    def _both(self, there: Change | None, back: Change | None) -> float | None:
        found = []
        for side, change, sign in zip(self._sides, (there, back), (1.0, -1.0), strict=True):
            replay = side.replay
            if change is None or replay is None:
                continue
            other = side.makespan(change)
            if other is None:
                continue
            base = replay.schedule.makespan_s
            unit = replay.recorded_s / base if base > 0 else 1.0
            found.append(sign * (other - base) * unit)
        return float(np.mean(found)) if found else None

    def others(self) -> list[tuple[str, Contribution]]:
        """Give what is not in the tasks' own time: transfers, spilling, waits, the cluster."""
        models = self._models()
        if models is None:
            return []
        made = []
        for label, part, columns in _OTHERS:
            old, new = (self._sum(model, columns) for model in models)
            if not self._matters(old, new) or self.affordable <= 0:
                continue
            self.affordable -= 1
            there = Scale(None, part, new / old) if old > 0 else None  # type: ignore[arg-type]
            back = Scale(None, part, old / new) if new > 0 else None  # type: ignore[arg-type]
            made.append((label, Contribution(self._both(there, back), "replayed from both ends")))
        gaps = [float(m.parts_s[m.gate].sum()) for m in models]
        if self._matters(*gaps) and self.affordable > 0:
            self.affordable -= 1
            there = Scale(None, "gap", gaps[1] / gaps[0]) if gaps[0] > 0 else None
            back = Scale(None, "gap", gaps[0] / gaps[1]) if gaps[1] > 0 else None
            both = self._both(there, back)
            made.append(
                ("the program between submissions", Contribution(both, "replayed from both ends"))
            )
        cluster = self._cluster(*models)
        return [*made, ("the cluster's size", cluster)] if cluster else made

    def _models(self) -> tuple[Model, Model] | None:
        before, after = (side.replay if self._ready else None for side in self._sides)
        if before is None or after is None:
            return None
        return before.model, after.model

    def _sum(self, model: Model, columns: Sequence[str]) -> float:
        places = [PARTS.index(name) for name in columns]
        return float(model.parts_s[~model.gate][:, places].sum())

    def _matters(self, old: float, new: float) -> bool:
        least = _LEAST_RATIO * max(side.replay.recorded_s for side in self._sides if side.replay)
        return max(old, new) > 0 and abs(new - old) / max(self._slots or 1.0, 1.0) > least

    def _cluster(self, before: Model, after: Model) -> Contribution | None:
        """Replay each run on a cluster of the other's size, who ran where left open."""
        sizes = [_size(model) for model in (before, after)]
        if sizes[0] == sizes[1] or not all(n for n, _ in sizes) or self.affordable < 2:
            return None
        self.affordable -= 2
        found = []
        for side, own, other, sign in (
            (self._sides[0], sizes[0], sizes[1], 1.0),
            (self._sides[1], sizes[1], sizes[0], -1.0),
        ):
            loose = side.makespan(Workers(0))
            resized = side.makespan(Workers(other[0] - own[0], other[1]))
            if loose is not None and resized is not None:
                found.append(sign * (resized - loose))
        if not found:
            return None
        return Contribution(float(np.mean(found)), "replayed on the other side's cluster")


def _size(model: Model) -> tuple[int, float]:
    """Give the number of workers at one time, and the slots that one has."""
    lives = [(w.from_s, w.until_s) for w in model.workers]
    # A worker that was started again is no further one.
    return (
        most_at_once([a for a, _ in lives], [b for _, b in lives]),
        float(np.median([w.cores for w in model.workers] or [0.0])),
    )
