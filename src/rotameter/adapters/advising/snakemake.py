"""A workflow profile for ``snakemake --workflow-profile``; ``mem_mb`` is 10^6 bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD, plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float) -> str:
    """Write ``set-resources``: for each rule its rungs by attempt."""
    lines = [
        f"# {HEAD}",
        "# Save as FOLDER/config.yaml:  snakemake --workflow-profile FOLDER",
    ]
    most = max((len(rungs(one)) for one in advice), default=0)
    if most > 1:
        lines.append(f"retries: {most - 1}")
    body = []
    for one in advice:
        made = [math.ceil(rung / 1e6) for rung in rungs(one)]
        body.append(f"  # {plain(one.group)}: {reason(one)}")
        if made:
            ladder = f"{made}[min(attempt, {len(made)}) - 1]" if len(made) > 1 else f"{made[0]}"
            body += [f"  {json.dumps(plain(one.group))}:", f'    mem_mb: "{ladder}"']
    if any(rungs(one) for one in advice):
        lines.append("set-resources:")
    return "\n".join([*lines, *body, ""])
