from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rotameter.profiler.findings._held import free_cores, memory_held, places
from rotameter.profiler.findings._resources import Resources, resources
from rotameter.profiler.findings.base import Tools
from rotameter.profiler.findings.idle_parallelism import Advisor
from rotameter.profiler.occupancy import timeline
from rotameter.profiler.replaying.engine import simulate
from rotameter.profiler.replaying.model import Worker, make_model
from rotameter.profiler.replaying.savings import Replayer
from rotameter.profiler.view import view

Make = Callable[..., Any]


def test_cores_and_memory_that_tasks_asked_for_are_held(made_run: Make) -> None:
    run = made_run(workers=1, threads=8, memory=16e9)
    run.task("a", "a", "w0", 0.0, 4.0, requested_cores=6.0, requested_memory_bytes=2 * 10**9)
    run.task("b", "b", "w0", 4.0, 4.0, requested_cores=1.0, requested_memory_bytes=12 * 10**9)
    seen = view(run.trace())
    line = timeline(seen)
    assert line is not None
    free = free_cores(seen, line)
    held = memory_held(seen, line)
    early, late = line.start < 4.0, (line.start >= 4.0) & (line.start < 8.0)
    assert set(free[early]) == {2.0}
    assert not held[early].any()
    assert held[late].all()
    assert places(seen)[:2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("asked", [None, 14 * 10**9])
def test_a_chain_that_fills_the_memory_is_no_lack_of_tasks(made_run: Make, asked: Any) -> None:
    run = made_run(workers=1, threads=4, memory=16e9, engine="nextflow")
    before: list[str] = []
    for number in range(10):
        task = f"step-{number}"
        run.task(task, "step", "w0", float(number), 1.0, requested_memory_bytes=asked)
        run.tables["deps"] += [{"task_id": task, "depends_on": on} for on in before]
        before = [task]
    trace = run.trace()
    found = Advisor().check(trace, Tools(replay=Replayer(trace)))
    assert [f.kind for f in found] == ([] if asked else ["idle_parallelism"])


def test_a_chain_is_priced_as_side_by_side(made_run: Make) -> None:
    run = made_run(workers=2, threads=1)
    before: list[str] = []
    for number in range(10):
        task = f"step-{number}"
        run.task(task, "step", f"w{number % 2}", float(number), 1.0)
        run.tables["deps"] += [{"task_id": task, "depends_on": on} for on in before]
        before = [task]
    trace = run.trace()
    (finding,) = Advisor().check(trace, Tools(replay=Replayer(trace)))
    assert finding.cost_s == pytest.approx(5.0, rel=0.05)


def test_a_few_short_tasks_do_not_make_a_worker_larger() -> None:
    n = 16
    model = make_model(
        [10.0] * n + [0.05] * 3,
        workers=[Worker(None, cores=7.0)],
        home=[0] * (n + 3),
    )
    begun = np.array([*np.repeat(np.arange(4) * 10.0, 4), 1.0, 1.0, 1.0])
    model.priority[:] = begun
    blank = np.full(n + 3, np.nan)
    change = Resources(blank, blank, blank, {}, {})
    assert simulate(change.apply(model)).makespan_s == pytest.approx(40.1, abs=0.2)


def test_requests_that_nothing_kept_to_do_not_limit(made_run: Make) -> None:
    run = made_run(workers=1, threads=4, memory=4e9)
    run.step("map", [1.0] * 8, requested_memory_bytes=3 * 10**9)
    assert np.isnan(resources(view(run.trace())).memory_bytes).all()
