from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.profiler.trace import Trace
from rotameter.profiler.view import View, short, view

S = 10**9
EPOCH = 1_700_000_000 * S


def seen(tasks: list[dict[str, Any]], meta: dict[str, Any] | None = None, **tables: Any) -> View:
    return View(Trace.from_tables({"tasks": tasks, **tables}, meta))


def test_times_are_seconds_from_the_first_instant() -> None:
    made = seen(
        [
            {"task_id": "a", "submitted_ns": EPOCH, "started_ns": EPOCH + S // 4,
             "ended_ns": EPOCH + 2 * S},
            {"task_id": "b", "started_ns": None},
        ]
    )  # fmt: skip
    assert made.origin_ns == EPOCH
    np.testing.assert_array_equal(made.started, [0.25, np.nan])
    np.testing.assert_array_equal(made.wall, [1.75, np.nan])
    assert made.makespan == 2.0
    assert made.window == (0.0, 2.0)


def test_an_attempt_taken_along_ends_with_its_worker() -> None:
    made = seen(
        [{"task_id": "a", "worker": "w", "outcome": "worker_lost", "started_ns": EPOCH + S}],
        workers=[{"worker": "w", "started_ns": EPOCH, "ended_ns": EPOCH + 3 * S, "cores": 1.0}],
    )
    assert made.wall.tolist() == [2.0]


def test_ready_is_recorded_or_the_last_inputs_end() -> None:
    made = seen(
        [
            {"task_id": "a", "outcome": "ok", "submitted_ns": EPOCH, "ended_ns": EPOCH + 2 * S},
            {"task_id": "b", "outcome": "ok", "submitted_ns": EPOCH, "ended_ns": EPOCH + 3 * S},
            {"task_id": "c", "submitted_ns": EPOCH + S},
            {"task_id": "d", "submitted_ns": EPOCH + S, "ready_ns": EPOCH + 5 * S},
        ],
        deps=[{"task_id": t, "depends_on": on} for t in "cd" for on in ("a", "b", "missing")],
    )
    np.testing.assert_array_equal(made.ready, [0.0, 0.0, 3.0, 5.0])
    assert made.root.tolist() == [True, True, False, False]


def test_what_was_computed_again_and_what_never_ended_well() -> None:
    rows = [("a", "ok", 1), ("a", "ok", 2), ("b", "failed", 1), ("b", "ok", 2), ("c", "oom", 1),
            ("c", "failed", 2), ("d", "cached", 1)]  # fmt: skip
    made = seen(
        [{"task_id": t, "outcome": o, "started_ns": 0, "ended_ns": n * S} for t, o, n in rows]
    )
    assert made.superseded.tolist() == [True] + [False] * 6
    assert made.never_ok.tolist() == [False] * 5 + [True, False]


def test_nested_tasks_run_inside_their_parents() -> None:
    made = seen(
        [
            {"task_id": "a", "started_ns": 0, "ended_ns": 9},
            {"task_id": "b", "parent": "a", "started_ns": 1, "ended_ns": 2},
            {"task_id": "c", "parent": "elsewhere", "started_ns": 1, "ended_ns": 2},
        ]
    )
    assert made.ran.tolist() == [True, False, True]


def test_lives_lie_in_the_run_and_slots_are_the_most_at_one_time() -> None:
    lives = [("a", 0, 5, 2.0), ("b", 5, None, 2.0), ("c", None, None, 1.0), ("d", 2, 3, None)]
    made = seen(
        [{"task_id": "t", "started_ns": EPOCH, "ended_ns": EPOCH + 8 * S}],
        {"run": {"started_ns": EPOCH + S, "ended_ns": EPOCH + 9 * S}},
        workers=[
            {
                "worker": name,
                "started_ns": None if start is None else EPOCH + start * S,
                "ended_ns": None if end is None else EPOCH + end * S,
                "cores": cores,
            }
            for name, start, end, cores in lives
        ],
    )
    assert made.lives["started"].tolist() == [1.0, 5.0, 1.0, 2.0]
    assert made.lives["ended"].tolist() == [5.0, 9.0, 9.0, 3.0]
    assert made.slots == 3.0


def test_origins_keep_the_line_however_long_the_file() -> None:
    event = {"kind": "group_origin", "group": "g", "file": "/x/" + "y" * 99 + ".py", "line": 42}
    windows = {"kind": "group_origin", "group": "h", "file": "C:\\me\\run.py", "line": None}
    made = seen([{"task_id": "t", "group": g} for g in "gh"], events=[event, windows])
    assert made.label(0).endswith(".py:42)")
    assert made.label(1) == "`h` (run.py)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [(None, "(unnamed)"), ("a\x1b[31m\nb", "a [31m b"), ("é" * 50, "é" * 39 + "…"), ("", "")],
)
def test_names_print_on_one_line(text: str | None, shown: str) -> None:
    assert short(text) == shown


def test_the_view_of_a_trace_is_made_once() -> None:
    trace = Trace.from_tables({})
    assert view(trace) is view(trace)
    assert view(Trace.from_tables({})) is not view(trace)


@pytest.mark.parametrize("outcome", ["failed", "unknown", "running", "ok", "oom"])
@pytest.mark.parametrize(("wall_s", "length"), [(None, 600.0), (50.0, 650.0)])
def test_a_run_lasts_at_least_to_the_last_start(
    outcome: str, wall_s: float | None, length: float
) -> None:
    made = seen(
        [
            {"task_id": "a", "started_ns": EPOCH, "ended_ns": EPOCH + 5 * S, "outcome": "ok"},
            {"task_id": "b", "started_ns": EPOCH + 600 * S, "outcome": outcome, "wall_s": wall_s},
        ]
    )
    assert made.makespan == length and made.makespan_at_least
    alone = seen(
        [
            {"task_id": "a", "started_ns": EPOCH, "outcome": outcome},
            {"task_id": "b", "started_ns": EPOCH + 600 * S, "outcome": outcome, "wall_s": wall_s},
        ]
    )
    assert alone.makespan == length and alone.makespan_at_least
    assert seen([{"task_id": "a", "started_ns": EPOCH, "outcome": outcome}]).makespan is None


def test_what_came_from_a_cache_makes_no_run_longer_than_known() -> None:
    made = seen(
        [
            {"task_id": "a", "started_ns": EPOCH, "ended_ns": EPOCH + 5 * S, "outcome": "ok"},
            {"task_id": "b", "started_ns": EPOCH + S, "outcome": "cached"},
        ]
    )
    assert made.makespan == 5.0 and not made.makespan_at_least
