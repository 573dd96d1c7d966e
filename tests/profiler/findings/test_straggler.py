from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.straggler import Advisor

Make = Callable[..., Any]


def slow_run(made_run: Make) -> Any:
    run = made_run(workers=3)
    run.slowness["w0"] = 3.0
    run.step("map", [0.5 + 0.01 * (i % 5) for i in range(60)])
    return run


def test_a_straggler_is_named_by_host_and_not_by_address(made_run: Make) -> None:
    (finding,) = Advisor().check(slow_run(made_run).trace(), Tools())
    assert finding.kind == "straggler"
    assert "on host h" in finding.title
    assert finding.change is None
    assert "retire_workers" not in finding.advice
    assert "host h" in finding.advice
    assert "pinning" in finding.advice  # the host's other workers are fast


@pytest.mark.parametrize("how", ["oom", "late"])
def test_a_worker_that_died_or_lived_little_is_not_blamed(made_run: Make, how: str) -> None:
    run = slow_run(made_run)
    assert Advisor().check(run.trace(), Tools())
    end = max(row["ended_ns"] for row in run.tables["tasks"])
    if how == "oom":
        run.event("worker_memory_kill", (end - run.ns(0)) / 1e9, worker="w0", rss_bytes=2 * 10**9)
        run.lives["w0"]["end"] = (end - run.ns(0)) / 1e9
    else:
        run.lives["w0"]["start"] = 0.0
        run.task("tail", "tail", "w1", 25.0, 1.0)
        run.lives["w0"]["end"] = 9.0
    assert [f for f in Advisor().check(run.trace(), Tools()) if f.kind == "straggler"] == []
