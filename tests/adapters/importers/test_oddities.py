"""What cannot be so is said, and kept."""

from __future__ import annotations

from rotameter.adapters.importers._oddities import oddities
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


def test_work_outside_the_workers_life():
    life = {"worker": "w", "started_ns": 3600 * S, "ended_ns": 7200 * S}
    (word,) = said([task(0, 10, worker="w"), task(4000, 4010, worker="w")], [life])
    assert word.startswith("1 attempt ran when the worker's life")
    assert said([task(3590, 7210, worker="w"), task(0, 9, worker="other")], [life]) == []
    assert said([task(0, 10, worker="w")], [{"worker": "w"}]) == []


def test_a_row_of_another_year():
    many = [task(second, second + 1) for second in range(9)]
    (word,) = said([*many, task(365 * 86400, 365 * 86400 + 5)])
    assert word.startswith("nothing ran for 365 d of 365 d")
    # A long night between two halves of a log, and two jobs in a year, are as they are.
    assert said([*many, *(task(80_000 + s, 80_001 + s) for s in range(9))]) == []
    assert said([task(0, 1), task(365 * 86400, 365 * 86400 + 5)]) == []


def test_nothing_is_known():
    assert said([]) == said([{"task_id": "a"}]) == []
