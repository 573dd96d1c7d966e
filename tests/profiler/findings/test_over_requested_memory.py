from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.over_requested_memory import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


GB = 10**9


def wide(made_run: Make, asked: float, peak: float = 0.8, **more: Any) -> Any:
    """Sixteen tasks of 10 s on a machine of eight cores and 16 GB."""
    run = made_run(workers=1, threads=8, memory=16e9, engine=more.pop("engine", "workflow"))
    beside = min(8, int(16 // asked))
    for number in range(16):
        run.task(
            f"t{number}", "phase", "w0", 10.0 * (number // beside), 10.0, ready=0.0,
            requested_memory_bytes=int(asked * GB), requested_cores=1.0,
            **{"peak_memory_bytes": int(peak * GB), "peak_memory_kind": "exact", **more},
        )  # fmt: skip
    return run


def test_less_memory_lets_more_run_side_by_side(made_run: Make) -> None:
    (finding,) = check(wide(made_run, 8.0).trace())
    assert (finding.code, finding.kind) == ("RM122", "over_requested_memory")
    assert finding.cost_s == pytest.approx(60.0, abs=1.0)  # 80 s, two at once; 20 s, eight
    assert finding.apply["memory_request"]["value"] == pytest.approx(0.88e9)
    assert facts(finding)["asked for / needed"] == pytest.approx(9.09, abs=0.01)


def test_a_request_that_fits_is_nothing(made_run: Make) -> None:
    assert check(wide(made_run, 1.0).trace()) == []


def test_where_cores_are_the_limit_only_gigabyte_hours_are_told(made_run: Make) -> None:
    (finding,) = check(wide(made_run, 2.0).trace())
    assert finding.cost_s == 0.0
    assert finding.cost_gbh == pytest.approx(16 * 10 * 1.12 / 3600, rel=0.01)
    assert finding.severity == "info"


@pytest.mark.parametrize(
    "more",
    [
        {"peak_memory_kind": "lower_bound"},
        {"peak_memory_bytes": None, "peak_memory_kind": "missing"},
        {"engine": "dask"},
    ],
)
def test_what_does_not_tell_the_need_says_nothing(made_run: Make, more: dict[str, Any]) -> None:
    assert check(wide(made_run, 8.0, **more).trace()) == []


def test_a_killed_mate_forbids_to_ask_for_less(made_run: Make) -> None:
    run = wide(made_run, 8.0)
    run.tables["tasks"][3]["outcome"] = "oom"
    assert check(run.trace()) == []


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


def test_a_log_without_starts_tells_what_was_held_in_vain() -> None:
    row = {"group": "align", "outcome": "ok", "wall_s": 3600.0, "requested_cores": 8.0,
           "requested_memory_bytes": 16 * GB, "peak_memory_bytes": GB}  # fmt: skip
    rows = [{"task_id": f"j{number}", **row} for number in range(6)]
    (finding,) = check(Trace.from_tables({"tasks": rows}, {"engine": "slurm"}))
    assert finding.cost_gbh == pytest.approx(6 * (16 - 1.1), rel=0.01)
