"""Law 5: the engine conserves tasks and never exceeds capacity; and bad traces raise nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.profiler.replay import (
    Bandwidth,
    Cap,
    Change,
    Drop,
    Merge,
    Model,
    Order,
    Place,
    Policy,
    Release,
    Replayer,
    Scale,
    Speed,
    Split,
    Stage,
    Threads,
    Unpin,
    Worker,
    Workers,
    make_model,
    simulate,
)
from rotameter.profiler.replaying.check import violations
from rotameter.profiler.schema import OUTCOMES
from rotameter.profiler.trace import Trace

S = 10**9
BASE = 1_700_000_000 * S
GROUPS = ["a", "b"]


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Any small model: parts, gates, releases, memory, lives, shared links and storage."""
    n = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    workers = [
        Worker(
            f"w{k}",
            cores=float(rng.integers(1, 4)),
            memory_bytes=float(rng.integers(1, 10)),
            from_s=float(rng.choice([0.0, 0.0, 1.5])),
            until_s=float(rng.choice([np.inf, np.inf, 2.0])),
            speed_ratio=float(rng.choice([1.0, 0.5])),
        )
        for k in range(draw(st.integers(1, 3)))
    ]
    deps = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.2]
    seconds = rng.integers(0, 5, n) / 2.0
    return make_model(
        seconds,
        deps,
        workers,
        parts_s={name: rng.integers(0, 3, n) / 4.0 for name in ("read", "overhead", "transfer")},
        group=rng.integers(-1, 2, n).tolist(),
        groups=GROUPS,
        cores=rng.choice([0.0, 1.0, 1.0, 2.0, 5.0], n).tolist(),
        memory_bytes=rng.integers(0, 12, n).astype(float).tolist(),
        bytes_={k: rng.integers(0, 4, n).astype(float) for k in ("read", "write", "received")},
        home=rng.integers(-1, len(workers), n).tolist(),
        pinned=(rng.random(n) < 0.4).tolist(),
        release_s=(rng.integers(0, 4, n) * (rng.random(n) < 0.3)).astype(float).tolist(),
        link_bps=draw(st.sampled_from([None, None, 2.0])),
        storage_bps=draw(st.sampled_from([None, None, 3.0])),
    )


CHANGES: list[Change] = [
    Scale("a", "wall", 0.5),
    Scale(None, "overhead", 0.0),
    Cap(None, "wall", "median"),
    Cap("b", "compute", 0.5),
    Drop("a"),
    Merge("a", 3),
    Merge(None, 2),
    Split("b", 3),
    Split(None, 2),
    Workers(2),
    Workers(-1),
    Workers(0, cores=1.0),
    Threads(1),
    Speed(None, 2.0),
    Order("longest"),
    Order("critical"),
    Place("any"),
    Place("even"),
    Place("bytes"),
    Unpin(),
    Release("at_sync"),
    Release("at_start"),
    Bandwidth(2.0),
    Bandwidth(2.0, "storage"),
    Stage("a", 1.0, 0.5, 0.1, 0.1),
]


@given(models(), st.lists(st.sampled_from(CHANGES), max_size=3))
@settings(max_examples=300, deadline=None)
def test_schedules_keep_law_5(model: Model, changes: list[Change]) -> None:
    for change in changes:
        model = change.apply(model)
    schedule = simulate(model)
    assert violations(model, schedule) == []
    again = simulate(model)
    assert schedule.end_s.tobytes() == again.end_s.tobytes()
    assert schedule.worker.tobytes() == again.worker.tobytes()


@given(models())
@settings(max_examples=100, deadline=None)
def test_no_run_is_shorter_than_its_longest_chain_or_its_work(model: Model) -> None:
    model = replace(model, link_bps=None, storage_bps=None)
    same = tuple(replace(w, speed_ratio=1.0, from_s=0.0) for w in model.workers)
    model = replace(model, workers=same)
    schedule = simulate(model)
    chain = np.zeros(model.n)
    for node in range(model.n):
        before = model.dep_on[model.dep_task == node]
        ready = max([0.0, *chain[before]])
        claim = max(ready, model.release_s[node]) + model.delay_s[node]
        chain[node] = claim + model.held_s[node]
    slots = sum(w.cores for w in same)
    holds = ~model.gate
    assert schedule.makespan_s >= max([0.0, *chain[holds]]) - 1e-9
    assert schedule.busy_s.sum() <= slots * schedule.makespan_s + 1e-6


