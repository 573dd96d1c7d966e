"""The same folded edge and task group found again in runs of different scale.

A folded edge is (task group, direction, role of the object), where the role is who writes and who
reads it. Where group names are not the same in all runs, the folds of
:mod:`rotameter.profiler.flow.folding` stand for them, found again by their stage and the stages
before and after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.profiler.laws.sample import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.flow.graph import FlowGraph

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]

Fold = tuple[str, str, str]
"""Task group, ``reads`` or ``writes``, role of the object (empty: not told apart)."""

__all__ = ["METRICS", "Aligned", "align"]

METRICS = ("bytes", "ops", "busy_s")
_SAID = 5
_ROLES_LIMIT = 1000
_ROLE_WORDS = 6
_NONE: Codes = np.empty(0, dtype=np.int64)
_NAMED = 0.5
"""Share of the edges whose groups must be known by name in every run."""


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Series of all folds, ready to be fitted.

    Parameters
    ----------
    edges, groups : dict of str to dict of str to Series
        Fold → metric → series; edges have ``count``, ``bytes``, ``ops``, ``busy_s``, groups
        ``count`` and ``wall_s``. Metrics without values are left out.
    whole : dict of str to dict of str to Series
        ``all reads``, ``all writes``, ``all tasks``: the run's sums, one value a run.
    direction : dict of str to str
        ``reads`` or ``writes``, of each fold of ``edges``.
    tasks, objects : list of str
        Names over all runs; an edge's id is ``task * max(len(objects), 1) + object``.
    by_name : bool
        False: by place in the graph.
    notes : tuple of str
    """

    edges: dict[str, dict[str, Series]]
    groups: dict[str, dict[str, Series]]
    whole: dict[str, dict[str, Series]]
    direction: dict[str, str]
    tasks: list[str]
    objects: list[str]
    by_name: bool
    notes: tuple[str, ...]


def align(graphs: Sequence[FlowGraph], scale: Sequence[float]) -> Aligned:
    """Give the values of each folded edge and task group, run by run.

    Parameters
    ----------
    graphs : sequence of FlowGraph
    scale : sequence of float
        One a graph.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.profiler.flow.graph import flow_graph
    >>> def run(k):
    ...     rows = [{"task_id": f"t{n}", "object": "x", "op": "read", "bytes": k} for n in (1, 2)]
    ...     tasks = [{"task_id": f"t{n}", "group": "load"} for n in (1, 2)]
    ...     return flow_graph(Trace.from_tables({"flows": rows, "tasks": tasks}))
    >>> found = align([run(10), run(20)], [1.0, 2.0])
    >>> [(k, [v.tolist() for v in m["bytes"].samples]) for k, m in found.edges.items()]
    [('load reads [outside > load]', [[10.0, 10.0], [20.0, 20.0]])]
    """
    by_name = _named(graphs)
    labels = [_by_name(g) if by_name else _by_place(g) for g in graphs]
    runs = [_edge_keys(g, *label) for g, label in zip(graphs, labels, strict=True)]
    notes = [] if by_name else ["task groups have other names in each run: aligned by place"]
    coarse = _merge_unsteady(runs)
    if coarse:
        words = ", ".join(coarse[:_SAID]) + (" …" if len(coarse) > _SAID else "")
        notes.append(f"who shares the objects differs between the runs: not told apart in {words}")
    scales = tuple(float(k) for k in scale)
    tasks, objects = _Codes(), _Codes()
    task_ids = [tasks.of(g.tasks) for g in graphs]
    object_ids = [objects.of(g.objects) for g in graphs]
    width = max(len(objects.code), 1)
    pairs = [
        t[g.edge_task] * width + o[g.edge_object]
        for g, t, o in zip(graphs, task_ids, object_ids, strict=True)
    ]
    edges: dict[str, dict[str, Series]] = {}
    direction: dict[str, str] = {}
    for fold in sorted({key for run in runs for key in run}):
        group, verb, role = fold
        key = f"{group} {verb} [{role}]" if role else f"{group} {verb}"
        rows = [run.get(fold, _NONE) for run in runs]
        ids = tuple(p[row] for p, row in zip(pairs, rows, strict=True))
        values = {m: [getattr(g, m)[r] for g, r in zip(graphs, rows, strict=True)] for m in METRICS}
        edges[key] = _series(key, scales, values, ids)
        direction[key] = verb
    groups = _groups(graphs, labels, scales, task_ids)
    whole = _whole(graphs, scales)
    lone = sum(_present(m) < len(graphs) for m in edges.values())
    if lone:
        notes.append(f"{lone} of {len(edges)} folded edges are not in all runs")
    names = list(tasks.code), list(objects.code)
    return Aligned(edges, groups, whole, direction, *names, by_name, tuple(notes))


