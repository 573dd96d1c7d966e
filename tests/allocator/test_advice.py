from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.allocator.advice import advise, kill_interval
from rotameter.allocator.workload import Workload, from_trace
from rotameter.profiler.trace import Trace

GB = 1e9


def work(needs: list[float], **more: Any) -> Workload:
    n = len(needs)
    blank = np.full(n, np.nan)
    return Workload(
        "w",
        np.asarray(more.pop("group", [0] * n)),
        ("load", "train"),
        np.asarray(needs) * GB,
        np.ones(n),
        np.asarray(more.pop("size", blank), dtype=float),
        np.asarray(more.pop("asked", blank), dtype=float),
        **more,
    )


def test_the_largest_with_headroom_where_few_runs_are_known() -> None:
    (made,) = advise(work([2.0] + [1.0] * 9), headroom=0.5)
    assert made.request_bytes == pytest.approx(3 * GB)
    assert made.kill_ratio == 0 and made.kill_interval is not None
    assert made.kill_interval[1] == pytest.approx(0.3085, abs=1e-3)
    assert made.retry_bytes == (6 * GB, 12 * GB)


def test_a_rare_large_need_is_left_to_a_retry_where_the_user_accepts_it() -> None:
    needs = [1.0] * 995 + [40.0] * 5
    (made,) = advise(work(needs), max_kill=0.01)
    assert made.request_bytes == pytest.approx(1.1 * GB)
    assert made.kill_ratio == pytest.approx(0.005)
    low, high = made.kill_interval or (0, 0)
    assert low < 0.005 < high < 0.012
    (made,) = advise(work(needs), max_kill=0.0)
    assert made.request_bytes == pytest.approx(44 * GB)


@pytest.mark.parametrize(
    ("needs", "more", "word"),
    [
        ([1.0] * 4, {}, "fewer than 5 runs"),
        ([1.0] * 9, {"size": [7.0] * 9}, "same input size"),
        ([1.0] * 9, {"at_most": np.ones(9, dtype=bool)}, "upper bounds"),
    ],
)
def test_what_does_not_carry_a_request_is_kept(needs: Any, more: Any, word: str) -> None:
    (made,) = advise(work(needs, **more))
    assert made.request_bytes is None and made.retry_bytes == () and word in made.keep


def test_what_grew_while_it_was_seen_is_expected_to_grow_once_more() -> None:
    grows = [1.0 + 0.01 * k for k in range(40)]
    (made,) = advise(work(grows), headroom=0.1)
    (flat,) = advise(work(grows[::-1]), headroom=0.1)
    assert flat.request_bytes == pytest.approx(1.1 * 1.39 * GB)
    assert made.request_bytes == pytest.approx(1.1 * 1.39 * GB * 1.17, rel=0.01)


def test_what_was_killed_with_so_much_asks_for_more() -> None:
    (made,) = advise(work([1.0] * 9, killed=((0, 4 * GB),)))
    assert made.request_bytes == pytest.approx(4.4 * GB)


def test_nothing_is_beyond_the_largest_machine() -> None:
    (made,) = advise(work([30.0] * 9), machine_bytes=32 * GB)
    assert made.request_bytes == 32 * GB and made.retry_bytes == ()


def test_the_group_that_holds_most_comes_first() -> None:
    made = advise(work([1.0] * 6 + [9.0] * 6, group=[0] * 6 + [1] * 6))
    assert [one.group for one in made] == ["train", "load"]


def test_intervals_of_rates() -> None:
    assert kill_interval(0, 10)[0] == 0.0 and kill_interval(10, 10)[1] == 1.0
    low, high = kill_interval(5, 10)
    assert low == pytest.approx(0.187, abs=1e-3) and high == pytest.approx(0.813, abs=1e-3)


def test_peaks_of_a_trace_at_the_limit_or_of_a_page_cache_carry_nothing() -> None:
    row = {"group": "g", "wall_s": 1.0, "outcome": "ok", "peak_memory_bytes": 990_000_000}
    at_limit = [
        {**row, "task_id": str(k), "requested_memory_bytes": 10**9, "peak_memory_kind": "exact"}
        for k in range(6)
    ]
    cached = [{**row, "task_id": str(k), "peak_memory_kind": "upper_bound"} for k in range(6)]
    for rows in (at_limit, cached):
        (made,) = advise(from_trace(Trace.from_tables({"tasks": rows})))
        assert "upper bounds" in made.keep
        source = "are as large as the request" if rows is at_limit else "include page cache"
        assert f"6 peaks {source}" in made.reason and made.at_most == 6
    dead = {"task_id": "x", "group": "g", "outcome": "oom", "requested_memory_bytes": 3 * 10**9}
    fine = [{**row, "task_id": str(k), "peak_memory_kind": "exact"} for k in range(6)]
    (made,) = advise(from_trace(Trace.from_tables({"tasks": [*fine, dead]})))
    assert made.request_bytes == pytest.approx(3.3e9)


