"""A configuration to include with ``nextflow run -c``; its ``MB`` is 2^20 bytes.

Only what lack of memory ends (exit codes 104, 134, 137, 139, 143, 247) asks for more memory. Where
time is asked for as well, each of the two grows after its own end alone: 140 is a time limit (the
USR2 that Nextflow has Slurm send, and that of LSF and SGE); 143 and 137 are one where the attempt
lasted for nearly all of its limit. What else is tried again, pre-emption above all, asks for what
it had: Nextflow tells of the attempt before from 24.10 on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rotameter.adapters.advising._wanted import mebibytes, minutes
from rotameter.adapters.advising._words import HEAD, plain

if TYPE_CHECKING:
    from rotameter.adapters.advising._wanted import Most, Wanted

__all__ = ["text"]

CODES = (104, 134, 137, 139, 143, 247)

_SURE = (104, 134, 139, 247)
"""Lack of memory, whatever the time; 137 (SIGKILL) may also be a time limit, 143 a pre-emption."""

_TIME = 140
_LATE = "was.time && (was.realtime ?: 0) >= 0.9 * was.time"


def _quoted(name: str) -> str:
    """Quote a process name; a dollar sign would be read as a variable."""
    inner = json.dumps(plain(name), ensure_ascii=False)[1:-1]
    return "'" + inner.replace('\\"', '"').replace("'", "\\'") + "'"


def text(wanted: Sequence[Wanted], limits: Most) -> str:
    """Write a process scope: for each group its rungs by attempt, inside what a machine has."""
    lines = ["process {", *_limits(wanted, limits)]
    for one in wanted:
        lines += ["", *(f"    // {said}" for said in one.reasons(named=False))]
        if one.any:
            lines += [f"    withName: {_quoted(one.group)} {{"]
            lines += [*(f"        {line}" for line in _body(one, limits)), "    }"]
        else:
            lines.append(f"    // withName: {_quoted(one.group)}: nothing is changed")
    made = "\n".join([*lines, "}", ""])
    head = [f"// {HEAD}", "// nextflow run … -c this.config"]
    if "maxRetries =" in made:
        head.append(
            "// For these processes errorStrategy and maxRetries replace the workflow's own."
        )
    if "task.previousTrace" in made:
        head.append("// More is asked for after a kill alone; before Nextflow 24.10 by attempt.")
    return "\n".join([*head, made])


def _body(one: Wanted, limits: Most) -> list[str]:
    memory = [f"{rung}.MB" for rung in mebibytes(one.rungs("memory"), limits.memory)]
    time = [f"{rung}.min" for rung in minutes(one.rungs("time"), limits.time)]
    return [
        *([f"cpus = {one.cores}"] if one.cores else []),
        *(_by_cause(memory, time) if "time" in one.advice else _by_attempt(memory)),
        *_disk(one, limits),
        *(["accelerator = null"] if one.no_gpu else []),
    ]


def _limits(wanted: Sequence[Wanted], limits: Most) -> list[str]:
    """Write what no request is beyond, of the resources that advice is on."""
    told = {name for one in wanted for name in one.advice}
    most, disk, queue_s = limits.memory, limits.disk, limits.time
    known = [f"memory: {mebibytes((most,), most)[0]}.MB"] if most is not None else []
    known += [f"disk: {mebibytes((disk,), disk)[0]}.MB"] if disk is not None else []
    known += [f"time: {minutes((queue_s,), queue_s)[0]}.min"] if queue_s is not None else []
    lines = [f"    resourceLimits = [ {', '.join(known)} ]"] if known else []
    if "memory" in told and most is None:
        said = "the largest machine was not named (--node-memory)"
        lines.append(
            f"    // {'no resourceLimits: ' if not known else 'no limit of memory: '}{said}"
        )
    return lines


def _disk(one: Wanted, limits: Most) -> list[str]:
    """Write rungs of disk by attempt: no exit code tells that it ran out, so none is tried again.

    What is tried again for another reason has more of it, too.
    """
    made = [f"{rung}.MB" for rung in mebibytes(one.rungs("disk"), limits.disk)]
    if len(made) < 2:
        return [f"disk = {made[0]}"] if made else []
    return [f"disk = {{ [{', '.join(made)}][Math.min(task.attempt, {len(made)}) - 1] }}"]


def _by_attempt(memory: list[str]) -> list[str]:
    """Write rungs of memory alone: only lack of it is tried again, so each attempt is the next."""
    if len(memory) < 2:
        return [f"memory = {memory[0]}"] if memory else []
    return [
        f"memory = {{ [{', '.join(memory)}][Math.min(task.attempt, {len(memory)}) - 1] }}",
        f"errorStrategy = {{ task.exitStatus in {list(CODES)} ? 'retry' : 'finish' }}",
        f"maxRetries = {len(memory) - 1}",
    ]


def _by_cause(memory: list[str], time: list[str]) -> list[str]:
    """Write rungs of time, and of memory: each climbs after its own end alone."""
    lines = []
    if memory:
        more = f"task.exitStatus in {list(_SURE)} || (task.exitStatus == 137 && !late)"
        lines += _climbing("memory", memory, more, "it.toBytes()")
    if time:
        more = f"task.exitStatus == {_TIME} || (task.exitStatus in [137, 143] && late)"
        lines += _climbing("time", time, more, "it.toMillis()")
    retries = sum(max(0, len(rungs) - 1) for rungs in (memory, time))
    # Where there is no more to ask for, what the workflow does after an end is left to it.
    return [*lines, *_again(memory, time), f"maxRetries = {retries}"] if retries else lines


def _again(memory: list[str], time: list[str]) -> list[str]:
    """Write after which ends an attempt is tried again: those of what can be asked more of.

    Memory that is kept counts among it: it stays the workflow's own, which may climb by attempt.
    """
    if len(time) > 1 and len(memory) != 1:
        codes = sorted({*CODES, _TIME})
        return [f"errorStrategy = {{ task.exitStatus in {codes} ? 'retry' : 'finish' }}"]
    again = f"task.exitStatus in {list(_SURE)} || (task.exitStatus in [137, 143] && !late)"
    why = "there is no more time to ask for" if time else "time is kept"
    if len(time) > 1:
        again = f"task.exitStatus in [{_TIME}, 143] || (task.exitStatus == 137 && late)"
        why = "there is no more memory to ask for"
    # There the trace is that of the attempt that has just ended.
    return [
        f"// what runs out of {'memory' if len(time) > 1 else 'time'} is not tried again: {why}",
        "errorStrategy = {",
        "    def was = task.previousTrace",
        f"    def late = was && {_LATE}",
        f"    return {again} ? 'retry' : 'finish'",
        "}",
    ]


def _climbing(name: str, rungs: list[str], more: str, amount: str) -> list[str]:
    """Write a directive that gives the next rung after its own end, else the one it had."""
    if len(rungs) == 1:
        return [f"{name} = {rungs[0]}"]
    return [
        f"{name} = {{",
        f"    def rungs = [{', '.join(rungs)}]",
        "    def was = task.previousTrace",
        f"    if( !was ) return rungs[Math.min(task.attempt, {len(rungs)}) - 1]",
        f"    def late = {_LATE}",
        f"    def more = {more}",
        f"    return rungs.find {{ more ? {amount} > was.{name} : {amount} >= was.{name} }}"
        " ?: rungs[-1]",
        "}",
    ]
