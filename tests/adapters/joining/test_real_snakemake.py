"""The folder that a real Snakemake leaves: installed apart from the project, else skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rotameter
from rotameter.profiler.stats import stats

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(900)]
VERSION = "snakemake>=9,<10"
WORKFLOW = """
rule all:
    input: "out/total.txt", "out/two.txt"

rule prep:
    output: "out/{s}.txt"
    threads: 2
    resources: mem_mb=300, runtime=5
    benchmark: "bench/prep/{s}.tsv"
    shell: "sleep 0.7; seq 1 1000 > {output}"

rule use:
    input: "out/{s}.txt"
    output: "out/{s}.sum"
    resources: mem_mb=lambda wildcards, attempt: 200 * attempt
    benchmark: repeat("bench/use.{s}.jsonl", 2)
    shell: "sleep 0.2; if mkdir {wildcards.s}; then exit 3; fi; wc {input} > {output}"

rule two:
    output: "out/one.txt", "out/two.txt"
    message: "Making two files"
    shell: "sleep 0.2; touch {output}"

rule total:
    input: "out/a.sum", "out/b.sum"
    output: "out/total.txt"
    shell: "sleep 0.2; cat {input} > {output}"
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Give the interpreter of an environment that has Snakemake."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "rotameter-tests" / f"snakemake-9-py{sys.version_info[0]}{sys.version_info[1]}"
    found = place / "bin" / "python"
    ready = place / "ready"
    if not ready.exists():
        try:
            subprocess.run(
                [sys.executable, "-m", "venv", "--clear", place], check=True, timeout=120
            )
            install = [found, "-m", "pip", "install", "-q", "--disable-pip-version-check", VERSION]
            subprocess.run(install, check=True, timeout=600, capture_output=True)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"Snakemake cannot be installed here: {error}")
        ready.touch()
    return found


@pytest.fixture(scope="module")
def run(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a workflow with a retry, benchmarks and repeats, in a zone that is not UTC."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "Snakefile").write_text(WORKFLOW)
    command = [python, "-m", "snakemake", "-c2", "--retries", "1", "--benchmark-extended"]
    env = {**os.environ, "TZ": "Asia/Tokyo", "XDG_CACHE_HOME": str(folder / ".cache")}
    ran = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_the_untouched_folder_is_one_table(run):
    trace = rotameter.open(run)
    made = {(r["task_id"], r["attempt"]): r for r in trace.table("tasks").to_pylist()}
    assert sorted(made) == [
        ("out/a.sum", 1), ("out/a.sum", 2), ("out/a.txt", 1), ("out/b.sum", 1), ("out/b.sum", 2),
        ("out/b.txt", 1), ("out/one.txt", 1), ("out/total.txt", 1),
    ]  # fmt: skip
    prep = made["out/a.txt", 1]
    assert prep["group"] == "prep" and 0.7 <= prep["wall_s"] < 60
    assert (prep["requested_cores"], prep["requested_wall_s"]) == (2, 300)
    assert prep["peak_memory_bytes"] > 1 << 19
    lost, good = made["out/a.sum", 1], made["out/a.sum", 2]
    assert (lost["outcome"], lost["exit_code"], good["outcome"]) == ("failed", 3, "ok")
    assert lost["requested_memory_bytes"] < good["requested_memory_bytes"]
    assert good["wall_s"] >= 0.4 and dict(good["features"])["input_bytes"] == 3893
    assert good["submitted_ns"] is None and good["started_ns"] < good["ended_ns"]
    assert made["out/one.txt", 1]["group"] == "two"
    meta = trace.meta["join"]
    assert not meta["unmatched"] and not meta["conflicts"]
    assert meta["records"] == {"benchmark": 6, "log": 8, "metadata": 7}
    (zone,) = meta["zones"].values()
    assert zone["utc_offset_s"] == 9 * 3600
    assert trace.meta["versions"]["snakemake"].startswith("9.")
    deps = {(d["task_id"], d["depends_on"]) for d in trace.table("deps").to_pylist()}
    assert ("out/total.txt", "out/a.sum") in deps and ("out/a.sum", "out/a.txt") in deps
    counted = stats(trace)
    assert counted["outcomes"] == {"failed": 2, "ok": 6} and counted["makespan_s"] > 1


def test_its_benchmarks_alone(run):
    trace = rotameter.open(run / "bench")
    groups = sorted(trace.table("tasks")["group"].to_pylist())
    assert groups == ["prep"] * 2 + ["use"] * 4 and not trace.table("rejects").num_rows


def test_a_profile_of_rotameter_size_serves(python: Path, tmp_path: Path) -> None:
    """The rungs by attempt are what the rule gets: the second after its first failure."""
    from rotameter.adapters.advising import write
    from rotameter.allocator.advice import Advice

    (tmp_path / "Snakefile").write_text(
        'rule all:\n    input: "out.txt"\n'
        'rule load:\n    output: "out.txt"\n'
        '    shell: "if [ -e tried ]; then echo {resources.mem_mb} > {output}; "\n'
        '           "else touch tried; exit 1; fi"\n'
    )
    profile = tmp_path / "profile"
    profile.mkdir()
    advice = [Advice("load", 40, 1e9, 2e9, None, 2e9, (4e9, 8e9), 0.0, (0.0, 0.1), None)]
    (profile / "config.yaml").write_text(write("snakemake", advice, 64e9))
    again = ["--retries", "2"]  # the user's choice: the file only tells of it
    command = [python, "-m", "snakemake", "-c1", "--workflow-profile", str(profile), *again]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "out.txt").read_text().strip() == "4000"


def test_a_profile_with_time_and_threads_serves(python: Path, tmp_path: Path) -> None:
    from rotameter.adapters.advising import write
    from rotameter.allocator.advice import Advice
    from rotameter.allocator.resources import CORES, TIME

    (tmp_path / "Snakefile").write_text(
        'rule all:\n    input: "out.txt"\n'
        'rule load:\n    output: "out.txt"\n    threads: 8\n'
        '    shell: "if [ -e tried ]; then echo {resources.runtime} {threads} > {output}; "\n'
        '           "else touch tried; exit 1; fi"\n'
    )
    profile = tmp_path / "profile"
    profile.mkdir()
    blank = (40, 60.0, 90.0, None)
    advice = [
        Advice("load", *blank, 5400.0, (10800.0,), 0.0, (0.0, 0.1), None, resource=TIME),
        Advice("load", *blank, 2.0, (), None, None, None, resource=CORES),
    ]
    (profile / "config.yaml").write_text(write("snakemake", advice, None))
    again = ["--retries", "1"]
    command = [python, "-m", "snakemake", "-c4", "--workflow-profile", str(profile), *again]
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "out.txt").read_text().strip() == "180 2"
