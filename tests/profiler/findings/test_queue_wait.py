from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings._waits import sooner_s
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.queue_wait import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]


def check(trace: Trace) -> list[Any]:
    return Advisor().check(trace, Tools(replay=Replayer(trace)))


def jobs(made_run: Make, *, wait: float, engine: str, waves: int = 3, width: int = 4) -> Any:
    """Waves of jobs of 10 s, each submitted when the one before has ended."""
    run = made_run(workers=1, threads=8, engine=engine)
    at = 0.0
    for wave in range(waves):
        for number in range(width):
            name = f"{wave}-{number}"
            run.task(name, f"stage{wave}", "w0", at + wait, 10.0, submitted=at, ready=at)
            if wave and engine != "slurm":
                run.tables["deps"] += [
                    {"task_id": name, "depends_on": f"{wave - 1}-{k}"} for k in range(width)
                ]
        at += wait + 10.0
    return run


@pytest.mark.parametrize("engine", ["slurm", "nextflow"])
def test_waits_of_a_chain_add_up(made_run: Make, engine: str) -> None:
    (finding,) = check(jobs(made_run, wait=30.0, engine=engine).trace())
    assert (finding.code, finding.kind) == ("RM118", "queue_wait")
    assert finding.cost_s == pytest.approx(90.0, rel=0.02)
    assert (finding.change is not None) == (engine == "slurm")  # of the other nothing tells where


@pytest.mark.parametrize("engine", ["slurm", "nextflow", "dask"])
def test_no_wait_is_no_finding(made_run: Make, engine: str) -> None:
    assert check(jobs(made_run, wait=0.0, engine=engine).trace()) == []


@pytest.mark.parametrize("engine", ["slurm", "nextflow"])
def test_waits_for_the_runs_own_jobs_are_none(made_run: Make, engine: str) -> None:
    run = made_run(workers=1, threads=4, engine=engine)
    run.step("align", [10.0] * 24, requested_cores=1.0)
    for row in run.tables["tasks"]:
        row["ready_ns"] = run.ns(0.0)
    assert check(run.trace()) == []


def test_a_log_of_many_peoples_jobs_tells_nothing(made_run: Make) -> None:
    run = made_run(workers=1, threads=64, engine="slurm")
    for number in range(60):
        run.task(f"j{number}", f"name{number % 7}", "w0", 7.0 * number + 40.0, 10.0,
                 submitted=7.0 * number, ready=7.0 * number)  # fmt: skip
    assert check(run.trace()) == []


def test_missing_columns(made_run: Make) -> None:
    assert check(Trace.from_tables({}, {"engine": "slurm"})) == []
    run = jobs(made_run, wait=30.0, engine="slurm")
    for row in run.tables["tasks"]:
        row["submitted_ns"] = row["ready_ns"] = None
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert Advisor().check(trace, tools) == []
    assert "no submission" in tools.notes[0]


def test_the_cost_is_never_more_than_the_waits_of_a_chain(made_run: Make) -> None:
    """Jobs that the program submits as it pleases wait at the same time: 40 s, not 4 times that."""
    run = made_run(workers=1, threads=64, engine="nextflow")
    for number in range(4):
        run.task(f"a{number}", "a", "w0", 40.0, 5.0, submitted=0.0, ready=0.0)
    run.task("b", "b", "w0", 52.0, 50.0, submitted=45.0, ready=45.0)
    (finding,) = check(run.trace())
    facts = {e.name: e.value for e in finding.evidence}
    assert facts["waits in all"] == 4 * 40.0 + 7.0
    assert facts["longest chain of waits"] == 47.0
    assert finding.cost_s <= 47.0
    assert finding.cost_s_interval80[1] <= 47.0


