"""Sums of parts that grow by different laws, and the time of whole runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rotameter.profiler.laws.fit import fit
from rotameter.profiler.laws.run_time import run_times
from rotameter.profiler.laws.sample import Series
from rotameter.profiler.scaling import scaling
from rotameter.profiler.trace import Trace

SECOND = 10**9
SLOTS = 4
NOISE = (1.02, 0.99, 1.01, 0.98, 1.0, 1.01, 0.99, 1.0)


def run(k: int, waits_s: float = 0.0) -> Trace:
    """16·k tasks of 1 s on 4 slots, then one of 0.5·k² s: 4·k + 0.5·k² s in all."""
    tasks, deps = [], []
    ends = [0.0] * SLOTS
    for n in range(16 * k):
        slot = n % SLOTS
        took = NOISE[(n + k) % len(NOISE)]
        tasks.append(_task(f"m{n}", "map", slot, ends[slot], ends[slot] + took))
        ends[slot] += took
        deps.append({"task_id": "r", "depends_on": f"m{n}"})
    begin = max(ends) + waits_s
    tasks.append(_task("r", "reduce", 0, begin, begin + 0.5 * k * k * NOISE[k % len(NOISE)]))
    return Trace.from_tables({"tasks": tasks, "deps": deps}, {"scale": {"data": k}})


def _task(name: str, group: str, slot: int, start: float, end: float) -> dict[str, object]:
    times = {"started_ns": round(start * SECOND), "ended_ns": round(end * SECOND)}
    return {"task_id": name, "group": group, "worker": f"w{slot}", "attempt": 1, **times}


def test_the_total_is_the_sum_of_its_parts_laws() -> None:
    found = scaling([run(k) for k in (1, 2, 4, 8)])
    (whole,) = [row for row in found.of("wall_s", "run")]
    # By hand at 16: 16·16·1 s + 0.5·16² s = 384 s.
    ahead = whole.predict_total(16)
    assert ahead.value == pytest.approx(384, rel=0.04)
    assert ahead.low is not None and ahead.high is not None
    assert ahead.low < 384 < ahead.high
    assert ahead.value == pytest.approx(found.total("wall_s", 16))
    assert (whole.way, whole.formula) == ("sum of parts", "wall_s = map + reduce")
    # It meets what was measured: at 8 that is 128 s + 32 s.
    assert whole.predict_total(8).value == pytest.approx(160, rel=0.03)


def test_the_time_of_the_run_is_the_sum_of_what_it_waited_for() -> None:
    found = scaling([run(k) for k in (1, 2, 4, 8)])
    text = found.to_text(16).splitlines()
    assert text[1].startswith("  run time: makespan_s = reduce + map; total 3 min ")
    # What it is made of does not push the other laws off the page.
    assert text[-2].startswith("  map on the critical path: makespan_s = ")
    (time,) = found.of("makespan_s", "run")
    # By hand at 16: 16·16 tasks on 4 slots are 64 s, and 128 s.
    ahead = time.predict_total(16)
    assert ahead.low is not None and ahead.high is not None
    assert ahead.value == pytest.approx(192, rel=0.04) and ahead.low < 192 < ahead.high
    plain = json.loads(json.dumps(found.to_dict(16), allow_nan=False))
    fold = next(f for f in plain["folds"] if f["key"] == "run time")
    assert fold["parts"] == ["reduce on the critical path", "map on the critical path"]
    assert fold["law"] is None and fold["total"]["value"] == pytest.approx(ahead.value)


def test_a_law_of_the_sum_that_says_the_same_is_kept() -> None:
    runs = [
        Trace.from_tables(
            {"tasks": [_task(f"t{n}", "map", 0, n, n + 1) for n in range(10 * k)]},
            {"scale": {"data": k}},
        )
        for k in (1, 2, 4)
    ]
    found = scaling(runs)
    (time,) = found.of("makespan_s", "run")
    assert (time.way, time.formula) == ("total", "makespan_s = 10 s · k")
    assert time.predict_total(8).value == pytest.approx(80)


def test_parts_that_not_all_runs_have_leave_the_law_of_the_run() -> None:
    runs = [run(1), run(2), run(4, waits_s=9.0)]
    whole, parts = run_times(runs, [1, 2, 4])
    assert len(whole["makespan_s"].samples) == 3 and not parts
    (time,) = scaling(runs).of("makespan_s", "run")
    assert time.way == "total" and time.predict_total(8).value > 0


def test_without_times_there_is_no_law_of_the_run_time() -> None:
    bare = [
        Trace.from_tables({"tasks": [{"task_id": "a", "group": "g"}]}, {"scale": {"data": k}})
        for k in (1, 2, 4)
    ]
    assert not scaling(bare).of("makespan_s", "run")


def test_a_law_that_misses_its_data_is_not_taken() -> None:
    # 16·k + 0.5·k²: a line through 0 is off by 12 % at the end, a power by 1 %.
    values = tuple(np.array([16.0 * k + 0.5 * k * k]) for k in (1, 2, 4, 8))
    found = fit(Series("all", "wall_s", (1.0, 2.0, 4.0, 8.0), values))
    assert found.predict(8).value == pytest.approx(160, rel=0.03)
    assert found.predict(1).value == pytest.approx(16.5, rel=0.03)
