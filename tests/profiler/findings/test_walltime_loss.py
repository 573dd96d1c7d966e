from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.walltime_loss import Advisor
from rotameter.profiler.findings.workers_died import Advisor as WorkersDied
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def limited(made_run: Make, n: int = 4, engine: str = "slurm", **more: Any) -> Any:
    """Two waves of jobs; some of the first are killed at 60 s and run again."""
    run = made_run(workers=4, threads=1, engine=engine)
    for number in range(4):
        worker, start = f"w{number}", 0.0
        row = {"submitted": 0.0, "ready": 0.0, "requested_cores": 1.0}
        if number < n:
            lost = {"outcome": "timeout", "requested_wall_s": 60.0, **more}
            run.task(f"t{number}", "relax", worker, 0.0, 60.0, attempt=1, **row, **lost)
            start = 60.0
            row["submitted"] = row["ready"] = 60.0
        run.task(
            f"t{number}", "relax", worker, start, 100.0, attempt=2, requested_wall_s=240.0, **row
        )
    begin = 160.0 if n else 100.0
    for number in range(4):
        run.task(f"u{number}", "rank", f"w{number}", begin, 50.0, submitted=begin, ready=begin)
    return run


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ("slurm", "#SBATCH --time=00:03:00"),
        ("nextflow", "process { withName: 'relax' { time = '3 min' } }"),
        ("snakemake", "rule relax:  resources: runtime=3"),
    ],
)
def test_killed_at_the_limit_with_the_line_to_paste(made_run: Make, engine: str, line: str) -> None:
    (finding,) = check(limited(made_run, engine=engine).trace())
    assert (finding.code, finding.kind) == ("RM127", "walltime_loss")
    assert finding.cost_s == pytest.approx(60.0, abs=3.0)
    assert finding.change == line
    assert facts(finding)["time limit"] == 60.0
    assert facts(finding)["longest that ended well"] == 100.0


def test_no_kill_no_finding(made_run: Make) -> None:
    assert check(limited(made_run, 0).trace()) == []


def test_a_failure_is_no_time_limit(made_run: Make) -> None:
    assert check(limited(made_run, outcome="failed").trace()) == []


def test_a_log_of_many_people_has_core_hours_but_no_seconds(made_run: Make) -> None:
    run = made_run(workers=1, threads=1, engine="slurm")
    for number in range(60):
        at = 1000.0 * number
        row = {"submitted": at - 100.0, "ready": at - 100.0, "user": f"u{number % 7}"}
        run.task(f"j{number}", "job", "w0", at, 500.0, **row)
        if number % 5 == 0:
            run.tables["tasks"][-1]["outcome"] = "timeout"
            run.task(f"j{number}", "job", "w0", at + 500, 400.0, attempt=2, **row)
    (finding,) = check(run.trace())
    assert finding.cost_s == 0.0
    assert finding.cost_core_h > 1
    assert "no run of their own" in finding.cost_how


def test_workers_stopped_at_their_limit(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("load", [300.0] * 12)
    run.task("odd-0", "odd", "w0", 1800.0, 100.0, outcome="worker_lost")
    run.event("executing_at_death", 1900.0, worker="w0", task_id="odd-0", group="odd")
    why = "slurm: CANCELLED DUE TO TIME LIMIT"
    run.event("worker_removed", 1900.0, worker="w0", expected=False, reason=why)
    run.die("w0", 1900.0, back_as="w9", back=1920.0)
    run.task("odd-0", "odd", "w9", 1920.0, 200.0, attempt=2)
    trace = run.trace()
    (finding,) = check(trace)
    assert (finding.code, finding.kind) == ("RM127", "walltime_loss")
    assert finding.change.startswith("dask worker … --lifetime 28m")
    assert finding.cost_s == pytest.approx(120.0, abs=5.0)
    assert WorkersDied().check(trace, Tools()) == []


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "timeout"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "timeout", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))


def jobs(rows: list[dict[str, Any]], engine: str = "slurm", **meta: Any) -> Trace:
    base = {"group": "train", "submitted_ns": 0, "requested_cores": 4.0}
    return Trace.from_tables(
        {"tasks": [{**base, **row} for row in rows]}, {"engine": engine, **meta}
    )


def job(name: int, begin_h: float, hours: float, limit_h: float, outcome: str, **more: Any) -> Any:
    times = {"started_ns": int(begin_h * H), "ended_ns": int((begin_h + hours) * H)}
    limit = {"requested_wall_s": 3600.0 * limit_h}
    return {"task_id": f"j{name}", "outcome": outcome, **times, **limit, **more}


H = 3600 * 10**9


@pytest.mark.parametrize(("retry", "cost_s"), [((1.05, 0.02), None), ((1.2, 0.1), 723.6)])
def test_one_that_was_tried_again_does_not_hide_the_others(
    retry: tuple[float, float], cost_s: float | None
) -> None:
    """Where its retry ends last the log is shorter without it; else no seconds can be told."""
    rows = [job(number, 0.001 * number, 1.0, 1.0, "timeout") for number in range(100)]
    rows.append(job(0, *retry, 1.0, "ok", attempt=1))
    (finding,) = check(jobs(rows))
    assert finding.title.startswith("`train`: 100 of 101 jobs")
    assert finding.cost_s == (cost_s and pytest.approx(cost_s, rel=0.1))
    assert finding.cost_core_h == pytest.approx(400.0)
    assert facts(finding)["tasks that never ended well"] == 99


def test_what_was_killed_in_a_failed_run_is_told_without_a_start() -> None:
    rows = [job(0, 0.0, 0.5, 2.0, "ok"), {**job(1, 0.0, 1.0, 1.0, "timeout"), "started_ns": None}]
    (finding,) = check(jobs(rows, "nextflow", run={"status": "failed"}))
    assert finding.title == "`train`: 1 of 2 jobs was killed at their time limit (1 h)"
    assert (finding.cost_s, finding.cost_core_h) == (None, None)
    assert facts(finding)["work lost"] is None
    assert finding.change == "process { withName: 'train' { time = '120 min' } }"


def test_without_limit_or_start_only_more_time_can_be_advised() -> None:
    blank = {"started_ns": None, "requested_wall_s": None}
    rows = [{**job(1, 0.0, 1.0, 1.0, "timeout"), **blank}]
    (finding,) = check(jobs(rows, "nextflow", run={"status": "failed"}))
    assert finding.title.endswith("killed at their time limit")
    assert finding.advice.startswith("Ask for more time")
    assert finding.change is None


def test_no_less_is_advised_than_what_was_not_enough() -> None:
    rows = [job(number, 0.0, 3.0, 10.0, "ok") for number in range(4)]
    rows += [
        job(10 + number, 0.0, limit, limit, "timeout") for number, limit in enumerate((2, 2, 10))
    ]
    (finding,) = check(jobs(rows))
    assert finding.change == "#SBATCH --time=20:00:00"
    assert "10 h that were not enough" in finding.advice
    assert facts(finding)["longest that was not enough"] == 36000.0
