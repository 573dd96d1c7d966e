"""The published family and its alternatives as allocators, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rotameter import plugins
from rotameter.allocator.default import Default
from rotameter.allocator.needs import Record, Task, View, usable
from rotameter.allocator.published import NAMES, Family, Rules, family
from rotameter.errors import PolicyError
from rotameter.values import Allocation

if TYPE_CHECKING:
    from rotameter.protocols import Allocator

__all__ = ["ALLOCATORS", "Baseline", "Linear", "make_allocator"]

MEMORY = "memory_bytes"

LINEAR = "attempt-linear"

ALLOCATORS = ("default", *NAMES, LINEAR, *(f"{name}+common" for name in NAMES))
"""Names that :func:`make_allocator` knows; ``+common``: with our cold start and retries."""


class Baseline:
    """A member of the family, one sizer of memory a group.

    Parameters
    ----------
    name : str
    rules : Rules
    seed : int
    """

    def __init__(self, name: str, rules: Rules, seed: int = 0) -> None:
        self.name, self.rules = name, rules
        self._rng = np.random.default_rng(seed)
        self._groups: dict[str, Family] = {}

    def _of(self, group: str) -> Family:
        made = self._groups.get(group)
        if made is None:
            made = self._groups[group] = family(self.name, self.rules, self._rng)
        return made

    def request(self, task: Task, view: View | None = None) -> Allocation:
        """Size a first attempt."""
        return Allocation(memory_bytes=math.ceil(self._of(task.group).first()), policy=self.name)

    def observe(self, record: Record) -> None:
        """Learn from what completed; the family ignores everything else."""
        need = record.used.get(MEMORY)
        if record.outcome == "ok" and usable(need):
            seconds = record.wall_s if usable(record.wall_s) else 1.0
            self._of(record.group).learn(float(need), float(seconds))  # type: ignore[arg-type]

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Size the next attempt."""
        made = self._of(task.group).after(float(attempt.granted[MEMORY]))
        return Allocation(memory_bytes=math.ceil(made), policy=self.name)

    def explain(self, task: Task) -> str:
        """Say what rule sizes the group, and from how many."""
        n = len(self._of(task.group).values)
        return f"memory: {self.name} over {n} completed tasks"


class Linear:
    """A fixed request times the attempt's number, as pipelines write it.

    Parameters
    ----------
    request_bytes, most_bytes : float
    """

    def __init__(self, request_bytes: float, most_bytes: float) -> None:
        self._step, self._most = request_bytes, most_bytes

    def request(self, task: Task, view: View | None = None) -> Allocation:
        """Give the request."""
        return Allocation(memory_bytes=math.ceil(min(self._step, self._most)), policy=LINEAR)

    def observe(self, record: Record) -> None:
        """Learn nothing."""

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Give one request more."""
        made = min(float(attempt.granted[MEMORY]) + self._step, self._most)
        return Allocation(memory_bytes=math.ceil(made), policy=LINEAR)

    def explain(self, task: Task) -> str:
        """Say the rule."""
        return f"memory: {self._step:.0f} bytes times the attempt's number"


def _plugged(name: str, most_bytes: float) -> Allocator:
    """Make an allocator that somebody registered."""
    if name not in plugins.names("allocators"):
        known = ", ".join(dict.fromkeys([*ALLOCATORS, *plugins.names("allocators")]))
        raise PolicyError(f"unknown allocator {name!r}", hint=f"known: {known}")
    made: Allocator = plugins.get("allocators", name)({MEMORY: most_bytes})
    return made


def make_allocator(
    name: str,
    most_bytes: float,
    *,
    seed: int = 0,
    defaults: Mapping[str, float] | None = None,
) -> Allocator:
    """Make an allocator of memory by its name.

    Parameters
    ----------
    name : str
        One of :data:`ALLOCATORS`, or of an allocator that is registered as a plug-in.
    most_bytes : float
        What the largest machine has.
    seed : int
        For those that draw.
    defaults : mapping, optional
        What a task of an unknown group gets.

    Raises
    ------
    PolicyError
        For another name.

    Examples
    --------
    >>> make_allocator("greedy", 64e9).request(Task("a", "load")).memory_bytes
    1000000000
    """
    first = float((defaults or {}).get(MEMORY, 1e9))
    if name == "default":
        return Default({MEMORY: most_bytes}, defaults=defaults)
    if name == LINEAR:
        return Linear(first, most_bytes)
    base, _, common = name.partition("+")
    if base not in NAMES or common not in ("", "common"):
        return _plugged(name, most_bytes)
    rules = Rules(2 if common else 10, first, most_bytes, bool(common))
    return Baseline(base, rules, seed)
