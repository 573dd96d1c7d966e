"""A ``jobqueue.yaml`` for dask-jobqueue: workers of one thread that hold the largest request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import minutes
from rotameter.adapters.advising._workers import decides, held, no_cores, worker_text
from rotameter.units import clock

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Most, Wanted

__all__ = ["left_out", "text"]


def left_out(wanted: Sequence[Wanted]) -> list[str]:
    """Say what a worker's job has no place for."""
    return no_cores(wanted)


def text(wanted: Sequence[Wanted], limits: Most) -> str:
    """Write a worker's memory; tasks spill from 70 % of it on, so it is larger than any need.

    Its time holds the longest request, also of what is kept; no more than one such task after
    another is known.
    """
    longest = held(wanted, "time")

    def body(mib: int | None) -> list[str]:
        """Write the lines for a worker of so much memory; none where nothing is advised."""
        if mib is None and longest is None:
            return []
        lines = ["jobqueue:", "  slurm:  # or pbs, sge, lsf, htcondor, oar"]
        if mib is not None:
            lines += [
                "    cores: 1      # for more, multiply the memory by as many",
                "    processes: 1",
                f"    memory: {mib}MiB",
            ]
        if longest is not None:
            (limit,) = minutes((longest[0],), limits.time)
            lines += [f"    # {said}" for said in decides(wanted, "time")]
            lines += [
                "    # Holds the longest task alone, begun at once: a worker that runs several",
                "    # after one another needs the sum of theirs. lsf wants 'HH:MM'.",
                f"    walltime: '{clock(limit, days=False)}'",
            ]
        return lines

    return worker_text(wanted, limits.memory, "Save as ~/.config/dask/jobqueue.yaml.", body)
