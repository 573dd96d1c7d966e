from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rotameter as rm
from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.lost_attempts import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def taken(
    made_run: Make, outcome: str, *, n: int = 4, engine: str = "nextflow", wait: float = 0.0
) -> Any:
    """Four jobs of 100 s; some are taken away at 60 s, wait, and run whole; then a short step."""
    run = made_run(workers=4, threads=1, engine=engine)
    for number in range(4):
        worker, start = f"w{number}", 0.0
        row = {"submitted": 0.0, "ready": 0.0, "requested_cores": 1.0}
        if number < n:
            run.task(f"t{number}", "relax", worker, 0.0, 60.0, attempt=1, outcome=outcome, **row)
            start = 60.0 + wait
            row["submitted"] = row["ready"] = 60.0
        run.task(f"t{number}", "relax", worker, start, 100.0, attempt=2, **row)
    begin = 100.0 + (60.0 + wait if n else 0.0)
    for number in range(4):
        run.task(f"u{number}", "rank", f"w{number}", begin, 50.0, submitted=begin, ready=begin)
        run.tables["deps"] += [
            {"task_id": f"u{number}", "depends_on": f"t{other}"} for other in range(4)
        ]
    return run


@pytest.mark.parametrize("engine", ["slurm", "nextflow", "snakemake", "dask", "table"])
@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("preempted", "4 tasks were pre-empted and ran again"),
        ("worker_lost", "4 tasks were lost with their worker or node and ran again"),
        ("rescheduled", "4 tasks were put back into the queue while they ran and ran again"),
    ],
)
def test_what_was_taken_away_costs_its_time(
    made_run: Make, engine: str, outcome: str, words: str
) -> None:
    (finding,) = check(taken(made_run, outcome, engine=engine).trace())
    assert (finding.code, finding.kind) == ("RM144", "lost_attempts")
    assert finding.cost_s == pytest.approx(60.0, abs=3.0)
    assert words in finding.title
    assert "4 min of work lost" in finding.title
    assert finding.groups == ("relax",)
    assert facts(finding)["work lost"] == 240.0
    assert finding.confidence == "high"


@pytest.mark.parametrize("engine", ["nextflow", "dask"])
def test_the_wait_before_the_next_attempt_is_in_the_price(made_run: Make, engine: str) -> None:
    (finding,) = check(taken(made_run, "preempted", engine=engine, wait=200.0).trace())
    assert finding.cost_s == pytest.approx(260.0, abs=5.0)
    assert facts(finding)["until they began again"] == pytest.approx(800.0)


def test_nothing_taken_nothing_told(made_run: Make) -> None:
    assert check(taken(made_run, "preempted", n=0).trace()) == []


@pytest.mark.parametrize("outcome", ["failed", "oom", "timeout", "cancelled"])
def test_other_ends_are_others(made_run: Make, outcome: str) -> None:
    assert check(taken(made_run, outcome).trace()) == []


def test_a_death_on_record_is_told_of_once(made_run: Make) -> None:
    run = taken(made_run, "worker_lost", engine="dask")
    for number in range(4):
        run.event("worker_exit", 60.0, worker=f"w{number}", signal=9)
    assert check(run.trace()) == []
    kinds = [finding.kind for finding in diagnose(run.trace()).findings]
    assert "workers_died" in kinds
    assert "lost_attempts" not in kinds


def test_what_ran_when_a_cluster_was_closed_is_no_loss(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("map", [1.0] * 4)
    run.task("late", "late", "w0", 2.0, 3.0, outcome="worker_lost")
    run.meta["run"] = {"status": "ok"}
    assert check(run.trace()) == []
    run.meta["run"] = {"status": "failed"}
    (finding,) = check(run.trace())
    assert "1 task was lost with its worker or node and never ended well" in finding.title


def test_a_task_that_its_node_took_for_good_is_what_the_run_failed_of(made_run: Make) -> None:
    run = made_run(workers=2, threads=1, engine="nextflow")
    run.step("good", [1.0] * 8)
    for attempt in (1, 2):
        run.task("bad", "fit", "w0", 4.0 * attempt, 4.0, attempt=attempt, outcome="worker_lost")
    first = diagnose(run.trace()).findings[0]
    assert (first.code, first.cost_s) == ("RM144", None)
    assert "1 task was lost with its worker or node in 2 attempts and never ended" in first.title
    assert first.cost_core_h == pytest.approx(8 / 3600)


def test_the_host_that_loses_most_is_named(made_run: Make) -> None:
    run = taken(made_run, "worker_lost", engine="slurm")
    for number, row in enumerate(run.tables["tasks"]):
        row["host"] = "n7" if row["outcome"] == "worker_lost" else f"n{number % 3}"
    (finding,) = check(run.trace())
    assert finding.change == "#SBATCH --exclude=n7"
    assert "host n7" in finding.advice
    assert facts(finding)["lost on one host, most"] == 4


def test_a_log_of_slurm_tells_both_kinds(tmp_path: Path) -> None:
    """As ``sacct -D -P`` writes it: a job has a row for each time that it ran."""
    head = "JobID|JobName|User|State|Submit|Start|End|ElapsedRaw|ReqCPUS|AllocCPUS|NodeList"
    day = "2026-01-05T"
    rows = [
        f"10|fit|ann|PREEMPTED|{day}00:00:00|{day}00:00:10|{day}01:00:10|3600|4|4|n1",
        f"10|fit|ann|COMPLETED|{day}01:00:10|{day}01:30:00|{day}03:30:00|7200|4|4|n2",
        f"11|map|ann|NODE_FAIL|{day}00:00:00|{day}00:00:10|{day}02:00:10|7200|4|4|n3",
        f"11|map|ann|COMPLETED|{day}02:00:10|{day}02:10:00|{day}05:10:00|10800|4|4|n2",
    ]
    path = tmp_path / "jobs.txt"
    path.write_text("\n".join([head, *rows]) + "\n")
    found = {f.title: f for f in diagnose(rm.open(path)).findings if f.code == "RM144"}
    assert any("`fit`: 1 task was pre-empted and ran again; 1 h of" in title for title in found)
    assert any("`map`: 1 task was lost with its worker or node" in title for title in found)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a", "outcome": "preempted"}],
        [{"task_id": None, "outcome": "worker_lost", "started_ns": 0, "ended_ns": 5 * 10**9}],
        [
            {"task_id": "a", "outcome": "preempted", "wall_s": 9.0},
            {"task_id": "a", "outcome": "ok"},
        ],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))


def test_what_a_shuffle_of_dask_puts_back_is_its_own_way(made_run: Make) -> None:
    run = taken(made_run, "rescheduled", engine="dask")
    assert check(run.trace())
    for row in run.tables["tasks"]:
        row["group"] = row["group"].replace("relax", "p2pshuffle")
    assert check(run.trace()) == []
