from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.idle_parallelism import Advisor as Idle
from rotameter.profiler.findings.over_requested_cores import Advisor
from rotameter.profiler.findings.queue_wait import Advisor as Queue
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(advisor: Any, trace: Trace) -> list[Any]:
    return advisor.check(trace, Tools(replay=Replayer(trace)))


def asked(
    made_run: Make, *, cores: float = 4.0, cpu_s: float = 9.5, memory: float = 1e9, at_once: int = 2
) -> Any:
    """One node of 8 cores and 16 GB: 16 tasks of 10 s, as many at once as their requests allow."""
    run = made_run(workers=1, threads=8, memory=16e9, engine="nextflow")
    for number in range(16):
        run.task(f"align-{number}", "align", "w0", 10.0 * (number // at_once), 10.0, ready=0.0,
                 cpu_s=cpu_s, requested_cores=cores,
                 requested_memory_bytes=round(memory))  # fmt: skip
    return run


def test_cores_asked_for_in_vain(made_run: Make) -> None:
    trace = asked(made_run).trace()
    (finding,) = check(Advisor(), trace)
    assert (finding.code, finding.kind) == ("RM117", "over_requested_cores")
    # 16 tasks, 8 at once instead of 2.
    assert finding.cost_s == pytest.approx(60.0, rel=0.02)
    assert finding.change == "process { withName: 'align' { cpus = 1 } }"
    assert finding.apply == {"core_request": {"value": 1.0}}
    # What waits for those cores neither waits in a queue nor lacks parallel work.
    assert check(Queue(), trace) == []
    assert check(Idle(), trace) == []


def test_memory_still_limits(made_run: Make) -> None:
    (finding,) = check(Advisor(), asked(made_run, memory=4e9).trace())
    assert finding.cost_s == pytest.approx(40.0, rel=0.02)  # four at once


def test_where_memory_alone_decides_only_core_hours_are_lost(made_run: Make) -> None:
    (finding,) = check(Advisor(), asked(made_run, memory=8e9).trace())
    assert finding.cost_s == 0.0
    assert finding.cost_core_h == pytest.approx(16 * 3 * 10 / 3600)


@pytest.mark.parametrize(
    "more",
    [
        {"cpu_s": 38.0},  # they use what they ask for
        {"cores": 1.0, "at_once": 8},
        {"cores": 2.0, "at_once": 4, "cpu_s": 15.0},  # most of it
    ],
)
def test_decoys(made_run: Make, more: Any) -> None:
    assert check(Advisor(), asked(made_run, **more).trace()) == []


def test_missing_columns(made_run: Make) -> None:
    run = asked(made_run)
    for row in run.tables["tasks"]:
        row.pop("cpu_s")
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert Advisor().check(trace, tools) == []
    assert "no CPU time" in tools.notes[0]
    assert check(Advisor(), Trace.from_tables({})) == []
    rows = [
        {"task_id": f"t{i}", "group": "g", "outcome": "ok", "wall_s": 10.0, "cpu_s": 1.0,
         "requested_cores": 4.0}
        for i in range(9)
    ]  # fmt: skip
    (finding,) = check(Advisor(), Trace.from_tables({"tasks": rows}))  # no times: hours only
    assert finding.cost_s is None
    assert "not on record" in finding.cost_how
    assert finding.cost_core_h == pytest.approx(9 * 30 / 3600)
