"""Paths under weights; equality with brute force is in tests/property/test_flow_graph.py."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.errors import UsageError
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.flow.paths import WEIGHTS, Dag, flow_dag, k_paths, longest_path, slack
from rotameter.profiler.trace import Trace

S = 10**9


def dag(n: int, pairs: list[tuple[int, int]], vertex: list[float], link: list[float]) -> Dag:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Dag(n, ends[:, 0], ends[:, 1], np.array(vertex, float), np.array(link, float))


def test_without_vertices_there_is_no_path() -> None:
    assert longest_path(dag(0, [], [], [])) is None
    assert k_paths(dag(0, [], [], [])) == []
    assert slack(dag(0, [], [], [])).length == 0.0


def test_unknown_weights_add_nothing() -> None:
    one = dag(3, [(0, 1), (1, 2)], [np.nan, 2, np.inf], [np.nan, 1])
    best = longest_path(one)
    assert best is not None
    assert (best.length, best.vertices) == (3.0, (0, 1, 2))
    assert slack(one).vertex.tolist() == [0.0, 0.0, 0.0]


def test_of_parallel_links_the_heaviest_is_on_the_path_and_the_other_has_slack() -> None:
    one = dag(2, [(0, 1), (0, 1)], [1, 1], [2, 5])
    best = longest_path(one)
    assert best is not None
    assert (best.length, best.links) == (7.0, (1,))
    assert [p.vertices for p in k_paths(one, 9)] == [(0, 1)]
    assert slack(one).link.tolist() == [3.0, 0.0]


def test_a_deep_chain_needs_no_recursion() -> None:
    n = 20_000
    chain = Dag(n, np.arange(n - 1), np.arange(1, n), np.ones(n), np.zeros(n - 1))
    best = longest_path(chain)
    assert best is not None
    assert (best.length, len(best.vertices)) == (n, n)
    assert not slack(chain).vertex.any()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="negative"):
        dag(1, [], [-1.0], [])
    with pytest.raises(UsageError, match="every"):
        dag(2, [(0, 1)], [1.0, 1.0], [])
    with pytest.raises(UsageError, match="cycle"):
        longest_path(dag(2, [(0, 1), (1, 0)], [1, 1], [0, 0]))
    with pytest.raises(UsageError, match="k of 1"):
        k_paths(dag(1, [], [1], []), 0)


def graph() -> FlowGraph:
    """Two chains: heavy in time (a → b), heavy in bytes (in → c → y → d → out)."""
    spans = {"a": (0, 5), "b": (5, 9), "c": (0, 1), "d": (1, 2)}
    tasks = [
        {"task_id": t, "outcome": "ok", "started_ns": S * (1 + s), "ended_ns": S * (1 + e)}
        for t, (s, e) in spans.items()
    ]
    moved = [("a", "x", "write", 1), ("b", "x", "read", 2), ("c", "in", "read", 100)]
    moved += [("c", "y", "write", 3), ("d", "y", "read", 4), ("d", "out", "write", 50)]
    flows = [
        {"task_id": t, "object": o, "op": op, "bytes": n, "ops": 1, "footprint_bytes": n}
        for t, o, op, n in moved
    ]
    return flow_graph(Trace.from_tables({"tasks": tasks, "flows": flows}))


@pytest.mark.parametrize(
    ("weight", "length", "names"),
    [
        ("time", 9.0, ["a", "b"]),
        ("bytes", 157.0, ["in", "c", "d", "out"]),
        ("footprint_bytes", 157.0, ["in", "c", "d", "out"]),
        ("ops", 4.0, ["in", "c", "d", "out"]),
    ],
)
def test_each_weight_has_its_own_path(weight: str, length: float, names: list[str]) -> None:
    made = graph()
    weighed = flow_dag(made, weight)
    best = longest_path(weighed)
    assert best is not None
    assert best.length == length
    assert [weighed.name(made, v) for v in best.vertices] == names


def test_every_edge_of_the_data_lies_on_some_link() -> None:
    made = graph()
    weighed = flow_dag(made, "bytes")
    assert weighed.link.sum() == np.nansum(made.bytes)  # no object has two readers here


def test_an_unknown_weight_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=", ".join(WEIGHTS)):
        flow_dag(graph(), "colour")


def test_a_dependency_that_ended_too_late_does_not_lengthen_the_path() -> None:
    tasks = [
        {"task_id": t, "outcome": "ok", "started_ns": S, "ended_ns": 5 * S} for t in ("a", "b")
    ]
    deps = [{"task_id": "b", "depends_on": "a"}]
    made = flow_graph(Trace.from_tables({"tasks": tasks, "deps": deps}))
    best = longest_path(flow_dag(made))
    assert best is not None
    assert best.length == 4.0
