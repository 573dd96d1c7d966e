"""The published family and its alternatives as allocators, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter import plugins
from rotameter.allocator.default import Default
from rotameter.allocator.joint import Joint
from rotameter.allocator.needs import RESOURCES, Record, Task, View, usable
from rotameter.allocator.published import NAMES, Family, Rules, family
from rotameter.errors import PolicyError
from rotameter.values import Allocation

if TYPE_CHECKING:
    from rotameter.protocols import Allocator

__all__ = ["ALLOCATORS", "Baseline", "Linear", "Several", "make_allocator"]

MEMORY = "memory_bytes"

LINEAR = "attempt-linear"

JOINT = "joint"

ALLOCATORS = ("default", JOINT, *NAMES, LINEAR, *(f"{name}+common" for name in NAMES))
"""Names that :func:`make_allocator` knows; ``+common``: with our cold start and retries."""


def _allocation(resource: str, amount: float, policy: str) -> Allocation:
    whole = RESOURCES[resource].whole
    amounts: dict[str, Any] = {resource: math.ceil(amount) if whole else amount}
    return Allocation(**amounts, policy=policy)


class Baseline:
    """A member of the family, one sizer of a resource a group.

    Parameters
    ----------
    name : str
    rules : Rules
    seed : int
    resource : str
        One of :data:`~rotameter.allocator.needs.RESOURCES`.
    """

    def __init__(
        self, name: str, rules: Rules, seed: int | Sequence[int] = 0, *, resource: str = MEMORY
    ) -> None:
        self.name, self.rules, self.resource = name, rules, resource
        self._rng = np.random.default_rng(seed)
        self._groups: dict[str, Family] = {}

    def _of(self, group: str) -> Family:
        made = self._groups.get(group)
        if made is None:
            made = self._groups[group] = family(self.name, self.rules, self._rng)
        return made

    def request(self, task: Task, view: View | None = None) -> Allocation:
        """Size a first attempt."""
        return _allocation(self.resource, self._of(task.group).first(), self.name)

    def observe(self, record: Record) -> None:
        """Learn from what completed; the family ignores everything else."""
        need = record.used.get(self.resource)
        if record.outcome == "ok" and usable(need):
            seconds = record.wall_s if usable(record.wall_s) else 1.0
            self._of(record.group).learn(float(need), float(seconds))  # type: ignore[arg-type]

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Size the next attempt."""
        made = self._of(task.group).after(float(attempt.granted[self.resource]))
        return _allocation(self.resource, made, self.name)

    def explain(self, task: Task) -> str:
        """Say what rule sizes the group, and from how many."""
        n = len(self._of(task.group).values)
        what = "memory" if self.resource == MEMORY else self.resource
        return f"{what}: {self.name} over {n} completed tasks"


class Linear:
    """A fixed request times the attempt's number, as pipelines write it.

    Parameters
    ----------
    request, most : float
    resource : str
        One of :data:`~rotameter.allocator.needs.RESOURCES`.
    """

    def __init__(self, request: float, most: float, *, resource: str = MEMORY) -> None:
        self.name = LINEAR
        self._step, self._most, self.resource = request, most, resource

    def request(self, task: Task, view: View | None = None) -> Allocation:
        """Give the request."""
        return _allocation(self.resource, min(self._step, self._most), LINEAR)

    def observe(self, record: Record) -> None:
        """Learn nothing."""

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Give one request more."""
        made = min(float(attempt.granted[self.resource]) + self._step, self._most)
        return _allocation(self.resource, made, LINEAR)

    def explain(self, task: Task) -> str:
        """Say the rule."""
        if self.resource == MEMORY:
            return f"memory: {self._step:.0f} bytes times the attempt's number"
        return f"{self.resource}: {self._step:.0f} times the attempt's number"


class Several:
    """Allocators of one resource each, asked one after the other; none knows of another.

    Parameters
    ----------
    parts : mapping of str to Allocator
        By the resource that each sizes.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = dict(parts)

    def request(self, task: Task, view: View | None = None) -> Allocation:
        """Size a first attempt in every resource."""
        made = {name: part.request(task, view) for name, part in self._parts.items()}
        return self._joined({name: getattr(one, name) for name, one in made.items()})

    def observe(self, record: Record) -> None:
        """Let each learn."""
        for part in self._parts.values():
            part.observe(record)

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        """Size the next attempt: only what was exceeded grows."""
        made = dict(attempt.granted)
        for name in attempt.exceeded:
            made[name] = getattr(self._parts[name].exceeded(task, attempt), name)
        return self._joined(made)

    def explain(self, task: Task) -> str:
        """Say what each says."""
        return "\n".join(part.explain(task) for part in self._parts.values())

    def _joined(self, amounts: Mapping[str, float]) -> Allocation:
        whole: dict[str, Any] = {
            name: math.ceil(amount) if RESOURCES[name].whole else amount
            for name, amount in amounts.items()
            if name in self._parts
        }
        policy = next(iter(self._parts.values())).name
        return Allocation(**whole, policy=policy)


