from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings import metadata_io, random_io, small_io
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def reading(made_run: Make, **columns: Any) -> Any:
    """Eight tasks of 1 s on two threads, each reading a file of its own."""
    run = made_run(workers=2, threads=1)
    for number, task in enumerate(run.step("parse", [1.0] * 8)):
        begun = run.tables["tasks"][-8 + number]["started_ns"]
        run.tables["flows"].append(
            {
                "task_id": task, "object": f"/data/{number}.bin", "medium": "file", "op": "read",
                "bytes": 5_000_000, "ops": 100_000, "busy_s": 0.8,
                "first_ns": begun, "last_ns": begun + 810_000_000, **columns,
            }
        )  # fmt: skip
    return run


def check(rule: Any, run: Any) -> list[Any]:
    trace = run.trace()
    return list(rule.Advisor().check(trace, Tools(replay=Replayer(trace))))


def test_small_calls_cost_what_they_take_beyond_their_bytes(made_run: Make) -> None:
    (finding,) = check(small_io, reading(made_run))
    assert finding.kind == "small_io"
    assert finding.groups == ("parse",)
    # Four waves of 0.8 s, less 10 ms for the bytes of each.
    assert finding.cost_s == pytest.approx(4 * 0.8, abs=0.15)
    low, high = finding.cost_s_interval80
    assert low <= finding.cost_s <= high
    assert len(finding.evidence) >= 2
    assert finding.apply["io_size"]["factor"] > 1000


def test_reads_and_writes_are_said_each_and_each_number_says_what_it_is(made_run: Make) -> None:
    run = reading(made_run, busy_s=0.4, last_ns=None)
    run.tables["flows"] += [
        dict(row, op="write", object=f"/out/{n}", bytes=2_500_000)
        for n, row in enumerate(list(run.tables["flows"]))
    ]
    (finding,) = check(small_io, run)
    assert "read 40 MB and wrote 20 MB in 1,600,000 calls" in finding.title
    assert "6.4 s in calls" in finding.title
    assert "more than large ones would take" in finding.title
    facts = {e.name: e.value for e in finding.evidence}
    assert facts["of it read"] == 40_000_000
    assert facts["of it written"] == 20_000_000
    assert facts["time in calls"] == pytest.approx(6.4)
    assert facts["more than large calls take"] == pytest.approx(6.4 - 60e6 / 500e6, rel=0.01)


@pytest.mark.parametrize("known", [True, False])
def test_seconds_of_ranks_side_by_side_are_not_the_jobs(made_run: Make, known: bool) -> None:
    """A job of 100 s with 64 processes that spent 1600 s in calls, all together."""
    run = made_run(workers=1, threads=1, engine="mpi")
    features = [("nprocs", 64.0)] if known else None
    run.task("job", "ior", "w0", 0.0, 100.0, features=features)
    run.tables["flows"].append(
        {
            "task_id": "job", "object": "/data/shared.h5", "medium": "file", "op": "read",
            "bytes": 10**9, "ops": 10**7, "busy_s": 1600.0,
        }
    )  # fmt: skip
    (finding,) = check(small_io, run)
    low, high = finding.cost_s_interval80
    if known:
        assert finding.cost_s == pytest.approx(25.0, rel=0.05)
        assert finding.confidence == "medium"
    else:  # Nothing says how much of the job's time was not in calls.
        assert low == 0.0
        assert finding.confidence == "low"
    assert high <= 110.0


def test_the_same_time_in_large_calls_is_not_small_io(made_run: Make) -> None:
    assert check(small_io, reading(made_run, ops=5, bytes=50_000_000)) == []


def test_many_small_calls_that_take_no_time_cost_nothing(made_run: Make) -> None:
    run = reading(made_run, busy_s=0.012, last_ns=None)
    assert check(small_io, run) == []


def test_a_few_small_calls_are_a_header(made_run: Make) -> None:
    assert check(small_io, reading(made_run, ops=20, bytes=900)) == []


def test_modules_of_a_program_are_not_data(made_run: Make) -> None:
    run = reading(made_run, object="/env/lib/python3.11/site-packages/x/m.py")
    assert check(small_io, run) == []


def test_small_calls_that_jump_are_random_and_not_small(made_run: Make) -> None:
    run = reading(made_run, footprint_bytes=1_000_000)
    assert check(small_io, run) == []
    (finding,) = check(random_io, run)
    assert finding.kind == "random_io"
    assert finding.cost_s == pytest.approx(3.2, abs=0.2)


def test_going_through_a_file_once_is_not_random(made_run: Make) -> None:
    assert check(random_io, reading(made_run, footprint_bytes=5_000_000)) == []


def test_without_times_of_tasks_the_cost_is_null_with_a_reason(made_run: Make) -> None:
    run = reading(made_run)
    for row in run.tables["tasks"]:
        for name in [n for n in row if n.endswith("_ns") or n == "wall_s"]:
            row[name] = None
    (finding,) = check(small_io, run)
    assert finding.cost_s is None
    assert "cannot be told" in finding.cost_how


@pytest.mark.parametrize("rule", [small_io, random_io, metadata_io])
@pytest.mark.parametrize("lacking", ["bytes", "ops", "busy_s", "first_ns", "task_id", "object"])
def test_a_missing_column_is_no_error(made_run: Make, rule: Any, lacking: str) -> None:
    run = reading(made_run, **{lacking: None})
    assert isinstance(check(rule, run), list)
    assert rule.Advisor().check(Trace.from_tables({}), Tools()) == []
