from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.spill import Advisor as Spill
from rotameter.profiler.findings.unmanaged_memory import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


LIMIT = 700_000_000


def leaking(made_run: Make, *, kept: float = 5e8, results: float = 0.0) -> Any:
    """Two workers; the first is paused from second 1 to 4, the second goes on alone."""
    run = made_run(workers=2, threads=1, memory=LIMIT)
    for number in range(40):
        second = number // 2
        if number % 2 == 0 and second < 10:
            run.task(f"t{number}", "parse", "w0", 0.1 * second, 0.1, ready=0.0)
        elif number % 2 == 1:
            run.task(f"t{number}", "parse", "w1", 0.1 * second, 0.1, ready=0.0)
    for number in range(10):
        run.task(f"late{number}", "parse", "w0", 4.0 + 0.1 * number, 0.1, ready=0.0)
    run.event("worker_paused", 1.0, worker="w0", limit_bytes=LIMIT)
    run.event("worker_resumed", 4.0, worker="w0", limit_bytes=LIMIT)
    for tick in range(11):
        at = tick / 2
        short = 1.0 <= at < 4.0
        run.sample("w0", "rss_bytes", at, 1e8 + (kept + results if short else 0.0))
        run.sample("w0", "managed_bytes", at, results if short else 0.0)
        run.sample("w1", "rss_bytes", at, 1e8)
        run.sample("w1", "managed_bytes", at, 0.0)
    return run


def test_memory_that_no_result_explains_paused_a_worker(made_run: Make) -> None:
    (finding,) = check(leaking(made_run).trace())
    assert (finding.code, finding.kind) == ("RM120", "unmanaged_memory")
    assert finding.cost_s == pytest.approx(3.0, abs=0.3)
    assert finding.groups[0] == "parse"
    assert facts(finding)["memory that no result explains"] == pytest.approx(5e8, rel=0.01)
    assert Spill().check(leaking(made_run).trace(), Tools()) == []


@pytest.mark.parametrize("times", [1, 2])
def test_the_need_of_a_task_that_ran_once_in_a_process_is_not_kept_by_it(
    made_run: Make, times: int
) -> None:
    run = made_run(workers=2, threads=1, memory=LIMIT)
    for number in range(times):
        run.task(f"big{number}", "hog", "w0", float(number), 1.0 + 3.0 * (number + 1 == times))
    for number in range(20):
        run.task(f"t{number}", "parse", "w1", 0.1 * number, 0.1, ready=0.0)
    for number in range(10):
        run.task(f"late{number}", "parse", "w0", times + 3.0 + 0.1 * number, 0.1, ready=0.0)
    run.event("worker_paused", times + 0.2, worker="w0", limit_bytes=LIMIT)
    run.event("worker_resumed", times + 2.9, worker="w0", limit_bytes=LIMIT)
    for tick in range(0, 2 * times + 8):
        at = tick / 2
        run.sample("w0", "rss_bytes", at, 1e8 + (5e8 if 0.2 <= at < times + 2.9 else 0.0))
        run.sample("w0", "managed_bytes", at, 0.0)
    found = check(run.trace())
    assert len(found) == (times > 1)  # Where it ran before, it may have kept that.


def test_results_that_fill_a_worker_are_spill(made_run: Make) -> None:
    trace = leaking(made_run, kept=2e7, results=5e8).trace()
    assert check(trace) == []
    (finding,) = Spill().check(trace, Tools(replay=Replayer(trace)))
    assert finding.kind == "spill"
    assert finding.cost_s == pytest.approx(3.0, abs=0.3)


def test_no_pause_no_finding(made_run: Make) -> None:
    run = leaking(made_run)
    run.tables["events"].clear()
    assert [finding for finding in check(run.trace()) if finding.cost_s] == []


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


def hung(made_run: Make, *, own: float = 1e8, status: str = "failed", resumes: bool = False) -> Any:
    """One worker fills up in 2 s and stands paused to 22 s; 33 of 50 tasks never start."""
    run = made_run(workers=1, threads=1, memory=500_000_000)
    for number in range(17):
        run.task(f"t{number}", "leak", "w0", 0.1 * number, 0.1, ready=0.0)
    run.event("graph_submitted", 0.0, count=50)
    run.event("worker_paused", 1.7, worker="w0", limit_bytes=500_000_000)
    if resumes:
        run.event("worker_resumed", 1.8, worker="w0", limit_bytes=500_000_000)
    run.sample("scheduler", "queued", 21.9, 33.0)
    for tick in range(44):
        at = tick / 2
        run.sample("w0", "rss_bytes", at, min(own + 2e8 * at, 4.1e8))
        run.sample("w0", "managed_bytes", at, 476.0)
    run.meta["run"] = {"status": status, "started_ns": run.ns(0.0), "ended_ns": run.ns(22.0)}
    return run.trace()


@pytest.mark.parametrize("status", ["failed", "interrupted", "ok"])
def test_a_run_that_hangs_on_a_paused_worker_says_so_first(made_run: Make, status: str) -> None:
    from rotameter.profiler.diagnose import diagnose

    verdict = diagnose(hung(made_run, status=status))
    first = verdict.findings[0]
    assert (first.code, first.severity, first.cost_s) == ("RM120", "critical", None)
    assert first.title.startswith("The worker stood paused for memory at 410 MB of 500 MB to the")
    assert "33 tasks never started, and nothing ran for 20.3 s" in first.title
    assert first.groups == ("leak",) and "`leak` and its libraries keep" in first.advice
    assert "the worker stood paused, as its memory was full" in verdict.sentence
    assert "Nothing ran for the last 20.3 s" in verdict.sentence
    time = next(figure for figure in verdict.figures if figure.label == "Run time")
    assert "then nothing ran for 20.3 s" in time.how
    memory = next(f for f in verdict.figures if f.label == "Memory held, not used")
    assert memory.how.startswith("79% was full with what no task's peak or result tells")


def test_a_limit_that_the_worker_itself_takes_up_is_told_as_that(made_run: Make) -> None:
    (finding,) = check(hung(made_run, own=3.2e8))
    assert "more memory" in finding.advice and "before its first task" in finding.advice


def test_a_worker_that_went_on_is_not_what_a_run_hung_on(made_run: Make) -> None:
    assert not [f for f in check(hung(made_run, resumes=True)) if f.severity == "critical"]
