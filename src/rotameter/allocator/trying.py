"""An allocator's side of a trial: it is asked and told, and the books are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.ledger import Ledger
from rotameter.allocator.needs import Record, Task, View
from rotameter.errors import PolicyError
from rotameter.values import Allocation, Hold

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["Grant", "Outcome", "Trying", "no_time"]

Grant = tuple[float, ...]
"""What an attempt has of each resource, in the order of the workloads."""

TIME = "wall_s"


@dataclass(slots=True)
class Outcome:
    """What came of a trial.

    Attributes
    ----------
    ledger : Ledger
        Of the resource, the first where there are several.
    makespan_s : float
    decisions_ns : list of int
        Time in request and observe for each completed task, by the timer that was given.
    ledgers : dict of str to Ledger
        Of each resource, by field of an allocation.
    """

    ledger: Ledger = field(default_factory=Ledger)
    makespan_s: float = 0.0
    decisions_ns: list[int] = field(default_factory=list)
    ledgers: dict[str, Ledger] = field(default_factory=dict)


def no_time() -> int:
    """Stand in for a clock: a core has none of its own."""
    return 0


class Trying:
    """Asks an allocator for what attempts get, and tells it how they ended.

    Parameters
    ----------
    work : Workload, or a sequence of them
        One a resource, of the same tasks.
    allocator : Allocator
    most : float, or a sequence of them
        What the largest machine has of each.
    sizes : bool
        Whether the allocator is told the tasks' sizes.
    timer : callable
        Gives nanoseconds.
    """

    def __init__(
        self,
        work: Workload | Sequence[Workload],
        allocator: Any,
        most: float | Sequence[float],
        *,
        sizes: bool = False,
        timer: Callable[[], int] = no_time,
    ) -> None:
        works = tuple(work) if isinstance(work, Sequence) else (work,)
        self.works, self.work = works, works[0]
        self.most = tuple(most) if isinstance(most, Sequence) else (most,)
        self.fields = tuple(one.resource.field for one in works)
        self.allocator, self._timer = allocator, timer
        self.out = Outcome()
        self.out.ledgers = {
            name: Ledger() if place else self.out.ledger for place, name in enumerate(self.fields)
        }
        self._ledgers = tuple(self.out.ledgers.values())
        self.attempts = [0] * len(self.work)
        self.tasks = [
            Task(str(at), self.work.groups[group], float(size) if sizes and size == size else None)
            for at, (group, size) in enumerate(
                zip(self.work.group.tolist(), self.work.size.tolist(), strict=True)
            )
        ]
        self.needs: list[Grant] = list(zip(*(one.need.tolist() for one in works), strict=True))
        # What a limit of time counts may be longer than what the task itself took.
        self.wall: list[float] = np.max([one.wall_s for one in works], axis=0).tolist()
        self._spent = 0

    def __len__(self) -> int:
        return len(self.work)

    def ask(self, at: int, view: View | None = None) -> Grant | None:
        """Give what a first attempt gets; None where its task is held."""
        began = self._timer()
        made = self.allocator.request(self.tasks[at], view)
        self._spent = self._timer() - began
        return None if isinstance(made, Hold) else self._granted(made, at)

    def attempt(self, at: int, granted: Grant) -> tuple[float, tuple[str, ...]]:
        """Give how long an attempt runs, and what it outgrows by then.

        Of several resources that are too little, the one that is outgrown first ends it.
        """
        self.attempts[at] += 1
        need = self.needs[at]
        lasts, short = self.wall[at], []
        for place, amount in enumerate(granted):
            if amount >= need[place]:
                continue
            seconds = self._failed_s(place, at, amount)
            if seconds < lasts:
                lasts, short = seconds, [self.fields[place]]
            elif seconds == lasts:
                short.append(self.fields[place])
        return lasts, tuple(short)

    def _failed_s(self, place: int, at: int, amount: float) -> float:
        """Give how long an attempt runs that has too little of a resource."""
        if self.fields[place] == TIME:
            return amount
        return min(self.works[place].failed_s(at, amount), self.wall[at])

    def ended(
        self, at: int, granted: Grant, seconds: float, short: tuple[str, ...]
    ) -> Grant | None:
        """Tell of an attempt's end; give the next one's allocation if it outgrew its own."""
        task, need = self.tasks[at], self.needs[at]
        had = dict(zip(self.fields, granted, strict=True))
        if not short:
            for place, name in enumerate(self.fields):
                # A limit of time is asked for as it is, and held for no time.
                held_s = 1.0 if name == TIME else seconds
                self._ledgers[place].complete(
                    granted[place], need[place], held_s, attempts=self.attempts[at]
                )
            record = Record(
                task.task_id, task.group, "ok", dict(zip(self.fields, need, strict=True)),
                granted=had, wall_s=seconds, size=task.size,
            )  # fmt: skip
            began = self._timer()
            self.allocator.observe(record)
            self.out.decisions_ns.append(self._spent + self._timer() - began)
            return None
        for place, name in enumerate(self.fields):
            self._ledgers[place].fail(granted[place], 1.0 if name == TIME else seconds)
            if name in short and granted[place] >= self.most[place]:
                raise PolicyError(f"task {task.task_id} needs more than the largest machine has")
        outcome = "timeout" if short == (TIME,) else "oom"
        record = Record(
            task.task_id, task.group, outcome, granted=had,
            exceeded=frozenset(short), wall_s=seconds, size=task.size,
        )  # fmt: skip
        made = self.allocator.exceeded(task, record)
        return self._granted(made, at, {name: had[name] for name in short})

    def _granted(self, made: Any, at: int, above: dict[str, float] | None = None) -> Grant:
        """Check what an allocator gave: finite amounts, larger than what was exceeded."""
        task = self.tasks[at].task_id
        if not isinstance(made, Allocation):
            raise PolicyError(f"{task}: the allocator gave no allocation: {made!r}")
        found = []
        for work, name in zip(self.works, self.fields, strict=True):
            given = getattr(made, name)
            if given is None:
                raise PolicyError(f"{task}: the allocator gave no {work.resource.word}: {made!r}")
            granted, least = float(given), (above or {}).get(name, 0.0)
            if not 0 < granted < float("inf") or granted <= least:
                more = f", not more than the {least:.0f} that were exceeded" if least else ""
                amount = f"{granted:.0f} {work.resource.unit}"
                raise PolicyError(f"{task}: the allocator gave {amount}{more}")
            found.append(granted)
        return tuple(found)
