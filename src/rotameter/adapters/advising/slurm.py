"""Lines for batch scripts, one a group; ``M`` is 2^20 bytes there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD, plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write ``#SBATCH`` lines under each group's name."""
    lines = [f"# {HEAD}", "# Copy the line of a job's group into its script.", ""]
    for one in advice:
        lines.append(f"# {plain(one.group)}: {reason(one)}")
        made = [math.ceil(rung / 2**20) for rung in rungs(one)]
        if made:
            lines.append(f"#SBATCH --mem={made[0]}M")
            then = ", ".join(f"--mem={rung}M" for rung in made[1:])
            lines += [f"# after a kill (OUT_OF_MEMORY): {then}"] if then else []
        lines.append("")
    return "\n".join(lines)
