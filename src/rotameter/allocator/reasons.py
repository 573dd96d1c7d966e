"""Plain words for why a group should ask for so much memory, or keep what it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from rotameter.units import format_bytes, format_number, many

__all__ = ["Basis", "why"]


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
    at_most : int
        Runs whose peak is an upper bound only.
    killed : int
    killed_bytes : float
        Attempts that ran out of memory, and the most that one of them had.
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
    at_most: int
    killed: int
    killed_bytes: float
    request_bytes: float
    most_bytes: float
    keep: str


def why(basis: Basis) -> str:
    """Say from what a request comes, or why what is asked for should be kept.

    Examples
    --------
    >>> why(Basis(40, 0, 2e9, 0.1, 1.0, 0, 0, 0.0, 2.2e9, 64e9, ""))
    'the largest of 40 runs used 2 GB; 10 % is added'
    >>> why(Basis(3, 0, 2e9, 0.1, 1.0, 0, 1, 4e9, 4.4e9, 64e9, "fewer than 5 runs"))
    'keep, because fewer than 5 runs (3); 1 attempt ran out of memory with 4 GB'
    """
    ran_out = ""
    if basis.killed:
        up_to = "up to " if basis.killed > 1 else ""
        ran_out = f"{many(basis.killed, 'attempt')} ran out of memory with {up_to}"
        ran_out += format_bytes(basis.killed_bytes)
    if basis.keep:
        said = [f"keep, because {basis.keep} ({basis.runs:,})", ran_out]
        return "; ".join(part for part in said if part)
    parts = [_base(basis)]
    if basis.growth > 1:
        parts.append(
            f"needs grew by {_percent(basis.growth - 1)} from the first half of the runs to the"
            " second, so as much is added once more"
        )
    if ran_out:
        # A failure decides where the request would else not be above it.
        lead = basis.killed_bytes >= basis.base_bytes * basis.growth
        parts.append(f"{ran_out}{', so more than that is asked for' if lead else ''}")
    if basis.request_bytes >= basis.most_bytes:
        parts.append(f"no machine has more than {format_bytes(basis.most_bytes)}")
    if basis.at_most:
        are = "is an upper bound" if basis.at_most == 1 else "are upper bounds"
        parts.append(f"{basis.at_most:,} of the peaks {are}")
    return "; ".join(parts)


def _base(basis: Basis) -> str:
    used = format_bytes(basis.base_bytes)
    added = f"; {_percent(basis.headroom)} is added" if basis.headroom else ""
    if not basis.over:
        return f"the largest of {many(basis.runs, 'run')} used {used}{added}"
    return (
        f"all but {basis.over:,} of {many(basis.runs, 'run')} used at most {used}{added},"
        " the others run again with more"
    )


def _percent(ratio: float) -> str:
    return f"{format_number(100 * ratio, 2)} %"
