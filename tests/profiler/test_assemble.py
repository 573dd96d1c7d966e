"""Partial rows become attempts: each exactly once, each with everything known of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rotameter.profiler.assemble import assemble, coalesce_attempts
from rotameter.profiler.schema import arrow_schema


def _rows(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=arrow_schema(table))


def test_no_row_no_trouble() -> None:
    assert assemble({})["tasks"].num_rows == 0


def test_the_worker_knows_better_than_the_scheduler() -> None:
    rows = [
        {
            "task_id": "a",
            "run_id": "1",
            "outcome": "worker_lost",
            "worker": "s",
            "source": "scheduler",
        },
        {"task_id": "a", "run_id": "1", "outcome": None, "cpu_s": 2.0, "source": "worker"},
        {"task_id": "a", "run_id": "1", "outcome": "ok", "source": "worker"},
        {
            "task_id": "a",
            "run_id": "1",
            "outcome": "running",
            "peak_memory_bytes": 5,
            "source": "slot",
        },
    ]
    out = coalesce_attempts(_rows("tasks", rows)).to_pylist()
    assert len(out) == 1
    assert (out[0]["outcome"], out[0]["worker"], out[0]["cpu_s"]) == ("ok", "s", 2.0)
    assert (out[0]["peak_memory_bytes"], out[0]["source"]) == (5, "worker")


def test_attempts_are_numbered_by_time_then_run() -> None:
    rows = [
        {"task_id": "a", "run_id": "10", "started_ns": 50},
        {"task_id": "a", "run_id": "9", "started_ns": 50},
        {"task_id": "a", "run_id": "2", "started_ns": 1},
        {"task_id": "b", "run_id": "3", "ready_ns": 7},
    ]
    out = coalesce_attempts(_rows("tasks", rows)).to_pylist()
    got = {(r["task_id"], r["run_id"]): r["attempt"] for r in out}
    assert got == {("a", "2"): 1, ("a", "9"): 2, ("a", "10"): 3, ("b", "3"): 1}


def test_rows_without_identity_stay_apart() -> None:
    rows = [{"task_id": "a"}, {"task_id": "a"}, {"run_id": "1"}, {"run_id": "1"}]
    assert coalesce_attempts(_rows("tasks", rows)).num_rows == 4


def test_negative_span_is_not_a_wall_time() -> None:
    rows = [{"task_id": "a", "started_ns": 10, "ended_ns": 5}]
    assert coalesce_attempts(_rows("tasks", rows))["wall_s"].to_pylist() == [None]


def test_intervals_and_flows_get_the_attempt() -> None:
    out = assemble(
        {
            "tasks": _rows("tasks", [{"task_id": "a", "run_id": "4", "started_ns": 1}]),
            "flows": _rows(
                "flows", [{"task_id": "a", "run_id": "4"}, {"task_id": "b", "run_id": "4"}]
            ),
            "intervals": _rows("intervals", [{"worker": "w"}]),
        }
    )
    assert out["flows"]["attempt"].to_pylist() == [1, None]
    assert out["intervals"]["attempt"].to_pylist() == [None]


def test_deps_are_unique_and_workers_joined() -> None:
    out = assemble(
        {
            "deps": _rows("deps", [{"task_id": "b", "depends_on": "a"}] * 3),
            "workers": _rows(
                "workers",
                [{"worker": "w", "started_ns": 1}, {"worker": "w", "ended_ns": 9}, {"worker": "v"}],
            ),
        }
    )
    assert out["deps"].num_rows == 1
    joined = {r["worker"]: r for r in out["workers"].to_pylist()}
    assert (joined["w"]["started_ns"], joined["w"]["ended_ns"]) == (1, 9)
    assert joined["v"]["started_ns"] is None
