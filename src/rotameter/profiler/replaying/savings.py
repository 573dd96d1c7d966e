"""What a change would save: the run replayed with it and without it.

The interval is honest about two things that the middle value does not know: that tasks of a group
last differently (bootstrap within groups, Efron 1979; both replays of a replicate use the same
draw) and that the replay itself is not the run (its error on the recorded run).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.replaying.engine import Loop
from rotameter.profiler.replaying.model import PARTS, Model
from rotameter.profiler.replaying.reshape import group_medians
from rotameter.profiler.replaying.screen import chain, taken_s
from rotameter.units import many
from rotameter.values import to_dict

if TYPE_CHECKING:
    from rotameter.profiler.replaying.changes import Change
    from rotameter.profiler.replaying.plain import Shape
    from rotameter.profiler.replaying.schedule import Schedule
    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import Codes

__all__ = ["Replay", "Replayer", "Saving"]

REPLICATES = 20
NODES_A_CALL = 20_000
"""Replicates times nodes of one call: what keeps a rule's price to a fraction of a second."""
SCREENED_NODES = 20_000
"""From this size on a change is replayed only if it shortens the chain that made the length ..."""
SCREENED_RATIO = 0.03
"""... by this part of the makespan: less is not reported anyway."""
FEWEST = 8
"""Fewer replicates say less than the spread of the groups does."""
_DRAWN = np.array([PARTS.index(p) for p in ("compute", "read", "write", "overhead", "latency")])
OUTLIER = 2.0
"""A node this many times as long as its group's median is not drawn for a usual one."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Seconds off the makespan if something were changed.

    Attributes
    ----------
    mid_s, low_s, high_s : float or None
        Middle and 80 % interval. Negative: the change costs. None where nothing can be replayed.
    error_ratio : float or None
        How far the replay of the recorded run is from the record.
    how : str
        How the numbers were obtained, or why there are none.
    n : int
        Replicates behind the interval.
    """

    mid_s: float | None
    low_s: float | None
    high_s: float | None
    error_ratio: float | None
    how: str
    n: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = to_dict(self)
        return data


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A recorded run, replayed on its own cluster.

    Attributes
    ----------
    model : Model
    schedule : Schedule
    recorded_s : float
        Makespan on record.
    replay_error_ratio : float
        (replayed - recorded) / recorded; every prediction made with the model carries it.
    """

    model: Model
    schedule: Schedule
    recorded_s: float
    replay_error_ratio: float


class Replayer:
    """Prices changes of one trace; what ``tools.replay`` is for rules.

    The model, the replay of the recorded run and its replicates are made on first use and shared
    by all calls.

    Parameters
    ----------
    trace : Trace

    Examples
    --------
    >>> from rotameter.profiler.replaying.changes import Scale
    >>> from rotameter.profiler.trace import Trace
    >>> second = 10**9
    >>> trace = Trace.from_tables({"tasks": [
    ...     {"task_id": "a", "group": "g", "worker": "w", "outcome": "ok",
    ...      "started_ns": 0, "ended_ns": 4 * second}]})
    >>> Replayer(trace).saving(Scale("g", "compute", 0.5)).mid_s
    2.0
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._model: Model | None = None
        self._replay: Replay | None = None
        self._made = False
        self._bases: dict[tuple[int, int, int], float] = {}
        self._chain: Codes | None = None
        self._form: Shape | None = None

    @property
    def model(self) -> Model | None:
        """The model of the run; None where nothing can be replayed."""
        if not self._made:
            self._made = True
            self._model = Model.from_trace(self._trace)
        return self._model

    @property
    def replay(self) -> Replay | None:
        """The recorded run, replayed; None where nothing can be."""
        model = self.model
        if self._replay is None and model is not None and model.recorded_s:
            schedule = self._run(model).schedule()
            stuck = int(np.isnan(schedule.end_s).sum())
            if stuck:  # Its makespan would be that of a part of the run.
                text = f"{many(stuck, 'attempt')} would never end in a replay: it prices nothing"
                self._model = replace(model, recorded_s=None, notes=(*model.notes, text))
                return None
            error = (schedule.makespan_s - model.recorded_s) / model.recorded_s
            self._replay = Replay(model, schedule, model.recorded_s, float(error))
        return self._replay

    def _run(self, model: Model) -> Loop:
        """Replay a model; what it shares with the model before is not made again."""
        if self._form is not None and not self._form.fits(model, model.policy):
            self._form = None  # Never two at once: they are large.
        loop = Loop(model, model.policy, self._form)
        self._form = loop.form
        loop.run()
        return loop

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be taken from the trace."""
        return self.model.notes if self.model is not None else (_NOTHING,)

    def makespan(self, *changes: Change) -> float | None:
        """Give the makespan with changes, as far off as the replay is; seconds."""
        done = self.replay
        if done is None:
            return None
        made = self._run(_changed(done.model, changes)).makespan_s()
        return made if np.isfinite(made) else None

    def saving(self, *changes: Change, seed: int = 0) -> Saving:
        """Price changes made together.

        Parameters
        ----------
        *changes : Change
            Applied one after the other.
        seed : int
            Of the replicates; all calls with one seed share their draws.

        Returns
        -------
        Saving
            Never above the recorded makespan.
        """
        done = self.replay
        if done is None:
            return Saving(None, None, None, None, _NOTHING)
        model, base_s = done.model, done.schedule.makespan_s
        other = _changed(model, changes)
        if (none := self._off_the_chain(done, other)) is not None:
            return none
        # What the replay is too long (or short) in all, a saving is in proportion.
        unit = done.recorded_s / base_s if base_s > 0 else 1.0
        mid = (base_s - self._run(other).makespan_s()) * unit
        if not np.isfinite(mid):
            return Saving(None, None, None, None, _STUCK)
        drawn = self._replicates(model, other, changes, seed)
        spread = np.asarray(drawn) * unit
        if len(spread):
            low, high = (float(q) for q in np.quantile(spread, (0.1, 0.9)))
        else:
            half = 1.2816 * abs(mid) * _spread_ratio(model, other)
            low, high = mid - half, mid + half
        error_s = abs(done.replay_error_ratio) * done.recorded_s
        below = float(np.hypot(max(0.0, mid - low), error_s))
        above = float(np.hypot(max(0.0, high - mid), error_s))
        most = done.recorded_s
        how = f"replayed without it; the replay of the run itself is {_off(done)} off"
        if len(spread):
            how += f"; {len(spread)} bootstraps of durations within groups"
        else:
            how += "; spread of the durations within groups, without bootstraps"
        return Saving(
            round(min(mid, most), 6),
            round(min(mid - below, most), 6),
            round(min(mid + above, most), 6),
            round(done.replay_error_ratio, 6),
            how,
            len(spread),
        )

    def in_vain(self, *changes: Change) -> bool:
        """Say, without a replay, that changes of durations save next to nothing.

        Only of runs so large that a replay takes long; others are always replayed.
        """
        done = self.replay
        if done is None or done.model.n < SCREENED_NODES:
            return False
        return self._off_the_chain(done, _changed(done.model, changes)) is not None

    def _off_the_chain(self, done: Replay, other: Model) -> Saving | None:
        """Give a saving of nothing where the change leaves the critical chain nearly as it is."""
        if done.model.n < SCREENED_NODES:
            return None
        if self._chain is None:
            self._chain = chain(done.model, done.schedule)
        most = taken_s(done.model, other, self._chain)
        if most is None or most >= SCREENED_RATIO * done.recorded_s:
            return None
        how = "next to nothing of it lies on the chain of tasks that made the run's length"
        error = round(done.replay_error_ratio, 6)
        return Saving(0.0, 0.0, round(most, 6), error, how)

    def _replicates(
        self, model: Model, other: Model, changes: tuple[Change, ...], seed: int
    ) -> list[float]:
        # Each is replayed twice; a change may split a task into as many as there are cores.
        count = min(REPLICATES, 2 * NODES_A_CALL // max(1, model.n + other.n))
        if count < FEWEST:
            return []
        same = _same_nodes(model, other)
        stratum = _strata(model, other) if same else model.group
        found = []
        for number in range(count):
            source = _draw(model, stratum, np.random.default_rng([seed, number]))
            key = (seed, number, hash(stratum.tobytes()))
            if key not in self._bases:
                self._bases[key] = self._run(_drawn(model, source)).makespan_s()
            changed = _drawn(other, source) if same else _changed(_drawn(model, source), changes)
            found.append(self._bases[key] - self._run(changed).makespan_s())
        return [one for one in found if np.isfinite(one)]


_STUCK = "with that change some attempts would never end in the replay"
_NOTHING = "no attempt has both a start and an end: there is nothing to replay"


def _off(done: Replay) -> str:
    return f"{100 * abs(done.replay_error_ratio):.1f} %"


def _changed(model: Model, changes: tuple[Change, ...]) -> Model:
    for change in changes:
        model = change.apply(model)
    return model


def _same_nodes(model: Model, other: Model) -> bool:
    return other.n == model.n and bool((other.row == model.row).all())


def _strata(model: Model, other: Model) -> Codes:
    """Give each node the number of a set of nodes that may stand for each other.

    They are of one group, of workers as fast, all of them changed or none, and all of them far
    longer than usual or none: what a change is about stays what it is, and a straggler is not drawn
    away.
    """
    touched = np.asarray((model.parts_s != other.parts_s).any(axis=1) & ~model.gate)
    wall = model.wall_s
    with np.errstate(invalid="ignore"):
        long = wall > OUTLIER * group_medians(model, wall)
    n = len(model.groups)
    key = np.where(model.gate | (model.group < 0), -1, model.group)
    some = np.bincount(key[touched] + 1, minlength=n + 1) > 0
    rest = np.bincount(key[~touched] + 1, minlength=n + 1) > 0
    mixed = touched & (some & rest)[key + 1]
    at = (model.home >= 0) & (model.home < len(model.workers))
    was = np.array([w.was_ratio for w in model.workers] or [1.0])
    pace = np.unique(np.where(at, was[np.where(at, model.home, 0)], 1.0), return_inverse=True)[1]
    return np.asarray(np.where(key >= 0, key + n * (mixed + 2 * long + 4 * pace), -1))


def _draw(model: Model, stratum: Codes, generator: np.random.Generator) -> Codes:
    """Give for each node the node of its stratum whose durations it gets; shape (n,)."""
    source = np.arange(model.n)
    nodes = np.flatnonzero(~model.gate & (stratum >= 0))
    if not nodes.size:
        return source
    order = nodes[np.argsort(stratum[nodes], kind="stable")]
    group = stratum[order]
    low, high = np.searchsorted(group, group, "left"), np.searchsorted(group, group, "right")
    source[order] = order[generator.integers(low, high)]
    return source


def _spread_ratio(model: Model, other: Model) -> float:
    """Give the relative standard error of the wall time of what a change touches.

    For graphs too large for replicates: by the law of large numbers the sums of their groups vary
    by standard deviation times root of count.
    """
    touched = ~model.gate
    if _same_nodes(model, other):
        touched = touched & (model.parts_s != other.parts_s).any(axis=1)
    wall, group = model.wall_s[touched], model.group[touched] + 1
    total = float(wall.sum())
    if not total > 0:
        return 0.0
    count = np.bincount(group)
    mean = np.bincount(group, wall) / np.maximum(count, 1)
    variance = np.bincount(group, (wall - mean[group]) ** 2)
    return float(np.sqrt(variance.sum())) / total


def _drawn(model: Model, source: Codes) -> Model:
    parts = model.parts_s.copy()
    nodes = ~model.gate
    parts[np.ix_(nodes, _DRAWN)] = parts[np.ix_(source[nodes], _DRAWN)]
    return replace(model, parts_s=parts)
