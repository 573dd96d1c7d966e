"""The realised critical path names what the end waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.profiler.flow.critical import CriticalPath, critical_path, waterfall
from rotameter.profiler.trace import Trace

S = 10**9


def task(name: str, start: float | None, end: float | None, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"task_id": name, "group": name[0], "worker": "w", "outcome": "ok"}
    at = {"submitted_ns": more.pop("sub", 0.0), "ready_ns": more.pop("ready", None)}
    at |= {"started_ns": start, "ended_ns": end}
    row |= {k: None if v is None else round((100 + v) * S) for k, v in at.items()}
    return row | more


def interval(kind: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    span = {"start_ns": round((100 + start) * S), "end_ns": round((100 + end) * S)}
    return {"kind": kind, "worker": "w", **span, **more}


def path(*tasks: dict[str, Any], meta: Any = None, **tables: Any) -> CriticalPath:
    deps = [{"task_id": t, "depends_on": o} for t, o in tables.pop("deps", ())]
    return critical_path(Trace.from_tables({"tasks": list(tasks), "deps": deps, **tables}, meta))


def seen(found: CriticalPath) -> list[tuple[str | None, str, float]]:
    return [(one.task, one.kind, round(one.seconds, 6)) for one in found.segments]


def why(found: CriticalPath) -> list[str]:
    return [one.released_by for one in found.segments if one.released_by]


def test_the_last_input_releases() -> None:
    found = path(
        task("a", 0, 2, worker="v"),
        task("b", 0, 5, worker="u"),
        task("c", 6, 7),
        deps=[("c", "a"), ("c", "b")],
    )
    assert seen(found) == [("b", "compute", 5.0), ("c", "queue", 1.0), ("c", "compute", 1.0)]
    assert why(found) == ["submission", "input"]
    assert found.makespan_s == 7.0


def test_what_a_consumer_read_releases_it_without_recorded_deps() -> None:
    flows = [{"task_id": t, "object": "x", "op": op} for t, op in (("a", "write"), ("b", "read"))]
    found = path(task("a", 0, 2, worker="v"), task("b", 2, 3), flows=flows)
    assert why(found) == ["submission", "input"]


def test_the_one_that_held_the_slot_releases() -> None:
    found = path(task("a", 0, 3), task("b", 3, 4))
    assert seen(found) == [("a", "compute", 3.0), ("b", "compute", 1.0)]
    assert why(found) == ["submission", "slot"]


def test_where_there_was_room_no_one_held_the_slot() -> None:
    """Two slots: when `b` was waiting one was free, so its wait is a queue and not `c`'s end."""
    found = path(task("a", 0, 2), task("x", 0, 2), task("c", 3, 5), task("b", 5, 9, ready=2.5))
    assert seen(found)[-2:] == [("b", "queue", 2.5), ("b", "compute", 4.0)]


def test_wide_tasks_need_room_for_all_their_cores() -> None:
    found = path(
        task("a", 0, 4, granted_cores=2.0),
        task("b", 0, 3, granted_cores=2.0),
        task("c", 4, 6, granted_cores=4.0),
    )
    assert seen(found) == [("a", "compute", 4.0), ("c", "compute", 2.0)]


def test_a_slot_freed_before_the_task_was_ready_did_not_release_it() -> None:
    found = path(task("a", 0, 3), task("b", 4, 6, ready=4, sub=4))
    assert why(found) == ["submission", "submission"]
    assert ("b", "wait_client", 1.0) in seen(found)


def test_a_slot_freed_before_a_task_of_unknown_inputs_was_ready_did_not_release_it() -> None:
    found = path(task("a", 0, 3), task("b", 5, 6, ready=4))
    assert seen(found) == [("b", "other", 4.0), ("b", "queue", 1.0), ("b", "compute", 1.0)]


def test_an_input_that_ended_after_the_start_released_nothing() -> None:
    found = path(task("a", 0, 4, worker="v"), task("b", 2, 9), deps=[("b", "a")])
    assert seen(found) == [("b", "other", 2.0), ("b", "compute", 7.0)]


