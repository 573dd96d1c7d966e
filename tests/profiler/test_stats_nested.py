"""Sums count what a nested task used once: it is in its outer task's readings already."""

import numpy as np

from rotameter.profiler.groups import group_table, moved
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view
from rotameter.values import Verdict
from rotameter.viz.overview import overview
from rotameter.viz.report import render
from rotameter.viz.tables import groups, workers


def test_nested_bytes_are_counted_once() -> None:
    rows = [
        {"task_id": "outer", "write_bytes": 80, "wall_s": 2.0},
        {"task_id": "inner", "parent": "outer", "write_bytes": 80, "wall_s": 1.0},
        {"task_id": "alone", "parent": "not recorded", "write_bytes": 5, "wall_s": 1.0},
    ]
    found = stats(Trace.from_tables({"tasks": rows}))
    assert found["sums"]["write_bytes"] == {
        "sum": 85, "n": 2, "of": 2, "at_least": False,
    }  # fmt: skip
    assert found["attempts"] == 3


def _flow(task: str, size: int, op: str = "write") -> dict[str, object]:
    return {"task_id": task, "medium": "file", "op": op, "bytes": size}


def test_attempts_without_a_reading_have_what_their_counted_files_say() -> None:
    """The tracer measures time only of tiny tasks: their bytes are in ``flows``."""
    tasks = [{"task_id": f"t{i}", "attempt": 1, "group": "w", "wall_s": 0.1} for i in range(100)]
    tasks[0] |= {"read_bytes": 0, "write_bytes": 100_000, "io_kind": "exact"}
    flows = [_flow(f"t{i}", 100_000) for i in range(100)]
    trace = Trace.from_tables({"tasks": tasks, "flows": flows})
    found = stats(trace)["sums"]
    assert found["write_bytes"] == {"sum": 10_000_000, "n": 100, "of": 100, "at_least": True}
    assert found["process_cpu_s"] == {"sum": None, "n": 0, "of": 100, "at_least": False}
    (row,) = group_table(trace)
    assert (row.write_bytes, row.known["write_bytes"]) == (10_000_000, 100)
    assert "write_bytes" in row.at_least
    assert row.known["cpu_s"] == 0
    (shown,) = groups(trace)
    assert shown["write_bytes"] == 10_000_000
    assert "write_bytes" in shown["at_least"]


def test_what_no_counted_file_tells_is_no_known_zero() -> None:
    """Whoever has counted reads only may still have written: its column alone is a bound."""
    row = {"group": "w", "wall_s": 1.0, "io_kind": "exact", "read_bytes": 5}
    tasks = [{**row, "task_id": f"t{i}"} for i in range(4)]
    tasks[0]["write_bytes"] = 7
    trace = Trace.from_tables(
        {"tasks": tasks, "flows": [_flow(f"t{i}", 5, "read") for i in range(4)]}
    )
    sums = stats(trace)["sums"]
    assert sums["write_bytes"] == {"sum": 7, "n": 1, "of": 4, "at_least": True}
    assert sums["read_bytes"] == {"sum": 20, "n": 4, "of": 4, "at_least": False}
    (shown,) = groups(trace)
    assert (shown["io_kind"], shown["at_least"]) == ("exact", ["write_bytes"])
    assert shown["known"] == {**shown["known"], "read_bytes": 4, "write_bytes": 1}
    page = render(trace, Verdict("It ran.", "ok"))
    assert "≥ 20 B" not in page and "20 B" in page and '≥ 7 B<span class="sub">of 1</span>' in page


def test_a_bound_of_all_bytes_is_the_kind_of_both() -> None:
    task = {"task_id": "a", "group": "w", "read_bytes": 5, "io_kind": "lower_bound"}
    for more in ({}, {"write_bytes": 7}):
        (shown,) = groups(Trace.from_tables({"tasks": [{**task, **more}]}))
        assert shown["io_kind"] == "lower_bound"


def test_a_sum_over_some_of_the_attempts_says_so() -> None:
    tasks = [{"task_id": f"t{i}", "group": "w", "wall_s": 1.0} for i in range(4)]
    tasks[0] |= {"write_bytes": 7, "cpu_s": 0.5}
    tasks.append({"task_id": "c", "group": "w", "outcome": "cached"})
    trace = Trace.from_tables({"tasks": tasks})
    assert stats(trace)["sums"]["write_bytes"] == {"sum": 7, "n": 1, "of": 4, "at_least": True}
    (shown,) = groups(trace)
    assert shown["known"]["write_bytes"] == 1
    assert "write_bytes" in shown["at_least"]
    page = render(trace, Verdict("It ran.", "ok"))
    assert '≥ 7 B<span class="sub">of 1</span>' in page


