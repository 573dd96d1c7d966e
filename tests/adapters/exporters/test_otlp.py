"""Attempts as OpenTelemetry spans, and back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rotameter.adapters.exporters.otlp import Exporter
from rotameter.adapters.importers import reading
from rotameter.adapters.importers.otlp import Importer
from rotameter.errors import TraceError, UsageError
from rotameter.profiler.schema import KINDS, OUTCOMES, TABLES
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import import_bytes

T0 = 1_700_000_000_000_000_000
COLUMNS = [name for name, _ in TABLES["tasks"]]


def trip(trace: Trace, folder: Path) -> Trace:
    path = folder / "trace.json"
    Exporter().write(trace, str(path))
    return reading.read([path])


def by_key(trace: Trace) -> dict[Any, dict[str, Any]]:
    found = {}
    for row in trace.table("tasks").to_pylist():
        key = (row["task_id"], row["attempt"], row["started_ns"], row["group"])
        found[key] = {k: v for k, v in row.items() if k != "source"}
    return found


def spans(path: Path) -> list[dict[str, Any]]:
    made = json.loads(path.read_text())
    return [
        span
        for resource in made["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


TASKS: list[dict[str, Any]] = [
    {
        "task_id": "flow",
        "group": "flow",
        "worker": "w1",
        "host": "n1",
        "started_ns": T0,
        "ended_ns": T0 + 10**10,
        "wall_s": 10.0,
        "outcome": "ok",
        "outcome_kind": "reported",
    },
    {
        "task_id": "('load', 0)",
        "attempt": 1,
        "parent": "flow",
        "group": "load",
        "worker": "w2",
        "started_ns": T0 + 1,
        "ended_ns": T0 + 7,
        "outcome": "oom",
        "outcome_kind": "inferred",
        "error": "MemoryError: too much",
        "exit_code": 137,
        "signal": 9,
        "peak_memory_bytes": 2**40,
        "peak_memory_kind": "lower_bound",
        "requested_exclusive": True,
        "features": {"rows": 3.0, "share": 0.25},
    },
    {
        "task_id": "('load', 0)",
        "attempt": 2,
        "parent": "flow",
        "group": "load",
        "worker": "w1",
        "host": "n1",
        "started_ns": T0 + 8,
        "ended_ns": T0 + 11,
        "outcome": "cached",
        "user": "ann",
    },
    {"task_id": "sum", "parent": "elsewhere", "outcome": "running", "submitted_ns": 5},
]
DEPS = [
    {"task_id": "sum", "depends_on": "('load', 0)"},
    {"task_id": "sum", "depends_on": "gone"},
    {"task_id": "flow", "depends_on": "sum"},
]


def test_the_importer_gives_the_same_attempts(tmp_path: Path) -> None:
    trace = Trace.from_tables({"tasks": TASKS, "deps": DEPS}, {"engine": "dask"})
    again = trip(trace, tmp_path)
    assert by_key(again) == by_key(trace)
    assert sorted(map(str, again.table("deps").to_pylist())) == sorted(map(str, DEPS))
    assert again.meta["engine"] == "dask"
    assert again.meta["importer"]["records"]["rejected"] == 0


def test_spans_carry_standard_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    Exporter().write(Trace.from_tables({"tasks": TASKS, "deps": DEPS}), str(path))
    made = spans(path)
    flow = next(s for s in made if s["name"] == "flow")
    loads = [s for s in made if s["name"] == "load"]
    assert {s["parentSpanId"] for s in loads} == {flow["spanId"]}
    failed = next(s for s in loads if s.get("status", {}).get("code") == 2)
    assert failed["status"]["message"] == "MemoryError: too much"
    named = {a["key"]: a["value"] for a in failed["attributes"]}
    assert named["process.exit.code"] == {"intValue": "137"}
    assert named["rotameter.peak_memory_bytes"] == {"intValue": str(2**40)}
    assert named["rotameter.requested_exclusive"] == {"boolValue": True}
    last = next(s for s in made if s["name"] == "sum")
    assert last["startTimeUnixNano"] == "0" and len(last["links"]) == 2
    assert last["links"][0]["spanId"] in {s["spanId"] for s in loads}
    assert len({s["spanId"] for s in made}) == 4
    assert len({s["traceId"] for s in made}) == 1
    assert all(len(s["spanId"]) == 16 and len(s["traceId"]) == 32 for s in made)
    resources = json.loads(path.read_text())["resourceSpans"]
    services = [r["resource"]["attributes"][0]["value"]["stringValue"] for r in resources]
    assert services == ["w1", "w2", "unknown_service"]


def test_moments_become_events(tmp_path: Path) -> None:
    moment = {"task_id": "flow", "kind": "span", "name": "saved", "start_ns": T0, "end_ns": T0}
    longer = {**moment, "end_ns": T0 + 5}
    trace = Trace.from_tables({"tasks": TASKS[:1], "intervals": [moment, longer]})
    again = trip(trace, tmp_path)
    found = again.table("intervals").to_pylist()
    assert [(i["task_id"], i["name"], i["start_ns"]) for i in found] == [("flow", "saved", T0)]


def test_equal_traces_give_equal_files(tmp_path: Path) -> None:
    trace = Trace.from_tables({"tasks": TASKS, "deps": DEPS})
    for name in ("a.json.gz", "b.json.gz"):
        Exporter().write(trace, str(tmp_path / name))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()))
    assert len(list(tmp_path.iterdir())) == 2


def test_relative_times_stay_relative(tmp_path: Path) -> None:
    rows = [{"task_id": "a", "group": "a", "started_ns": 0, "ended_ns": 5, "outcome": "ok"}]
    again = trip(Trace.from_tables({"tasks": rows}, {"time_base": "relative_ns"}), tmp_path)
    assert again.table("tasks")["started_ns"].to_pylist() == [0]
    assert again.meta["time_base"] == "relative_ns"


def test_errors(tmp_path: Path) -> None:
    trace = Trace.from_tables({"tasks": TASKS})
    with pytest.raises(UsageError, match="no option 'colour'"):
        Exporter().write(trace, str(tmp_path / "x"), colour="red")
    with pytest.raises(TraceError, match="cannot write"):
        Exporter().write(trace, str(tmp_path / "none" / "x.json"))


def test_an_empty_trace_is_a_document(tmp_path: Path) -> None:
    Exporter().write(Trace.from_tables({}), str(tmp_path / "x.json"))
    assert json.loads((tmp_path / "x.json").read_text()) == {"resourceSpans": []}


_NAME = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
_TIME = st.none() | st.integers(0, 2**61)
_AMOUNT = st.none() | st.integers(0, 2**52)
_ROW = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from(["a", "b", "('x', 1)", "é/ß", "0"]),
        "attempt": st.none() | st.integers(1, 4),
        "parent": st.none() | st.sampled_from(["a", "b", "gone"]),
        "group": st.none() | st.sampled_from(["load", "", " ", "two words", "é"]) | _NAME,
        "worker": st.none() | st.sampled_from(["w", "", "unknown_service", "tcp://h:1"]),
        "host": st.none() | st.sampled_from(["n", ""]),
        "started_ns": _TIME,
        "outcome": st.sampled_from(OUTCOMES),
        "outcome_kind": st.none() | st.sampled_from(["reported", "inferred"]),
        "error": st.none() | st.sampled_from(["ValueError: x", "", "two\nlines"]),
        "cpu_s": st.none() | st.floats(0, 1e9),
        "peak_memory_bytes": _AMOUNT,
        "peak_memory_kind": st.none() | st.sampled_from(KINDS),
        "requested_cores": st.none() | st.floats(0, 1e6),
        "exit_code": st.none() | st.integers(-255, 255),
        "requested_exclusive": st.none() | st.booleans(),
    }
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_ROW, min_size=1, max_size=6), st.lists(st.integers(0, 10**12), min_size=6))
def test_any_trace_comes_back(tmp_path: Path, rows: list[Any], lengths: list[int]) -> None:
    for row, length in zip(rows, lengths, strict=False):
        start = row["started_ns"]
        row["ended_ns"] = None if start is None or length % 7 == 0 else start + length
        if row["task_id"] in ("a", "b"):  # tasks inside each other in a circle are made roots
            row["parent"] = None
    trace = Trace.from_tables({"tasks": rows})
    Exporter().write(trace, str(tmp_path / "trace.json"))
    again = import_bytes(Importer, {"x.json": (tmp_path / "trace.json").read_bytes()})
    names = [*rows[0], "ended_ns"]

    def keyed(one: Trace) -> list[str]:
        table = one.table("tasks").select(dict.fromkeys(names)).to_pylist()
        return sorted(
            json.dumps(
                {k: " ".join(v.split("\n")) if k == "error" and v else v for k, v in r.items()}
            )
            for r in table
        )

    assert keyed(again) == keyed(trace)


def test_real_report_makes_the_trip(rotameter_shared: Path, tmp_path: Path) -> None:
    folder = rotameter_shared / "data" / "formats" / "dask_report"
    trace = reading.read([folder / "mrocklin_dask-report.html"])
    again = trip(trace, tmp_path)
    assert by_key(again) == by_key(trace)
