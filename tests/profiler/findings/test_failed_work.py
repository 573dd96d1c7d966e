from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.diagnose import diagnose
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


MINUTE = 60 * 10**9
KILLED = {"outcome": "oom", "outcome_kind": "inferred", "exit_code": 137}
HUNG = {"outcome": "failed", "error": "no exit code", "submitted_ns": 0}


def workflow(last: dict[str, Any], **run: Any) -> Trace:
    """A pipeline in which `b` is killed for memory, ends well at its second try, and `c` fails.

    `b` is over at 17 min, `c` at 62 min: without the first attempt of `b` the run is as long.
    """
    rows = [
        {"task_id": "fit (a)", "submitted_ns": 0, "started_ns": MINUTE, "ended_ns": 6 * MINUTE},
        {"task_id": "fit (b)", "submitted_ns": 0, "started_ns": MINUTE, "ended_ns": 6 * MINUTE}
        | KILLED,
        {"task_id": "fit (b)", "attempt": 2, "submitted_ns": 6 * MINUTE,
         "started_ns": 7 * MINUTE, "ended_ns": 17 * MINUTE},
        {"task_id": "fit (c)", "ended_ns": 62 * MINUTE} | last,
    ]  # fmt: skip
    full = [{"group": "fit", "attempt": 1, "outcome": "ok"} | row for row in rows]
    return Trace.from_tables({"tasks": full}, {"engine": "nextflow", "run": run})


@pytest.mark.parametrize("more", [{}, {"started_ns": MINUTE}])
def test_what_failed_for_good_comes_first_and_a_retry_off_the_path_saves_nothing(
    more: dict[str, Any],
) -> None:
    verdict = diagnose(workflow(HUNG | more))
    first = verdict.findings[0]
    (second,) = [found for found in verdict.findings if found.code == "RM123"]
    assert (first.code, first.cost_s) == ("RM124", None)
    assert "1 task (`fit (c)`) failed for good: no exit code" in first.title
    known = "started_ns" in more
    assert facts(first)["work in failed attempts"] == (3660.0 if known else None)
    assert (first.cost_core_h is None) != known
    assert second.cost_s == 0.0
    assert second.cost_core_h == pytest.approx(5 / 60)
    assert "`fit (c)` (no exit code)" in verdict.sentence


def test_a_retry_that_the_end_waited_for_still_costs_its_time() -> None:
    # `c` ends at 10 min: now `b` ends the run, 6 min later than without its first attempt.
    verdict = diagnose(workflow({"submitted_ns": 0, "started_ns": MINUTE, "ended_ns": 10 * MINUTE}))
    (finding,) = [found for found in verdict.findings if found.code == "RM123"]
    assert finding.cost_s == pytest.approx(360.0, abs=1.0)


def test_tasks_are_counted_and_one_that_never_ended_well_saves_nothing(made_run: Make) -> None:
    run = made_run(workers=1, threads=1, engine="snakemake")
    run.task("a", "prep", "w0", 0.0, 100.0)
    for attempt in (1, 2, 3):
        run.task(
            "b", "fit", "w0", 200.0 * attempt - 100.0, 200.0, attempt=attempt, outcome="failed",
            error="ValueError: nan", exit_code=1,
        )  # fmt: skip
    verdict = diagnose(run.trace())
    assert verdict.status == "failed"
    assert "1 of 2 tasks (`fit`) exited with 1" in verdict.sentence
    assert "600 of 700 task-seconds (86%) went into failed attempts" in verdict.sentence
    (finding,) = [found for found in verdict.findings if found.code == "RM124"]
    assert finding.cost_s is None
    assert "1 task failed for good in 3 attempts: ValueError: nan; 10 min of" in finding.title
    assert facts(finding)["tasks that never ended well"] == 1


@pytest.mark.parametrize(
    ("peak", "words"),
    [
        (233472, "asked for more at once than the machine gives"),
        (int(1.9e9), "Make the chunks of `load` smaller, or give each worker more memory"),
        (None, "a worker has 2 GB"),
    ],
)
def test_a_memory_error_of_dask_has_a_finding(made_run: Make, peak: int | None, words: str) -> None:
    run = made_run(workers=1, threads=1, memory=2e9)
    run.step("load", [1.0] * 9)
    run.task(
        "x", "load", "w0", 9.0, 0.01, outcome="oom", error="MemoryError", peak_memory_bytes=peak,
    )  # fmt: skip
    trace = run.trace()
    trace.meta["run"] = {"status": "failed", "error": "MemoryError"}
    (finding,) = [found for found in diagnose(trace).findings if found.code == "RM124"]
    assert "1 task failed for good: MemoryError" in finding.title
    assert words in finding.advice
    assert facts(finding)["memory they had got, most"] == peak
    assert facts(finding)["worker's memory limit"] == 2e9