def test_flows_go_to_their_own_attempt_and_to_the_one_around_it() -> None:
    tasks = [
        {"task_id": "a", "attempt": 1, "run_id": "x", "wall_s": 1.0},
        {"task_id": "a", "attempt": 2, "run_id": "y", "wall_s": 1.0},
        {"task_id": "in", "attempt": 1, "parent": "out", "wall_s": 1.0},
        {"task_id": "out", "attempt": 1, "wall_s": 2.0},
        {"task_id": "bare", "attempt": 1, "wall_s": 2.0},
    ]
    flows = [
        {**_flow("a", 1), "run_id": "x"},
        {**_flow("a", 10), "attempt": 2},
        _flow("a", 100),  # of which of the two is not known
        _flow("in", 1_000),
        _flow("out", 10_000),
        _flow("in", 5, "read"),
        {**_flow("in", 7), "medium": "network"},
    ]
    seen = view(Trace.from_tables({"tasks": tasks, "flows": flows}))
    written, least = moved(seen, "write")
    by = {
        (task, int(number)): None if np.isnan(size) else float(size)
        for task, number, size in zip(
            seen.tasks["task_id"].to_pylist(), seen.number("attempt"), written, strict=True
        )
    }
    assert by == {
        ("a", 1): 1.0, ("a", 2): 10.0, ("in", 1): 1_000.0, ("out", 1): 11_000.0, ("bare", 1): None,
    }  # fmt: skip
    assert least.tolist() == (~np.isnan(written)).tolist()
    assert moved(seen, "read")[0].tolist()[2:4] == [5.0, 5.0]


def test_what_runs_inside_another_task_is_no_further_load() -> None:
    second = 10**9
    tasks = [
        {"task_id": "out", "group": "out", "worker": "w", "started_ns": 0, "ended_ns": 4 * second},
        {"task_id": "in", "group": "in", "worker": "w", "parent": "out", "started_ns": second,
         "ended_ns": 3 * second},
    ]  # fmt: skip
    trace = Trace.from_tables(
        {
            "tasks": tasks,
            "workers": [{"worker": "w", "started_ns": 0, "ended_ns": 8 * second, "cores": 1.0}],
        }
    )
    assert {row["group"]: row["share_ratio"] for row in groups(trace)} == {"out": 1.0, "in": None}
    strip = overview(trace)
    assert strip is not None
    assert max(strip["running"]) == 1.0
    assert workers(trace)[0]["busy_s"] == 4.0
    assert "outermost tasks only" in render(trace, Verdict("It ran.", "ok"))


def test_unknown_cpu_time_stays_unknown_where_a_task_is_nested() -> None:
    rows = [{"task_id": f"t{i}", "group": "g", "wall_s": 7.0} for i in range(4)]
    rows[3] |= {"cpu_s": 3.0}
    rows[1] |= {"parent": "t0"}
    found = stats(Trace.from_tables({"tasks": rows}))["sums"]["cpu_s"]
    assert found == {"sum": 3.0, "n": 1, "of": 3, "at_least": True}
    del rows[3]["cpu_s"]
    found = stats(Trace.from_tables({"tasks": rows}))["sums"]["cpu_s"]
    assert (found["sum"], found["n"]) == (None, 0)
    rows[1] |= {"cpu_s": 0.0}  # a known 0 is a lower bound of what is around it
    found = stats(Trace.from_tables({"tasks": rows}))["sums"]["cpu_s"]
    assert (found["sum"], found["n"]) == (0.0, 1)


def test_a_flow_of_unknown_size_is_no_zero() -> None:
    flows = [_flow("a", 20, "read"), {**_flow("a", 0), "bytes": None}]
    trace = Trace.from_tables({"tasks": [{"task_id": "a", "wall_s": 1.0}], "flows": flows})
    sums = stats(trace)["sums"]
    assert (sums["read_bytes"]["sum"], sums["write_bytes"]["sum"]) == (20, None)
    assert sums["write_bytes"]["n"] == 0
    assert np.isnan(moved(view(trace), "write")[0]).all()


def test_what_is_nested_or_of_an_earlier_run_took_no_time_of_its_own() -> None:
    rows = [
        {"task_id": "outer", "wall_s": 100.0, "outcome": "ok"},
        {"task_id": "inner", "parent": "outer", "wall_s": 80.0, "outcome": "ok"},
        {"task_id": "before", "wall_s": 7.0, "write_bytes": 9, "outcome": "cached"},
    ]
    found = stats(Trace.from_tables({"tasks": rows}))
    assert (found["task_wall_s"], found["compute_s"]) == (100.0, 100.0)
    assert (found["sums"]["wall_s"]["sum"], found["sums"]["wall_s"]["of"]) == (100.0, 1)
    assert found["sums"]["write_bytes"]["sum"] is None
