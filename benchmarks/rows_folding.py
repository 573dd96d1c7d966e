"""Rows of folding: real workflows with every name hidden, read through the product's importer."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Context, Result, bench

__all__ = ["hidden"]

WORKFLOWS = {
    "1kg": "fastflow/1000genomes/1kg_workflow_data.csv",
    "pyflex": "spm/pyflex_240f_workflow_data.csv",
    "seismology": "io-aware/seismology_fixed.csv",
}
OTHERS = {
    "sam": "io-aware/summer_sam_4n_pfs_s9_tr_estimated_fixed.csv",
    "montage": "fastflow/montage/montage_workflow_data.csv",
    "ddmd": "fastflow/ddmd/ddmd_4n_l_workflow_data.csv",
    "par_6000_10n": "io-aware/par_6000_10n_nfs_ps300_tr_estimated.csv",
}


@cache
def hidden(path: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """Give a workflow's graph with tasks, objects and edges shuffled and every name random.

    Each task has a group of its own; the log's stage numbers stay.

    Returns
    -------
    graph : FlowGraph
    stage : ndarray
    truth : ndarray
        The hidden task names, as numbers.
    """
    import rotameter
    from rotameter.profiler.flow.graph import flow_graph

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = rotameter.open(path)
    graph = flow_graph(trace)
    stage = graph.stage if graph.stage is not None else np.full(len(graph.tasks), -1)
    rng = np.random.default_rng(seed)
    task, thing = rng.permutation(len(graph.tasks)), rng.permutation(len(graph.objects))
    edge, dep = rng.permutation(graph.n_edges), rng.permutation(len(graph.dep_task))
    new_task, new_thing = np.argsort(task), np.argsort(thing)
    tasks = [f"{n:08x}" for n in rng.choice(2**31, len(task), replace=False)]
    things = [f"{n:08x}" for n in rng.choice(2**31, len(thing), replace=False)]
    edges = ("edge_write", "bytes", "used_bytes", "footprint_bytes", "ops", "busy_s")
    changed = {name: getattr(graph, name)[edge] for name in (*edges, "first_s", "last_s")}
    of_tasks = ("start_s", "end_s", "wall_s", "lost_read_bytes", "lost_write_bytes")
    changed |= {name: getattr(graph, name)[task] for name in of_tasks}
    if graph.stage is not None:
        changed["stage"] = graph.stage[task]
    made = replace(
        graph,
        tasks=tasks,
        group=np.arange(len(task)),
        groups=[f"g{name}" for name in tasks],
        objects=things,
        size_bytes=graph.size_bytes[thing],
        edge_task=new_task[graph.edge_task[edge]],
        edge_object=new_thing[graph.edge_object[edge]],
        dep_task=new_task[graph.dep_task[dep]],
        dep_on=new_task[graph.dep_on[dep]],
        memo={},
        **changed,
    )
    return made, stage[task], graph.group[task]


def _path(context: Context, name: str) -> str:
    place = Path(context.shared or os.environ.get("ROTAMETER_SHARED") or "../shared")
    return str(place / "data" / "dataflow" / (WORKFLOWS | OTHERS)[name])


def _fold(context: Context, name: str) -> tuple[Any, Any, Any, Any]:
    from rotameter.profiler.flow.folding import fold

    graph, stage, truth = hidden(_path(context, name))
    return graph, stage, truth, fold(graph, use_names=False, stage=stage)


def _rand(truth: Any, found: Any) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, found))


def _ratio(context: Context, name: str) -> Result:
    from rotameter.profiler.flow.folding import fold

    graph, _, _, folded = _fold(context, name)
    depth = fold(replace(graph, stage=None), use_names=False)
    data = graph.n_edges / len(folded.edges)
    note = (
        f"{graph.n_edges:,} edges and {len(graph.dep_task):,} dependencies in "
        f"{len(folded.edges)} and {len(folded.deps)}; data edges alone {data:.1f}; "
        f"{depth.ratio:.1f} without the log's stages"
    )
    return Result(min(folded.ratio, data), "x", note=note)


def _agreement(context: Context, name: str) -> Result:
    from rotameter.profiler.flow.folding import fold

    graph, stage, truth, folded = _fold(context, name)
    blind = fold(replace(graph, stage=None), use_names=False)
    note = (
        f"{folded.task_folds.n} roles for {len(np.unique(truth))} names in "
        f"{len(np.unique(stage))} stages; {_rand(truth, stage):.3f} of the stages alone, "
        f"{_rand(truth, blind.task_folds.of):.3f} of the folds without the log's stages"
    )
    return Result(_rand(truth, folded.task_folds.of), "adjusted Rand", note=note)


@bench("fold_ratio_1kg", issue=4, target=">= 60")
def ratio_1kg(context: Context) -> Result:
    """Edges for each folded edge, 1000 Genomes, names hidden."""
    return _ratio(context, "1kg")


@bench("fold_ratio_pyflex", issue=4, target=">= 60")
def ratio_pyflex(context: Context) -> Result:
    """Edges for each folded edge, PyFLEXTRKR, names hidden."""
    return _ratio(context, "pyflex")


@bench("fold_ratio_seismology", issue=4, target=">= 50")
def ratio_seismology(context: Context) -> Result:
    """Edges for each folded edge, seismology, names hidden."""
    return _ratio(context, "seismology")


@bench("fold_rand_1kg", issue=4, target=">= 0.95")
def rand_1kg(context: Context) -> Result:
    """Agreement of folded tasks with the hidden names, 1000 Genomes."""
    return _agreement(context, "1kg")


@bench("fold_rand_pyflex", issue=4, target=">= 0.95")
def rand_pyflex(context: Context) -> Result:
    """Agreement of folded tasks with the hidden names, PyFLEXTRKR."""
    return _agreement(context, "pyflex")


@bench("fold_rand_seismology", issue=4, target=">= 0.95")
def rand_seismology(context: Context) -> Result:
    """Agreement of folded tasks with the hidden names, seismology."""
    return _agreement(context, "seismology")


def _rows(graph: Any) -> Counter[tuple[Any, ...]]:
    """Give all edges by the names of their ends, to compare two graphs."""
    columns = (graph.edge_task, graph.edge_object, graph.edge_write, graph.bytes, graph.ops)
    return Counter(
        (graph.tasks[t], graph.objects[o], w, b, n)
        for t, o, w, b, n in zip(*(c.tolist() for c in columns), strict=True)
    )


@bench("fold_sums_wrong", issue=4, target="== 0")
def sums(context: Context) -> Result:
    """Folded edges whose bytes or ops are not those of their members, and edges lost."""
    wrong = checked = 0
    for name in WORKFLOWS | OTHERS:
        graph, _, _, folded = _fold(context, name)
        of = folded.edges.groups
        for column, totals in ((graph.bytes, folded.edges.bytes), (graph.ops, folded.edges.ops)):
            for at in range(len(folded.edges)):
                whole = sum(int(value) for value in column[of.members(at)].tolist())
                wrong += int(totals[at]) != whole
                checked += 1
            wrong += int(totals.sum()) != sum(int(value) for value in column.tolist())
        wrong += sum(((_rows(graph) - _rows(folded.unfold())) + Counter()).values())
        wrong += graph.n_edges != len(of.order)
    return Result(wrong, "sums", note=f"{checked:,} sums of {len(WORKFLOWS | OTHERS)} workflows")


@bench("fold_mixed", issue=4, target="== 0")
def mixed(context: Context) -> Result:
    """Folds with tasks of two of the log's stages, or edges of two directions."""
    wrong = folds = 0
    for name in WORKFLOWS | OTHERS:
        graph, stage, _, folded = _fold(context, name)
        for at in range(folded.task_folds.n):
            wrong += len(np.unique(stage[folded.task_folds.members(at)])) > 1
        makers: list[set[int]] = [set() for _ in graph.objects]
        for edge in np.flatnonzero(graph.edge_write).tolist():
            makers[graph.edge_object[edge]].add(int(stage[graph.edge_task[edge]]))
        for at in range(folded.object_folds.n):
            seen = {frozenset(makers[o]) for o in folded.object_folds.members(at).tolist()}
            wrong += len(seen) > 1
        for at in range(len(folded.edges)):
            members = folded.edges.groups.members(at)
            wrong += len(np.unique(graph.edge_write[members])) > 1
            wrong += len(np.unique(stage[graph.edge_task[members]])) > 1
        folds += folded.n_nodes + len(folded.edges)
    return Result(wrong, "folds", note=f"{folds} folds of {len(WORKFLOWS | OTHERS)} workflows")


