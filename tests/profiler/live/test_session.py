"""Attempts as rows: identity, extra columns, sharing, what is left at the end."""

from __future__ import annotations

import os
import threading
import time

import pytest

from rotameter.profiler.live.clock import Clock
from rotameter.profiler.live.tracer import task
from rotameter.profiler.schema import columns_of


def test_columns_given_at_the_end_and_identity(lab):
    traced = lab(worker="tcp://w")
    session = traced.session
    running = session.begin(
        "k", "g", run_id="7", attempt=2, parent="p", requested_memory_bytes=5, features={"a": 1.0}
    )
    session.end(running, output_bytes=12, exit_code=0)
    (row,) = traced.rows()
    assert (
        row.items()
        >= {
            "task_id": "k",
            "group": "g",
            "run_id": "7",
            "attempt": 2,
            "parent": "p",
            "worker": "tcp://w",
            "host": "here",
            "source": "worker",
            "output_bytes": 12,
            "exit_code": 0,
            "requested_memory_bytes": 5,
            "features": {"a": 1.0},
        }.items()
    )
    assert set(row) <= set(columns_of("tasks"))
    assert running.readings == row


def test_an_outcome_given_stands(lab):
    traced = lab()
    session = traced.session
    session.end(session.begin("k", "g"), "rescheduled")
    session.end(session.begin("k", "g"), "worker_lost", ValueError("x"))
    assert [row["outcome"] for row in traced.rows()] == ["rescheduled", "worker_lost"]


def test_unknown_columns_become_samples(lab):
    traced = lab()
    session = traced.session
    session.end(session.begin("k", "g"), gil_ratio=0.5, text="x")
    (row,) = traced.rows()
    assert "gil_ratio" not in row
    values = {s["metric"]: (s["subject"], s["value"]) for s in traced.rows("samples")}
    assert values == {"gil_ratio": ("k", 0.5), "text": ("k", None)}


def test_further_probes(lab):
    class Probe:
        def start(self, context):
            return context.task_id

        def stop(self, token):
            return {"gpu_s": 1.5, "seen": len(token)}

    traced = lab(probes=[Probe()])
    traced.session.end(traced.session.begin("k", "g"))
    assert traced.rows()[0]["gpu_s"] == 1.5
    assert traced.rows("samples")[0]["metric"] == "seen"


def test_ending_twice_records_once(lab):
    traced = lab()
    running = traced.session.begin("k", "g")
    traced.session.end(running)
    traced.session.end(running)
    assert len(traced.rows()) == 1


