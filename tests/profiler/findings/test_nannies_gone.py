"""That worker and nanny went together is said only where no worker came back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.workers_died import Advisor


@pytest.mark.parametrize(("back", "gone"), [("w9", False), (None, True)])
def test_a_nanny_is_gone_only_where_no_worker_came_back(
    made_run: Callable[..., Any], back: str | None, gone: bool
) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    run.task("odd-0", "odd", "w0", 1.0, 0.5, outcome="worker_lost")
    run.event("executing_at_death", 1.5, worker="w0", task_id="odd-0", group="odd")
    run.event("worker_removed", 1.5, worker="w0", expected=False)
    run.die("w0", 1.5, back_as=back, back=1.7)
    (finding,) = Advisor().check(run.trace(), Tools())
    assert ("nanny went too" in finding.advice) is gone


def test_a_cluster_that_is_closed_at_the_end_lost_no_worker(made_run: Callable[..., Any]) -> None:
    run = made_run()
    run.step("load", [1.0] * 8)
    for worker in ("w0", "w1"):
        run.event("worker_removed", 2.1, worker=worker, expected=False)
        run.die(worker, 2.1)
    assert Advisor().check(run.trace(), Tools()) == []