@bench("fold_other_workflows_ratio", issue=4, target=">= 5")
def others(context: Context) -> Result:
    """Smallest ratio on the workflows that set no target, names hidden; figures in the note."""
    found, ratios = [], []
    for name in OTHERS:
        _, _, truth, folded = _fold(context, name)
        ratios.append(folded.ratio)
        agrees = _rand(truth, folded.task_folds.of)
        found.append(f"{name} {folded.ratio:.1f}x, Rand {agrees:.2f}")
    return Result(min(ratios), "x", note="; ".join(found))


@bench("fold_1m_edges_s", issue=4, target="<= 5")
def million(context: Context) -> Result:
    """Seconds to fold 1,000,000 edges of 100,000 tasks in five stages, names hidden."""
    import time

    from rotameter.profiler.flow.folding import fold
    from rotameter.profiler.flow.graph import FlowGraph

    rng = np.random.default_rng(0)
    each, stages, wide = 20_000, 5, 10
    parts = []
    for stage in range(stages):
        task = np.arange(each) + stage * each
        parts += [(task, task, True), (task, task + stages * each, False)]
        near = (np.arange(each) // wide * wide) % each + (stage - 1) * each
        parts += [(task, near + at, False) for at in range(wide if stage else 0)]
    n = sum(len(task) for task, _, _ in parts)
    blank, unknown = np.full(n, np.nan), np.full(each * stages, np.nan)
    none = np.zeros(0, dtype=np.int64)
    graph = FlowGraph(
        tasks=[f"t{i}" for i in range(each * stages)],
        group=np.full(each * stages, -1),
        groups=[],
        objects=[f"o{i}" for i in range(2 * each * stages)],
        size_bytes=np.full(2 * each * stages, np.nan),
        edge_task=np.concatenate([task for task, _, _ in parts]),
        edge_object=np.concatenate([thing for _, thing, _ in parts]),
        edge_write=np.concatenate([np.full(len(task), write) for task, _, write in parts]),
        bytes=rng.integers(1, 10**6, n).astype(np.float64),
        used_bytes=blank,
        footprint_bytes=blank,
        ops=np.full(n, 10.0),
        busy_s=blank,
        first_s=blank,
        last_s=blank,
        dep_task=none,
        dep_on=none,
        start_s=unknown,
        end_s=unknown,
        wall_s=unknown,
        lost_read_bytes=unknown,
        lost_write_bytes=unknown,
    )
    began = time.perf_counter()
    folded = fold(graph, use_names=False)
    seconds = time.perf_counter() - began
    return Result(seconds, "s", note=f"{n:,} edges to {len(folded.edges)}")
