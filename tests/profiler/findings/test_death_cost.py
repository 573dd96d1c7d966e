from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.workers_died import Advisor
from rotameter.profiler.replaying.savings import Replayer

Make = Callable[..., Any]


def killed(made_run: Make) -> Any:
    """Eight tasks on two workers; one dies at second 2 with what it held, and is back at 3."""
    run = made_run(workers=2, threads=1)
    for number in range(4):
        run.task(f"a{number}", "load", f"w{number % 2}", number // 2, 1.0, ready=0.0, attempt=1)
    run.event("worker_exit", 2.0, worker="w1", exit_code=-9, signal=9)
    run.event("executing_at_death", 2.0, worker="w1", task_id="b0", group="use")
    run.task("b0", "use", "w1", 2.0, 0.001, outcome="worker_lost", ready=2.0, attempt=1)
    run.die("w1", 2.001, back_as="w2", back=3.0)
    run.task("a1", "load", "w0", 2.0, 1.0, ready=2.0, attempt=2)
    run.task("a3", "load", "w0", 3.0, 1.0, ready=2.0, attempt=2)
    run.task("b0", "use", "w2", 4.0, 1.0, ready=4.0, attempt=2)
    run.task("b1", "use", "w0", 4.0, 1.0, ready=4.0)
    for number in range(4):
        for user in ("b0", "b1"):
            run.tables["deps"].append({"task_id": user, "depends_on": f"a{number}"})
    return run


def test_a_death_costs_what_the_run_is_shorter_had_the_worker_lived(made_run: Make) -> None:
    trace = killed(made_run).trace()
    (finding,) = Advisor().check(trace, Tools(replay=Replayer(trace)))
    assert finding.kind == "workers_died"
    assert finding.cost_s == pytest.approx(2.0, abs=0.1)
    assert "lived on" in finding.cost_how
    assert finding.cost_s_interval80 is not None


def test_what_had_to_be_fetched_again_is_in_the_price(made_run: Make) -> None:
    """On the worker that is back a task fetches what the dead one had; it takes a second more."""
    run = killed(made_run)
    last = next(r for r in run.tables["tasks"] if (r["task_id"], r["worker"]) == ("b0", "w2"))
    last["started_ns"] += 10**9
    last["ended_ns"] += 10**9
    last["transfer_s"] = 1.0
    run.interval("transfer", "w2", 4.0, 5.0, bytes=10**9, peer="w0", task_id="b0")
    trace = run.trace()
    (finding,) = Advisor().check(trace, Tools(replay=Replayer(trace)))
    assert finding.cost_s == pytest.approx(3.0, abs=0.1)


def test_work_that_was_never_done_keeps_the_sum(made_run: Make) -> None:
    run = killed(made_run)
    rows = run.tables["tasks"]
    rows[:] = [row for row in rows if not (row["task_id"] == "b0" and row["outcome"] == "ok")]
    trace = run.trace()
    (finding,) = Advisor().check(trace, Tools(replay=Replayer(trace)))
    assert "missing" in finding.cost_how
    assert finding.severity == "critical"
