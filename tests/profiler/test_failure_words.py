"""The sentence of a failed run names what never ended well, and counts tasks as tasks."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.trace import Trace

S = 10**9


def said(rows: list[dict[str, Any]], engine: str | None = None) -> str:
    full = [{"group": "g", "attempt": 1, "outcome": "ok", "wall_s": 100.0} | row for row in rows]
    run = {"status": "failed"}
    return diagnose(Trace.from_tables({"tasks": full}, {"engine": engine, "run": run})).sentence


def test_a_code_of_what_failed_for_good_is_told_of_tasks() -> None:
    killed = [
        {"task_id": f"t{n}", "outcome": "failed", "exit_code": 137, "attempt": 1} for n in range(3)
    ]
    well = [{"task_id": f"t{n}", "attempt": 2} for n in range(3)]
    rows = [*killed, *well, {"task_id": "x", "outcome": "failed", "exit_code": 2}]
    # Three attempts exited with 137 and were made good: it is 2 that ended the run.
    assert "1 of 4 tasks (`g`) exited with 2" in said(rows)
    assert "went into failed attempts" in said(rows)


def test_where_all_ended_well_at_last_attempts_are_counted() -> None:
    rows = [
        {"task_id": "a", "outcome": "failed", "exit_code": 1},
        {"task_id": "a", "attempt": 2},
        {"task_id": "b"},
    ]
    assert "1 of 3 attempts exited with 1" in said(rows)


@pytest.mark.parametrize(
    ("engine", "words"),
    [("nextflow", "1 task of 2 failed: `g (1)` (no exit code)"), ("dask", "`g` (no exit code)")],
)
def test_a_task_is_named_by_what_people_know_it_by(engine: str, words: str) -> None:
    rows = [{"task_id": "g (0)"}, {"task_id": "g (1)", "outcome": "failed"}]
    rows[1]["error"] = "no exit code"
    assert words in said(rows, engine)


def test_an_outcome_says_why_where_there_is_neither_code_nor_error() -> None:
    rows = [{"task_id": "a"}, *({"task_id": f"t{n}", "outcome": "timeout"} for n in range(2))]
    assert "2 tasks of 3 never ended well: killed at the time limit" in said(rows)


def test_what_has_no_time_makes_the_sum_a_least() -> None:
    gone = {"task_id": "b", "outcome": "failed", "error": "lost", "wall_s": None}
    late = {"task_id": "c", "outcome": "failed", "error": "lost"}
    words = said([{"task_id": "a"}, gone | {"submitted_ns": 0, "ended_ns": 900 * S}, late])
    assert "at least 1 min 40 s of work went into failed attempts" in words


def test_tasks_that_never_started_count_too() -> None:
    """The tasks behind a failed one have no row: the graph says how many there were."""
    rows = [
        {"task_id": f"t{n}", "group": "g", "outcome": "ok", "started_ns": 2 * S, "ended_ns": 3 * S}
        for n in range(17)
    ]
    rows.append({**rows[0], "task_id": "bad", "outcome": "failed", "error": "KeyError: 'x'"})
    event = {"kind": "graph_submitted", "at_ns": S, "count": 57}
    meta = {"engine": "dask", "run": {"status": "failed"}}
    sentence = diagnose(Trace.from_tables({"tasks": rows, "events": [event]}, meta)).sentence
    assert "1 task of 57 failed: `g` raised KeyError" in sentence


def test_an_exit_code_that_the_program_chose_is_told() -> None:
    """It caught the error and went on: the failed task need not be why it ended so."""
    rows = [{"task_id": "bad", "group": "g", "outcome": "failed", "error": "ValueError: no"}]
    for run, words in (
        ({"exit_code": 3}, "Run failed with exit code 3. 1 task of 1 failed: `g` raised"),
        ({"exit_code": 1, "error": "ValueError: no"}, "Run failed. 1 task of 1 failed: `g`"),
    ):
        meta = {"engine": "dask", "run": {"status": "failed", **run}}
        assert diagnose(Trace.from_tables({"tasks": rows}, meta)).sentence.startswith(words)