class _Codes:
    """Names over all runs as numbers, so that the same instances are found again."""

    def __init__(self) -> None:
        self.code: dict[str, int] = {}

    def of(self, names: Sequence[str]) -> Codes:
        """Give the numbers of names; new ones are added."""
        return np.array(
            [self.code.setdefault(name, len(self.code)) for name in names], dtype=np.int64
        )


def _merge_unsteady(runs: list[dict[Fold, Codes]]) -> list[str]:
    """Join the roles of a group and direction that are not the same in all runs; in place."""
    roles: dict[tuple[str, str], list[set[Fold]]] = {}
    for n, run in enumerate(runs):
        for fold in run:
            roles.setdefault(fold[:2], [set() for _ in runs])[n].add(fold)
    coarse = []
    for start, found in sorted(roles.items()):
        filled = [folds for folds in found if folds]
        if all(folds == filled[0] for folds in filled):
            continue
        coarse.append(" ".join(start))
        for run, folds in zip(runs, found, strict=True):
            if folds:
                run[(*start, "")] = np.sort(np.concatenate([run.pop(f) for f in sorted(folds)]))
    return coarse


def _present(metrics: Mapping[str, Series]) -> int:
    return sum(bool(v.size and v[0] > 0) for v in metrics["count"].samples)


def _series(
    key: str,
    scale: tuple[float, ...],
    values: Mapping[str, list[Floats]],
    ids: tuple[Codes, ...],
) -> dict[str, Series]:
    counts = [len(names) for names in ids]
    # A fold that a run lacks says nothing of why: no count there, rather than 0.
    made = {
        "count": Series(
            key, "count", scale, tuple(np.array([float(n)] if n else []) for n in counts)
        )
    }
    for metric, samples in values.items():
        if any(np.isfinite(v).any() for v in samples):
            made[metric] = Series(key, metric, scale, tuple(samples), ids)
    return made


def _groups(
    graphs: Sequence[FlowGraph],
    labels: Sequence[tuple[Codes, list[str]]],
    scale: tuple[float, ...],
    task_ids: Sequence[Codes],
) -> dict[str, dict[str, Series]]:
    found: dict[str, dict[int, Codes]] = defaultdict(dict)
    for n, (code, names) in enumerate(labels):
        for one, rows in _split(code):
            found[names[one]][n] = rows
    made = {}
    for key in sorted(found):
        mine = [found[key].get(n, _NONE) for n in range(len(graphs))]
        ids = tuple(t[row] for t, row in zip(task_ids, mine, strict=True))
        walls = [g.wall_s[row] for g, row in zip(graphs, mine, strict=True)]
        made[key] = _series(key, scale, {"wall_s": walls}, ids)
    return made


def _whole(graphs: Sequence[FlowGraph], scale: tuple[float, ...]) -> dict[str, dict[str, Series]]:
    """Sum each run; a sum that lacks values is unknown."""
    made: dict[str, dict[str, Series]] = {}
    parts: list[tuple[str, str, list[Floats]]] = [
        (key, metric, [getattr(g, metric)[g.edge_write == write] for g in graphs])
        for key, write in (("all reads", False), ("all writes", True))
        for metric in METRICS
    ]
    parts.append(("all tasks", "wall_s", [g.wall_s for g in graphs]))
    for key, metric, values in parts:
        sums = tuple(np.array([v.sum()]) if v.size else np.empty(0) for v in values)
        if any(np.isfinite(v).any() for v in sums):
            one = tuple(np.ones(1) for _ in graphs)
            made.setdefault(key, {"count": Series(key, "count", scale, one)})
            made[key][metric] = Series(key, metric, scale, sums)
    return made


def _split(code: Codes) -> list[tuple[int, Codes]]:
    """Give (code, positions) for each code that occurs, in order."""
    order = np.argsort(code, kind="stable")
    known, first = np.unique(code[order], return_index=True)
    return list(zip(known.tolist(), np.split(order, first[1:]), strict=True)) if len(code) else []


