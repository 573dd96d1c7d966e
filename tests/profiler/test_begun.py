"""Rows of a beginning: dropped where the end is on record, else told as running or lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rotameter.profiler.assemble import assemble
from rotameter.profiler.begun import settle_begun
from rotameter.profiler.schema import arrow_schema

S = 10**9


def settled(run: dict[str, Any], *rows: dict[str, Any], last_s: float = 9.0) -> Any:
    """A program ("m") and a child of it ("c"), which is sampled until ``last_s``."""
    tables = {
        "tasks": [{"group": "g", "worker": "c", "started_ns": 2 * S, **row} for row in rows],
        "workers": [{"worker": "m", "name": "client"}, {"worker": "c", "name": "process"}],
        "samples": [{"subject": "c", "metric": "rss_bytes", "at_ns": round(last_s * S)}],
    }
    made = {n: pa.Table.from_pylist(r, schema=arrow_schema(n)) for n, r in tables.items()}
    return settle_begun(assemble(made), run)


def outcomes(tables: Any) -> list[tuple[str, str, int | None]]:
    names = ("task_id", "outcome", "ended_ns")
    return [tuple(row[n] for n in names) for row in tables["tasks"].to_pylist()]


BEGUN = {"source": "begun", "task_id": "a"}


def test_the_end_replaces_the_beginning_with_and_without_a_run_id() -> None:
    for run_id in (None, "7"):
        end = {"task_id": "a", "run_id": run_id, "outcome": "ok", "ended_ns": 5 * S}
        begun = {**BEGUN, "run_id": run_id}
        tables = settled({"status": "ok"}, begun, {**end, "source": "tracer"})
        assert outcomes(tables) == [("a", "ok", 5 * S)]


@pytest.mark.parametrize("status", ["ok", "failed"])
def test_what_a_closed_trace_left_open_in_a_child_was_lost_with_it(status: str) -> None:
    tables = settled({"status": status, "ended_ns": 30 * S}, BEGUN)
    assert outcomes(tables) == [("a", "worker_lost", 9 * S)]
    lives = {row["worker"]: row for row in tables["workers"].to_pylist()}
    assert (lives["c"]["ended_ns"], lives["c"]["end_reason"]) == (9 * S, "lost")


def test_what_the_program_itself_was_at_ran_to_the_end() -> None:
    for run in ({"status": "failed", "exit_code": 3}, {"status": "interrupted"}):
        assert outcomes(settled(run, {**BEGUN, "worker": "m"})) == [("a", "running", None)]


def test_of_a_killed_run_a_child_was_lost_before_only_if_it_was_silent() -> None:
    run = {"status": "interrupted", "signal": "SIGKILL", "ended_ns": 30 * S}
    assert outcomes(settled(run, BEGUN, last_s=9.0)) == [("a", "worker_lost", 9 * S)]
    assert outcomes(settled(run, BEGUN, last_s=29.5)) == [("a", "running", None)]
    # Where nobody could say when it ended, the last sign of any process is its end.
    assert outcomes(settled({"status": "interrupted"}, BEGUN)) == [("a", "running", None)]
    later = {"task_id": "b", "worker": "m", "outcome": "ok", "ended_ns": 20 * S}
    made = outcomes(settled({"status": "interrupted"}, BEGUN, later))
    assert ("a", "worker_lost", 9 * S) in made


def test_a_trace_without_such_rows_is_left_as_it_is() -> None:
    tables = settled({"status": "ok"}, {"task_id": "a", "outcome": "ok", "ended_ns": 5 * S})
    assert outcomes(tables) == [("a", "ok", 5 * S)]
    assert tables["workers"]["ended_ns"].null_count == 2
