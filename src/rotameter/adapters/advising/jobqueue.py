"""A ``jobqueue.yaml`` for dask-jobqueue: workers of one thread that hold the largest request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD
from rotameter.adapters.advising._workers import comments, worker_bytes

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float) -> str:
    """Write the memory of a job; tasks spill from 70 % of it on, so it is larger than any need."""
    lines = [f"# {HEAD}", "# Save as ~/.config/dask/jobqueue.yaml.", *comments(advice)]
    memory = worker_bytes(advice, machine_bytes)
    if memory is None:
        return "\n".join([*lines, "# nothing is changed", ""])
    return "\n".join(
        [
            *lines,
            "jobqueue:",
            "  slurm:  # or pbs, sge, lsf, htcondor, oar",
            "    cores: 1      # for more, multiply the memory by as many",
            "    processes: 1",
            f"    memory: {memory // 2**20}MiB",
            "",
        ]
    )
