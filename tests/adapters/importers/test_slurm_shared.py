"""The Slurm importer on real listings and on inputs that broke other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._slurm_values import tres
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.slurm import Importer
from rotameter.errors import BadInput
from rotameter.values import Head

GIB = 1 << 30


def _tasks(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    trace = reading.read([path], format="slurm")
    return trace, trace.table("tasks").to_pylist()


def _case(shared: Path, slug: str, file: str = "sacct.psv") -> tuple[Any, dict[str, Any]]:
    trace, tasks = _tasks(shared / "bugcases" / slug / file)
    return trace, {row["task_id"]: row for row in tasks}


def test_days_hours_minutes(rotameter_shared: Path) -> None:
    _, jobs = _case(rotameter_shared, "01-slurm-days-hms")
    assert {k: (r["wall_s"], r["cpu_s"]) for k, r in jobs.items()} == {
        "700101": (93784, 172801.5),
        "700102": (100, 37.25),
        "700103": (3600, 3599),
        "700104": (864000, 13823999),
    }
    first = jobs["700101"]
    assert first["cpu_s"] / first["wall_s"] / first["granted_cores"] == pytest.approx(
        0.921, abs=1e-3
    )


def test_steps_are_merged(rotameter_shared: Path) -> None:
    trace, jobs = _case(rotameter_shared, "02-slurm-step-merge")
    assert set(jobs) == {"700201", "700202"}
    first, second = jobs["700201"], jobs["700202"]
    assert (first["group"], first["peak_memory_bytes"]) == ("align", 1536000 * 1024)
    share = first["peak_memory_bytes"] / first["requested_memory_bytes"]
    assert share == pytest.approx(0.366, abs=1e-3)
    assert second["peak_memory_bytes"] is None
    assert "1 job without memory data" in str(trace.meta["not_measured"])


def test_line_end_in_a_field(rotameter_shared: Path) -> None:
    _, jobs = _case(rotameter_shared, "05-slurm-multiline-field")
    assert {k: r["wall_s"] for k, r in jobs.items()} == {"700501": 120, "700502": 180}
    assert jobs["700501"]["granted_cores"] == 1


def test_memory_request(rotameter_shared: Path) -> None:
    _, jobs = _case(rotameter_shared, "06-slurm-reqmem-suffix")
    assert [r["requested_memory_bytes"] for r in jobs.values()] == [
        50000 << 20,
        48 * GIB,
        8 * GIB,
        1536 * GIB,
        None,
    ]


def test_limits_and_no_start(rotameter_shared: Path) -> None:
    _, jobs = _case(rotameter_shared, "08-slurm-unlimited-partition-limit")
    assert [r["requested_wall_s"] for r in jobs.values()] == [None, None, 7200]
    assert jobs["700801"]["features"] and not jobs["700802"]["features"]
    never = jobs["700802"]
    assert (never["started_ns"], never["wall_s"], never["cpu_s"]) == (None, 0, None)


def test_out_of_memory(rotameter_shared: Path) -> None:
    trace, jobs = _case(rotameter_shared, "13-slurm-oom")
    for job in ("701301", "701302"):
        assert jobs[job]["outcome"] == "oom"
        assert jobs[job]["peak_memory_bytes"] == 4 * GIB
        assert jobs[job]["peak_memory_kind"] == "lower_bound"
    assert jobs["701303"]["outcome"] == "ok"
    assert any("a step was OOM-killed" in word and "701303" in word for word in trace.warnings)


def test_unknown_state_and_names(rotameter_shared: Path) -> None:
    _, jobs = _case(rotameter_shared, "15-slurm-unknown-state-utf8")
    assert [(r["group"], r["outcome"]) for r in jobs.values()] == [
        ("größe-αβ", "ok"),
        ("b", "unknown"),
        ("<script>alert(1)</script>", "cancelled"),
    ]
    assert jobs["701502"]["error"] == "STAGE_OUT_FAIL"


def test_gpus_held_and_not_used(rotameter_shared: Path) -> None:
    trace, jobs = _case(rotameter_shared, "16-gpu-allocated-not-used", "gpu.jsonl")
    first, second = jobs["701601"], jobs["701602"]
    share = first["gpu_s"] / first["wall_s"] / first["granted_gpus"]
    assert share == pytest.approx(0.225)
    assert second["gpu_s"] is None
    idle = {s["subject"]: s["value"] for s in trace.table("samples").to_pylist()
            if s["metric"] == "gpus_idle"}  # fmt: skip
    assert idle == {"701601": 3}


def test_real_listings(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data/formats/slurm_sacct"
    expected = {
        "reportseff_fixtures.psv": (51, 16),
        "slurm2sql_test-data1.csv": (5, 2),
        "smk_slurm_plugin_parsing.psv": (6, 2),
        "xdmod_accounting-logs-with-job-arrays.psv": (6, 6),
        "xdmod_non-ended-job-state.psv": (2, 2),
        "xdmod_unknown-job-state.psv": (2, 2),
    }
    for name, (records, jobs) in expected.items():
        trace, tasks = _tasks(folder / name)
        counts = trace.meta["importer"]["records"]
        assert (counts["in"], counts["rejected"], len(tasks)) == (records, 0, jobs), name
        lines = (folder / name).read_text().splitlines()
        assert records == len(lines) - lines[0].lower().count("jobid|"), name
    _, tasks = _tasks(folder / "xdmod_accounting-logs-with-job-arrays.psv")
    assert {r["requested_memory_bytes"] for r in tasks} == {(3000 << 20) * 256}
    _, tasks = _tasks(folder / "slurm2sql_test-data1.csv")
    assert tasks[0]["read_bytes"] == round(85399.46 * 1024)
    assert (tasks[0]["peak_memory_bytes"], tasks[0]["energy_j"]) == (231092 * 1024, 54156)


def test_gpu_counts(rotameter_shared: Path) -> None:
    path = rotameter_shared / "data/formats/slurm_sacct/xdmod_alloc-tres-gpu-count.json"
    for text, gpus in json.loads(path.read_text()):
        found = tres(text).gpus
        assert found == gpus or (not text and found != found)
    with pytest.raises(BadInput):
        reading.read([path], format="slurm")


def test_sniffs_its_own_and_nothing_else(rotameter_shared: Path) -> None:
    importer, mine = Importer(), []
    for root in ("data/formats", "bugcases"):
        for path in sorted((rotameter_shared / root).rglob("*")):
            if not path.is_file():
                continue
            mine += [
                str(path.relative_to(rotameter_shared))
                for file in open_members(path)[:5]
                if importer.sniff(Head(file.name, file.head, file.path)) >= 0.5
            ]
    assert all("slurm" in name or "16-gpu" in name for name in mine), mine
    assert len(mine) == 6 + 8
