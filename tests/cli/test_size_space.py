"""``rotameter size`` of disk and GPUs, and trials in other resources than memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from rotameter.cli.size import size
from rotameter.errors import BadInput, UsageError

GB = 10**9
HEAD = "task_id,group,outcome,started_ns,ended_ns,wall_s,peak_memory_bytes,peak_memory_kind"
MORE = ",peak_disk_bytes,requested_disk_bytes,gpu_peak_bytes,gpu_kind,requested_gpus,gpu_s\n"


def trace(folder: Path, rows: int = 12) -> str:
    """Tasks that use up to 3 GB of a disk of 50 GB and 20 GB of a GPU; others that use no GPU."""
    lines = []
    for k in range(rows):
        at = (1_700_000_000 + 100 * k) * GB
        shared = f"ok,{at},{at + 90 * GB},90,1000000000,exact"
        lines.append(f"a{k},train,{shared},{(k % 3 + 1) * GB},{50 * GB},{20 * GB},exact,1,45\n")
        lines.append(f"b{k},clean,{shared},{GB},{50 * GB},,,2,0\n")
    path = folder / "run.csv"
    path.write_text(HEAD + MORE + "".join(lines))
    return str(path)


def table(folder: Path, rows: int = 40, more: str = "") -> str:
    path = folder / "sizing.csv"
    path.write_text(
        "task_type,mem_mb,time_s,disk_mb,req_disk_mb\n"
        + "".join(
            f"a,{1000 + 10 * (k % 5)},{60 + k},{5000 + 50 * (k % 7)},40000\n" for k in range(rows)
        )
        + more
    )
    return str(path)


def call(*words: str) -> Any:
    result = CliRunner().invoke(size, list(words), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def advice(*words: str) -> dict[str, dict[str, Any]]:
    found = json.loads(call(*words, "--json").stdout)["advice"]
    return {
        f"{one['resource']} {group['group']}": {**group, "unit": one["unit"]}
        for one in found
        for group in one["groups"]
    }


def test_a_block_and_an_entry_each(tmp_path: Path) -> None:
    path = trace(tmp_path)
    text = call(path, "--resource", "all").stdout
    for line in (
        "run.csv: 24 tasks, disk",
        "train 12 3 GB 50 GB 3.3 GB at most 26.5%",
        "run.csv: 12 tasks, GPU memory",
        "train 12 20 GB – 22 GB at most 26.5%",
        "run.csv: 24 tasks, GPUs",
        "clean 12 0 2 0",
        "train 12 0.5 1 keep it uses them",
    ):
        assert line in " ".join(text.split()), line
    assert all(len(line) <= 92 for line in text.splitlines())
    found = advice(path, "--resource", "all")
    assert found["disk train"]["request_bytes"] == pytest.approx(3.3 * GB)
    assert found["disk train"]["advised_gbh"] == pytest.approx(12 * 90 * 3.3 / 3600)
    assert found["gpu_memory train"]["retry_bytes"] == pytest.approx([44 * GB, 88 * GB])
    gpus = found["gpus clean"]
    assert (gpus["request_gpus"], gpus["asked_gpus"], gpus["unit"]) == (0.0, 2.0, "gpus")
    assert gpus["asked_gpu_h"] == pytest.approx(2 * 12 * 90 / 3600)
    assert "kill_ratio" not in gpus and "retry_gpus" not in gpus


def test_all_is_what_the_input_tells_of(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEAD}\n" + "".join(f"{k},g,ok,,,90,{GB},exact\n" for k in range(9)))
    result = call(str(path), "--resource", "all")
    assert "disk" not in result.output and "GPU" not in result.output
    for name, why in (
        ("disk", "no task has a known peak of disk"),
        ("gpu_memory", "no task has a known peak of GPU memory"),
        ("gpus", "no task is known to have held a GPU"),
    ):
        with pytest.raises(BadInput, match=why):
            call(str(path), "--resource", name)
        told = call(str(path), "--resource", name, "--resource", "memory").stderr
        assert why in told
    path.write_text(f"{HEAD},write_bytes\n" + f"x,g,ok,,,90,{GB},exact,{GB}\n")
    with pytest.raises(BadInput, match="what tasks wrote is known, and not how much"):
        call(str(path), "--resource", "disk")


def test_terms_of_disk(tmp_path: Path) -> None:
    path = trace(tmp_path)

    def request(*words: str) -> float:
        return float(advice(path, "--resource", "disk", *words)["disk train"]["request_bytes"])

    assert request("--headroom", "50%") == pytest.approx(4.5 * GB)
    assert request("--floor-disk", "10GB") == 10 * GB
    assert request("--node-disk", "3200MB") == 3.2 * GB
    with pytest.raises(UsageError, match=r"a task used 3 GB, more than --node-disk"):
        request("--node-disk", "2GB")
    found = advice(path, "--resource", "gpu_memory", "--node-gpu-memory", "24GB")
    assert found["gpu_memory train"]["retry_bytes"] == [24 * GB]


def test_files_and_what_has_no_place_there(tmp_path: Path) -> None:
    path = trace(tmp_path)
    result = call(path, "--resource", "all", "--for", "slurm")
    assert "GPU memory is left out: Slurm has no request for it" in result.stderr
    assert "Slurm has no request for GPU memory; it would be 22 GB" in result.stdout
    assert "#SBATCH --tmp=3148M\n" in result.stdout and "#SBATCH --gpus=0\n" in result.stdout
    words = ("--resource", "disk", "--node-disk", "64GiB", "--for", "nextflow")
    text = call(path, *words).stdout
    assert "resourceLimits = [ disk: 65536.MB ]" in text
    assert "disk = { [3148.MB, 6295.MB, 12589.MB][Math.min(task.attempt, 3) - 1] }" in text
    assert "errorStrategy" not in text
    found = yaml.safe_load(call(path, "--resource", "disk", "--for", "snakemake").stdout)
    assert "[min(attempt, 3) - 1]" in found["set-resources"]["train"]["disk_mb"]


def test_tables_have_disks_too(tmp_path: Path) -> None:
    path = table(
        tmp_path, more="a,1000,60,,\na,1000,60,-5,\na,1000,60,inf,nan\na,1000,60,2 GB,1 TB\n"
    )
    found = advice(path, "--resource", "disk")["disk a"]
    assert (found["runs"], found["asked_bytes"]) == (41, 40 * GB)
    assert found["least_bytes"] == 2 * GB and found["request_bytes"] == pytest.approx(5.83 * GB)
    plain = tmp_path / "plain.csv"
    plain.write_text("task_type,mem_mb,time_s\n" + "a,1000,60\n" * 6)
    with pytest.raises(BadInput, match="no row has a disk_mb"):
        call(str(plain), "--resource", "disk")
    with pytest.raises(BadInput, match="does not say what tasks did with GPUs"):
        call(str(plain), "--resource", "gpus")
    assert "no row has a disk_mb" not in call(str(plain), "--resource", "all").output


def results(*words: str) -> list[dict[str, Any]]:
    return list(json.loads(call(*words, "--json").stdout)["results"])


def test_trials_in_each_resource(tmp_path: Path) -> None:
    words = (table(tmp_path), "--allocator", "default", "--allocator", "greedy")
    found = results(*words, "--resource", "all", "--slots", "4")
    assert [(one["resource"], one["allocator"], one["mode"]) for one in found] == [
        (resource, allocator, mode)
        for resource in ("memory", "time", "disk")
        for allocator in ("default", "greedy")
        for mode in ("sequential", "concurrent")
    ]
    for one in found:
        assert 0 < one["awe"] <= 1
        assert ("waste_h" if one["resource"] == "time" else "waste_gbh") in one
    text = call(*words, "--resource", "disk").stdout
    assert "sizing.csv, disk" in text and "what tasks needed" in text
    text = call(*words, "--resource", "time", "--queue-time", "1h").stdout
    assert "sizing.csv, time" in text and "of what was asked for" in text
    with pytest.raises(UsageError, match="no task is killed for what it"):
        call(*words, "--resource", "cores")


def test_trials_of_several_packed_together(tmp_path: Path) -> None:
    path = table(tmp_path)
    both = ("--resource", "memory", "--resource", "disk", "--packed", "2x4")
    words = (path, "--allocator", "max-seen-doubling", *both)
    found = results(*words)
    assert [(one["mode"], one["resource"]) for one in found] == [
        ("sequential", "memory"), ("sequential", "disk"), ("packed", "memory"), ("packed", "disk")
    ]  # fmt: skip
    wide = next(one for one in found if one["mode"] == "packed")
    assert 0 < wide["nodes_used_ratio"] < 1
    # Two tasks of 5.3 GB fit on a disk of 12 GB, whatever the memory.
    narrow = next(one for one in results(*words, "--node-disk", "12GB") if one["mode"] == "packed")
    assert narrow["makespan_s"] > 1.5 * wide["makespan_s"]
    text = call(*words).stdout
    assert "packed" in text and "of nodes" in text
    result = call(table(tmp_path, more="a,1000,60,,\n"), "--allocator", "greedy", *both)
    assert "1 task left out: memory and disk are not known of each" in result.stderr
    memory = results(path, "--allocator", "greedy", "--packed", "2x4")
    assert [one["mode"] for one in memory] == ["sequential", "packed"]


def test_a_trial_of_a_trace_in_gpu_memory(tmp_path: Path) -> None:
    path = trace(tmp_path)
    words = (path, "--allocator", "default", "--resource", "gpu_memory", "--slots", "2")
    assert {one["resource"] for one in results(*words)} == {"gpu_memory"}
    with pytest.raises(UsageError, match="more than --node-gpu-memory"):
        call(*words, "--node-gpu-memory", "16GB")
