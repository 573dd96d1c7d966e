"""What ``rotameter size`` knows of its inputs: what tasks needed of each resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from rotameter.cli._common import Given, RecoveredInput, load
from rotameter.errors import BadInput, UsageError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace

__all__ = ["refuse_larger", "workloads"]

_OPTIONS = {"memory": "--node-memory", "time": "--queue-time"}
_HINTS = {
    "memory": "leave it out, or give the largest machine's memory",
    "time": "leave it out, or give the longest limit that the queue allows",
}


def refuse_larger(works: Sequence[Sequence[Workload]], most: Mapping[str, float | None]) -> None:
    """Refuse a limit that tasks are known to have gone beyond."""
    for work in (work for one in works for work in one):
        resource = work.resource
        limit = most.get(resource.name)
        largest = float(work.need.max(initial=0.0)) if limit is not None else 0.0
        if limit is not None and largest > limit:
            raise UsageError(
                f"{work.name}: a task {resource.used} {resource.text(largest)}, more than "
                f"{_OPTIONS[resource.name]}",
                hint=_HINTS[resource.name],
            )


def workloads(
    path: str, given: Given, rows: int | None, wanted: Sequence[str], *, trial: bool
) -> list[Workload]:
    """Give what the tasks of an input needed, a workload for each resource that it tells of.

    Raises
    ------
    BadInput
        If it tells of none of them.
    """
    from rotameter.adapters.sizing_csv import is_sizing, read_sizing

    found: list[Workload] = []
    failed: list[BadInput] = []
    if given.format is None and not given.options and is_sizing(path):
        table = read_sizing(path, rows, warn=lambda word: _warn(path, word, given))
        made = [_of_table(path, table, name) for name in wanted]
    else:
        trace = load(path, given)
        made = [_of_trace(path, trace, rows, name, trial=trial) for name in wanted]
    for one in made:
        if isinstance(one, BadInput):
            failed.append(one)
        else:
            found.append(one)
    for note in dict.fromkeys(note for work in found for note in work.notes):
        click.echo(f"warning: {note}", err=True)
    for error in failed if found else failed[1:]:
        click.echo(f"warning: {error}", err=True)
    if not found:
        raise failed[0]
    return found


def _of_table(path: str, work: Workload, name: str) -> Workload | BadInput:
    from rotameter.allocator.recorded_time import as_time

    if name == "memory":
        return work
    if name == "time":
        return as_time(work)
    return BadInput(
        f"{path}: a table of task_type, mem_mb and time_s does not say how many cores were asked "
        "for and kept busy",
        hint="read it as another, with --format table and --map cpu=COLUMN --map cores=COLUMN",
    )


def _of_trace(
    path: str, trace: Trace, rows: int | None, name: str, *, trial: bool
) -> Workload | BadInput:
    from rotameter.allocator.recorded import from_trace
    from rotameter.allocator.recorded_cores import cores_from_trace
    from rotameter.allocator.recorded_time import time_from_trace

    make = {"memory": from_trace, "time": time_from_trace, "cores": cores_from_trace}[name]
    work = make(trace, Path(path).name).first(rows)
    if len(work) or (work.lacks and not trial):
        return work
    return _nothing(path, trace) if name == "memory" else _nothing_else(path, trace, name)


def _warn(path: str, word: str, given: Given) -> None:
    """Say what of a table was left out, as :func:`load` does of other inputs."""
    if given.strict:
        raise RecoveredInput(f"{path}: {word}", hint="without --strict the other rows are used")
    click.echo(f"warning: {path}: {word}", err=True)


def _nothing(path: str, trace: Trace) -> BadInput:
    from rotameter.allocator.recorded import of_unknown_state
    from rotameter.cli.size_text import nothing_known

    unknown = of_unknown_state(trace)
    if unknown:
        told = many(unknown, "task has", "tasks have")
        return _stateless(f"{path}: {told} a peak of memory and a duration", table=True)
    why, hint = nothing_known(trace)
    return BadInput(f"{path}: {why}", hint=hint)


def _stateless(what: str, *, table: bool) -> BadInput:
    hint = "take a log that says how tasks ended: what was cut short does not show a need"
    if table:
        hint = "name the column of their state, such as --map state=COLUMN, or its words in a "
        hint += "mapping (--opt mapping=FILE)"
    return BadInput(f"{what}, but how they ended is not known", hint=hint)


def _nothing_else(path: str, trace: Trace, name: str) -> BadInput:
    """Say why a trace gives no advice on time or cores."""
    from rotameter.profiler.view import view

    seen = view(trace)
    timed = ~seen.nested & (seen.wall > 0)
    unknown = int((timed & seen.outcome_in(None, "unknown")).sum())
    if unknown and not (timed & seen.ok).any():
        told = many(unknown, "task has", "tasks have")
        return _stateless(f"{path}: {told} a duration", table=seen.meta.get("engine") == "table")
    if not (timed & seen.ok).any():
        return BadInput(
            f"{path}: no completed task has a known duration, so nothing is advised on {name}",
            hint="record a run (`rotameter run`), or import a log that has it",
        )
    one = np.isfinite(seen.number("cpu_s")[timed & seen.ok]).any()
    why = "the CPU time that is known is of one thread of a task" if one else (
        "no completed task has a known CPU time"
    )  # fmt: skip
    return BadInput(
        f"{path}: {why}, so nothing is advised on cores",
        hint="import a log that counts all of a task: of Slurm, Nextflow, Snakemake or a table",
    )
