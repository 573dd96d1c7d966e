"""Ours: sizes every task from what earlier ones used, in every dimension that is asked for.

A group is unknown until two of its tasks have completed. Until then few of them run (scouts) and
the others are held, as long as other tasks take the slots; a slot that would stay empty is not
kept waiting for a second completion. What scouts get is guessed from all other groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotameter.allocator.ceilings import Ceilings
from rotameter.allocator.learner import COLD, HEADROOM, Learner
from rotameter.allocator.needs import RESOURCES, Record, Task, View, usable
from rotameter.allocator.pooled import Pool
from rotameter.allocator.words import Case, words
from rotameter.errors import PolicyError
from rotameter.values import Allocation, Hold

if TYPE_CHECKING:
    from rotameter.protocols import Detector

__all__ = ["SCOUTS", "Default"]

SCOUTS = 2
"""Tasks of an unknown group that run at once."""

COLD_STEP = 4.0
"""A failure of an unknown group's task is followed by so many times its allocation, at least."""

_NOTHING = View()
_GONE = frozenset({"failed", "cancelled"})
"""Outcomes after which a task may never complete: its bounds would stay for ever."""


@dataclass(slots=True)
class _Group:
    """What is known of a group."""

    learners: dict[str, Learner] = field(default_factory=dict)
    watches: dict[str, Detector] = field(default_factory=dict)
    completed: int = 0
    running: set[str] = field(default_factory=set)
    waiting: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)
    """Task that came back → resource → (largest allocation that it exceeded, failures)."""
    short: dict[str, float] = field(default_factory=dict)
    """Resource → the most that its user set for a task that exceeded it: too little."""

    def learner(self, name: str) -> Learner:
        """Give what is known of a resource."""
        learner = self.learners.get(name)
        if learner is None:
            learner = self.learners[name] = Learner()
        return learner


