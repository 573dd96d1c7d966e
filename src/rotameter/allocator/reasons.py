"""Plain words for why a group should ask for so much, or keep what it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotameter.allocator.resources import MEMORY, TIME, Resource
from rotameter.units import format_number, many

__all__ = ["Basis", "named", "resting", "why"]

_WIDE = 60
_NAMED = 3
"""So many tasks of a bound are named."""

_SLIGHT = 0.005
"""Growth below it is not told of."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a request is made from.

    Attributes
    ----------
    runs, over : int
        Completed tasks whose use is known; those that needed more than ``base``.
    base : float
        The need that the request holds, before anything is added.
    headroom, growth : float
        Part that is added; factor by which needs grew meanwhile.
    counted, at_limit : int
        Runs whose peak is an upper bound only: page cache or other tasks of the process are
        counted; it is as large as the request.
    killed : int
    killed_with : float
        Attempts that ran out of it, and the most that one of them had; 0: not known.
    request, most : float
        What is advised; what the largest machine has, maybe infinite.
    keep : str
        Why nothing is advised.
    aside : int
        Runs whose upper bound is above ``base``, and which the request holds all the same.
    base_is_bound : bool
        Whether ``base`` is an upper bound.
    unsure : int
        Runs that ran out of it and of which it is not known whether the request is enough.
    floor : float
        Least that is advised, where that decides; else 0.
    top : float
        What holds all that was seen, and is more than what was not enough.
    asked : float
        What the completed runs asked for (the middle one); 0: not known.
    least : float
        The largest peak that is a lower bound: measured in part, or in a run that did not
        complete; 0: there is none.
    rests_on : tuple of str
        Tasks of the lower bound that decides about it, where one does.
    resource : Resource
        What is asked for, in whose unit all amounts are.
    """

    runs: int
    over: int
    base: float
    headroom: float
    growth: float
    counted: int
    at_limit: int
    killed: int
    killed_with: float
    request: float
    most: float
    keep: str
    aside: int = 0
    base_is_bound: bool = False
    unsure: int = 0
    floor: float = 0.0
    top: float = 0.0
    asked: float = 0.0
    least: float = 0.0
    rests_on: tuple[str, ...] = ()
    resource: Resource = MEMORY

    @property
    def at_least(self) -> float | None:
        """What is known not to be enough, where nothing is advised and to keep it would not do."""
        asked = 0 < self.asked <= self.killed_with
        # What completed runs asked for is that of the retry where less was not enough for them.
        known = self.keep and self.killed_with and (asked or not self.runs or self._needed_more)
        return max(self.killed_with, self.least) if known else None

    @property
    def _needed_more(self) -> bool:
        """Whether completed runs needed more than what was not enough."""
        return bool(self.runs) and 0 < self.killed_with < self.base

    @property
    def guess(self) -> float | None:
        """What to try: what holds the completed runs, or twice what was not enough for one."""
        least = self.at_least
        if least is None or least >= self.most:
            return None
        if self._needed_more and self.request > least:
            return self.request
        return min(2 * least, self.most)


def why(basis: Basis) -> str:
    """Say from what a request comes, or why what is asked for should be kept.

    Examples
    --------
    >>> why(Basis(40, 0, 2e9, 0.1, 1.0, 0, 0, 0, 0.0, 2.2e9, 64e9, ""))
    'the largest of 40 runs used 2 GB; 10 % is added'
    >>> why(Basis(3, 0, 2e9, 0.1, 1.0, 0, 0, 1, 4e9, 4.4e9, 64e9, "fewer than 5 runs"))
    'keep, because fewer than 5 runs (3 runs); 1 attempt ran out of memory with 4 GB'
    """
    resource, ran_out = basis.resource, _ran_out(basis)
    if basis.keep:
        return _kept(basis, ran_out)
    # A failure decides where the request would else not be above it.
    if ran_out and basis.killed_with >= basis.base * basis.growth:
        parts = [f"{ran_out}, so more than that is asked for", _base(basis, added=False)]
    else:
        parts = [_base(basis), _grew(basis), ran_out]
    if basis.unsure:
        runs = many(basis.unsure, "run")
        parts.append(
            f"whether it is enough for {runs} that ran out of {resource.ran_out} is not known"
        )
    if basis.least > basis.base:
        parts.append(_least(basis))
    if basis.floor:
        parts.append(f"{resource.text(basis.floor)} at least: less saves nothing")
    if basis.request >= basis.most:
        parts.append(f"no more than {resource.room} {resource.text(basis.most)}")
    parts += [*_bounds(basis), resting(basis.rests_on)]
    return "; ".join(part for part in parts if part)


def resting(names: Sequence[str]) -> str:
    """Say on which tasks' lower bound a request rests; empty where it does on none.

    Examples
    --------
    >>> resting(["t7"])
    'this rests on task t7, of which only a lower bound is known'
    """
    return f"this rests on {named(names)}, of which only a lower bound is known" if names else ""


def named(names: Sequence[str]) -> str:
    """Name tasks, the first few of them.

    Examples
    --------
    >>> named(["a"]), named(["a", "b", "c", "d", "e"])
    ('task a', 'tasks a, b, c and 2 more')
    """
    shown = ", ".join(_plain(name) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{'task' if len(names) == 1 else 'tasks'} {shown}{more}"


def _plain(name: str) -> str:
    """Give a name on one line that is not too long."""
    line = "".join(c if c.isprintable() else " " for c in name)
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def _ran_out(basis: Basis) -> str:
    if not basis.killed:
        return ""
    said = f"{many(basis.killed, 'attempt')} ran out of {basis.resource.ran_out}"
    if not basis.killed_with:
        return f"{said}, with how much is not known"
    up_to = "up to " if basis.killed > 1 else ""
    return f"{said} with {up_to}{basis.resource.text(basis.killed_with)}"


def _kept(basis: Basis, ran_out: str) -> str:
    least, guess, text = basis.at_least, basis.guess, basis.resource.text
    runs = f" ({many(basis.runs, 'run')})" if basis.runs else ""
    if least is None:
        said = [f"keep, because {basis.keep}{runs}", ran_out]
    else:
        some = " by some runs" if basis.runs else ""
        more = f"more than {text(least)} is needed{some}, how much more is not known"
        if basis._needed_more:
            more = f"more than {text(least)} is needed, a run used {text(basis.base)}"
            said = [f"{more}; no more is advised, because {basis.keep}{runs}", ran_out]
        else:
            said = [f"{more}, because {basis.keep}{runs}", ran_out]
        said += [] if guess is None else [f"a guess to try: {text(guess)}"]
        if least >= basis.most:
            said.append(basis.resource.has(basis.most))
    said += [*_bounds(basis), resting(basis.rests_on) if least is not None else ""]
    return "; ".join(part for part in said if part)


def _base(basis: Basis, *, added: bool = True) -> str:
    used = ("at most " if basis.base_is_bound else "") + basis.resource.text(basis.base)
    did, largest = basis.resource.used, basis.resource.largest
    added = added and not basis.base_is_bound
    more = f"; {_percent(basis.headroom)} is added" if basis.headroom and added else ""
    if not basis.over:
        aside = ", those with an upper bound aside" if basis.aside else ""
        return f"the {largest} of {many(basis.runs, 'run')} {did} {used}{aside}{more}"
    others = "the other runs" if basis.over == 1 else "the others run"
    most = f"all but {basis.over:,} of {many(basis.runs, 'run')} {did} {used} or less"
    return f"{most}{more}; {others} again with more"


def _least(basis: Basis) -> str:
    if basis.resource is TIME:
        said = f"an attempt that did not complete had taken {TIME.text(basis.least)} by then"
    else:
        said = f"a run used at least {basis.resource.text(basis.least)}"
    return said if basis.least <= basis.request else f"{said}, and runs again with more"


def _bounds(basis: Basis) -> list[str]:
    """Say how many peaks are upper bounds, and why they are."""
    if basis.resource is TIME:
        at_limit = many(basis.at_limit, "run ended at its limit", "runs ended at their limit")
        told = basis.at_limit and not basis.keep
        return [f"{at_limit}, nothing is added to that"] if told else []
    made = []
    if basis.counted:
        verb = "includes" if basis.counted == 1 else "include"
        peaks = many(basis.counted, "peak")
        made.append(f"{peaks} {verb} {basis.resource.counted}")
    if basis.at_limit:
        verb = "is" if basis.at_limit == 1 else "are"
        made.append(f"{many(basis.at_limit, 'peak')} {verb} as large as the request")
    return made


def _grew(basis: Basis) -> str:
    if basis.growth <= 1 + _SLIGHT:
        return ""
    return (
        "needs grew from the first half of the runs to the second, so"
        f" {_percent(basis.growth - 1)} is added once more"
    )


def _percent(ratio: float) -> str:
    return f"{format_number(100 * ratio, 2)} %"
