"""``rotameter size``: what each group should ask for, and trials of allocators on what ran."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rotameter.cli._common import Given, echo_json, input_options, load
from rotameter.errors import UsageError
from rotameter.units import parse_bytes

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["size"]

_TARGETS = (
    "slurm", "nextflow", "snakemake", "jobqueue", "dask-kubernetes", "kubernetes", "json"
)  # fmt: skip


@click.command()
@click.argument("trace", nargs=-1, required=True)
@click.option("--allocator", "names", multiple=True, help="Try this one; may be repeated.")
@click.option("--slots", default=64, show_default=True, help="Tasks at once; 0: one by one only.")
@click.option("--rows", type=click.IntRange(1), help="First tasks of each file alone.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1, 100))
@click.option("--sizes", is_flag=True, help="Tell allocators the tasks' input sizes.")
@click.option("--node-memory", help="What the largest machine has, such as 128GB.")
@click.option("--for", "target", type=click.Choice(_TARGETS), help="Write a file to include.")
@click.option("--max-kill", default="1%", show_default=True, help="Share that may be killed.")
@click.option("--headroom", default="10%", show_default=True, help="Added to what was needed.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the file goes.")
@click.option("--force", is_flag=True, help="Replace an existing output.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema 1).")
@input_options
def size(
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
    from rotameter.allocator.trials import machine_bytes
    from rotameter.cli.convert import refuse_existing

    refuse_existing(output, force=force)
    works = [_work(path, given, rows) for path in trace]
    most = [
        float(parse_bytes(node_memory)) if node_memory else machine_bytes(work) for work in works
    ]
    for work, limit in zip(works, most, strict=True):
        largest = float(work.need_bytes.max(initial=0.0))
        if largest > limit:
            raise UsageError(
                f"{work.name}: a task used {largest / 1e9:.3g} GB, more than --node-memory",
                hint="leave it out, or give the largest machine's memory",
            )
    if names:
        _trials(works, most, names, slots, range(seeds), sizes=sizes, as_json=as_json)
        return
    chosen = "json" if as_json and target is None else target
    shares = (_share(max_kill, "--max-kill"), _share(headroom, "--headroom"))
    text = _advice(works, most, chosen, *shares)
    if output is None:
        click.echo(text)
        return
    Path(output).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    click.echo(f"Wrote {output}", err=True)


def _work(path: str, given: Given, rows: int | None) -> Workload:
    from rotameter.adapters.sizing_csv import is_sizing, read_sizing
    from rotameter.allocator.workload import from_trace
    from rotameter.errors import BadInput

    if given.format is None and is_sizing(path):
        return read_sizing(path, rows)
    trace = load(path, given)
    work = from_trace(trace, Path(path).name).first(rows)
    if not len(work):
        from rotameter.cli.size_text import nothing_known

        why, hint = nothing_known(trace)
        raise BadInput(f"{path}: {why}", hint=hint)
    return work


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
    most: list[float],
    names: tuple[str, ...],
    slots: int,
    seeds: range,
    *,
    sizes: bool,
    as_json: bool,
) -> None:
    from rotameter.allocator.online import Nodes
    from rotameter.allocator.trials import trials
    from rotameter.cli.size_text import trials_text

    nodes = Nodes(1, slots) if slots > 0 else None
    found = [
        made
        for work, limit in zip(works, most, strict=True)
        for made in trials(
            work,
            names,
            most_bytes=limit,
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
    works: list[Workload], most: list[float], target: str | None, max_kill: float, headroom: float
) -> str:
    import json

    from rotameter.adapters.advising import write
    from rotameter.allocator.advice import advise
    from rotameter.cli.size_text import advice_text
    from rotameter.values import to_dict

    made = [
        advise(work, max_kill=max_kill, headroom=headroom, machine_bytes=limit)
        for work, limit in zip(works, most, strict=True)
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
        return write(target, made[0], most[0])
    return "\n\n".join(advice_text(w, found) for w, found in zip(works, made, strict=True))
