"""The trace value: conforming tables, interchange, merging, its notebook form."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rotameter.profiler.schema import TABLES, arrow_schema
from rotameter.profiler.trace import Trace


@pytest.fixture
def trace() -> Trace:
    rows = [
        {"task_id": "a", "group": "load", "wall_s": 1.0, "attempt": 1, "features": {"rows": 3}},
        {"task_id": "b", "group": None, "attempt": None},
    ]
    return Trace.from_tables({"tasks": rows}, {"run": {"status": "ok"}})


def test_every_table_conforms(trace: Trace) -> None:
    for name in TABLES:
        assert trace.table(name).schema.equals(arrow_schema(name))


def test_unknown_names_say_what_is_known(trace: Trace) -> None:
    with pytest.raises(ValueError, match="no table 'jobs'"):
        Trace.from_tables({"jobs": []})
    with pytest.raises(ValueError, match="no column 'memory'"):
        Trace.from_tables({"tasks": [{"memory": 1}]})
    with pytest.raises(AttributeError, match="tables: tasks"):
        trace.jobs  # noqa: B018


def test_arrow_interchange(trace: Trace) -> None:
    tasks = trace.tasks
    assert pa.table(tasks).num_rows == 2
    assert pl.DataFrame(tasks).height == 2
    assert pd.DataFrame.from_arrow(tasks).shape[0] == 2
    assert duckdb.sql("select count(*) from tasks").fetchall() == [(2,)]
    frame = tasks.to_pandas()
    assert str(frame["attempt"].dtype) == "Int64"
    assert frame["attempt"].isna().tolist() == [False, True]


def test_merge_tells_equal_ids_apart_and_keeps_others(trace: Trace) -> None:
    twice = Trace.merge([trace, trace])
    assert sorted(twice.table("tasks")["task_id"].to_pylist()) == ["1:a", "1:b", "2:a", "2:b"]
    other = Trace.from_tables({"tasks": [{"task_id": "c"}]}, {"run": {"status": "failed"}})
    both = Trace.merge([trace, other])
    assert sorted(both.table("tasks")["task_id"].to_pylist()) == ["a", "b", "c"]
    assert both.meta["run"]["status"] == "failed"
    assert len(Trace.merge([]).tasks) == 0


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img onerror=x>', "x" * 10_000, "🐟\n\0"]
)
def test_notebook_form_is_static_small_and_escaped(name: str) -> None:
    rows = [{"task_id": name, "group": f"{name}{i}", "error": name} for i in range(300)]
    trace = Trace.from_tables({"tasks": rows}, {"warnings": [name] * 50})
    for shown in (trace._repr_html_(), trace.tasks._repr_html_()):
        assert len(shown.encode()) <= 50_000
        assert "<script" not in shown
        assert "<img" not in shown


def test_makespan_of_nothing_is_unknown() -> None:
    assert Trace.from_tables({}).makespan_s is None
    assert Trace.from_tables({"tasks": [{"started_ns": 5}]}).makespan_s is None
    rows = [{"started_ns": 2_000_000_000, "ended_ns": 5_000_000_000}]
    assert Trace.from_tables({"tasks": rows}).makespan_s == 3.0
