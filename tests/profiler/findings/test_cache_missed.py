from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.cache_missed import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def resumed(made_run: Make, *, cached: bool = True, again: int = 4) -> Any:
    """Eight tasks; then a second run that takes some from the cache and executes others again."""
    run = made_run(workers=2, threads=1, engine="workflow")
    more = {"requested_cores": 1.0, "attempt": 1}
    for number in range(8):
        worker = ("w0", "w1")[number % 2]
        run.task(f"call_{number}", "call", worker, 10.0 * (number // 2), 10.0, **more)
    for number in range(8):
        row = {"attempt": 2, "requested_cores": 1.0, "submitted": 40.0, "ready": 40.0}
        if number < again:
            worker = ("w0", "w1")[number % 2]
            row["requested_memory_bytes"] = 2_000_000
            run.task(f"call_{number}", "call", worker, 40.0 + 10 * (number // 2), 10.0, **row)
        elif cached:
            run.task(f"call_{number}", "call", "w0", 40.0, 0.0, outcome="cached", **row)
    for row in run.tables["tasks"]:
        row.setdefault("requested_memory_bytes", 1_000_000)
    start = 40.0 + 5 * again
    run.task("join", "join", "w0", start, 10.0, submitted=40.0, ready=start, requested_cores=1.0)
    run.tables["deps"] += [{"task_id": "join", "depends_on": f"call_{n}"} for n in range(8)]
    return run


def test_what_ran_again_beside_cached_tasks(made_run: Make) -> None:
    (finding,) = check(resumed(made_run).trace())
    assert (finding.code, finding.kind) == ("RM126", "cache_missed")
    assert finding.cost_s == pytest.approx(20.0, abs=1.0)
    said = facts(finding)
    assert said["tasks executed again"] == 4
    assert said["taken from the cache"] == 4
    assert said["what differs: asked memory bytes"] == 4
    assert said["of these, with no input that ran again"] == 4


def test_all_from_the_cache_is_nothing(made_run: Make) -> None:
    assert check(resumed(made_run, again=0).trace()) == []


def test_without_cached_tasks_it_is_recomputed_work(made_run: Make) -> None:
    assert check(resumed(made_run, cached=False).trace()) == []


def test_one_run_alone_cannot_tell(made_run: Make) -> None:
    run = made_run(workers=1, threads=1, engine="nextflow")
    run.step("call", [1.0] * 4)
    run.task("old", "call", "w0", 0.0, 0.0, outcome="cached")
    trace = run.trace()
    tools = Tools(replay=Replayer(trace))
    assert check(trace, tools) == []
    assert "one run only" in tools.notes[0]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "cached"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "cached", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))