def test_a_replay_that_is_far_off_gives_no_number(
    made_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Replayer.replay.fget
    assert real is not None
    monkeypatch.setattr(
        Replayer,
        "replay",
        property(lambda self: dataclasses.replace(real(self), replay_error_ratio=0.72)),
    )
    (finding,) = check(jobs(made_run, wait=30.0, engine="nextflow").trace())
    assert finding.cost_s == pytest.approx(90.0)
    assert finding.cost_s_interval80 == (0.0, pytest.approx(90.0))
    assert finding.confidence == "low"
    assert "at most that: a replay of the run is 72 % off" in finding.cost_how


@pytest.mark.parametrize(
    ("engine", "worker", "more", "said"),
    [
        ("table", "w{}", {}, False),  # four workers take task after task
        ("taskvine", "w{}", {}, False),
        ("table", None, {}, True),
        ("table", "node-{}-{}", {}, True),  # a place of its own for each job
        ("table", "w{}", {"requested_wall_s": 3600.0}, True),
        ("pbs", "w{}", {}, True),
    ],
)
def test_who_waits_for_a_busy_worker_is_in_no_queue(
    made_run: Make, engine: str, worker: str | None, more: dict[str, Any], said: bool
) -> None:
    """Two waves of four jobs of 10 s, each wave 30 s after it could begin."""
    run = made_run(workers=0, engine=engine)
    for wave in range(2):
        for k in range(4):
            at = 40.0 * wave
            place = worker.format(k, wave) if worker else None
            run.task(f"{wave}-{k}", "g", place, at + 30.0, 10.0, submitted=at, ready=at, **more)
    assert bool(check(run.trace())) == said


def said_of(run: Any, executors: dict[str, int] | None, **columns: Any) -> Any:
    if executors is not None:
        run.meta["executors"] = executors
    for row in run.tables["tasks"]:
        row.update(columns)
    (finding,) = check(run.trace())
    return finding


def words(finding: Any) -> str:
    names = " ".join(fact.name for fact in finding.evidence)
    return f"{finding.title} {names} {finding.advice} {finding.change or ''}"


@pytest.mark.parametrize("engine", ["nextflow", "snakemake"])
@pytest.mark.parametrize(
    ("executors", "columns", "place"),
    [
        ({"local": 12, "batch": 0}, {}, "cores"),
        ({"local": 0, "batch": 12}, {}, "queue"),
        ({"batch": 12}, {}, "queue"),
        (None, {"queue": "short"}, "queue"),
        (None, {}, "either"),
        ({"local": 6, "batch": 6}, {}, "either"),
        ({"local": 1, "batch": 0}, {}, "either"),  # of the others nothing is told
    ],
)
def test_only_what_ran_in_a_batch_system_waited_in_a_queue(
    made_run: Make, engine: str, executors: Any, columns: Any, place: str
) -> None:
    finding = said_of(jobs(made_run, wait=30.0, engine=engine), executors, **columns)
    assert finding.cost_s == pytest.approx(90.0, rel=0.02)
    if place == "queue":
        assert "12 of 12 jobs waited in the queue, 30 s" in finding.title
        assert finding.change is not None
    elif place == "cores":
        assert "waited for cores of the machine (or a limit on tasks at once), 30 s" in (
            finding.title
        )
        assert "queue" not in words(finding).replace("executor.queueSize", "")
        assert finding.change is None
        assert ("executor.cpus" if engine == "nextflow" else "--cores") in finding.advice
    else:
        assert "12 of 12 jobs waited before they started, 30 s" in finding.title
        assert "not on record" in finding.advice
        assert finding.change is None
        assert finding.confidence == "medium"


def test_the_first_screen_speaks_of_no_queue_either(made_run: Make) -> None:
    run = jobs(made_run, wait=30.0, engine="nextflow")
    run.meta["executors"] = {"local": 12, "batch": 0}
    verdict = diagnose(run.trace(), [Advisor()])
    assert "queue" not in verdict.sentence + " ".join(f.text for f in verdict.figures)
    assert "waits before the start" in verdict.figures[3].text


@pytest.mark.parametrize(("beside_s", "most_s"), [(500.0, 300.0), (700.0, 100.0), (800.0, None)])
def test_what_the_end_of_the_run_did_not_hang_on_is_no_bound(
    made_run: Make, monkeypatch: pytest.MonkeyPatch, beside_s: float, most_s: float | None
) -> None:
    """By hand: a job waits 500 s and runs 300 s; another, which waits for none, ends at 500 s."""
    real = Replayer.replay.fget
    assert real is not None
    monkeypatch.setattr(
        Replayer,
        "replay",
        property(lambda self: dataclasses.replace(real(self), replay_error_ratio=0.72)),
    )
    run = made_run(workers=1, threads=8, engine="nextflow")
    run.task("late", "late", "w0", 500.0, 300.0, submitted=0.0, ready=0.0)
    run.task("long", "long", "w0", 0.0, beside_s, submitted=0.0, ready=0.0)
    found = check(run.trace())
    assert [f.cost_s for f in found] == ([] if most_s is None else [pytest.approx(most_s)])
    for finding in found:
        facts = {e.name: e.value for e in finding.evidence}
        assert facts["longest chain of waits"] == 500.0


def test_a_job_whose_start_is_not_on_record_bounds_nothing(made_run: Make) -> None:
    run = made_run(workers=1, threads=8, engine="nextflow")
    run.task("a", "a", "w0", 100.0, 50.0, submitted=0.0, ready=0.0)
    run.task("b", "b", "w0", 0.0, 150.0, submitted=0.0, ready=0.0)
    run.tables["tasks"][1]["started_ns"] = None
    seen = view(run.trace())
    wait = np.where(seen.ran, seen.started - seen.submitted, np.nan)
    assert sooner_s(seen, wait) == pytest.approx(100.0)
