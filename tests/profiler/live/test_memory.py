"""Peaks: exact for one task at a time, a bound that holds for several."""

from __future__ import annotations

import threading
import time

import pytest

from rotameter.profiler.live import memory
from rotameter.profiler.live.memory import PeakMeter, bound, clear_refs_reason
from rotameter.profiler.live.proc import Own, Proc

MB = 10**6
needs_reset = pytest.mark.skipif(clear_refs_reason() is not None, reason="no clear_refs here")


def _spike(size_bytes, hold_s=0.0):
    data = bytearray(size_bytes)
    for at in range(0, size_bytes, 4096):
        data[at] = 1
    if hold_s:
        time.sleep(hold_s)
    del data


@pytest.mark.alone
@needs_reset
@pytest.mark.parametrize("size", [50 * MB, 100 * MB, 300 * MB])
def test_a_short_spike_is_seen_within_2_mb(lab, size):
    session = lab(exact_peak=True).session
    _spike(400 * MB)  # an earlier, higher peak must not show
    running = session.begin("t", "g")
    _spike(size, hold_s=0.005)
    session.end(running)
    readings = running.readings
    assert readings["peak_memory_kind"] == "exact"
    assert abs(readings["peak_memory_bytes"] - size) <= 2 * MB
    assert readings["start_memory_bytes"] > 0


@pytest.mark.alone
@needs_reset
def test_a_parents_peak_is_the_maximum_over_nested_resets(lab):
    session = lab(exact_peak=True).session
    parent = session.begin("p", "p")
    _spike(120 * MB)
    child = session.begin("c", "c")
    _spike(60 * MB)
    session.end(child)
    _spike(30 * MB)
    session.end(parent)
    assert abs(child.readings["peak_memory_bytes"] - 60 * MB) <= 2 * MB
    assert abs(parent.readings["peak_memory_bytes"] - 120 * MB) <= 2 * MB
    other = session.begin("p2", "p")
    inner = session.begin("c2", "c")
    _spike(150 * MB)
    session.end(inner)
    session.end(other)
    assert abs(other.readings["peak_memory_bytes"] - 150 * MB) <= 2 * MB
    assert {r.readings["peak_memory_kind"] for r in (parent, child, other, inner)} == {"exact"}


@pytest.mark.alone
@needs_reset
def test_a_peak_that_another_meter_wiped_out_is_known(lab):
    """The gate and a trace in one worker: both reset the kernel's one peak."""
    session = lab(exact_peak=True).session
    other = PeakMeter(Proc(Own()), exact=True)
    try:
        running = session.begin("t", "g")
        _spike(90 * MB)
        other.reset()
        _spike(40 * MB)
        session.end(running)
        assert abs(running.readings["peak_memory_bytes"] - 90 * MB) <= 2 * MB
        other.reset()
        before = Proc(Own()).rss_bytes()
        after = session.begin("u", "g")
        _spike(60 * MB)
        session.end(after)
        session.begin("v", "g")  # resets
        assert abs(other.missed_bytes - before - 60 * MB) <= 3 * MB
        other.reset()
        assert other.missed_bytes == 0
    finally:
        other.close()


@pytest.mark.alone
@needs_reset
def test_four_threads_get_a_bound_that_holds(lab):
    session = lab(exact_peak=True).session
    true = {"load": 60 * MB, "join": 180 * MB, "agg": 20 * MB}
    results = []
    lock = threading.Lock()
    start = threading.Barrier(4)

    def work(thread):
        start.wait()
        for step in range(4):
            group = ("load", "join", "agg")[(thread + step) % 3]
            running = session.begin(f"{group}-{thread}-{step}", group)
            _spike(true[group], hold_s=0.002 * (thread + 1))
            session.end(running)
            with lock:
                results.append((group, running.readings))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    kinds = {readings["peak_memory_kind"] for _, readings in results}
    assert kinds <= {"exact", "upper_bound"} and "upper_bound" in kinds
    for group, readings in results:
        peak, kind = readings["peak_memory_bytes"], readings["peak_memory_kind"]
        if true[group] < 60 * MB:
            continue  # the allocator may hand out again what an earlier task gave back
        if kind == "exact":
            assert abs(peak - true[group]) <= 0.25 * true[group]
        else:
            assert peak >= true[group] - 2 * MB
    assert any(readings["concurrency"] > 1 for _, readings in results)


@pytest.mark.alone
def test_without_resets_a_new_maximum_is_still_exact(lab):
    session = lab().session
    _, highest = memory.usage()
    rss = session.prober.proc.rss_bytes()
    if rss is None:
        pytest.skip("no /proc")
    running = session.begin("t", "g")
    _spike(highest - rss + 40 * MB)
    session.end(running)
    assert running.readings["peak_memory_kind"] == "exact"
    assert running.readings["peak_memory_bytes"] == pytest.approx(highest - rss + 40 * MB, abs=3e6)
    again = session.begin("t2", "g")
    _spike(20 * MB)
    session.end(again)
    assert again.readings["peak_memory_kind"] == "lower_bound"


def test_a_sampler_makes_it_sampled(lab):
    session = lab().session
    running = session.begin("t", "g")
    session.sample_rss()
    session.prober.sample(running.start_memory_bytes + 5 * MB)
    session.end(running)
    assert running.readings["peak_memory_kind"] == "sampled"
    assert running.readings["peak_memory_bytes"] >= 5 * MB


@pytest.mark.alone
@needs_reset
def test_a_floor_under_ru_maxrss_is_seen_through():
    proc = Proc(Own())
    meter = PeakMeter(proc, exact=True)
    meter._usage_floor_bytes = 1 << 60
    meter.reset()
    _spike(50 * MB)
    assert meter.true_peak(memory.usage()[1]) == proc.hwm_bytes()
    meter.close()
    assert not meter.exact


def test_no_clear_refs_is_said(monkeypatch):
    monkeypatch.setattr(memory.os.path, "exists", lambda path: False)
    assert "clear_refs" in clear_refs_reason()
    assert not PeakMeter(Proc(Own()), exact=True).exact
    monkeypatch.setattr(memory.os.path, "exists", lambda path: True)
    monkeypatch.setattr(memory.os, "access", lambda path, mode: False)
    assert "writable" in clear_refs_reason()


def test_bounds_are_never_negative():
    result = bound(
        exact=True,
        shared=True,
        peak_bytes=5,
        new_max=False,
        start_bytes=10,
        base_bytes=20,
        sampled=False,
    )
    assert result == (0, "upper_bound")
