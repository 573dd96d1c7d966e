"""Reading jobs: units, what is unknown, what cannot be used."""

from __future__ import annotations

import numpy as np
import pytest
from tests.forecasting.cosim.logs import line, log, trace_of_log

from rotameter.errors import EmptyTrace, UsageError
from rotameter.forecasting.cosim.jobs import jobs_of, make_jobs
from rotameter.profiler.trace import Trace

SECOND = 10**9


def test_columns_of_an_swf_log():
    data = log(
        [
            line(2, 5, 30, 4, limit=60, wait=10, granted=4, memory=1024, user=7),
            line(1, 5, 90, 2, limit=60, user=8),
        ],
        UnixStartTime=1_000_000_000,
    )
    jobs, intake = jobs_of(trace_of_log(data))
    assert jobs.ids == ("1", "2") and jobs.zero_ns == 1_000_000_000 * SECOND
    assert jobs.arrive_s.tolist() == [5, 5] and jobs.run_s.tolist() == [90, 30]
    assert jobs.limit_s.tolist() == [60, 60] and jobs.held_s.tolist() == [60, 30]
    assert jobs.cores.tolist() == [2, 4]
    assert jobs.memory_bytes.tolist() == [0, 1024 * 1024 * 4]
    assert np.isnan(jobs.started_s[0]) and jobs.started_s[1] == 15
    assert jobs.user[0] != jobs.user[1]
    assert (intake.rows, intake.lost, intake.beyond_limit, intake.without_limit) == (2, 0, 1, 0)


def test_rows_that_cannot_be_used_are_counted_by_reason():
    rows = [
        line(1, 0, 10, 1),
        line(2, -1, 10, 1),
        line(3, 0, -1, 1),
        line(4, 0, -7, 1),
        line(5, 0, 10, -1),
        line(6, 0, 10, 0),
        line(7, 0, 2_000_000_000, 1),
        "8 0 x",
    ]
    jobs, intake = jobs_of(trace_of_log(log(rows)))
    assert jobs.ids == ("1",) and intake.rows == 8 and intake.lost == 7
    assert intake.unusable == {
        "line refused": 1,
        "submission unknown": 1,
        "run time unknown or of decades": 3,
        "processors unknown": 2,
    }


def test_without_a_limit_the_run_time_stands_for_it():
    jobs, intake = jobs_of(trace_of_log(log([line(1, 0, 10, 1), line(2, 0, 0, 1, limit=0)])))
    assert jobs.limit_s.tolist() == [10, 1] and intake.without_limit == 2


def test_requests_count_unless_the_log_mixes_units():
    same = [line(k, k, 9, 2, granted=2) for k in range(1, 40)]
    jobs, intake = jobs_of(trace_of_log(log([*same, line(40, 40, 9, 2, granted=4)])))
    assert jobs.cores[-1] == 2 and (intake.cores_from, intake.cores_differ) == ("requested", 1)
    mixed = [line(k, k, 9, 2, granted=16) for k in range(1, 9)]
    jobs, intake = jobs_of(trace_of_log(log([*same, *mixed])))
    assert jobs.cores.max() == 16 and intake.cores_from == "granted"
    jobs, _ = jobs_of(trace_of_log(log([*same, *mixed])), cores_from="requested")
    assert jobs.cores.max() == 2
    with pytest.raises(UsageError, match="wished"):
        jobs_of(trace_of_log(log(same)), cores_from="wished")


def test_what_is_granted_serves_where_nothing_was_requested():
    jobs, _ = jobs_of(trace_of_log(log([line(1, 0, 10, -1, granted=3)])))
    assert jobs.cores.tolist() == [3]


def test_a_log_without_a_usable_job_says_why():
    with pytest.raises(EmptyTrace, match="run time unknown") as caught:
        jobs_of(trace_of_log(log([line(1, 0, -1, 1)])))
    assert caught.value.hint and caught.value.exit_code == 4
    with pytest.raises(EmptyTrace, match="no rows"):
        jobs_of(Trace.from_tables({}))


def test_other_traces_steps_attempts_and_parts_of_seconds():
    row = {"submitted_ns": 7 * SECOND, "wall_s": 1.25, "granted_cores": 1.5}
    rows = [
        {**row, "task_id": "b"},
        {**row, "task_id": "a", "ready_ns": 9 * SECOND + 7, "requested_nodes": 2},
        {**row, "task_id": "a", "attempt": 2, "submitted_ns": 20 * SECOND},
        {**row, "task_id": "step", "parent": "a"},
        {**row, "task_id": "c", "wall_s": None, "started_ns": 8 * SECOND, "ended_ns": 9 * SECOND},
    ]
    jobs, intake = jobs_of(Trace.from_tables({"tasks": rows}))
    assert jobs.ids == ("b", "c", "a", "a#2") and intake.rows == 4
    assert jobs.arrive_s.tolist() == [0, 0, 2, 13] and jobs.zero_ns == 7 * SECOND
    assert jobs.run_s.tolist() == [2, 1, 2, 2] and jobs.cores.tolist() == [2, 2, 2, 2]
    assert jobs.nodes.tolist() == [0, 0, 2, 0]


def test_equal_arrivals_come_in_order_of_their_numbers():
    rows = [line(k, 5, 10, 1) for k in (10, 9, 100, 1)]
    assert jobs_of(trace_of_log(log(rows)))[0].ids == ("1", "9", "10", "100")


def test_taking_keeps_columns_together():
    jobs = make_jobs([3, 1, 2], [30, 10, 20], [3, 1, 2], ids=["c", "a", "b"])
    assert jobs.ids == ("a", "b", "c") and len(jobs) == 3
    some = jobs.take(jobs.cores > 1)
    assert some.ids == ("b", "c") and some.run_s.tolist() == [20, 30]
