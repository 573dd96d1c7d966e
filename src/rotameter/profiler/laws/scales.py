"""The scale of each run: given, recorded, or counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rotameter.errors import UsageError
from rotameter.profiler.flow.graph import FlowGraph
from rotameter.units import format_number

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace

__all__ = ["scales_of"]

_TASKS = "tasks"


def scales_of(
    runs: Sequence[Trace | FlowGraph],
    graphs: Sequence[FlowGraph],
    given: Sequence[float] | None,
    by: str | None,
) -> tuple[str, list[float], list[str]]:
    """Give (name of the scale, its value in each run, notes).

    Parameters
    ----------
    runs : sequence of Trace or FlowGraph
    graphs : sequence of FlowGraph
        Of the same runs.
    given : sequence of float, optional
    by : str, optional
        See :func:`rotameter.profiler.scaling.scaling`.

    Raises
    ------
    UsageError
        If there is no scale, or none that differs.
    """
    notes: list[str] = []
    if given is not None:
        name, values = by or "k", [float(k) for k in given]
        if len(values) != len(runs):
            raise UsageError(f"{len(values)} scales for {len(runs)} runs", hint="give one a run")
    elif by is not None and by.partition(":")[0] == _TASKS and _lacks(runs, by):
        name, values = by, [_tasks(g, by.partition(":")[2]) for g in graphs]
    else:
        name, values, notes = _own_scales(runs, by)
    if not all(0 < k < math.inf for k in values):
        raise UsageError("a scale must be above 0", hint="give true sizes, such as --scale data=3")
    if len(set(values)) < 2:
        raise UsageError(
            f"all runs have the same scale ({name} = {format_number(values[0])})",
            hint="give runs of different scale",
        )
    if len(set(values)) < 3:
        notes.append("two scales: laws with two unknowns go through both, so few can be told apart")
    return name, values, notes


def _own(run: Trace | FlowGraph) -> Mapping[str, float]:
    return {} if isinstance(run, FlowGraph) else run.meta.get("scale") or {}


def _lacks(runs: Sequence[Trace | FlowGraph], name: str) -> bool:
    return not all(name in _own(run) for run in runs)


def _tasks(g: FlowGraph, group: str) -> float:
    if not group:
        return float(g.n_tasks)
    return float(np.count_nonzero(g.group == g.groups.index(group))) if group in g.groups else 0.0


def _own_scales(
    runs: Sequence[Trace | FlowGraph], by: str | None
) -> tuple[str, list[float], list[str]]:
    own = [_own(run) for run in runs]
    common = sorted(set(own[0]).intersection(*own[1:]))
    moving = [name for name in common if len({one[name] for one in own}) > 1]
    if by is None and not moving:
        raise UsageError(
            "the runs do not say their scale",
            hint="give scale=[…], or import each with --scale NAME=VALUE; by='tasks' counts tasks",
        )
    if by is not None and by not in common:
        raise UsageError(f"not all runs have a scale {by!r}", hint=f"known: {common or 'none'}")
    if by is None and len(moving) > 1:
        raise UsageError(
            f"several scales differ between the runs: {', '.join(moving)}", hint="choose with by="
        )
    name = by or moving[0]
    rest = [other for other in moving if other != name]
    notes = [f"{', '.join(rest)} changed as well: the laws are of all of them"] if rest else []
    return name, [float(one[name]) for one in own], notes
