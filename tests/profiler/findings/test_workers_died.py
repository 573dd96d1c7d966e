from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.culprit import Need, safe_threads
from rotameter.profiler.findings.deaths import collect
from rotameter.profiler.findings.workers_died import Advisor
from rotameter.profiler.view import view
from rotameter.values import Finding

Make = Callable[..., Any]


def oom_run(made_run: Make, *, kind: str = "exact") -> Any:
    """Two workers of 4 threads and 16 GB; `groupby.map` needs 5.8 GB; w0 is killed."""
    run = made_run(workers=2, threads=4, memory=16e9)
    run.event("group_origin", 0, group="groupby.map", file="/home/me/clim.py", line=42)
    run.step(
        "load",
        [1.0] * 8,
        peak_memory_bytes=20_000_000,
        peak_memory_kind="exact",
        start_memory_bytes=120_000_000,
    )
    for n in range(2):
        run.task(
            f"map-{n}", "groupby.map", "w1", 1.0 + n, 1.0,
            peak_memory_bytes=5_800_000_000, peak_memory_kind=kind,
        )  # fmt: skip
    for n in range(2, 5):
        run.task(f"map-{n}", "groupby.map", "w0", 1.0, 2.0, outcome="worker_lost")
        run.event("executing_at_death", 3.0, worker="w0", task_id=f"map-{n}", group="groupby.map",
                  rss_bytes=15_300_000_000, duration_s=2.0)  # fmt: skip
    run.task("light-0", "light", "w0", 2.9, 0.1, outcome="worker_lost")
    run.event("executing_at_death", 3.0, worker="w0", task_id="light-0", group="light")
    run.task("light-1", "light", "w1", 2.9, 0.1, peak_memory_bytes=1_000_000,
             peak_memory_kind="exact")  # fmt: skip
    for n in range(6):
        run.event("queued_at_death", 3.0, worker="w0", task_id=f"sum-{n}", group="sum")
    run.event("worker_memory_kill", 2.95, worker="w0", rss_bytes=15_300_000_000,
              limit_bytes=16_000_000_000)  # fmt: skip
    run.event("worker_removed", 3.0, worker="w0", expected=False, reason="handle-worker-cleanup")
    run.event("worker_exit", 3.0, worker="w0", exit_code=-15, signal=15)
    run.die("w0", 3.0, back_as="w2", back=4.0)
    run.task("map-2", "groupby.map", "w2", 4.0, 2.0)
    return run


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1
    return found[0]


def facts(finding: Finding) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def test_the_culprit_is_who_ran_and_needs_most_not_who_queued(made_run: Make) -> None:
    finding = only(Advisor().check(oom_run(made_run).trace(), Tools()))
    assert finding.code == "RM101"
    assert finding.groups == ("groupby.map",)
    assert finding.title == (
        "`groupby.map` (clim.py:42) needs 5.8 GB a task (measured alone); "
        "4 threads share 16 GB, 2 fit"
    )
    assert finding.advice.startswith("Set threads_per_worker=2 or make chunks 2× smaller")
    known = facts(finding)
    assert known["only queued there (not to blame)"] == "sum"
    assert known["ran beside it"] == "light"
    assert known["that fit"] == 2
    assert known["ran together at death, most"] == 3
    assert finding.confidence == "high"


def test_its_cost_is_lost_and_redone_work_and_missing_cores(made_run: Make) -> None:
    trace = oom_run(made_run).trace()
    finding = only(Advisor().check(trace, Tools()))
    known = facts(finding)
    assert known["work lost with them"] == pytest.approx(6.1)
    assert known["cores missing until replaced"] == pytest.approx(4.0)
    assert finding.cost_s == pytest.approx((6.1 + 4.0) / 8)
    assert finding.cost_gbh == pytest.approx(finding.cost_s * 32 / 3600, rel=1e-3)
    assert finding.cost_s <= view(trace).makespan


def test_the_failed_run_begins_with_the_killed_worker(made_run: Make) -> None:
    run = oom_run(made_run)
    run.meta["run"] = {"status": "failed", "error": "KilledWorker: Attempted to run task"}
    verdict = diagnose(run.trace())
    assert verdict.sentence.startswith(
        "KilledWorker: `groupby.map` (clim.py:42) needs 5.8 GB a task (measured alone); "
        "4 threads share 16 GB, 2 fit. Set threads_per_worker=2 or make chunks 2× smaller."
    )
    assert verdict.findings[0].kind == "workers_died"


def test_a_killed_task_gives_a_lower_bound(made_run: Make) -> None:
    run = made_run(workers=1, threads=2, memory=1e9)
    run.sample("w0", "rss_bytes", 0.0, 100e6)
    for n in range(2):
        run.task(f"eat-{n}", "eat", "w0", 0.0, 2.0, outcome="worker_lost")
        run.event("executing_at_death", 2.0, worker="w0", task_id=f"eat-{n}", group="eat")
    run.event("worker_memory_kill", 2.0, worker="w0", rss_bytes=960_000_000, limit_bytes=10**9)
    run.event("worker_removed", 2.0, worker="w0", expected=False)
    run.die("w0", 2.0)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "needs at least 430 MB a task" in finding.title
    assert "threads_per_worker=1" in finding.advice
    assert finding.confidence == "medium"


