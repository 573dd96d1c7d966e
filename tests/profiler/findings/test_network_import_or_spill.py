from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.network_import_or_spill import Advisor
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


def imports(made_run: Make, tier: str | None = "nfs", files: int = 120, folder: str = "") -> Any:
    """Four workers; the first task on each reads a package for 5 s."""
    run = made_run(workers=4, threads=1, engine="workflow")
    place = folder or "/sw/env/lib/python3.11/site-packages/geolib"
    for number in range(16):
        cold = number < 4
        start = 0.0 if cold else 6.0 + (number // 4 - 1)
        task = f"t{number}"
        run.task(task, "grid", f"w{number % 4}", start, 6.0 if cold else 1.0, ready=0.0)
        for k in range(files if cold else 0):
            run.tables["flows"].append({
                "task_id": task, "worker": f"w{number % 4}", "object": f"{place}/m{k}.py",
                "medium": "file", "op": "read", "bytes": 9000, "ops": 3, "busy_s": 5.0 / files,
                "tier": tier, "first_ns": run.ns(start), "last_ns": run.ns(start + 5.0),
            })  # fmt: skip
    return run


def test_imports_over_a_network_are_named_with_their_package(made_run: Make) -> None:
    (finding,) = check(imports(made_run).trace())
    assert (finding.code, finding.kind) == ("RM129", "network_import_or_spill")
    assert finding.cost_s == pytest.approx(5.0, abs=0.2)
    assert finding.title.startswith("`geolib` is imported from nfs: 120 files")
    assert facts(finding)["tasks that waited for them"] == 4


def test_the_mount_point_tells_where_no_tier_is_on_record(made_run: Make) -> None:
    folder = "/nfs/env/lib/python3.11/site-packages/geolib"
    (finding,) = check(imports(made_run, None, folder=folder).trace())
    assert finding.cost_s == pytest.approx(5.0, abs=0.2)


@pytest.mark.parametrize(
    "more", [{"tier": "ssd"}, {"tier": None}, {"files": 20}, {"folder": "/nfs/data/in"}]
)
def test_local_few_or_no_modules_are_nothing(made_run: Make, more: dict[str, Any]) -> None:
    run = imports(made_run, **more)
    if "folder" in more:
        for flow in run.tables["flows"]:
            flow["object"] = flow["object"].replace(".py", ".dat")
    assert check(run.trace()) == []


def test_data_spilled_over_a_network(made_run: Make) -> None:
    run = imports(made_run, folder="/scratch/dask-scratch-space/worker-1/storage")
    for flow in run.tables["flows"]:
        flow["object"] = flow["object"].replace(".py", "")
    (finding,) = check(run.trace())
    assert "spilled to nfs" in finding.title
    assert "--local-directory" in finding.change


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "outcome": "failed"}, {"task_id": "a", "outcome": "ok"}],
        [{"task_id": None, "outcome": "failed", "started_ns": 0, "ended_ns": 5 * 10**9}],
    ],
)
@pytest.mark.parametrize("engine", ["dask", "slurm", "nextflow", None])
def test_a_trace_that_lacks_most_is_no_error(rows: list[dict[str, Any]], engine: Any) -> None:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine})
    assert all(finding.cost_s is None or finding.cost_s >= 0 for finding in check(trace))
