"""A configuration to include with ``nextflow run -c``; its ``MB`` is 2^20 bytes.

Only what lack of memory ends (exit codes 104, 134, 137, 139, 143, 247) asks for more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._words import HEAD, plain, reason, rungs

if TYPE_CHECKING:
    from rotameter.allocator.advice import Advice

__all__ = ["text"]

CODES = (104, 134, 137, 139, 143, 247)


def _mb(amount: float) -> int:
    return math.ceil(amount / 2**20)


def _quoted(name: str) -> str:
    """Quote a process name; a dollar sign would be read as a variable."""
    inner = json.dumps(plain(name), ensure_ascii=False)[1:-1]
    return "'" + inner.replace('\\"', '"').replace("'", "\\'") + "'"


def text(advice: Sequence[Advice], machine_bytes: float | None) -> str:
    """Write a process scope: for each group its rungs by attempt, inside what a machine has."""
    most = math.inf if machine_bytes is None else math.floor(machine_bytes / 2**20)
    lines = [f"// {HEAD}", "// nextflow run … -c this.config"]
    if any(rungs(one) for one in advice):
        lines.append(
            "// For these processes errorStrategy and maxRetries replace the workflow's own."
        )
    lines.append("process {")
    if machine_bytes is None:
        lines.append("    // no resourceLimits: the largest machine was not named (--node-memory)")
    else:
        lines.append(f"    resourceLimits = [ memory: {most}.MB ]")
    for one in advice:
        made = list(dict.fromkeys(min(_mb(rung), most) for rung in rungs(one)))
        lines += ["", f"    // {reason(one)}"]
        if not made:
            lines.append(f"    // withName: {_quoted(one.group)}: nothing is changed")
            continue
        ladder = ", ".join(f"{rung}.MB" for rung in made)
        lines += [
            f"    withName: {_quoted(one.group)} {{",
            f"        memory = {{ [{ladder}][Math.min(task.attempt, {len(made)}) - 1] }}",
            f"        errorStrategy = {{ task.exitStatus in {list(CODES)} ? 'retry' : 'finish' }}",
            f"        maxRetries = {len(made) - 1}",
            "    }",
        ]
    return "\n".join([*lines, "}", ""])
