"""Resources of containers, a document a group; ``Mi`` is 2^20 bytes.

Request and limit are the same: memory that is asked for is there, and a kill is the pod's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD, plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]


def text(advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write a ``resources`` block for each group."""
    lines = [f"# {HEAD}", "# One document a group: its block belongs under the container."]
    for one in advice:
        made = [f"{math.ceil(rung / 2**20)}Mi" for rung in rungs(one)]
        lines += ["---", f"# {plain(one.group)}: {reason(one)}"]
        if not made:
            continue
        if made[1:]:
            lines.append(f"# after an OOMKilled: {', '.join(made[1:])}")
        lines += [
            "resources:",
            f'  requests: {{memory: "{made[0]}"}}',
            f'  limits: {{memory: "{made[0]}"}}',
        ]
    return "\n".join([*lines, ""])
