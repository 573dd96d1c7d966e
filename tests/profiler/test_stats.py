from __future__ import annotations

import json
from typing import Any

import pytest

from rotameter.cli.text import stats_text
from rotameter.profiler.diagnose import diagnose, to_json
from rotameter.profiler.stats import SUMMED, stats
from rotameter.profiler.trace import Trace

S = 10**9


def test_the_counts_and_sums() -> None:
    trace = Trace.from_tables(
        {
            "tasks": [
                {"task_id": "a", "attempt": 1, "outcome": "failed", "submitted_ns": 5 * S,
                 "started_ns": 10 * S, "ended_ns": 12 * S, "cpu_s": 1.5, "read_bytes": 7},
                {"task_id": "a", "attempt": 2, "outcome": "ok", "started_ns": 12 * S,
                 "ended_ns": 15 * S, "wall_s": 2.5, "read_bytes": 2**53 + 1},
                {"task_id": "b", "outcome": "cached", "wall_s": 100.0},
                {"task_id": "c", "outcome": None},
            ],
            "deps": [{"task_id": "b", "depends_on": "a"}],
            "rejects": [{"source": "x", "line": 3, "reason": "no"}],
        }
    )  # fmt: skip
    made = stats(trace)
    assert list(made) == [
        "schema", "tasks", "never_started", "attempts", "deps", "rejected", "dropped", "outcomes",
        "makespan_s", "makespan_how", "makespan_at_least", "task_wall_s",
        "compute_s", "sums", "warnings", "usage", "devices",
    ]  # fmt: skip
    assert (made["schema"], made["tasks"], made["attempts"]) == (1, 3, 4)
    assert (made["deps"], made["rejected"]) == (1, 1)
    assert made["outcomes"] == {"cached": 1, "failed": 1, "ok": 1, "unknown": 1}
    assert (made["makespan_s"], made["makespan_how"]) == (10.0, "measured")
    assert made["task_wall_s"] == 4.5
    assert made["compute_s"] == 4.5
    assert _total(made, "cpu_s") == (1.5, 1)
    assert _total(made, "read_bytes") == (2**53 + 8, 2)
    assert _total(made, "gpu_s") == (None, 0)
    assert set(made["sums"]) == set(SUMMED)
    json.dumps(made, allow_nan=False)


def test_tasks_that_never_started_are_counted_beside_those_that_did() -> None:
    def events(count: int) -> list[dict[str, object]]:
        return [{"at_ns": 0, "kind": "graph_submitted", "count": count}]

    tasks = [
        {"task_id": name, "outcome": "ok", "started_ns": low * S, "ended_ns": (low + 1) * S}
        for low, name in enumerate("ab")
    ]
    for count, never in ((2, 0), (6, 4)):
        made = stats(Trace.from_tables({"tasks": tasks, "events": events(count)}))
        assert (made["tasks"], made["never_started"]) == (2, never)
        assert ("more never started" in stats_text(made)) is bool(never)
    assert stats(Trace.from_tables({"tasks": tasks}))["never_started"] is None


def test_compute_intervals_count_before_durations() -> None:
    spans = [("compute", 0, 2), ("transfer", 2, 3), ("compute", 3, 4)]
    trace = Trace.from_tables(
        {
            "tasks": [{"task_id": "a", "wall_s": 9.0}],
            "intervals": [
                {"task_id": "a", "kind": kind, "start_ns": low * S, "end_ns": high * S}
                for kind, low, high in spans
            ],
        }
    )
    assert stats(trace)["compute_s"] == 3.0


def test_nothing_known_is_null_not_zero() -> None:
    for tables in ({}, {"tasks": [{"task_id": "a"}]}):
        made = stats(Trace.from_tables(tables))
        assert made["makespan_s"] is None
        assert made["task_wall_s"] is None
        assert made["compute_s"] is None


def _total(made: dict[str, Any], name: str) -> tuple[float | None, int]:
    return made["sums"][name]["sum"], made["sums"][name]["n"]


def test_cpu_of_nested_tasks_in_other_threads_is_not_lost() -> None:
    rows = [
        {"task_id": "outer", "wall_s": 1.0, "cpu_s": 0.1, "outcome": "ok"},
        {"task_id": "a", "parent": "outer", "wall_s": 0.5, "cpu_s": 0.4, "outcome": "ok"},
        {"task_id": "b", "parent": "outer", "wall_s": 0.5, "cpu_s": 0.3, "outcome": "ok"},
        {"task_id": "b1", "parent": "b", "wall_s": 0.2, "cpu_s": 0.2, "outcome": "ok"},
        {"task_id": "alone", "wall_s": 1.0, "cpu_s": 0.9, "outcome": "ok"},
    ]
    found = stats(Trace.from_tables({"tasks": rows}))["sums"]["cpu_s"]
    assert found["sum"] == pytest.approx(0.7 + 0.9) and found["at_least"]
    inside = [{**row, "cpu_s": 1.0} if row["task_id"] == "outer" else row for row in rows]
    found = stats(Trace.from_tables({"tasks": inside}))["sums"]["cpu_s"]
    assert found["sum"] == pytest.approx(1.9) and not found["at_least"]


@pytest.mark.parametrize(
    ("more", "least"),
    [
        ({"outcome": "unknown", "wall_s": 7200.0}, True),
        ({"outcome": "running", "started_ns": 0}, True),
        ({"outcome": "cached", "wall_s": 7200.0}, False),
        ({"outcome": "unknown"}, False),
    ],
)
def test_a_makespan_without_all_attempts_is_a_lower_bound(
    more: dict[str, Any], least: bool
) -> None:
    rows = [{"task_id": "a", "outcome": "ok", "started_ns": 0, "ended_ns": 180 * 10**9}]
    trace = Trace.from_tables({"tasks": [*rows, {"task_id": "b", **more}]})
    made, verdict = stats(trace), diagnose(trace)
    assert (made["makespan_s"], made["makespan_at_least"]) == (180.0, least)
    assert to_json(trace, verdict)["makespan_at_least"] is least
    (line,) = [one for one in stats_text(made).splitlines() if one.startswith("  makespan")]
    assert ("≥ 3 min" in line) is least
    assert verdict.figures[0].text == ("≥ 3 min" if least else "3 min")
    assert ("at least 3 min" in verdict.sentence) is least
