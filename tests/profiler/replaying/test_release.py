"""Which submission released which attempt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rotameter.profiler.replay import Model, Replayer
from rotameter.profiler.trace import Trace

SECOND = 10**9


def test_a_resumed_run_does_not_hold_up_the_one_before() -> None:
    """The second run submits all tasks again; the first one's had followed their inputs."""
    rows, deps = [], []
    for start, attempt in ((0, 1), (100, 2)):
        for stage in range(3):
            for number in range(4):
                task, begin = f"s{stage}-{number}", start + 10 * stage
                row = {"task_id": task, "group": f"s{stage}", "attempt": attempt, "outcome": "ok"}
                times = {"started_ns": begin * SECOND, "ended_ns": (begin + 10) * SECOND}
                # The engine hands the first run's tasks over one by one, the second's at once.
                submitted = begin if attempt == 1 else start
                place = {"worker": f"w{number % 2}", "submitted_ns": submitted * SECOND}
                rows.append({**row, **times, **place})
                if stage and attempt == 1:
                    deps.append({"task_id": task, "depends_on": f"s{stage - 1}-{number}"})
    workers = [{"worker": f"w{k}", "cores": 2.0} for k in range(2)]
    trace = Trace.from_tables(
        {"tasks": rows, "deps": deps, "workers": workers}, {"engine": "workflow"}
    )
    done = Replayer(trace).replay
    assert done is not None
    assert not np.isnan(done.schedule.end_s).any()
    assert done.schedule.makespan_s == pytest.approx(130.0)
    first = done.model.row >= 0
    began = done.schedule.start_s[first & (done.model.row < 12)]
    assert began.max() == pytest.approx(20.0)


def test_what_would_never_end_prices_nothing() -> None:
    """A replay that gets stuck is shorter than the run, which is no saving."""
    row = {"group": "g", "worker": "w", "outcome": "ok", "started_ns": 0, "ended_ns": SECOND}
    trace = Trace.from_tables({"tasks": [{"task_id": "a", **row}]})

    class Circle:
        def apply(self, model: Model) -> Model:
            both = np.zeros(1, dtype=np.int64)
            return replace(model, dep_task=both, dep_on=both)

    replayer = Replayer(trace)
    assert replayer.makespan(Circle()) is None
    saving = replayer.saving(Circle())
    assert saving.mid_s is None
    assert "never end" in saving.how


def lanes(rows: list[tuple[str, str, float, float]], engine: str = "table") -> Model:
    """Attempts of which nothing but worker, group, start and end is known."""
    tasks = [
        {"task_id": f"t{k}", "group": group, "worker": worker, "outcome": "ok",
         "started_ns": round(start * SECOND), "ended_ns": round(end * SECOND)}
        for k, (worker, group, start, end) in enumerate(rows)
    ]  # fmt: skip
    made = Model.from_trace(Trace.from_tables({"tasks": tasks}, {"engine": engine}))
    assert made is not None
    return made


def test_a_start_at_an_end_on_the_same_worker_waited_for_that_core() -> None:
    rows = [("w0", "a", k, k + 1.0) for k in range(6)]
    rows += [("w1", "a", 3.3 * k, 3.3 * (k + 1)) for k in range(6)]
    assert int(lanes(rows).gate.sum()) == 1
    # What a program calls itself, it calls when the call before is over.
    assert int(lanes(rows, "python").gate.sum()) > 1


def test_steps_that_begin_together_were_handed_over_then() -> None:
    """Three steps of two tasks, each after the longer one of the step before."""
    rows = [(f"w{k}", "a", 2.0 * step, 2.0 * step + 1 + k) for step in range(3) for k in range(2)]
    assert int(lanes(rows).gate.sum()) == 3
    # A new kind of task on one worker alone is the program's next step.
    rows = [("w0", "a", 0.0, 1.0), ("w1", "a", 0.0, 0.5), ("w0", "b", 1.0, 2.0)]
    assert int(lanes(rows).gate.sum()) == 2
