"""From a trace to a model, its replay, and what changes save."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.profiler.replay import (
    PARTS,
    Cap,
    Drop,
    Merge,
    Model,
    Release,
    Replayer,
    Scale,
    Speed,
    Split,
    Worker,
    Workers,
    make_model,
    simulate,
)
from rotameter.profiler.trace import Trace

BASE, S = 1_700_000_000 * 10**9, 10**9


def ns(seconds: float) -> int:
    return BASE + round(seconds * S)


def task(name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    row = {
        "task_id": name,
        "group": name.rstrip("0123456789"),
        "worker": "w0",
        "outcome": "ok",
        "submitted_ns": ns(more.pop("submitted", 0.0)),
        "started_ns": ns(start),
        "ended_ns": ns(end),
    }
    return {**row, **more}


def trace(
    tasks: list[dict[str, Any]],
    deps: list[tuple[str, str]] = (),  # type: ignore[assignment]
    workers: tuple[str, ...] = ("w0",),
    cores: float = 1.0,
    engine: str = "dask",
    **tables: Any,
) -> Trace:
    lives = [{"worker": w, "cores": cores, "started_ns": ns(0)} for w in workers]
    pairs = [{"task_id": a, "depends_on": b} for a, b in deps]
    rows = {"tasks": tasks, "deps": pairs, "workers": lives, **tables}
    return Trace.from_tables(rows, {"engine": engine})


def model_of(made: Trace) -> Model:
    model = Model.from_trace(made)
    assert model is not None
    return model


def part(model: Model, name: str) -> list[float]:
    values = model.parts_s[~model.gate, PARTS.index(name)]
    return [round(float(x), 6) for x in values]


def error(made: Trace) -> float:
    done = Replayer(made).replay
    assert done is not None
    return done.replay_error_ratio


def test_waits_are_split_into_overhead_transfer_spill_and_stall() -> None:
    made = trace(
        [
            task("a1", 0.01, 1.0),
            task("a2", 1.02, 2.0),
            task("a3", 2.5, 3.0),
            task("a4", 4.0, 5.0),
        ],
        intervals=[
            {"kind": "disk", "worker": "w0", "start_ns": ns(2.0), "end_ns": ns(2.49)},
        ],
    )
    model = model_of(made)
    assert part(model, "overhead") == [0.01, 0.02, 0.01, 0.0]
    assert part(model, "spill") == [0.0, 0.0, 0.49, 0.0]
    assert part(model, "stall") == [0.0, 0.0, 0.0, 1.0]
    assert "waited 1 s" in " ".join(model.notes)
    assert error(made) == pytest.approx(0.0, abs=1e-6)


def test_an_input_from_another_worker_is_waited_for_by_all_who_need_it() -> None:
    got = {"medium": "network", "op": "receive", "object": "a1", "worker": "w1"}
    made = trace(
        [
            task("a1", 0.0, 1.0, output_bytes=10**8),
            task("b1", 1.5, 2.0, worker="w1", transfer_s=0.5),
            task("b2", 1.5, 2.0, worker="w1", transfer_s=0.0),
        ],
        [("b1", "a1"), ("b2", "a1")],
        ("w0", "w1"),
        cores=2.0,
        flows=[{**got, "task_id": "b1", "bytes": 10**8, "last_ns": ns(1.5)}],
    )
    assert part(model_of(made), "transfer") == [0.0, 0.5, 0.5]
    saving = Replayer(made).saving(Scale("b", "transfer", 0.0))
    assert saving.mid_s == pytest.approx(0.5)


def test_wall_is_read_write_and_compute() -> None:
    flow = {"task_id": "a1", "medium": "file"}
    made = trace(
        [
            task("a1", 0.0, 4.0),
            task("a2", 4.0, 8.0, io_s=2.0, read_bytes=300, write_bytes=100),
            task("a3", 8.0, 9.0, io_s=50.0),
        ],
        flows=[{**flow, "op": "read", "busy_s": 1.0}, {**flow, "op": "write", "busy_s": 0.5}],
    )
    model = model_of(made)
    assert part(model, "read") == [1.0, 1.5, 1.0]
    assert part(model, "write") == [0.5, 0.5, 0.0]
    assert part(model, "compute") == [2.5, 2.0, 0.0]


def test_a_submission_after_all_results_follows_them() -> None:
    rounds = [
        task(f"a{k}", 2.0 * k, 2.0 * k + 1.0, submitted=2.0 * k, worker="w0") for k in range(3)
    ]
    made = trace(rounds)
    saving = Replayer(made).saving(Scale("a", "wall", 0.5))
    assert saving.mid_s == pytest.approx(1.5)
    assert Replayer(made).saving(Scale(None, "gap", 0.0)).mid_s == pytest.approx(2.0)
    assert Replayer(made).saving(Release("at_sync")).mid_s == pytest.approx(2.0)


def test_submissions_of_a_loop_follow_each_other() -> None:
    made = trace(
        [task(f"a{k}", 0.1 * k, 0.1 * k + 3.0, submitted=0.1 * k) for k in range(10)], cores=16.0
    )
    model = model_of(made)
    gates = model.parts_s[model.gate].sum(axis=1)
    assert gates[1:].tolist() == pytest.approx([0.1] * 9)
    assert Replayer(made).saving(Scale("a", "wall", 0.5)).mid_s == pytest.approx(1.5)


def test_arrivals_of_many_peoples_jobs_stay_where_they_are() -> None:
    jobs = [task(f"a{k}", 10.0 * k, 10.0 * k + 5, submitted=10.0 * k) for k in range(3)]
    made = trace(jobs, engine="slurm")
    assert Replayer(made).saving(Scale("a", "wall", 0.5)).mid_s == pytest.approx(2.5)


def test_retries_follow_what_failed_and_can_be_dropped() -> None:
    made = trace(
        [
            task("a1", 0.0, 2.0, outcome="failed", attempt=1),
            task("a1", 2.0, 4.0, attempt=2),
            task("b1", 4.0, 5.0),
        ],
        [("b1", "a1")],
    )
    replayer = Replayer(made)
    lost = np.array([True, False, False])
    assert replayer.saving(Drop(lost)).mid_s == pytest.approx(2.0)
    model = replayer.model
    assert model is not None
    assert model.lost[~model.gate].tolist() == [True, False, False]


def test_what_a_later_submission_computes_again_belongs_to_it() -> None:
    made = trace(
        [
            task("a1", 0.0, 2.0, attempt=1, ready_ns=ns(0)),
            task("a1", 3.0, 5.0, attempt=2, ready_ns=ns(3)),
            task("b1", 5.0, 6.0, submitted=3.0),
        ],
        [("b1", "a1")],
    )
    model = model_of(made)
    assert model.again[~model.gate].tolist() == [False, True, False]
    assert Replayer(made).saving(Drop(np.array([False, True, False]))).mid_s == pytest.approx(2.0)
    assert Replayer(made).saving(Scale(None, "gap", 0.0)).mid_s == pytest.approx(1.0)


def test_who_waited_while_another_was_idle_is_pinned() -> None:
    tasks = [task(f"a{k}", float(k), k + 1.0) for k in range(6)]
    model = model_of(trace(tasks, workers=("w0", "w1")))
    assert model.pinned[~model.gate].tolist() == [True] * 6
    assert simulate(model).makespan_s == pytest.approx(6.0)
    both = [task(f"a{k}", k // 2, k // 2 + 1.0, worker=f"w{k % 2}") for k in range(6)]
    model = model_of(trace(both, workers=("w0", "w1")))
    assert not model.pinned.any()


def test_a_worker_plainly_slower_is_found_and_can_be_made_equal() -> None:
    fast = [task(f"a{k}", k, k + 1.0, worker="w0") for k in range(24)]
    slow = [task(f"a{k + 50}", 3 * k, 3 * k + 3.0, worker="w1") for k in range(8)]
    made = trace(fast + slow, workers=("w0", "w1"))
    replayer = Replayer(made)
    model = replayer.model
    assert model is not None
    assert [round(w.speed_ratio, 3) for w in model.workers] == [1.0, 0.333]
    saving = replayer.saving(Speed("w1", 1 / model.workers[1].speed_ratio))
    assert saving.mid_s == pytest.approx(8.0, abs=0.01)


def test_a_straggler_is_not_drawn_away_by_the_bootstrap() -> None:
    tasks = [task(f"a{k}", 0.0, 1.0 + 0.01 * k, worker=f"w{k}") for k in range(8)]
    tasks.append(task("a9", 0.0, 5.0, worker="w8"))
    made = trace(tasks, workers=tuple(f"w{k}" for k in range(9)))
    saving = Replayer(made).saving(Cap("a", "wall", "median"))
    assert saving.mid_s == pytest.approx(5.0 - 1.04, abs=0.06)
    assert saving.low_s is not None and saving.low_s > 3.5
    assert saving.n == 20


def test_a_change_that_costs_is_a_negative_saving_and_none_exceeds_the_run() -> None:
    made = trace([task("a1", 0.0, 1.0), task("a2", 1.0, 2.0)])
    replayer = Replayer(made)
    assert replayer.saving(Scale("a", "wall", 3.0)).mid_s == pytest.approx(-4.0)
    gone = replayer.saving(Drop(None))
    assert gone.mid_s is not None and gone.mid_s <= 2.0
    assert replayer.saving(Merge("a", 2)).mid_s == pytest.approx(0.0)
    assert replayer.saving(Workers(1)).mid_s == pytest.approx(1.0)
    assert replayer.saving(Split("a", 2), Workers(3)).mid_s == pytest.approx(1.5)
    assert replayer.makespan() == pytest.approx(2.0)
    assert "off" in gone.how and gone.to_dict()["mid_s"] == gone.mid_s


def test_the_error_of_the_replay_is_in_every_interval() -> None:
    made = trace([task("a1", 0.0, 1.0), task("a2", 1.0, 2.0)], cores=2.0)
    replayer = Replayer(made)
    done = replayer.replay
    assert done is not None
    saving = replayer.saving()
    assert saving.mid_s == 0.0
    assert saving.error_ratio == pytest.approx(done.replay_error_ratio)
    assert saving.high_s == pytest.approx(abs(done.replay_error_ratio) * 2.0, abs=1e-6)


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [{"task_id": "a"}],
        [{"task_id": "a", "wall_s": 3.0, "outcome": "ok"}],
        [{"task_id": "a", "started_ns": ns(0)}],
    ],
)
def test_nothing_to_replay_is_said(tasks: list[dict[str, Any]]) -> None:
    replayer = Replayer(Trace.from_tables({"tasks": tasks}))
    assert replayer.saving(Scale(None, "wall", 0.5)).mid_s is None
    assert "nothing to replay" in replayer.notes[0]
    assert replayer.makespan() is None
    assert replayer.replay is None


def test_dependencies_against_the_times_are_left_out_and_said() -> None:
    made = trace([task("a1", 0.0, 1.0), task("b1", 1.0, 2.0)], [("a1", "b1"), ("b1", "a1")])
    model = model_of(made)
    assert "1 of 2 dependencies contradict" in model.notes[0]
    assert simulate(model).stuck == 0


def test_workers_without_cores_count_with_what_ran_there() -> None:
    tasks = [task("a1", 0.0, 1.0), task("a2", 0.0, 1.0), task("b1", 1.0, 2.0, worker=None)]
    model = model_of(Trace.from_tables({"tasks": tasks}))
    assert sorted(w.cores for w in model.workers) == [1.0, 2.0]
    assert "no cores on record" in " ".join(model.notes)


def test_files_stand_in_for_dependencies_that_are_not_on_record() -> None:
    flow = {"medium": "file", "object": "f", "bytes": 10}
    made = trace(
        [task("a1", 0.0, 1.0), task("b1", 1.0, 2.0)],
        cores=4.0,
        flows=[{**flow, "task_id": "a1", "op": "write"}, {**flow, "task_id": "b1", "op": "read"}],
    )
    assert Replayer(made).saving(Scale("a", "wall", 0.5)).mid_s == pytest.approx(0.5)


def test_a_simulated_run_is_replayed_as_it_was() -> None:
    rng = np.random.default_rng(5)
    n = 300
    deps = [(i, int(j)) for i in range(60, n) for j in rng.integers(i - 60, i - 20, 2)]
    workers = [Worker(f"w{k}", cores=2) for k in range(4)]
    made = simulate(make_model(rng.lognormal(-1, 0.7, n), deps, workers))
    rows = [
        task(f"t{k}", made.begin_s[k], made.end_s[k], worker=f"w{made.worker[k]}") for k in range(n)
    ]
    names = [(f"t{a}", f"t{b}") for a, b in deps]
    recorded = trace(rows, names, tuple(f"w{k}" for k in range(4)), cores=2.0)
    assert abs(error(recorded)) < 0.01
