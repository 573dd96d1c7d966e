"""``rotameter size --resource``: time and cores beside memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from rotameter.cli.size import size
from rotameter.errors import BadInput, UnknownFormat, UsageError
from rotameter.units import parse_seconds

HEAD = "JobID|JobName|State|Elapsed|Timelimit|ReqCPUS|AllocCPUS|TotalCPU|ReqMem|MaxRSS|NNodes\n"


def job(number: int, name: str, elapsed: str, cpu: str, state: str = "COMPLETED",
        limit: str = "1-00:00:00", cpus: int = 8) -> str:  # fmt: skip
    rest = f"{cpus}|{cpus}|{cpu}"
    return (
        f"{number}|{name}|{state}|{elapsed}|{limit}|{rest}|8000M||1\n"
        f"{number}.batch|batch|{state}|{elapsed}||{rest}||900M|1\n"
    )


def log(folder: Path) -> str:
    """Forty jobs of one core that ask for eight and a day; some that ran out of time."""
    text = HEAD + "".join(job(k, "align", f"01:{k % 10:02}:00", "01:12:00") for k in range(1, 41))
    text += "".join(
        job(k, "solve", "2-00:00:11", "10-00:00:00", "TIMEOUT", "2-00:00:00") for k in range(50, 54)
    )
    path = folder / "jobs.txt"
    path.write_text(text)
    return str(path)


def call(*words: str) -> Any:
    result = CliRunner().invoke(size, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_memory_alone_is_as_it_was(tmp_path: Path) -> None:
    path = log(tmp_path)
    plain, named = call(path), call(path, "--resource", "memory")
    assert plain.stdout == named.stdout and "wall time" not in plain.stdout
    (file,) = json.loads(call(path, "--json").stdout)["advice"]
    assert list(file) == ["file", "groups"]
    assert list(file["groups"][0]) == [
        "group", "runs", "least_bytes", "most_bytes", "asked_bytes", "request_bytes",
        "retry_bytes", "kill_ratio", "kill_interval", "size_range", "keep", "median_bytes",
        "p95_bytes", "kinds", "at_most", "killed", "killed_bytes", "enough_ratios", "used_gbh",
        "asked_gbh", "advised_gbh", "reason", "lacking", "unsure", "at_least_bytes",
        "guess_bytes", "kill_range",
    ]  # fmt: skip


def test_a_block_each(tmp_path: Path) -> None:
    text = call(log(tmp_path), "--resource", "all").stdout
    assert "jobs.txt: 40 tasks\n" in text
    assert "jobs.txt: 40 tasks, wall time\n" in text and "jobs.txt: 40 tasks, cores\n" in text
    for line in (
        "  align                           40  1 h 9 min         24 h   1 h 27 min  at most 8.8%",
        "  solve                            0           –            –        > 2 d  4 ran out of "
        "time; no completed run has a known duration; guess: 4 d",
        "  align                                 40         1.2        8        2",
    ):
        assert " ".join(line.split()) in " ".join(text.split())
    assert text.count("A file to include") == 1


def test_json_names_the_resource_and_its_unit(tmp_path: Path) -> None:
    found = json.loads(call(log(tmp_path), "--resource", "all", "--json").stdout)
    assert found["schema"] == 1
    assert [(one["resource"], one["unit"]) for one in found["advice"]] == [
        ("memory", "bytes"), ("time", "s"), ("cores", "cores")]  # fmt: skip
    memory, time, cores = (one["groups"] for one in found["advice"])
    assert memory[0]["request_bytes"] == pytest.approx(1.1 * 900 * 2**20, abs=1)
    by_name = {one["group"]: one for one in time}
    assert by_name["align"]["request_s"] == 87 * 60
    assert by_name["solve"]["at_least_s"] == 2 * 86400 + 11
    assert not any("gbh" in name for name in time[0])
    assert cores[0]["request_cores"] == 2 and cores[0]["advised_core_h"] is not None
    assert "kill_ratio" not in cores[0]


def test_a_file_with_all(tmp_path: Path) -> None:
    path = log(tmp_path)
    text = call(path, "--resource", "all", "--for", "slurm").stdout
    assert "#SBATCH --time=01:27:00" in text and "#SBATCH --cpus-per-task=2" in text
    text = call(path, "--resource", "time", "--for", "slurm").stdout
    assert "--mem=" not in text and "--time=01:27:00" in text
    found = yaml.safe_load(call(path, "--resource", "all", "--for", "snakemake").stdout)
    assert found["set-threads"] == {"align": 2}
    told = call(path, "--resource", "cores", "--for", "jobqueue").stderr
    assert "cores are left out" in told


def test_terms_of_time(tmp_path: Path) -> None:
    path = log(tmp_path)

    def request(*words: str) -> float:
        (file,) = json.loads(call(path, "--resource", "time", "--json", *words).stdout)["advice"]
        return float({one["group"]: one for one in file["groups"]}["align"]["request_s"])

    assert request() == 87 * 60
    assert request("--headroom", "0%") == 69 * 60
    assert request("--floor-time", "3h") == 3 * 3600
    assert request("--queue-time", "75min") == 75 * 60
    # What was let end a little later needs no more than the queue allows.
    assert request("--queue-time", "68.5min") == 68.5 * 60
    assert request("--queue-time", "1-00:00:00") == 87 * 60
    with pytest.raises(UsageError, match=r"a task took 1 h 9 min, more than --queue-time"):
        request("--queue-time", "1h")


@pytest.mark.parametrize(
    "words",
    [
        ("--resource", "time", "--queue-time", "0"),
        ("--resource", "time", "--queue-time", "soon"),
        ("--resource", "time", "--queue-time", "7-"),
        ("--resource", "time", "--queue-time", "7--1:00"),
        ("--resource", "time", "--queue-time", "1e300h"),
        ("--resource", "time", "--floor-time", "-1"),
        ("--resource", "time", "--floor", "1GB"),
        ("--resource", "time", "--node-memory", "64GB"),
        ("--queue-time", "7d"),
        ("--resource", "cores", "--max-kill", "5%"),
        ("--resource", "cores", "--allocator", "greedy"),
        ("--resource", "gpus", "--allocator", "greedy"),
        ("--node-disk", "1TB"),
        ("--floor-disk", "1GB"),
        ("--resource", "disk", "--node-disk", "0"),
        ("--resource", "disk", "--floor-disk", "few"),
        ("--resource", "disk", "--node-gpu-memory", "80GB"),
        ("--resource", "gpus", "--max-kill", "5%"),
        ("--packed", "8x8"),
        ("--packed", "8", "--allocator", "greedy"),
        ("--packed", "0x8", "--allocator", "greedy"),
        ("--packed", "8x8", "--slots", "4", "--allocator", "greedy"),
        ("--packed", "8x8", "--resource", "time", "--allocator", "greedy"),
        ("--floor-disk", "1GB", "--resource", "disk", "--allocator", "greedy"),
        ("--queue-time", "7d", "--allocator", "greedy"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        call(log(tmp_path), *words)


def test_an_unknown_resource_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="'bandwidth' is not one of"):
        call(log(tmp_path), "--resource", "bandwidth")


def test_what_an_input_does_not_tell_is_said_and_the_rest_advised(tmp_path: Path) -> None:
    path = tmp_path / "sizing.csv"
    path.write_text("task_type,mem_mb,time_s\n" + "a,1000,3000\n" * 9)
    result = call(str(path), "--resource", "all", "--json")
    assert "does not say how many cores" in result.stderr
    memory, time = json.loads(result.stdout)["advice"]
    assert time["groups"][0]["request_s"] == 63 * 60 and memory["resource"] == "memory"
    with pytest.raises(BadInput, match="does not say how many cores"):
        call(str(path), "--resource", "cores")


def test_a_log_without_durations_or_states_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("task_id,group,outcome,wall_s\na,g,failed,5\n")
    with pytest.raises(BadInput, match="no completed task has a known duration"):
        call(str(path), "--resource", "time")
    path.write_text("task_id,group,outcome,wall_s\na,g,failed,5\nb,g,unknown,5\n")
    with pytest.raises(BadInput, match="1 task has a duration, but how they ended"):
        call(str(path), "--resource", "time")
    path.write_text("task_id,group,outcome,wall_s\na,g,ok,5\n")
    with pytest.raises(BadInput, match="no completed task has a known CPU time"):
        call(str(path), "--resource", "cores")


@pytest.mark.parametrize(
    ("nodes", "elapsed", "cpu", "why"),
    [
        (2, "01:00:00", "08:00:00", "ran on several nodes"),
        (1, "00:00:00.5", "00:00:00.4", "no completed task lasted 1 s"),
        (1, "01:00:00", "00:00:00", "the CPU time of all completed tasks is 0"),
    ],
)
def test_why_cores_are_not_advised_on(
    tmp_path: Path, nodes: int, elapsed: str, cpu: str, why: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "task_id,group,outcome,wall_s,cpu_s,requested_cores,granted_nodes\n"
        + "".join(
            f"{k},g,ok,{parse_seconds(elapsed)},{parse_seconds(cpu)},8,{nodes}\n" for k in range(9)
        )
    )
    with pytest.raises(BadInput, match=why):
        call(str(path), "--resource", "cores")


def test_what_a_stranger_reads(tmp_path: Path) -> None:
    """Names that are cut stay apart, no chance is 0, and what was used above a request is told."""
    path = tmp_path / "s.csv"
    names = ("ALIGN_STAR", "MARK_DUPLICATES_PICARD")
    rows = [f"PIPELINE:{name}:BAM_STATS_SAMTOOLS:SAMTOOLS_STATS,300,5\n" for name in names]
    few = "few,100,5\n"
    path.write_text(
        "task_type,mem_mb,time_s\n" + "".join(rows * 9) + "a,1000,5\n" * 9999 + "a,9000,5\n" + few
    )
    text = call(str(path)).stdout
    lines = [line.split()[0] for line in text.splitlines() if "SAMTOOLS_STATS" in line]
    assert len(set(lines)) == 2 and any("STAR" in line for line in lines)
    assert "at most 0.06%; 1 run used more" in text
    assert "A file to include: --for slurm|nextflow" in text
    assert "(1 run, 100 MB used)" in call(str(path), "--for", "slurm").stdout
    path.write_text("task_type,mem_mb,time_s\n" + few)
    assert "A file to include" not in call(str(path)).stdout


def test_what_hides_all_resources_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("task_id,group,outcome,wall_s,peak_disk_bytes\na,g,,5,\nb,g,failed,5,\n")
    with pytest.raises(BadInput):
        call(str(path), "--resource", "all")
    result = CliRunner().invoke(size, [str(path), "--resource", "all"], standalone_mode=False)
    assert result.stderr.count("how they ended is not known") == 1


def test_time_is_advised_where_no_memory_is_known(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "task_id,group,outcome,wall_s\n" + "".join(f"{k},g,ok,3600\n" for k in range(9))
    )
    result = call(str(path), "--resource", "memory", "--resource", "time", "--for", "slurm")
    assert "peak of memory" in result.stderr and "#SBATCH --time=01:15:00" in result.stdout


def test_several_files_have_their_blocks(tmp_path: Path) -> None:
    path = log(tmp_path)
    text = call(path, path, "--resource", "time").stdout
    assert text.count("wall time") == 2 and text.count("A file to include") == 2


def test_a_packed_log_is_no_table(tmp_path: Path) -> None:
    """A first line of other bytes, with line ends of old Macs in it, is none of ours."""
    path = tmp_path / "jobs.txt.gz"
    path.write_bytes(gzip.compress(Path(log(tmp_path)).read_bytes()))
    assert "align" in call(str(path), "--resource", "time").stdout
    path = tmp_path / "odd"
    path.write_bytes(b"task_type\rmem_mb\r,\x00\x1f\n")
    with pytest.raises(UnknownFormat):
        call(str(path))
