"""Advice on disk and GPU memory: as that on memory, with fewer chances to be killed."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rotameter.allocator.advice import Advice, advise
from rotameter.allocator.by_resource import advise_on, needs_of
from rotameter.allocator.resources import DISK, GPU_MEMORY, RESOURCES
from rotameter.allocator.workload import Workload
from rotameter.profiler.trace import Trace

GB = 10**9
COLUMNS = {
    "disk": ("peak_disk_bytes", "peak_disk_kind", "requested_disk_bytes", "granted_disk_bytes",
             "SANDBOX_EXHAUSTION"),
    "gpu_memory": ("gpu_peak_bytes", "gpu_kind", "requested_gpu_memory_bytes",
                   "granted_gpu_memory_bytes", "torch.OutOfMemoryError: CUDA out of memory."),
}  # fmt: skip
BOTH = pytest.mark.parametrize("name", ["disk", "gpu_memory"])


def runs(name: str, needs: list[float], asked: float | None = 100, **more: Any) -> list[Any]:
    """Make completed tasks; GB."""
    peak, kind, wanted, _, _ = COLUMNS[name]
    row = {"group": "g", "outcome": "ok", "wall_s": 3600.0, kind: "sampled"}
    if asked is not None:
        row[wanted] = round(asked * GB)
    return [
        {**row, "task_id": f"t{k}", peak: round(need * GB), **more} for k, need in enumerate(needs)
    ]


def dead(name: str, had: float, task: str = "dead") -> dict[str, Any]:
    _, _, _, granted, error = COLUMNS[name]
    return {"task_id": task, "group": "g", "outcome": "failed", "wall_s": 60.0, "error": error,
            granted: round(had * GB)}  # fmt: skip


def advised(name: str, rows: list[Any], **more: Any) -> Advice:
    (made,) = advise_on(needs_of(Trace.from_tables({"tasks": rows}), name), **more)
    return made


@BOTH
def test_the_largest_use_with_headroom_and_what_is_held(name: str) -> None:
    made = advised(name, runs(name, [20.0] * 8 + [30.0]))
    assert (made.asked, made.most) == (100 * GB, 30 * GB)
    assert (made.request, *made.retries) == pytest.approx((33 * GB, 66 * GB, 132 * GB))
    assert made.kill_ratio == 0.0 and made.asked_held == pytest.approx(900.0)
    assert made.advised_held == pytest.approx(9 * 33.0)
    assert made.reason == "the largest of 9 runs used 30 GB; 10 % is added"


@BOTH
def test_none_may_run_out_where_nothing_is_said(name: str) -> None:
    rows = runs(name, [20.0] * 995 + [90.0] * 5)
    assert advised(name, rows).request == pytest.approx(99 * GB)
    assert advised(name, rows, max_kill=0.01).request == pytest.approx(22 * GB)


@BOTH
def test_an_attempt_that_ran_out_of_it_needs_more(name: str) -> None:
    rows = [*runs(name, [20.0] * 9), dead(name, 40.0)]
    made = advised(name, rows)
    assert (made.killed, made.killed_with, made.lacking) == (1, 40 * GB, 1)
    assert made.request == pytest.approx(44 * GB)
    assert f"1 attempt ran out of {RESOURCES[name].word} with 40 GB" in made.reason
    alone = advised(name, [dead(name, 40.0)])
    assert (alone.request, alone.at_least, alone.guess) == (None, 40 * GB, 80 * GB)


@pytest.mark.parametrize(
    "error", ["OSError: [Errno 28] No space left on device", "ValueError: disk", None]
)
def test_a_full_disk_or_any_other_error_is_nothing_of_its_own(error: str | None) -> None:
    rows = [*runs("disk", [20.0] * 9), {**dead("disk", 40.0), "error": error}]
    assert advised("disk", rows).killed == 0


@BOTH
def test_floors_and_limits(name: str) -> None:
    made = advised(name, runs(name, [0.01] * 9))
    assert made.request == (1 * GB if name == "disk" else pytest.approx(0.011 * GB))
    assert advised(name, runs(name, [0.01] * 9), floor=0.0).request == pytest.approx(0.011 * GB)
    assert advised(name, runs(name, [20.0] * 9), most=21e9).request == 21e9


@BOTH
def test_bounds_are_no_needs(name: str) -> None:
    kind = COLUMNS[name][1]
    bound = runs(name, [20.0] * 9, **{kind: "upper_bound"})
    assert advised(name, bound).keep == "only upper bounds of its use are known"
    lower = Trace.from_tables({"tasks": runs(name, [20.0] * 9, **{kind: "lower_bound"})})
    assert not len(needs_of(lower, name))
    some = [*runs(name, [20.0] * 8), {**bound[0], "task_id": "b"}]
    assert RESOURCES[name].counted in advised(name, some).reason
    assert advised(name, runs(name, [99.0] * 9)).keep == "only upper bounds of its use are known"


@BOTH
def test_nothing_used_is_a_use(name: str) -> None:
    made = advised(name, runs(name, [0.0] * 9))
    # A request for none of a GPU's memory means nothing.
    assert (made.most, made.request) == (0, DISK.floor if name == "disk" else None)
    assert advised(name, runs(name, [0.0] * 9), floor=0.0).request == (0 if made.request else None)
    # Half used nothing: growth from nothing is no infinite one.
    grown = advised(name, runs(name, [0.0] * 10 + [2.0] * 10))
    assert grown.request == pytest.approx(2 * 1.1 * 1.5 * GB)


@BOTH
@pytest.mark.parametrize(
    ("rows", "keep"),
    [
        ([5.0], "fewer than 5 runs"),
        ([5.0] * 4, "fewer than 5 runs"),
        ([-1.0] * 4 + [5.0] * 4, "fewer than 5 runs"),
    ],
)
def test_too_few_are_kept(name: str, rows: list[float], keep: str) -> None:
    assert advised(name, runs(name, rows)).keep == keep


@BOTH
def test_all_equal_and_no_duration(name: str) -> None:
    assert advised(name, runs(name, [5.0] * 9)).request == pytest.approx(5.5 * GB)
    for wall in (0.0, -1.0, math.nan, math.inf, None):
        odd = [{**runs(name, [50.0])[0], "task_id": "odd", "wall_s": wall}]
        made = advised(name, [*runs(name, [5.0] * 9), *odd])
        assert (made.runs, made.most) == (9, 5 * GB)


@BOTH
@pytest.mark.parametrize("asked", [0, -5])
def test_requests_that_are_none_are_not_known(name: str, asked: int) -> None:
    made = advised(name, runs(name, [5.0] * 9, asked=asked))
    assert made.asked is None and made.request == pytest.approx(5.5 * GB)


@BOTH
def test_of_a_trace_without_it_nothing_is_known(name: str) -> None:
    work = needs_of(Trace.from_tables({"tasks": [{"task_id": "a", "outcome": "ok"}]}), name)
    assert (len(work), work.lacks, work.resource.name) == (0, (), name)
    assert advise_on(work) == []


@pytest.mark.parametrize("name", sorted(RESOURCES))
def test_ten_thousand_groups_of_one_task(name: str) -> None:
    rows = [
        {"task_id": str(k), "group": f"g{k}", "outcome": "ok", "wall_s": 60.0, "cpu_s": 60.0,
         "peak_memory_bytes": GB, "peak_memory_kind": "exact", "peak_disk_bytes": GB,
         "gpu_peak_bytes": GB, "requested_cores": 8.0, "requested_gpus": 1.0, "gpu_s": 0.0}
        for k in range(10_000)
    ]  # fmt: skip
    trace = Trace.from_tables({"tasks": rows}, {"engine": "slurm"})
    began = time.perf_counter()
    made = advise_on(needs_of(trace, name))
    assert time.perf_counter() - began < 20
    assert len(made) == 10_000 and all(one.request is None and one.keep for one in made)


@pytest.mark.parametrize("resource", [DISK, GPU_MEMORY])
def test_a_need_beyond_any_machine_asks_for_all_of_it(resource: Any) -> None:
    nan = np.full(9, np.nan)
    work = Workload("w", np.zeros(9, int), ("g",), np.full(9, 1e15), np.ones(9), nan, nan)
    (made,) = advise(replace(work, resource=resource), most=1e12)
    assert made.request == 1e12 and made.kill_ratio == 1.0
    assert made.reason.endswith(f"no more than {resource.room} 1 TB")


@BOTH
def test_what_was_measured_of_one_that_ran_out_or_failed_is_needed(name: str) -> None:
    peak, _, _, granted, _ = COLUMNS[name]
    out = {**dead(name, 1.0), granted: None, peak: 60 * GB}
    made = advised(name, [*runs(name, [20.0] * 9, None), out])
    assert (made.killed, made.killed_with) == (1, 60 * GB) and made.request >= 66 * GB
    failed = {**out, "error": "ValueError: no"}
    made = advised(name, [*runs(name, [20.0] * 9, None), failed])
    assert made.killed == 0 and made.request == pytest.approx(66 * GB)


def test_no_gpu_memory_is_asked_for_by_none() -> None:
    made = advised("gpu_memory", runs("gpu_memory", [0.0] * 9, None))
    assert (made.request, made.keep, made.kill_interval) == (None, "no run used any", None)
    assert advised("disk", runs("disk", [0.0] * 9)).request == DISK.floor
    assert (advised("gpu_memory", runs("gpu_memory", [0.0] * 8 + [1.0])).request or 0) > 0
