from __future__ import annotations

import pytest
from tests.support.synthetic import synthetic_trace

from rotameter.profiler.trace import Trace
from rotameter.viz.incidents import incidents
from rotameter.viz.matrix import SIDE_LIMIT, heat, pairs
from rotameter.viz.tables import failures, groups, workers


def test_groups_count_tasks_attempts_retries_and_failures() -> None:
    rows = [
        {"task_id": "a", "attempt": 1, "group": "g", "outcome": "failed", "wall_s": 1.0},
        {"task_id": "a", "attempt": 2, "group": "g", "outcome": "ok", "wall_s": 3.0, "cpu_s": 1.5},
        {"task_id": "b", "attempt": 1, "group": "g", "outcome": "cached", "wall_s": 100.0},
        {"task_id": "c", "attempt": 1, "outcome": "ok"},
    ]
    made = groups(Trace.from_tables({"tasks": rows}))
    first, nameless = made
    assert (first["tasks"], first["attempts"], first["failed"], first["retries"]) == (2, 3, 1, 1)
    assert first["total_wall_s"] == 4.0  # a cached attempt took no time of this run
    assert first["median_wall_s"] == 2.0
    assert first["p95_wall_s"] == 3.0
    assert first["cpu_ratio"] == 0.5
    assert nameless["group"] is None
    assert nameless["total_wall_s"] is None
    assert nameless["cpu_ratio"] is None
    assert nameless["peak_memory_kind"] == "missing"
    assert sum(g["share_ratio"] or 0 for g in made) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kinds", "joint"),
    [
        (("exact", "exact"), "exact"),
        (("exact", "upper_bound"), "upper_bound"),
        (("exact", "lower_bound"), "lower_bound"),
        (("exact", "sampled"), "lower_bound"),
        (("lower_bound", "upper_bound"), "estimate"),
        (("exact", None), "estimate"),
    ],
)
def test_the_kind_of_a_p95_follows_the_kinds_of_its_numbers(
    kinds: tuple[str, str | None], joint: str
) -> None:
    rows = [
        {"task_id": str(i), "group": "g", "peak_memory_bytes": i, "peak_memory_kind": kind}
        for i, kind in enumerate(kinds)
    ]
    assert groups(Trace.from_tables({"tasks": rows}))[0]["peak_memory_kind"] == joint


def test_groups_say_where_they_come_from() -> None:
    made = groups(synthetic_trace(100))
    assert all(row["origin"].startswith("pipeline.py:") for row in made)


def test_failures_are_counted_by_cause() -> None:
    trace = synthetic_trace(2_000, failed=0.1)
    made = failures(trace)
    bad = [o for o in trace.table("tasks")["outcome"].to_pylist() if o != "ok"]
    assert sum(row["attempts"] for row in made) == len(bad)
    assert {row["outcome"] for row in made} == {"failed", "worker_lost"}
    assert all(row["inferred"] == (row["outcome"] == "worker_lost") for row in made)
    assert failures(synthetic_trace(10)) == []


def test_workers_are_listed_even_where_only_tasks_name_them() -> None:
    trace = Trace.from_tables(
        {"tasks": [{"task_id": "a", "worker": "w", "started_ns": 0, "ended_ns": 10**9}]}
    )
    (worker,) = workers(trace)
    assert worker["worker"] == "w"
    assert worker["busy_s"] == 1.0
    assert worker["busy_ratio"] is None
    made = workers(synthetic_trace(1_000))
    assert len(made) == 4
    assert all(0 < row["busy_ratio"] <= 1 for row in made)
    assert made[0]["peak_rss_kind"] == "lower_bound"
    assert made[0]["spilled_bytes"] == 300_000_000


def test_a_process_of_several_workers_bounds_the_memory_of_each_from_above() -> None:
    sample = {
        "subject": "w",
        "metric": "rss_bytes",
        "value": 5.0,
        "quality": "process of several workers",
    }
    trace = Trace.from_tables({"workers": [{"worker": "w"}], "samples": [sample]})
    assert workers(trace)[0]["peak_rss_kind"] == "upper_bound"


