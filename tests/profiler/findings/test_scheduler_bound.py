from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.latency_bound_roots import Advisor as Latency
from rotameter.profiler.findings.scheduler_bound import Advisor
from rotameter.profiler.findings.tiny_tasks import Advisor as Tiny
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(advisor: Any, trace: Trace) -> list[Any]:
    return advisor.check(trace, Tools(replay=Replayer(trace)))


def busy(
    made_run: Make,
    *,
    wall: float = 0.02,
    gap: float = 0.02,
    graph_s: float = 3.0,
    cpu: float = 0.98,
) -> Any:
    run = made_run(workers=2, threads=1)
    run.step("work", [wall] * 200, gap=gap)
    run.event("graph_submitted", 0.0, count=200, duration_s=graph_s)
    run.sample("sched-1", "process_cpu_cores", -1.0, 0.1)
    for tick in range(9):
        run.sample("sched-1", "process_cpu_cores", tick / 2, cpu)
    return run


def test_a_busy_scheduler_is_told_from_tiny_tasks(made_run: Make) -> None:
    trace = busy(made_run).trace()
    (finding,) = check(Advisor(), trace)
    assert (finding.code, finding.kind) == ("RM112", "scheduler_bound")
    assert finding.cost_s == pytest.approx(100 * 0.0186, rel=0.1)
    assert check(Tiny(), trace) == []


def test_cpu_alone_tells_where_graphs_are_not_on_record(made_run: Make) -> None:
    run = busy(made_run)
    run.tables["events"].clear()
    assert [f.kind for f in check(Advisor(), run.trace())] == ["scheduler_bound"]


@pytest.mark.parametrize(
    "more",
    [
        {"gap": 0.0005, "graph_s": 0.02},  # it keeps up
        {"graph_s": 0.02, "cpu": 0.2},  # tasks wait, but not for it
    ],
)
def test_decoys(made_run: Make, more: Any) -> None:
    assert check(Advisor(), busy(made_run, **more).trace()) == []


def test_tiny_tasks_keep_any_scheduler_busy(made_run: Make) -> None:
    run = busy(made_run, wall=0.001, gap=0.002, graph_s=0.02)
    assert check(Advisor(), run.trace()) == []
    assert [f.kind for f in check(Tiny(), run.trace())] == ["tiny_tasks"]


def test_missing_columns(made_run: Make) -> None:
    assert check(Advisor(), Trace.from_tables({}, {"engine": "dask"})) == []
    run = busy(made_run)
    run.tables["samples"].clear()
    run.tables["events"].clear()
    assert check(Advisor(), run.trace()) == []
    run.meta["engine"] = "slurm"
    assert check(Advisor(), run.trace()) == []


def in_pairs(made_run: Make, *, graph_s: float = 0.6, cpu: float = 0.6, **more: Any) -> Any:
    """Half of the tasks are at hand and begin at once; the others wait for the scheduler."""
    run = made_run(workers=2, threads=1)
    run.event("setting", 0, subject="distributed.scheduler.worker-saturation", value=1.1)
    run.event("graph_submitted", 0.0, count=200, duration_s=graph_s)
    for number in range(200):
        turn = number // 2
        start = 0.06 * (turn // 2) + 0.021 * (turn % 2)
        run.task(f"w-{number}", "work", f"w{number % 2}", start, 0.02, ready=0.0, output_bytes=9,
                 **more)  # fmt: skip
    for tick in range(6):
        run.sample("h-1", "process_cpu_cores", tick / 2, cpu)
    return run


def test_tasks_at_hand_do_not_hide_a_busy_scheduler(made_run: Make) -> None:
    trace = in_pairs(made_run).trace()
    (finding,) = check(Advisor(), trace)
    # 50 times 19 ms, less what handing out a task always takes.
    assert finding.cost_s == pytest.approx(50 * 0.0176, rel=0.15)
    # Each waits for what keeps the scheduler busy, not for a setting.
    assert check(Latency(), trace) == []
    assert check(Tiny(), trace) == []


@pytest.mark.parametrize("more", [{"cpu": 0.01}, {"graph_s": 0.1}])
def test_little_is_no_busy_scheduler(made_run: Make, more: Any) -> None:
    assert check(Advisor(), in_pairs(made_run, **more).trace()) == []


def test_a_scheduler_takes_cores_from_the_tasks_of_its_machine(made_run: Make) -> None:
    costs = []
    for cores in (2, 8):  # Eight have one for the scheduler too.
        run = in_pairs(made_run, cpu_s=0.014)
        run.meta["machines"] = [{"host": "h", "cores": cores}]
        (finding,) = check(Advisor(), run.trace())
        costs.append(finding.cost_s)
    # 100 tasks a worker, 6 ms each, but for what it takes on any day.
    assert costs[0] - costs[1] == pytest.approx(100 * 0.006, rel=0.2)
    elsewhere = in_pairs(made_run, cpu_s=0.014)
    elsewhere.meta["machines"] = [{"host": "h", "cores": 2}]
    for row in elsewhere.tables["samples"]:
        row["subject"] = "login-1"
    assert check(Advisor(), elsewhere.trace())[0].cost_s == pytest.approx(costs[1])


def test_an_input_that_was_asked_for_late_is_the_schedulers_delay(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    first = run.step("first", [0.1])
    run.event("graph_submitted", 0.0, count=60, duration_s=0.3)
    for number in range(60):
        worker = f"w{number % 2}"
        run.task(f"m-{number}", "map", worker, 1.1 + 0.021 * (number // 2), 0.02, ready=0.1)
        run.tables["deps"].append({"task_id": f"m-{number}", "depends_on": first[0]})
    run.interval("transfer", "w1", 1.09, 1.095, task_id="m-1", peer="w0", bytes=100)
    run.tables["flows"].append(
        {"task_id": "m-1", "object": first[0], "medium": "network", "op": "receive",
         "bytes": 100, "worker": "w1", "peer": "w0", "last_ns": run.ns(1.095)}
    )  # fmt: skip
    for tick in range(4):
        run.sample("h-1", "process_cpu_cores", tick / 2, 0.6)
    (finding,) = check(Advisor(), run.trace())
    assert finding.cost_s == pytest.approx(1.0, rel=0.2)


def test_graphs_of_one_task_on_a_loaded_machine_are_not_slow(made_run: Make) -> None:
    run = in_pairs(made_run, cpu=0.07)
    run.tables["events"].clear()
    for number in range(200):  # Each waits for a core as well, and is a message of its own.
        run.event("graph_submitted", number / 1e3, count=1, duration_s=0.01)
    assert check(Advisor(), run.trace()) == []
