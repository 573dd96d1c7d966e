"""A workflow profile for ``snakemake --workflow-profile``; ``mem_mb`` is 10^6 bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD, plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["left_out", "text"]


def _nameable(one: Advice) -> bool:
    """Say whether a profile can name a rule: it becomes ``RULE:RESOURCE=VALUE,…``."""
    plainly = plain(one.group) == one.group and not one.group.startswith("-")
    return plainly and not set(one.group) & set(":,")


def left_out(advice: Sequence[Advice]) -> list[str]:
    """Say which groups with a request cannot be named."""
    names = [plain(one.group) for one in advice if rungs(one) and not _nameable(one)]
    if not names:
        return []
    it = "it" if len(names) == 1 else "them"
    return [f"left out, because Snakemake's profile cannot name {it}: {'; '.join(names)}"]


def text(advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write ``set-resources``: for each rule its rungs by attempt."""
    lines = [
        f"# {HEAD}",
        "# Save as FOLDER/config.yaml:  snakemake --workflow-profile FOLDER",
    ]
    told = {one.group: rungs(one) if _nameable(one) else () for one in advice}
    most = max(map(len, told.values()), default=0)
    if most > 1:
        lines.append(f"retries: {most - 1}")
    body = []
    for one in advice:
        made = [math.ceil(rung / 1e6) for rung in told[one.group]]
        body.append(f"  # {plain(one.group)}: {reason(one)}")
        if rungs(one) and not made:
            body.append("  # left out: a profile cannot name this rule")
        if made:
            ladder = f"{made}[min(attempt, {len(made)}) - 1]" if len(made) > 1 else f"{made[0]}"
            body += [f"  {json.dumps(plain(one.group))}:", f'    mem_mb: "{ladder}"']
    if most:
        lines.append("set-resources:")
    return "\n".join([*lines, *body, ""])
