from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.api import diagnose
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.no_progress import Advisor
from rotameter.profiler.flow.critical import critical_path
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def waiting(made_run: Make, late: float = 3.0, **more: Any) -> Any:
    """Two of eight tasks wait on both workers till second ``late``; the others are quick."""
    run = made_run(workers=2, threads=1)
    run.step("load", [0.2] * 8, cpu_s=0.19)
    for number in range(2):
        start = 0.8 + 0.05 * number
        row = {"ready": 0.8, "cpu_s": 0.1, **more}
        run.task(f"ask-{number}", "ask", f"w{number}", start, late + 0.1 - start + 0.8, **row)
    for number in range(2, 8):
        start = late + 0.9 + 0.1 * (number // 2 - 1)
        run.task(f"ask-{number}", "ask", f"w{number % 2}", start, 0.1, ready=0.8, cpu_s=0.09)
    return run


def test_a_stand_still_costs_its_length(made_run: Make) -> None:
    (finding,) = check(waiting(made_run).trace())
    assert (finding.code, finding.kind) == ("RM128", "no_progress")
    assert finding.cost_s == pytest.approx(3.0, abs=0.3)
    assert finding.groups == ("ask",)
    assert facts(finding)["attempts that waited"] == 2


@pytest.mark.parametrize("more", [{"cpu_s": 2.9}, {"io_s": 2.9}, {"transfer_s": 2.9}])
def test_what_computes_or_reads_makes_progress(made_run: Make, more: dict[str, Any]) -> None:
    assert check(waiting(made_run, **more).trace()) == []


def test_who_got_no_core_on_a_crowded_machine_did_not_stand_still(made_run: Make) -> None:
    """Others had all cores: what computed a little meanwhile waited for them and nothing else."""
    for load, cpu_s, said in ((1.0, 0.4, False), (0.3, 0.4, True), (1.0, 0.001, True)):
        run = waiting(made_run, cpu_s=cpu_s)
        run.meta["machines"] = [{"host": "h", "cores": 2}]
        for tick in range(1, 12):
            run.sample("h", "cpu_ratio", tick / 2, load)
        trace = run.trace()
        tools = Tools(replay=Replayer(trace))
        assert bool(check(trace, tools)) is said
        assert bool(tools.notes) is not said


def test_one_that_waits_alone_is_a_straggler(made_run: Make) -> None:
    run = waiting(made_run)
    run.tables["tasks"] = [row for row in run.tables["tasks"] if row["task_id"] != "ask-1"]
    assert check(run.trace()) == []


def test_tasks_that_always_wait_are_no_stand_still(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    run.step("fetch", [1.0 + 0.01 * (k % 7) for k in range(20)], cpu_s=0.02)
    assert check(run.trace()) == []


def test_a_stand_still_at_the_end_of_a_trace(made_run: Make) -> None:
    run = made_run(workers=1, threads=1)
    run.step("load", [1.0] * 4, cpu_s=0.9)
    run.task("hang", "hang", "w0", 4.0, 1.0, outcome="running")
    run.tables["tasks"][-1] |= {"ended_ns": None, "wall_s": None}
    run.die("w0", 400.0)
    (finding,) = check(run.trace())
    assert finding.cost_s is None
    assert finding.severity == "critical"
    assert "Nothing began or ended in the last" in finding.title


def cut_off(made_run: Make, open_as: str, stood: float, **more: Any) -> Any:
    """Twelve tasks of 0.3 s, then one that is on record as running where the trace ends."""
    run = made_run(workers=2, threads=1)
    run.step("load", [0.3] * 12, cpu_s=0.2)
    for number, seconds in enumerate(more.get("longest", ())):
        run.task(f"load-more-{number}", "load", "w0", 1.8, seconds, cpu_s=0.2)
    if pause := more.get("pause"):
        run.task("load-late", "load", "w0", 1.8 + pause, 0.3, cpu_s=0.2)
    last = max((row["ended_ns"] for row in run.tables["tasks"]), default=0)
    run.task("hang", open_as, "w1", 1.8, 1.0, outcome="running")
    run.tables["tasks"][-1] |= {"ended_ns": None, "wall_s": None}
    run.die("w1", (last - run.ns(0.0)) / 1e9 + stood)
    return run


def test_a_short_stand_still_is_told_where_nothing_before_took_nearly_as_long(
    made_run: Make,
) -> None:
    (finding,) = check(cut_off(made_run, "load", 11.0).trace())
    assert (finding.severity, finding.confidence) == ("critical", "medium")
    assert finding.title.startswith("Nothing began or ended in the last 11 s")
    assert facts(finding)["longest of the same groups"] == pytest.approx(0.3)
    assert "next run" in finding.change


@pytest.mark.parametrize(
    ("open_as", "stood", "more"),
    [
        ("train", 50.0, {}),  # a new kind of task may only be long
        ("load", 4.0, {}),  # too short to tell
        ("load", 11.0, {"longest": [1.5]}),  # this one may be as long again
        ("load", 11.0, {"pause": 2.0}),  # the run stood still before, and went on
    ],
)
def test_a_healthy_run_that_was_interrupted_stood_not_still(
    made_run: Make, open_as: str, stood: float, more: dict[str, Any]
) -> None:
    assert check(cut_off(made_run, open_as, stood, **more).trace()) == []


def test_a_task_that_ended_in_another_attempt_does_not_hang(made_run: Make) -> None:
    run = cut_off(made_run, "load", 11.0)
    run.tables["tasks"][-1]["task_id"] = "load-3"
    assert check(run.trace()) == []


def test_without_cpu_time_nothing_is_claimed(made_run: Make) -> None:
    run = waiting(made_run)
    for row in run.tables["tasks"]:
        row.pop("cpu_s", None)
    assert check(run.trace()) == []


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "running"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "running", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))


