"""Iterations: stages that recur, folded in time, with the values of each round.

That a workflow's repeated levels are rounds of one loop, whose values are to be kept as a series,
is the time folding of FlowForecaster (Lee et al., IPDPS 2025). Here a round may span several
stages, and recurs when its stages hold the same roles: runs of a repeated word in the sequence of
stages (the longest cover from the left, the shortest word where several cover the same).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.flow._fold_groups import Groups

if TYPE_CHECKING:
    from rotameter.profiler.flow.folding import Folded
    from rotameter.profiler.view import Codes, Floats

__all__ = ["Loop", "iterations"]

_PERIODS = 64
_ROUNDS_NAMED = 2
_ROUNDS_UNNAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Stages that recur: ``count`` rounds of ``period`` stages, from ``first_stage`` on.

    Parameters
    ----------
    first_stage, period, count : int
    roles : list of str
        Label of each role of a round, of length n_roles.
    folds : ndarray of int64, shape (count, n_roles)
        The task fold that plays each role in each round.
    tasks : ndarray of int64, shape (count, n_roles)
        Number of tasks.
    wall_s, read_bytes, write_bytes, ops, busy_s : ndarray of float64, shape (count, n_roles)
        Sums of the known values of each round, NaN where none is known.
    """

    first_stage: int
    period: int
    count: int
    roles: list[str]
    folds: Codes
    tasks: Codes
    wall_s: Floats
    read_bytes: Floats
    write_bytes: Floats
    ops: Floats
    busy_s: Floats


def iterations(folded: Folded) -> list[Loop]:
    """Find the loops of a folded graph.

    Where folds have names, two rounds with the same names are a loop. Without names it takes
    three rounds of the same shape: equal numbers of tasks, which read and write across the same
    numbers of stages; the first and the last round, wired to the outside, may then stay out.

    Parameters
    ----------
    folded : Folded

    Returns
    -------
    list of Loop
        In the order of their stages; they do not overlap.

    Examples
    --------
    >>> from rotameter.profiler.flow.folding import fold
    >>> from rotameter.profiler.flow.graph import flow_graph
    >>> from rotameter.profiler.trace import Trace
    >>> names = ["load", "step", "check", "step", "check", "step", "check"]
    >>> tasks = [{"task_id": f"t{i}", "group": g, "wall_s": float(i)} for i, g in enumerate(names)]
    >>> deps = [{"task_id": f"t{i}", "depends_on": f"t{i - 1}"} for i in range(1, 7)]
    >>> (loop,) = iterations(fold(flow_graph(Trace.from_tables({"tasks": tasks, "deps": deps}))))
    >>> loop.roles, loop.count, loop.wall_s[:, 0].tolist()
    (['step', 'check'], 3, [1.0, 3.0, 5.0])
    """
    words, by_stage = _words(folded)
    runs = _runs(words)
    least = _ROUNDS_NAMED if folded.named else _ROUNDS_UNNAMED
    found, place = [], 0
    while place < len(words):
        period, count = _longest(runs, place, least)
        if count:
            found.append(_loop(folded, by_stage, place, period, count))
            place += period * count
        else:
            place += 1
    return found


def _words(folded: Folded) -> tuple[Codes, list[list[int]]]:
    """Give a number to what each stage holds, and its task folds in comparable order."""
    keys = _keys(folded)
    n = int(folded.stage.max(initial=-1)) + 1
    by_stage: list[list[int]] = [[] for _ in range(n)]
    for one, stage in enumerate(folded.stage.tolist()):
        by_stage[stage].append(one)
    seen: dict[tuple[object, ...], int] = {}
    words = np.zeros(n, dtype=np.int64)
    for stage, folds in enumerate(by_stage):
        folds.sort(key=lambda one: (repr(keys[one]), one))
        words[stage] = seen.setdefault(tuple(keys[one] for one in folds), len(seen))
    return words, by_stage


def _keys(folded: Folded) -> list[tuple[object, ...]]:
    """Give what makes task folds of two stages the same role: the name, else the shape."""
    tasks, graph = folded.task_folds, folded.graph
    group = tasks.first(graph.group) if folded.named else np.full(tasks.n, -1)
    shapes: list[set[tuple[str, int]]] = [set() for _ in range(tasks.n)]
    readers: dict[int, set[int]] = {}
    edges = folded.edges
    triples = list(zip(edges.task.tolist(), edges.object.tolist(), edges.write, strict=True))
    for task, thing, write in triples:
        if not write:
            readers.setdefault(thing, set()).add(int(folded.stage[task]))
            made = int(folded.object_stage[thing])
            here = int(folded.stage[task])
            shapes[task].add(("read", here - made) if made >= 0 else ("input", 0))
    for task, thing, write in triples:
        if write:
            here = int(folded.stage[task])
            shapes[task].update(("write", stage - here) for stage in readers.get(thing, ()))
    for task, on in zip(folded.deps.task.tolist(), folded.deps.on.tolist(), strict=True):
        shapes[task].add(("after", int(folded.stage[task] - folded.stage[on])))
    return [
        ("named", int(group[i]))
        if group[i] >= 0
        else ("shape", int(tasks.size[i]), *sorted(shapes[i]))
        for i in range(tasks.n)
    ]


def _runs(words: Codes) -> list[Codes]:
    """Give, for each period p and place, how many words in a row equal the one p later."""
    made = []
    for period in range(1, min(_PERIODS, len(words) // 2) + 1):
        same = words[:-period] == words[period:]
        ends = np.flatnonzero(~np.concatenate([same, [False]]))
        places = np.arange(len(same))
        made.append(ends[np.searchsorted(ends, places)] - places)
    return made


def _longest(runs: list[Codes], place: int, least: int) -> tuple[int, int]:
    """Give (period, rounds) of the run from a place that covers most; rounds 0 = none."""
    best = (0, 0)
    for period, run in enumerate(runs, start=1):
        if place >= len(run):
            break
        count = int(run[place]) // period + 1
        if count >= least and period * count > best[0] * best[1]:
            best = (period, count)
    return best


def _loop(folded: Folded, by_stage: list[list[int]], place: int, period: int, count: int) -> Loop:
    folds = np.array(
        [
            [one for stage in range(at, at + period) for one in by_stage[stage]]
            for at in range(place, place + period * count, period)
        ],
        dtype=np.int64,
    )
    graph, tasks = folded.graph, folded.task_folds
    edges = Groups(tasks.of[graph.edge_task], tasks.n)

    def of_edges(values: Floats) -> Floats:
        return edges.total(values)[folds]

    return Loop(
        first_stage=place,
        period=period,
        count=count,
        roles=[folded.label(int(one)) for one in folds[0]],
        folds=folds,
        tasks=tasks.size[folds],
        wall_s=tasks.total(graph.wall_s)[folds],
        read_bytes=of_edges(np.where(graph.edge_write, np.nan, graph.bytes)),
        write_bytes=of_edges(np.where(graph.edge_write, graph.bytes, np.nan)),
        ops=of_edges(graph.ops),
        busy_s=of_edges(graph.busy_s),
    )
