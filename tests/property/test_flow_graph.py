"""Paths equal brute force; the realised critical path tiles any schedule."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.profiler.flow.critical import KINDS, critical_path, waterfall
from rotameter.profiler.flow.graph import flow_graph
from rotameter.profiler.flow.paths import Dag, Path, flow_dag, k_paths, longest_path, slack
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

BASE_NS = 1_700_000_000_000_000_000


def random_dag(rng: np.random.Generator) -> Dag:
    """Few vertices, many ties: whole weights, parallel links, isolated vertices, zero weights."""
    n = int(rng.integers(1, 9))
    m = int(rng.integers(0, 14)) if n > 1 else 0
    order = rng.permutation(n)
    ends = np.array([np.sort(rng.choice(n, 2, replace=False)) for _ in range(m)], dtype=np.int64)
    ends = ends.reshape(-1, 2)
    return Dag(
        n,
        order[ends[:, 0]],
        order[ends[:, 1]],
        rng.integers(0, 5, n).astype(float),
        rng.integers(0, 4, m).astype(float),
    )


def brute_force(dag: Dag) -> list[tuple[float, tuple[int, ...]]]:
    """All paths from a vertex without predecessors to one without successors, heaviest first."""
    step: dict[tuple[int, int], float] = {}
    for u, v, w in zip(dag.src.tolist(), dag.dst.tolist(), dag.link.tolist(), strict=True):
        step[u, v] = max(step.get((u, v), 0.0), w)
    heads = set(range(dag.n)) - {v for _, v in step}
    found: list[tuple[float, tuple[int, ...]]] = []

    def go(path: tuple[int, ...], length: float) -> None:
        onward = [v for u, v in step if u == path[-1]]
        if not onward:
            found.append((length, path))
        for v in onward:
            go((*path, v), length + step[path[-1], v] + dag.vertex[v])

    for head in heads:
        go((head,), float(dag.vertex[head]))
    return sorted(found, key=lambda one: (-one[0], one[1][::-1]))


def check(dag: Dag, path: Path) -> None:
    assert len(path.links) == len(path.vertices) - 1
    for u, v, at in zip(path.vertices, path.vertices[1:], path.links, strict=False):
        assert (dag.src[at], dag.dst[at]) == (u, v)
    total = dag.vertex[list(path.vertices)].sum() + dag.link[list(path.links)].sum()
    assert path.length == total


@pytest.mark.parametrize("part", range(4))
def test_paths_and_slack_equal_brute_force(part: int) -> None:
    rng = np.random.default_rng(part)
    for _ in range(250):
        dag = random_dag(rng)
        every = brute_force(dag)
        best = longest_path(dag)
        assert best is not None
        check(dag, best)
        assert (best.length, best.vertices) == every[0]
        k = int(rng.integers(1, 8))
        several = k_paths(dag, k)
        assert [(p.length, p.vertices) for p in several] == every[:k]
        for path in several:
            check(dag, path)
        found = slack(dag)
        for v in range(dag.n):
            through = max(length for length, path in every if v in path)
            assert found.vertex[v] == every[0][0] - through
        for at in range(len(dag.src)):
            u, v, weight = int(dag.src[at]), int(dag.dst[at]), dag.link[at]
            before = max(_head(dag, u))
            after = max(_head(_reversed(dag), v))
            assert found.link[at] == every[0][0] - (before + weight + after)


def _reversed(dag: Dag) -> Dag:
    return Dag(dag.n, dag.dst, dag.src, dag.vertex, dag.link)


def _head(dag: Dag, v: int) -> list[float]:
    into = [at for at in range(len(dag.src)) if dag.dst[at] == v]
    own = float(dag.vertex[v])
    if not into:
        return [own]
    return [x + dag.link[at] + own for at in into for x in _head(dag, int(dag.src[at]))]


def schedule(rng: np.random.Generator) -> dict[str, list[dict[str, Any]]]:
    """Make a run: clients, slots, retries, gaps, missing times, transfers, nested tasks."""
    n = int(rng.integers(1, 25))
    unit = int(rng.choice([1, 1_000_000_000]))  # A coarse clock makes ties and runs of no time.
    steps = 8 if unit > 1 else 10**10
    workers = [f"w{i}" for i in range(int(rng.integers(1, 4)))]
    tasks: list[dict[str, Any]] = []
    deps: list[dict[str, Any]] = []
    intervals: list[dict[str, Any]] = []
    done: dict[int, int] = {}
    free = dict.fromkeys(workers, 0)
    clock = 0
    for number in range(n):
        clock += int(rng.integers(0, steps)) if rng.random() < 0.3 else 0
        on = [d for d in range(number) if rng.random() < 0.15]
        deps += [{"task_id": f"t{number}", "depends_on": f"t{d}"} for d in on]
        begun = max([clock, *(done[d] for d in on)])
        for attempt in range(1, 2 + (rng.random() < 0.25)):
            worker = str(rng.choice(workers))
            start = max(begun, free[worker] if rng.random() < 0.8 else 0)
            start += int(rng.integers(0, steps)) if rng.random() < 0.3 else 0
            end = start + int(rng.integers(0, steps))
            last = attempt > 1 or rng.random() < 0.8
            row = {
                "task_id": f"t{number}",
                "attempt": attempt,
                "group": f"g{number % 3}",
                "worker": worker if rng.random() < 0.9 else None,
                "submitted_ns": clock,
                "ready_ns": begun if rng.random() < 0.5 else None,
                "started_ns": start,
                "ended_ns": end,
                "outcome": "ok" if last else str(rng.choice(["failed", "worker_lost", "oom"])),
                "io_s": float(rng.random() * 2) if rng.random() < 0.3 else None,
                "transfer_s": float(rng.random() * 2) if rng.random() < 0.3 else None,
                "spill_s": float(rng.random()) if rng.random() < 0.3 else None,
                "read_bytes": int(rng.integers(0, 5)) if rng.random() < 0.5 else None,
                "write_bytes": int(rng.integers(0, 5)) if rng.random() < 0.5 else None,
            }
            for name in ("submitted_ns", "started_ns", "ended_ns"):
                row[name] = None if rng.random() < 0.08 else BASE_NS + row[name] * unit
            row["ready_ns"] = None if row["ready_ns"] is None else BASE_NS + row["ready_ns"] * unit
            if rng.random() < 0.15 and number:
                row["parent"] = f"t{int(rng.integers(0, number))}"
            tasks.append(row)
            for _ in range(int(rng.integers(0, 3))):
                low = max(0, start + int(rng.integers(-steps, steps)))
                intervals.append(
                    {
                        "task_id": f"t{number}" if rng.random() < 0.8 else None,
                        "worker": worker,
                        "peer": str(rng.choice(workers)),
                        "kind": str(rng.choice(["transfer", "disk", "compute"])),
                        "start_ns": BASE_NS + low * unit,
                        "end_ns": BASE_NS + (low + int(rng.integers(0, steps))) * unit,
                    }
                )
            begun = done[number] = end
            free[worker] = end
    return {"tasks": tasks, "deps": deps, "intervals": intervals}


def assert_tiles(trace: Trace) -> None:
    path = critical_path(trace)
    if path.makespan_s is None:
        assert not path.segments
        assert path.notes
        return
    segments = path.segments
    assert all(one.end_s > one.start_s for one in segments)
    assert all(a.end_s == b.start_s for a, b in pairwise(segments))
    assert {one.kind for one in segments} <= set(KINDS)
    slop = 1e-9 * max(1.0, path.makespan_s)
    assert math.fsum(one.seconds for one in segments) == pytest.approx(path.makespan_s, abs=slop)
    assert path.makespan_s == pytest.approx(view(trace).makespan, abs=slop)
    assert math.fsum(path.by_kind.values()) == pytest.approx(path.makespan_s, abs=slop)
    rows = waterfall(path)
    assert math.fsum(row["seconds"] for row in rows) == pytest.approx(path.makespan_s, abs=slop)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["python", "dask", None]))
def test_the_critical_path_tiles_the_run(seed: int, engine: str | None) -> None:
    tables = schedule(np.random.default_rng(seed))
    meta = {} if engine is None else {"engine": engine}
    trace = Trace.from_tables(tables, meta)
    assert_tiles(trace)
    again = Trace.from_tables(tables, meta)
    assert critical_path(again) == critical_path(trace)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_longest_path_of_dependencies_is_no_longer_than_the_run(seed: int) -> None:
    tables = schedule(np.random.default_rng(seed))
    for row in tables["tasks"]:
        row.pop("parent", None)
    trace = Trace.from_tables(tables)
    graph = flow_graph(trace)
    best = longest_path(flow_dag(graph, "time"))
    assert best is not None
    timed = ~np.isnan(graph.start_s) & ~np.isnan(graph.end_s)
    if trace.makespan_s is not None and timed.all():
        assert best.length <= trace.makespan_s + 1e-6 * len(graph.tasks)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_links_are_acyclic_whatever_the_log_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pick = [f"t{i}" for i in range(6)]
    flows = [
        {
            "task_id": str(rng.choice(pick)),
            "object": str(rng.choice(["x", "y", "z"])),
            "op": str(rng.choice(["read", "write", "open"])),
            "bytes": int(rng.integers(0, 9)) if rng.random() < 0.8 else None,
        }
        for _ in range(int(rng.integers(0, 20)))
    ]
    deps = [
        {"task_id": str(rng.choice(pick)), "depends_on": str(rng.choice(pick))}
        for _ in range(int(rng.integers(0, 10)))
    ]
    graph = flow_graph(Trace.from_tables({"flows": flows, "deps": deps}))
    known = sum(f["bytes"] or 0 for f in flows if f["op"] != "open")
    assert np.nansum(graph.bytes) == known
    for weight in ("time", "bytes"):
        dag = flow_dag(graph, weight)
        assert (longest_path(dag) is None) == (not dag.n)