def test_releases_in_a_circle_end() -> None:
    """Clocks a little off: `b` had the slot of `a`, which on record depends on `b`."""
    us = 1e-6
    found = path(
        task("a", 1, 1 + 0.2 * us), task("b", 1 + 0.2 * us, 1 + 0.5 * us), deps=[("a", "b")]
    )
    assert sum(one.seconds for one in found.segments) == pytest.approx(found.makespan_s)


def test_failed_attempts_are_on_the_path_as_retry() -> None:
    found = path(
        task("a", 0, 3, attempt=1, outcome="failed"),
        task("a", 5, 7, attempt=2, worker="v"),
    )
    assert seen(found) == [("a", "retry", 3.0), ("a", "queue", 2.0), ("a", "compute", 2.0)]
    assert why(found) == ["submission", "retry"]


def test_a_result_that_was_dropped_and_made_again_is_no_retry() -> None:
    found = path(
        task("a", 0, 3, attempt=1),
        task("b", 3, 9),
        task("a", 9, 11, attempt=2, ready=9),
        deps=[("b", "a")],
    )
    assert "retry" not in found.by_kind
    assert not [s for s in found.segments if s.released_by == "retry"]


def test_waiting_before_a_retry_became_ready_is_the_retrys() -> None:
    found = path(
        task("a", 0, 3, attempt=1, outcome="failed"),
        task("a", 5, 7, attempt=2, worker="v", ready=4.5),
    )
    assert seen(found)[:3] == [("a", "retry", 3.0), ("a", "retry", 1.5), ("a", "queue", 0.5)]


def test_an_attempt_that_its_worker_took_along_ends_with_the_worker() -> None:
    found = path(
        task("a", 0, None, attempt=1, outcome="worker_lost"),
        task("a", 4, 6, attempt=2, worker="v"),
        workers=[{"worker": "w", "started_ns": 100 * S, "ended_ns": 103 * S, "cores": 1.0}],
    )
    assert seen(found) == [("a", "retry", 3.0), ("a", "queue", 1.0), ("a", "compute", 2.0)]


def test_a_client_that_waits_for_each_result_is_between_the_tasks() -> None:
    found = path(*(task(f"a{i}", 3 * i, 3 * i + 2, sub=3 * i) for i in range(4)))
    assert found.by_kind == {"compute": 8.0, "wait_client": 3.0}


def test_a_client_that_submits_too_slowly_is_the_path() -> None:
    """Each task runs 2.5 s on a worker of its own, a submission comes each second."""
    found = path(*(task(f"a{i}", i, i + 2.5, sub=i, worker=f"w{i}") for i in range(10)))
    assert found.by_kind == {"wait_client": 9.0, "compute": 2.5}


def test_what_came_before_a_slow_client_is_on_the_path_too() -> None:
    rows = [task(f"b{i}", 10 + i, 12.5 + i, sub=10 + i, worker=f"w{i}") for i in range(10)]
    found = path(task("a", 0, 8), *rows)
    assert seen(found) == [
        ("a", "compute", 8.0),
        ("b9", "wait_client", 11.0),
        ("b9", "compute", 2.5),
    ]


def test_a_client_that_submits_as_results_come_in_lets_the_tasks_be_the_path() -> None:
    """Two tasks in flight; each submission comes 10 ms after an end."""
    rows = []
    for lane, step in (("v", 2.0), ("w", 3.1)):
        at = 0.0
        for i in range(6):
            rows.append(task(f"{lane}{i}", at, at + step, sub=at, worker=f"{lane}{i}"))
            at += step + 0.01
    found = path(*rows)
    assert found.by_kind["compute"] == pytest.approx(6 * 3.1, abs=1e-6)
    assert found.by_kind["wait_client"] == pytest.approx(0.05, abs=1e-6)


def test_two_clients_each_on_their_own_path() -> None:
    first = [task(f"a{i}", 2 * i, 2 * i + 2, sub=0.0, worker="v") for i in range(3)]
    found = path(*first, task("b", 1, 9, sub=0.5, ready=0.5))
    assert seen(found)[-1] == ("b", "compute", 8.0)
    assert found.makespan_s == 9.0


