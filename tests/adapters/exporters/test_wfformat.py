"""WfFormat 1.5 out, and in again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.property.grammars import wfformat as grammar

import rotameter
from rotameter.adapters.exporters.wfformat import Exporter, document
from rotameter.adapters.importers.wfformat import Importer
from rotameter.errors import EmptyTrace, RotameterError, TraceWarning
from rotameter.profiler.schema import TABLES
from rotameter.profiler.trace import Trace
from rotameter.testing import import_bytes

DASK = {
    "tasks": [
        {"task_id": "('sum-1f', 0)", "attempt": 1, "group": "sum", "outcome": "worker_lost",
         "started_ns": 10**18, "worker": "tcp://10.0.0.1:4000", "host": "node-1"},
        {"task_id": "('sum-1f', 0)", "attempt": 2, "group": "sum", "outcome": "ok", "wall_s": 2.5,
         "started_ns": 10**18 + 5, "ended_ns": 10**18 + 5 + 2_500_000_000, "cpu_s": 2.37,
         "peak_memory_bytes": 10**9, "peak_memory_kind": "sampled", "host": "node-1",
         "worker": "tcp://10.0.0.1:4000", "read_bytes": 5, "requested_cores": 1.0},
        {"task_id": "('load-2e', 0)", "attempt": 1, "group": "load 2020", "outcome": "ok",
         "wall_s": 0.1, "started_ns": 10**18, "ended_ns": 10**18 + 10**8, "cpu_s": 0.07},
        {"task_id": "(\"load-2e\", 0)", "attempt": 1, "outcome": "ok", "wall_s": 1 / 3},
        {"task_id": "late", "outcome": "unknown"},
    ],
    "deps": [
        {"task_id": "('sum-1f', 0)", "depends_on": "('load-2e', 0)"},
        {"task_id": "('sum-1f', 0)", "depends_on": "scattered"},
    ],
    "flows": [
        {"task_id": "('load-2e', 0)", "attempt": 1, "object": "s3://b/größe 1.nc",
         "medium": "object_store", "op": "read", "bytes": 4, "footprint_bytes": 4096},
        {"task_id": "('load-2e', 0)", "attempt": 1, "object": "tcp", "medium": "network",
         "op": "receive", "bytes": 4},
    ],
}  # fmt: skip


def export(trace: Trace, path: Path) -> tuple[dict, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Exporter().write(trace, str(path))
    assert all(issubclass(w.category, TraceWarning) for w in caught)
    return json.loads(path.read_text()), [str(w.message) for w in caught]


def test_a_bound_of_memory_is_no_measurement(tmp_path: Path) -> None:
    row = {"attempt": 1, "outcome": "oom", "wall_s": 1.0, "peak_memory_bytes": 4 * 10**9}
    tasks = [
        {**row, "task_id": "a", "peak_memory_kind": "lower_bound"},
        {**row, "task_id": "b", "peak_memory_kind": "sampled"},
    ]
    data, said = export(Trace.from_tables({"tasks": tasks}), tmp_path / "w.json")
    first, second = data["workflow"]["execution"]["tasks"]
    assert "memoryInBytes" not in first and second["memoryInBytes"] == 4 * 10**9
    assert any("not enough: 1; memoryInBytes is left out" in text for text in said)


def schema(shared: Path):
    jsonschema = pytest.importorskip("jsonschema")
    data = json.loads((shared / "data/formats/wfcommons/schema_head.json").read_text())
    return jsonschema.Draft7Validator(data)


def test_a_recorded_run_comes_back(tmp_path, rotameter_shared):
    trace = Trace.from_tables(DASK, {"engine": "dask", "time_base": "epoch_ns"})
    data, said = export(trace, tmp_path / "flow.json")
    schema(rotameter_shared).validate(data)
    assert any("1 earlier attempt is left out" in text for text in said)
    assert any("unknown (1)" in text for text in said)
    assert any("1 dependency on tasks that have no attempt" in text for text in said)
    assert any("1 flows are not reads or writes" in text for text in said)
    assert any("1 task has no known duration" in text for text in said)
    again = rotameter.open(tmp_path / "flow.json")
    before = {r["task_id"]: r for r in trace.table("tasks").to_pylist()}  # the last attempt wins
    after = {r["task_id"]: r for r in again.table("tasks").to_pylist()}
    assert set(before) == set(after)
    fields = ("wall_s", "cpu_s", "peak_memory_bytes", "read_bytes", "requested_cores", "host")
    for name, row in after.items():
        assert [row[f] for f in fields] == [before[name][f] for f in fields]
        assert row["started_ns"] == before[name]["started_ns"]
        assert row["group"] == before[name]["group"] or before[name]["group"] is None
    assert again.table("deps").to_pylist() == DASK["deps"][:1]
    assert again.table("objects").to_pylist()[0]["object"] == "s3://b/größe 1.nc"
    assert again.table("flows").to_pylist()[0]["footprint_bytes"] == 4096


def test_twice_is_the_same(tmp_path):
    trace = Trace.from_tables(DASK, {"engine": "dask"})
    export(trace, tmp_path / "flow.json")
    first = rotameter.open(tmp_path / "flow.json")
    export(first, tmp_path / "again.json")
    second = rotameter.open(tmp_path / "again.json")
    for name in TABLES:
        columns = [c for c in first.table(name).column_names if c != "run_id"]
        assert first.table(name).select(columns).equals(second.table(name).select(columns)), name


def test_relative_times_stay_relative(tmp_path):
    tasks = [{"task_id": "a", "wall_s": 1.0, "started_ns": 0, "ended_ns": 10**9, "outcome": "ok"}]
    trace = Trace.from_tables({"tasks": tasks}, {"time_base": "relative_ns"})
    data, _ = export(trace, tmp_path / "flow.json")
    run = data["workflow"]["execution"]
    assert run["tasks"][0]["executedAt"] == "1970-01-01T00:00:00.000000000"
    assert run["executedAt"] == "unknown" and run["makespanInSeconds"] == 1.0
    again = rotameter.open(tmp_path / "flow.json")
    assert again.meta["time_base"] == "relative_ns"
    assert again.table("tasks")["started_ns"].to_pylist() == [0]


def test_without_times_the_longest_chain_stands_for_the_makespan():
    tables = {
        "tasks": [
            {"task_id": n, "wall_s": w, "outcome": "ok"} for n, w in (("a", 1.0), ("b", 2.0))
        ],
        "deps": [{"task_id": "b", "depends_on": "a"}],
    }
    said: list[str] = []
    data = document(Trace.from_tables(tables), said.append)
    assert data["workflow"]["execution"]["makespanInSeconds"] == 3.0 and "lower bound" in said[0]


def test_no_tasks_no_document():
    with pytest.raises(EmptyTrace):
        document(Trace.from_tables({}), print)


def test_unknown_is_left_out_and_never_zero():
    data = document(Trace.from_tables({"tasks": [{"task_id": "a"}]}), [].append)
    assert "execution" not in data["workflow"] and data["workflow"]["specification"]["files"] == []


def test_every_real_instance_validates_and_comes_back(tmp_path, rotameter_shared):
    check = schema(rotameter_shared)
    for path in sorted(rotameter_shared.glob("data/formats/wfcommons/v1*.json")):
        trace = rotameter.open(path)
        data, _ = export(trace, tmp_path / "flow.json")
        check.validate(data)
        again = rotameter.open(tmp_path / "flow.json")
        for name in TABLES:
            drop = () if path.name.startswith("v15") else ("run_id",)
            columns = [c for c in trace.table(name).column_names if c not in drop]
            assert trace.table(name).select(columns).equals(again.table(name).select(columns)), path


def test_whatever_is_imported_validates(rotameter_shared):
    check = schema(rotameter_shared)

    @settings(max_examples=100, derandomize=True, database=None, deadline=None)
    @given(grammar.files())
    def fuzz(file):
        try:
            trace = import_bytes(Importer, dict([file]))
            data = document(trace, [].append)
        except RotameterError:
            return
        check.validate(json.loads(json.dumps(data, allow_nan=False)))

    fuzz()
