"""Resources of containers, a document a group; ``Mi`` is 2^20 bytes.

Request and limit of memory are the same: memory that is asked for is there, and a kill is the pod's
own. Cores have no limit: that would slow down what at times keeps more busy than on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import minutes
from rotameter.adapters.advising._words import HEAD

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Wanted

__all__ = ["text"]


def text(wanted: Sequence[Wanted], machine_bytes: float | None, queue_s: float | None) -> str:
    """Write a ``resources`` block for each group, and the limit of its Job's time."""
    lines = [f"# {HEAD}", "# One document a group: its block belongs under the container."]
    if any(one.rungs("time") for one in wanted):
        lines += [
            "# activeDeadlineSeconds belongs under spec.template.spec of a Job, where it counts",
            "# for each pod anew; right under spec it counts for all its pods together.",
        ]
    for one in wanted:
        lines += ["---", *(f"# {said}" for said in one.reasons())]
        lines += _resources(one)
        limits = [60 * rung for rung in minutes(one.rungs("time"), queue_s)]
        if limits[1:]:
            lines.append(f"# after a DeadlineExceeded: {', '.join(map(str, limits[1:]))}")
        lines += [f"activeDeadlineSeconds: {limits[0]}"] if limits else []
    return "\n".join([*lines, ""])


def _resources(one: Wanted) -> list[str]:
    memory = [f"{math.ceil(rung / 2**20)}Mi" for rung in one.rungs("memory")]
    asked = [f'cpu: "{one.cores}"'] if one.cores else []
    asked += [f'memory: "{memory[0]}"'] if memory else []
    if not asked:
        return []
    lines = [f"# after an OOMKilled: {', '.join(memory[1:])}"] if memory[1:] else []
    lines += ["resources:", f"  requests: {{{', '.join(asked)}}}"]
    return [*lines, *([f'  limits: {{memory: "{memory[0]}"}}'] if memory else [])]
