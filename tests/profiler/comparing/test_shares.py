"""Changes of who did how much: a slow worker, and work that is shared otherwise."""

from __future__ import annotations

import pytest

from rotameter.profiler.comparing.judging import Measured, judge
from rotameter.profiler.comparing.predictions import Prediction
from rotameter.profiler.comparing.verdict import compare
from rotameter.profiler.trace import Trace
from rotameter.values import Finding, Verdict
from rotameter.viz.comparison_words import headline, what_changed

SECOND = 10**9


def nothing(trace: Trace) -> Verdict:
    return Verdict("s", "ok")


def shared(counts: dict[str, tuple[int, float]], group: str = "map") -> Trace:
    """Each worker does so many tasks of so many seconds, one after the other."""
    rows, workers = [], []
    whole = max(n * took for n, took in counts.values())
    for name, (count, took) in counts.items():
        for i in range(count):
            times = [round((i + k) * took * SECOND) for k in (0, 1)]
            rows.append(
                {
                    "task_id": f"{name}-{i}", "group": group, "worker": name, "host": name,
                    "outcome": "ok", "submitted_ns": 0, "started_ns": times[0],
                    "ended_ns": times[1], "wall_s": took,
                }
            )  # fmt: skip
        workers.append(
            {"worker": name, "host": name, "cores": 1.0, "started_ns": 0,
             "ended_ns": round(whole * SECOND)}
        )  # fmt: skip
    return Trace.from_tables({"tasks": rows, "workers": workers}, {"engine": "dask"})


@pytest.mark.parametrize("names", [("w0", "w1"), ("v7", "v3")])
def test_a_worker_that_is_no_longer_slow_is_the_whole_saving(names: tuple[str, str]) -> None:
    # 10 tasks on each: 10 x 1.2 s = 12 s on the slow one, 10 x 0.4 s = 4 s then: 8 s less.
    slow = shared({"w0": (10, 1.2), "w1": (10, 0.4)})
    fixed = shared({name: (10, 0.4) for name in names})
    found = compare([slow], [fixed], diagnose=nothing)
    (change,) = found.groups
    assert change.contribution_s == pytest.approx(-8.0, abs=0.4)
    assert found.unexplained_s == pytest.approx(0.0, abs=0.4)
    assert "Most of it: map" in headline(found)


def test_more_task_time_that_is_shared_better_takes_off_time() -> None:
    # 10 tasks each, w2 at 3 s: 30 s. Then as many as each can do in 18 s: 60 tasks, 72 s in all.
    static = shared({"w0": (10, 1.0), "w1": (10, 1.0), "w2": (10, 3.0), "w3": (10, 1.0)})
    dynamic = shared({"w0": (18, 1.0), "w1": (18, 1.0), "w2": (6, 3.0), "w3": (18, 1.0)})
    found = compare([static], [dynamic], diagnose=nothing)
    (change,) = found.groups
    assert change.contribution_s == pytest.approx(-12.0, abs=0.6)
    assert change.contribution_interval90 is None
    assert "shared otherwise among the workers" in what_changed(change)
    assert "Most of it: map (-12" in headline(found)


def test_the_headline_names_no_change_that_went_the_other_way() -> None:
    from dataclasses import replace

    slow = shared({"w0": (10, 1.2), "w1": (10, 0.4)})
    found = compare([slow], [shared({"w0": (10, 0.4), "w1": (10, 0.4)})], diagnose=nothing)
    (change,) = found.groups
    against = replace(found, groups=(replace(change, contribution_s=3.0),))
    said = headline(against)
    assert "8 s (67 %) less" in said and "Largest change" not in said
    assert said.endswith("No change that was found explains it; against it went map (+3 s).")


def test_a_cause_that_is_found_again_is_not_gone() -> None:
    made = Prediction("RM116", "uneven_workers", ("map",), 13.0, 13.6, 14.0, "Leave it out.")
    again = Finding("RM116", "uneven_workers", "warning", "t", ("map",), cost_s=2.99)
    saved = Measured(12.2, None, None, 1.0)
    (judged,) = judge([made], saved, [], [], [again], ["its tasks are 60 now, not 40"])
    assert judged.outcome == "cannot tell"
    assert judged.how == "the cause is still there, and costs 2.99 s now"
    # Whatever it came to, what is left of it is said.
    (judged,) = judge([made], saved, [], [], [again], [""])
    assert judged.how == "the cause is still there, and costs 2.99 s now"
    (judged,) = judge([made], saved, [], [], [], ["its tasks are 60 now, not 40"])
    assert judged.how.startswith("the cause is gone")
