"""``rotameter size``: what each group should ask for, and trials of allocators on what ran."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rotameter.cli._common import Given, RecoveredInput, echo_json, input_options, load
from rotameter.errors import BadInput, UsageError
from rotameter.units import format_bytes, many, parse_bytes

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload
    from rotameter.profiler.trace import Trace

__all__ = ["size"]

_TARGETS = (
    "slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes", "json"
)  # fmt: skip


_ADVICE = ("target", "max_kill", "headroom", "floor", "output")
_TRIALS = ("slots", "seeds", "sizes")
"""Parameters that one of the two uses has no place for."""


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("--allocator", "names", multiple=True, help="Try this one; may be repeated.")
@click.option(
    "--slots",
    default=64,
    show_default=True,
    type=click.IntRange(0),
    help="Tasks at once; 0: one by one only.",
)
@click.option("--rows", type=click.IntRange(1), help="First tasks of each file alone.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 100))
@click.option("--sizes", is_flag=True, help="Tell allocators the tasks' input sizes.")
@click.option(
    "--node-memory",
    help="What the largest machine has, such as 128GB: nothing is asked for beyond it. Without it "
    "no limit is written.",
)
@click.option("--for", "target", type=click.Choice(_TARGETS), help="Write a file to include.")
@click.option("--max-kill", default="1%", show_default=True, help="Share that may be killed.")
@click.option("--headroom", default="10%", show_default=True, help="Added to what was needed.")
@click.option(
    "--floor",
    default="256MB",
    show_default=True,
    help="Least that is asked for: less saves nothing. 0: no such least.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the file goes.")
@click.option("--force", is_flag=True, help="Replace an existing output.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
@input_options
@click.pass_context
def size(
    context: click.Context,
    trace: tuple[str, ...],
    names: tuple[str, ...],
    slots: int,
    rows: int | None,
    seeds: int,
    sizes: bool,
    node_memory: str | None,
    target: str | None,
    max_kill: str,
    headroom: str,
    floor: str,
    output: str | None,
    force: bool,
    as_json: bool,
    given: Given,
) -> None:
    """Size memory requests from what TRACE... used.

    Without --allocator: what each group should ask for. With it: what sizing its tasks online would
    have held, wasted and retried. Takes traces, logs, and tables of tasks (task_type, mem_mb,
    time_s).

    \b
    Examples:
      rotameter size run.rmt
      rotameter size trace.txt --for nextflow -o memory.config
      rotameter size tasks.csv --allocator default --allocator greedy --slots 64
    """  # noqa: D301
    from rotameter.cli.convert import refuse_existing

    _refuse_mixed(context, names, target, as_json=as_json)
    most = _bytes(node_memory, "--node-memory", above=0) if node_memory is not None else None
    shares = (_share(max_kill, "--max-kill"), _share(headroom, "--headroom"))
    least = _bytes(floor, "--floor")
    refuse_existing(output, force=force)
    works = [_work(path, given, rows, trial=bool(names)) for path in trace]
    _refuse_larger(works, most)
    if names:
        _trials(works, most, names, slots, range(seeds), sizes=sizes, as_json=as_json)
        return
    text = _advice(works, most, "json" if as_json else target, *shares, least)
    if output is None:
        click.echo(text)
        return
    Path(output).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    click.echo(f"Wrote {output}", err=True)


def _refuse_mixed(
    context: click.Context, names: tuple[str, ...], target: str | None, *, as_json: bool
) -> None:
    """Refuse options that would be passed over in silence."""
    if as_json and target not in (None, "json"):
        raise UsageError(
            f"--json and --for {target}: two forms for one output", hint="leave one of them out"
        )
    unused = _ADVICE if names else _TRIALS
    said = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in unused
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if said and names:
        raise UsageError(
            f"{said[0]} has no use with --allocator", hint="a trial of allocators gives no advice"
        )
    if said:
        raise UsageError(f"{said[0]} has no use without --allocator", hint="name an allocator")


def _refuse_larger(works: list[Workload], most: float | None) -> None:
    for work in works:
        largest = float(work.need_bytes.max(initial=0.0))
        if most is not None and largest > most:
            raise UsageError(
                f"{work.name}: a task used {format_bytes(largest)}, more than --node-memory",
                hint="leave it out, or give the largest machine's memory",
            )


def _work(path: str, given: Given, rows: int | None, *, trial: bool) -> Workload:
    from rotameter.adapters.sizing_csv import is_sizing, read_sizing
    from rotameter.allocator.recorded import from_trace

    if given.format is None and not given.options and is_sizing(path):
        return read_sizing(path, rows, warn=lambda word: _warn(path, word, given))
    trace = load(path, given)
    work = from_trace(trace, Path(path).name).first(rows)
    for note in work.notes:
        click.echo(f"warning: {note}", err=True)
    if not len(work) and (trial or not work.lacks):
        raise _nothing(path, trace)
    return work


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
        return BadInput(
            f"{path}: {told} a peak of memory and a duration, but how they ended is not known",
            hint="name the column of their state, such as --map state=COLUMN, or its words in a "
            "mapping (--opt mapping=FILE)",
        )
    why, hint = nothing_known(trace)
    return BadInput(f"{path}: {why}", hint=hint)


def _bytes(text: str, option: str, *, above: float = -1.0) -> float:
    """Read a number of bytes that a machine may have."""
    try:
        value = float(parse_bytes(text))
    except (ValueError, OverflowError):
        value = -1.0
    if not above < value < 1e18:
        raise UsageError(f"{option} {text[:60]}: no amount of memory", hint="such as 128GB")
    return value


def _share(text: str, option: str) -> float:
    """Read a share: a percentage or a number of 0 to 1."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"{option} {text}: no share", hint="such as 1% or 0.01")
    return value


def _trials(
    works: list[Workload],
    most: float | None,
    names: tuple[str, ...],
    slots: int,
    seeds: range,
    *,
    sizes: bool,
    as_json: bool,
) -> None:
    from rotameter.allocator.online import Nodes
    from rotameter.allocator.trials import machine_bytes, trials
    from rotameter.cli.size_text import trials_text

    nodes = Nodes(1, slots) if slots > 0 else None
    found = [
        made
        for work in works
        for made in trials(
            work,
            names,
            most_bytes=machine_bytes(work) if most is None else most,
            nodes=nodes,
            seeds=seeds,
            sizes=sizes,
            timer=time.thread_time_ns,
        )
    ]
    if as_json:
        echo_json({"schema": 1, "results": [one.to_dict() for one in found]})
    else:
        click.echo(trials_text(found))


def _advice(
    works: list[Workload],
    most: float | None,
    target: str | None,
    max_kill: float,
    headroom: float,
    floor: float,
) -> str:
    import json

    from rotameter.adapters.advising import left_out, write
    from rotameter.allocator.advice import advise
    from rotameter.cli.size_text import advice_text
    from rotameter.values import to_dict

    made = [
        advise(work, max_kill=max_kill, headroom=headroom, machine_bytes=most, floor_bytes=floor)
        for work in works
    ]
    if target == "json":
        files = [
            {"file": work.name, "groups": to_dict(found)}
            for work, found in zip(works, made, strict=True)
        ]
        return json.dumps({"schema": 1, "advice": files}, indent=2)
    if target is not None:
        if len(works) > 1:
            raise UsageError("--for takes one input", hint="run it once for each")
        for word in left_out(target, made[0]):
            click.echo(f"warning: {word}", err=True)
        return write(target, made[0], most)
    return "\n\n".join(advice_text(w, found) for w, found in zip(works, made, strict=True))
