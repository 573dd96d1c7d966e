"""The short way of a task that is measured in full gives what the long way gives."""

from __future__ import annotations

import os
import threading

import pytest

from rotameter.profiler.live import alone, timed
from rotameter.profiler.live.tracer import task


@pytest.fixture
def traced(lab):
    """Give a lab whose session is active and never steps down."""
    return lab(adapt=False).activate()


def read_some(path, calls):
    """Read behind Python's back: only the kernel's counters know."""
    fd = os.open(path, os.O_RDONLY)
    try:
        for _ in range(calls):
            assert len(os.pread(fd, 1_000, 0)) == 1_000
    finally:
        os.close(fd)


def test_bytes_behind_pythons_back_are_exact_both_ways(traced, tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(b"x" * 5_000)
    reader = task(read_some)
    taken = []
    monkeypatch.setattr(
        timed, "leave_alone", lambda s, r: (taken.append(r), alone.leave_alone(s, r))
    )
    for calls in (1, 3, 3):
        reader(path, calls)
    running = traced.session.begin("long", "read_some")  # the long way
    read_some(path, 3)
    traced.session.end(running)
    rows = traced.rows()
    assert len(taken) >= 2, "the short way was not taken"
    assert [row["read_bytes"] for row in rows] == [1_000, 3_000, 3_000, 3_000]
    assert {row["io_kind"] for row in rows} == {"exact"}
    assert {row["write_bytes"] for row in rows} == {0}
    for row in rows:
        assert row["process_cpu_s"] >= 0
        assert 0 <= row["cpu_s"] <= row["wall_s"]
        assert row["concurrency"] == pytest.approx(1, abs=0.05)
        assert row["start_memory_bytes"] > 1e6
        assert row["peak_memory_kind"] in ("exact", "lower_bound", "sampled")


def test_a_new_peak_is_exact_and_its_own(traced):
    size = 64_000_000

    @task
    def grow(n_bytes):
        data = bytearray(n_bytes)
        data[::4096] = b"\1" * len(data[::4096])

    grow(1_000)
    grow(size * 4)  # above whatever the process has had so far
    grow(size)
    rows = traced.rows()
    assert rows[1]["peak_memory_bytes"] >= 3.9 * size or rows[1]["peak_memory_kind"] != "exact"
    assert rows[2]["peak_memory_kind"] in ("lower_bound", "sampled")


def test_one_that_others_join_is_shared(traced):
    begun, go_on = threading.Event(), threading.Event()

    @task
    def waits():
        begun.set()
        assert go_on.wait(10)

    @task
    def joins():
        pass

    joins()
    waits_warm = threading.Thread(target=waits)
    waits_warm.start()
    assert begun.wait(10)
    joins()
    go_on.set()
    waits_warm.join(10)
    rows = {row["task_id"].split("-")[0].rpartition(".")[2]: row for row in traced.rows()}
    assert rows["waits"]["process_cpu_s"] is None, "the process's time was not its own"
    assert rows["joins"]["process_cpu_s"] is None
    assert not traced.session._active
    assert traced.session.prober.crowded


def test_a_failing_reading_is_noted_and_the_call_goes_on(traced, monkeypatch):
    @task
    def plain():
        return 7

    plain()
    monkeypatch.setattr(alone, "usage", lambda: 1 / 0)
    with pytest.warns(UserWarning, match="rotameter"):
        assert plain() == 7
    assert not traced.session._active
    assert traced.session.faults.count >= 1
