from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.culprit import Need, enough_memory, readable, safe_threads
from rotameter.profiler.findings.deaths import collect
from rotameter.profiler.findings.workers_died import Advisor
from rotameter.profiler.view import view
from rotameter.units import parse_bytes
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
        (-9, 9, 0.5e9, None, "killed by SIGKILL"),
        (1, None, 0.5e9, None, "the process ended by itself"),
        (-15, 15, 0.5e9, None, "asked to stop from outside"),
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
    run.task("odd-0", "odd", "w0", 1.0, 0.5, outcome="worker_lost")
    run.event("executing_at_death", 1.5, worker="w0", task_id="odd-0", group="odd")
    run.event("worker_removed", 1.5, worker="w0", expected=False, reason=reason)
    if exit_code is not None:
        run.event("worker_exit", 1.5, worker="w0", exit_code=exit_code, signal=signal)
    run.die("w0", 1.5, back_as="w9", back=1.7)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert words in finding.title
    assert "while `odd` ran" in finding.title
    assert finding.groups == ("odd",)
    assert "needs" not in finding.title


def test_signal_9_near_the_limit_is_probably_memory(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    run.sample("w0", "rss_bytes", 1.0, 1.9e9)
    run.task("load-x", "load", "w0", 1.0, 0.5, outcome="worker_lost")
    run.event("executing_at_death", 1.5, worker="w0", task_id="load-x", group="load")
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
    run.task("eat-x", "eat", "w0", 1.0, 1.0, outcome="worker_lost")
    run.event("executing_at_death", 2.0, worker="w0", task_id="eat-x", group="eat")
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


def crash(run: Any, worker: str, at: float, group: str, back_as: str, **more: Any) -> None:
    """Let a worker die while a task of a group runs there."""
    run.task(f"{group}-x", group, worker, at - 0.5, 0.5, outcome="worker_lost")
    run.event("executing_at_death", at, worker=worker, task_id=f"{group}-x", group=group)
    run.event("worker_removed", at, worker=worker, expected=False, reason="handle-worker-cleanup")
    if more:
        run.event("worker_exit", at, worker=worker, **more)
    run.die(worker, at, back_as=back_as, back=at + 0.5)


@pytest.mark.parametrize(
    ("signal", "name"),
    [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (11, "SIGSEGV")],
)
def test_a_crash_is_the_process_own(made_run: Make, signal: int, name: str) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    crash(run, "w0", 1.5, "segv", "w9", exit_code=-signal, signal=signal)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert finding.title == f"One worker crashed with {name} while `segv` ran"
    assert "faulthandler" in finding.advice
    assert "who sent" not in finding.advice


def test_kinds_of_death_are_findings_of_their_own(made_run: Make) -> None:
    run = made_run(workers=4)
    run.step("load", [1.0] * 16)
    crash(run, "w0", 1.0, "ex", "w7", exit_code=3)
    crash(run, "w1", 1.2, "segv", "w8", exit_code=-11, signal=11)
    crash(run, "w2", 1.4, "killed", "w9", exit_code=-9, signal=9)
    found = Advisor().check(run.trace(), Tools())
    assert sorted(f.groups[0] for f in found) == ["ex", "killed", "segv"]
    assert all(len(f.groups) == 1 for f in found)


@pytest.mark.parametrize(
    ("need", "limit", "rss", "kind"),
    [
        (417e6, 500e6, 484e6, "lower_bound"),
        (321e6, 400e6, 406e6, "lower_bound"),
        (100e6, 16e9, None, "estimate"),
        (5.8e9, 16e9, 15.3e9, "exact"),
        (1e6, 123_456_789.0, 130e6, "upper_bound"),
        (None, 2e9, 1.9e9, "missing"),
    ],
)
def test_the_next_limit_is_above_what_failed(
    need: float | None, limit: float, rss: float | None, kind: str
) -> None:
    for threads in (1, 2, 8):
        size, step = enough_memory(Need(need, kind, "", 1), threads, limit, rss, 60e6)
        assert size >= step * max(limit, rss or 0.0) - 1.0
        assert size >= threads * (need or 0.0)
        assert step >= (1.1 if kind == "exact" else 1.5)
        assert parse_bytes(readable(size)) == pytest.approx(size)


def test_a_task_that_filled_a_worker_alone_is_given_more(made_run: Make) -> None:
    run = made_run(workers=2, threads=2, memory=500e6)
    run.sample("w0", "rss_bytes", 0.0, 67e6)
    run.sample("w0", "rss_bytes", 1.9, 324e6)
    run.step("light", [0.2] * 8, ready=0.0, peak_memory_bytes=10**6, peak_memory_kind="exact")
    run.task("hog-0", "hog", "w0", 0.0, 2.0, outcome="worker_lost")
    run.event("executing_at_death", 2.0, worker="w0", task_id="hog-0", group="hog",
              rss_bytes=432_000_000)  # fmt: skip
    run.event("worker_memory_kill", 2.0, worker="w0", rss_bytes=484_000_000, limit_bytes=5 * 10**8)
    run.event("worker_removed", 2.0, worker="w0", expected=False)
    run.event("worker_exit", 2.0, worker="w0", exit_code=-15, signal=15, rss_bytes=432_000_000)
    run.die("w0", 2.0)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert finding.change is not None
    assert "memory_limit='1GB')  # at least" in finding.change
    assert finding.apply is not None
    assert finding.apply["memory_request"]["value"] == 1e9
    assert "at least 1 GB" in finding.advice
    # One reading a death, the nanny's before any other, and it is named.
    (rss,) = (e for e in finding.evidence if e.name.startswith("worker memory when it died"))
    assert rss.value == 484_000_000
    assert "nanny" in rss.how


@pytest.mark.parametrize("at", [1.5, 3.9])
def test_a_removal_alone_is_no_death(made_run: Make, at: float) -> None:
    run = made_run()
    run.step("load", [1.0] * 16)
    run.event("worker_removed", at, worker="w0", expected=False, reason="handle-worker-cleanup")
    run.die("w0", at)
    assert collect(view(run.trace())) == []
    assert Advisor().check(run.trace(), Tools()) == []


@pytest.mark.parametrize(("status", "deaths"), [("ok", 0), ("interrupted", 0), ("failed", 2)])
def test_a_cluster_that_closes_did_not_die(made_run: Make, status: str, deaths: int) -> None:
    run = made_run()
    run.meta["run"] = {"status": status}
    run.step("load", [1.0] * 16)
    for worker in ("w0", "w1"):
        run.task(f"late-{worker}", "late", worker, 3.9, 0.1, outcome="worker_lost")
        run.event("executing_at_death", 4.0, worker=worker, task_id=f"late-{worker}", group="late",
                  reason="inferred from the last heartbeat")  # fmt: skip
        run.event("worker_removed", 4.0, worker=worker, expected=False)
        run.die(worker, 4.0)
    assert len(collect(view(run.trace()))) == deaths


def test_results_that_went_with_idle_workers_are_told_as_that(made_run: Make) -> None:
    run = made_run(workers=3, threads=1)
    run.step("f", [0.5] * 12)
    for n in (0, 3, 6):  # They ran on w0.
        run.task(f"f-{n}", "f", "w1", 2.5 + n / 6, 0.5)
    run.event("worker_removed", 2.2, worker="w0", expected=False)
    run.die("w0", 2.2)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert "left without a word while idle" in finding.title
    assert "3 tasks" in finding.title
    assert facts(finding)["cores missing until replaced"] == 0
    assert finding.cost_s == pytest.approx(0.5)
    assert "vanished" not in finding.title


def test_what_costs_nothing_is_not_named(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 200)
    run.event("worker_removed", 1.5, worker="w0", expected=False)
    run.event("worker_exit", 1.5, worker="w0", exit_code=3)
    run.die("w0", 1.5, back_as="w9", back=1.51)
    assert Advisor().check(run.trace(), Tools()) == []


def test_a_need_that_is_unknown_still_gives_a_larger_limit(made_run: Make) -> None:
    run = made_run(workers=2, threads=2, memory=1e9)
    run.step("load", [1.0] * 16)
    run.event("worker_memory_kill", 2.0, worker="w0", rss_bytes=960_000_000, limit_bytes=10**9)
    run.die("w0", 2.0, back_as="w9", back=3.0)
    finding = only(Advisor().check(run.trace(), Tools()))
    assert finding.change == "LocalCluster(memory_limit='1.5GB')  # at least (1.5x what failed)"
    assert finding.apply == {"memory_request": {"value": 1.5e9}}
