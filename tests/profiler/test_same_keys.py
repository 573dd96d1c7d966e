"""Equal keys in two clusters are two tasks; in one they are one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rotameter.profiler.assemble import assemble
from rotameter.profiler.schema import arrow_schema

S = 10**9


def assembled(rows: list[tuple[str, str, int]], deps: list[tuple[str, str]] = []) -> Any:  # noqa: B006
    tables = {
        "tasks": [
            {"task_id": key, "run_id": run, "started_ns": at * S, "ended_ns": (at + 1) * S,
             "outcome": "ok"}
            for key, run, at in rows
        ],
        "deps": [{"task_id": key, "depends_on": on} for key, on in deps],
        "intervals": [{"task_id": key, "run_id": run, "kind": "transfer"} for key, run, _ in rows],
    }  # fmt: skip
    made = {n: pa.Table.from_pylist(r, schema=arrow_schema(n)) for n, r in tables.items()}
    return assemble(made)


def ids(tables: Any, name: str = "tasks") -> list[str]:
    return sorted(tables[name]["task_id"].to_pylist())


def test_a_second_cluster_has_tasks_of_its_own() -> None:
    rows = [("f", "b:1", 5), ("g", "b:2", 6), ("f", "a:1", 1), ("h", "b:3", 7)]
    tables = assembled(rows, [("g", "f"), ("h", "f")])
    assert ids(tables) == ["f", "f@2", "g", "h"] == ids(tables, "intervals")
    assert tables["tasks"]["attempt"].to_pylist() == [1, 1, 1, 1]
    pairs = {(d["task_id"], d["depends_on"]) for d in tables["deps"].to_pylist()}
    assert pairs == {("g", "f@2"), ("h", "f@2")}


def test_dependencies_that_both_have_are_both_theirs() -> None:
    rows = [("f", "a:1", 1), ("g", "a:2", 2), ("f", "b:1", 5), ("g", "b:2", 6)]
    pairs = {
        (d["task_id"], d["depends_on"]) for d in assembled(rows, [("g", "f")])["deps"].to_pylist()
    }
    assert pairs == {("g", "f"), ("g@2", "f@2")}


def test_attempts_of_one_cluster_are_one_task() -> None:
    assert ids(assembled([("f", "a:1", 1), ("f", "a:2", 5)])) == ["f", "f"]
    assert ids(assembled([("f", "1", 1), ("f", "2", 5)])) == ["f", "f"]
    # A cluster beside the program's own tasks, whose attempts have no number.
    assert ids(assembled([("f", "a:1", 1), ("x", "7-1", 5)])) == ["f", "x"]