def test_transfers_before_the_start_are_no_queue() -> None:
    found = path(
        task("a", 0, 2, worker="v"),
        task("b", 5, 6),
        task("c", 5, 5.5, worker="u"),
        deps=[("b", "a")],
        intervals=[
            interval("transfer", 2.5, 4, task_id="b", peer="v"),
            interval("transfer", 3.5, 4.5, peer="v", task_id="c"),
            interval("disk", 4.5, 5, task_id="b"),
        ],
    )
    assert found.by_kind == {"compute": 3.0, "transfer": 2.0, "spill": 0.5, "queue": 0.5}


def test_transfers_of_others_do_not_count() -> None:
    found = path(
        task("a", 0, 2, worker="v"),
        task("b", 5, 6),
        task("c", 5, 5.5, worker="u"),
        deps=[("b", "a")],
        intervals=[interval("transfer", 2, 5, peer="u", task_id="c")],
    )
    assert found.by_kind == {"compute": 3.0, "queue": 3.0}


def test_fetching_of_unknown_place_comes_right_before_the_start() -> None:
    found = path(
        task("a", 0, 2, worker="v"),
        task("b", 5, 6, transfer_s=1.0, deserialize_s=0.5),
        deps=[("b", "a")],
        meta={"engine": "dask"},
    )
    assert seen(found)[1:] == [
        ("b", "queue", 1.5),
        ("b", "transfer", 1.0),
        ("b", "other", 0.5),
        ("b", "compute", 1.0),
    ]


def test_reading_and_writing_are_split_by_their_bytes() -> None:
    found = path(task("a", 0, 10, io_s=4.0, read_bytes=30, write_bytes=10))
    assert seen(found) == [("a", "read", 3.0), ("a", "compute", 6.0), ("a", "write", 1.0)]
    assert any("sums are measured" in note for note in found.notes)


def test_reading_and_writing_are_those_of_the_files_where_no_total_is() -> None:
    flows = [
        {"task_id": "a", "object": o, "op": op, "busy_s": s}
        for o, op, s in (("x", "read", 1.0), ("y", "read", 2.0), ("z", "write", 0.5))
    ]
    found = path(task("a", 0, 10), flows=flows)
    assert found.by_kind == {"compute": 6.5, "read": 3.0, "write": 0.5}


def test_more_io_than_time_fills_the_run_in_proportion() -> None:
    found = path(task("a", 0, 2, io_s=8.0, read_bytes=1, write_bytes=1))
    assert found.by_kind == {"read": 1.0, "write": 1.0}


def test_intervals_inside_a_run_are_in_their_place() -> None:
    spans = [interval("disk", 1, 2, task_id="a"), interval("transfer", 3, 9, task_id="a")]
    found = path(task("a", 0, 4), intervals=spans)
    assert [kind for _, kind, _ in seen(found)] == ["compute", "spill", "compute", "transfer"]
    assert found.by_kind == {"compute": 2.0, "spill": 1.0, "transfer": 1.0}


def test_a_run_of_nested_tasks_is_told_by_them() -> None:
    found = path(
        task("main", 0, 10),
        task("a", 1, 4, parent="main"),
        task("b", 2, 7, parent="main"),
        task("c", 7.5, 9, parent="main"),
        meta={"engine": "python"},
    )
    assert seen(found) == [
        ("main", "compute", 2.0),
        ("b", "compute", 5.0),
        ("main", "compute", 0.5),
        ("c", "compute", 1.5),
        ("main", "compute", 1.0),
    ]


def test_stages_in_turn_are_on_the_path_where_nothing_says_what_waited() -> None:
    """Neither workers nor submissions: `c` read only what `a` wrote and began as `b` ended."""
    said_nothing = {"sub": None, "worker": None}
    spans = (("a", 0, 4), ("b", 4, 80), ("c", 80.5, 130))
    rows = [task(name, s, e, **said_nothing) for name, s, e in spans]
    flows = [{"task_id": t, "object": "x", "op": o} for t, o in (("a", "write"), ("c", "read"))]
    found = path(*rows, flows=flows, meta={"engine": "nextflow"})
    assert found.by_kind == {"compute": 129.5, "other": 0.5}
    assert why(found)[-1] == "order"
    rows[1]["ended_ns"] -= 60 * S
    found = path(*rows, flows=flows, meta={"engine": "nextflow"})
    assert found.by_kind == {"compute": 69.5, "other": 60.5}