@pytest.mark.parametrize("known", ["attempt", "ended_ns", None])
def test_what_ended_well_at_last_did_not_fail_for_good(known: str | None) -> None:
    """No start is on record: numbers of attempts tell the order, else ends, else nothing."""
    rows: list[dict[str, Any]] = []
    for number in range(10):
        again = number >= 5
        order = {"attempt": int(again), "ended_ns": (number + 1) * 10**11}
        rows.append({
            "task_id": f"t{number % 5}", "group": "g", "wall_s": 30.0 if again else 10.0,
            "outcome": "ok" if again else "failed", "error": None if again else "ValueError: x",
            **({known: order[known]} if known else {}),
        })  # fmt: skip
    (finding,) = check(Trace.from_tables({"tasks": rows}, {"engine": "table"}))
    assert "5 tasks failed and ran again" in finding.title
    assert finding.cost_s is None  # How long the run took is not on record.
    assert finding.cost_core_h == pytest.approx(50 / 3600)


def test_one_that_failed_after_it_had_ended_well_did_not_run_again() -> None:
    row = {"task_id": "t", "group": "g", "wall_s": 10.0}
    rows = [{**row, "outcome": "ok", "attempt": 0}, {**row, "outcome": "failed", "attempt": 1}]
    (finding,) = check(Trace.from_tables({"tasks": rows}, {"engine": "table"}))
    assert "failed for good" in finding.title


def test_failures_in_several_groups_are_not_said_of_the_first(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    for number in range(4):
        at = 4.0 * number
        run.task(
            f"t{number}", f"g{number}", "w0", at, 2.0, outcome="failed", attempt=1, ready=at,
            error="ValueError: cut short",
        )  # fmt: skip
        run.task(f"t{number}", f"g{number}", "w0", at + 2.0, 2.0, attempt=2, ready=at)
    (finding,) = check(run.trace())
    assert finding.title.startswith("`g0`, `g1` and 2 more groups: 4 tasks failed and ran again")
    assert finding.groups == ("g0", "g1", "g2", "g3")
    assert "why `g0`, `g1` and 2 more groups fail (" in finding.advice


def backed_off(made_run: Make, engine: str, others: int, first: float = 0.0) -> Any:
    """One task fails after 2 s, begins again 10 s later, and a join waits for it."""
    run = made_run(workers=2, threads=1, engine=engine)
    row = {"requested_cores": 1.0}
    run.task(
        "t", "fit", "w0", first, 2.0, outcome="failed", attempt=1, ready=0.0, error="IOError: x",
        **row,
    )  # fmt: skip
    run.task("t", "fit", "w0", first + 12.0, 2.0, attempt=2, submitted=first + 2.0,
             ready=first + 2.0, **row)  # fmt: skip
    for number in range(others):
        run.task(f"u{number}", "other", "w1", 2.0 * number, 2.0, **row)
        if number:
            run.tables["deps"].append({"task_id": f"u{number}", "depends_on": f"u{number - 1}"})
    run.task("end", "join", "w0", first + 14.0, 1.0, **row)
    run.tables["deps"].append({"task_id": "end", "depends_on": "t"})
    return run


@pytest.mark.parametrize("engine", ["dask", "nextflow", "snakemake"])
def test_the_wait_before_a_retry_is_part_of_what_the_failure_cost(
    made_run: Make, engine: str
) -> None:
    # It ends at 15 s; without the failure the others do, at 6 s.
    (finding,) = check(backed_off(made_run, engine, 3).trace())
    assert finding.cost_s == pytest.approx(9.0, abs=0.2)


@pytest.mark.parametrize("engine", ["dask", "nextflow"])
def test_a_wait_that_nobody_waited_for_costs_nothing(made_run: Make, engine: str) -> None:
    (finding,) = check(backed_off(made_run, engine, 9).trace())
    assert finding.cost_s == 0.0


def test_a_retry_waits_no_less_than_the_first_attempt_did(made_run: Make) -> None:
    """Both waited for 10 s: without the failure one of these waits stays."""
    (finding,) = check(backed_off(made_run, "dask", 0, first=10.0).trace())
    assert finding.cost_s == pytest.approx(12.0, abs=0.2)


def test_a_failure_that_the_program_took_is_told_behind_what_cost_time(made_run: Make) -> None:
    run = flaky(made_run, 6)
    run.task("bad", "bad", "w0", 7.0, 0.001, outcome="failed", error="KeyError: 'x'")
    run.meta["run"] = {"status": "ok"}
    verdict = diagnose(run.trace())
    titles = [finding.title for finding in verdict.findings]
    assert any("`bad`: 1 task failed for good: KeyError" in title for title in titles[1:])
    assert "1 of 9 tasks never ended well" in verdict.sentence
    run = made_run(workers=2, threads=1)
    run.step("alone", [5.0])
    run.task("bad", "bad", "w0", 5.0, 0.001, outcome="failed", error="KeyError: 'x'")
    run.meta["run"] = {"status": "ok"}
    verdict = diagnose(run.trace())
    assert [finding.code for finding in verdict.findings] == ["RM107", "RM124"]
    assert verdict.sentence.endswith("1 of 2 tasks failed for good.")