@given(models(), st.sampled_from(["any", "even", "bytes"]))
@settings(max_examples=60, deadline=None)
def test_other_policies_keep_law_5(model: Model, place: Any) -> None:
    policy = Policy(place=place)
    assert violations(replace(model, policy=policy), simulate(model, policy=policy)) == []


when = st.none() | st.integers(0, 40).map(lambda t: BASE + t * S // 4)


@st.composite
def attempts(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "task_id": draw(st.sampled_from("abcdef")),
        "group": draw(st.sampled_from(["g", "h", None])),
        "parent": draw(st.sampled_from([None, None, None, "a"])),
        "worker": draw(st.sampled_from(["w0", "w1", None])),
        "host": draw(st.sampled_from(["n0", None])),
        "outcome": draw(st.sampled_from([*OUTCOMES, None])),
        "submitted_ns": draw(when),
        "ready_ns": draw(when),
        "started_ns": draw(when),
        "ended_ns": draw(when),
        "io_s": draw(st.sampled_from([None, 0.0, 1.0, 99.0])),
        "transfer_s": draw(st.sampled_from([None, 0.0, 0.5])),
        "spill_s": draw(st.sampled_from([None, 0.0, 0.5])),
        "requested_cores": draw(st.sampled_from([None, 0.0, 1.0, 4.0])),
        "output_bytes": draw(st.sampled_from([None, 0, 10**7])),
    }


flows = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from([*"abcdef", None]),
        "worker": st.sampled_from(["w0", "w1", None]),
        "object": st.sampled_from(["a", "b", "f1"]),
        "medium": st.sampled_from(["network", "file", None]),
        "op": st.sampled_from(["receive", "read", "write"]),
        "last_ns": when,
        "busy_s": st.sampled_from([None, 0.5]),
    }
)
lives = st.fixed_dictionaries(
    {
        "worker": st.sampled_from(["w0", "w1", "w9"]),
        "started_ns": when,
        "ended_ns": when,
        "cores": st.sampled_from([None, 0.0, 1.0, 2.0]),
    }
)
deps = st.fixed_dictionaries(
    {"task_id": st.sampled_from("abcdefz"), "depends_on": st.sampled_from("abcdefz")}
)
moves = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from([*"abc", None]),
        "worker": st.sampled_from(["w0", "w1", None]),
        "peer": st.sampled_from(["w0", "w1", None]),
        "kind": st.sampled_from(["transfer", "disk"]),
        "start_ns": when,
        "end_ns": when,
        "bytes": st.sampled_from([None, 0, 10**7]),
    }
)


@given(
    st.lists(attempts(), max_size=10),
    st.lists(deps, max_size=12),
    st.lists(flows, max_size=6),
    st.lists(lives, max_size=3),
    st.lists(moves, max_size=5),
    st.sampled_from(["dask", "python", "slurm", None]),
    st.lists(st.sampled_from(CHANGES), max_size=2),
)
@settings(max_examples=300, deadline=None)
def test_any_trace_gives_what_can_be_given(
    tasks: list[dict[str, Any]],
    deps: list[dict[str, Any]],
    flows: list[dict[str, Any]],
    lives: list[dict[str, Any]],
    moves: list[dict[str, Any]],
    engine: str | None,
    changes: list[Change],
) -> None:
    tables = {"tasks": tasks, "deps": deps, "flows": flows, "workers": lives, "intervals": moves}
    trace = Trace.from_tables(tables, {"engine": engine})
    made = Replayer(trace)
    saving = made.saving(*changes)
    if made.replay is None:
        assert saving.mid_s is None and saving.how
        return
    assert violations(made.replay.model, made.replay.schedule) == []
    assert saving.mid_s is not None and saving.low_s is not None and saving.high_s is not None
    assert saving.low_s <= saving.mid_s <= saving.high_s <= made.replay.recorded_s + 1e-6
    assert made.saving(*changes) == Replayer(trace).saving(*changes)
