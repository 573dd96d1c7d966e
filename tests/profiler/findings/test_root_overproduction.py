from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.root_overproduction import Advisor
from rotameter.profiler.findings.spill import Advisor as Spill
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace

Make = Callable[..., Any]


def check(trace: Trace, tools: Tools | None = None) -> list[Any]:
    return Advisor().check(trace, tools or Tools(replay=Replayer(trace)))


def facts(finding: Any) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


MB = 10**6


def eager(made_run: Make, *, again: bool = False, spills: bool = True) -> Any:
    """Sixteen loaders fill a worker, which writes out; then their users run.

    Again: a second pass needs the data once more, after all of the first one.
    """
    run = made_run(workers=1, threads=1, memory=600 * MB)
    for number in range(16):
        more = {"output_bytes": 50 * MB, "submitted": 0.0, "ready": 0.0}
        run.task(f"load-{number}", "load", "w0", 0.1 * number, 0.05, **more)
    start = 1.6
    for k in range(2 if again else 1):
        for number in range(16):
            name = f"use{k}-{number}"
            run.task(name, f"use{k}", "w0", start, 0.05, output_bytes=8, ready=0.1 * number + 0.05)
            run.tables["deps"].append({"task_id": name, "depends_on": f"load-{number}"})
            if k:
                run.tables["deps"].append({"task_id": name, "depends_on": "join"})
            if spills:
                run.interval("disk", "w0", start - 0.05, start, task_id=name)
            start += 0.1
        if again and k == 0:
            run.task("join", "join", "w0", start, 0.05, output_bytes=8, ready=start)
            ends = [{"task_id": "join", "depends_on": f"use0-{n}"} for n in range(16)]
            run.tables["deps"] += ends
            start += 0.1
    if spills:
        for at, seconds in ((0.5, 0.1), (1.0, 0.4), (1.6, 0.8), (3.0, 0.8)):
            run.sample("w0", "spill_total_s", at, seconds)
            run.sample("w0", "unspill_total_s", at + 0.1, seconds)
            run.sample("w0", "spill_total_bytes", at, seconds * 500 * MB)
    return run


def test_loaders_that_ran_ahead(made_run: Make) -> None:
    (finding,) = check(eager(made_run).trace())
    assert (finding.code, finding.kind) == ("RM121", "root_overproduction")
    assert finding.groups[:2] == ("load", "use0")
    assert facts(finding)["results made too early, most at once"] >= 12
    assert finding.cost_s == pytest.approx(1.6, abs=0.4)
    assert "worker-saturation" in finding.change
    assert Spill().check(eager(made_run).trace(), Tools()) == []


def test_data_that_is_needed_again_is_spill(made_run: Make) -> None:
    trace = eager(made_run, again=True).trace()
    assert check(trace) == []
    (finding,) = Spill().check(trace, Tools(replay=Replayer(trace)))
    assert finding.kind == "spill"


def test_a_round_that_is_asked_for_later_is_spill(made_run: Make) -> None:
    """The program gathers one round, then asks for another of the same data."""
    run = eager(made_run, again=True)
    run.tables["deps"] = [row for row in run.tables["deps"] if "join" not in row.values()]
    run.tables["tasks"] = [row for row in run.tables["tasks"] if row["task_id"] != "join"]
    for row in run.tables["tasks"]:
        if row["group"] == "use1":
            row["submitted_ns"] = row["ready_ns"] = run.ns(3.3)
    trace = run.trace()
    assert check(trace) == []
    (finding,) = Spill().check(trace, Tools(replay=Replayer(trace)))
    assert finding.kind == "spill"


@pytest.mark.parametrize("held", [True, False])
def test_results_held_to_the_end_are_spill(made_run: Make, held: bool) -> None:
    """Their futures are held: no order of tasks would have freed them."""
    run = eager(made_run)
    for at in range(9):
        kept = 50 * MB * min(16, 5 * at)
        run.sample("w0", "managed_bytes", at / 2, kept if held or at < 4 else 0)
    run.sample("w0", "managed_bytes", 4.4, 800 * MB if held else 0)
    trace = run.trace()
    found = check(trace) + Spill().check(trace, Tools(replay=Replayer(trace)))
    assert [f.kind for f in found] == ["spill" if held else "root_overproduction"]


