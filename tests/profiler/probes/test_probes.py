"""Each probe on its own, and as a plug-in of a session."""

from __future__ import annotations

import os
import time
from importlib.metadata import entry_points
from types import SimpleNamespace

import pytest

from rotameter.profiler.live.clock import Clock
from rotameter.profiler.probes import cpu, files, io, memory, wall

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="no /proc")


def test_wall():
    now = iter([5, 2_000_000_005])
    probe = wall.Probe(Clock(wall=lambda: next(now)))
    assert probe.stop(probe.start(None)) == {"wall_s": 2.0}


def test_cpu():
    probe = cpu.Probe()
    token = probe.start(None)
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    readings = probe.stop(token)
    assert 0.02 <= readings["cpu_s"] <= readings["process_cpu_s"] + 1e-3


@needs_proc
@pytest.mark.parametrize("shared", [False, True])
def test_io_to_the_byte(tmp_path, shared):
    probe = io.Probe()
    for size in (0, 1, 64, 100_000):
        token = probe.start(SimpleNamespace(shared=shared))
        (tmp_path / "x").write_bytes(b"x" * size)
        readings = probe.stop(token)
        kind = "lower_bound" if shared else "exact"
        assert readings == {"read_bytes": 0, "write_bytes": size, "io_kind": kind}


@needs_proc
@pytest.mark.parametrize("exact", [False, True])
def test_memory(exact):
    probe = memory.Probe(exact_peak=exact)
    token = probe.start(None)
    data = bytearray(b"x") * 150_000_000
    del data
    readings = probe.stop(token)
    assert readings["start_memory_bytes"] > 0
    if readings["peak_memory_kind"] == "exact":
        assert readings["peak_memory_bytes"] == pytest.approx(150e6, abs=3e6)


def test_files_without_a_trace():
    probe = files.Probe()
    assert probe.stop(probe.start(None)) == {"counted_file_bytes": None}


def test_all_are_registered():
    found = {entry.name: entry for entry in entry_points(group="rotameter.probes")}
    for name in ("wall", "cpu", "io", "memory", "files"):
        probe = found[name].load()()
        readings = probe.stop(probe.start(None))
        assert set(probe.columns) <= set(readings)
