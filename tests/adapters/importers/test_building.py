"""The rules that hold for records of every format."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.adapters.importers.building import Builder
from rotameter.errors import BadInput

S = 10**9


def build(*rows, local=False, offset_s=None, **more):
    builder = Builder("slurm", "slurm")
    builder.local = local
    builder.records_in = len(rows)
    for row in rows:
        builder.add("tasks", row)
    for table, other in more.items():
        for row in other:
            builder.add(table, row)
    return builder.build(utc_offset_s=offset_s)


def test_local_times_are_relative_unless_the_zone_is_given():
    row = {"task_id": "1", "submitted_ns": 100 * S, "started_ns": 107 * S, "ended_ns": 109 * S}
    sample = {"at_ns": 108 * S, "subject": "1", "metric": "m", "value": 1.0}
    relative = build(row, local=True, samples=[sample])
    found = relative.table("tasks").to_pylist()[0]
    assert (found["submitted_ns"], found["started_ns"], found["ended_ns"]) == (0, 7 * S, 9 * S)
    assert relative.table("samples")["at_ns"].to_pylist() == [8 * S]
    assert relative.meta["time_base"] == "relative_ns"
    known = build(row, local=True, offset_s=60.0)
    assert known.table("tasks")["started_ns"].to_pylist() == [47 * S]
    assert known.meta["time_base"] == "epoch_ns"


def test_nothing_lasts_less_than_no_time():
    trace = build(
        {"task_id": "1", "started_ns": 5 * S, "ended_ns": 4 * S, "wall_s": -1.0, "cpu_s": -2.0},
        {"task_id": "2", "submitted_ns": 9 * S, "started_ns": 5 * S, "ended_ns": 6 * S},
    )
    first, second = trace.table("tasks").to_pylist()
    assert first["ended_ns"] is first["wall_s"] is first["cpu_s"] is None
    assert second["submitted_ns"] is None and second["ended_ns"] == 6 * S
    assert len(trace.warnings) == 4


def test_an_efficiency_above_100_percent_is_said():
    row = {"task_id": "1", "wall_s": 10.0, "cpu_s": 40.0, "granted_cores": 2.0}
    memory = {"task_id": "2", "peak_memory_bytes": 3 << 30, "requested_memory_bytes": 1 << 30}
    words = build(row, memory).warnings
    assert sum("above 100 %" in word for word in words) == 2
    assert any(
        word.startswith("1 attempt of 2: more CPU time than the cores") and "task 1)" in word
        for word in words
    )
    assert any(
        word.startswith("1 attempt of 2: a memory peak") and "task 2)" in word for word in words
    )
    many = build(row, {**row, "task_id": None}, memory).warnings
    assert any(word.startswith("2 attempts of 3: more CPU") for word in many)
    fine = {"task_id": "1", "wall_s": 10.0, "cpu_s": 19.9, "granted_cores": 2.0}
    assert not build(fine).warnings


def test_the_same_words_are_counted():
    builder = Builder("x", "x")
    for _ in range(3):
        builder.warn("odd")
    builder.warn("once")
    assert builder.build().warnings == ["odd (3 times)", "once"]


def test_unknown_is_null_in_columns():
    builder = Builder("x", "x")
    columns = {
        "task_id": ["a", "b"],
        "wall_s": np.array([1.0, np.nan]),
        "peak_memory_bytes": np.array([np.nan, 2.6]),
        "started_ns": [None, 2.4],
        "features": [{"n": 1.0}, None],
    }
    builder.extend("tasks", columns)
    first, second = builder.build().table("tasks").to_pylist()
    assert first["peak_memory_bytes"] is None and second["peak_memory_bytes"] == 3
    assert second["wall_s"] is None and second["started_ns"] == 2
    assert first["features"] == [("n", 1.0)] and first["outcome"] == "unknown"


def test_what_the_schema_does_not_know_is_our_bug():
    builder = Builder("x", "x")
    with pytest.raises(ValueError, match="no column 'nonsense'"):
        builder.extend("tasks", {"nonsense": [1]})
    with pytest.raises(ValueError, match="different length"):
        builder.extend("tasks", {"task_id": ["a"], "group": []})
    builder.add("tasks", {"task_id": "a", "outcome": "odd"})
    with pytest.raises(ValueError, match="outcome"):
        builder.build()


def test_rejects_carry_no_secrets():
    builder = Builder("x", "x")
    builder.records_in = 1
    builder.reject("f", 3, "bad line password=hunter2hunter2")
    trace = builder.build()
    assert "hunter2" not in str(trace.table("rejects").to_pylist())
    assert trace.meta["importer"]["records"]["rejected"] == 1


def test_lone_surrogates_do_not_stop_a_trace():
    assert build({"task_id": "a\ud800b"}).table("tasks")["task_id"].to_pylist() == ["a?b"]


def test_amounts_below_nothing_are_not_known():
    build = Builder("swf", "swf")
    build.records_in += 1
    amounts = ("requested_cores", "requested_gpus", "requested_nodes", "requested_memory_bytes")
    amounts += ("granted_cores", "requested_wall_s", "energy_j", "read_bytes", "concurrency")
    row = dict.fromkeys(amounts, -1)
    build.add("tasks", {"task_id": "a", "exit_code": -9, "priority": -5.0, "wall_s": 1.0, **row})
    build.add("flows", {"task_id": "a", "bytes": -1, "ops": 3})
    build.add("workers", {"worker": "w", "cores": -1.0})
    trace = build.build()
    made = trace.table("tasks").to_pylist()[0]
    assert [made[name] for name in amounts] == [None] * len(amounts)
    assert (made["exit_code"], made["priority"], made["wall_s"]) == (-9, -5.0, 1.0)
    assert trace.table("flows")["bytes"].to_pylist() == [None]
    assert trace.table("workers")["cores"].to_pylist() == [None]
    for word in (*amounts, "bytes in flows", "cores in workers"):
        assert f"a negative {word} is left out" in trace.warnings


def test_an_input_of_refused_records_holds_nothing():
    build = Builder("swf", "swf")
    build.usable()  # nothing refused
    build.records_in += 1
    build.reject("jobs.txt", 3, "too few columns")
    with pytest.raises(BadInput, match=r"jobs\.txt.*its only record.*line 3: too few columns"):
        build.usable()
    build.add("samples", {"metric": "x", "value": 1.0})
    build.usable()
