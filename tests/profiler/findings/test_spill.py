from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.spill import Advisor
from rotameter.profiler.replay import Replayer
from rotameter.units import parse_bytes

Make = Callable[..., Any]


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def stuck(made_run: Make, *, submitted: int = 40, removed: bool = False) -> Any:
    """Fourteen tasks, then the only worker pauses, and the client waits until second 8."""
    run = made_run(workers=1, threads=1, memory=500e6)
    run.event("graph_submitted", 0.0, count=submitted)
    run.step("leak", [0.15] * 14)
    run.event("worker_paused", 2.05, worker="w0", rss_bytes=283_000_000, limit_bytes=5 * 10**8)
    if removed:
        run.event("worker_removed", 7.999, worker="w0", expected=True)
    run.die("w0", 8.0)
    return run


@pytest.mark.parametrize("removed", [False, True])
def test_tasks_that_a_pause_kept_from_running_are_counted(made_run: Make, removed: bool) -> None:
    (finding,) = Advisor().check(stuck(made_run, removed=removed).trace(), Tools())
    assert finding.title.startswith("26 of 40 tasks never ran: one worker was paused to the end")
    assert finding.severity == "critical"
    assert facts(finding)["paused"] <= 2.1
    assert facts(finding)["tasks that never ran"] == 26
    assert finding.cost_s is None
    assert "not results" in finding.advice


def test_a_pause_after_the_last_task_is_nothing(made_run: Make) -> None:
    assert Advisor().check(stuck(made_run, submitted=14).trace(), Tools()) == []


def test_the_limit_that_failed_is_never_advised(made_run: Make) -> None:
    for finding in diagnose(stuck(made_run).trace()).findings:
        if finding.kind == "spill":
            assert finding.apply is not None
            assert finding.apply["memory_request"]["value"] >= 1.5 * 500e6
            text = (finding.change or "").partition("memory_limit='")[2].partition("'")[0]
            assert parse_bytes(text) >= 1.5 * 500e6


def test_pauses_are_within_the_run_and_by_worker(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 16)
    for worker in ("w0", "w1"):
        run.event("worker_paused", 3.0, worker=worker)
        run.event("worker_paused", 3.1, worker=worker)
        run.event("worker_resumed", 9.0, worker=worker)
        run.die(worker, 10.0)
    run.task("late", "late", "w1", 4.0, 2.0)  # the run now lasts 6 s
    (finding,) = Advisor().check(run.trace(), Tools())
    assert "2 workers were paused for up to 3 s" in finding.title
    assert facts(finding)["paused"] == pytest.approx(6.0)
    assert finding.cost_s is not None
    assert finding.cost_s <= 3.0


def test_a_task_that_began_just_before_a_pause_was_over_waited_for_it(made_run: Make) -> None:
    """A worker tells late that it goes on: by then its next task runs."""
    for late in (0.0, 0.2):
        run = made_run(workers=2, threads=1, memory=500e6)
        for number in range(4):
            run.task(f"a{number}", "load", f"w{number % 2}", number // 2, 1.0, ready=0.0)
        run.event("worker_paused", 2.0, worker="w0", rss_bytes=400_000_000, limit_bytes=5 * 10**8)
        run.event("worker_resumed", 6.0 + late, worker="w0")
        run.task("a4", "load", "w1", 2.0, 1.0, ready=0.0)
        run.task("a5", "load", "w0", 6.0, 1.0, ready=2.0)
        trace = run.trace()
        (finding,) = Advisor().check(trace, Tools(replay=Replayer(trace)))
        assert finding.cost_s == pytest.approx(4.0, abs=0.2), late


def test_workers_whose_limit_is_unknown_are_no_error(made_run: Make) -> None:
    run = stuck(made_run)
    run.memory = None
    (finding,) = Advisor().check(run.trace(), Tools())
    assert facts(finding)["memory limit of a worker"] is None


@pytest.mark.parametrize("ran", [True, False])
def test_a_pause_that_ended_in_a_kill_is_the_kill_s(made_run: Make, ran: bool) -> None:
    """The nanny killed what was paused: workers_died tells of it, with the limit that would do."""
    run = made_run(workers=1, threads=1, memory=500e6)
    run.event("graph_submitted", 0.0, count=40)
    run.step("leak", [0.15] * 14)
    run.event("worker_paused", 2.05, worker="w0", rss_bytes=430_000_000, limit_bytes=5 * 10**8)
    run.event("worker_memory_kill", 7.9, worker="w0", rss_bytes=490_000_000, limit_bytes=5 * 10**8)
    if ran:
        run.task("leak-x", "leak", "w0", 2.1, 5.8, outcome="worker_lost")
        run.event("executing_at_death", 8.0, worker="w0", task_id="leak-x", group="leak")
    run.event("worker_removed", 8.0, worker="w0", expected=False, reason="connection lost")
    run.die("w0", 8.0)
    kinds = [finding.kind for finding in diagnose(run.trace()).findings]
    # One of them tells of it, whichever: a death that cost no work is no finding.
    assert (kinds.count("workers_died"), kinds.count("spill")) == ((1, 0) if ran else (0, 1))