def _named(graphs: Sequence[FlowGraph]) -> bool:
    """Say whether group names are the same things in all runs."""
    common: set[str] | None = None
    for g in graphs:
        used = {g.groups[c] for c in np.unique(g.group[g.group >= 0]).tolist()}
        common = used if common is None else common & used
    if not common:
        return False
    for g in graphs:
        if not g.n_tasks:
            continue
        shared = np.array([name in common for name in g.groups] + [False])
        owner = g.edge_task if g.n_edges else np.arange(g.n_tasks)
        if float(shared[g.group[owner]].mean()) < _NAMED:
            return False
    return True


def _by_name(g: FlowGraph) -> tuple[Codes, list[str]]:
    names = [*g.groups, "(no group)"]
    return np.where(g.group < 0, len(g.groups), g.group), names


def _by_place(g: FlowGraph) -> tuple[Codes, list[str]]:
    """Label tasks by their fold: its stage, and the stages before and after it."""
    from rotameter.profiler.flow.folding import fold

    folded = fold(g, use_names=False)
    stage, edges, deps = folded.stage.tolist(), folded.edges, folded.deps
    before: list[set[int]] = [set() for _ in stage]
    after: list[set[int]] = [set() for _ in stage]
    readers: dict[int, set[int]] = defaultdict(set)
    flows = list(zip(edges.task.tolist(), edges.object.tolist(), edges.write.tolist(), strict=True))
    for task, thing, write in flows:
        if not write:
            before[task].add(int(folded.object_stage[thing]))
            readers[thing].add(stage[task])
    for task, thing, write in flows:
        if write:
            after[task] |= readers[thing]
    for task, on in zip(deps.task.tolist(), deps.on.tolist(), strict=True):
        before[task].add(stage[on])
        after[on].add(stage[task])
    alike: dict[str, list[int]] = defaultdict(list)
    for n in range(len(stage)):
        alike[f"stage {stage[n]} (from {_list(before[n])}, to {_list(after[n])})"].append(n)
    moved = np.bincount(
        folded.task_folds.of[g.edge_task], np.nan_to_num(g.bytes), minlength=len(stage)
    ) / np.maximum(folded.task_folds.size, 1)
    names = [""] * len(stage)
    for word, members in alike.items():
        # What the wiring does not tell apart, the amount of work a task does.
        members.sort(key=lambda n: (-moved[n], n))
        for rank, n in enumerate(members, 1):
            names[n] = word if len(members) == 1 else f"{word} no. {rank}"
    return folded.task_folds.of.astype(np.int64), names


def _list(values: set[int]) -> str:
    return "/".join("start" if v < 0 else str(v) for v in sorted(values)) or "-"


def _edge_keys(g: FlowGraph, code: Codes, names: list[str]) -> dict[Fold, Codes]:
    """Give folded edge → its edges, by task label, direction and role of the object."""
    if not g.n_edges:
        return {}
    label = code[g.edge_task]
    role, roles = _roles(g, label, names)
    width = len(roles)
    key = (label * 2 + g.edge_write) * width + role[g.edge_object]
    made: dict[Fold, list[Codes]] = defaultdict(list)
    for one, rows in _split(key):
        left, place = divmod(one, width)
        made[names[left // 2], "writes" if left % 2 else "reads", roles[place]].append(rows)
    return {fold: np.sort(np.concatenate(rows)) for fold, rows in made.items()}


def _roles(g: FlowGraph, label: Codes, names: list[str]) -> tuple[Codes, list[str]]:
    """Give each object's role, and the roles as text; none where objects are all different."""
    width = len(names) * 2
    pairs = np.unique(g.edge_object * width + label * 2 + g.edge_write)
    owner, rest = np.divmod(pairs, width)
    starts = np.searchsorted(owner, np.arange(len(g.objects) + 1))
    known: dict[tuple[int, ...], int] = {}
    role = np.zeros(len(g.objects), dtype=np.int64)
    bounds, members = starts.tolist(), rest.tolist()
    for n in range(len(g.objects)):
        own = tuple(members[bounds[n] : bounds[n + 1]])
        role[n] = known.setdefault(own, len(known))
        if len(known) > _ROLES_LIMIT:
            return np.zeros(len(g.objects), dtype=np.int64), [""]
    return role, [_role_text(own, names) for own in known]


def _role_text(members: tuple[int, ...], names: list[str]) -> str:
    ends = []
    for side, nobody in ((1, "outside"), (0, "nobody")):
        words = sorted(names[m // 2] for m in members if m % 2 == side)
        rest = len(words) - _ROLE_WORDS
        text = ", ".join(words[:_ROLE_WORDS]) or nobody
        ends.append(f"{text} and {rest} more" if rest > 0 else text)
    return " > ".join(ends)
