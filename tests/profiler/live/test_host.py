"""Samples of host and process, and what a container grants."""

from __future__ import annotations

import pytest

from rotameter.profiler.live import host
from rotameter.profiler.live.clock import Clock
from rotameter.profiler.live.host import HostSampler, granted_cores, memory_limit_bytes


class Times:
    def __init__(self):
        self.now = 10**9

    def clock(self):
        return Clock(lambda: self.now, lambda: self.now, lambda: 0, lambda: self.now // 2)


def test_a_tick_samples_everything_and_two_a_second_are_enough(lab):
    times = Times()
    traced = lab(clock=times.clock())
    sampler = HostSampler(traced.session, subject="w", host=True)
    sampler.tick()
    sampler.tick()  # at once: nothing
    first = traced.rows("samples")
    times.now += 500_000_000
    sampler.tick()
    rows = traced.rows("samples")
    names = {row["metric"] for row in rows}
    assert len({row["at_ns"] for row in first}) == 1
    if "process_rss_bytes" not in names:
        pytest.skip("no /proc")
    assert {"memory_used_bytes", "memory_available_bytes"} <= names
    assert {"network_receive_bytes_per_s", "disk_write_bytes_per_s"} <= names
    cores = [row["value"] for row in rows if row["metric"] == "process_cpu_cores"]
    assert cores == [0.5]
    assert all(row["value"] >= 0 for row in rows)
    assert {row["subject"] for row in rows} == {"w", "here"}
    assert all(row["value"] <= 1 for row in rows if row["metric"] == "cpu_ratio")


def test_without_host_only_the_process(lab):
    traced = lab()
    HostSampler(traced.session, subject="w", host=False).tick()
    assert {row["subject"] for row in traced.rows("samples")} <= {"w"}


def test_a_tick_tells_running_tasks(lab):
    traced = lab()
    running = traced.session.begin("t", "g")
    HostSampler(traced.session, subject="w").tick()
    assert running.ticks == 1
    traced.session.end(running)


def test_disks_count_each_once():
    text = """
   8       0 sda 10 0 100 0 5 0 50 0 0 0 0
   8       1 sda1 10 0 100 0 5 0 50 0 0 0 0
 259       0 nvme0n1 1 0 8 0 1 0 4 0 0 0 0
 259       1 nvme0n1p1 1 0 8 0 1 0 4 0 0 0 0
 253       0 dm-0 10 0 100 0 5 0 50 0 0 0 0
   7       0 loop0 10 0 100 0 5 0 50 0 0 0 0
"""
    assert host.parse_disks(text) == (108 * 512, 54 * 512)


def _write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_cgroup_v2_takes_the_tightest_of_the_ancestors(tmp_path):
    _write(
        tmp_path,
        {
            "a/b/memory.max": "max\n",
            "a/memory.max": "1000000\n",
            "a/b/cpu.max": "max 100000\n",
            "a/cpu.max": "50000 100000\n",
        },
    )
    text = "0::/a/b\n"
    assert memory_limit_bytes(str(tmp_path), text) == 1_000_000
    assert granted_cores(str(tmp_path), text) == 0.5


def test_cgroup_v1(tmp_path):
    _write(
        tmp_path,
        {
            "memory/job/memory.limit_in_bytes": "2000000\n",
            "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
            "cpu/job/cpu.cfs_quota_us": "25000\n",
            "cpu/job/cpu.cfs_period_us": "100000\n",
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    text = "5:cpu,cpuacct:/job\n4:memory:/job\n0::/\n"
    assert memory_limit_bytes(str(tmp_path), text) == 2_000_000
    assert granted_cores(str(tmp_path), text) == 0.25


def test_no_cgroup_is_the_machine(tmp_path):
    assert (memory_limit_bytes(str(tmp_path), "") or 1) > 0
    assert (granted_cores(str(tmp_path), "garbage\n\n") or 1) > 0