@pytest.mark.parametrize(
    ("exit_code", "signal", "rss", "reason", "words"),
    [
        (-9, 9, 0.5e9, None, "killed by a signal"),
        (1, None, 0.5e9, None, "the process ended by itself"),
        (-15, 15, 0.5e9, None, "asked to stop from outside"),
        (None, None, 0.5e9, "slurm: time limit reached", "asked to stop from outside"),
        (None, None, 0.5e9, None, "vanished without a word"),
    ],
)
def test_deaths_not_of_memory_are_told_apart(
    made_run: Make,
    exit_code: int | None,
    signal: int | None,
    rss: float,
    reason: str | None,
    words: str,
) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    run.sample("w0", "rss_bytes", 1.0, rss)
    run.event("worker_removed", 1.5, worker="w0", expected=False, reason=reason)
    if exit_code is not None:
        run.event("worker_exit", 1.5, worker="w0", exit_code=exit_code, signal=signal)
    run.die("w0", 1.5, back_as="w9", back=1.7)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert words in finding.title
    assert "needs" not in finding.title


def test_signal_9_near_the_limit_is_probably_memory(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    run.sample("w0", "rss_bytes", 1.0, 1.9e9)
    run.event("executing_at_death", 1.5, worker="w0", task_id="load-0", group="load")
    run.event("worker_exit", 1.5, worker="w0", exit_code=-9, signal=9)
    run.event("worker_removed", 1.5, worker="w0", expected=False)
    (death,) = collect(view(run.trace()))
    assert death.cause == "memory_probably"
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "probably" in str([e.name for e in finding.evidence])
    assert finding.confidence != "high"


def test_an_upper_bound_and_those_killed_give_a_range(made_run: Make) -> None:
    run = made_run(workers=2, threads=2, memory=1e9)
    run.sample("w0", "rss_bytes", 0.0, 100e6)
    run.task("eat-9", "eat", "w1", 0.0, 1.0, peak_memory_bytes=600_000_000,
             peak_memory_kind="upper_bound")  # fmt: skip
    for n in range(2):
        run.task(f"eat-{n}", "eat", "w0", 0.0, 2.0, outcome="worker_lost")
        run.event("executing_at_death", 2.0, worker="w0", task_id=f"eat-{n}", group="eat")
    run.event("worker_memory_kill", 2.0, worker="w0", rss_bytes=960_000_000, limit_bytes=10**9)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "`eat` needs 430 MB to 600 MB a task; 2 threads share 1 GB, 1 fits" in finding.title


def test_tasks_that_fit_are_not_told_to_shrink(made_run: Make) -> None:
    run = made_run(workers=2, threads=2, memory=8e9)
    run.sample("w0", "rss_bytes", 0.0, 100e6)
    run.sample("w0", "managed_bytes", 1.9, 6e9)
    run.step("eat", [1.0] * 4, peak_memory_bytes=10**9, peak_memory_kind="exact")
    run.event("executing_at_death", 2.0, worker="w0", task_id="eat-0", group="eat")
    run.event(
        "worker_memory_kill", 2.0, worker="w0", rss_bytes=7_700_000_000, limit_bytes=8 * 10**9
    )
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "which they alone do not fill: results kept or leaks did" in finding.title
    assert "Keep fewer results" in finding.advice
    assert finding.confidence == "low"


def test_workers_that_leave_as_asked_did_not_die(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    run.event("worker_removed", 2.0, worker="w0", expected=True)
    run.event("worker_exit", 2.1, worker="w0", exit_code=-15, signal=15)
    run.event("worker_exit", 2.1, worker="w1", exit_code=0)
    assert Advisor().check(run.trace(), Tools()) == []


def test_a_death_that_nothing_explains_still_gives_a_finding(made_run: Make) -> None:
    run = made_run()
    run.event("worker_memory_kill", 1.0, worker="gone")
    tools = Tools()
    finding = only(Advisor().check(run.trace(), tools))
    assert "memory" in finding.title
    assert tools.notes


@pytest.mark.parametrize(
    ("need", "limit", "threads", "together", "footprint", "expected"),
    [
        (Need(5.8e9, "exact", "", 1), 16e9, 4, 4, 0.0, (2, None)),
        (Need(14.4e9, "exact", "", 1), 16e9, 4, 4, 0.0, (1, None)),
        (Need(14.4e9, "exact", "", 1), 16e9, 4, 4, 2e9, (0, 2.0)),
        (Need(3e9, "lower_bound", "", 1), 16e9, 4, 4, 0.0, (3, None)),
        (Need(1e9, "lower_bound", "", 1), 16e9, 4, 4, 0.0, (4, None)),
        (Need(9e9, "lower_bound", "", 1), 16e9, 1, 1, 0.0, (0, 2.0)),
        (Need(None, "missing", "", 0), 16e9, 4, 4, 0.0, (None, None)),
        (Need(1e9, "exact", "", 1), None, 4, 4, 0.0, (None, None)),
        (Need(0.0, "exact", "", 1), 16e9, 4, 2, 0.0, (4, None)),
    ],
)
def test_how_many_fit(
    need: Need,
    limit: float | None,
    threads: int,
    together: int,
    footprint: float,
    expected: tuple[int | None, float | None],
) -> None:
    assert safe_threads(need, limit, threads, together, footprint) == expected
