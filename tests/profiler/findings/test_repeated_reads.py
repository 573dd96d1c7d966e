from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings import dominant_input, repeated_reads
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def reading(made_run: Make, name: str = "/ref.db", **columns: Any) -> Any:
    """Ten tasks of 1 s on two workers, each with a reference of 0.5 s; then one of 1 s."""
    run = made_run(workers=2, threads=1)
    tasks = run.step("score", [1.0] * 10)
    for number, task in enumerate(tasks):
        begun = run.tables["tasks"][number]["started_ns"]
        run.tables["flows"].append(
            {
                "task_id": task, "object": name.format(number), "medium": "file", "op": "read",
                "bytes": 10**8, "ops": 25, "busy_s": 0.2, "first_ns": begun,
                "last_ns": begun + 500_000_000, **columns,
            }
        )  # fmt: skip
    run.step("sum", [1.0], after=tasks)
    return run


def check(rule: Any, run: Any) -> list[Any]:
    trace = run.trace()
    return list(rule.Advisor().check(trace, Tools(replay=Replayer(trace))))


def test_all_reads_but_a_workers_first_are_the_cost(made_run: Make) -> None:
    (finding,) = check(repeated_reads, reading(made_run))
    assert finding.kind == "repeated_reads"
    assert finding.cost_s == pytest.approx(4 * 0.5, abs=0.05)
    assert finding.evidence[0].value == 8
    assert "ref.db" in finding.title


@pytest.mark.parametrize(
    ("exact", "files", "found"),
    [(0, 1, 0), (10, 2, 0), (10, 1, 1)],  # none is known; shares of a process's total; its only one
)
def test_no_claim_on_bytes_of_a_file_that_are_not_known(
    made_run: Make, exact: int, files: int, found: int
) -> None:
    run = reading(made_run)
    rows = run.tables["flows"]
    rows += [dict(row, object=f"/own/{k}") for k in range(1, files) for row in list(rows)]
    run.meta["dataflow"] = {"flows_exact": exact, "flows_estimated": 10}
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert len(repeated_reads.Advisor().check(trace, tools)) == found
    assert ("which file the bytes" in " ".join(tools.notes)) == (not found)


def test_without_workers_on_record_none_is_named(made_run: Make) -> None:
    run = reading(made_run)
    for row in run.tables["tasks"]:
        row["worker"] = None
    (finding,) = check(repeated_reads, run)
    assert "worker" not in finding.title
    assert finding.confidence == "low"
    assert {e.name: e.value for e in finding.evidence}["workers"] is None


def test_title_and_evidence_count_the_same_reads(made_run: Make) -> None:
    run = reading(made_run)
    run.tables["flows"] += [dict(row, object="/b.db") for row in list(run.tables["flows"])]
    (finding,) = check(repeated_reads, run)
    assert finding.evidence[0].value == 16
    assert "and 1 more 16 times more than once a worker" in finding.title


def test_each_tasks_own_file_is_not_repeated(made_run: Make) -> None:
    assert check(repeated_reads, reading(made_run, name="/in/{}.db")) == []


def test_parts_of_one_file_are_not_repeated(made_run: Make) -> None:
    run = reading(made_run)
    run.tables["objects"] = [{"object": "/ref.db", "size_bytes": 10**9}]
    assert check(repeated_reads, run) == []


def test_parts_of_different_size_of_a_file_of_unknown_size_are_not_repeated(
    made_run: Make,
) -> None:
    run = reading(made_run)
    for number, row in enumerate(run.tables["flows"]):
        row["bytes"] -= 1_000_000 * number
    assert check(repeated_reads, run) == []


def test_a_small_file_that_two_tasks_read_costs_nothing(made_run: Make) -> None:
    run = reading(made_run, busy_s=1e-4, last_ns=None)
    assert check(repeated_reads, run) == []


def test_what_is_written_again_and_again_is_not_the_same(made_run: Make) -> None:
    run = reading(made_run)
    rows = [dict(row, op="write") for row in run.tables["flows"]]
    run.tables["flows"] += rows
    assert check(repeated_reads, run) == []


@pytest.mark.parametrize("lacking", ["bytes", "ops", "busy_s", "first_ns", "task_id", "object"])
@pytest.mark.parametrize("rule", [repeated_reads, dominant_input])
def test_a_missing_column_is_no_error(made_run: Make, rule: Any, lacking: str) -> None:
    assert isinstance(check(rule, reading(made_run, **{lacking: None})), list)
    assert rule.Advisor().check(Trace.from_tables({}), Tools()) == []
