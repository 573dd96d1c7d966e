"""What a worker that runs any of the groups needs: the largest request for each thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Wanted

__all__ = ["OVERHEAD_BYTES", "PAUSE_RATIO", "no_cores", "worker_bytes", "worker_text"]

OVERHEAD_BYTES = 200 * 2**20
"""The worker process itself."""

PAUSE_RATIO = 0.7
"""A Dask worker begins to spill at this part of its limit."""


def worker_bytes(wanted: Sequence[Wanted], machine_bytes: float | None) -> int | None:
    """Give the memory of a worker of one thread, in whole MiB; None where nothing is known."""
    known = [made[0] for one in wanted if (made := one.rungs("memory"))]
    if not known:
        return None
    most_needed = (max(known) + OVERHEAD_BYTES) / PAUSE_RATIO
    most = math.inf if machine_bytes is None else machine_bytes // 2**20
    return int(min(math.ceil(most_needed / 2**20), most)) * 2**20


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
    memory = worker_bytes(wanted, machine_bytes)
    made = body(None if memory is None else memory // 2**20)
    return "\n".join([*lines, *(made or ["# nothing is changed"]), ""])