class Default:
    """The default allocator.

    Parameters
    ----------
    most : mapping of str to float, optional
        What the largest worker has, by resource.
    resources : iterable of str
        Dimensions to size; names of :data:`~rotameter.allocator.needs.RESOURCES`.
    defaults : mapping of str to float, optional
        What a task of an unknown group gets while no other group is known either.
    scouts : int
        Tasks of an unknown group that run at once; 0: all that may.
    detector : callable, optional
        Makes a detector of change points for a group's needs (their logarithms, in order of
        completion); where one finds a change, only the latest needs are kept.

    Raises
    ------
    PolicyError
        For a resource that is not known, or a limit that is no positive number.

    Examples
    --------
    >>> made = Default(most={"memory_bytes": 64e9})
    >>> for name in "ab":
    ...     made.observe(Record(name, "load", "ok", {"memory_bytes": 2e9}, wall_s=10.0))
    >>> made.request(Task("c", "load")).memory_bytes
    2525000000
    """

    def __init__(
        self,
        most: Mapping[str, float] | None = None,
        *,
        resources: Iterable[str] = ("memory_bytes",),
        defaults: Mapping[str, float] | None = None,
        scouts: int = SCOUTS,
        detector: Callable[[], Detector] | None = None,
    ) -> None:
        self.resources = tuple(resources)
        self.most, self.defaults = dict(most or {}), dict(defaults or {})
        for name in (*self.resources, *self.most, *self.defaults):
            if name not in RESOURCES:
                raise PolicyError(
                    f"unknown resource {name!r}", hint=f"known: {', '.join(sorted(RESOURCES))}"
                )
        for name, value in self.most.items():
            if not usable(value):
                raise PolicyError(f"the most that a worker has of {name} is {value!r}, no amount")
        self.scouts, self._detector = scouts, detector
        self._groups: dict[str, _Group] = {}
        self._pools = {name: Pool() for name in self.resources}

    # -- the protocol -----------------------------------------------------------------------

    def request(self, task: Task, view: View | None = None) -> Allocation | Hold:
        """Size an attempt, or hold it while its group is unknown."""
        view = view or _NOTHING
        group = self._of(task.group)
        back = task.task_id in group.waiting
        if not back and self._held(group, view, task):
            return Hold(task.task_id)
        made = {name: self._first(group, name, task.size) for name in self.resources}
        for more in (view.free if view.few else {}, view.share):
            made = {name: max(v, more.get(name, v)) for name, v in made.items()}
        if back:
            for name, amount in self._again(group, task).items():
                made[name] = max(made[name], amount)
        group.running.add(task.task_id)
        return self._given(group, task, made)

    def observe(self, record: Record) -> None:
        """Learn from an attempt that ended, or from a reading of one that still runs."""
        group = self._of(record.group)
        used = {k: float(v) for k, v in record.used.items() if k in self._pools and usable(v)}
        if record.outcome == "running":
            for name, value in used.items():
                learner = group.learner(name)
                if value > learner.largest:
                    learner.bound(record.task_id, value, live=True)
            return
        group.running.discard(record.task_id)
        if record.outcome == "ok":
            self._completed(group, record, used)
        elif record.outcome in _GONE:
            group.waiting.pop(record.task_id, None)
            for learner in group.learners.values():
                learner.forget(record.task_id)

    def bounded(self, record: Record) -> None:
        """Take a completed task of which only upper bounds are known, maybe far above its needs.

        None of them counts as a need. While none is known, they say what to give.

        Parameters
        ----------
        record : Record
            What it used at most.
        """
        group = self._of(record.group)
        group.running.discard(record.task_id)
        group.waiting.pop(record.task_id, None)
        for name in self.resources:
            learner = group.learner(name)
            learner.forget(record.task_id)
            if usable(record.used.get(name)):
                learner.ceilings.add(float(record.used[name]))

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Size the attempt after one that exceeded what it had; nothing else grows."""
        group = self._of(task.group)
        group.running.discard(task.task_id)
        waiting = group.waiting.setdefault(task.task_id, {})
        for name in sorted(attempt.exceeded & self._pools.keys()):
            had, failures = waiting.get(name, (0.0, 0))
            given = attempt.granted.get(name)
            had = max(had, float(given) if usable(given) else 0.0)  # type: ignore[arg-type]
            waiting[name] = (had, failures + 1)
            asked = task.asked.get(name)
            if usable(asked) and had >= asked:  # type: ignore[operator]
                group.short[name] = max(float(asked), group.short.get(name, 0.0))  # type: ignore[arg-type]
            if had:
                group.learner(name).bound(task.task_id, had)
        kept = {
            name: float(v)
            for name, v in attempt.granted.items()
            if name in self._pools and usable(v)
        }
        return self._given(group, task, {**kept, **self._again(group, task)})

    def explain(self, task: Task, view: View | None = None) -> str:
        """Say in plain words why a task of this group gets what it gets.

        For each resource: how many completed tasks it comes from, which part of them each attempt
        is enough for, which way of choosing serves and why, the expected waste, the bounds and
        their sources, and whether the user, the allocator, a slot's share or the largest worker
        decides.
        """
        group = self._of(task.group)
        return "\n".join(
            words(self._case(group, name, task, view or _NOTHING), group.learners.get(name))
            for name in self.resources
        )

    def groups(self) -> list[str]:
        """Give the names of the groups that something is known of."""
        return list(self._groups)

    def largest(self, group: str, name: str) -> float | None:
        """Give the largest use of a resource by a group's completed tasks; None if unknown."""
        known = self._groups.get(group)
        learner = known.learners.get(name) if known is not None else None
        return learner.largest if learner is not None and learner.n else None

    def ceilings(self, group: str, name: str) -> Ceilings:
        """Give the upper bounds of what a group's tasks needed that were told of by themselves."""
        known = self._groups.get(group)
        learner = known.learners.get(name) if known is not None else None
        return learner.ceilings if learner is not None else Ceilings()

    def completed(self, group: str, name: str) -> int:
        """Give of how many completed tasks of a group the need of a resource is known."""
        known = self._groups.get(group)
        learner = known.learners.get(name) if known is not None else None
        return learner.n if learner is not None else 0

    # -- parts ------------------------------------------------------------------------------

    def _of(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        return group

    def _held(self, group: _Group, view: View, task: Task) -> bool:
        """Say whether enough other tasks of an unknown group are under way.

        Where a slot's share of the node holds what it would get, knowing more saves nothing.
        """
        if not self.scouts or group.completed >= (1 if view.spare else COLD):
            return False
        if len((group.running | group.waiting.keys()) - {task.task_id}) < self.scouts:
            return False
        return not all(
            self._first(group, name, task.size) <= view.share.get(name, -1.0)
            for name in self.resources
        )

    def _first(self, group: _Group, name: str, size: float | None) -> float:
        learner = group.learners.get(name)
        if learner is not None and learner.n:
            return learner.first(size)
        pool = self._pools[name]
        made = pool.first() if pool.known else self.defaults.get(name, RESOURCES[name].default)
        if learner is None:
            return made
        made = _held_all(learner) or made
        highest = max(learner.failed.values(), default=0.0)
        return self._unknown_after(highest, name, learner) if 0 < made <= highest else made

    def _unknown_after(self, previous: float, name: str, learner: Learner) -> float:
        """Guess after a failure in a group of which fewer than two tasks have completed.

        What held all that completed is enough for a guess, however much larger others are.
        """
        pool, held = self._pools[name], _held_all(learner)
        made = COLD_STEP * previous if previous > 0 else RESOURCES[name].start
        if pool.known and pool.largest > previous:
            made = pool.largest
        return min(made, held) if held > previous else made

    def _again(self, group: _Group, task: Task) -> dict[str, float]:
        """Size what a task exceeded before; what it did not exceed is not in it."""
        made = {}
        for name, (had, failures) in group.waiting[task.task_id].items():
            learner = group.learner(name)
            known = learner.n >= COLD and had > 0
            made[name] = (
                learner.after(had, failures, task.size)
                if known
                else self._unknown_after(had, name, learner)
            )
        return made

    def _completed(self, group: _Group, record: Record, used: Mapping[str, float]) -> None:
        group.completed += 1
        group.waiting.pop(record.task_id, None)
        seconds = float(record.wall_s) if usable(record.wall_s) else 1.0  # type: ignore[arg-type]
        for name in self.resources:
            if name in used:
                self._learn(group, name, record, used[name], seconds)
            elif name in group.learners:
                group.learners[name].forget(record.task_id)

    def _learn(self, group: _Group, name: str, record: Record, need: float, seconds: float) -> None:
        learner = group.learner(name)
        size = record.size if record.size is not None and math.isfinite(record.size) else None
        learner.learn(record.task_id, need, seconds, size)
        kind = str(record.kinds.get(name, "exact"))
        learner.kinds[kind] = learner.kinds.get(kind, 0) + 1
        self._pools[name].learn(record.group, need)
        if self._detector is None:
            return
        watch = group.watches.get(name)
        if watch is None:
            watch = group.watches[name] = self._detector()
        # The order of completions stands for time: a core knows no clock.
        change = watch.update(learner.n, math.log(need))
        if change is not None:
            learner.renew(_since(change, learner.n))

    def _given(self, group: _Group, task: Task, made: Mapping[str, float]) -> Allocation:
        amounts: dict[str, Any] = {}
        for name, value in made.items():
            amount = self._decided(group, task, name, value)
            amounts[name] = math.ceil(amount) if RESOURCES[name].whole else amount
        return Allocation(**amounts, policy="default")

    def _decided(self, group: _Group, task: Task, name: str, value: float) -> float:
        """Give what the user set, else what was found, up to what the largest worker has.

        What was set is the least only, once it was seen to be too little.
        """
        value = min(value, self.most.get(name, math.inf))
        asked = task.asked.get(name)
        if not usable(asked):
            return value
        least = float(asked)  # type: ignore[arg-type]
        return least if least > group.short.get(name, 0.0) else max(least, value)

    def _case(self, group: _Group, name: str, task: Task, view: View) -> Case:
        """Gather what decides about a resource of a task, as :meth:`request` does."""
        sized = self._first(group, name, task.size)
        had, failures = group.waiting.get(task.task_id, {}).get(name, (0.0, 0))
        if failures:
            sized = max(sized, self._again(group, task)[name])
        free = view.free.get(name, 0.0) if view.few else 0.0
        least = max(free, view.share.get(name, 0.0))
        asked = task.asked.get(name)
        return Case(
            name=name,
            sized=sized,
            given=self._decided(group, task, name, max(sized, least)),
            asked=float(asked) if usable(asked) else None,  # type: ignore[arg-type]
            least=least,
            most=self.most.get(name, math.inf),
            size=task.size,
            had=had,
            failures=failures,
            guess=self._guessed(group, name),
        )

    def _guessed(self, group: _Group, name: str) -> str:
        """Say where the number of an unknown group comes from."""
        learner, pool = group.learners.get(name), self._pools[name]
        if learner is not None and learner.failed:
            return "more than what was exceeded"
        if learner is not None and learner.ceilings.n:
            return "what holds all that was seen"
        if pool.known:
            return "guessed from what tasks of other groups used"
        return "what is set for unknown groups" if name in self.defaults else "the default"

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give what was learnt as plain data; attempts under way are not part of it."""
        return {
            "schema": 1,
            "resources": list(self.resources),
            "most": dict(self.most),
            "defaults": dict(self.defaults),
            "scouts": self.scouts,
            "pools": {name: pool.state() for name, pool in self._pools.items()},
            "groups": {
                name: {
                    "completed": group.completed,
                    "short": dict(group.short),
                    "learners": {key: one.state() for key, one in group.learners.items()},
                }
                for name, group in self._groups.items()
            },
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], *, detector: Callable[[], Detector] | None = None
    ) -> Default:
        """Make one from :meth:`state`; it goes on as the first would have.

        Detectors are no part of the state: they begin anew.
        """
        made = cls(
            state["most"],
            resources=state["resources"],
            defaults=state["defaults"],
            scouts=state["scouts"],
            detector=detector,
        )
        made._pools = {name: Pool.from_state(kept) for name, kept in state["pools"].items()}
        for name, kept in state["groups"].items():
            group = made._of(name)
            group.completed = int(kept["completed"])
            group.short = {str(k): float(v) for k, v in kept.get("short", {}).items()}
            group.learners = {key: Learner.from_state(one) for key, one in kept["learners"].items()}
        return made


def _held_all(learner: Learner) -> float:
    """Give what holds every task of which an upper bound is known; 0: there is none."""
    return learner.ceilings.highest * (1 + HEADROOM)


def _since(change: object, n: int) -> int | None:
    """Give how many of ``n`` tasks completed since a change; None where it does not say when.

    Examples
    --------
    >>> from rotameter.values import Change
    >>> _since(Change(41, 1.0, 2.0), 45), _since(Change(0, 1.0, 2.0), 45), _since(object(), 45)
    (5, None, None)
    """
    at = getattr(change, "at_ns", None)
    return n - at + 1 if isinstance(at, int) and 0 < at <= n else None
