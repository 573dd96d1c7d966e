from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rotameter.profiler.occupancy import occupancy, paused_spans, sweep, timeline
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import View

S = 10**9

spans = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 2), st.integers(1, 5)),
    min_size=1,
    max_size=30,
)


@given(spans)
def test_the_sweep_is_the_sum_at_every_instant(rows: list[tuple[int, int, int, int]]) -> None:
    starts = np.array([row[0] for row in rows], dtype=float)
    ends = starts + np.array([row[1] for row in rows])
    series = np.array([row[2] for row in rows])
    weights = np.array([row[3] for row in rows], dtype=float)
    edges, levels = sweep(starts, ends, series, weights, 3)
    for at in np.arange(-0.5, 62):
        place = np.searchsorted(edges, at, "right") - 1
        for column in range(3):
            inside = (starts <= at) & (at < ends) & (series == column)
            got = levels[place, column] if place >= 0 else 0.0
            assert got == weights[inside].sum()


def made() -> View:
    worker = {"started_ns": 0, "ended_ns": 10 * S, "cores": 2.0}
    tasks = [("a", "w0", 0, 4), ("b", "w0", 2, 6), ("c", "w1", 5, 10)]
    return View(
        Trace.from_tables(
            {
                "workers": [{"worker": "w0", **worker}, {"worker": "w1", **worker}],
                "tasks": [
                    {"task_id": t, "worker": w, "outcome": "ok", "submitted_ns": 0,
                     "ready_ns": start * S - S // 2 if start else 0, "started_ns": start * S,
                     "ended_ns": end * S}
                    for t, w, start, end in tasks
                ],
                "intervals": [
                    {"kind": "transfer", "worker": "w1", "peer": peer, "start_ns": S,
                     "end_ns": 3 * S}
                    for peer in ("w0", "w1")
                ],
            }
        )
    )  # fmt: skip


def test_integrals_stay_on_their_worker() -> None:
    swept = occupancy(made())
    assert swept is not None
    at = np.array([0.0, 0.0]), np.array([10.0, 5.0])
    np.testing.assert_allclose(swept.integral(swept.idle, np.array([0, 1]), *at), [12.0, 8.0])
    # Of two transfers one is to the worker itself: it does not travel.
    np.testing.assert_allclose(
        swept.integral(swept.waiting[:, 0], np.array([0, 1]), *at), [0.0, 2.0]
    )


def test_the_timeline_counts_any_part_of_the_run() -> None:
    view = made()
    line = timeline(view)
    assert line is not None
    assert float(line.running @ line.dt) == 13.0
    assert float(line.free @ line.dt) == 27.0
    assert float(line.waiting @ line.dt) == 1.0
    one = line.count(view.started[:1], view.ended[:1])
    assert float(one @ line.dt) == 4.0
    np.testing.assert_allclose(line.integral(line.running, np.array([3.0]), np.array([5.5])), [4.0])
    assert timeline(view) is line


def test_without_workers_there_is_nothing_to_sweep() -> None:
    view = View(Trace.from_tables({"tasks": [{"task_id": "a", "started_ns": 0, "ended_ns": S}]}))
    assert occupancy(view) is None
    assert timeline(view) is None


def test_pauses_end_with_the_worker_at_the_latest() -> None:
    at = [("worker_paused", "w0", 1), ("worker_paused", "w0", 2), ("worker_resumed", "w0", 3),
          ("worker_resumed", "w0", 4), ("worker_paused", "w1", 5)]  # fmt: skip
    view = View(
        Trace.from_tables(
            {
                "workers": [
                    {"worker": w, "started_ns": 0, "ended_ns": 9 * S, "cores": 1.0}
                    for w in ("w0", "w1")
                ],
                "events": [{"kind": k, "worker": w, "at_ns": t * S} for k, w, t in at],
            }
        )
    )
    worker, starts, ends = paused_spans(view)
    assert (worker.tolist(), starts.tolist(), ends.tolist()) == ([0, 1], [1.0, 5.0], [3.0, 9.0])
