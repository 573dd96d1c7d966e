from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.failed_work import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def flaky(made_run: Make, failing: int, seconds: float = 1.0, outcome: str = "failed") -> Any:
    """Eight tasks on two workers of one thread; some are lost late and run again."""
    run = made_run(workers=2, threads=1)
    free = {"w0": 0.0, "w1": 0.0}
    for number in range(8):
        worker = "w0" if number % 2 == 0 else "w1"
        if number < failing:
            run.task(
                f"t{number}", "clean", worker, free[worker], seconds, outcome=outcome,
                attempt=1, ready=0.0, error="ValueError: cut short", exit_code=1,
            )  # fmt: skip
            free[worker] += seconds
        run.task(f"t{number}", "clean", worker, free[worker], 1.0, attempt=2, ready=0.0)
        free[worker] += 1.0
    return run


def test_failures_that_ran_again_cost_their_time(made_run: Make) -> None:
    (finding,) = check(flaky(made_run, 6).trace())
    assert (finding.code, finding.kind) == ("RM124", "failed_work")
    assert finding.cost_s == pytest.approx(3.0, abs=0.1)
    assert finding.groups == ("clean",)
    assert facts(finding)["failed attempts"] == 6
    assert facts(finding)["error: ValueError: cut short"] == 6
    low, high = finding.cost_s_interval80
    assert low <= finding.cost_s <= high


def test_a_quick_failure_is_nothing(made_run: Make) -> None:
    assert check(flaky(made_run, 1, seconds=0.05).trace()) == []


@pytest.mark.parametrize("outcome", ["worker_lost", "oom", "timeout", "preempted"])
def test_what_others_tell_of_is_left_to_them(made_run: Make, outcome: str) -> None:
    assert check(flaky(made_run, 6, outcome=outcome).trace()) == []


def test_what_failed_for_good_has_no_seconds_but_core_hours(made_run: Make) -> None:
    run = made_run(workers=1, threads=1)
    run.step("good", [1.0] * 4)
    run.task("bad", "bad", "w0", 4.0, 3.0, outcome="failed", error="KeyError: 'x'")
    (finding,) = check(run.trace())
    assert finding.cost_s is None
    assert "unknown" in finding.cost_how
    assert finding.cost_core_h == pytest.approx(3 / 3600)
    assert "failed for good: KeyError" in finding.title


def test_without_a_replay_the_cost_is_a_bound(made_run: Make) -> None:
    (finding,) = check(flaky(made_run, 6).trace(), Tools())
    assert finding.cost_s == pytest.approx(3.0, abs=0.01)
    assert "at most" in finding.cost_how


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "failed"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "failed", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))
