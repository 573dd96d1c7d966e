"""What a worker that runs any of the groups needs, for each thread: the largest request.

Groups that are kept count with what they asked for and used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import mebibytes
from rotameter.adapters.advising._words import HEAD, plain
from rotameter.units import format_bytes

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Wanted

__all__ = [
    "OVERHEAD_BYTES",
    "PAUSE_RATIO",
    "decides",
    "held",
    "no_cores",
    "tight",
    "worker_bytes",
    "worker_text",
]

OVERHEAD_BYTES = 200 * 2**20
"""The worker process itself."""

PAUSE_RATIO = 0.7
"""A Dask worker begins to spill at this part of its limit."""


def held(wanted: Sequence[Wanted], resource: str) -> tuple[float, str] | None:
    """Give the most that a worker needs for any group, and whose it is; None: nothing is advised.

    A group that is kept runs there too: it needs what it asked for, and what its runs used.
    """
    if not any(one.rungs(resource) for one in wanted):
        return None
    return max(
        (most, one.group) for one in wanted if (most := _most(one, resource)) is not None
    )  # fmt: skip


def _most(one: Wanted, resource: str) -> float | None:
    made = one.rungs(resource)
    if made:
        return made[0]
    kept = one.advice.get(resource)
    said = () if kept is None else (kept.asked, kept.most, kept.at_least, kept.guess)
    return max((amount for amount in said if amount is not None), default=None)


def decides(wanted: Sequence[Wanted], resource: str) -> list[str]:
    """Say which groups that are kept a worker is made for, and of which it is not known."""
    found = held(wanted, resource)
    if found is None:
        return []
    lines = []
    for one in wanted:
        if resource not in one.advice or one.rungs(resource):
            continue
        text = one.advice[resource].resource.text
        if _most(one, resource) is None:
            lines.append(f"{resource}: what {plain(one.group)} needs is not known")
        elif one.group == found[1]:
            lines.append(f"{resource}: {text(found[0])} for {plain(one.group)}, which is kept")
    return lines


def worker_bytes(wanted: Sequence[Wanted], machine_bytes: float | None) -> int | None:
    """Give the memory of a worker of one thread, in whole MiB; None where nothing is advised."""
    found = held(wanted, "memory")
    if found is None:
        return None
    (mib,) = mebibytes(((found[0] + OVERHEAD_BYTES) / PAUSE_RATIO,), machine_bytes)
    return mib * 2**20


def tight(wanted: Sequence[Wanted], machine_bytes: float | None) -> list[str]:
    """Say that a machine is too small for a worker that stays below where it spills."""
    found, memory = held(wanted, "memory"), worker_bytes(wanted, machine_bytes)
    if found is None or memory is None:
        return []
    full_ratio = (found[0] + OVERHEAD_BYTES) / memory
    # Whole MiB: a worker that was not cut is not short by their rounding.
    if full_ratio <= PAUSE_RATIO + 2**20 / memory:
        return []
    return [
        f"a worker has {format_bytes(memory)}, all of a machine: {format_bytes(found[0], 3)} for "
        f"{plain(found[1])} and {OVERHEAD_BYTES // 2**20} MiB of its own are {full_ratio:.0%} of "
        "it. Dask spills from 70 %, pauses from 80 % and ends a worker at 95 %: take larger "
        f"machines ({format_bytes((found[0] + OVERHEAD_BYTES) / PAUSE_RATIO, 3)} is enough)"
    ]


def no_cores(wanted: Sequence[Wanted]) -> list[str]:
    """Say that fewer cores of a task have no place where a worker has one thread."""
    if not any(one.cores for one in wanted):
        return []
    return ["cores are left out: each worker has one thread, whatever its tasks ask for"]


def worker_text(
    wanted: Sequence[Wanted],
    machine_bytes: float | None,
    place: str,
    body: Callable[[int | None], list[str]],
) -> str:
    """Write a file: where it belongs, from what each need comes, and what a worker gets."""
    lines = [f"# {HEAD}", f"# {place}"]
    lines += [f"# {said}" for one in wanted for said in one.reasons()]
    lines += [f"# {said}" for said in decides(wanted, "memory")]
    lines += [f"# {said}" for said in tight(wanted, machine_bytes)]
    memory = worker_bytes(wanted, machine_bytes)
    made = body(None if memory is None else memory // 2**20)
    return "\n".join([*lines, *(made or ["# nothing is changed"]), ""])
