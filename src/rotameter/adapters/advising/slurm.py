"""Lines for batch scripts, one block a group; ``M`` is 2^20 bytes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import mebibytes, minutes
from rotameter.adapters.advising._words import HEAD
from rotameter.units import clock

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Most, Wanted

__all__ = ["text"]


def text(wanted: Sequence[Wanted], limits: Most) -> str:
    """Write ``#SBATCH`` lines under each group's name."""
    lines = [f"# {HEAD}", "# Copy the line of a job's group into its script."]
    if any(one.cores for one in wanted):
        lines += [
            "# --cpus-per-task is for jobs of one task. Memory that is asked for by --mem-per-cpu",
            "# shrinks with it: ask by --mem. Tell the program its number of threads, too.",
        ]
    if any(one.rungs("disk") for one in wanted):
        lines.append("# --tmp asks for nodes whose disk has so much; it is not kept for the job.")
    if any(one.no_gpu for one in wanted):
        lines.append("# --gpus=0 replaces the script's own --gpus and --gres=gpu: leave these out.")
    lines.append("")
    for one in wanted:
        lines += [f"# {said}" for said in one.reasons()]
        memory = [f"--mem={rung}M" for rung in mebibytes(one.rungs("memory"), limits.memory)]
        lines += _climbed(memory, "a kill (OUT_OF_MEMORY)")
        times = [f"--time={clock(rung)}" for rung in minutes(one.rungs("time"), limits.time)]
        lines += _climbed(times, "a kill (TIMEOUT)")
        lines += [f"#SBATCH --cpus-per-task={one.cores}"] if one.cores else []
        disk = [f"--tmp={rung}M" for rung in mebibytes(one.rungs("disk"), limits.disk)]
        lines += _climbed(disk, "it ran out of disk")
        lines += ["#SBATCH --gpus=0"] if one.no_gpu else []
        lines.append("")
    return "\n".join(lines)


def _climbed(options: Sequence[str], after: str) -> list[str]:
    if not options:
        return []
    then = ", ".join(options[1:])
    return [f"#SBATCH {options[0]}", *([f"# after {after}: {then}"] if then else [])]
