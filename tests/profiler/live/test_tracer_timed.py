"""``@task`` where only times are taken."""

from __future__ import annotations

import threading
import time

import pytest

from rotameter.profiler.live.context import current
from rotameter.profiler.live.tracer import task


@task
def double(x: int) -> int:
    return 2 * x


def test_timed_calls_are_recorded_as_all_others(lab):
    traced = lab(level="time").activate()
    double(1)  # the first call of a group goes the long way
    before = len(traced.rows())

    @task
    def nest(x):
        if x == 2:
            raise ValueError("two")
        return double(x)

    for x in (1, 3):
        assert nest(x) == 2 * x
    with pytest.raises(ValueError):
        nest(2)
    inner1, outer1, inner3, outer3, failed = traced.rows()[before:]
    assert inner1["parent"] == outer1["task_id"] and inner3["parent"] == outer3["task_id"]
    assert (failed["outcome"], failed["error"]) == ("failed", "ValueError: two")
    for row in (inner1, outer1, inner3, outer3, failed):
        assert row["wall_s"] >= row["cpu_s"] >= 0 and row["process_cpu_s"] is None
        assert row["concurrency"] == pytest.approx(1.0, abs=0.3)
        assert row["started_ns"] <= row["ended_ns"]
    assert current.get() is None and not traced.session._active
    assert traced.session.overhead_s > 0


def test_timed_threads_are_concurrent(lab):
    traced = lab(level="time").activate()
    barrier = threading.Barrier(3)

    @task(group="meet")
    def meet(wait):
        if wait:
            barrier.wait()
            time.sleep(0.02)
            barrier.wait()

    meet(False)
    threads = [threading.Thread(target=meet, args=(True,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(1 < row["concurrency"] <= 3.01 for row in traced.rows()[1:])
