"""Trials of ``rotameter size --allocator``: which tasks, on which machines, and what came of it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rotameter.cli._common import echo_json
from rotameter.errors import BadInput, UsageError
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.allocator.online import Nodes
    from rotameter.allocator.workload import Workload
    from rotameter.cli.size_limits import Limits

__all__ = ["nodes_of", "run_trials"]

_PACKED = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")


def nodes_of(packed: str | None, slots: int, wanted: Sequence[str]) -> Nodes | None:
    """Give the machines that tasks run on; None: one task after another.

    Parameters
    ----------
    packed : str or None
        Machines and cores of each, such as ``8x8``; None: nothing limits what fits together.
    slots : int
    wanted : sequence of str
        Resources that are tried.

    Raises
    ------
    UsageError
        If ``packed`` is no such thing, or nothing that is tried is held.
    """
    from rotameter.allocator.online import Nodes

    if packed is None:
        return Nodes(1, slots) if slots else None
    found = _PACKED.fullmatch(packed.strip().lower().replace("×", "x"))
    if found is None:
        raise UsageError(f"--packed {packed[:60]}: no number of machines", hint="such as 8x8")
    if not set(wanted) - {"time"}:
        raise UsageError(
            "--packed has no use with time alone: a limit holds nothing of a machine",
            hint="add --resource memory",
        )
    return Nodes(int(found[1]), int(found[2]))


def run_trials(
    works: Sequence[Sequence[Workload]],
    limits: Limits,
    names: Sequence[str],
    nodes: Nodes | None,
    seeds: range,
    *,
    packed: bool,
    sizes: bool,
    as_json: bool,
) -> None:
    """Try allocators on each input, and print what came of it.

    Parameters
    ----------
    works : sequence of sequence of Workload
        Those of each input, one a resource.
    limits : Limits
    names : sequence of str
        Of allocators.
    nodes : Nodes or None
    packed : bool
        Whether tasks share what the machines have: then all resources of an input are sized
        together, else each alone.
    seeds : range
    sizes, as_json : bool
    """
    from rotameter.allocator.trials import machine_of, trials
    from rotameter.cli.size_text import trials_text

    found = []
    for one in works:
        sets = [_shared(one)] if packed else [[work] for work in one]
        for tasks in sets:
            said = (limits.most.get(work.resource.name) for work in tasks)
            most = [
                machine_of(work) if known is None else known
                for work, known in zip(tasks, said, strict=True)
            ]
            caps = {work.resource.field: cap for work, cap in zip(tasks, most, strict=True)}
            found += trials(
                tasks,
                names,
                most=most,
                nodes=nodes.holding(caps) if nodes and packed else nodes,
                seeds=seeds,
                sizes=sizes,
                timer=time.thread_time_ns,
            )
    if as_json:
        echo_json({"schema": 1, "results": [one.to_dict() for one in found]})
    else:
        click.echo(trials_text(found))


def _shared(works: Sequence[Workload]) -> list[Workload]:
    """Give the tasks of which all that is to be sized together is known."""
    from rotameter.allocator.workload import together

    made = together(works)
    names = " and ".join(work.resource.word for work in works)
    if not len(made[0]):
        raise BadInput(
            f"{works[0].name}: of no task {names} are known",
            hint="try them one by one: without --packed",
        )
    most = max(map(len, works))
    if len(made[0]) < most:
        left = many(most - len(made[0]), "task")
        click.echo(f"warning: {left} left out: {names} are not known of each", err=True)
    return made
