"""Plain words for why a group should ask for so much memory, or keep what it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from rotameter.units import format_bytes, format_number, many

__all__ = ["Basis", "why"]

_SLIGHT = 0.005
"""Growth below it is not told of."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a request is made from.

    Attributes
    ----------
    runs, over : int
        Completed tasks whose use is known; those that needed more than ``base_bytes``.
    base_bytes : float
        The need that the request holds, before anything is added.
    headroom, growth : float
        Part that is added; factor by which needs grew meanwhile.
    counted, at_limit : int
        Runs whose peak is an upper bound only: page cache or other tasks of the process are
        counted; it is as large as the request.
    killed : int
    killed_bytes : float
        Attempts that ran out of memory, and the most that one of them had; 0: not known.
    request_bytes, most_bytes : float
        What is advised; what the largest machine has, maybe infinite.
    keep : str
        Why nothing is advised.
    aside : int
        Runs whose upper bound is above ``base_bytes``, and which the request holds all the same.
    base_is_bound : bool
        Whether ``base_bytes`` is an upper bound.
    unsure : int
        Runs that ran out of memory and of which it is not known whether the request is enough.
    floor_bytes : float
        Least that is advised, where that decides; else 0.
    top_bytes : float
        What holds all that was seen, and is more than what was not enough.
    asked_bytes : float
        What the completed runs asked for (the middle one); 0: not known.
    least_bytes : float
        The largest peak of completed runs that is a lower bound; 0: there is none.
    """

    runs: int
    over: int
    base_bytes: float
    headroom: float
    growth: float
    counted: int
    at_limit: int
    killed: int
    killed_bytes: float
    request_bytes: float
    most_bytes: float
    keep: str
    aside: int = 0
    base_is_bound: bool = False
    unsure: int = 0
    floor_bytes: float = 0.0
    top_bytes: float = 0.0
    asked_bytes: float = 0.0
    least_bytes: float = 0.0

    @property
    def at_least_bytes(self) -> float | None:
        """What is known not to be enough, where nothing is advised and to keep it would not do."""
        asked = 0 < self.asked_bytes <= self.killed_bytes
        known = self.keep and self.killed_bytes and (asked or not self.runs)
        return max(self.killed_bytes, self.least_bytes) if known else None

    @property
    def guess_bytes(self) -> float | None:
        """What to try where nothing but a lower bound is known: twice as much."""
        least = self.at_least_bytes
        if least is None or least >= self.most_bytes:
            return None
        return min(2 * least, self.most_bytes)


def why(basis: Basis) -> str:
    """Say from what a request comes, or why what is asked for should be kept.

    Examples
    --------
    >>> why(Basis(40, 0, 2e9, 0.1, 1.0, 0, 0, 0, 0.0, 2.2e9, 64e9, ""))
    'the largest of 40 runs used 2 GB; 10 % is added'
    >>> why(Basis(3, 0, 2e9, 0.1, 1.0, 0, 0, 1, 4e9, 4.4e9, 64e9, "fewer than 5 runs"))
    'keep, because fewer than 5 runs (3 runs); 1 attempt ran out of memory with 4 GB'
    """
    ran_out = _ran_out(basis)
    if basis.keep:
        return _kept(basis, ran_out)
    # A failure decides where the request would else not be above it.
    if ran_out and basis.killed_bytes >= basis.base_bytes * basis.growth:
        parts = [f"{ran_out}, so more than that is asked for", _base(basis, added=False)]
    else:
        parts = [_base(basis), _grew(basis), ran_out]
    if basis.unsure:
        runs = many(basis.unsure, "run")
        parts.append(f"whether it is enough for {runs} that ran out of memory is not known")
    if basis.least_bytes > basis.base_bytes:
        parts.append(f"a run used at least {format_bytes(basis.least_bytes)}")
    if basis.floor_bytes:
        parts.append(f"{format_bytes(basis.floor_bytes)} at least: less saves nothing")
    if basis.request_bytes >= basis.most_bytes:
        parts.append(f"no more than a machine's {format_bytes(basis.most_bytes)}")
    parts += _bounds(basis)
    return "; ".join(part for part in parts if part)


def _ran_out(basis: Basis) -> str:
    if not basis.killed:
        return ""
    said = f"{many(basis.killed, 'attempt')} ran out of memory"
    if not basis.killed_bytes:
        return f"{said}, with how much is not known"
    up_to = "up to " if basis.killed > 1 else ""
    return f"{said} with {up_to}{format_bytes(basis.killed_bytes)}"


def _kept(basis: Basis, ran_out: str) -> str:
    least, guess = basis.at_least_bytes, basis.guess_bytes
    runs = f" ({many(basis.runs, 'run')})" if basis.runs else ""
    if least is None:
        said = [f"keep, because {basis.keep}{runs}", ran_out]
    else:
        some = " by some runs" if basis.runs else ""
        more = f"more than {format_bytes(least)} is needed{some}, how much more is not known"
        said = [f"{more}, because {basis.keep}{runs}", ran_out]
        said += [] if guess is None else [f"a guess to try: {format_bytes(guess)}"]
        if least >= basis.most_bytes:
            said.append(f"a machine has {format_bytes(basis.most_bytes)}")
    return "; ".join(part for part in [*said, *_bounds(basis)] if part)


def _base(basis: Basis, *, added: bool = True) -> str:
    used = ("at most " if basis.base_is_bound else "") + format_bytes(basis.base_bytes)
    added = added and not basis.base_is_bound
    more = f"; {_percent(basis.headroom)} is added" if basis.headroom and added else ""
    if not basis.over:
        aside = ", those with an upper bound aside" if basis.aside else ""
        return f"the largest of {many(basis.runs, 'run')} used {used}{aside}{more}"
    others = "the other runs" if basis.over == 1 else "the others run"
    most = f"all but {basis.over:,} of {many(basis.runs, 'run')} used {used} or less"
    return f"{most}{more}; {others} again with more"


def _bounds(basis: Basis) -> list[str]:
    """Say how many peaks are upper bounds, and why they are."""
    made = []
    if basis.counted:
        verb = "includes" if basis.counted == 1 else "include"
        peaks = many(basis.counted, "peak")
        made.append(f"{peaks} {verb} page cache or other tasks of the process")
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
