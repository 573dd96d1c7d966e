"""Rows of the data-flow graph: right against brute force, fast on large runs."""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness import Context, Result, bench, best_of

__all__ = ["brute_force", "edges_100k", "events_1m"]

GRAPHS = 1_000
S = 10**9


def _random_dag(rng: Any) -> Any:
    """Make a small graph with ties, parallel links and isolated vertices."""
    import numpy as np

    from rotameter.profiler.flow.paths import Dag

    n = int(rng.integers(1, 10))
    m = int(rng.integers(0, 16)) if n > 1 else 0
    name = rng.permutation(n)
    ends = np.array([np.sort(rng.choice(n, 2, replace=False)) for _ in range(m)]).reshape(-1, 2)
    ends = ends.astype(np.int64)
    vertex, link = rng.integers(0, 6, n).astype(float), rng.integers(0, 4, m).astype(float)
    return Dag(n, name[ends[:, 0]], name[ends[:, 1]], vertex, link)


def _every_path(dag: Any) -> list[tuple[float, tuple[int, ...]]]:
    """Walk all maximal paths; heaviest first, equals by their vertices from the end."""
    step: dict[tuple[int, int], float] = {}
    for u, v, w in zip(dag.src.tolist(), dag.dst.tolist(), dag.link.tolist(), strict=True):
        step[u, v] = max(step.get((u, v), 0.0), w)
    inner = {v for _, v in step}
    open_ = [(v,) for v in range(dag.n) if v not in inner]
    found = []
    while open_:
        path = open_.pop()
        onward = [(*path, v) for u, v in step if u == path[-1]]
        open_ += onward
        if not onward:
            length = sum(dag.vertex[v] for v in path) + sum(step[pair] for pair in pairwise(path))
            found.append((float(length), path))
    return sorted(found, key=lambda one: (-one[0], one[1][::-1]))


@bench("flow_paths_brute_force_wrong", issue=4, target="== 0")
def brute_force(context: Context) -> Result:
    """Random DAGs on which the longest path, the k best or a slack differ from brute force."""
    import numpy as np

    from rotameter.profiler.flow.paths import k_paths, longest_path, slack

    rng = np.random.default_rng(20)
    wrong = paths = 0
    for _ in range(GRAPHS):
        dag = _random_dag(rng)
        every = _every_path(dag)
        best = longest_path(dag)
        k = int(rng.integers(1, 9))
        several = [(p.length, p.vertices) for p in k_paths(dag, k)]
        found = slack(dag)
        through = [max(x for x, path in every if v in path) for v in range(dag.n)]
        right = (
            best is not None
            and (best.length, best.vertices) == every[0]
            and several == every[:k]
            and found.length == every[0][0]
            and found.vertex.tolist() == [every[0][0] - x for x in through]
        )
        wrong += not right
        paths += len(every)
    return Result(wrong, "graphs", note=f"{GRAPHS:,} graphs, {paths:,} paths walked")


@bench("flow_100k_edges_s", issue=4, target="<= 2")
def edges_100k(context: Context) -> Result:
    """Longest path and slack of 100,000 edges, the slowest of four shapes."""
    import numpy as np

    from rotameter.profiler.flow.paths import Dag, longest_path, slack

    rng = np.random.default_rng(0)
    n = 100_000
    ends = np.sort(rng.integers(0, n, (n, 2)), axis=1)
    ends[:, 1] = np.where(ends[:, 0] == ends[:, 1], (ends[:, 1] + 1), ends[:, 1])
    half = 316
    shapes = {
        "random": (ends[:, 0], ends[:, 1]),
        "chain": (np.arange(n), np.arange(1, n + 1)),
        "fan": (np.zeros(n, dtype=np.int64), np.arange(1, n + 1)),
        "dense": (np.repeat(np.arange(half), half), half + np.tile(np.arange(half), half)),
    }
    detail: dict[str, float] = {}
    for name, (src, dst) in shapes.items():
        dag = Dag(n + 1, src, dst, rng.random(n + 1), rng.random(len(src)))

        def once(dag: Any = dag) -> float:
            began = time.perf_counter()
            longest_path(dag)
            slack(dag)
            return time.perf_counter() - began

        detail[name], _ = best_of(once, 3)
    worst = max(detail, key=lambda name: detail[name])
    return Result(detail[worst], "s", note=f"slowest: {worst}", detail=detail)


def _million(rows: int, tasks: int, objects: int) -> Any:
    """Make a trace of so many flow rows: files read and written by tasks on 16 workers."""
    import numpy as np
    import pyarrow as pa

    from rotameter.profiler.trace import Trace

    rng = np.random.default_rng(0)
    base = 1_700_000_000 * S
    task = np.sort(rng.integers(0, tasks, rows))
    name = pa.array([f"task-{i:06d}" for i in range(tasks)])
    file = pa.array([f"/scratch/run/part-{i:06d}.nc" for i in range(objects)])
    begun = base + np.arange(tasks) * S // 100
    flows = pa.table(
        {
            "task_id": name.take(pa.array(task)),
            "attempt": np.ones(rows, dtype=np.int64),
            "worker": pa.array([f"w{i}" for i in range(16)]).take(pa.array(task % 16)),
            "object": file.take(pa.array(rng.integers(0, objects, rows))),
            "medium": pa.array(["file"] * rows),
            "op": pa.array(["read", "write"]).take(pa.array(rng.integers(0, 2, rows))),
            "bytes": rng.integers(1, 10**6, rows),
            "ops": rng.integers(1, 10, rows),
            "first_ns": begun[task],
            "last_ns": begun[task] + rng.integers(1, S // 10, rows),
            "busy_s": rng.random(rows) / 100,
        }
    )
    table = pa.table(
        {
            "task_id": name,
            "attempt": np.ones(tasks, dtype=np.int64),
            "group": pa.array([f"stage-{i % 20}" for i in range(tasks)]),
            "worker": pa.array([f"w{i % 16}" for i in range(tasks)]),
            "started_ns": begun,
            "ended_ns": begun + S // 10,
            "outcome": pa.array(["ok"] * tasks),
        }
    )
    return Trace.from_tables({"tasks": table, "flows": flows})


@bench("flow_1m_events_s", issue=4, target="<= 5")
def events_1m(context: Context) -> Result:
    """Open a saved trace folder of 1,000,000 flow rows and make its data-flow graph with links."""
    from rotameter.profiler.flow.graph import flow_graph
    from rotameter.profiler.store import open_trace

    rows = 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = _million(rows, 100_000, 200_000).save(Path(folder) / "run.rmt")
        counts: dict[str, int] = {}

        def once() -> float:
            began = time.perf_counter()
            graph = flow_graph(open_trace(path))
            links = graph.links()
            took = time.perf_counter() - began
            counts.update(edges=graph.n_edges, links=len(links))
            return took

        value, interval = best_of(once, 3)
    note = f"{rows:,} rows, {counts['edges']:,} edges, {counts['links']:,} links"
    return Result(value, "s", interval, note=note)