@pytest.mark.parametrize("engine", ["python", "nextflow"])
def test_gaps_that_nothing_explains_are_the_programs_or_unknown(engine: str) -> None:
    found = path(task("a", 0, 2, sub=None), task("b", 3, 4, sub=None), meta={"engine": engine})
    kind = "wait_client" if engine == "python" else "other"
    assert found.by_kind == {"compute": 3.0, kind: 1.0}


def test_partial_traces_give_what_they_can() -> None:
    assert path().segments == ()
    assert path().makespan_s is None
    untimed = path(task("a", None, None, sub=None))
    assert untimed.segments == ()
    assert "no task has times" in untimed.notes[0]
    no_start = path(task("a", None, 5))
    assert seen(no_start) == [(None, "other", 5.0)]
    assert "1 attempt has no place in time" in no_start.notes[0]
    by_wall = path(task("a", None, 5, wall_s=2.0))
    assert seen(by_wall) == [("a", "queue", 3.0), ("a", "compute", 2.0)]
    backwards = path(task("a", 5, 3), task("b", 0, 2))
    assert backwards.makespan_s == 3.0
    instant = path(task("a", 0, 0))
    assert (instant.segments, instant.makespan_s) == ((), 0.0)


def test_cycles_among_tasks_of_no_time_end() -> None:
    found = path(
        *(task(t, 1, 1) for t in ("a", "b", "c")),
        task("d", 1, 2),
        deps=[("a", "b"), ("b", "a"), ("d", "c"), ("c", "a")],
    )
    assert found.makespan_s == 2.0
    assert sum(one.seconds for one in found.segments) == 2.0


def test_a_waterfall_shows_large_groups_and_sums_to_the_run() -> None:
    rows = [task("big", 0, 99)]
    rows += [task(f"{c}small", 99 + i / 10, 99 + (i + 1) / 10) for i, c in enumerate("qrst")]
    found = path(*rows)
    made = waterfall(found)
    assert [(r["group"], r["rest"]) for r in made] == [("b", False), (None, True)]
    assert made[1]["segments"] == 4
    assert sum(r["seconds"] for r in made) == pytest.approx(found.makespan_s)
    assert made[0]["ratio"] == pytest.approx(99 / 99.4)


def test_the_path_as_plain_data() -> None:
    plain = path(task("a", 0, 2)).to_dict()
    assert plain["segments"][0]["kind"] == "compute"
    assert plain["by_kind"] == {"compute": 2.0}


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [task(f"a{i}", i // 2, i // 2 + 1, worker=f"w{i % 2}") for i in range(20)]
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(20)]
    one, two = path(*rows), path(*mixed)
    assert one.by_kind == two.by_kind
    assert len(one.segments) == len(two.segments) == 10


def test_more_io_than_time_by_rounding_stays_inside_the_run() -> None:
    for seconds in np.random.default_rng(0).random(200) * 5:
        found = path(task("a", 0.25, 1.5, io_s=1.25 + float(seconds), write_bytes=1))
        assert (found.segments[-1].start_s, found.segments[-1].end_s) == (0.25, 1.5)


def test_a_failure_that_was_not_tried_again_is_no_earlier_attempt() -> None:
    found = path(task("a", 0, 2), task("b", 2, 5, outcome="failed"))
    assert found.by_kind == {"compute": 5.0}


def test_work_that_was_lost_with_its_worker_is_an_earlier_attempt() -> None:
    # `a` was done at 1 s; its worker died at 4 s, and it ran again elsewhere from 5 to 6 s.
    found = path(
        task("a", 0, 1, worker="v"),
        task("a", 5, 6, worker="u", ready=4.0),
    )
    assert found.by_kind == {"compute": 1.0, "queue": 1.0, "retry": 4.0}
