from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.slow_storage import Advisor as Slow
from rotameter.profiler.findings.staging_cost import Advisor
from rotameter.profiler.replaying.savings import Replayer

Make = Callable[..., Any]
SHARED, LOCAL = 2e8, 8e8
SIZE = 8e8


def flow(task: str, name: str, op: str, tier: str, rate: float) -> dict[str, Any]:
    return {
        "task_id": task, "object": name, "medium": "file", "op": op, "bytes": int(SIZE),
        "ops": 200, "busy_s": SIZE / rate, "tier": tier,
    }  # fmt: skip


def staged(made_run: Make, readers: int = 1) -> Any:
    """Four copies of 5 s, and readers of 1 s + 1 s of each; reading in place would take 4 s."""
    run = made_run(workers=1, threads=4, engine="workflow")
    copies = run.step("stage_in", [SIZE / SHARED + SIZE / LOCAL] * 4)
    tables = run.tables
    for number, copy in enumerate(copies):
        tables["flows"] += [
            flow(copy, f"/shared/{number}", "read", "beegfs", SHARED),
            flow(copy, f"/local/{number}", "write", "ssd", LOCAL),
        ]
    for again in range(readers):
        tasks = run.step(f"work{again}", [1.0 + SIZE / LOCAL] * 4, ready=5.0)
        for number, task in enumerate(tasks):
            tables["deps"].append({"task_id": task, "depends_on": copies[number]})
            tables["flows"].append(flow(task, f"/local/{number}", "read", "ssd", LOCAL))
    return run


def check(run: Any) -> list[Any]:
    trace = run.trace()
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def test_a_copy_that_is_read_once_costs_more_than_it_saves(made_run: Make) -> None:
    run = staged(made_run)
    (finding,) = check(run)
    assert finding.kind == "staging_cost"
    assert finding.groups[0] == "stage_in"
    # 5 s of copying go, each read takes 4 s instead of 1 s.
    assert finding.cost_s == pytest.approx(2.0, abs=0.05)
    assert Slow().check(run.trace(), Tools()) == []


def test_a_copy_that_is_read_many_times_pays(made_run: Make) -> None:
    assert check(staged(made_run, readers=4)) == []


def test_bringing_results_home_is_no_staging(made_run: Make) -> None:
    run = staged(made_run)
    run.tables["flows"] = [f for f in run.tables["flows"] if not f["task_id"].startswith("work")]
    assert check(run) == []


def test_a_task_that_computes_on_what_it_reads_is_no_copy(made_run: Make) -> None:
    run = staged(made_run)
    for row in run.tables["flows"]:
        if row["op"] == "write":
            row["bytes"] //= 3
    assert check(run) == []


def test_a_copy_whose_seconds_stand_at_one_side_is_priced_without_times_of_tasks(
    made_run: Make,
) -> None:
    run = staged(made_run)
    for row in run.tables["tasks"]:
        for name in [n for n in row if n.endswith("_ns") or n == "wall_s"]:
            row[name] = None
    for row in run.tables["flows"]:
        if row["task_id"].startswith("stage_in"):
            row["busy_s"] = 5.0 if row["op"] == "write" else None
    (finding,) = check(run)
    assert finding.cost_s is None
    assert "summed over tasks" in finding.cost_how
