"""Parquet out, and back in again."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rotameter.adapters.exporters.parquet import Exporter
from rotameter.adapters.importers import reading
from rotameter.errors import UsageError
from rotameter.profiler.schema import arrow_schema
from rotameter.profiler.trace import Trace

ROWS = [
    {"task_id": "=a", "started_ns": 1704189600123456789, "ended_ns": 1704189601123456789,
     "wall_s": 0.1 + 0.2, "outcome": "ok", "features": {"size": 1.5}, "requested_exclusive": True},
    {"task_id": "b", "outcome": "failed", "error": ""},
]  # fmt: skip


def test_the_round_trip_is_exact(tmp_path: Path) -> None:
    trace = Trace.from_tables({"tasks": ROWS})
    target = tmp_path / "t.parquet"
    Exporter().write(trace, str(target))
    assert pq.read_schema(target).equals(arrow_schema("tasks"))
    back = reading.read([target])
    assert back.table("tasks").to_pylist()[0] == trace.table("tasks").to_pylist()[0]
    assert back.table("tasks")["features"].to_pylist()[0] == [("size", 1.5)]


def test_an_empty_table_and_a_wrong_name(tmp_path: Path) -> None:
    trace = Trace.from_tables({"tasks": ROWS})
    target = tmp_path / "t.parquet"
    Exporter().write(trace, str(target), table="flows")
    assert reading.read([target]).table("flows").num_rows == 0
    with pytest.raises(UsageError, match="no table"):
        Exporter().write(trace, str(target), table="x")
