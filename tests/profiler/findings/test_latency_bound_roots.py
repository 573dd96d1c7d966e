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
