"""Changes off the chain that made the length are not replayed, and would save nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.profiler.replay import Replayer, make_model, simulate
from rotameter.profiler.replaying import savings
from rotameter.profiler.replaying.changes import Scale, Workers
from rotameter.profiler.replaying.screen import chain, taken_s
from rotameter.profiler.trace import Trace

S = 10**9


def run_of_two() -> Trace:
    """A long chain on one worker, a short task beside it on another."""
    rows = [("a", "long", "u", 0, 6), ("b", "long", "u", 6, 10), ("c", "short", "v", 0, 2)]
    tasks = [
        {"task_id": t, "group": g, "worker": w, "outcome": "ok", "submitted_ns": 0,
         "started_ns": start * S, "ended_ns": end * S}
        for t, g, w, start, end in rows
    ]  # fmt: skip
    return Trace.from_tables({"tasks": tasks, "deps": [{"task_id": "b", "depends_on": "a"}]})


@pytest.mark.parametrize("seed", range(30))
def test_the_chain_reaches_from_the_last_end_to_the_first_start(seed):
    rng = np.random.default_rng(seed)
    n = 40
    deps = [(t, int(rng.integers(t))) for t in range(1, n) if rng.random() < 0.6]
    model = make_model(rng.uniform(0.1, 2.0, n), deps)
    schedule = simulate(model)
    path = chain(model, schedule)
    assert schedule.end_s[path[0]] == pytest.approx(schedule.makespan_s)
    assert schedule.start_s[path[-1]] == pytest.approx(0.0)
    # One slot, or dependencies: each begins where the one before it in time ended.
    assert schedule.start_s[path[:-1]] == pytest.approx(schedule.end_s[path[1:]])


def test_what_is_off_the_chain_saves_nothing_either_way(monkeypatch):
    trace = run_of_two()
    change = Scale("short", "compute", 0.1)
    replayed = Replayer(trace).saving(change)
    monkeypatch.setattr(savings, "SCREENED_NODES", 0)
    screened = Replayer(trace).saving(change)
    assert replayed.mid_s == screened.mid_s == 0.0
    assert "chain" in screened.how
    assert "chain" not in replayed.how


def test_what_is_on_the_chain_is_replayed(monkeypatch):
    monkeypatch.setattr(savings, "SCREENED_NODES", 0)
    saving = Replayer(run_of_two()).saving(Scale("long", "compute", 0.5))
    assert saving.mid_s == pytest.approx(5.0)


def test_more_than_shorter_durations_is_always_replayed():
    replayer = Replayer(run_of_two())
    done = replayer.replay
    assert done is not None
    path = chain(done.model, done.schedule)
    assert taken_s(done.model, Workers(add=1).apply(done.model), path) is None
    halved = Scale("long", "compute", 0.5).apply(done.model)
    assert taken_s(done.model, halved, path) == pytest.approx(5.0)


def test_a_model_that_never_runs_has_no_chain():
    model = make_model([1.0, 1.0], [(0, 1), (1, 0)])
    assert not len(chain(model, simulate(model)))
