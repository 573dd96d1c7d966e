"""OTLP: real files and bug cases of the shared folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.otlp import Importer
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace
from rotameter.values import Head


def rows(trace: Trace, name: str = "tasks") -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = trace.table(name).to_pylist()
    return made


def test_bugcase_49(rotameter_shared: Path) -> None:
    trace = reading.read([rotameter_shared / "bugcases" / "49-otel-empty-parent" / "spans.json"])
    assert [(t["group"], t["parent"], t["wall_s"]) for t in rows(trace)] == [
        ("r1", None, 2.0),
        ("r2", None, 1.0),
        ("c1", None, 0.5),
    ]
    flags = [s["subject"] for s in rows(trace, "samples") if s["metric"] == "parent_missing"]
    assert flags == ["c" * 16]
    assert len(trace.warnings) == 1


def test_examples_of_the_specification(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data" / "formats" / "opentelemetry"
    trace = reading.read([folder / "otlp_trace.json"])
    assert stats(trace)["task_wall_s"] == 1.0
    assert rows(trace)[0]["worker"] == "my.service"
    metrics = reading.read([folder / "otlp_metrics.json"])
    assert {s["metric"]: s["value"] for s in rows(metrics, "samples")}["my.gauge"] == 10.0
    assert metrics.table("tasks").num_rows == 0
    for name in ("otlp_logs.json", "otlp_events.json"):
        with pytest.raises(BadInput, match="log records only"):
            reading.read([folder / name])


def test_sniffs_its_own_files_only(rotameter_shared: Path) -> None:
    importer = Importer()
    for folder in ("data/formats", "bugcases"):
        for path in sorted((rotameter_shared / folder).rglob("*")):
            if path.is_file():
                for file in open_members(path)[:50]:
                    sure = importer.sniff(Head(file.name, file.head, file.path)) >= 0.5
                    assert sure == (path.name.startswith("otlp_") or path.name == "spans.json")
