"""Where an output cannot be: a file in the way is told from a folder that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rotameter.cli import _main
from rotameter.profiler.trace import Trace

SECOND = 1_000_000_000
COMMANDS: dict[str, list[str]] = {
    "report": ["report", "run.rmt", "-o"],
    "findings": ["report", "run.rmt", "-o", "x.html", "--findings-json"],
    "convert": ["convert", "run.rmt", "--to", "csv", "-o"],
    "compare": ["compare", "run.rmt", "run.rmt", "-o"],
    "size": ["size", "run.rmt", "-o"],
    "forecast": ["forecast", "counts.csv", "--season", "4", "--quantiles-out"],
    "simulate": ["simulate", "jobs.swf", "--processors", "4", "--starts"],
    "collect": ["collect", "slurm", "--jobs", "1", "-o"],
}


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows: list[dict[str, Any]] = [
        {"task_id": f"t{i}", "group": "g", "started_ns": i * SECOND, "ended_ns": (i + 1) * SECOND,
         "wall_s": 1.0, "outcome": "ok", "peak_memory_bytes": 10**8}
        for i in range(8)
    ]  # fmt: skip
    Trace.from_tables({"tasks": rows}, {"run": {"status": "ok"}}).save(tmp_path / "run.rmt")
    counts = "".join(f"{n % 4 + 1}\n" for n in range(40))
    (tmp_path / "counts.csv").write_text(f"count\n{counts}")
    jobs = [f"{n} {n * 10} 0 20 1 -1 -1 1 30 -1 1 1 1 1 1 1 -1 -1" for n in range(1, 9)]
    (tmp_path / "jobs.swf").write_text("\n".join(jobs) + "\n")
    (tmp_path / "afile").write_text("in the way")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("afile/out", "afile is not a folder"),
        ("afile/a/b/out", "afile is not a folder"),
        ("no/such/out", "no such folder: no/such"),
    ],
)
def test_no_place_for_an_output(
    command: str, place: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main([*COMMANDS[command], place]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-2].startswith(f"error: {said}"), lines
    assert lines[-1] == (
        "hint: create it first" if place.startswith("no") else "hint: choose another place"
    )
