"""The two examples, as a new user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TOOL = Path(sys.executable).with_name("rotameter")

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]


def call(*words: object, cwd: Path, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ROTAMETER", "DASK"))}
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    done = call(TOOL, "run", "-o", "demo.rmt", REPO / "examples/demo.py", cwd=folder, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "256,000 images of 320 writers" in done.stdout
    return folder / "demo.rmt", done.stderr


def test_run_ends_with_the_verdict_the_path_and_the_next_command(demo: tuple[Path, str]) -> None:
    trace, words = demo
    last = "\n".join(words.splitlines()[-6:])
    assert trace.name in last
    assert "rotameter report" in last


def test_stats_of_the_demo(demo: tuple[Path, str]) -> None:
    trace, _ = demo
    done = call(TOOL, "stats", trace, "--json", cwd=trace.parent)
    assert done.returncode == 0, done.stderr
    stats = json.loads(done.stdout)
    assert stats["schema"] == 1
    assert stats["tasks"] > 200
    assert stats["deps"] > 200
    assert set(stats["outcomes"]) <= {"ok", "cached", "cancelled", "rescheduled"}
    assert 0 < stats["compute_s"] <= 2 * stats["makespan_s"]


def test_diagnose_of_the_demo_is_short(demo: tuple[Path, str]) -> None:
    trace, _ = demo
    done = call(TOOL, "diagnose", trace, cwd=trace.parent)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert 0 < len(lines) <= 15
    assert max(map(len, lines)) <= 80


def test_report_of_the_demo(demo: tuple[Path, str]) -> None:
    trace, _ = demo
    page = trace.parent / "report.html"
    done = call(TOOL, "report", trace, "-o", page, cwd=trace.parent)
    assert done.returncode == 0, done.stderr
    assert 10_000 < page.stat().st_size < 3_000_000
    again = call(TOOL, "report", trace, "-o", page, cwd=trace.parent)
    assert again.returncode == 1
    assert "--force" in again.stderr


def test_quickstart_decorator(tmp_path: Path) -> None:
    done = call(sys.executable, REPO / "examples/quickstart.py", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("median ")
    assert (tmp_path / "run.rmt").is_dir()
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_block_of_the_readme_runs(tmp_path: Path) -> None:
    text = (REPO / "README.md").read_text()
    start = text.index("import rotameter as rm")
    block = text[start : text.index("```", start)]
    assert len([line for line in block.splitlines() if line.strip()]) <= 6
    block = block.replace("def clean(frame): ...", "def clean(frame): return frame")
    block = block.replace("main()", "clean(1)", 1)
    (tmp_path / "script.py").write_text(block)
    done = call(sys.executable, "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()
