from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
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
