from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.cold_first_task import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace) -> list[Any]:
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def test_the_first_task_on_each_worker_is_priced_by_replay(made_run: Make) -> None:
    run = made_run(workers=3, threads=1)
    run.step("map", [3.0] * 3 + [0.3] * 30)
    (finding,) = check(run.trace())
    assert (finding.code, finding.kind) == ("RM115", "cold_first_task")
    assert finding.cost_s == pytest.approx(2.7, rel=0.05)
    assert "3 workers" in finding.title
    assert "WorkerPlugin" in finding.change


def test_first_tasks_of_different_groups_count_too(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    for worker, group in (("w0", "load"), ("w1", "fit")):
        run.task(f"{group}-cold", group, worker, 0.0, 3.0, ready=0.0)
        for number in range(12):
            name = ("load", "fit")[number % 2]
            run.task(f"{worker}-{name}-{number}", name, worker, 3.0 + 0.3 * number, 0.3, ready=0.0)
    (finding,) = check(run.trace())
    assert set(finding.groups) == {"load", "fit"}


@pytest.mark.parametrize("first", [1, 0])
def test_one_worker_alone_is_no_matter_of_being_first(made_run: Make, first: int) -> None:
    run = made_run(workers=2, threads=1)
    run.step("map", [[0.3, 3.0], [3.0, 0.3]][first] + [0.3] * 30)
    assert check(run.trace()) == []


def test_first_tasks_that_waited_for_one_thing_are_not_cold(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("map", [3.0] * 2 + [0.3] * 20)
    for row in run.tables["tasks"]:
        row["cpu_s"] = 0.01 if row["wall_s"] > 1 else 0.3
    assert check(run.trace()) == []


def test_first_tasks_with_more_data_are_not_cold(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("map", [3.0] * 2 + [0.3] * 20)
    for row in run.tables["tasks"]:
        row["read_bytes"] = round(row["wall_s"] * 1e8)
    assert check(run.trace()) == []


def test_a_cold_start_behind_other_work_costs_nothing(made_run: Make) -> None:
    run = made_run(workers=2, threads=2)
    run.step("other", [8.0] * 2)
    run.step("map", [1.0] * 2 + [0.3] * 6, ready=0.0)
    assert check(run.trace()) == []


def test_missing_columns() -> None:
    assert check(Trace.from_tables({})) == []
    rows = [{"task_id": f"t{i}", "group": "g", "outcome": "ok", "wall_s": 1.0} for i in range(9)]
    assert check(Trace.from_tables({"tasks": rows})) == []