def test_time_comes_from_the_clock_alone(lab):
    now = [1_000]
    clock = Clock(lambda: now[0], lambda: now[0] + 10**18, lambda: now[0] // 2, lambda: 0)
    traced = lab(clock=clock, level="time")
    running = traced.session.begin("k", "g")
    now[0] += 2_000_000
    traced.session.end(running)
    (row,) = traced.rows()
    assert (row["wall_s"], row["cpu_s"]) == (0.002, 0.001)
    assert row["started_ns"] == 10**18 + 1_000
    assert row["ended_ns"] == 10**18 + 2_001_000
    assert row["read_bytes"] is None and row["peak_memory_bytes"] is None
    assert row["concurrency"] == 1.0


def test_overlapping_tasks_are_shared_and_so_said(lab):
    traced = lab()
    session = traced.session
    outside = threading.Event(), threading.Event()

    def other():
        running = session.begin("other", "g")
        outside[0].set()
        outside[1].wait(10)
        session.end(running)

    first = session.begin("first", "g")
    thread = threading.Thread(target=other)
    thread.start()
    outside[0].wait(10)
    session.end(first)
    outside[1].set()
    thread.join()
    alone = session.begin("alone", "g")
    session.end(alone)
    kinds = {row["task_id"]: row["io_kind"] for row in traced.rows()}
    if kinds["alone"] is None:
        pytest.skip("no /proc")
    # The very first task of a process that is overlapped has no counters of its thread.
    assert kinds == {"first": None, "other": "lower_bound", "alone": "exact"}


def test_nested_tasks_do_not_share(lab):
    traced = lab()
    session = traced.session
    outer = session.begin("outer", "g")
    middle = session.begin("middle", "g")
    session.end(session.begin("inner", "g"))
    session.end(session.begin("inner2", "g"))
    session.end(middle)
    session.end(outer)
    rows = traced.rows()
    assert {row["io_kind"] for row in rows} <= {"exact", None}
    assert [row["parent"] for row in rows] == ["middle", "middle", "outer", None]
    assert all(row["concurrency"] == pytest.approx(1.0, abs=0.01) for row in rows)


def test_ending_out_of_order_does_no_harm(lab):
    traced = lab()
    session = traced.session
    outer = session.begin("outer", "g")
    inner = session.begin("inner", "g")
    session.end(outer)
    deeper = session.begin("deeper", "g")
    session.end(deeper)
    session.end(inner)
    session.end(session.begin("after", "g"))
    rows = {row["task_id"]: row for row in traced.rows()}
    assert rows["deeper"]["parent"] == "inner"
    assert len(rows) == 4 and not session._active


def test_what_still_runs_at_the_end_is_recorded_as_running(lab):
    traced = lab()
    session = traced.session
    running = session.begin("k", "g")
    session.close()
    session.end(running)
    (row,) = traced.rows()
    assert (row["outcome"], row["cpu_s"], row["ended_ns"]) == ("running", None, None)


def test_long_keys_are_cut_but_stay_apart(lab):
    traced = lab()
    session = traced.session
    for end in "ab":
        session.end(session.begin("k" * 10_000 + end, "g" * 10_000 + end))
    one, two = traced.rows()
    assert one["task_id"] != two["task_id"] and len(one["task_id"]) == 300
    assert one["group"] != two["group"]


@pytest.mark.parametrize("level", ["time", "default"])
def test_concurrency_in_threads_lies_between_one_and_their_number(lab, level):
    made = lab(level=level).activate()

    @task(group="step")
    def step():
        os.sched_yield()

    def work():
        for _ in range(2_000):
            step()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = made.rows()
    assert len(rows) == 6_000
    assert all(1 - 1e-9 <= row["concurrency"] <= 3 + 1e-9 for row in rows if row["wall_s"])
    assert all(0 <= row["cpu_s"] <= row["wall_s"] for row in rows)
    if level == "default":
        shared = [row for row in rows if row["concurrency"] > 1.5]
        assert all(row["process_cpu_s"] is None for row in shared)


def test_the_cost_of_measuring_is_cpu_time_not_waiting(lab):
    session = lab().session

    class Slow:
        def start(self, running):
            time.sleep(0.01)

        def stop(self, token):
            time.sleep(0.01)
            return {}

    session._probes.append(Slow())
    for _ in range(10):
        session.end(session.begin("t", "g"))
    assert 0 < session.probe_ns < 10 * 5_000_000


def test_that_a_task_has_begun_is_told_once_while_it_runs(lab):
    traced = lab()
    session = traced.session
    assert session.source == "tracer"
    running = session.begin("k", "g", run_id="7")
    for _ in range(3):
        session.before_flush()
    session.end(running)
    session.before_flush()
    session.end(session.begin("short", "g"))
    rows = traced.rows()
    (told,) = [row for row in rows if row["source"] == "begun"]
    ended, short = [row for row in rows if row["source"] == "tracer"]
    assert (told["source"], told["task_id"], told["run_id"]) == ("begun", "k", "7")
    assert told["started_ns"] == ended["started_ns"] and "outcome" not in told
    assert (ended["outcome"], short["task_id"]) == ("ok", "short")


def test_an_engine_tells_itself_what_a_killed_worker_ran(lab):
    traced = lab(worker="tcp://w")
    running = traced.session.begin("k", "g")
    traced.session.before_flush()
    traced.session.end(running)
    assert [row["source"] for row in traced.rows()] == ["worker"]
