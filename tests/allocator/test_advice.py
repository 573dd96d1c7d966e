from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.adapters.advising import write
from rotameter.allocator.advice import advise, kill_interval
from rotameter.allocator.recorded import from_trace
from rotameter.allocator.recorded_time import time_from_trace
from rotameter.allocator.workload import Workload
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
    assert made.request == pytest.approx(3 * GB)
    assert made.kill_ratio == 0 and made.kill_interval is not None
    assert made.kill_interval[1] == pytest.approx(0.3085, abs=1e-3)
    assert made.retries == (6 * GB, 12 * GB)


def test_a_rare_large_need_is_left_to_a_retry_where_the_user_accepts_it() -> None:
    needs = [1.0] * 995 + [40.0] * 5
    (made,) = advise(work(needs), max_kill=0.01)
    assert made.request == pytest.approx(1.1 * GB)
    assert made.kill_ratio == pytest.approx(0.005)
    low, high = made.kill_interval or (0, 0)
    assert low < 0.005 < high < 0.012
    (made,) = advise(work(needs), max_kill=0.0)
    assert made.request == pytest.approx(44 * GB)


def test_a_tenth_more_is_no_byte_above_it() -> None:
    (made,) = advise(work([3.0] * 9))
    assert (made.request, made.retries) == (3_300_000_000, (6_600_000_000, 13_200_000_000))


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
    assert made.request is None and made.retries == () and word in made.keep


def test_what_grew_while_it_was_seen_is_expected_to_grow_once_more() -> None:
    grows = [1.0 + 0.01 * k for k in range(40)]
    (made,) = advise(work(grows), headroom=0.1)
    (flat,) = advise(work(grows[::-1]), headroom=0.1)
    assert flat.request == pytest.approx(1.1 * 1.39 * GB)
    assert made.request == pytest.approx(1.1 * 1.39 * GB * 1.17, rel=0.01)


def test_what_was_killed_with_so_much_asks_for_more() -> None:
    (made,) = advise(work([1.0] * 9, killed=((0, 4 * GB),)))
    assert made.request == pytest.approx(4.4 * GB)


def test_nothing_is_beyond_the_largest_machine() -> None:
    (made,) = advise(work([30.0] * 9), most=32 * GB)
    assert made.request == 32 * GB and made.retries == ()


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
    assert made.request == pytest.approx(3.3e9)


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
    # The last is enough for the largest that was seen.
    assert (made.request, *made.retries) == (1.1 * GB, 2.2 * GB, 9.9 * GB)
    held = 1000 * 1.1 + 5 * (2.2 + 9.9)
    assert made.advised_held == pytest.approx(held / 3600)
    assert made.asked_held == pytest.approx(16_000 / 3600)
    assert made.used_held == pytest.approx((995 + 45) / 3600)
    assert made.enough_ratios == (0.995, 0.995, 1.0)


def test_what_was_not_asked_by_all_is_not_summed() -> None:
    asked = np.array([np.nan] + [2 * GB] * 8)
    (made,) = advise(work([1.0] * 9, asked=asked))
    assert made.asked == 2 * GB and made.asked_held is None


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
    (made,) = advise(work(needs, **more), most=64 * GB)
    assert said in made.reason
    assert (made.request is None) == made.reason.startswith("keep, because")


def test_attempts_killed_with_an_unknown_grant_are_told_of() -> None:
    rows = [
        {"task_id": str(k), "group": "g", "wall_s": 1.0, "outcome": "ok",
         "peak_memory_bytes": 10**9, "peak_memory_kind": "exact"}
        for k in range(6)
    ]  # fmt: skip
    dead = [{"task_id": f"x{k}", "group": "g", "outcome": "oom"} for k in range(3)]
    (made,) = advise(from_trace(Trace.from_tables({"tasks": [*rows, *dead]})))
    assert (made.killed, made.killed_with) == (3, None)
    assert "3 attempts ran out of memory, with how much is not known" in made.reason
    assert made.request == pytest.approx(1.1e9)


@pytest.mark.parametrize(("killed", "runs"), [(0, 1), (0, 37), (37, 37), (1, 9), (5, 1000)])
def test_intervals_are_those_of_scipy(killed: int, runs: int) -> None:
    from scipy.stats import binomtest

    known = binomtest(killed, runs).proportion_ci(0.95, method="exact")
    assert kill_interval(killed, runs) == pytest.approx((known.low, known.high), abs=1e-12)


