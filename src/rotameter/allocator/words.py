"""Plain words for why a task gets what it gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rotameter.allocator.ledger import GB_HOUR
from rotameter.allocator.outlook import outlook
from rotameter.units import format_bytes, format_number, format_seconds, many

if TYPE_CHECKING:
    from rotameter.allocator.ceilings import Ceilings
    from rotameter.allocator.learner import Learner
    from rotameter.allocator.outlook import Outlook

__all__ = ["Case", "amount", "words"]

SHOWN = 4
"""Attempts that are told of."""

_WAYS = {
    "all": "all that earlier ones used",
    "latest": "what the latest ones used",
    "few": "what the few latest ones used",
    "largest": "the largest that one used",
    "size": "what tasks of this size used",
}
_NAMES = {
    "memory_bytes": "memory",
    "cores": "cores",
    "disk_bytes": "disk",
    "gpus": "GPUs",
    "gpu_share": "share of a GPU",
    "gpu_memory_bytes": "GPU memory",
    "wall_s": "time",
}
_KINDS = {
    "upper_bound": "at most so much (page cache, other tasks or steps at once are counted)",
    "lower_bound": "at least so much",
    "sampled": "sampled: at least so much",
    "estimate": "estimated",
}


@dataclass(frozen=True, slots=True)
class Case:
    """What decides about a resource of one task.

    Attributes
    ----------
    name : str
        The resource.
    sized : float
        What the allocator gives.
    given : float
        What the task gets in the end.
    asked : float or None
        What its user set.
    least, most : float
        What comes with a slot in any case; what the largest worker has, maybe infinite.
    size : float or None
        A number known before the run.
    had, failures : float, int
        The most that this very task exceeded, and how often.
    guess : str
        Where the number comes from while no task of the group has completed.
    """

    name: str
    sized: float
    given: float
    asked: float | None = None
    least: float = 0.0
    most: float = math.inf
    size: float | None = None
    had: float = 0.0
    failures: int = 0
    guess: str = ""

    @property
    def is_set(self) -> bool:
        """Whether it is what the user set: more is given once that was too little."""
        return self.asked is not None and self.given <= self.asked


def amount(name: str, value: float) -> str:
    """Write an amount of a resource.

    Examples
    --------
    >>> amount("memory_bytes", 2e9), amount("cores", 2.0), amount("wall_s", 90.0)
    ('2 GB', '2', '1 min 30 s')
    """
    if name.endswith("_bytes"):
        return format_bytes(value)
    return format_seconds(value) if name.endswith("_s") else format_number(value)


def words(case: Case, learner: Learner | None) -> str:
    """Say what a task gets of a resource: from how many, the chances, the bounds, who decides.

    Examples
    --------
    >>> print(words(Case("memory_bytes", 1e9, 1e9, guess="the default"), None))
    memory: 1 GB: the default; no task of this group has completed
      decided by: the allocator (order: what the user sets, else the allocator, a slot at least)
    """
    name, size = case.name, case.size
    head = f"{_NAMES.get(name, name)}: {amount(name, case.given)}"
    if learner is None or not learner.n:
        from_ = "set by the user" if case.is_set else case.guess
        lines = [f"{head}: {from_}; {_unknown(learner)}"]
    else:
        seen = outlook(learner, case.given, case.most, size, again=not case.is_set)
        largest = amount(name, learner.largest)
        lines = [
            f"{head}: {_source(case, learner)} ({many(learner.n, 'task')}, largest {largest})",
            f"  attempts: {_attempts(name, seen)}",
            f"  way: {_standing(learner, size)}",
        ]
        if not case.failures:
            lines.append(f"  expected waste: {_waste(name, seen)}")
    lines += [f"  bound: {said}" for said in _bounds(name, learner)]
    if case.failures:
        lines.append(f"  this task ran out of {amount(name, case.had)}, so it gets more")
    return "\n".join([*lines, f"  decided by: {_decided(case)}"])


def _unknown(learner: Learner | None) -> str:
    """Say why no need is known: none has completed, or those that did were not measured alone."""
    if learner is None or not learner.ceilings.n:
        return "no task of this group has completed"
    count = learner.ceilings.n
    if count == 1:
        return "the need of the task that completed is not known by itself"
    return f"of none of the {count:,} tasks that completed the need is known by itself"


def _source(case: Case, learner: Learner) -> str:
    if case.is_set:
        return "set by the user"
    if case.least > case.sized:
        return "what comes with a slot"
    return f"from {_way(learner.expert(case.size))}"


def _way(expert: str) -> str:
    bold = expert.removesuffix(" boldly")
    return _WAYS[bold] + (", a retry counted for less" if bold != expert else "")


def _percent(ratio: float) -> str:
    """Write a chance; nothing is rounded up to all.

    Examples
    --------
    >>> _percent(1.0), _percent(0.9996), _percent(0.975)
    ('almost all', '99.9 %', '97.5 %')
    """
    if ratio >= 1 - 1e-9:
        return "almost all"
    return f"{format_number(min(100 * ratio, 99.9))} %"


def _attempts(name: str, seen: Outlook) -> str:
    pairs = list(zip(seen.attempts, seen.chances, strict=True))
    texts = [f"{amount(name, value)} is enough for {_percent(p)}" for value, p in pairs[:1]]
    texts += [f"then {amount(name, value)} for {_percent(p)}" for value, p in pairs[1:SHOWN]]
    more = len(pairs) - SHOWN
    return ", ".join(texts) + (f", and {many(more, 'larger one')}" if more > 0 else "")


def _standing(learner: Learner, size: float | None) -> str:
    ways = learner.standing(size)
    (name, loss), others = ways[0], ways[1:]
    if not loss or not others:
        return f"{_way(name)}; too few tasks yet to tell the ways apart"
    second, more = next(((n, x) for n, x in others if x > loss), (others[0][0], loss))
    least = f"{_way(name)}; of {len(ways)} ways it would have cost least so far"
    if more <= loss:
        return f"{least}, as did the others"
    return f"{least}, the next ({_way(second)}) {format_number(100 * (more / loss - 1), 2)} % more"


def _waste(name: str, seen: Outlook) -> str:
    ratio = f"{format_number(100 * seen.waste_ratio, 2)} % of what tasks hold"
    if not name.endswith("memory_bytes"):
        return ratio
    return f"{ratio}, {format_number(seen.waste / GB_HOUR, 2)} GB·h a task"


def _bounds(name: str, learner: Learner | None) -> list[str]:
    """Say what is known only to be at least or at most so much, and from where."""
    if learner is None:
        return []
    said = [
        f"{many(count, 'completed task')} used {_KINDS[kind]}"
        for kind, count in sorted(learner.kinds.items())
        if kind in _KINDS
    ]
    if learner.ceilings.n:
        said.append(_at_most(name, learner.ceilings))
    dead = [value for key, value in learner.failed.items() if key not in learner.live]
    if dead:
        least = amount(name, max(dead))
        if len(dead) == 1:
            said.append(f"1 task needs more than {least}: it ran out of that")
        else:
            said.append(f"{many(len(dead), 'task')} ran out, of {least} the largest: need more")
    running = [learner.failed[key] for key in learner.live if key in learner.failed]
    if running:
        used = amount(name, max(running))
        who = "1 task that runs uses" if len(running) == 1 else f"{len(running)} that run use up to"
        said.append(f"{who} {used} already: at least that is needed")
    return said


def _at_most(name: str, seen: Ceilings) -> str:
    """Say what tasks used at most that were not measured by themselves.

    Examples
    --------
    >>> from rotameter.allocator.ceilings import Ceilings
    >>> _at_most("memory_bytes", Ceilings(12, 1.2e9, 7e9))
    '12 completed tasks used at most 1.2 GB to 7 GB, what else ran there included'
    """
    low, high = amount(name, seen.lowest), amount(name, seen.highest)
    span = low if low == high else f"{low} to {high}"
    return f"{many(seen.n, 'completed task')} used at most {span}, what else ran there included"


def _decided(case: Case) -> str:
    """Say which number wins: the user's, else the allocator's between a floor and a cap."""
    name = case.name
    order = "order: what the user sets, else the allocator, a slot at least"
    if not math.isinf(case.most):
        order += f", {amount(name, case.most)} at most as on the largest worker"
    would = f", where the allocator would give {amount(name, case.sized)}"
    if case.is_set:
        return f"the user{would} ({order})"
    if case.asked is not None:
        return f"the allocator: the {amount(name, case.asked)} that the user set was too little"
    if case.least > case.sized and case.least <= case.most:
        return f"a slot{would} ({order})"
    if case.sized > case.most or case.least > case.most:
        return f"the largest worker{would} ({order})"
    return f"the allocator ({order})"
