"""The graph of tasks and data: what becomes an edge, which attempt counts, what waits for what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.profiler.flow._links import acyclic
from rotameter.profiler.flow.graph import FlowGraph, flow_graph
from rotameter.profiler.trace import Trace

S = 10**9


def make(**tables: list[dict[str, Any]]) -> FlowGraph:
    return flow_graph(Trace.from_tables(tables))


def flow(task: str | None, thing: str | None, op: str, size: int | None = None, **more: Any) -> Any:
    return {"task_id": task, "object": thing, "op": op, "bytes": size, **more}


def edges(graph: FlowGraph) -> dict[tuple[str, str, bool], float]:
    rows = zip(graph.edge_task, graph.edge_object, graph.edge_write, graph.bytes, strict=True)
    return {(graph.tasks[t], graph.objects[o], bool(w)): float(b) for t, o, w, b in rows}


def links(graph: FlowGraph) -> list[tuple[str, str, str | None]]:
    return [
        (graph.tasks[s], graph.tasks[d], graph.objects[v] if v >= 0 else None)
        for s, d, v in zip(*graph.links(), strict=True)
    ]


def test_an_empty_trace_has_an_empty_graph() -> None:
    graph = make()
    assert (graph.n_tasks, graph.n_edges, len(graph.links())) == (0, 0, 0)
    assert graph.reuse_ratio.shape == (0,)


def test_rows_of_one_pair_and_direction_are_one_edge() -> None:
    graph = make(
        flows=[
            flow("a", "x", "read", 3, ops=1, busy_s=0.5, first_ns=5 * S, last_ns=6 * S),
            flow("a", "x", "read", 5, ops=2, busy_s=1.5, first_ns=2 * S, last_ns=9 * S),
            flow("a", "x", "read", None),
            flow("a", "x", "write", 7),
            flow("a", "x", "open", 99),
        ],
        tasks=[{"task_id": "a", "started_ns": S, "ended_ns": 5 * S, "outcome": "ok"}],
    )
    assert edges(graph) == {("a", "x", False): 8.0, ("a", "x", True): 7.0}
    read = int(np.flatnonzero(~graph.edge_write)[0])
    assert (graph.ops[read], graph.busy_s[read]) == (3.0, 2.0)
    assert (graph.first_s[read], graph.last_s[read]) == (1.0, 8.0)
    assert (graph.rate[read], graph.blocking_ratio[read]) == (4.0, 0.5)
    assert np.isnan(graph.rate[1 - read])


def test_two_media_are_two_views_of_the_same_bytes() -> None:
    graph = make(
        flows=[
            flow("a", "x", "read", None, medium="file", footprint_bytes=9),
            flow("a", "x", "receive", 8, medium="network"),
            flow("a", "y", "read", 4, medium="file"),
            flow("a", "y", "receive", 5, medium="network"),
        ]
    )
    assert edges(graph) == {("a", "x", False): 8.0, ("a", "y", False): 5.0}


def test_unknown_is_never_zero() -> None:
    graph = make(flows=[flow("a", "x", "read")])
    for name in ("bytes", "used_bytes", "footprint_bytes", "ops", "busy_s", "first_s", "last_s"):
        assert np.isnan(getattr(graph, name)).all(), name
    assert np.isnan(graph.size_bytes).all()
    assert np.isnan(graph.start_s).all()


def test_footprints_of_several_rows_do_not_exceed_the_object() -> None:
    rows = [flow("a", "x", "read", 8, footprint_bytes=8), flow("a", "x", "read", 9)]
    rows += [flow("a", "x", "read", 7, footprint_bytes=7)]
    sized = make(flows=rows, objects=[{"object": "x", "size_bytes": 10}])
    assert (sized.footprint_bytes[0], sized.use_ratio[0], sized.reuse_ratio[0]) == (10.0, 1.0, 2.4)
    assert make(flows=rows).footprint_bytes[0] == 15.0


def attempts(*outcomes: str) -> list[dict[str, Any]]:
    return [
        {"task_id": "a", "attempt": n, "run_id": f"r{n}", "outcome": o, "started_ns": n * S}
        for n, o in enumerate(outcomes, 1)
    ]


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [
        (("failed", "ok"), 2.0),
        (("ok", "ok"), 2.0),
        (("ok", "failed"), 1.0),
        (("failed", "failed"), 2.0),
        (("cached", "failed"), 1.0),
    ],
)
def test_the_attempt_that_delivered_is_the_graph(outcomes: tuple[str, ...], kept: float) -> None:
    rows = [flow("a", "x", "read", n, attempt=n) for n in (1, 2)]
    rows += [flow("a", "y", "write", 10 * n, run_id=f"r{n}") for n in (1, 2)]
    graph = make(tasks=attempts(*outcomes), flows=rows)
    assert edges(graph) == {("a", "x", False): kept, ("a", "y", True): 10 * kept}
    assert graph.lost_read_bytes.tolist() == [3 - kept]
    assert graph.lost_write_bytes.tolist() == [30 - 10 * kept]
    assert graph.start_s.tolist() == [kept - 1]


def test_lost_bytes_of_unknown_size_are_unknown() -> None:
    rows = [flow("a", "x", "read", None, attempt=1), flow("a", "x", "read", 4, attempt=2)]
    graph = make(tasks=attempts("failed", "ok"), flows=rows)
    assert np.isnan(graph.lost_read_bytes[0])
    assert graph.lost_write_bytes[0] == 0.0


def test_attempts_that_are_not_on_record_are_kept() -> None:
    graph = make(
        tasks=[{"task_id": "a", "outcome": "ok"}], flows=[flow("a", "x", "read", 4, attempt=7)]
    )
    assert edges(graph) == {("a", "x", False): 4.0}


def test_flows_without_a_task_or_an_object_are_no_edges() -> None:
    graph = make(flows=[flow(None, "x", "read", 4), flow("a", None, "read", 5)])
    assert graph.n_edges == 0
    assert graph.unowned_bytes == 4.0


def test_tasks_of_flows_and_deps_alone_are_vertices() -> None:
    graph = make(
        tasks=[{"task_id": "a", "group": "g"}],
        flows=[flow("b", "x", "read", 1)],
        deps=[{"task_id": "c", "depends_on": "a"}],
    )
    assert graph.tasks == ["a", "b", "c"]
    assert graph.group.tolist() == [0, -1, -1]
    assert links(graph) == [("a", "c", None)]


def test_what_a_dask_task_made_has_that_task_as_its_producer() -> None:
    graph = make(
        tasks=[
            {"task_id": t, "outcome": "ok", "started_ns": n * S, "ended_ns": (n + 1) * S}
            | ({"output_bytes": 50} if t == "load-1" else {})
            for n, t in enumerate(("load-1", "sum-1"))
        ],
        flows=[flow("sum-1", "load-1", "receive", 48, medium="network")],
    )
    assert set(edges(graph)) == {("sum-1", "load-1", False), ("load-1", "load-1", True)}
    assert edges(graph)["sum-1", "load-1", False] == 48.0
    assert graph.size_bytes.tolist() == [50.0]
    assert links(graph) == [("load-1", "sum-1", "load-1")]


def timed(**spans: tuple[float, float]) -> list[dict[str, Any]]:
    return [
        {"task_id": t, "started_ns": int(S + s * S), "ended_ns": int(S + e * S), "outcome": "ok"}
        for t, (s, e) in spans.items()
    ]


def test_a_consumer_that_began_before_the_producer_ended_did_not_wait() -> None:
    rows = [flow("p", "x", "write", 1), flow("c", "x", "read", 1), flow("d", "x", "read", 1)]
    graph = make(tasks=timed(p=(0, 2), c=(1, 3), d=(2, 3)), flows=rows)
    assert links(graph) == [("p", "d", "x")]


def test_a_task_does_not_wait_for_itself() -> None:
    graph = make(flows=[flow("a", "x", "read", 1), flow("a", "x", "write", 1)])
    assert links(graph) == []
    assert graph.links().dropped == 0


def test_an_object_updated_in_turn_makes_a_chain() -> None:
    rows = [flow(t, "x", op, 1) for t in ("a", "b", "c") for op in ("read", "write")]
    graph = make(tasks=timed(a=(0, 1), b=(1, 2), c=(2, 3)), flows=rows)
    assert links(graph) == [("a", "b", "x"), ("a", "c", "x"), ("b", "c", "x")]


def test_cycles_of_a_bad_log_are_cut_where_time_runs_back() -> None:
    deps = [{"task_id": t, "depends_on": o} for t, o in (("a", "b"), ("b", "a"), ("c", "b"))]
    late_a = make(tasks=timed(a=(5, 6), b=(0, 1), c=(8, 9)), deps=deps)
    assert links(late_a) == [("b", "a", None), ("b", "c", None)]
    assert late_a.links().dropped == 1
    assert links(make(deps=deps)) == [("a", "b", None), ("b", "c", None)]


def test_many_parallel_edges_still_count_as_a_cycle() -> None:
    src = np.array([0] * 256 + [1])
    dst = np.array([1] * 256 + [0])
    assert acyclic(src, dst, 2).tolist() == [True] * 256 + [False]


def test_a_crowded_object_links_each_consumer_to_the_last_producers() -> None:
    n = 600
    spans = {f"p{i}": (i / 1000, (i + 1) / 1000) for i in range(n)}
    spans |= {f"c{i}": (1 + i, 2 + i) for i in range(n)}
    rows = [flow(t, "log", "write" if t[0] == "p" else "read", 1) for t in spans]
    graph = make(tasks=timed(**spans), flows=rows)
    found = graph.links()
    assert found.thinned == 1
    assert len(found) == 16 * n
    assert {graph.tasks[s] for s in found.src} == {f"p{i}" for i in range(n - 16, n)}


def test_the_graph_of_a_trace_is_made_once() -> None:
    trace = Trace.from_tables({"flows": [flow("a", "x", "read", 1)]})
    assert flow_graph(trace) is flow_graph(trace)