def test_the_last_retry_holds_all_that_was_seen_up_to_the_machine() -> None:
    needs = [1.0] * 997 + [12.6] * 3
    (made,) = advise(work(needs))
    assert made.request == 1.1 * GB
    assert made.retries == (2.2 * GB, pytest.approx(13.86 * GB))
    (made,) = advise(work(needs), most=13 * GB)
    assert made.retries == (2.2 * GB, 13 * GB)
    (made,) = advise(work([1.0] * 9, killed=((0, 4 * GB),)), headroom=0.0)
    assert made.request is not None and made.request > 4 * GB


def test_killed_runs_count_as_what_needs_more_than_they_had() -> None:
    (made,) = advise(work([1.0] * 10, killed=((0, 4 * GB),) * 50))
    # Whether 4.4 GB is enough for the 50 is not known: none of 60, or 50 of them.
    assert made.request == pytest.approx(4.4 * GB)
    assert (made.kill_ratio, made.lacking, made.unsure) == (None, 50, 50)
    assert made.kill_interval == (kill_interval(0, 60)[0], kill_interval(50, 60)[1])
    assert made.enough_ratios == (pytest.approx(1 / 6),) * 3
    assert "enough for 50 runs that ran out of memory is not known" in made.reason
    (made,) = advise(work([1.0] * 10, killed=((0, 4 * GB),) * 50), most=4 * GB)
    assert made.kill_ratio == pytest.approx(50 / 60) and made.unsure == 0


def test_killed_runs_use_up_what_may_be_killed() -> None:
    needs = [1.0] * 995 + [9.0] * 5
    (made,) = advise(work(needs, killed_blind=(0,) * 10))
    assert made.request == pytest.approx(9.9 * GB)
    (made,) = advise(work(needs), max_kill=1.0)
    assert made.request == pytest.approx(1.1 * GB)


def test_of_killed_runs_alone_the_bound_is_told_and_the_guess_is_called_one() -> None:
    blank = work([], group=np.zeros(0, dtype=int), killed=((1, 4 * GB), (1, 2 * GB)))
    (made,) = advise(blank)
    assert (made.group, made.runs, made.request, made.most) == ("train", 0, None, None)
    assert (made.at_least, made.guess) == (4 * GB, 8 * GB)
    assert made.reason.startswith("more than 4 GB is needed, how much more is not known")
    assert "a guess to try: 8 GB" in made.reason and made.used_held is None
    (made,) = advise(blank, most=4 * GB)
    assert made.guess is None and "a machine has 4 GB" in made.reason


def test_what_was_not_enough_is_not_kept() -> None:
    asked = np.full(4, 4 * GB)
    (made,) = advise(work([1.0] * 4, asked=asked, killed=((0, 4 * GB),)))
    assert made.request is None and made.at_least == 4 * GB
    assert "more than 4 GB is needed by some runs" in made.reason


def test_a_retry_s_request_is_not_what_a_group_keeps() -> None:
    # Three first tries of 8 GB were killed; their retries of 16 GB used 14 GB. By hand: a tenth
    # more than 14 GB is 15.4 GB.
    asked = np.full(3, 16 * GB)
    (made,) = advise(work([14.0] * 3, asked=asked, killed=((0, 8 * GB),) * 3))
    assert made.request is None and made.at_least == 8 * GB
    assert made.guess == pytest.approx(15.4 * GB)
    assert made.reason.startswith("more than 8 GB is needed, a run used 14 GB; no more is advised")
    assert "a guess to try: 15 GB" in made.reason
    (made,) = advise(work([14.0] * 3, asked=asked, killed=((0, 15 * GB),)))
    assert made.at_least is None and made.reason.startswith("keep, because")


def test_nothing_is_added_to_an_upper_bound() -> None:
    bound = np.arange(10) == 9
    (made,) = advise(work([1.0] * 9 + [3.95], asked=np.full(10, 4 * GB), at_most=bound))
    assert made.request == 4 * GB and made.kill_ratio == 0
    (made,) = advise(work([1.0] * 9 + [3.0], at_most=bound))
    assert made.request == 3 * GB
    assert "used at most 3 GB; 1 peak is as large" in made.reason
    (made,) = advise(work([3.0] * 9 + [3.1], at_most=bound))
    assert made.request == pytest.approx(3.3 * GB)
    assert "used 3 GB, those with an upper bound aside; 10 % is added" in made.reason


def test_no_request_is_below_the_floor() -> None:
    (made,) = advise(work([0.015] * 9))
    assert (made.request, made.retries) == (256e6, (512e6, 1024e6))
    assert "256 MB at least: less saves nothing" in made.reason
    (made,) = advise(work([0.015] * 9), floor=0)
    assert made.request == pytest.approx(16.5e6) and "at least" not in made.reason
    (made,) = advise(work([1.0] * 9))
    assert "at least" not in made.reason