def test_a_size_known_before_the_run_is_taken_from_the_features() -> None:
    rows = [
        {"task_id": str(k), "group": "g", "wall_s": 1.0, "outcome": "ok",
         "peak_memory_bytes": 10**9, "peak_memory_kind": "exact",
         "features": {"input_bytes": 5.0, "other": 1.0}}
        for k in range(6)
    ]  # fmt: skip
    work = from_trace(Trace.from_tables({"tasks": rows}))
    assert work.size.tolist() == [5.0] * 6
    assert "same input size" in advise(work)[0].keep


def test_held_with_the_request_is_what_trying_it_run_by_run_holds() -> None:
    (made,) = advise(work([1.0] * 995 + [9.0] * 5, asked=np.full(1000, 16 * GB)))
    assert (made.request_bytes, *made.retry_bytes) == (1.1 * GB, 2.2 * GB, 4.4 * GB)
    # What needs 9 GB is tried with 1.1, 2.2, 4.4, 8.8 and 17.6, each for a second.
    held = 1000 * 1.1 + 5 * (2.2 + 4.4 + 8.8 + 17.6)
    assert made.advised_gbh == pytest.approx(held / 3600)
    assert made.asked_gbh == pytest.approx(16_000 / 3600)
    assert made.used_gbh == pytest.approx((995 + 45) / 3600)
    assert made.enough_ratios == (0.995, 0.995, 0.995)


def test_what_was_not_asked_by_all_is_not_summed() -> None:
    asked = np.array([np.nan] + [2 * GB] * 8)
    (made,) = advise(work([1.0] * 9, asked=asked))
    assert made.asked_bytes == 2 * GB and made.asked_gbh is None


@pytest.mark.parametrize(
    ("needs", "more", "said"),
    [
        ([1.0] * 9, {}, "the largest of 9 runs used 1 GB; 10 % is added"),
        ([1.0] * 995 + [9.0] * 5, {},
         "all but 5 of 1,000 runs used 1 GB or less; 10 % is added; the others run again"),
        ([1.0] * 10 + [1.2] * 10, {}, "second, so 20 % is added once more"),
        ([1.0] * 9, {"killed": ((0, 4 * GB), (0, 3 * GB))},
         "2 attempts ran out of memory with up to 4 GB, so more than that is asked for"),
        ([1.0] * 9, {"at_most": np.arange(9) < 1},
         "1 peak is as large as the request"),
        ([63.0] * 9, {}, "no more than a machine's 64 GB"),
        ([1.0] * 4, {"killed": ((0, 4 * GB),)},
         "keep, because fewer than 5 runs (4 runs); 1 attempt ran out of memory with 4 GB"),
        ([1.0] * 9, {"size": [7.0] * 9}, "keep, because all runs had the same input size (9 runs)"),
    ],
)  # fmt: skip
def test_the_reason_says_what_makes_the_request(needs: Any, more: Any, said: str) -> None:
    (made,) = advise(work(needs, **more), machine_bytes=64 * GB)
    assert said in made.reason
    assert (made.request_bytes is None) == made.reason.startswith("keep, because")


def test_attempts_killed_with_an_unknown_grant_are_told_of() -> None:
    rows = [
        {"task_id": str(k), "group": "g", "wall_s": 1.0, "outcome": "ok",
         "peak_memory_bytes": 10**9, "peak_memory_kind": "exact"}
        for k in range(6)
    ]  # fmt: skip
    dead = [{"task_id": f"x{k}", "group": "g", "outcome": "oom"} for k in range(3)]
    (made,) = advise(from_trace(Trace.from_tables({"tasks": [*rows, *dead]})))
    assert (made.killed, made.killed_bytes) == (3, None)
    assert "3 attempts ran out of memory, with how much is not known" in made.reason
    assert made.request_bytes == pytest.approx(1.1e9)


@pytest.mark.parametrize(("killed", "runs"), [(0, 1), (0, 37), (37, 37), (1, 9), (5, 1000)])
def test_intervals_are_those_of_scipy(killed: int, runs: int) -> None:
    from scipy.stats import binomtest

    known = binomtest(killed, runs).proportion_ci(0.95, method="exact")
    assert kill_interval(killed, runs) == pytest.approx((known.low, known.high), abs=1e-12)
