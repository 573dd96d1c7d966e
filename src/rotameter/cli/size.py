"""``rotameter size``: what each group should ask for, and trials of allocators on what ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rotameter.cli._common import Given, input_options
from rotameter.cli.size_limits import LIMITS, Limits, limit_options
from rotameter.errors import UsageError

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["size"]

_TARGETS = (
    "slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes", "json"
)  # fmt: skip


_RESOURCES = ("memory", "time", "cores", "disk", "gpu_memory", "gpus")
_TRIED = ("memory", "time", "disk", "gpu_memory")
"""Resources of which an attempt ends that wants more than it has: only these can be tried."""

_ADVICE = (
    "target", "together", "max_kill", "headroom", "floor", "floor_time", "floor_disk", "output"
)  # fmt: skip
_TRIALS = ("slots", "packed", "seeds", "sizes")
"""Parameters that one of the two uses has no place for."""

_ONLY = {**{name: (resource,) for name, resource in LIMITS.items()}, "max_kill": _TRIED}
"""Parameters that only some resources have a place for."""


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
@click.option(
    "--packed",
    metavar="NxC",
    help="Tasks at once on N machines of C cores each, such as 8x8, as far as what they ask for "
    "fits together; several resources are then sized together.",
)
@click.option("--rows", type=click.IntRange(1), help="First tasks of each file alone.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 100))
@click.option("--sizes", is_flag=True, help="Tell allocators the tasks' input sizes.")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    type=click.Choice((*_RESOURCES, "all")),
    help="What to advise on, or to try; may be repeated. Memory, where nothing is said; all: what "
    "the input tells of.",
)
@limit_options
@click.option(
    "--for",
    "target",
    type=click.Choice(_TARGETS),
    help="Write a file to include; from all inputs together.",
)
@click.option("--together", is_flag=True, help="Take all inputs as one, each task once.")
@click.option(
    "--max-kill",
    help="Share that may be killed.  [default: 1%, of disk and GPU memory none]",
)
@click.option("--headroom", help="Added to what was needed.  [default: 10%, of time 25%]")
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
    packed: str | None,
    rows: int | None,
    seeds: int,
    sizes: bool,
    resources: tuple[str, ...],
    limits: Limits,
    target: str | None,
    together: bool,
    max_kill: str | None,
    headroom: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
    given: Given,
) -> None:
    """Size requests of memory, time, cores, disk and GPUs from what TRACE... used.

    Without --allocator: what each group should ask for. With it: what sizing its tasks online would
    have held, wasted and retried. Takes traces, logs, and tables of tasks (task_type, mem_mb,
    time_s).

    \b
    Examples:
      rotameter size run.rmt
      rotameter size trace.txt --for nextflow -o memory.config
      rotameter size monday.rmt tuesday.rmt --for slurm
      rotameter size jobs.txt --resource time --resource cores --for slurm
      rotameter size tasks.csv --allocator default --allocator greedy --slots 64
      rotameter size tasks.csv --allocator default --resource memory --resource disk --packed 8x8
    """  # noqa: D301
    from rotameter.cli.convert import refuse_existing
    from rotameter.cli.size_advice import Asked, advice_words
    from rotameter.cli.size_inputs import within, workloads
    from rotameter.cli.size_trials import nodes_of, run_trials
    from rotameter.profiler.whole_file import write_whole

    wanted = _wanted(resources, names)
    _refuse_mixed(context, names, target, wanted, as_json=as_json)
    asked = Asked(_share(max_kill, "--max-kill"), _share(headroom, "--headroom"), limits)
    nodes = nodes_of(packed, slots, wanted) if names else None
    refuse_existing(output, force=force, file=True)
    told = "all" not in resources
    together = together or target not in (None, "json")
    _refuse_twice(trace if together else ())
    read = [workloads(path, given, rows, wanted, trial=bool(names), told=told) for path in trace]
    works = _told_apart(within(read, limits.most), trace)
    if names:
        told_how = {"packed": packed is not None, "sizes": sizes, "as_json": as_json}
        run_trials(works, limits, names, nodes, range(seeds), **told_how)
        return
    how = {"named": bool(resources), "together": together}
    text = advice_words(works, asked, "json" if as_json else target, **how)
    if output is None:
        click.echo(text)
        return
    write_whole(output, text.rstrip("\n") + "\n")
    click.echo(f"Wrote {output}", err=True)


def _refuse_twice(paths: Sequence[str]) -> None:
    """Refuse an input that is named twice: its tasks would count twice."""
    places = [path if path == "-" else str(Path(path).resolve()) for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path} is named twice", hint="name each run once")


def _told_apart(works: Sequence[Sequence[Workload]], paths: Sequence[str]) -> list[list[Workload]]:
    """Call inputs of the same name by their paths."""
    names = [one[0].name for one in works]
    return [
        [replace(work, name=path) for work in one] if names.count(one[0].name) > 1 else [*one]
        for one, path in zip(works, paths, strict=True)
    ]


def _wanted(resources: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Give the resources that are meant; of cores and GPUs nothing can be tried."""
    known = _TRIED if names else _RESOURCES
    if "all" in resources:
        return known
    for name in resources:
        if name not in known:
            raise UsageError(
                f"--resource {name} has no use with --allocator: no task is killed for what it "
                "keeps busy",
                hint=f"of {', '.join(_TRIED)} sizing can be tried",
            )
    return tuple(dict.fromkeys(resources or ("memory",)))


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
    if len(_said(context, ("slots", "packed"))) > 1:
        raise UsageError(
            "--slots and --packed: both say how many run at once", hint="leave one of them out"
        )
    for name, resources in _ONLY.items():
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


def _share(text: str | None, option: str) -> float | None:
    """Read a share: a percentage or a number of 0 to 1."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"{option} {text}: no share of 0 to 100%", hint="such as 1% or 0.01")
    return value