def ok(task: str, peak: int, **more: Any) -> dict[str, Any]:
    return {"task_id": task, "group": "g", "wall_s": 1.0, "outcome": "ok",
            "peak_memory_bytes": peak, "peak_memory_kind": "exact", **more}  # fmt: skip


def test_a_task_that_was_killed_and_then_completed_is_one_run() -> None:
    died = {"group": "g", "outcome": "oom", "requested_memory_bytes": 10**9}
    rows = [{**died, "task_id": "0"}, ok("0", 2 * 10**9, attempt=2)]
    rows += [ok(str(k), 10**9) for k in range(1, 8)]
    rows += [{**died, "task_id": "x", "attempt": k} for k in (1, 2)]
    found = from_trace(Trace.from_tables({"tasks": rows}))
    assert len(found.killed) == 3 and found.lacks == ((0, 1e9),)
    (made,) = advise(found)
    assert (made.killed, made.runs, made.lacking) == (3, 8, 1)


def test_what_came_from_a_cache_is_a_need_and_holds_nothing() -> None:
    rows = [
        {**ok(str(k), 10**9 + k), "outcome": "cached", "requested_memory_bytes": 4 * 10**9}
        for k in range(6)
    ]
    (made,) = advise(from_trace(Trace.from_tables({"tasks": rows})))
    assert made.runs == 6 and made.request == pytest.approx(1.1e9)
    assert (made.used_held, made.asked_held, made.advised_held) == (None, None, None)
    rows.append(ok("1", 3 * 10**9, attempt=2, requested_memory_bytes=4 * 10**9))
    (made,) = advise(from_trace(Trace.from_tables({"tasks": rows})))
    assert (made.runs, made.most) == (6, 3e9)
    assert made.used_held == pytest.approx(3 / 3600)


def test_an_execution_of_which_several_runs_tell_is_one_run() -> None:
    ran = [ok(str(k), 10**9 + k, run_id=f"ab/{k}") for k in range(6)]
    again = [
        {**row, "task_id": f"{row['task_id']} [{n}]", "outcome": "cached"}
        for n in (2, 3)
        for row in ran
    ]
    whole = from_trace(Trace.from_tables({"tasks": [*ran, *again]}))
    assert len(whole) == 6 and whole.cached is not None and not whole.cached.any()
    late = from_trace(Trace.from_tables({"tasks": again}))
    assert len(late) == 6 and late.cached is not None and late.cached.all()


def test_a_lower_bound_of_a_completed_run_is_exceeded() -> None:
    rows = [ok(str(k), 10**9) for k in range(6)]
    rows.append(ok("x", 3 * 10**9, peak_memory_kind="lower_bound"))
    (made,) = advise(from_trace(Trace.from_tables({"tasks": rows})))
    assert made.request == pytest.approx(3.3e9) and made.runs == 6
    assert "a run used at least 3 GB" in made.reason


def recorded(rows: list[dict[str, Any]], **more: Any) -> Any:
    """Advise on rows of a trace: 2 GB of 16 GB asked for, and completed, where nothing is said."""
    plain = {"group": "g", "outcome": "ok", "wall_s": 600.0, "peak_memory_bytes": 2 * 10**9,
             "requested_memory_bytes": 16 * 10**9, "peak_memory_kind": "sampled"}  # fmt: skip
    made = [{**plain, **row, "task_id": str(k)} for k, row in enumerate(rows)]
    (advice,) = advise(from_trace(Trace.from_tables({"tasks": made})), **more)
    return advice


@pytest.mark.parametrize(
    "outcome", ["timeout", "preempted", "worker_lost", "running", "cancelled", "failed"]
)
def test_what_a_run_used_that_did_not_complete_is_needed_at_least(outcome: str) -> None:
    cut = {"outcome": outcome, "peak_memory_bytes": 15 * 10**9}
    made = recorded([{}] * 10 + [cut])
    assert made.request == pytest.approx(16.5 * GB) and made.runs == 10
    assert "a run used at least 15 GB" in made.reason
    assert recorded([{}] * 10 + [{**cut, "peak_memory_kind": "upper_bound"}]).request < 3 * GB


def test_of_many_runs_a_lower_bound_may_be_left_to_a_retry() -> None:
    cut = {"outcome": "timeout", "peak_memory_bytes": 15 * 10**9}
    made = recorded([{}] * 300 + [cut])
    assert made.request == pytest.approx(2.2 * GB) and made.retries[-1] >= 16.5 * GB
    assert made.kill_ratio == pytest.approx(1 / 301)
    assert "used at least 15 GB, and runs again with more" in made.reason
    assert recorded([{}] * 300 + [cut], max_kill=0.0).request == pytest.approx(16.5 * GB)
    assert recorded([{}] * 300 + [cut] * 4).request == pytest.approx(16.5 * GB)


