"""Resources of containers, a document a group; ``Mi`` is 2^20 bytes.

Request and limit of memory, and of a disk, are the same: what is asked for is there, and a kill is
the pod's own. Cores have no limit: that would slow down what at times keeps more busy than on
average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import mebibytes, minutes
from rotameter.adapters.advising._words import HEAD

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Most, Wanted

__all__ = ["text"]


def text(wanted: Sequence[Wanted], limits: Most) -> str:
    """Write a ``resources`` block for each group, and the limit of its Job's time."""
    lines = [f"# {HEAD}", "# One document a group: its block belongs under the container."]
    if any(one.rungs("time") for one in wanted):
        lines += [
            "# activeDeadlineSeconds belongs under spec.template.spec of a Job, where it counts",
            "# for each pod anew; right under spec it counts for all its pods together.",
        ]
    for one in wanted:
        lines += ["---", *(f"# {said}" for said in one.reasons())]
        lines += _resources(one, limits)
        times = [60 * rung for rung in minutes(one.rungs("time"), limits.time)]
        if times[1:]:
            lines.append(f"# after a DeadlineExceeded: {', '.join(map(str, times[1:]))}")
        lines += [f"activeDeadlineSeconds: {times[0]}"] if times else []
    return "\n".join([*lines, ""])


def _resources(one: Wanted, limits: Most) -> list[str]:
    memory, disk = (
        [f"{rung}Mi" for rung in mebibytes(one.rungs(name), most)]
        for name, most in (("memory", limits.memory), ("disk", limits.disk))
    )
    held = [f'memory: "{memory[0]}"'] if memory else []
    held += [f'ephemeral-storage: "{disk[0]}"'] if disk else []
    asked = [*([f'cpu: "{one.cores}"'] if one.cores else []), *held]
    lines = [f"# after an OOMKilled: {', '.join(memory[1:])}"] if memory[1:] else []
    lines += [f"# after an eviction (ephemeral-storage): {', '.join(disk[1:])}"] if disk[1:] else []
    lines += ["# leave out its limit of GPUs (nvidia.com/gpu or the like)"] if one.no_gpu else []
    lines += ["resources:", f"  requests: {{{', '.join(asked)}}}"] if asked else []
    return [*lines, *([f"  limits: {{{', '.join(held)}}}"] if held else [])]
