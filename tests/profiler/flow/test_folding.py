"""Folding: what plays the same part is drawn once, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.flow._fold_labels import pattern
from rotameter.profiler.flow._fold_stages import depths, stages
from rotameter.profiler.flow.folding import Folded, fold, fold_trace
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.trace import Trace


def graph_of(
    flows: list[tuple[Any, ...]] = (),
    deps: list[tuple[str, str]] = (),
    groups: dict[str, str] | None = None,
) -> FlowGraph:
    """Make a graph of (task, object, "read" or "write"[, bytes[, ops]]) and (task, needs)."""
    rows = [
        {"task_id": t, "object": o, "op": op, "bytes": more[0] if more else 8,
         "ops": more[1] if len(more) > 1 else 1}
        for t, o, op, *more in flows
    ]  # fmt: skip
    names = dict.fromkeys([t for t, *_ in flows] + [t for pair in deps for t in reversed(pair)])
    tasks = [{"task_id": t, "attempt": 1, "group": (groups or {}).get(t)} for t in names]
    needs = [{"task_id": t, "depends_on": on} for t, on in deps]
    return flow_graph(Trace.from_tables({"tasks": tasks, "flows": rows, "deps": needs}))


def roles(folded: Folded) -> list[set[str]]:
    tasks = folded.graph.tasks
    return [{tasks[i] for i in folded.task_folds.members(f)} for f in range(folded.task_folds.n)]


def kinds(folded: Folded) -> list[set[str]]:
    things = folded.graph.objects
    n = folded.object_folds.n
    return [{things[i] for i in folded.object_folds.members(f)} for f in range(n)]


def edges(graph: FlowGraph) -> Counter[tuple[Any, ...]]:
    columns = (graph.edge_task, graph.edge_object, graph.edge_write, graph.bytes, graph.ops)
    return Counter(
        (graph.tasks[t], graph.objects[o], w, b, n)
        for t, o, w, b, n in zip(*(c.tolist() for c in columns), strict=True)
    )


def pipeline(n: int) -> list[tuple[Any, ...]]:
    """Make n times in → a → mid → b → out."""
    rows: list[tuple[Any, ...]] = []
    for i in range(n):
        rows += [(f"a{i}", f"in{i}", "read", 10 + i), (f"a{i}", f"mid{i}", "write", 20)]
        rows += [(f"b{i}", f"mid{i}", "read", 20), (f"b{i}", f"out{i}", "write", 5)]
    return rows


def test_parallel_pipelines_fold_into_one():
    folded = fold(graph_of(pipeline(30)), use_names=False)
    assert folded.ratio == 30
    assert roles(folded) == [{f"a{i}" for i in range(30)}, {f"b{i}" for i in range(30)}]
    assert folded.stage.tolist() == [0, 1]
    assert folded.object_stage.tolist() == [-1, 0, 1]
    assert [folded.label(i) for i in range(5)] == ["a*", "b*", "in*", "mid*", "out*"]
    flow = {(folded.label(s), folded.label(d)) for s, d in zip(folded.src, folded.dst, strict=True)}
    assert flow == {("in*", "a*"), ("a*", "mid*"), ("mid*", "b*"), ("b*", "out*")}


def test_sums_members_and_distributions_are_those_of_the_edges():
    folded = fold(graph_of(pipeline(30)), use_names=False)
    (at,) = [i for i in range(4) if folded.label(folded.src[i]) == "in*"]
    assert folded.edges.n[at] == 30
    assert folded.edges.bytes[at] == sum(range(10, 40))
    members = folded.edges.groups.members(at)
    assert sorted(folded.graph.bytes[members]) == list(range(10, 40))
    spread = folded.distribution("bytes")
    assert (spread.n[at], spread.unknown[at], spread.total[at]) == (30, 0, sum(range(10, 40)))
    assert spread.quantiles[at].tolist() == pytest.approx([10, 12.9, 17.25, 24.5, 31.75, 36.1, 39])


def test_unfolding_gives_the_graph_back():
    graph = graph_of(pipeline(7), deps=[("b1", "a2"), ("b3", "a3")])
    back = fold(graph).unfold()
    assert edges(back) == edges(graph)
    assert sorted(back.tasks) == sorted(graph.tasks)
    pairs = {(back.tasks[t], back.tasks[o]) for t, o in zip(back.dep_task, back.dep_on)}  # noqa: B905
    assert pairs == {("b1", "a2"), ("b3", "a3")}


def test_unknown_bytes_stay_unknown():
    rows = [(f"a{i}", f"in{i}", "read", None) for i in range(4)]
    folded = fold(graph_of([*rows, ("a0", "out", "write", 7)]), use_names=False)
    read = ~folded.edges.write
    assert np.isnan(folded.edges.bytes[read]).all()
    assert folded.edges.bytes[~read].tolist() == [7.0]
    assert folded.distribution("bytes").unknown[read].sum() == 4


# -- what makes a role --------------------------------------------------------------------------


def test_roles_of_one_stage_are_told_apart_by_what_they_read():
    rows = []
    for i in range(12):
        rows += [(f"a{i}", f"in{i}", "read"), (f"a{i}", f"x{i}", "write")]
        rows += [(f"p{i}", f"x{i}", "read"), (f"p{i}", f"po{i}", "write")]
        rows += [(f"q{i}", f"x{i}", "read"), (f"q{i}", f"own{i}", "read")]
        rows += [(f"q{i}", f"qo{i}", "write")]
    folded = fold(graph_of(rows), use_names=False)
    assert {frozenset(r) for r in roles(folded)} == {
        frozenset(f"{letter}{i}" for i in range(12)) for letter in "apq"
    }


def two_branches() -> list[tuple[Any, ...]]:
    rows = []
    for i in range(12):
        for role, after in (("x", "p"), ("y", "q")):
            rows += [(f"{role}{i}", f"i{role}{i}", "read"), (f"{role}{i}", f"o{role}{i}", "write")]
            rows += [
                (f"{after}{i}", f"o{role}{i}", "read"),
                (f"{after}{i}", f"e{role}{i}", "write"),
            ]
        rows.append((f"p{i}", f"more{i}", "read"))
    return rows


def test_a_second_round_tells_producers_apart_by_their_consumers():
    graph = graph_of(two_branches())
    assert len(roles(fold(graph, use_names=False, rounds=1))) == 3
    assert len(roles(fold(graph, use_names=False, rounds=2))) == 4


def test_same_wiring_with_another_amount_of_work_is_another_role():
    rows = []
    for i in range(20):
        for role, ops in (("small", 8 + i % 3), ("large", 3000 + i)):
            rows += [(f"{role}{i}", f"x{i}", "read", 100, 50), ("make", f"x{i}", "write")]
            rows += [(f"{role}{i}", f"{role}-out{i}", "write", 100, ops)]
    found = {frozenset(r) for r in roles(fold(graph_of(rows), use_names=False))}
    assert frozenset(f"small{i}" for i in range(20)) in found
    assert frozenset(f"large{i}" for i in range(20)) in found


def test_skew_is_no_role():
    rows = [(f"a{i}", f"in{i}", "read", 4 ** (i % 4), 5) for i in range(40)]
    rows += [(f"a{i}", f"out{i}", "write", 10**6 if i == 7 else 100) for i in range(40)]
    folded = fold(graph_of(rows), use_names=False)
    assert len(roles(folded)) == 1


def test_an_aggregator_is_not_one_of_the_mappers():
    rows = [(f"a{i}", f"in{i}", "read") for i in range(50)]
    rows += [(f"a{i}", f"out{i}", "write") for i in range(50)]
    rows += [("all", f"other{i}", "read") for i in range(300)] + [("all", "sum", "write")]
    assert {"all"} in roles(fold(graph_of(rows), use_names=False))


def test_an_aggregator_of_the_same_inputs_is_not_one_of_the_mappers():
    rows = [(f"a{i}", f"in{i}", "read") for i in range(50)]
    rows += [(f"a{i}", f"out{i}", "write") for i in range(50)]
    rows += [("all", f"in{i}", "read") for i in range(50)] + [("all", "sum", "write")]
    assert {"all"} in roles(fold(graph_of(rows), use_names=False))


def test_a_parameter_file_is_another_kind_than_the_inputs():
    rows = [(f"a{i}", f"in{i}", "read") for i in range(20)]
    rows += [(f"a{i}", "settings", "read") for i in range(20)]
    rows += [(f"a{i}", f"out{i}", "write") for i in range(20)]
    assert {"settings"} in kinds(fold(graph_of(rows), use_names=False))


def test_instances_that_stopped_early_stay_in_their_role():
    rows = pipeline(40)
    rows += [(f"a{i}", f"in{i}", "read") for i in range(40, 46)]
    assert {f"a{i}" for i in range(46)} in roles(fold(graph_of(rows), use_names=False))


def test_helper_processes_that_only_read_join_the_task_they_read_for():
    rows = []
    for i in range(30):
        rows += [("make", f"x{i}", "write"), (f"main{i}", f"x{i}", "read")]
        rows += [(f"main{i}", f"out{i}", "write"), (f"help{i}", f"x{i}", "read")]
        rows += [(f"help{i}", "mask", "read")]
    found = roles(fold(graph_of(rows), use_names=False))
    assert {f"main{i}" for i in range(30)} | {f"help{i}" for i in range(30)} in found


def test_reading_what_everybody_reads_joins_nothing():
    rows = []
    for i in range(30):
        rows += [
            (f"p{i}", "mask", "read"),
            (f"p{i}", f"in{i}", "read"),
            (f"p{i}", f"o{i}", "write"),
        ]
        rows += [
            (f"q{i}", "mask", "read"),
            (f"q{i}", f"other{i}", "read"),
            (f"s{i}", f"o{i}", "read"),
        ]
        rows += [(f"s{i}", f"other{i}", "read"), (f"s{i}", f"z{i}", "write")]
    assert {f"q{i}" for i in range(30)} in roles(fold(graph_of(rows), use_names=False))


def test_an_incomplete_boundary_is_the_same_kind_of_object():
    rows = pipeline(40)
    rows = [row for row in rows if row[:2] not in {("b0", "mid0"), ("b39", "mid39")}]
    folded = fold(graph_of(rows), use_names=False)
    assert {f"mid{i}" for i in range(40)} in kinds(folded)
    assert {f"a{i}" for i in range(40)} in roles(folded)


# -- stages ------------------------------------------------------------------------------------


def test_stages_never_mix():
    rows = [(f"t{i}", f"x{i - 1}", "read") for i in range(1, 9)]
    rows += [(f"t{i}", f"x{i}", "write") for i in range(9)]
    folded = fold(graph_of(rows), use_names=False)
    assert len(roles(folded)) == 9
    assert folded.ratio == 1


def test_the_logs_own_stage_counts_and_depth_inside_it():
    rows = [(f"a{i}", f"o{i}", "write") for i in range(4)]
    graph = graph_of(rows + [("b", f"o{i}", "read") for i in range(4)])
    both = fold(graph, use_names=False, stage=np.array([0, 0, 1, 1, 1]))
    assert roles(both) == [{"a0", "a1"}, {"a2", "a3"}, {"b"}]
    one = stages(graph, np.zeros(5, dtype=np.int64))
    assert one.tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(ValueError, match="2 stages for 5 tasks"):
        fold(graph, stage=np.zeros(2, dtype=np.int64))


def test_recorded_stages_come_from_the_features_of_tasks():
    tasks = [
        {"task_id": "a", "features": {"stage_order": 3.0}},
        {"task_id": "b", "features": {"other": 1.0}},
        {"task_id": "c", "features": {"stage_order": 0.5}},
    ]
    trace = Trace.from_tables({"tasks": tasks})
    assert flow_graph(trace).stage.tolist() == [1, -1, 0]
    empty = Trace.from_tables({})
    assert flow_graph(empty).stage is None


def test_depths_agree_with_the_definition():
    rng = np.random.default_rng(5)
    for n, m in ((300, 900), (2000, 2500), (1, 0), (5, 4)):
        ends = np.sort(rng.integers(0, n, (m, 2)), axis=1)
        ends = ends[ends[:, 0] < ends[:, 1]]
        expected = [0] * n
        for src, dst in sorted(ends.tolist(), key=lambda pair: pair[0]):
            expected[dst] = max(expected[dst], expected[src] + 1)
        assert depths(n, ends[:, 0], ends[:, 1]).tolist() == expected


def test_a_cycle_of_a_bad_log_does_not_hang():
    assert len(depths(3, np.array([0, 1, 2]), np.array([1, 2, 1]))) == 3
    folded = fold(graph_of([("a", "x", "write"), ("b", "x", "read"), ("b", "y", "write"),
                            ("a", "y", "read")]))  # fmt: skip
    assert sum(len(r) for r in roles(folded)) == 2


# -- graphs of Dask: dependencies only -----------------------------------------------------------


def test_map_reduce_of_dependencies():
    deps = [(f"map{i}", f"load{i}") for i in range(64)]
    deps += [("reduce", f"map{i}") for i in range(64)]
    folded = fold(graph_of(deps=deps), use_names=False)
    assert [len(r) for r in roles(folded)] == [64, 64, 1]
    assert folded.ratio == 64
    assert [(folded.label(t), folded.label(o)) for t, o in
            zip(folded.deps.task, folded.deps.on, strict=True)] == [
        ("map*", "load*"), ("reduce", "map*")]  # fmt: skip


def test_a_shuffle_folds_into_one_edge():
    deps = [(f"out{j}", f"in{i}") for i in range(20) for j in range(20)]
    folded = fold(graph_of(deps=deps), use_names=False)
    assert [len(r) for r in roles(folded)] == [20, 20]
    assert folded.ratio == 400
    assert folded.deps.n.tolist() == [400]


def test_a_tree_reduction_folds_level_by_level():
    deps, level = [], [f"l0-{i}" for i in range(64)]
    while len(level) > 1:
        above = [f"n{len(level)}-{i}" for i in range(len(level) // 2)]
        deps += [(above[i // 2], name) for i, name in enumerate(level)]
        level = above
    folded = fold(graph_of(deps=deps), use_names=False)
    assert [len(r) for r in roles(folded)] == [64, 32, 16, 8, 4, 2, 1]


def test_sinks_of_dependencies_stay_apart_from_what_goes_on():
    deps = [(f"mean{i}", f"load{i}") for i in range(9)] + [
        (f"std{i}", f"load{i}") for i in range(9)
    ]
    deps += [("plot", f"std{i}") for i in range(9)]
    found = roles(fold(graph_of(deps=deps), use_names=False))
    assert {f"mean{i}" for i in range(9)} in found


# -- names -------------------------------------------------------------------------------------


def test_groups_name_roles():
    rows = two_branches()
    groups = {row[0]: {"x": "left", "y": "left"}.get(row[0][0], row[0][0]) for row in rows}
    folded = fold(graph_of(rows, groups=groups))
    assert [folded.label(i) for i in range(folded.task_folds.n)] == ["left", "p", "q"]
    assert folded.named
    assert not fold(graph_of(rows, groups=groups), use_names=False).named


def test_structure_decides_for_tasks_without_a_name():
    rows = pipeline(20)
    groups = {f"a{i}": "first" for i in range(10)}
    found = roles(fold(graph_of(rows, groups=groups)))
    assert found[:2] == [{f"a{i}" for i in range(10)}, {f"a{i}" for i in range(10, 20)}]
    assert set.union(*found[2:]) == {f"b{i}" for i in range(20)}


def test_groups_that_name_single_tasks_are_no_names():
    rows = pipeline(30)
    folded = fold(graph_of(rows, groups={row[0]: f"g-{row[0]}" for row in rows}))
    assert folded.ratio == 30
    few = pipeline(3)
    folded = fold(graph_of(few, groups={row[0]: f"g-{row[0]}" for row in few}))
    assert folded.task_folds.n == 6


def test_names_never_decide_without_groups():
    graph = graph_of(pipeline(25))
    renamed = graph_of([(f"x{len(o)}{t[::-1]}", o[::-1], *r) for t, o, *r in pipeline(25)])
    assert fold(graph).ratio == fold(renamed).ratio


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["chr3n-4001-4201.tar.gz", "chr10n-1-201.tar.gz"], "chr*n-*.tar.gz"),
        (["a"], "a"),
        ([], "(none)"),
        (["01", "02", "03"], "01 and 2 more"),
        (["run_1_x.nc", "run_1_2_x.nc"], "run_1_*x.nc"),
        (["ab", "abc"], "ab*"),
    ],
)
def test_patterns_of_names(names, expected):
    assert pattern(names) == expected


# -- partial and bad input ---------------------------------------------------------------------


def test_nothing_and_almost_nothing_fold():
    empty = fold(flow_graph(Trace.from_tables({})))
    assert empty.n_nodes == 0
    assert np.isnan(empty.ratio)
    assert empty.top(5).labels == []
    assert empty.unfold().tasks == []
    alone = fold(graph_of(deps=[("a", "a")]))
    assert (alone.task_folds.n, len(alone.edges)) == (1, 0)
    one = fold(graph_of([("a", "x", "read")]))
    assert one.ratio == 1
    with pytest.raises(ValueError, match="at least 1"):
        fold(graph_of([("a", "x", "read")]), rounds=0)


def test_order_of_the_input_changes_nothing():
    rows = pipeline(15) + two_branches()
    ahead, back = (fold(graph_of(r), use_names=False) for r in (rows, rows[::-1]))
    assert {frozenset(r) for r in roles(ahead)} == {frozenset(r) for r in roles(back)}
    assert {frozenset(k) for k in kinds(ahead)} == {frozenset(k) for k in kinds(back)}


# -- the picture -------------------------------------------------------------------------------


def test_the_picture_keeps_the_largest_and_the_sums():
    rows = []
    for stage in range(12):
        for i in range(3):
            rows += [(f"t{stage}-{i}", f"x{stage - 1}-{i}", "read", 10**stage)]
            rows += [(f"t{stage}-{i}", f"x{stage}-{i}", "write", 3)]
    folded = fold(graph_of(rows), use_names=False)
    for n in (2, 3, 5, 12, 25, 40):
        view = folded.top(n)
        assert len(view.labels) <= n
        assert view.bytes.sum() == folded.graph.bytes.sum()
        assert view.n.sum() == folded.graph.n_edges
        assert view.members[~view.is_object].sum() == len(folded.graph.tasks)
        assert (view.is_object[view.src] != view.is_object[view.dst]).all()
    assert "t11-*" in folded.top(12).labels
    whole = folded.top(40)
    assert whole.fold.tolist() == list(range(folded.n_nodes))
    with pytest.raises(ValueError, match="at least 2"):
        folded.top(1)


def test_the_rest_of_a_stage_is_one_other():
    rows = []
    for letter, size in (("a", 1000), ("b", 10), ("c", 1)):
        for i in range(5):
            rows += [
                (f"{letter}{i}", f"in-{letter}{i}", "read", size),
                (f"{letter}{i}", "o", "write"),
            ]
    groups = {row[0]: row[0][0] for row in rows}
    view = fold(graph_of(rows, groups=groups)).top(5)
    assert [view.labels[i] for i in np.flatnonzero(~view.is_object)] == ["a", "other"]
    assert view.stage[~view.is_object].tolist() == [0, 0]
    assert view.members[~view.is_object].tolist() == [5, 10]


def test_the_picture_of_dependencies_goes_by_members():
    deps = [(f"map{i}", f"load{i}") for i in range(9)] + [("reduce", f"map{i}") for i in range(9)]
    view = fold(graph_of(deps=deps)).top(40)
    assert view.is_dep.all()
    assert np.isnan(view.bytes).all()
    assert view.n.tolist() == [9, 9]


# -- real workflows ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("fastflow/1000genomes/1kg_workflow_data.csv", 60),
        ("spm/pyflex_240f_workflow_data.csv", 60),
        ("io-aware/seismology_fixed.csv", 50),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_real_workflows_fold_by_structure(rotameter_shared, path, least):
    import rotameter

    trace = rotameter.open(rotameter_shared / "data" / "dataflow" / path)
    graph = flow_graph(trace)
    folded = fold_trace(trace, use_names=False)
    assert folded.ratio >= least
    assert rand(graph.group, folded.task_folds.of) >= 0.95
    assert folded.edges.bytes.sum() == graph.bytes.sum()
    assert edges(folded.unfold()) == edges(graph)


def rand(truth: Any, found: Any) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(truth, found))
