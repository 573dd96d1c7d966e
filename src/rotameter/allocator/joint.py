"""One ladder for several resources: each rung is what some tasks used of all of them.

Where every resource has its own ladder, two low rungs fail where either is too little, and neither
ladder counts what the failure holds of the other resource. Here the rungs are vectors: what the
same share of a group's tasks uses, of each resource. A task needs the first rung that holds all of
its needs, so the cheapest set of rungs is found as for one resource, by what they hold of all
(:mod:`~rotameter.allocator.ladder`). After a failure an attempt gets the next rung that has more of
what was exceeded, and with it more of what such tasks use besides.

Unknown groups, bounds from failures, what users set and what workers have are as in
:class:`~rotameter.allocator.default.Default`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.default import Default
from rotameter.allocator.ladder import TAIL, cheapest
from rotameter.allocator.learner import COLD, HEADROOM, SLOT
from rotameter.allocator.needs import Record, Task, View, usable
from rotameter.allocator.words import amount
from rotameter.units import format_number, many
from rotameter.values import Allocation, Hold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.protocols import Detector

    Floats = NDArray[np.float64]

__all__ = ["Joint"]

STEPS = 24
"""Shares of a group's tasks that may make a rung."""

LATEST = 500
"""Completed tasks of a group that count, later ones more."""

LEAST_RETRY = 1e-3
"""A retry has at least this part of the largest worker of what was exceeded: doubling what is next
to nothing would take dozens of attempts."""


