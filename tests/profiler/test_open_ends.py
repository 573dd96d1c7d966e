"""Attempts without an end: how long they ran at least, and none longer than its worker lived."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.profiler.open_ends import still_running
from rotameter.profiler.trace import Trace
from rotameter.profiler.view import View

S = 10**9


def ends(workers: list[dict[str, Any]], worker: str | None = "w") -> list[float]:
    rows = [
        {"task_id": "a", "worker": "w", "started_ns": S, "ended_ns": 4 * S, "outcome": "ok"},
        {"task_id": "b", "worker": worker, "started_ns": 3 * S, "outcome": "running"},
    ]
    run = {"status": "ok", "started_ns": S, "ended_ns": 11 * S}
    trace = Trace.from_tables({"tasks": rows, "workers": workers}, {"run": run})
    _, until = still_running(View(trace))
    return until.tolist()


@pytest.mark.parametrize(
    ("gone", "end"),
    [
        ([], 10.0),
        ([{"worker": "w", "started_ns": S}], 10.0),
        ([{"worker": "w", "started_ns": S, "ended_ns": 5 * S}], 4.0),
        # Its record is older than what ran there: it says nothing of this attempt.
        ([{"worker": "w", "started_ns": S, "ended_ns": 2 * S}], 10.0),
        ([{"worker": "v", "started_ns": S, "ended_ns": 5 * S}], 10.0),
    ],
)
def test_nothing_outlives_its_worker(gone: list[dict[str, Any]], end: float) -> None:
    assert ends(gone) == [end]


def test_where_the_worker_is_not_known_it_lasts_to_the_end() -> None:
    assert ends([{"worker": "w", "started_ns": S, "ended_ns": 5 * S}], worker=None) == [10.0]
