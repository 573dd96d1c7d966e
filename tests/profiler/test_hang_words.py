"""What an interrupted run hung on: what never started, why, and since when nothing ran."""

from __future__ import annotations

from typing import Any

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.trace import Trace

S = 10**9
ASKS = "asks for GPU=1, which no worker offers"


def said(events: list[dict[str, Any]], *, late: float = 0.0, **tables: Any) -> str:
    """Ten tasks are done at 4 s; an eleventh waits; the run is interrupted at 30 s."""
    rows = [
        {"task_id": f"t{n}", "group": "slp", "outcome": "ok", "submitted_ns": S,
         "started_ns": S + round(late * S), "ended_ns": (4 + late) * S}
        for n in range(10)
    ]  # fmt: skip
    graphs = [{"kind": "graph_submitted", "at_ns": S, "count": 11}]
    run = {"status": "interrupted", "started_ns": 0, "ended_ns": 30 * S}
    made = {"tasks": rows, "events": graphs + events, **tables}
    return diagnose(Trace.from_tables(made, {"engine": "dask", "run": run})).sentence


def unrunnable(at: float, count: int) -> dict[str, Any]:
    row = {"kind": "unrunnable", "at_ns": round(at * S), "group": "slp", "count": count}
    return row | {"reason": ASKS}


def test_why_a_task_never_started_is_told() -> None:
    # 30 - 4 = 26 s without anything running.
    assert said([unrunnable(5.0, 1)]) == (
        "Run interrupted after 30 s: 10 of 11 tasks were done. 1 task never started: `slp` "
        "asks for GPU=1, which no worker offers. Start workers that offer it, or ask for less. "
        "Nothing ran for the last 26 s."
    )


def test_a_task_that_was_given_up_at_the_end_is_told_all_the_same() -> None:
    assert ASKS in said([unrunnable(5.0, 1), unrunnable(29.5, 0)])


def test_one_that_got_a_worker_is_not_told() -> None:
    words = said([unrunnable(1.5, 1), unrunnable(5.0, 0)], late=4.0)
    assert ASKS not in words
    assert "1 task never started." in words


def test_an_older_trace_says_that_no_worker_could_take_it() -> None:
    count = {"at_ns": 5 * S, "subject": "scheduler", "metric": "no_worker", "value": 1.0}
    words = said([], samples=[count])
    assert "1 task never started: no worker could take it. Nothing ran for the last 26 s." in words


def twice(second: int) -> str:
    """Ten tasks are done by 3 s, let go of, and submitted again at 5 s; so many begin then."""
    rows = [
        {"task_id": f"t{n}", "group": "slp", "outcome": "ok", "run_id": f"{k}", "submitted_ns":
         (1 + 4 * k) * S, "started_ns": (2 + 4 * k) * S, "ended_ns": (3 + 4 * k) * S}
        for k, count in enumerate((10, second)) for n in range(count)
    ]  # fmt: skip
    graphs = [
        {"kind": "graph_submitted", "at_ns": at * S + S // 1000, "count": 10} for at in (1, 5)
    ]
    run = {"status": "interrupted", "started_ns": 0, "ended_ns": 8 * S}
    tables = {"tasks": rows, "events": graphs}
    return diagnose(Trace.from_tables(tables, {"engine": "dask", "run": run})).sentence


def test_a_graph_that_was_computed_twice_has_each_task_once() -> None:
    assert twice(10) == "Run interrupted after 8 s: 10 of 10 tasks were done."


def test_of_a_second_computation_what_it_still_had_to_do_is_told() -> None:
    assert twice(4) == (
        "Run interrupted after 8 s: 4 of 10 tasks were done. 6 tasks never started."
    )


def shut_down(run: dict[str, Any], left: int) -> str:
    """Ten of forty tasks are done when the cluster ends; the scheduler has the rest, or none."""
    rows = [
        {"task_id": f"t{n}", "group": "slp", "outcome": "ok", "worker": "w", "submitted_ns": S,
         "started_ns": (n + 1) * S, "ended_ns": (n + 2) * S}
        for n in range(10)
    ]  # fmt: skip
    events = [{"kind": "graph_submitted", "at_ns": S, "count": 40}]
    counts = [("queued", 30, 2), ("queued", left, 11)]
    samples = [
        {"at_ns": at * S, "subject": "scheduler", "metric": name, "value": float(value)}
        for name, value, at in counts
    ]
    made = {"tasks": rows, "events": events, "samples": samples}
    return diagnose(Trace.from_tables(made, {"engine": "dask", "run": run})).sentence


def test_what_a_cluster_left_undone_when_it_was_shut_down_is_told() -> None:
    words = "When it ended, 30 of 40 tasks had never started."
    said = shut_down({"status": "ok"}, 30)
    assert said.startswith(words) and "Nothing worth" not in said
    # Results that nobody wanted any more were let go of.
    assert "never started" not in shut_down({"status": "ok"}, 0)
    for run in ({"exit_code": 9}, {"error": "KeyError: 'x'", "exit_code": 1}):
        assert words in shut_down({"status": "failed", **run}, 0)