def test_a_hung_run_took_its_time_to_the_end_of_the_trace_and_is_not_to_be_split(
    made_run: Make,
) -> None:
    """The core of what hangs is taken: it is no lack of tasks beside the other's last ones."""
    trace = cut_off(made_run, "load", 11.0, longest=[0.9, 0.9]).trace()
    seen = view(trace)
    until = seen.window[1] if seen.window else 0.0
    assert seen.makespan == pytest.approx(until - 0.0) and seen.makespan_at_least
    path = critical_path(trace)
    assert path.segments[-1].task == "hang" and path.segments[-1].kind == "compute"
    assert sum(s.seconds for s in path.segments) == pytest.approx(seen.makespan)
    assert "idle_parallelism" not in {f.kind for f in diagnose(trace).findings}


def test_the_work_of_those_that_stood_still_is_no_stand_still(made_run: Make) -> None:
    """By hand: ten tasks of 1 s a worker take 10 s; each sixth one stands still for 30.2 s."""
    run = made_run(workers=4, threads=1)
    for w in range(4):
        at = 0.0
        for i in range(10):
            took = 36.2 + 0.01 * w - at if i == 5 else 1.0
            run.task(f"t{w}-{i}", "proc", f"w{w}", at, took, ready=0.0, cpu_s=0.95)
            at += took
    (finding,) = check(run.trace())
    assert finding.cost_s == pytest.approx(30.2, abs=0.05)
    assert facts(finding)["time in which nothing moved"] == pytest.approx(30.2, abs=0.05)


def test_tasks_that_sleep_as_long_as_ever_wait_for_nothing(made_run: Make) -> None:
    """On a worker three times as slow every third task of the other ends when its own does."""
    run = made_run(workers=2, threads=1)
    for number in range(10):
        run.task(f"s{number}", "nap", "w0", 1.2 * number, 1.2, ready=0.0, cpu_s=0.0)
        run.task(f"f{number}", "nap", "w1", 0.4 * number, 0.4, ready=0.0, cpu_s=0.0)
    assert check(run.trace()) == []