def test_pairs_count_each_byte_once_however_many_saw_it() -> None:
    tables = {
        "flows": [
            # The receiver's view key by key, and the sender's view of the same bytes.
            {"worker": "b", "peer": "a", "medium": "network", "op": "receive", "bytes": 60},
            {"worker": "b", "peer": "a", "medium": "network", "op": "receive", "bytes": 40},
            {"worker": "a", "peer": "b", "medium": "network", "op": "send", "bytes": 100},
            {"worker": "a", "peer": "x", "medium": "file", "op": "read", "bytes": 7},
        ],
        "intervals": [
            {"worker": "b", "peer": "a", "kind": "transfer", "name": "gather", "bytes": 100},
            {"worker": "b", "peer": "a", "kind": "transfer", "name": "p2p", "bytes": 30},
            {"worker": "a", "peer": "b", "kind": "transfer", "name": "p2p", "bytes": 5},
        ],
    }
    made = pairs(Trace.from_tables(tables))
    assert [(p["from"], p["to"], p["bytes"], p["p2p_bytes"]) for p in made] == [
        ("a", "b", 130, 30),
        ("b", "a", 5, 5),
    ]


def test_the_heat_table_sums_to_the_pairs() -> None:
    trace = synthetic_trace(200)
    made = pairs(trace)
    table = heat(trace, made)
    assert table is not None
    assert table["by"] == "worker"
    total = sum(cell["bytes"] for row in table["cells"] for cell in row)
    assert total == sum(p["bytes"] for p in made)
    assert all(table["cells"][i][i]["bytes"] == 0 for i in range(4))
    assert max(cell["level"] for row in table["cells"] for cell in row) == 6
    assert heat(trace, []) is None


def test_many_workers_are_summed_by_host() -> None:
    trace = synthetic_trace(400, workers=60, threads=1)
    made = pairs(trace)
    table = heat(trace, made)
    assert table is not None
    assert table["by"] == "host"
    assert len(table["sides"]) <= SIDE_LIMIT
    total = sum(cell["bytes"] for row in table["cells"] for cell in row)
    assert total == sum(p["bytes"] for p in made)


def test_a_kill_and_the_removal_that_follows_are_one_death() -> None:
    trace = synthetic_trace(100, deaths=2)
    made = incidents(trace)
    assert sum(item["mark"] == "death" for item in made) == 2
    assert any("group reduce" in item["detail"] for item in made)
    assert [item["at_s"] for item in made] == sorted(item["at_s"] for item in made)


def test_expected_removals_and_clean_exits_are_no_news() -> None:
    events = [
        {"at_ns": 1, "kind": "worker_removed", "worker": "w", "expected": True},
        {"at_ns": 2, "kind": "worker_exit", "worker": "w", "exit_code": 0},
        {"at_ns": 3, "kind": "run_ended", "exit_code": 0},
        {"at_ns": 4, "kind": "worker_exit", "worker": "w", "signal": 9},
        {"at_ns": 5, "kind": "run_ended", "exit_code": 3, "text": "KeyError: 'x'"},
    ]
    made = incidents(Trace.from_tables({"events": events}))
    assert [item["kind"] for item in made] == ["worker_exit", "run_ended"]
    assert all(item["at_s"] is None for item in made)  # no task has a time


def test_no_recorded_worker_is_unknown_not_zero() -> None:
    rows = [
        {"task_id": "a", "group": "g", "outcome": "failed"},
        {"task_id": "b", "group": "h", "outcome": "failed", "worker": "w"},
    ]
    made = failures(Trace.from_tables({"tasks": rows}))
    assert [row["workers"] for row in made] == [None, 1]


@pytest.mark.parametrize(
    ("walls", "median"),
    [((3.0, 1800.0), 901.5), ((1.0, 2.0, 9.0), 2.0), ((4.0,), 4.0), ((1.0, 2.0, 3.0, 9.0), 2.5)],
)
def test_the_median_of_an_even_count_lies_between(walls: tuple[float, ...], median: float) -> None:
    rows = [{"task_id": str(i), "group": "g", "wall_s": w} for i, w in enumerate(walls)]
    rows += [{"task_id": "x", "group": "h"}, {"task_id": "y", "group": "i", "wall_s": 7.0}]
    found = {
        row["group"]: row["median_wall_s"] for row in groups(Trace.from_tables({"tasks": rows}))
    }
    assert found == {"g": median, "h": None, "i": 7.0}
