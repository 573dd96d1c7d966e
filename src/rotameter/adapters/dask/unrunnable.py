"""Tasks that no worker may take: what they ask for, told soon after and when it has changed.

A task that never starts has no row, and where a run hangs on one nothing else says why. Only the
scheduler's own list of such tasks is looked at: a run without any pays nothing. What a worker
would need is worked out once for all tasks that ask for the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from rotameter.adapters.dask.names import emit, group_of
from rotameter.profiler.live.recorder import Recorder
from rotameter.profiler.live.redact import clip, redact

__all__ = ["Unrunnable"]

_ROWS = 20
"""So many demands are told in words; the others are counted by group."""
_FEW, _TASK_NS, _LONGEST_NS = 1_000, 100_000, 60 * 10**9
"""A look takes some µs a task: where there are many, the next one is so much later for each."""
_ANY = "no worker may take it"
_NOWHERE = ", which no worker offers"


class _Demand(NamedTuple):
    """What tasks of one kind ask for."""

    prefix: str
    resources: tuple[tuple[str, float], ...]
    workers: frozenset[str]
    hosts: frozenset[str]


class Unrunnable:
    """Events of tasks that no worker may take (the recorder's thread).

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The scheduler; ``unrunnable`` is its list.
    recorder : Recorder
        Where events go.
    """

    def __init__(self, scheduler: Any, recorder: Recorder) -> None:
        self.scheduler = scheduler
        self.recorder = recorder
        self._before: Counter[_Demand] = Counter()
        self._own: set[_Demand] = set()
        self._told: dict[tuple[str, str], int] = {}
        self._next_ns = 0

    def tick(self, at_ns: int) -> None:
        """Tell what has been there since the last look, where it has changed; 0 = no longer."""
        listed = self.scheduler.unrunnable
        if not listed and not self._told and not self._before:
            return
        if listed and at_ns < self._next_ns:
            return
        tasks = list(listed)
        self._next_ns = at_ns + min(_TASK_NS * max(0, len(tasks) - _FEW), _LONGEST_NS)
        found = Counter(map(_demand, tasks))
        rows = self._rows({one: n for one, n in found.items() if one in self._before})
        for at in {**rows, **self._told}:
            count = rows.get(at, 0)
            if count != self._told.get(at, 0):
                group, why = at
                emit(self.recorder, "unrunnable", at_ns, group=group, count=count, reason=why)
        self._told, self._before = rows, found

    def _rows(self, demands: dict[_Demand, int]) -> dict[tuple[str, str], int]:
        """Count tasks by group and reason; the largest demands have one of their own."""
        order = sorted(demands, key=lambda one: (-demands[one], one not in self._own))
        self._own = set(order[:_ROWS])
        words = _Words(list(self.scheduler.workers.values()))
        rows: dict[tuple[str, str], int] = {}
        for one in order:
            at = group_of(one.prefix), words.asks(one) if one in self._own else _ANY
            rows[at] = rows.get(at, 0) + demands[one]
        return rows


def _demand(task: Any) -> _Demand:
    return _Demand(
        task.prefix.name,
        tuple(sorted((task.resource_restrictions or {}).items())),
        frozenset(task.worker_restrictions or ()),
        frozenset(task.host_restrictions or ()),
    )


class _Words:
    """What demands ask for that no worker of a cluster has."""

    def __init__(self, workers: Sequence[Any]) -> None:
        self.workers = workers
        self._most: dict[str, float] = {}

    def most(self, name: str) -> float:
        """Give the most of a resource that one worker offers."""
        if name not in self._most:
            self._most[name] = max(float(one.resources.get(name, 0)) for one in self.workers)
        return self._most[name]

    def asks(self, demand: _Demand) -> str:
        """Say what a task asks for that no worker has."""
        if not self.workers:
            return "the cluster has no worker"
        parts = []
        for name, amount in demand.resources:
            most = self.most(name)
            if most < amount:
                had = f"; the most that one offers is {most:g}" if most else _NOWHERE
                parts.append(f"asks for {name}={amount:g}{had}")
        if not parts and demand.resources:
            asked = ", ".join(f"{name}={amount:g}" for name, amount in demand.resources)
            parts.append(f"asks for {asked} on one worker")
        places = sorted(map(str, (*demand.workers, *demand.hosts)))
        if places:
            named = ", ".join(places[:2]) + (" …" if len(places) > 2 else "")
            parts.append(f"may run on {named} only")
        return clip(redact(", and ".join(parts))) or _ANY
