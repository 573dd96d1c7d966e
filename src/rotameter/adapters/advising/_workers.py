"""What a worker that runs any of the groups needs: the largest request for each thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD, plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["OVERHEAD_BYTES", "PAUSE_RATIO", "worker_bytes", "worker_text"]

OVERHEAD_BYTES = 200 * 2**20
"""The worker process itself."""

PAUSE_RATIO = 0.7
"""A Dask worker begins to spill at this part of its limit."""


def worker_bytes(advice: Sequence[Advice], machine_bytes: float | None) -> int | None:
    """Give the memory of a worker of one thread, in whole MiB; None where nothing is known."""
    known = [rungs(one)[0] for one in advice if rungs(one)]
    if not known:
        return None
    wanted = (max(known) + OVERHEAD_BYTES) / PAUSE_RATIO
    most = math.inf if machine_bytes is None else machine_bytes // 2**20
    return int(min(math.ceil(wanted / 2**20), most)) * 2**20


def worker_text(
    advice: Sequence[Advice],
    machine_bytes: float | None,
    place: str,
    body: Callable[[int], list[str]],
) -> str:
    """Write a file: where it belongs, from what each need comes, and what a worker gets."""
    lines = [f"# {HEAD}", f"# {place}"]
    lines += [f"# {plain(one.group)}: {reason(one)}" for one in advice]
    memory = worker_bytes(advice, machine_bytes)
    lines += ["# nothing is changed"] if memory is None else body(memory // 2**20)
    return "\n".join([*lines, ""])
