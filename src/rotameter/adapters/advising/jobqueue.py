"""A ``jobqueue.yaml`` for dask-jobqueue: workers of one thread that hold the largest request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._workers import worker_text

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write a worker's memory; tasks spill from 70 % of it on, so it is larger than any need."""

    def body(mib: int) -> list[str]:
        return [
            "jobqueue:",
            "  slurm:  # or pbs, sge, lsf, htcondor, oar",
            "    cores: 1      # for more, multiply the memory by as many",
            "    processes: 1",
            f"    memory: {mib}MiB",
        ]

    return worker_text(advice, machine_bytes, "Save as ~/.config/dask/jobqueue.yaml.", body)