def test_the_peak_of_a_killed_run_counts_where_no_request_is_known() -> None:
    rows: list[dict[str, Any]] = [{}] * 10 + [{"outcome": "oom", "peak_memory_bytes": 15 * 10**9}]
    made = recorded([{**row, "requested_memory_bytes": None} for row in rows])
    assert (made.killed, made.killed_with) == (1, 15 * GB) and made.request >= 16.5 * GB
    # What it was granted counts where that is more.
    assert recorded(rows).killed_with == 16 * GB


def named(*rows: tuple[str, dict[str, Any]], **more: Any) -> Any:
    """Advise on ten runs of 2 GB, and on these, by their names."""
    plain = {"group": "g", "outcome": "ok", "wall_s": 600.0, "peak_memory_bytes": 2 * 10**9,
             "requested_memory_bytes": 16 * 10**9, "peak_memory_kind": "sampled"}  # fmt: skip
    made = [{**plain, "task_id": str(k)} for k in range(10)]
    made += [{**plain, **row, "task_id": name} for name, row in rows]
    (advice,) = advise(from_trace(Trace.from_tables({"tasks": made})), **more)
    return advice


CUT = {"outcome": "cancelled", "peak_memory_bytes": 15 * 10**9}
HALF = {"peak_memory_kind": "lower_bound", "peak_memory_bytes": 3 * 10**9}
DEAD = {"outcome": "oom", "peak_memory_bytes": None, "requested_memory_bytes": 4 * 10**9}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("stopped", CUT)], ("stopped",)),
        ([("half", HALF)], ("half",)),
        ([("a", DEAD), ("b", DEAD), ("c", {**DEAD, "requested_memory_bytes": 10**9})], ("a", "b")),
        ([("dead", DEAD), ("stopped", CUT)], ("stopped",)),
        ([("dead", DEAD), ("stopped", {**CUT, "peak_memory_bytes": 10**9})], ("dead",)),
        # What completed runs needed decides in these.
        ([("dead", {**DEAD, "requested_memory_bytes": 10**9})], ()),
        ([("stopped", {**CUT, "peak_memory_bytes": 10**9})], ()),
        ([], ()),
    ],
)
def test_a_request_names_the_tasks_of_the_bound_that_it_rests_on(
    rows: list[tuple[str, dict[str, Any]]], expected: tuple[str, ...]
) -> None:
    made = named(*rows)
    assert made.rests_on == expected
    assert ("this rests on" in made.reason) is bool(expected)
    for name in expected:
        assert name in made.reason.partition("this rests on")[2]
    for target in ("slurm", "nextflow", "snakemake", "kubernetes"):
        assert ("this rests on task" in write(target, [made], None)) is bool(expected)


def test_what_nothing_is_advised_on_names_them_too() -> None:
    plain = {"group": "g", "wall_s": 600.0, "peak_memory_kind": "sampled", **DEAD}
    tables = {"tasks": [{**plain, "task_id": f"t{k}"} for k in range(5)]}
    (made,) = advise(from_trace(Trace.from_tables(tables)))
    assert made.request is None and made.at_least == 4 * GB
    assert made.rests_on == ("t0", "t1", "t2", "t3", "t4")
    assert "this rests on tasks t0, t1, t2 and 2 more" in made.reason


def test_a_name_of_odd_signs_stays_on_its_line() -> None:
    assert "\n" not in named(("a\nb" + "x" * 500, CUT)).reason
    assert len(named(("a\nb" + "x" * 500, CUT)).reason) < 400


def test_a_bound_that_is_left_to_a_retry_is_not_rested_on() -> None:
    made = named(*[(f"more{k}", {}) for k in range(300)], ("stopped", CUT))
    assert made.request == pytest.approx(2.2 * GB) and made.rests_on == ()


def test_time_that_rests_on_a_run_that_did_not_end_names_it() -> None:
    rows = [{"task_id": str(k), "group": "g", "outcome": "ok", "wall_s": 600.0} for k in range(10)]
    rows.append({"task_id": "long", "group": "g", "outcome": "preempted", "wall_s": 9000.0})
    (made,) = advise(time_from_trace(Trace.from_tables({"tasks": rows})))
    assert made.rests_on == ("long",) and "this rests on task long" in made.reason
