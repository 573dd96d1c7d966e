"""Each timing rule: a planted cause, what is said about it, and decoys it must not fall for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.findings import BUILT_IN, built_in
from rotameter.profiler.findings.base import Advisor as AdvisorProtocol
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.idle_parallelism import Advisor as Idle
from rotameter.profiler.findings.latency_bound_roots import Advisor as Latency
from rotameter.profiler.findings.spill import Advisor as Spill
from rotameter.profiler.findings.tiny_tasks import Advisor as Tiny
from rotameter.profiler.findings.tiny_tasks import behind as gathered
from rotameter.profiler.findings.transfer_bound import Advisor as Transfer
from rotameter.profiler.findings.unmanaged_memory import Advisor as Unmanaged
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view
from rotameter.values import Finding

Make = Callable[..., Any]


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, [f.title for f in found]
    return found[0]


def facts(finding: Finding) -> dict[str, Any]:
    return {evidence.name: evidence.value for evidence in finding.evidence}


# -- tiny tasks ------------------------------------------------------------------------------


def test_tiny_tasks_are_priced_by_the_gaps_between_them(made_run: Make) -> None:
    run = made_run()
    run.step("inc", [0.0005] * 1000, gap=0.002)
    finding = only(Tiny().check(run.trace(), Tools()))
    assert finding.kind == "tiny_tasks"
    assert finding.groups == ("inc",)
    # 250 tasks a thread, 2 ms before each; a batch keeps a little of it.
    assert finding.cost_s == pytest.approx(0.5, rel=0.1)
    assert facts(finding)["overhead a task"] == pytest.approx(0.002, rel=0.05)
    assert finding.apply is not None
    assert finding.apply["task_granularity"]["factor"] >= 10


@pytest.mark.parametrize(
    ("durations", "gap"),
    [
        ([0.5] * 60, 0.002),  # long tasks pay the same overhead, and do not feel it
        ([0.0005] * 20, 0.002),  # too few to matter
        ([0.005] * 1000, 0.00001),  # short, and the engine keeps up
    ],
)
def test_tiny_tasks_decoys(made_run: Make, durations: list[float], gap: float) -> None:
    run = made_run()
    run.step("work", [1.0] * 40)
    run.step("work2", durations, ready=0.0, gap=gap)
    assert Tiny().check(run.trace(), Tools()) == []


# -- latency-bound roots ---------------------------------------------------------------------


def saturated(made_run: Make, saturation: float | None, **more: Any) -> Any:
    run = made_run()
    if saturation is not None:
        run.event("setting", 0, subject="distributed.scheduler.worker-saturation",
                  text=str(saturation), value=saturation)  # fmt: skip
    run.step("read", [0.004] * 1000, gap=0.003, **more)
    return run


def test_latency_bound_roots_name_the_knob(made_run: Make) -> None:
    finding = only(Latency().check(saturated(made_run, 1.1, output_bytes=100).trace(), Tools()))
    assert finding.kind == "latency_bound_roots"
    assert finding.cost_s == pytest.approx(0.375, rel=0.1)
    assert finding.change is not None
    assert "distributed.scheduler.worker-saturation" in finding.change
    assert "in flight" in finding.advice


@pytest.mark.parametrize(
    ("saturation", "more"),
    [
        (float("inf"), {}),  # nothing is held back
        (4.0, {}),  # as far ahead as we would go
        (None, {}),  # unknown
        (1.1, {"output_bytes": 200_000_000}),  # memory does not permit it
    ],
)
def test_latency_bound_roots_decoys(made_run: Make, saturation: float | None, more: Any) -> None:
    tools = Tools()
    assert Latency().check(saturated(made_run, saturation, **more).trace(), tools) == []
    assert bool(tools.notes) == (saturation is None)


def test_tasks_with_inputs_are_no_roots(made_run: Make) -> None:
    run = made_run()
    run.event("setting", 0, text="worker-saturation", value=1.1)
    first = run.step("load", [0.5] * 5)
    run.step("map", [0.004] * 1000, after=first, gap=0.003)
    assert Latency().check(run.trace(), Tools()) == []


# -- transfers -------------------------------------------------------------------------------


def moving(made_run: Make, *, busy: bool) -> Any:
    run = made_run(workers=2, threads=1)
    made = run.step("make", [1.0, 1.0])
    run.task("comb-0", "comb", "w0", 3.0, 0.5, ready=1.0, transfer_s=2.0)
    run.task("comb-1", "comb", "w1", 3.0, 0.5, ready=1.0, transfer_s=2.0)
    run.tables["deps"] += [
        {"task_id": f"comb-{i}", "depends_on": on} for i in (0, 1) for on in made
    ]
    for worker, peer, number in (("w0", "w1", 0), ("w1", "w0", 1)):
        run.interval("transfer", worker, 1.0, 3.0, task_id=f"comb-{number}", peer=peer,
                     bytes=500_000_000)  # fmt: skip
        run.tables["flows"].append(
            {"task_id": f"comb-{number}", "object": made[1 - number], "medium": "network",
             "op": "receive", "bytes": 500_000_000, "worker": worker, "peer": peer}
        )  # fmt: skip
        if busy:
            run.task(f"other-{number}", "other", worker, 1.0, 2.0)
    return run


def test_transfers_that_cores_waited_for(made_run: Make) -> None:
    finding = only(Transfer().check(moving(made_run, busy=False).trace(), Tools()))
    assert finding.kind == "transfer_bound"
    assert finding.groups == ("comb", "make")
    assert finding.cost_s == pytest.approx(2.0)
    assert "from `make`" in finding.title
    assert "1 GB moved to `comb`" in finding.title
    assert facts(finding)["busiest pair of workers"] == "w0 → w1: 500 MB"


def test_transfers_behind_other_work_cost_nothing(made_run: Make) -> None:
    assert Transfer().check(moving(made_run, busy=True).trace(), Tools()) == []


def test_transfers_without_a_place_in_time_are_noted(made_run: Make) -> None:
    run = made_run()
    run.step("a", [1.0] * 4, transfer_s=0.5)
    tools = Tools()
    assert Transfer().check(run.trace(), tools) == []
    assert "transfers have a duration" in tools.notes[0]


# -- spill -----------------------------------------------------------------------------------


def test_spill_counts_disk_time_and_what_it_takes(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 16, output_bytes=300_000_000)
    for worker in ("w0", "w1"):
        run.sample(worker, "spill_total_s", 2.0, 0.4)
        run.sample(worker, "spill_total_s", 4.0, 1.0)
        run.sample(worker, "spill_total_bytes", 4.0, 8e8)
        run.sample(worker, "spilled_memory_bytes", 3.0, 6e8)
    finding = only(Spill().check(run.trace(), Tools()))
    assert finding.kind == "spill"
    assert finding.cost_s == pytest.approx(0.5)
    assert facts(finding)["most on disk at one time"] == 6e8
    assert finding.change is not None
    assert "memory_limit='3GB'" in finding.change
    assert finding.groups == ("load",)


def test_paused_workers_cost_their_idle_cores(made_run: Make) -> None:
    run = made_run()
    run.step("load", [1.0] * 16)
    run.task("late", "late", "w1", 4.0, 4.0)
    run.event("worker_paused", 4.0, worker="w0")
    run.event("worker_resumed", 8.0, worker="w0")
    finding = only(Spill().check(run.trace(), Tools()))
    assert "paused for 4 s" in finding.title
    assert finding.cost_s == pytest.approx(2.0)


def test_unmanaged_growth_is_no_working_set(made_run: Make) -> None:
    rng = np.random.default_rng(0)
    leak, calm = made_run(), made_run()
    for run, slope in ((leak, 10e6), (calm, 0.0)):
        run.step("load", [1.0] * 200)
        for tick in range(100):
            working = float(rng.uniform(0, 8e8))
            run.sample("w0", "rss_bytes", tick / 2, 2e8 + slope * tick + working)
            run.sample("w0", "managed_bytes", tick / 2, 1e8)
    assert [f.kind for f in Unmanaged().check(leak.trace(), Tools())] == ["unmanaged_memory"]
    assert Unmanaged().check(calm.trace(), Tools()) == []


# -- idle parallelism ----------------------------------------------------------------------------


def test_a_serial_tail_is_lack_of_parallelism(made_run: Make) -> None:
    run = made_run()
    first = run.step("load", [0.5] * 16)
    run.task("final", "final", "w0", 2.0, 4.0, ready=2.0)
    run.tables["deps"] += [{"task_id": "final", "depends_on": on} for on in first]
    finding = only(Idle().check(run.trace(), Tools()))
    assert finding.kind == "idle_parallelism"
    assert finding.groups == ("final",)
    assert finding.cost_s == pytest.approx(3.0)
    assert facts(finding)["of that at the end of the run"] == pytest.approx(4.0)


def test_time_without_any_submitted_task_is_the_clients(made_run: Make) -> None:
    run = made_run()
    run.step("a", [1.0] * 8)
    run.step("b", [1.0] * 8, ready=5.0, submitted=5.0)
    finding = only(Idle().check(run.trace(), Tools()))
    assert "no task was submitted" in finding.title
    assert finding.cost_s == pytest.approx(3.0)


def test_idle_decoys(made_run: Make) -> None:
    wave = made_run()
    wave.step("map", [0.5] * 21)  # a last wave of one
    assert Idle().check(wave.trace(), Tools()) == []
    slow = made_run()  # cores idle, but ready tasks wait: the engine is slow, not the graph narrow
    slow.step("inc", [0.001] * 2000, gap=0.002)
    assert Idle().check(slow.trace(), Tools()) == []
    assert Idle().check(moving(made_run, busy=False).trace(), Tools()) == []
    skew = made_run()
    skew.step("map", [0.3] * 30 + [3.0])
    assert Idle().check(skew.trace(), Tools()) == []


# -- all of them -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_healthy_runs_show_nothing_over_5_percent(made_run: Make, seed: int) -> None:
    rng = np.random.default_rng(seed)
    threads = int(rng.integers(1, 5))
    run = made_run(workers=int(rng.integers(2, 5)), threads=threads)
    run.event("setting", 0, text="worker-saturation", value=1.1)
    before: list[str] | None = None
    for step in range(int(rng.integers(1, 4))):
        n = int(rng.integers(60, 200))
        durations = rng.lognormal(np.log(0.3), 0.15, n).tolist()
        ready = 0.0 if before is None else run.end(before)
        before = run.step(f"step{step}", durations, ready=ready, gap=0.001, output_bytes=1000)
    trace = run.trace()
    limit = 0.05 * (view(trace).makespan or 0.0)
    found = diagnose(trace).findings
    assert [(f.kind, f.cost_s) for f in found if (f.cost_s or 0.0) > limit] == []


EMPTY = [
    {},
    {"tasks": []},
    {"tasks": [{"task_id": "a"}]},
    {"tasks": [{"task_id": "a", "group": "g", "outcome": "ok", "wall_s": 1.0}] * 60},
    {"tasks": [{"task_id": None, "group": None, "started_ns": 5, "ended_ns": 1}]},
    {"tasks": [{"task_id": "a", "started_ns": 1, "ended_ns": 1, "worker": "w"}],
     "workers": [{"worker": "w"}]},
    {"tasks": [{"task_id": "a", "group": "g", "started_ns": 0, "ended_ns": 9, "worker": "w"}],
     "workers": [{"worker": "w", "cores": 0.0}, {"worker": None}]},
    {"workers": [{"worker": "w", "cores": 2.0, "started_ns": 3, "ended_ns": 3}]},
    {"events": [{"kind": kind} for kind in (
        "worker_memory_kill", "worker_removed", "worker_exit", "executing_at_death",
        "queued_at_death", "setting", "worker_paused", "group_origin", "scheduler_lost")]},
    {"samples": [{"metric": "rss_bytes"}] * 30, "intervals": [{"kind": "transfer"}],
     "flows": [{"medium": "network"}], "deps": [{"task_id": "x", "depends_on": "y"}]},
]  # fmt: skip


@pytest.mark.parametrize("tables", EMPTY, ids=range(len(EMPTY)))
@pytest.mark.parametrize("engine", ["dask", "python", None])
def test_no_rule_breaks_on_what_is_missing(tables: dict[str, Any], engine: str | None) -> None:
    trace = Trace.from_tables(tables, {"engine": engine})
    for advisor in built_in():
        found = advisor.check(trace, Tools())
        assert all(f.cost_s is None or f.cost_s <= (view(trace).makespan or 0.0) for f in found)


def test_ours_are_advisors_and_named_as_they_register() -> None:
    assert [advisor.name for advisor in built_in()] == list(BUILT_IN)
    assert all(isinstance(advisor, AdvisorProtocol) for advisor in built_in())


# -- tiny tasks beside the engine's threads --------------------------------------------------


def test_tiny_tasks_lose_the_time_in_which_the_engine_has_their_core(made_run: Make) -> None:
    costs = []
    for cpu_s in (0.002, 0.0015):
        run = made_run(workers=2, threads=1)
        run.meta["machines"] = [{"host": "h", "cores": 2}]
        run.step("inc", [0.002] * 1000, gap=0.001, cpu_s=cpu_s)
        trace = run.trace()
        costs.append(only(Tiny().check(trace, Tools(replay=Replayer(trace)))).cost_s or 0.0)
    assert costs[1] - costs[0] == pytest.approx(500 * 0.0005, rel=0.05)


def test_what_gathers_tiny_tasks_waits_behind_them(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    made = run.step("inc", [0.001] * 1000, gap=0.001, cpu_s=0.001)
    run.task("late", "sum", "w0", 1.2, 0.0005, ready=1.1)
    run.tables["deps"].append({"task_id": "late", "depends_on": made[0]})
    for number in range(10):  # Ready long before, and of a lower priority.
        mine = made[100 * number : 100 * number + 100]
        run.task(f"sum-{number}", "sum", f"w{number % 2}", 1.01 + 0.001 * (number // 2), 0.0005,
                 ready=run.end(mine))  # fmt: skip
        run.tables["deps"] += [{"task_id": f"sum-{number}", "depends_on": on} for on in mine]
    seen = view(run.trace())
    behind = gathered(seen, seen.ran & (seen.group == seen.groups.index("inc")))
    # The last one is ready as the last of the tiny tasks ends, and "late" is late by itself.
    assert [seen.task_ids[t] for t in seen.task[behind]] == [f"sum-{n}" for n in range(9)]