def two_kinds(made_run: Make, quick: tuple[int, ...], slow_s: float, **more: Any) -> Any:
    """Loaders of 0.02 s where memory was given back, of ``slow_s`` where it is new."""
    run = eager(made_run)
    at = 0.0
    for row in run.tables["tasks"]:
        number = int(row["task_id"].rpartition("-")[2])
        took = 0.05 if row["group"] != "load" else 0.02 if number in quick else slow_s
        if row["group"] == "load":
            row |= {"started_ns": run.ns(at), "ended_ns": run.ns(at + took), **more}
            at += took + 0.01
        row |= {"wall_s": took, "cpu_s": took}
    for row in run.tables["tasks"]:
        if row["group"] != "load":
            moved = run.ns(at) - run.ns(1.6)
            row |= {"started_ns": row["started_ns"] + moved, "ended_ns": row["ended_ns"] + moved}
    run.tables["intervals"].clear()
    begin = at + 2.0
    for number in range(6):
        start = begin + 0.05 * number
        run.task(f"last-{number}", "last", "w0", start, 0.05, cpu_s=0.05, output_bytes=8)
    return run


@pytest.mark.parametrize(
    ("quick", "slow_s", "is_memory"),
    [
        ((3, 7, 9, 12), 0.12, True),
        ((), 0.12, False),  # All took as long: nothing tells what memory costs.
        ((3, 7, 9, 12), 0.03, False),  # one kind
        ((3, 7, 9, 12), 0.6, False),  # No memory takes that long: it is work.
    ],
)
def test_loaders_would_reuse_memory(
    made_run: Make, quick: tuple[int, ...], slow_s: float, is_memory: bool
) -> None:
    with_cpu = two_kinds(made_run, quick, slow_s)
    (priced,) = check(with_cpu.trace())
    for row in with_cpu.tables["tasks"]:
        del row["cpu_s"]
    (plain,) = check(with_cpu.trace())
    assert ("memory that was given back" in priced.cost_how) is is_memory
    saved = (16 - len(quick)) * (slow_s - 0.02) if is_memory else 0.0
    assert priced.cost_s - plain.cost_s == pytest.approx(saved, abs=0.1)


def test_without_other_tasks_memory_is_reused_as_well(made_run: Make) -> None:
    run = two_kinds(made_run, (3, 7, 9, 12), 0.12)
    run.tables["tasks"] = [row for row in run.tables["tasks"] if row["group"] != "last"]
    (priced,) = check(run.trace())
    for row in run.tables["tasks"]:
        del row["cpu_s"]
    (plain,) = check(run.trace())
    assert priced.cost_s - plain.cost_s == pytest.approx(12 * 0.1, abs=0.1)


def test_users_beside_spilling_take_longer_for_their_cpu_time(made_run: Make) -> None:
    """Others take as long as their CPU time, these twice as long."""
    run = two_kinds(made_run, (), 0.05)
    (plain,) = check(run.trace())
    for row in run.tables["tasks"]:
        if row["group"] == "use0":
            row["cpu_s"] = 0.025
    (priced,) = check(run.trace())
    assert priced.cost_s - plain.cost_s == pytest.approx(16 * 0.025, abs=0.1)


def test_results_of_unlike_sizes_tell_nothing_of_memory(made_run: Make) -> None:
    run = two_kinds(made_run, (3, 7, 9, 12), 0.12)
    for number in (3, 7, 9, 12):
        run.tables["tasks"][number]["output_bytes"] = 10 * MB
    (finding,) = check(run.trace())
    for row in run.tables["tasks"]:
        del row["cpu_s"]
    (plain,) = check(run.trace())
    assert finding.cost_s == pytest.approx(plain.cost_s, abs=0.1)


def test_without_pressure_running_ahead_is_nothing(made_run: Make) -> None:
    assert check(eager(made_run, spills=False).trace()) == []


def test_a_finite_saturation_is_not_advised_again(made_run: Make) -> None:
    run = eager(made_run)
    name = "distributed.scheduler.worker-saturation"
    run.event("setting", 0.0, subject=name, text="1.1", value=1.1)
    (finding,) = check(run.trace())
    assert finding.change is None
    assert "priorities" in finding.advice


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
