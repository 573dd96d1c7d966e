from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings import gpu_idle_communication, gpu_idle_host, gpu_idle_input
from rotameter.profiler.findings._gpu_words import within_run
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import view

Make = Callable[..., Any]
RULES = (gpu_idle_host, gpu_idle_input, gpu_idle_communication)
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(
    made_run: Make,
    *,
    steps: int = 20,
    load_s: float = 0.0,
    gap_s: float = 0.0,
    message_s: float = 0.0,
    hidden: bool = False,
    ranks: int = 1,
) -> Any:
    """Steps of ten kernels of 10 ms on each rank."""
    run = made_run(workers=ranks, threads=1, engine="torch")
    for rank in range(ranks):
        worker, at = f"w{rank}", 0.0
        for step in range(steps):
            began = at
            if load_s:
                run.interval("span", worker, at, at + load_s, lane="thread 1", name=LOADER)
            at += load_s
            sent = at + 0.01
            for _ in range(10):
                run.interval("kernel", worker, at, at + 0.01, lane="device 0 stream 7", name="mm")
                at += 0.01 + gap_s
            if message_s:
                low = sent if hidden else at
                run.interval(
                    "communication", worker, low, low + message_s, lane="device 0 stream 20",
                    name="ncclDevKernel_AllReduce",
                )  # fmt: skip
                at = max(at, low + message_s)
            run.task(f"r{rank}/step{step}", "ProfilerStep", worker, began, at - began)
    return run


def kinds(run: Any) -> dict[str, float]:
    trace = run.trace()
    found = [f for rule in RULES for f in rule.Advisor().check(trace, Tools())]
    return {f.kind: f.cost_s for f in found}


def test_waits_before_and_after_the_run_save_nothing(made_run: Make) -> None:
    run = training(made_run, gap_s=0.005)  # 3 s
    for at in (-4.0, 7.0):
        run.interval("kernel", "w0", at, at + 0.01, lane="device 0 stream 7", name="mm")
    trace = run.trace()
    (found,) = gpu_idle_host.Advisor().check(trace, Tools())
    assert found.cost_s == pytest.approx(1.0, abs=0.02)
    assert found.title.startswith("The GPU waited 1 s (33% of its time) for the host to launch 200")
    window = next(one for one in found.evidence if one.name == "window")
    assert window.value == pytest.approx(3.0)


@pytest.mark.parametrize("rule", RULES)
def test_no_saving_is_longer_than_the_run(made_run: Make, rule: Any) -> None:
    run = made_run(workers=1, threads=1, engine="torch")
    run.task("r0/step0", "ProfilerStep", "w0", 0.0, 2.0)
    for at in (-1.0, 1.0, 4.0):
        run.interval("kernel", "w0", at, at + 0.01, lane="device 0 stream 7", name="mm")
    kind, lane, name = {
        gpu_idle_host: ("span", "thread 1", "aten::mm"),
        gpu_idle_input: ("span", "thread 1", LOADER),
        gpu_idle_communication: ("communication", "device 0 stream 20", "ncclDevKernel_AllReduce"),
    }[rule]
    run.interval(kind, "w0", -0.9, 0.99, lane=lane, name=name)
    run.interval(kind, "w0", 1.1, 3.99, lane=lane, name=name)
    for found in rule.Advisor().check(run.trace(), Tools()):
        assert found.cost_s <= 2.0
        assert max(found.cost_s_interval80) <= 2.0
        said = float(found.title.split("waited ")[1].split(" ")[0])
        assert said <= (2.0 if " s (" in found.title else 1000)


def test_the_host_is_late_only_by_what_the_run_says(made_run: Make) -> None:
    trace = training(made_run, gap_s=0.005).trace()
    causes = {"idle_s": 1.0, "host_wait_s": 1.0}
    some = {"idle_causes": {"idle_s": 1.0, "host_wait_s": 0.0}}
    device = {"device": 0, "breakdown": {"idle_causes": causes}, "whole": some, "in_run": some}
    meta = {**trace.meta, "device_timeline": {"ranks": [{"worker": "w0", "devices": [device]}]}}
    tables = {name: trace.table(name).to_pylist() for name in ("tasks", "intervals", "workers")}
    assert gpu_idle_host.Advisor().check(Trace.from_tables(tables, meta), Tools()) == []


def test_waiting_for_batches_is_input(made_run: Make) -> None:
    assert kinds(training(made_run, load_s=0.05)) == {"gpu_idle_input": pytest.approx(1.0)}


def test_gaps_between_kernels_are_the_hosts(made_run: Make) -> None:
    found = kinds(training(made_run, gap_s=0.005))
    assert found == {"gpu_idle_host": pytest.approx(1.0, abs=0.02)}


def test_messages_that_nothing_hides_are_communication(made_run: Make) -> None:
    found = kinds(training(made_run, message_s=0.05))
    assert found == {"gpu_idle_communication": pytest.approx(1.0)}


def test_messages_behind_computing_cost_nothing(made_run: Make) -> None:
    assert kinds(training(made_run, message_s=0.05, hidden=True)) == {}


def test_a_slow_host_is_not_taken_for_slow_messages(made_run: Make) -> None:
    found = kinds(training(made_run, gap_s=0.02, message_s=0.1, hidden=True))
    assert list(found) == ["gpu_idle_host"]


def test_messages_that_only_a_slow_host_hides_stay(made_run: Make) -> None:
    # 90 ms of computing are left for a message of 150 ms once the gaps are closed.
    found = kinds(training(made_run, gap_s=0.02, message_s=0.15, hidden=True))
    assert found["gpu_idle_host"] == pytest.approx(20 * (0.2 - 0.06), abs=0.1)


def test_both_causes_are_told_apart(made_run: Make) -> None:
    found = kinds(training(made_run, load_s=0.05, message_s=0.03))
    assert found == {
        "gpu_idle_input": pytest.approx(1.0),
        "gpu_idle_communication": pytest.approx(0.6),
    }


def test_of_several_ranks_the_one_that_waits_least_has_the_message(made_run: Make) -> None:
    run = training(made_run, message_s=0.05, ranks=2)
    # Rank 1's kernels begin late: rank 0's message lasts longer, as it waits for rank 1.
    for row in run.tables["intervals"]:
        if row["kind"] == "communication" and row["worker"] == "w1":
            row["start_ns"] += 30_000_000
    found = kinds(run)
    assert found["gpu_idle_communication"] == pytest.approx(0.4)


def test_a_busy_device_has_no_finding(made_run: Make) -> None:
    assert kinds(training(made_run, load_s=0.0005, gap_s=1e-6)) == {}


def test_traces_without_devices_are_no_error(made_run: Make) -> None:
    for rule in RULES:
        assert rule.Advisor().check(Trace.from_tables({}), Tools()) == []
        rows = [{"kind": "kernel", "start_ns": 1, "end_ns": 2}]
        assert rule.Advisor().check(Trace.from_tables({"intervals": rows}), Tools()) == []


def test_the_bounds_of_a_saving_lie_within_the_run(made_run: Make) -> None:
    seen = view(training(made_run, gap_s=0.005).trace())
    assert within_run(seen, -1.0, 99.0) == (0.0, pytest.approx(seen.makespan))
