"""What ``rotameter size`` knows of its inputs: what tasks needed of each resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from rotameter.cli._common import Given, RecoveredInput, load, standard_input
from rotameter.errors import BadInput, UsageError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace

__all__ = ["within", "workloads"]

_MACHINE = "leave it out, or give what the largest machine has"
_OPTIONS = {
    "memory": ("--node-memory", "leave it out, or give the largest machine's memory"),
    "time": ("--queue-time", "leave it out, or give the longest limit that the queue allows"),
    "disk": ("--node-disk", _MACHINE),
    "gpu_memory": ("--node-gpu-memory", "leave it out, or give what the largest GPU has"),
}

_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/")

_RARE = ("disk", "gpu_memory", "gpus")
"""Few inputs tell of them: where all is asked for, nothing is said of it."""


_GRACE_RATIO, _GRACE_S = 0.03, (60.0, 300.0)
"""So long beyond its limit a queue lets a run end: a part of the limit, between two bounds."""


def within(
    works: Sequence[Sequence[Workload]], most: Mapping[str, float | None]
) -> list[list[Workload]]:
    """Refuse a limit that tasks are known to have gone beyond.

    A run that lasted a little longer than the queue allows was let end: it needs what is allowed.
    """
    return [[_within(work, most.get(work.resource.name)) for work in one] for one in works]


def _within(work: Workload, limit: float | None) -> Workload:
    resource = work.resource
    if limit is None or not (work.need > limit).any():
        return work
    if resource.name == "time":
        late = work.need <= limit + min(max(_GRACE_RATIO * limit, _GRACE_S[0]), _GRACE_S[1])
        work = replace(work, need=np.where(late, np.minimum(work.need, limit), work.need))
    largest = float(work.need.max())
    if largest > limit:
        option, hint = _OPTIONS[resource.name]
        raise UsageError(
            f"{work.name}: a task {resource.used} {resource.text(largest)}, more than {option}",
            hint=hint,
        )
    return work


def workloads(
    path: str,
    given: Given,
    rows: int | None,
    wanted: Sequence[str],
    *,
    trial: bool,
    told: bool = True,
) -> list[Workload]:
    """Give what the tasks of an input needed, a workload for each resource that it tells of.

    Parameters
    ----------
    path : str
    given : Given
    rows : int or None
        First tasks alone.
    wanted : sequence of str
        Resources.
    trial : bool
        Whether only tasks of a known need are of use.
    told : bool
        Whether it is said of each that it tells nothing of; else only of what most inputs tell.

    Raises
    ------
    BadInput
        If it tells of none of them.
    """
    from rotameter.adapters.sizing_csv import is_sizing

    found: list[Workload] = []
    failed: list[tuple[str, BadInput]] = []
    place = _place(path)
    table = given.format is None and not given.options and is_sizing(place)
    trace = None if table else load(place, given)
    for name in wanted:
        try:
            if trace is None:
                first = not found and not failed
                found.append(_of_table(path, place, rows, name, given, first=first))
            else:
                found.append(_of_trace(path, trace, rows, name, trial=trial))
        except BadInput as error:
            if trace is None and name == "memory":
                raise
            failed.append((name, error))
    for note in dict.fromkeys(note for work in found for note in work.notes):
        click.echo(f"warning: {note}", err=True)
    causes = [cause for name, cause in failed[not found :] if told or name not in _RARE]
    for said in dict.fromkeys(map(str, causes)):
        click.echo(f"warning: {said}", err=True)
    if not found:
        raise failed[0][1]
    return found


def _place(path: str) -> str:
    """Give where an input lies that is read more than once: what is piped in is kept in a file."""
    if path != "-" and not path.startswith(_PIPES):
        return path
    from rotameter.adapters.importers.reading import seekable

    place = Path(str(standard_input(path)))
    return str(seekable(place)) if place.exists() and not place.is_dir() else path


def _of_table(
    path: str, place: str, rows: int | None, name: str, given: Given, *, first: bool
) -> Workload:
    """Take a resource from a table of tasks; what is wrong with its rows is said once."""
    from rotameter.adapters.sizing_csv import read_sizing
    from rotameter.allocator.recorded_time import as_time
    from rotameter.allocator.resources import DISK, MEMORY

    def warn(word: str) -> None:
        if first:
            _warn(path, word, given)

    if name in ("memory", "time", "disk"):
        resource = DISK if name == "disk" else MEMORY
        work = read_sizing(place, rows, warn=warn, resource=resource, shown=path)
        return as_time(work) if name == "time" else work
    read_sizing(place, rows, warn=warn, shown=path)
    if name == "cores":
        raise BadInput(
            f"{path}: a table of task_type, mem_mb and time_s does not say how many cores were "
            "asked for and kept busy",
            hint="read it as another, with --format table and --map cpu=COLUMN --map cores=COLUMN",
        )
    what, maps = "GPUs", "--map gpus=COLUMN --map gpu=COLUMN"
    if name != "gpus":
        what, maps = "the memory of GPUs", "--map gpu_peak=COLUMN"
    raise BadInput(
        f"{path}: a table of task_type, mem_mb and time_s does not say what tasks did with {what}",
        hint=f"read it as another, with --format table and {maps}",
    )


def _of_trace(path: str, trace: Trace, rows: int | None, name: str, *, trial: bool) -> Workload:
    from rotameter.allocator.by_resource import needs_of

    work = needs_of(trace, name, Path(path).name).first(rows)
    if len(work) or (work.lacks and not trial):
        return work
    if name == "memory":
        raise _nothing(path, trace)
    raise _nothing_rare(path, trace, name) if name in _RARE else _nothing_else(path, trace, name)


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
        is_table = trace.meta.get("engine") == "table"
        return _stateless(f"{path}: {told} a peak of memory and a duration", table=is_table)
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
    from rotameter.allocator.recorded_cores import why_unknown
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
    why, hint = why_unknown(seen)
    return BadInput(f"{path}: {why}, so nothing is advised on cores", hint=hint)


def _nothing_rare(path: str, trace: Trace, name: str) -> BadInput:
    """Say why a trace gives no advice on disk or GPUs."""
    from rotameter.profiler.gpu_use import gpu_use
    from rotameter.profiler.view import view

    seen = view(trace)
    if name == "gpus":
        held = (gpu_use(seen).held > 0).any()
        why = "no task of a named group that ran" if held else "no task"
        return BadInput(
            f"{path}: {why} is known to have held a GPU, so nothing is advised on GPUs",
            hint="import a log that has requests of GPUs, such as of Slurm",
        )
    column, word = (
        ("peak_disk_bytes", "disk") if name == "disk" else ("gpu_peak_bytes", "GPU memory")
    )
    peak = seen.number(column)
    if not np.isnan(peak).all():
        why = f"no completed task has a known peak of {word} and a duration; bounds are no peaks"
    elif name == "disk" and np.nansum(seen.number("write_bytes")) > 0:
        why = "what tasks wrote is known, and not how much of a disk they held at once"
    else:
        why = f"no task has a known peak of {word}"
    hint = (
        "import a log that has it: of TaskVine or Work Queue with a monitor, of HTCondor, or a "
        "table (--map peak_disk=COLUMN)"
        if name == "disk"
        else "import a log that has it: of Slurm with gres/gpumem, or a table "
        "(--map gpu_peak=COLUMN)"
    )
    return BadInput(f"{path}: {why}, so nothing is advised on {word}", hint=hint)
