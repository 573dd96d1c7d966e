"""What each group should ask for, of all resources that advice was made on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["Most", "Wanted", "grouped", "mebibytes", "minutes", "whole"]


@dataclass(frozen=True, slots=True)
class Most:
    """What no request is beyond; None where nobody said it.

    Attributes
    ----------
    memory, disk : float or None
        What the largest machine has, bytes.
    time : float or None
        The longest limit that the queue allows, seconds.
    """

    memory: float | None = None
    time: float | None = None
    disk: float | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A group, and the advice on it by the name of the resource.

    Attributes
    ----------
    group : str
    advice : dict of str to Advice
    """

    group: str
    advice: dict[str, Advice] = field(default_factory=dict)

    def rungs(self, resource: str) -> tuple[float, ...]:
        """Give the request and what to ask for after each kill; nothing where it is kept."""
        one = self.advice.get(resource)
        return () if one is None else rungs(one)

    @property
    def cores(self) -> int | None:
        """Cores to ask for; None: as it is."""
        made = self.rungs("cores")
        return int(made[0]) if made else None

    @property
    def no_gpu(self) -> bool:
        """Whether no GPU is to be asked for."""
        return bool(self.rungs("gpus"))

    @property
    def any(self) -> bool:
        """Whether anything is to be changed."""
        return any(map(self.rungs, self.advice))

    def reasons(self, *, named: bool = True) -> list[str]:
        """Say, a line a resource, from what each request comes; memory goes without its name."""
        made = []
        for one in self.advice.values():
            word = one.resource.word
            parts = [plain(self.group)] if named else []
            parts += [word] if word != "memory" else []
            made.append(f"{', '.join(parts)}: {reason(one)}" if parts else reason(one))
        return made


def grouped(advice: Iterable[Advice]) -> list[Wanted]:
    """Put the advice on each group together, in the order in which groups come.

    Examples
    --------
    >>> from rotameter.allocator.advice import Advice
    >>> from rotameter.allocator.resources import TIME
    >>> blank = (9, None, None, None, None, (), None, None, None)
    >>> made = grouped([Advice("g", *blank), Advice("g", *blank, resource=TIME)])
    >>> [(one.group, list(one.advice)) for one in made]
    [('g', ['memory', 'time'])]
    """
    made: dict[str, Wanted] = {}
    for one in advice:
        made.setdefault(one.group, Wanted(one.group)).advice[one.resource.name] = one
    return list(made.values())


def whole(rungs: Sequence[float], unit: float, most: float | None = None) -> list[int]:
    """Give whole units that hold each amount and are not above a limit, none of them twice.

    Examples
    --------
    >>> whole((600.0, 1201.0, 1202.0), 60), whole((600.0, 9e9), 60, 7230.0)
    ([10, 21], [10, 120])
    """
    limit = math.inf if most is None else max(1, most // unit)
    return list(dict.fromkeys(int(min(math.ceil(rung / unit), limit)) for rung in rungs))


def minutes(rungs: Sequence[float], most_s: float | None = None) -> list[int]:
    """Give whole minutes that hold each duration, none of them twice."""
    return whole(rungs, 60, most_s)


def mebibytes(rungs: Sequence[float], most_bytes: float | None = None) -> list[int]:
    """Give whole units of 2^20 bytes that hold each amount, none of them twice."""
    return whole(rungs, 2**20, most_bytes)
