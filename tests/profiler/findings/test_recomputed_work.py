from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.recomputed_work import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def twice(made_run: Make, *, dies: bool = False, again: bool = True) -> Any:
    """Load eight pieces, use them, load the same again for a second result."""
    run = made_run(workers=2, threads=1)
    first = run.step("load", [0.5] * 8, output_bytes=300_000, attempt=1)
    used = run.step("use", [0.1] * 8, after=first)
    if dies:
        run.event("worker_exit", 2.45, worker="w1", exit_code=-9, signal=9)
        run.die("w1", 2.45, back_as="w2", back=2.5)
    if again:
        for number in range(8):
            worker = ("w0", "w2" if dies else "w1")[number % 2]
            start = 2.5 + 0.5 * (number // 2)
            run.task(f"load-{number}", "load", worker, start, 0.5, attempt=2, submitted=2.45)
    late = 4.5 if again else 2.5
    run.task("end", "end", "w0", late, 0.1, submitted=2.45)
    run.tables["deps"] += [{"task_id": "end", "depends_on": f"load-{n}"} for n in range(8)]
    assert len(used) == 8
    return run


def test_tasks_computed_again_cost_their_time(made_run: Make) -> None:
    (finding,) = check(twice(made_run).trace())
    assert (finding.code, finding.kind) == ("RM125", "recomputed_work")
    assert finding.cost_s == pytest.approx(2.0, abs=0.2)
    assert finding.groups == ("load",)
    assert facts(finding)["results to keep"] == 2_400_000
    assert "persist" in finding.change


def test_once_is_nothing(made_run: Make) -> None:
    assert check(twice(made_run, again=False).trace()) == []


def test_what_a_death_took_is_left_to_workers_died(made_run: Make) -> None:
    run = twice(made_run, dies=True)
    found = check(run.trace())
    assert all(facts(finding)["attempts that computed again"] == 4 for finding in found)


def test_beside_cached_tasks_it_is_cache_missed(made_run: Make) -> None:
    run = twice(made_run)
    run.task("old", "load", "w0", 5.0, 0.0, outcome="cached")
    assert check(run.trace()) == []


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "ok"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "ok", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))
