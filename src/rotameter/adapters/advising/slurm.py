"""Lines for batch scripts, one block a group; ``M`` is 2^20 bytes there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import clock, minutes
from rotameter.adapters.advising._words import HEAD

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Wanted

__all__ = ["text"]


def text(wanted: Sequence[Wanted], machine_bytes: float | None, queue_s: float | None) -> str:
    """Write ``#SBATCH`` lines under each group's name."""
    lines = [f"# {HEAD}", "# Copy the line of a job's group into its script."]
    if any(one.cores for one in wanted):
        lines += [
            "# --cpus-per-task is for jobs of one task. Memory that is asked for by --mem-per-cpu",
            "# shrinks with it: ask by --mem. Tell the program its number of threads, too.",
        ]
    lines.append("")
    for one in wanted:
        lines += [f"# {said}" for said in one.reasons()]
        memory = [f"--mem={math.ceil(rung / 2**20)}M" for rung in one.rungs("memory")]
        lines += _climbed(memory, "a kill (OUT_OF_MEMORY)")
        limits = [f"--time={clock(rung)}" for rung in minutes(one.rungs("time"), queue_s)]
        lines += _climbed(limits, "a kill (TIMEOUT)")
        lines += [f"#SBATCH --cpus-per-task={one.cores}"] if one.cores else []
        lines.append("")
    return "\n".join(lines)


def _climbed(options: Sequence[str], after: str) -> list[str]:
    if not options:
        return []
    then = ", ".join(options[1:])
    return [f"#SBATCH {options[0]}", *([f"# after {after}: {then}"] if then else [])]
