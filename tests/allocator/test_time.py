"""Advice on time limits: what tasks took, which ran out of time, and the words for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.allocator.advice import Advice, advise
from rotameter.allocator.recorded_time import time_from_trace
from rotameter.profiler.trace import Trace

HOUR = 3600.0
DAY = 24 * HOUR


def run(task: str, wall: float | None, **more: Any) -> dict[str, Any]:
    return {"task_id": task, "group": "g", "outcome": "ok", "wall_s": wall,
            "requested_wall_s": 24 * HOUR, **more}  # fmt: skip


def runs(count: int, wall: float = HOUR, **more: Any) -> list[dict[str, Any]]:
    return [run(f"{more.get('outcome', 'ok')}{k}", wall, **more) for k in range(count)]


def advised(rows: list[dict[str, Any]], engine: str = "slurm", **more: Any) -> Advice:
    trace = Trace.from_tables({"tasks": rows}, {"engine": engine, "origin": "imported"})
    (made,) = advise(time_from_trace(trace), **more)
    return made


def test_the_longest_with_headroom_in_whole_minutes() -> None:
    made = advised([*runs(8), run("x", 1.2 * HOUR)])
    assert made.request == 90 * 60 and made.retries == (180 * 60, 360 * 60)
    assert (made.asked, made.kill_ratio, made.resource.name) == (24 * HOUR, 0.0, "time")
    assert made.reason == "the longest of 9 runs took 1 h 12 min; 25 % is added"
    assert (made.used_held, made.asked_held, made.advised_held) == (None, None, None)
    assert advised(runs(9), headroom=0.0).request == HOUR


def test_long_runs_that_end_last_have_not_grown() -> None:
    """All began at once: that the longest ended last says nothing of the next ones."""
    rows = [
        run(str(k), (1 + k) * HOUR, started_ns=10**18, ended_ns=10**18 + int((1 + k) * HOUR * 1e9))
        for k in range(20)
    ]
    assert advised(rows).request == 25 * HOUR
    later = [{**one, "started_ns": 10**18 + k * 10**9} for k, one in enumerate(rows)]
    assert advised(later).request == 37.5 * HOUR
    assert advised([*later[:-1], {**later[-1], "started_ns": None}]).request == 37.5 * HOUR
    # Nor have those that were tried again, later than all others.
    late = [{**one, "started_ns": 10**18 + 10**15, "attempt": 2} for one in rows[10:]]
    lost = [{**one, "outcome": "worker_lost", "attempt": 1} for one in rows[10:]]
    assert advised([*rows[:10], *lost, *late]).request == 25 * HOUR
    # Two waves: the second is longer.
    waves = [{**one, "started_ns": 10**18 + (k // 6) * 10**9} for k, one in enumerate(rows[:12])]
    assert advised(waves).request == pytest.approx(1.5 * 1.25 * 12 * HOUR)


def test_no_limit_is_below_the_floor_nor_beyond_the_queue() -> None:
    made = advised(runs(9, 2.0))
    assert made.request == 600 and "10 min at least: less saves nothing" in made.reason
    assert advised(runs(9, 2.0), floor=0.0).request == 60
    made = advised(runs(9, 6 * DAY), most=7 * DAY)
    assert made.request == 7 * DAY and made.retries == ()
    assert "no more than the queue's 7 d" in made.reason


def test_what_ran_out_of_time_asks_for_more_and_counts() -> None:
    late = runs(2, 2 * HOUR + 12, outcome="timeout", requested_wall_s=2 * HOUR)
    made = advised([*runs(20), *late])
    assert made.request == pytest.approx(1.25 * 2 * HOUR, abs=60)
    assert (made.killed, made.lacking, made.unsure, made.kill_ratio) == (2, 2, 2, None)
    assert made.reason.startswith("2 attempts ran out of time with up to 2 h, so more than that")
    assert "enough for 2 runs that ran out of time is not known" in made.reason


def test_of_timeouts_alone_the_bound_is_told_and_the_guess_is_called_one() -> None:
    made = advised(runs(4, 2 * DAY + 5, outcome="timeout", requested_wall_s=2 * DAY))
    assert (made.runs, made.request, made.at_least) == (0, None, 2 * DAY + 5)
    assert made.guess == 2 * made.at_least
    assert made.keep == "no completed run has a known duration"
    assert "more than 2 d is needed" in made.reason and "a guess to try: 4 d" in made.reason
    made = advised(runs(4, 2 * DAY, outcome="timeout", requested_wall_s=2 * DAY), most=2 * DAY)
    assert made.guess is None and "the queue allows 2 d" in made.reason


def test_a_stop_before_the_limit_says_nothing_of_the_limit() -> None:
    """A deadline or a maintenance ended it: what is known is how long it ran."""
    early = runs(1, HOUR, outcome="timeout", requested_wall_s=100 * HOUR)
    assert advised([*runs(9), *early]).killed_with == HOUR
    blind = runs(1, outcome="timeout")
    blind[0]["wall_s"] = None
    assert advised([*runs(9), *blind]).killed_with == 24 * HOUR
    blind[0]["requested_wall_s"] = None
    made = advised([*runs(9), *blind])
    assert (made.killed, made.killed_with) == (1, None)
    assert "with how much is not known" in made.reason


def test_a_task_that_ran_out_and_then_completed_is_one_run() -> None:
    rows = [*runs(8), run("again", HOUR / 2, outcome="timeout", requested_wall_s=HOUR / 2)]
    rows.append(run("again", HOUR, attempt=2))
    made = advised(rows)
    assert (made.runs, made.killed, made.lacking) == (9, 1, 0)


def test_runs_that_ended_at_their_limit_may_have_been_told_to() -> None:
    made = advised(runs(8, 1.99 * HOUR, requested_wall_s=2 * HOUR))
    assert made.request is None and made.keep == "all runs ended at their limit"
    assert made.reason == "keep, because all runs ended at their limit (8 runs)"
    made = advised([*runs(8), *runs(1, 23.5 * HOUR, group="g", task_id="x")])
    assert made.request == 24 * HOUR
    assert "1 run ended at its limit, nothing is added to that" in made.reason


def test_what_was_taken_away_would_have_taken_longer() -> None:
    gone = runs(1, 8 * DAY, outcome="preempted", requested_wall_s=14 * DAY)
    made = advised([*runs(8, 5 * DAY, requested_wall_s=14 * DAY), *gone])
    assert made.request == 10 * DAY
    assert "did not complete had taken 8 d by then" in made.reason
    done = run("preempted0", 5 * DAY, attempt=2, requested_wall_s=14 * DAY)
    made = advised([*runs(8, 5 * DAY, requested_wall_s=14 * DAY), *gone, done])
    assert made.request == pytest.approx(6.25 * DAY)
    gone[0]["wall_s"] = 90 * DAY  # Noticed months after its limit of two weeks.
    assert advised([*runs(8, 5 * DAY, requested_wall_s=14 * DAY), *gone]).request == 6.25 * DAY


def test_few_runs_and_one_input_size_are_kept() -> None:
    assert advised(runs(4)).keep == "fewer than 5 runs"
    assert (
        advised(runs(9, features={"input_bytes": 5.0})).keep == "all runs had the same input size"
    )


@pytest.mark.parametrize("wall", [0.0, -5.0, float("nan"), float("inf"), None])
def test_durations_that_are_none_are_no_runs(wall: float | None) -> None:
    rows = [*runs(9), run("odd", wall)]
    assert advised(rows).runs == 9


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf"), None])
def test_limits_that_are_none_are_not_known(limit: float | None) -> None:
    made = advised(runs(9, requested_wall_s=limit))
    assert made.asked is None and made.request == 75 * 60


def test_huge_durations_stay_finite() -> None:
    made = advised(runs(9, 1e11, requested_wall_s=None))
    assert made.request is not None and np.isfinite([made.request, *made.retries]).all()


def test_granted_counts_where_nothing_was_requested() -> None:
    made = advised(runs(9, requested_wall_s=None, granted_wall_s=3 * HOUR))
    assert made.asked == 3 * HOUR


def test_nested_attempts_are_not_runs() -> None:
    inner = runs(5, 9 * HOUR, parent="ok0")
    rows = [*runs(9), *({**one, "task_id": f"in{k}"} for k, one in enumerate(inner))]
    assert advised(rows).most == HOUR


def test_moving_files_counts_in_nextflow() -> None:
    """Its time directive is the limit of the job, which also moves inputs and results."""
    rows = [
        run(f"{k}", 60.0, started_ns=k * 10**9, ended_ns=k * 10**9 + 3_600 * 10**9)
        for k in range(9)
    ]
    assert advised(rows, "nextflow").most == HOUR
    assert advised(rows, "slurm").most == 60.0


def test_what_came_from_a_cache_is_known() -> None:
    made = advised(runs(9, outcome="cached"))
    assert made.runs == 9 and made.request == 75 * 60


@given(
    walls=st.lists(st.floats(0.1, 1e9), min_size=5, max_size=60),
    late=st.lists(st.floats(0.1, 1e9), max_size=5),
    queue=st.none() | st.floats(60.0, 1e10),
)
@settings(deadline=None, max_examples=60)
def test_what_is_advised_is_whole_minutes_and_climbs(
    walls: list[float], late: list[float], queue: float | None
) -> None:
    rows = [run(f"a{k}", wall, requested_wall_s=None) for k, wall in enumerate(walls)]
    rows += [
        run(f"b{k}", wall, outcome="timeout", requested_wall_s=None) for k, wall in enumerate(late)
    ]
    made = advised(rows, most=queue)
    rungs = [made.request or 0.0, *made.retries]
    assert rungs == sorted(set(rungs))
    most = float("inf") if queue is None else queue
    assert all(one % 60 == 0 or one == most for one in rungs) and rungs[0] >= min(600, most)
    if queue is None:
        assert rungs[-1] >= max(walls) and all(one > max([0.0, *late]) for one in rungs)


def test_those_that_ran_longest_come_first() -> None:
    rows = [*runs(9), *runs(6, 5 * HOUR, group="slow")]
    rows = [{**one, "task_id": str(k)} for k, one in enumerate(rows)]
    trace = Trace.from_tables({"tasks": rows})
    assert [one.group for one in advise(time_from_trace(trace))] == ["slow", "g"]


@pytest.mark.parametrize("outcome", ["running", "oom"])
def test_one_that_still_runs_or_died_of_memory_takes_longer(outcome: str) -> None:
    made = advised([*runs(8), *runs(1, 8 * HOUR, outcome=outcome)])
    assert made.request == 10 * HOUR
    assert "an attempt that did not complete had taken 8 h by then" in made.reason
