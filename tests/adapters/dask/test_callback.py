"""Dask's local schedulers through the callback."""

from __future__ import annotations

import warnings

import dask
import pytest

from rotameter.adapters.dask.callback import RotameterCallback
from rotameter.profiler.live import process
from rotameter.profiler.store import open_trace


def add(x, y):
    return x + y


def fail(x):
    raise ValueError("token=abcdef no")


def graph():
    left, right = dask.delayed(add)(1, 2), dask.delayed(add)(3, 4)
    return dask.delayed(add)(left, right)


def record(folder, work):
    session = process.start(str(folder), host_samples=False)
    try:
        with RotameterCallback(session):
            result = work()
    finally:
        process.stop(session)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return result, open_trace(str(folder))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_every_attempt_once_with_dependencies(tmp_path, scheduler):
    result, trace = record(tmp_path / "run.rmt", lambda: graph().compute(scheduler=scheduler))
    assert result == 10
    tasks = trace.table("tasks").to_pylist()
    assert [t["outcome"] for t in tasks] == ["ok"] * 3
    assert {t["group"] for t in tasks} == {"add"}
    assert all(t["submitted_ns"] <= t["ready_ns"] <= t["ended_ns"] for t in tasks)
    assert all(t["wall_s"] is not None for t in tasks)
    deps = trace.table("deps").to_pylist()
    assert len(deps) == 2 and len({d["task_id"] for d in deps}) == 1
    if scheduler != "processes":
        assert all(t["cpu_s"] is not None and t["output_bytes"] for t in tasks)


def test_each_group_has_the_line_that_computes_it(tmp_path):
    def work():
        first = graph().compute(scheduler="synchronous", optimize_graph=not "some argument")
        return first, dask.compute(dask.delayed(abs)(-3), scheduler="threads")

    _, trace = record(tmp_path / "run.rmt", work)
    events = [e for e in trace.table("events").to_pylist() if e["kind"] == "group_origin"]
    line = work.__code__.co_firstlineno
    assert [(e["group"], e["file"], e["line"], e["count"]) for e in events] == [
        ("add", __file__, line + 1, 3),
        ("abs", __file__, line + 2, 1),
    ]
    assert events[0]["text"].startswith("first = graph().compute(")
    assert "some argument" not in str(events)


def test_a_failure_is_the_users_own_and_the_graph_is_left_as_it_was(tmp_path):
    bad = dask.delayed(fail)(1)
    before = {key: type(node) for key, node in bad.__dask_graph__().items()}

    def work():
        with pytest.raises(ValueError, match="no"):
            bad.compute(scheduler="threads")

    _, trace = record(tmp_path / "run.rmt", work)
    (task,) = trace.table("tasks").to_pylist()
    assert task["outcome"] == "failed"
    assert task["error"] == "ValueError: token=[redacted] no"
    assert {key: type(node) for key, node in bad.__dask_graph__().items()} == before


def test_a_plain_graph_is_not_changed(tmp_path):
    dsk = {"a": 1, "b": (add, "a", 2)}
    copy = dict(dsk)
    result, trace = record(tmp_path / "run.rmt", lambda: dask.get(dsk, "b"))
    assert result == 3 and dsk == copy
    assert [t["task_id"] for t in trace.table("tasks").to_pylist()] == ["b"]


def test_two_runs_of_one_graph_are_two_attempts(tmp_path):
    work = graph()
    _, trace = record(
        tmp_path / "run.rmt", lambda: [work.compute(scheduler="threads") for _ in range(2)]
    )
    attempts = sorted(t["attempt"] for t in trace.table("tasks").to_pylist())
    assert attempts == [1, 1, 1, 2, 2, 2]