def _plugged(name: str, most: Mapping[str, float]) -> Allocator:
    """Make an allocator that somebody registered."""
    if name not in plugins.names("allocators"):
        known = ", ".join(dict.fromkeys([*ALLOCATORS, *plugins.names("allocators")]))
        raise PolicyError(f"unknown allocator {name!r}", hint=f"known: {known}")
    made: Allocator = plugins.get("allocators", name)(dict(most))
    return made


def _first(resource: str, defaults: Mapping[str, float]) -> float:
    """Give what a task of an unknown group gets: what has no default starts somewhere."""
    known = RESOURCES[resource]
    return float(defaults.get(resource, known.default or known.start))


def make_allocator(
    name: str,
    most: float | Mapping[str, float],
    *,
    seed: int = 0,
    defaults: Mapping[str, float] | None = None,
) -> Allocator:
    """Make an allocator by its name.

    Parameters
    ----------
    name : str
        One of :data:`ALLOCATORS`, or of an allocator that is registered as a plug-in.
    most : float, or mapping of str to float
        What the largest machine has: of memory, or of each resource that is to be sized.
    seed : int
        For those that draw.
    defaults : mapping, optional
        What a task of an unknown group gets.

    Raises
    ------
    PolicyError
        For another name, or an unknown resource.

    Examples
    --------
    >>> make_allocator("greedy", 64e9).request(Task("a", "load")).memory_bytes
    1000000000
    >>> made = make_allocator("greedy", {"memory_bytes": 64e9, "disk_bytes": 100e9})
    >>> made.request(Task("a", "load")).disk_bytes
    1000000000
    """
    caps = dict(most) if isinstance(most, Mapping) else {MEMORY: most}
    for resource in caps:
        if resource not in RESOURCES:
            raise PolicyError(
                f"unknown resource {resource!r}", hint=f"known: {', '.join(sorted(RESOURCES))}"
            )
    given = dict(defaults or {})
    if name in ("default", JOINT):
        firsts = {one: _first(one, given) for one in caps if not RESOURCES[one].default}
        ours = Joint if name == JOINT else Default
        return ours(caps, resources=tuple(caps), defaults={**firsts, **given})
    base, _, common = name.partition("+")
    if name != LINEAR and (base not in NAMES or common not in ("", "common")):
        return _plugged(name, caps)
    parts: dict[str, Any] = {}
    for place, (resource, cap) in enumerate(caps.items()):
        first = _first(resource, given)
        if name == LINEAR:
            parts[resource] = Linear(first, cap, resource=resource)
            continue
        rules = Rules(2 if common else 10, first, cap, bool(common))
        drawn = [seed, place] if place else seed
        parts[resource] = Baseline(base, rules, drawn, resource=resource)
    made: Allocator = parts[next(iter(caps))] if len(parts) == 1 else Several(parts)
    return made
