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


def why(basis: Basis) -> str:
    """Say from what a request comes, or why what is asked for should be kept.

    Examples
    --------
    >>> why(Basis(40, 0, 2e9, 0.1, 1.0, 0, 0, 0, 0.0, 2.2e9, 64e9, ""))
    'the largest of 40 runs used 2 GB; 10 % is added'
    >>> why(Basis(3, 0, 2e9, 0.1, 1.0, 0, 0, 1, 4e9, 4.4e9, 64e9, "fewer than 5 runs"))
    'keep, because fewer than 5 runs (3 runs); 1 attempt ran out of memory with 4 GB'
    """
    ran_out = ""
    if basis.killed:
        up_to = "up to " if basis.killed > 1 else ""
        had = f"with {up_to}{format_bytes(basis.killed_bytes)}" if basis.killed_bytes else ""
        ran_out = f"{many(basis.killed, 'attempt')} ran out of memory"
        ran_out += f" {had}" if had else ", with how much is not known"
    if basis.keep:
        said = [f"keep, because {basis.keep} ({many(basis.runs, 'run')})", ran_out, *_bounds(basis)]
        return "; ".join(part for part in said if part)
    # A failure decides where the request would else not be above it.
    if ran_out and basis.killed_bytes >= basis.base_bytes * basis.growth:
        parts = [f"{ran_out}, so more than that is asked for", _base(basis, added=False)]
    else:
        parts = [_base(basis), _grew(basis), ran_out]
    if basis.request_bytes >= basis.most_bytes:
        parts.append(f"no more than a machine's {format_bytes(basis.most_bytes)}")
    parts += _bounds(basis)
    return "; ".join(part for part in parts if part)


def _base(basis: Basis, *, added: bool = True) -> str:
    used = format_bytes(basis.base_bytes)
    more = f"; {_percent(basis.headroom)} is added" if basis.headroom and added else ""
    if not basis.over:
        return f"the largest of {many(basis.runs, 'run')} used {used}{more}"
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
