"""An allocator that can be replaced while it serves: between decisions, and back if need be.

Whoever holds it asks it like any allocator. One decision, or one batch of them, is made by one
allocator; what misbehaves is taken out of service by its first bad answer, which is not passed on:
the one before answers in its place.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rotameter.allocator.answers import trouble
from rotameter.allocator.needs import Record, Task, View
from rotameter.errors import PolicyError, TracerWarning
from rotameter.values import Allocation, Hold

if TYPE_CHECKING:
    from rotameter.protocols import Allocator

__all__ = ["Decision", "Swappable"]

REMEMBERED = 2000
"""Latest records, which a new allocator is taught."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer, and the version of the allocator that gave it."""

    made: Allocation | Hold
    version: int


class Swappable:
    """Serves by an allocator that can be replaced.

    Parameters
    ----------
    allocator : Allocator
        The first one; it is trusted.
    most_bytes : float
        What the largest worker has: more is no answer.
    check : callable, optional
        ``check(allocator)`` says what is wrong with a new one, empty where nothing is; it may
        change what it is given.

    Attributes
    ----------
    version : int
        Counts replacements, those that were taken back too.
    faults : list of str
        What allocators in service did wrong.

    Examples
    --------
    >>> from rotameter.allocator.baselines import make_allocator
    >>> held = Swappable(make_allocator("max-seen", 64e9), 64e9)
    >>> held.swap(lambda: make_allocator("greedy", 64e9))
    1
    >>> held.decide(Task("a", "load")).version
    1
    """

    def __init__(
        self,
        allocator: Allocator,
        most_bytes: float,
        *,
        check: Callable[[Callable[[], Allocator]], str] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._now, self._before = allocator, allocator
        self._most, self._check = most_bytes, check
        self._records: deque[Record] = deque(maxlen=REMEMBERED)
        self._count, self._since = 0, 0
        self.version = 0
        self.faults: list[str] = []

    # -- serving ----------------------------------------------------------------------------

    def decide(self, task: Task, view: View | None = None) -> Decision:
        """Size a task; says which allocator did."""
        with self._lock:
            return self._decided(task, view)

    def batch(self, tasks: Sequence[Task], view: View | None = None) -> list[Decision]:
        """Size several tasks, all by the same allocator."""
        with self._lock:
            made = [self._decided(task, view) for task in tasks]
            if made and made[0].version != made[-1].version:  # One fell back on the way.
                made = [self._decided(task, view) for task in tasks]
            return made

    def request(self, task: Task, view: View | None = None) -> Allocation | Hold:
        """Size a task."""
        return self.decide(task, view).made

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Size the attempt after one that exceeded what it had."""
        had = float(attempt.granted.get("memory_bytes") or 0.0)
        with self._lock:
            made = self._asked(
                lambda one: one.exceeded(task, attempt),
                had if "memory_bytes" in attempt.exceeded else 0.0,
            )
            assert isinstance(made, Allocation)
            return made

    def observe(self, record: Record) -> None:
        """Pass on what an attempt used."""
        with self._lock:
            if record.outcome != "running":
                self._records.append(record)
                self._count += 1
            try:
                self._now.observe(record)
            except Exception as error:
                # The one before is taught it with all that it has missed.
                self._fall_back(f"observe raises {type(error).__name__}: {error}")

    def explain(self, task: Task) -> str:
        """Say why a task gets what it gets."""
        with self._lock:
            return str(self._now.explain(task))

    # -- replacing --------------------------------------------------------------------------

    def swap(self, make: Callable[[], Allocator]) -> int:
        """Put another allocator in service, if it passes the check; give its version.

        It learns from the latest records first, outside of the lock: nobody waits for it.

        Parameters
        ----------
        make : callable
            Gives a fresh one; called twice where there is a check.

        Raises
        ------
        PolicyError
            If it is not fit; the one in service stays.
        """
        wrong = self._check(make) if self._check is not None else ""
        if wrong:
            raise PolicyError(f"the new allocator is not put in service: {wrong}")
        try:
            new = make()
            with self._lock:
                taught, known = list(self._records), self._count
            _teach(new, taught)
        except Exception as error:
            raise PolicyError(
                f"the new allocator is not put in service: {type(error).__name__}: {error}"
            ) from error
        with self._lock:
            _teach(new, self._latest(self._count - known))
            self._before, self._now, self._since = self._now, new, self._count
            self.version += 1
            return self.version

    # -- parts ------------------------------------------------------------------------------

    def _latest(self, count: int) -> list[Record]:
        return list(self._records)[-count:] if count > 0 else []

    def _decided(self, task: Task, view: View | None) -> Decision:
        made = self._asked(lambda one: one.request(task, view), 0.0)
        return Decision(made, self.version)

    def _asked(self, ask: Callable[[Any], Any], above: float) -> Allocation | Hold:
        for _ in range(2):
            try:
                made = ask(self._now)
                wrong = trouble(made, self._most, above)
            except Exception as error:
                made, wrong = None, f"raises {type(error).__name__}: {error}"
            if not wrong:
                return made  # type: ignore[no-any-return]
            if not self._fall_back(wrong):
                break
        amount = min(self._most, 2 * above if above else self._most)
        return Allocation(memory_bytes=int(amount), policy="fallback", reason=self.faults[-1])

    def _fall_back(self, wrong: str) -> bool:
        """Take the allocator in service out of it; say whether there was another."""
        self.faults.append(wrong)
        if self._before is self._now:
            return False
        warnings.warn(
            f"an allocator was taken out of service ({wrong}); the one before serves again",
            TracerWarning,
            stacklevel=2,
        )
        self._now = self._before
        self.version += 1
        _teach(self._now, self._latest(self._count - self._since))
        return True


def _teach(allocator: Any, records: Iterable[Record]) -> None:
    for record in records:
        allocator.observe(record)
