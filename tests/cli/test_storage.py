"""``--storage`` of diagnose and report."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from rotameter.cli import _main
from rotameter.profiler.trace import Trace

GIB = 2**30


@pytest.fixture
def run(tmp_path: Path) -> str:
    tasks, flows = [], []
    for i in range(4):
        row = {"task_id": f"t{i}", "group": "train", "worker": f"w{i}", "outcome": "ok"}
        tasks.append({**row, "started_ns": 0, "ended_ns": 60 * 10**9})
        flow = {"task_id": f"t{i}", "object": f"in{i}", "op": "read", "bytes": 8 * GIB, "ops": 8192}
        flows.append({**flow, "busy_s": 50.0, "medium": "file"})
    path = str(tmp_path / "run.rmt")
    Trace.from_tables({"tasks": tasks, "flows": flows}).save(path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> str:
    lines = ["operation,storageType,transferSize,aggregateFilesizeMB,numNodes,numTasks,trMiB"]
    for nodes in (1, 2, 4):
        for size in (1024, 8192, 32768):
            for op in ("read", "write"):
                lines.append(f"{op},nfs,1048576,{size},{nodes},{nodes},50")
                lines.append(f"{op},pfs,1048576,{size},{nodes},{nodes},{800 * nodes}")
    path = tmp_path / "ior.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_the_advice_follows_the_verdict(
    run: str, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["diagnose", run, "--storage", table, "--home", "pfs", "--nodes", "4"]
    assert _main([*asked, "--tasks-per-node", "1"]) == 0
    out = capsys.readouterr().out
    assert "Advised: all stages=pfs on 4 nodes" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert _main([*asked, "--to", "json"]) == 0
    made = json.loads(capsys.readouterr().out)["configuration"]
    assert made["choices"][0]["advised"] is True
    assert _main([*asked, "--to", "md"]) == 0
    assert "### Storage" in capsys.readouterr().out


def test_the_report_shows_it_and_its_facts_keep_to_the_schema(
    run: str, table: str, tmp_path: Path
) -> None:
    page, facts = tmp_path / "r.html", tmp_path / "f.json"
    asked = ["report", run, "-o", str(page), "--findings-json", str(facts), "--storage", table]
    assert _main([*asked, "--home", "nfs"]) == 0
    assert "Where to keep the data" in page.read_text()
    document = json.loads(facts.read_text())
    schema = json.loads((resources.files("rotameter.viz") / "findings.schema.json").read_text())
    jsonschema.validate(document, schema)
    made = document["configuration"]
    assert made["choices"][0]["advised"]
    assert sum(choice["home"] for choice in made["choices"]) == 1
    assert made["notes"] == [] or all(isinstance(note, str) for note in made["notes"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--home", "pfs"], 2, "--home goes with --storage"),
        (["--nodes", "2"], 2, "--nodes goes with --storage"),
        (["--storage", "nothing.csv"], 4, "nothing.csv"),
    ],
)
def test_what_is_missing_is_said(
    run: str, words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["diagnose", run, *words]) == code
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error
