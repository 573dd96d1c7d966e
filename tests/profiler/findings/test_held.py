from __future__ import annotations

import time
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
from rotameter.profiler.trace import Trace
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


def test_what_fits_at_once_is_counted_by_worker_and_request() -> None:
    """By hand: 4 + 2 of one core; of 4 GB 2 (of 10 GB) + 1 (of 5); of two cores and 1 GB 2 + 1."""
    asks = {"a": (1.0, None), "b": (None, 4 * 10**9), "c": (2.0, 10**9), "d": (None, None)}
    rows = [
        {"task_id": name, "group": name, "worker": "w0", "outcome": "ok", "started_ns": 0,
         "ended_ns": 10**9, "requested_cores": cores, "requested_memory_bytes": memory}
        for name, (cores, memory) in asks.items()
    ]  # fmt: skip
    workers = [
        {"worker": f"w{cores}", "started_ns": 0, "ended_ns": 10**9, "cores": cores,
         "memory_bytes": memory} for cores, memory in ((4.0, 10**10), (2.0, 5 * 10**9))
    ]  # fmt: skip
    trace = Trace.from_tables({"tasks": rows, "workers": workers}, {"engine": "slurm"})
    assert places(view(trace)).tolist() == [6.0, 3.0, 3.0, 6.0, 6.0]


def test_many_groups_on_many_workers_take_no_time() -> None:
    n = 2000
    rows = [
        {"task_id": f"t{k}", "group": f"g{k}", "worker": f"w{k}", "outcome": "ok", "started_ns": 0,
         "ended_ns": 10**9, "requested_memory_bytes": 10**9} for k in range(n)
    ]  # fmt: skip
    workers = [
        {"worker": f"w{k}", "started_ns": 0, "ended_ns": 10**9, "cores": 1.0,
         "memory_bytes": 4 * 10**9} for k in range(n)
    ]  # fmt: skip
    seen = view(Trace.from_tables({"tasks": rows, "workers": workers}, {"engine": "slurm"}))
    assert seen.slots == n
    before = time.process_time()
    assert set(places(seen)) == {float(n)}
    assert time.process_time() - before < 2.0  # A loop over both takes more than ten.
