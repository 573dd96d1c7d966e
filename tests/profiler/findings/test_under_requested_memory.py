from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.under_requested_memory import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


GB = 10**9


def killed(made_run: Make, n: int = 4, engine: str = "nextflow", **more: Any) -> Any:
    """Eight tasks on two slots; some are killed after 9 s and run again with twice the memory."""
    run = made_run(workers=2, threads=1, engine=engine, memory=20e9)
    free = {"w0": 0.0, "w1": 0.0}
    for number in range(8):
        worker = ("w0", "w1")[number % 2]
        asked = GB
        if number < n:
            row = {"outcome": "oom", "outcome_kind": "reported", "exit_code": 137, **more}
            run.task(
                f"t{number}", "align", worker, free[worker], 9.0, attempt=1, ready=0.0,
                requested_memory_bytes=GB, requested_cores=1.0, **row,
            )  # fmt: skip
            free[worker] += 9.0
            asked = 2 * GB
        peak = int(1.7e9) if asked > GB else int(0.6e9)
        run.task(
            f"t{number}", "align", worker, free[worker], 10.0, attempt=2, ready=0.0,
            requested_memory_bytes=asked, requested_cores=1.0, peak_memory_bytes=peak,
            peak_memory_kind="exact",
        )  # fmt: skip
        free[worker] += 10.0
    return run


@pytest.mark.parametrize("more", [{}, {"outcome": "failed"}])
def test_killed_for_memory_and_run_again(made_run: Make, more: dict[str, Any]) -> None:
    (finding,) = check(killed(made_run, **more).trace())
    assert (finding.code, finding.kind) == ("RM123", "under_requested_memory")
    assert finding.cost_s == pytest.approx(18.0, abs=1.0)
    assert 1.7 * GB < facts(finding)["enough"] <= 2 * GB
    assert finding.change.startswith("process { withName: 'align' { memory = '")
    assert ("probably" in finding.title) == bool(more)
    assert facts(finding)["peaks of the killed"] is None  # needs are lower bounds


def test_no_kill_no_finding(made_run: Make) -> None:
    assert check(killed(made_run, 0).trace()) == []


def test_other_failures_are_not_of_memory(made_run: Make) -> None:
    assert check(killed(made_run, outcome="failed", exit_code=1).trace()) == []


def test_on_dask_the_worker_is_told_of(made_run: Make) -> None:
    assert check(killed(made_run, engine="dask").trace()) == []


def test_for_good_it_has_no_seconds_and_at_least_a_need(made_run: Make) -> None:
    run = killed(made_run)
    rows = run.tables["tasks"]
    rows[:] = [row for row in rows if row["outcome"] == "oom"]
    (finding,) = check(run.trace())
    assert finding.cost_s is None
    assert finding.cost_core_h > 0
    assert "at least" in finding.advice


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "oom"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "oom", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))


@pytest.mark.parametrize(
    ("features", "line"),
    [(None, "#SBATCH --mem=33"), ([("memory_per_cpu", 1.0)], "#SBATCH --mem-per-cpu=8")],
)
def test_a_job_on_several_nodes_is_killed_by_one_of_them(
    made_run: Make, features: Any, line: str
) -> None:
    """Asked: 64 GiB on 4 nodes with 16 cores, 16 GiB a node; its twin took 12 GB there."""
    run = made_run(engine="slurm")
    more = {
        "requested_memory_bytes": 64 * 2**30, "granted_nodes": 4.0, "granted_cores": 16.0,
        "peak_memory_kind": "lower_bound", "features": features,
    }  # fmt: skip
    run.task("1", "a", "w0", 0.0, 600.0, outcome="oom", peak_memory_bytes=16 * 2**30, **more)
    run.task("2", "a", "w0", 0.0, 600.0, peak_memory_bytes=12 * 2**30, **more)
    (finding,) = check(run.trace())
    assert "17 GB a node" in finding.title
    assert finding.change.startswith(line)
    assert facts(finding)["memory asked for"] == 16 * 2**30
    assert facts(finding)["enough"] == pytest.approx(32 * 2**30, rel=0.03)
    assert finding.apply["memory_request"]["value"] == pytest.approx(128 * 2**30, rel=0.03)


@pytest.mark.parametrize("killed_", [1, 3])
def test_attempts_without_a_start_count_among_all(killed_: int) -> None:
    row = {"group": "align", "submitted_ns": 0, "requested_memory_bytes": 4 * 10**9}
    rows: list[dict[str, Any]] = [
        {"task_id": f"k{number}", **row, "outcome": "oom", "ended_ns": 50 * 10**9}
        for number in range(killed_)
    ]
    rows.append({"task_id": "f", **row, "outcome": "ok", "started_ns": 0, "ended_ns": 10**11})
    trace = Trace.from_tables({"tasks": rows}, {"engine": "nextflow", "run": {"status": "failed"}})
    (finding,) = check(trace)
    verb = "was" if killed_ == 1 else "were"
    assert f"{killed_} of {killed_ + 1} attempts {verb} killed" in finding.title
    evidence = {e.name: e.n for e in finding.evidence}
    assert evidence["attempts killed for memory"] == killed_ + 1


@pytest.mark.parametrize(("retry", "cost_s"), [((3602, 3620), None), ((4000, 4100), 461.0)])
def test_a_requeued_job_does_not_hide_those_that_were_lost(
    retry: tuple[int, int], cost_s: float | None
) -> None:
    """The others end at 3,639 s: an earlier end costs no second, one after a wait does."""
    second = 10**9
    row = {"group": "train", "submitted_ns": 0, "requested_memory_bytes": 4 * 10**9}
    rows: list[dict[str, Any]] = [
        {"task_id": f"j{number}", **row, "outcome": "oom", "started_ns": number * second,
         "ended_ns": (number + 3600) * second} for number in range(40)
    ]  # fmt: skip
    rows.append({"task_id": "j0", **row, "outcome": "ok", "attempt": 1,
                 "started_ns": retry[0] * second, "ended_ns": retry[1] * second})  # fmt: skip
    (finding,) = check(Trace.from_tables({"tasks": rows}, {"engine": "slurm"}))
    assert finding.cost_s == (cost_s and pytest.approx(cost_s, abs=1.0))
    assert facts(finding)["tasks that never ended well"] == 39
