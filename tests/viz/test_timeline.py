from __future__ import annotations

import base64
import gzip
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.synthetic import synthetic_trace

from rotameter.profiler.trace import Trace
from rotameter.viz.incidents import incidents
from rotameter.viz.overview import area_path, mean_running, overview
from rotameter.viz.timeline import COLOURS, pack_lanes, timeline


def _unpack(packed: dict[str, Any]) -> np.ndarray:
    raw = np.frombuffer(gzip.decompress(base64.b64decode(packed["data"])), np.uint8)
    planes = raw.reshape(packed["width"], packed["n"]).astype(np.int64)
    return (planes << (8 * np.arange(packed["width"])[:, None])).sum(axis=0)


def _restore(payload: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts, step, length = (_unpack(payload[k]) for k in ("counts", "step", "length"))
    row = np.repeat(np.arange(len(counts)), counts)
    start = np.concatenate([np.cumsum(part) for part in np.split(step, np.cumsum(counts)[:-1])])
    return row, start, start + length


intervals = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(0, 50)), min_size=1, max_size=60
)


@given(intervals)
def test_lanes_do_not_overlap_and_are_as_few_as_possible(rows: list[tuple[int, int, int]]) -> None:
    worker, start, length = (np.array(c, dtype=np.int64) for c in zip(*rows, strict=True))
    end = start + length
    lane = pack_lanes(worker, start, end)
    for w in set(worker.tolist()):
        mine = worker == w
        for number in set(lane[mine].tolist()):
            here = mine & (lane == number)
            order = np.lexsort((end[here], start[here]))
            first, last = start[here][order], end[here][order]
            shorter = np.minimum((last - first)[1:], (last - first)[:-1])
            assert (first[1:] - last[:-1] >= -(shorter // 10)).all()
        moments = start[mine & (length > 0)]
        at_once = [int(((start <= t) & (end > t) & mine).sum()) for t in moments]
        if at_once and (length[mine] > 0).all():
            assert lane[mine].max() + 1 <= max(at_once)


@given(intervals, st.integers(1, 30))
def test_mean_running_keeps_the_busy_time(rows: list[tuple[int, int, int]], bins: int) -> None:
    start = np.array([r[1] for r in rows])
    end = start + np.array([r[2] for r in rows])
    edges = np.linspace(0, 260, bins + 1)
    running = mean_running(start, end, edges)
    assert (running * np.diff(edges)).sum() == pytest.approx((end - start).sum())
    assert (running >= -1e-9).all()


def test_the_payload_keeps_every_attempt_and_its_busy_time() -> None:
    trace = synthetic_trace(3_000, failed=0.05)
    view = timeline(trace, incidents(trace))
    row, start, end = _restore(view.payload)
    tasks = trace.table("tasks")
    busy_ns = (tasks["ended_ns"].to_numpy() - tasks["started_ns"].to_numpy()).sum()
    tick_ns = view.payload["tick_ns"]
    assert len(start) == view.drawn == 3_000
    assert abs((end - start).sum() * tick_ns - busy_ns) <= 2 * tick_ns * len(start)
    assert row.max() + 1 == len(view.payload["rows"]) == 8
    assert end.max() * tick_ns <= view.payload["span_ns"] + tick_ns
    failed = int((_unpack(view.payload["state"]) == 1).sum())
    assert failed == sum(o in ("failed", "worker_lost") for o in tasks["outcome"].to_pylist())


def test_clocks_that_differ_a_little_open_no_lane() -> None:
    ms = 1_000_000
    start = np.array([0, 99, 0, 10]) * ms
    end = np.array([100, 200, 1, 11]) * ms
    assert pack_lanes(np.array([0, 0, 1, 1]), start, end).tolist() == [0, 0, 0, 0]
    short = np.array([0, 10, 20]), np.array([15, 25, 35])  # 15 ns each: truly at once
    assert pack_lanes(np.zeros(3, np.int64), *short).max() == 1


def test_few_groups_have_colours_and_the_others_share_one() -> None:
    view = timeline(synthetic_trace(2_000, groups=20), [])
    assert [slot for slot, _, _ in view.legend] == [*range(COLOURS), COLOURS]
    assert view.legend[-1][1] == "14 other groups"
    assert sum(n for _, _, n in view.legend) == 2_000
    assert np.array(view.payload["slot_of"])[_unpack(view.payload["group"])].max() == COLOURS


def test_many_workers_get_a_row_each_and_very_many_share_rows() -> None:
    view = timeline(synthetic_trace(4_000, workers=200, threads=2), [])
    assert len(view.payload["rows"]) == 200
    assert {row["lanes"] for row in view.payload["rows"]} == {2}
    assert "one row a worker" in view.row_text
    view = timeline(synthetic_trace(6_000, workers=2_500, threads=1), [])
    assert len(view.payload["rows"]) <= 1_000
    assert sum(row["lanes"] for row in view.payload["rows"]) == 2_500


def test_deaths_and_pauses_sit_on_the_rows_of_their_worker() -> None:
    trace = synthetic_trace(400, deaths=1)
    marks = timeline(trace, incidents(trace)).payload["marks"]
    kinds = [mark["kind"] for mark in marks]
    assert kinds.count("death") == 1
    assert kinds.count("pause") == 2
    assert all(mark["rows"] == [0, 1] for mark in marks)
    ended = [mark["until_s"] for mark in marks if mark["kind"] == "pause"]
    assert ended[0] is not None
    assert ended[1] is None


def test_attempts_without_an_end_reach_to_the_end_of_their_worker() -> None:
    trace = Trace.from_tables(
        {
            "tasks": [
                {"task_id": "a", "worker": "w", "started_ns": 0, "ended_ns": 10_000_000},
                {"task_id": "b", "worker": "v", "started_ns": 1_000_000, "outcome": "running"},
                {"task_id": "c", "worker": "w"},
            ],
            "workers": [{"worker": "v", "started_ns": 0, "ended_ns": 5_000_000}],
        }
    )
    view = timeline(trace, [])
    _, _, end = _restore(view.payload)
    assert sorted((end * view.payload["tick_ns"]).tolist()) == [5_000_000, 10_000_000]
    assert any("without an end" in note for note in view.notes)
    assert any("1 attempt without a start time" in note for note in view.notes)
    assert _unpack(view.payload["state"]).tolist().count(2) == 1


@pytest.mark.parametrize("tasks", [0, 50])
def test_without_times_there_is_no_timeline_and_the_reason_is_said(tasks: int) -> None:
    trace = synthetic_trace(tasks, times="none")
    view = timeline(trace, incidents(trace))
    assert not view.payload
    assert "so there is no timeline" in view.notes[0]
    assert overview(trace) is None


def test_the_overview_says_how_many_ran_and_waited() -> None:
    view = overview(synthetic_trace(1_000))
    assert view is not None
    assert len(view["slices"]) == 24
    assert max(view["running"]) <= 8.001
    assert max(view["waiting"]) > 0
    assert view["slices"][-1]["end_s"] == pytest.approx(view["span_s"])


def test_one_attempt_of_no_length_is_drawn() -> None:
    row = {"task_id": "a", "started_ns": 5, "ended_ns": 5}
    trace = Trace.from_tables({"tasks": [row]})
    assert timeline(trace, []).drawn == 1
    assert overview(trace) is not None


def test_area_path_is_empty_for_nothing() -> None:
    assert area_path([0, 0], 0) == "M0 100V100H2V100Z"
