"""``rotameter size``: what each group should ask for, and trials of allocators on what ran."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rotameter.cli._common import Given, echo_json, input_options
from rotameter.errors import UsageError
from rotameter.units import parse_bytes, parse_seconds

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload
    from rotameter.cli.size_advice import Asked

__all__ = ["size"]

_TARGETS = (
    "slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes", "json"
)  # fmt: skip


_RESOURCES = ("memory", "time", "cores")
_ADVICE = (
    "target", "resources", "max_kill", "headroom", "floor", "floor_time", "queue_time", "output"
)  # fmt: skip
_TRIALS = ("slots", "seeds", "sizes")
"""Parameters that one of the two uses has no place for."""

_ONLY = {
    "floor": ("memory",),
    "node_memory": ("memory",),
    "floor_time": ("time",),
    "queue_time": ("time",),
    "max_kill": ("memory", "time"),
}
"""Parameters that only advice on some resources has a place for."""


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
    "--resource",
    "resources",
    multiple=True,
    type=click.Choice((*_RESOURCES, "all")),
    help="What to advise on; may be repeated. Memory, where nothing is said.",
)
@click.option(
    "--node-memory",
    help="What the largest machine has, such as 128GB: nothing is asked for beyond it. Without it "
    "no limit is written.",
)
@click.option("--for", "target", type=click.Choice(_TARGETS), help="Write a file to include.")
@click.option("--max-kill", default="1%", show_default=True, help="Share that may be killed.")
@click.option("--headroom", help="Added to what was needed.  [default: 10%, of time 25%]")
@click.option(
    "--floor",
    default="256MB",
    show_default=True,
    help="Least that is asked for: less saves nothing. 0: no such least.",
)
@click.option(
    "--floor-time", default="10min", show_default=True, help="Least time that is asked for."
)
@click.option("--queue-time", help="Longest time limit that the queue allows, such as 7d.")
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
    resources: tuple[str, ...],
    node_memory: str | None,
    target: str | None,
    max_kill: str,
    headroom: str | None,
    floor: str,
    floor_time: str,
    queue_time: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
    given: Given,
) -> None:
    """Size requests of memory, time and cores from what TRACE... used.

    Without --allocator: what each group should ask for. With it: what sizing its tasks online would
    have held, wasted and retried. Takes traces, logs, and tables of tasks (task_type, mem_mb,
    time_s).

    \b
    Examples:
      rotameter size run.rmt
      rotameter size trace.txt --for nextflow -o memory.config
      rotameter size jobs.txt --resource time --resource cores --for slurm
      rotameter size tasks.csv --allocator default --allocator greedy --slots 64
    """  # noqa: D301
    from rotameter.cli.convert import refuse_existing
    from rotameter.cli.size_advice import advice_words
    from rotameter.cli.size_inputs import refuse_larger, workloads

    wanted = _RESOURCES if "all" in resources else tuple(dict.fromkeys(resources or ("memory",)))
    _refuse_mixed(context, names, target, wanted, as_json=as_json)
    terms = _terms(max_kill, headroom, floor, floor_time, node_memory, queue_time)
    refuse_existing(output, force=force)
    works = [workloads(path, given, rows, wanted, trial=bool(names)) for path in trace]
    refuse_larger(works, terms.most)
    if names:
        whole = [work for one in works for work in one]
        _trials(whole, terms.most["memory"], names, slots, range(seeds), sizes=sizes,
                as_json=as_json)  # fmt: skip
        return
    text = advice_words(works, terms, "json" if as_json else target, named=bool(resources))
    if output is None:
        click.echo(text)
        return
    Path(output).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    click.echo(f"Wrote {output}", err=True)


def _terms(
    max_kill: str,
    headroom: str | None,
    floor: str,
    floor_time: str,
    node_memory: str | None,
    queue_time: str | None,
) -> Asked:
    from rotameter.cli.size_advice import Asked

    memory = None if node_memory is None else _bytes(node_memory, "--node-memory", above=0)
    time = None if queue_time is None else _seconds(queue_time, "--queue-time", above=0)
    return Asked(
        max_kill=_share(max_kill, "--max-kill"),
        headroom=None if headroom is None else _share(headroom, "--headroom"),
        floors={"memory": _bytes(floor, "--floor"), "time": _seconds(floor_time, "--floor-time")},
        most={"memory": memory, "time": time},
    )


def _refuse_mixed(
    context: click.Context,
    names: tuple[str, ...],
    target: str | None,
    wanted: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Refuse options that would be passed over in silence."""
    if as_json and target not in (None, "json"):
        raise UsageError(
            f"--json and --for {target}: two forms for one output", hint="leave one of them out"
        )
    said = _said(context, _ADVICE if names else _TRIALS)
    if said and names:
        raise UsageError(
            f"{said[0]} has no use with --allocator", hint="a trial of allocators gives no advice"
        )
    if said:
        raise UsageError(f"{said[0]} has no use without --allocator", hint="name an allocator")
    for name, resources in () if names else _ONLY.items():
        said = [] if set(resources) & set(wanted) else _said(context, (name,))
        if said:
            raise UsageError(
                f"{said[0]} has no use without advice on {' or '.join(resources)}",
                hint=f"add --resource {resources[0]}",
            )


def _said(context: click.Context, names: Sequence[str]) -> list[str]:
    """Give the options among these that are on the command line."""
    return [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]


def _bytes(text: str, option: str, *, above: float = -1.0) -> float:
    """Read a number of bytes that a machine may have."""
    try:
        value = float(parse_bytes(text))
    except (ValueError, OverflowError):
        value = -1.0
    if not above < value < 1e18:
        raise UsageError(f"{option} {text[:60]}: no amount of memory", hint="such as 128GB")
    return value


def _seconds(text: str, option: str, *, above: float = -1.0) -> float:
    """Read a time limit that a queue may have."""
    try:
        value = float(parse_seconds(text))
    except (ValueError, OverflowError):
        value = -1.0
    if not above < value < 1e11:
        raise UsageError(f"{option} {text[:60]}: no time", hint="such as 10min or 7d")
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
