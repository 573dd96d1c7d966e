from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.latency_bound_roots import Advisor, rootish
from rotameter.profiler.findings.tiny_tasks import Advisor as Tiny
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.view import view

Make = Callable[..., Any]


def behind(made_run: Make, inputs: int) -> Any:
    run = made_run()
    run.event("setting", 0, subject="distributed.scheduler.worker-saturation", value=1.1)
    first = run.step("load", [0.5] * inputs)
    run.step("map", [0.004] * 1000, after=first[:1], gap=0.003, output_bytes=100)
    return run


@pytest.mark.parametrize(("inputs", "queued"), [(1, True), (4, True), (5, False)])
def test_groups_with_few_inputs_are_roots_to_the_scheduler(
    made_run: Make, inputs: int, queued: bool
) -> None:
    trace = behind(made_run, inputs).trace()
    seen = view(trace)
    assert bool(rootish(seen)[seen.group == seen.groups.index("map")].all()) is queued
    tools = Tools(replay=Replayer(trace))
    kinds = [f.kind for advisor in (Advisor(), Tiny()) for f in advisor.check(trace, tools)]
    # One of the two, never both: they would claim the same seconds.
    assert kinds == (["latency_bound_roots"] if queued else ["tiny_tasks"])


def queued(made_run: Make, *, wall: float, at_hand: float = 0.001, sent: float = 0.005) -> Any:
    """Workers of one thread: every second task is there when the one before it ends."""
    run = made_run(workers=2, threads=1)
    run.event("setting", 0, subject="distributed.scheduler.worker-saturation", value=1.1)
    at = [0.0, 0.0]
    for number in range(1000):
        worker = number % 2
        at[worker] += at_hand if (number // 2) % 2 else sent
        run.task(f"r-{number}", "read", f"w{worker}", at[worker], wall, ready=0.0, cpu_s=wall,
                 output_bytes=9)  # fmt: skip
        at[worker] += wall
    return run


@pytest.mark.parametrize("at_hand", [0.0005, 0.001, 0.002])
def test_the_price_is_what_gaps_before_tasks_at_hand_leave(made_run: Make, at_hand: float) -> None:
    trace = queued(made_run, wall=0.004, at_hand=at_hand).trace()
    (finding,) = Advisor().check(trace, Tools())
    # Of 500 gaps on each worker, half would be as short as the others.
    assert finding.cost_s == pytest.approx(250 * (0.005 - at_hand), rel=0.05)
    facts = {e.name: e.value for e in finding.evidence}
    assert facts["gap before a task that was at hand"] == pytest.approx(at_hand, rel=0.01)


def test_the_stock_that_is_advised_lasts_as_long_as_a_message(made_run: Make) -> None:
    advised = []
    for wall in (0.0005, 0.02):
        (finding,) = Advisor().check(queued(made_run, wall=wall, sent=0.015).trace(), Tools())
        advised.append((finding.apply or {})["order"]["value"])
    assert advised == [11.0, 4.0]  # 15 ms of tasks that take 1.5 ms with all; or the least


def test_tiny_tasks_in_the_queue_are_two_causes_that_do_not_overlap(made_run: Make) -> None:
    trace = queued(made_run, wall=0.0003).trace()
    tools = Tools(replay=Replayer(trace))
    (held,) = Advisor().check(trace, tools)
    (tiny,) = Tiny().check(trace, tools)
    assert held.cost_s == pytest.approx(250 * 0.004, rel=0.05)
    # Done in a few tasks, nearly all gaps go: 500 of 3 ms on each worker.
    assert (held.cost_s or 0) + (tiny.cost_s or 0) == pytest.approx(500 * 0.003, rel=0.06)
    assert "beside what the scheduler's queue costs" in tiny.cost_how


@pytest.mark.parametrize(("busy", "part"), [(0.3, None), (0.9, 0.1), (0.95, 0.05), (1.0, 0.0)])
def test_the_range_begins_at_what_the_machines_cores_have_to_spare(
    made_run: Make, busy: float, part: float | None
) -> None:
    """Scheduler and workers compute while tasks wait: on a full machine a stock may help little."""
    run = queued(made_run, wall=0.004)
    run.meta["machines"] = [{"host": "h", "cores": 2}]
    for tick in range(1, 16):
        for name in ("w0", "w1", "client-1", "scheduler-1"):
            run.sample(name, "process_cpu_cores", tick / 4, 2 * busy / 4)
    (finding,) = Advisor().check(run.trace(), Tools())
    assert finding.cost_s == pytest.approx(250 * 0.004, rel=0.05)
    assert ("cores have less to spare" in finding.cost_how) is (part is not None)
    low, high = finding.cost_s_interval80
    assert low <= finding.cost_s <= high
    if part is not None:
        assert low == pytest.approx(0.6 * part * (500 * 0.004 + 250 * 0.006), rel=0.02)
