"""What cannot be so is said, and kept."""

from __future__ import annotations

import math
import os

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.adapters.importers._oddities import oddities
from rotameter.profiler.schema import arrow_schema
from rotameter.profiler.trace import Trace

S = 10**9


def said(tasks: list[dict], workers: list[dict] = ()) -> list[str]:
    trace = Trace.from_tables({"tasks": tasks, "workers": list(workers)})
    return oddities({name: trace.table(name) for name in ("tasks", "workers")})


def task(start: float, end: float | None, **more: object) -> dict:
    ended = None if end is None else round(end * S)
    return {"task_id": str(start), "started_ns": round(start * S), "ended_ns": ended, **more}


def test_a_duration_that_does_not_fit_its_times():
    assert said([task(0, 10, wall_s=100.0)]) == [
        "1 attempt: a duration longer than from its start to its end"
    ]
    assert said([task(0, 10, wall_s=wall) for wall in (10.0, 11.0, 3.0, None)]) == []
    assert said([task(0, None, wall_s=100.0)]) == []
    # What the importer has said of two of three need not be said again.
    odd = Trace.from_tables({"tasks": [task(at, at + 10, wall_s=100.0) for at in range(3)]})
    tables = {name: odd.table(name) for name in ("tasks", "workers")}
    assert [word.split()[0] for word in oddities(tables, 2)] == ["1"] and not oddities(tables, 3)


def test_work_outside_the_workers_life():
    life = {"worker": "w", "started_ns": 3600 * S, "ended_ns": 7200 * S}
    (word,) = said([task(0, 10, worker="w"), task(4000, 4010, worker="w")], [life])
    assert word.startswith("1 attempt ran when the worker's life")
    assert said([task(3590, 7210, worker="w"), task(0, 9, worker="other")], [life]) == []
    assert said([task(0, 10, worker="w")], [{"worker": "w"}]) == []


def test_any_of_a_workers_lives_will_do():
    lives = [
        {"worker": "w", "started_ns": begin * S, "ended_ns": end * S}
        for begin, end in ((9000, 9900), (0, 1000), (5000, 6000))
    ]
    other = {"worker": "v", "started_ns": 0, "ended_ns": 99_000 * S}
    inside = [task(10, 990, worker="w"), task(5000, 5990, worker="w"), task(9100, 9800, worker="w")]
    assert said(inside, [*lives, other]) == []
    apart = [
        task(1100, 1200, worker="w"),
        task(4000, 5500, worker="w"),
        task(9000, 9990, worker="w"),
    ]
    (word,) = said([*inside, *apart], [*lives, other])
    assert word.startswith("3 attempts ran")
    # A life without an end may have lasted; one without a start may have begun at any time.
    assert said(apart, [*lives, {"worker": "w", "started_ns": 1100 * S}]) == []
    assert said(apart, [*lives, {"worker": "w", "ended_ns": 9990 * S}]) == []


def outside(tasks: list[dict], lives: list[dict]) -> int:
    """Count by looking at every life of every attempt."""
    count = 0
    for one in tasks:
        own = [life for life in lives if life["worker"] == one["worker"]]
        fits = [
            (life["started_ns"] is None or one["started_ns"] >= life["started_ns"] - 60 * S)
            and (life["ended_ns"] is None or one["ended_ns"] <= life["ended_ns"] + 60 * S)
            for life in own
        ]
        count += bool(own) and not any(fits)
    return count


moments = st.integers(0, 40).map(lambda minutes: minutes * 37 * S)
spans = st.tuples(st.none() | moments, st.none() | moments)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("wvu"), moments, moments), max_size=8),
    st.lists(st.tuples(st.sampled_from("wv"), spans), max_size=8),
)
def test_lives_are_looked_at_as_if_one_by_one(ran, lived):
    tasks = [
        {"task_id": str(at), "worker": name, "started_ns": begun, "ended_ns": begun + lasted}
        for at, (name, begun, lasted) in enumerate(ran)
    ]
    lives = [{"worker": name, "started_ns": a, "ended_ns": b} for name, (a, b) in lived]
    words = [word for word in said(tasks, lives) if "life" in word]
    count = outside(tasks, lives)
    assert [word.split()[0] for word in words] == ([str(count)] if count else [])


def test_a_row_of_another_year():
    many = [task(second, second + 1) for second in range(9)]
    (word,) = said([*many, task(365 * 86400, 365 * 86400 + 5)])
    assert word.startswith("nothing ran for 365 d of 365 d")
    # A long night between two halves of a log, and two jobs in a year, are as they are.
    assert said([*many, *(task(80_000 + s, 80_001 + s) for s in range(9))]) == []
    assert said([task(0, 1), task(365 * 86400, 365 * 86400 + 5)]) == []


def test_nothing_is_known():
    assert said([]) == said([{"task_id": "a"}]) == []


times = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 10**12)
lengths = st.none() | st.floats() | st.just(math.inf)
names = st.none() | st.sampled_from(["w", "v", ""])


def rows(**columns):
    return st.lists(st.fixed_dictionaries(columns), max_size=8)


@settings(max_examples=int(os.environ.get("ROTAMETER_FUZZ") or 300), deadline=None)
@given(
    rows(started_ns=times, ended_ns=times, wall_s=lengths, worker=names),
    rows(started_ns=times, ended_ns=times, worker=names),
)
def test_whatever_the_times_are_it_only_speaks(tasks, workers):
    tables = {
        "tasks": pa.Table.from_pylist(tasks, schema=arrow_schema("tasks")),
        "workers": pa.Table.from_pylist(workers, schema=arrow_schema("workers")),
    }
    assert all(isinstance(word, str) for word in oddities(tables))