class Joint(Default):
    """Sizes all resources of a group together.

    Parameters
    ----------
    most, resources, defaults, scouts, detector
        As for :class:`~rotameter.allocator.default.Default`. A detector resets what is known of
        single resources only.

    Examples
    --------
    >>> made = Joint({"memory_bytes": 64e9, "disk_bytes": 64e9},
    ...              resources=("memory_bytes", "disk_bytes"))
    >>> for k in range(20):
    ...     used = {"memory_bytes": 1e9, "disk_bytes": 2e9}
    ...     made.observe(Record(str(k), "load", "ok", used, wall_s=10.0))
    >>> given = made.request(Task("a", "load"))
    >>> 1e9 < given.memory_bytes < 1.1e9, given.disk_bytes / given.memory_bytes
    (True, 2.0)
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._records: dict[str, deque[tuple[float, ...]]] = {}
        self._ladders: dict[str, tuple[Floats, Floats]] = {}

    # -- the protocol -----------------------------------------------------------------------

    def request(self, task: Task, view: View | None = None) -> Allocation | Hold:
        """Size an attempt, or hold it while its group is unknown."""
        made = super().request(task, view)
        if isinstance(made, Hold) or not self._known(task.group):
            return made
        group = self._of(task.group)
        had = {name: value for name, (value, _) in group.waiting.get(task.task_id, {}).items()}
        rung = self._rung(task.group, had)
        if rung is None:
            return made
        seen = view or View()
        least = {**(seen.free if seen.few else {}), **seen.share}
        rung = {name: max(value, least.get(name, 0.0)) for name, value in rung.items()}
        return self._given(group, task, self._lifted(task, made, rung))

    def observe(self, record: Record) -> None:
        """Learn from an attempt that ended, or from a reading of one that still runs."""
        super().observe(record)
        used = [record.used.get(name) for name in self.resources]
        if record.outcome != "ok" or not all(map(_known_use, used)):
            return
        seconds = float(record.wall_s) if usable(record.wall_s) else 1.0  # type: ignore[arg-type]
        kept = self._records.setdefault(record.group, deque(maxlen=LATEST))
        kept.append((*(float(one) for one in used), seconds))  # type: ignore[arg-type]
        self._ladders.pop(record.group, None)

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Size the attempt after one that exceeded what it had: what goes with it grows too."""
        made = super().exceeded(task, attempt)
        if not self._known(task.group):
            return made
        had = {name: float(attempt.granted.get(name, 0.0)) for name in attempt.exceeded}
        rung = self._rung(task.group, had)
        if rung is None:
            rung = {name: float(getattr(made, name) or 0.0) for name in self.resources}
        group = self._of(task.group)
        waiting = group.waiting[task.task_id]
        for name, value in rung.items():
            least = float(attempt.granted.get(name) or 0.0)
            # Many small steps take many whole attempts: from the second failure on it doubles.
            if waiting.get(name, (0.0, 0))[1] > 1:
                least = max(least, float(getattr(made, name) or 0.0))
            if name in attempt.exceeded and math.isfinite(self.most.get(name, math.inf)):
                least = max(least, LEAST_RETRY * self.most[name])
            rung[name] = max(value, least)
        return self._given(group, task, self._lifted(task, made, rung))

    def explain(self, task: Task, view: View | None = None) -> str:
        """Say in plain words why a task of this group gets what it gets."""
        if not self._known(task.group):
            return super().explain(task, view)
        rungs, enough = self._ladder(task.group)
        told = [
            f"{self._words(rung)} for {format_number(100 * part)} %"
            for rung, part in zip(rungs[:4], enough[:4], strict=True)
        ]
        n = many(len(self._records[task.group]), "task")
        return f"all together, from {n}: " + ", then ".join(told)

    # -- parts ------------------------------------------------------------------------------

    def _words(self, rung: Floats) -> str:
        pairs = zip(self.resources, rung.tolist(), strict=True)
        return " with ".join(f"{amount(name, value)} ({name})" for name, value in pairs)

    def _known(self, group: str) -> bool:
        return len(self._records.get(group, ())) >= COLD

    def _rung(self, group: str, had: Mapping[str, float]) -> dict[str, float] | None:
        """Give the first rung with more of all that was exceeded; None where none has."""
        for rung in self._ladder(group)[0].tolist():
            made = dict(zip(self.resources, rung, strict=True))
            if all(made[name] > value for name, value in had.items() if name in made):
                return made
        return None

    def _lifted(self, task: Task, made: Allocation, rung: Mapping[str, float]) -> dict[str, float]:
        """Give a rung, and more where something failed with as much as any success needed.

        What nobody used (0) is what it would be alone: nothing runs with nothing of it.
        """
        group = self._of(task.group)
        found = dict(rung)
        for name, value in rung.items():
            alone = float(getattr(made, name) or 0.0)
            learner = group.learners.get(name)
            highest = max(learner.failed.values(), default=0.0) if learner is not None else 0.0
            unmet = learner is not None and highest >= learner.largest and value <= highest
            if value <= 0 or unmet:
                found[name] = max(value, alone)
        return found

    def _ladder(self, group: str) -> tuple[Floats, Floats]:
        """Give the rungs, ascending in each resource, and the part of the tasks each holds."""
        made = self._ladders.get(group)
        if made is None:
            most = [self.most.get(name, math.inf) for name in self.resources]
            made = self._ladders[group] = _vectors(np.array(self._records[group]), np.array(most))
        return made

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give what was learnt as plain data; attempts under way are not part of it."""
        kept = {name: [list(one) for one in seen] for name, seen in self._records.items()}
        return {**super().state(), "records": kept}

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], *, detector: Callable[[], Detector] | None = None
    ) -> Joint:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = super().from_state(state, detector=detector)
        assert isinstance(made, Joint)
        for name, seen in state["records"].items():
            kept = (tuple(float(value) for value in one) for one in seen)
            made._records[name] = deque(kept, maxlen=LATEST)
        return made


def _known_use(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and value >= 0


def _vectors(records: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Find the cheapest ladder of vectors.

    Parameters
    ----------
    records : ndarray of float64, shape (n, resources + 1)
        What each task used, and how long it ran; in order of completion.
    most : ndarray of float64, shape (resources,)
        No rung is beyond it.

    Returns
    -------
    rungs : ndarray of float64, shape (k, resources)
    enough : ndarray of float64, shape (k,)
        Part of the weight of all, that of what was not seen included, which each rung holds.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0, 9.0]] * 30 + [[8.0, 16.0, 9.0]] * 2)
    >>> _vectors(rows, np.array([64.0, 64.0]))[0][:2].round(2).tolist()
    [[1.01, 2.02], [8.48, 16.97]]
    """
    used, n = records[:, :-1] * (1 + HEADROOM), len(records)
    weight = records[:, -1] * np.arange(1, n + 1)
    shares = np.linspace(1 / STEPS, 1, STEPS)
    seen = np.quantile(used, shares, axis=0, method="inverted_cdf")
    beyond = [np.minimum(seen[-1] * more, most) for more, _ in TAIL]
    chain = np.unique(np.vstack([np.minimum(seen, most), *beyond]), axis=0)
    mean = used.mean(axis=0)
    held = np.divide(chain, mean, out=np.zeros_like(chain), where=mean > 0).sum(axis=1) + SLOT
    pairs = zip(chain.T, used.T, strict=True)
    at = np.max([np.searchsorted(one, need) for one, need in pairs], axis=0)
    mass = np.bincount(np.minimum(at, len(chain) - 1), weight, minlength=len(chain))
    for top, (_, part) in zip(beyond, TAIL, strict=True):
        place = int(np.flatnonzero((chain >= top).all(axis=1))[0])
        mass[place] += part * float(weight.sum()) / n
    kept = np.flatnonzero(mass > 0)
    found = cheapest(held[kept].tolist(), mass[kept].tolist())
    places = kept[np.searchsorted(held[kept], np.array(found.rungs))]
    rungs: Floats = chain[places]
    enough: Floats = np.cumsum(mass)[places] / mass.sum()
    return rungs, enough
