"""Where a device's time went: small cases by hand, and generated ones against brute force."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.devices import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    NEVER,
    NO_ACTIVITY,
    Host,
    Work,
    analyse,
    smaller,
)
from rotameter.profiler.devices.bounds import fully_overlapped, host_activity
from rotameter.profiler.devices.breakdown import breakdown, launched_in_steps
from rotameter.profiler.devices.idle import device_idle, host_wait_before, stream_idle
from rotameter.profiler.devices.kernels import kernels, limiter, occupancy_limit
from rotameter.profiler.devices.queue import queue_lengths
from rotameter.profiler.devices.transfers import call_mode, classify, fastest, transfers

US = 1000
NAMES = ("gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync",
         "elementwise", "Memcpy DtoD (Device -> Device)")  # fmt: skip
A100 = {"maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536,
        "sharedMemPerMultiprocessor": 167936, "warpSize": 32, "name": "A100"}  # fmt: skip
NO_HOST = Host(*(np.zeros(0, dtype=np.int64) for _ in range(3)),
               *(np.zeros(0, dtype=bool) for _ in range(2)))  # fmt: skip
NO_STEPS = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def work(rows: list[dict[str, Any]]) -> Work:
    """Rows of microseconds: at, us, and what is not usual."""

    def column(key: str, usual: Any) -> Any:
        return np.array([row.get(key, usual) for row in rows], dtype=np.int64)

    start = column("at", 0) * US
    launch = [NEVER if row.get("launch") is None else row["launch"] * US for row in rows]
    keys = ("bytes", "bandwidth", "occupancy", "blocks_per_sm", "registers", "shared_memory",
            "threads")  # fmt: skip
    return Work(
        start,
        start + column("us", 0) * US,
        column("kind", COMPUTE),
        column("name", 0),
        column("device", 0),
        column("stream", 7),
        np.array(launch, dtype=np.int64),
        column("call", -1),
        NAMES,
        {key: np.array([row.get(key, math.nan) for row in rows], dtype=float) for key in keys},
    )


def test_overlap_and_exposed_communication():
    made = breakdown(
        work([
            {"at": 0, "us": 10},
            {"at": 6, "us": 10, "kind": COMMUNICATION, "stream": 20},
            {"at": 20, "us": 5, "kind": COPY},
        ])
    )  # fmt: skip
    assert made["window_s"] == 25e-6 and made["busy_s"] == 21e-6 and made["idle_s"] == 4e-6
    assert made["overlap_s"] == 4e-6 and made["exposed_communication_s"] == 6e-6
    assert made["shares"]["overlap_of_communication"] == 0.4
    assert made["exactly_s"] == {
        "compute": 6e-6, "communication": 6e-6, "compute+communication": 4e-6, "copy": 5e-6,
    }  # fmt: skip


def test_work_launched_before_recording_is_left_out_with_two_steps():
    rows = work([{"launch": None}, {"launch": 5}, {"launch": 50}])
    steps = np.array([0, 20]) * US, np.array([20, 40]) * US
    assert launched_in_steps(rows, *steps).tolist() == [False, True, False]
    assert launched_in_steps(rows, steps[0][:1], steps[1][:1]) is None
    assert launched_in_steps(work([{}]), *steps) is None  # no launch known at all


ONE_OF_THREE_STEPPED = [
    {"at": 0, "us": 40, "name": 0},  # launched before recording began
    {"at": 200, "us": 10, "name": 0, "launch": 150},
    {"at": 400, "us": 10, "name": 0},
]


def test_whole_counts_what_the_steps_did_not_launch():
    steps = np.array([100, 200]) * US, np.array([200, 300]) * US
    (one,) = analyse(work(ONE_OF_THREE_STEPPED), NO_HOST, steps, {})["devices"]
    assert one["breakdown"]["left_out"] == 2 and one["breakdown"]["window_s"] == 10e-6
    whole = one["whole"]
    assert whole["busy_s"] == one["busy_s"] == 60e-6
    assert whole["window_s"] == one["window_s"] == 410e-6
    assert whole["shares"]["busy"] == one["utilisation"]
    assert "busy 14.6 %" in analyse(work(ONE_OF_THREE_STEPPED), NO_HOST, steps, {})["words"]


def test_only_what_lies_in_the_run_is_in_it():
    steps = np.array([100, 200]) * US, np.array([200, 300]) * US
    run = 20 * US, 300 * US
    (one,) = analyse(work(ONE_OF_THREE_STEPPED), NO_HOST, steps, {}, run)["devices"]
    there = one["in_run"]
    assert there["window_s"] == 280e-6 and there["busy_s"] == 30e-6
    causes = there["idle_causes"]
    # The gap that ends after the run counts as far as the run lasts.
    assert (causes["host_wait_s"], causes["other_s"]) == (160e-6, 90e-6)
    assert causes["idle_s"] == there["idle_s"] == 250e-6
    assert there["fully_overlapped"]["saving_s"] <= 280e-6
    (one,) = analyse(work(ONE_OF_THREE_STEPPED), NO_HOST, steps, {}, (US * 900, US * 950))[
        "devices"
    ]
    assert one["in_run"] is None


def test_causes_of_idle_time():
    rows = work([
        {"at": 0, "us": 10, "launch": -5},
        {"at": 30, "us": 10, "launch": 25},  # launched while the stream had nothing: 20
        {"at": 45, "us": 10, "launch": 26},  # launched in time, short: 5
        {"at": 100, "us": 10, "launch": 27},  # launched in time, long: 45
        {"at": 120, "us": 1, "launch": None},  # nobody knows, short: 10
    ])  # fmt: skip
    made = device_idle(rows)
    assert (made["host_wait_s"], made["kernel_wait_s"], made["other_s"]) == (20e-6, 15e-6, 45e-6)
    assert made["idle_s"] == 80e-6
    (stream,) = stream_idle(rows)
    assert stream["shares"]["host_wait"] == 0.25 and stream["count"] == 5
    assert host_wait_before(rows).tolist() == [0, 20 * US, 0, 0, 0]


def test_a_queue_grows_with_launches_and_a_graph_waits_as_one():
    made = queue_lengths(
        work([
            {"at": 10, "us": 1, "launch": 0},
            {"at": 12, "us": 1, "launch": 1},
            {"at": 13, "us": 1, "launch": 1},  # the same call
            {"at": 1, "us": 1, "launch": 2, "stream": 8},  # a clock that is off
            {"at": 1, "us": 1, "stream": 9},
        ])
    )  # fmt: skip
    assert [(row["stream"], row["points"], row["max"]) for row in made] == [
        (7, 4, 2), (8, 2, 1), (9, 0, None)]  # fmt: skip
    assert made[0]["time_mean"] == pytest.approx((1 * 1 + 9 * 2 + 2 * 1) / 12, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "kind", "memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "pinned"),
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "pageable"),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "none"),
        ("Memcpy PtoP (Device -> Device)", "PtoP", "none"),
        ("Memcpy HtoH (Pageable -> Pageable)", "HtoH", "pageable"),
        ("Memcpy HtoD (Host -> Device)", "HtoD", "unknown"),
        ("CopyHostToDevice", "HtoD", "unknown"),
        ("CopyDeviceToDevice", "DtoD", "none"),
        ("Memset (Device)", "memset", "none"),
        ("Memset (Unknown)", "memset", "unknown"),
        ("FillBuffer", "memset", "unknown"),
        ("Memcpy ???", "unknown", "unknown"),
    ],
)
def test_copies_are_classified(name, kind, memory):
    assert classify(name) == (kind, memory)


def test_modes_of_calls():
    assert call_mode("cuMemcpyHtoDAsync_v2") == "async" and call_mode("hipMemcpy") == "sync"
    assert call_mode("cudaLaunchKernel") == "async" and call_mode("something") == "unknown"


def test_transfers_add_up():
    rows = work([
        {"at": 0, "us": 10, "kind": COPY, "name": 2, "bytes": 1e6, "call": 3},
        {"at": 10, "us": 10, "kind": COPY, "name": 2, "bytes": 3e6, "call": 3},
        {"at": 30, "us": 10, "kind": COPY, "name": 5},
        {"at": 30, "us": 10},
    ])  # fmt: skip
    made = transfers(rows)
    inside, to_device = made["classes"]
    assert (inside["kind"], inside["bytes"], inside["mode"]) == ("DtoD", None, "unknown")
    assert (to_device["memory"], to_device["mode"], to_device["bytes"]) == (
        "pinned", "async", 4_000_000)  # fmt: skip
    assert to_device["mean_bytes_per_s"] == 200_000_000_000  # 4 MB in 20 µs
    assert to_device["max_bytes_per_s"] == 300_000_000_000
    assert made["host_bytes"] == 4_000_000 and made["count"] == 3 and made["unknown"] == 0
    width = made["series"]["HtoD"][1][0] - made["series"]["HtoD"][0][0]
    assert sum(rate for _, rate in made["series"]["HtoD"]) * width == pytest.approx(4e6, rel=0.01)


def test_kernels_are_ranked_and_limiters_named():
    rows = work([
        {"at": 0, "us": 100, "launch": 0, "occupancy": 10, "blocks_per_sm": 9, "name": 4},
        {"at": 200, "us": 300, "launch": 0, "occupancy": 10, "blocks_per_sm": 9, "name": 0},
        {"at": 900, "us": 5, "launch": 890, "kind": COMMUNICATION, "name": 1},
        {"at": 950, "us": 5, "launch": 940, "name": 3},
    ])  # fmt: skip
    made = kernels(rows, A100)
    got = {row["name"]: row["limiter"] for row in made["top"]}
    assert got == {
        "gemm": "unknown",  # few threads on purpose
        "elementwise": "occupancy",
        "ncclDevKernel_AllReduce": "communication",
        "cudaMemcpyAsync": "launch-bound",
    }
    assert [row["total_s"] for row in made["top"]] == [300e-6, 100e-6, 5e-6, 5e-6]
    assert sum(made["limited"].values()) == pytest.approx(410e-6)
    assert made["top"][0]["occupancy_limit"] is None  # no threads given


def test_an_occupancy_of_zero_is_no_reading():
    made = kernels(work([{"us": 5, "occupancy": 0, "blocks_per_sm": 4}]), {})
    assert made["top"][0]["occupancy"] is None and made["top"][0]["limiter"] == "unknown"


def test_bytes_tell_memory_from_compute():
    usual = {"communicates": False, "matrix": False, "total_ns": 10.0, "host_wait_ns": 0.0,
             "occupancy": 90.0, "blocks_per_sm": 9.0}  # fmt: skip
    assert limiter(**usual, rate=9e11, peak=1e12)[0] == "memory-bound"
    assert limiter(**usual, rate=1e11, peak=1e12)[0] == "compute-bound"
    assert limiter(**usual, rate=math.nan, peak=1e12)[0] == "unknown"
    assert limiter(**usual, rate=1e11, peak=None)[0] == "unknown"
    copies = work([{"us": 10, "kind": COPY, "name": 5, "bytes": 8e6}])
    assert fastest(copies) == pytest.approx(8e11) and fastest(work([{}])) is None


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks_per_sm", "limit"),
    [
        (128, 240, 98304, 9, "shared memory"),  # one block by memory, two by registers
        (128, 240, 0, 9, "registers"),
        (1024, 32, 0, 9, "threads"),
        (256, 16, 0, 0.5, "grid"),
        (256, 16, 0, 7, "grid"),  # eight fit, seven there
        (math.nan, math.nan, math.nan, math.nan, None),
    ],
)
def test_what_limits_occupancy(threads, registers, shared, blocks_per_sm, limit):
    assert occupancy_limit(threads, registers, shared, blocks_per_sm, A100) == limit


def test_host_threads_and_the_bound():
    i = np.array
    host = Host(
        i([0, 5, 0]) * US, i([10, 20, 8]) * US, i([1, 1, 2]), i([True, False, True]),
        i([False, True, False]),
    )  # fmt: skip
    made = host_activity(host)
    assert made["threads"] == 2 and made["op_s"] == 18e-6 and made["wait_s"] == 15e-6
    assert made["busiest_s"] == 8e-6  # the first thread waits from 5 on
    assert host_activity(host, (4 * US, 6 * US))["busiest_s"] == 2e-6
    parts = {"window_s": 10.0, "compute_s": 3.0, "communication_s": 4.0, "copy_s": 1.0}
    made = fully_overlapped(parts, 2.0)
    assert (made["bound_s"], made["by"], made["saving_share"]) == (4.0, "communication", 0.6)


def test_nothing_is_null_with_words():
    made = analyse(work([]), NO_HOST, NO_STEPS, {})
    assert made["utilisation"] is None and made["words"] == NO_ACTIVITY and made["devices"] == []


rows_of_work = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 60),
            "us": st.integers(0, 20),
            "kind": st.sampled_from([COMPUTE, COMMUNICATION, COPY]),
            "device": st.integers(0, 1),
            "stream": st.integers(1, 3),
            "name": st.integers(0, 5),
            "launch": st.one_of(st.none(), st.integers(0, 60)),
            "bytes": st.sampled_from([math.nan, 0.0, 4096.0]),
        }
    ),
    min_size=1,
    max_size=15,
)


@given(rows_of_work)
def test_shares_against_counting_every_microsecond(rows):
    made = analyse(work(rows), NO_HOST, NO_STEPS, {0: A100})
    json.dumps(made, allow_nan=False)
    json.dumps(smaller(made), allow_nan=False)
    for device in made["devices"]:
        mine = [row for row in rows if row["device"] == device["device"]]
        on = {
            kind: {t for r in mine if r["kind"] == kind for t in range(r["at"], r["at"] + r["us"])}
            for kind in (COMPUTE, COMMUNICATION, COPY)
        }
        first = min(row["at"] for row in mine)
        last = max(row["at"] + row["us"] for row in mine)
        parts = device["breakdown"]
        busy = len(on[COMPUTE] | on[COMMUNICATION] | on[COPY])

        def us(number: int) -> Any:
            return pytest.approx(number * 1e-6, abs=1e-12)

        assert parts["window_s"] == us(last - first) and parts["busy_s"] == us(busy)
        assert device["busy_s"] == us(busy)
        assert parts["compute_s"] == us(len(on[COMPUTE]))
        assert parts["overlap_s"] == us(len(on[COMPUTE] & on[COMMUNICATION]))
        assert parts["exposed_communication_s"] == us(len(on[COMMUNICATION] - on[COMPUTE]))
        assert sum(parts["exactly_s"].values()) == us(busy)
        assert parts["idle_causes"]["idle_s"] == us(last - first - busy)
        assert device["utilisation"] is None or 0 <= device["utilisation"] <= 1
        bound = parts["fully_overlapped"]
        most = max(len(on[kind]) for kind in on)
        assert bound["bound_s"] == us(most) and bound["saving_s"] >= 0
        assert sum(row["count"] for row in device["transfers"]["classes"]) == sum(
            row["kind"] == COPY for row in mine
        )
