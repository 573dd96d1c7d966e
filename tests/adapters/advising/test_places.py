"""Disk and GPUs in each tool's own units, and what has no place in a tool."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from rotameter.adapters.advising import TARGETS, left_out, write
from rotameter.allocator.advice import Advice
from rotameter.allocator.resources import DISK, GPU_MEMORY, GPUS, MEMORY, Resource

MIB = 2**20
HOSTILE = ['it\'s "odd" $x', "a\nb: [", "x #y", "*/", "€ 名"]
BATCH = ("slurm", "nextflow", "snakemake", "kubernetes")
WORKERS = ("jobqueue", "dask-kubernetes")


def space(group: str, *rungs: float, resource: Resource = DISK, keep: str = "") -> Advice:
    first, rest = (rungs[0], rungs[1:]) if rungs else (None, ())
    return Advice(group, 40, 1e9, 1.9e9, 8e9, first, rest, 0.0, (0.0, 0.088), None, keep,
                  resource=resource)  # fmt: skip


def gpus(group: str, request: float | None = 0.0, keep: str = "") -> Advice:
    return Advice(group, 40, 0.0, 0.0, 2.0, request, (), None, None, None, keep, resource=GPUS)


def memory(group: str, *rungs: float) -> Advice:
    return Advice(group, 40, 1e9, 1.9e9, 8e9, rungs[0], rungs[1:], 0.0, (0.0, 0.088), None)


ALL = [
    memory("load", 2e9, 4e9),
    space("load", 3e9, 6e9, 12e9),
    space("load", 5e9, 10e9, resource=GPU_MEMORY),
    gpus("load"),
    space("few", keep="fewer than 5 runs"),
    gpus("few", None, "it uses them"),
]


def load(target: str, advice: list[Advice], **more: float | None) -> Any:
    return yaml.safe_load(write(target, advice, None, **more))


@pytest.mark.parametrize("target", TARGETS)
def test_every_file_says_from_what_each_request_comes(target: str) -> None:
    text = write(target, ALL, None)
    assert "disk: keep, because fewer than 5 runs" in text
    assert "GPU memory" in text and "it would be 5 GB" in text
    assert "GPUs: keep, because it uses them" in text
    if target in BATCH:
        assert "disk: 40 runs, 1 GB to 1.9 GB used; killed: 0.0%" in text
        assert "GPUs: 40 runs, at most 0 GPUs of 2 busy on average" in text
    else:
        assert "has no request for disk; it would be 3 GB" in text


@pytest.mark.parametrize("target", TARGETS)
def test_what_has_no_place_is_kept_and_told_of(target: str) -> None:
    told = "\n".join(left_out(target, ALL))
    assert "GPU memory is left out" in told
    assert ("disk is left out" in told) == ("GPUs are left out" in told) == (target in WORKERS)
    assert left_out(target, [space("few", resource=GPU_MEMORY, keep="fewer than 5 runs")]) == []
    alone = write(target, [space("x", 5e9, resource=GPU_MEMORY)], None)
    assert "keep, because" in alone


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_on_their_line(target: str, name: str) -> None:
    text = write(target, [space(name, 2e9, 4e9), gpus(name)], None)
    assert not any(line.startswith("b: [") for line in text.splitlines())
    if target not in ("slurm", "nextflow"):
        list(yaml.safe_load_all(text))
    if target == "nextflow":
        assert text.count("\n    withName: ") == 1 and text.count("{") == text.count("}")


def test_slurm_asks_for_nodes_with_such_a_disk() -> None:
    text = write("slurm", ALL, None)
    assert "#SBATCH --tmp=2862M\n# after it ran out of disk: --tmp=5723M, --tmp=11445M\n" in text
    assert "--tmp asks for nodes" in text and text.count("#SBATCH --gpus=0\n") == 1
    assert "--tmp" not in write("slurm", ALL[:1], None)


def test_nextflow_has_disk_by_attempt_and_tries_nothing_again_for_it() -> None:
    text = write("nextflow", ALL[1:2], None, disk_bytes=8e9)
    assert "resourceLimits = [ disk: 7629.MB ]" in text
    assert "disk = { [2862.MB, 5723.MB, 7629.MB][Math.min(task.attempt, 3) - 1] }" in text
    assert "errorStrategy" not in text and "memory" not in text
    assert "disk = 2862.MB\n" in write("nextflow", [space("x", 3e9)], None)
    both = write("nextflow", ALL, None)
    assert "errorStrategy" in both and "accelerator = null" in both
    assert both.count("accelerator") == 1


def test_snakemake_counts_a_million_bytes() -> None:
    found = load("snakemake", ALL)
    rungs = found["set-resources"]["load"]
    assert [eval(rungs["disk_mb"], {"min": min}, {"attempt": a}) for a in (1, 2, 3, 4)] == [
        3000, 6000, 12000, 12000]  # fmt: skip
    assert rungs["gpu"] == "0" and set(found["set-resources"]) == {"load"}
    assert "more memory, time and disk" in write("snakemake", ALL, None)
    assert "disk" not in write("snakemake", ALL[:1], None)


def test_kubernetes_asks_for_what_it_limits() -> None:
    (made,) = [one for one in yaml.safe_load_all(write("kubernetes", ALL, None)) if one]
    held = {"memory": "1908Mi", "ephemeral-storage": "2862Mi"}
    assert made == {"resources": {"requests": held, "limits": held}}
    text = write("kubernetes", ALL, None)
    assert "# after an eviction (ephemeral-storage): 5723Mi, 11445Mi" in text
    assert "leave out its limit of GPUs" in text
    assert not any(yaml.safe_load_all(write("kubernetes", [gpus("x")], None)))


@pytest.mark.parametrize("target", WORKERS)
def test_workers_have_neither(target: str) -> None:
    assert "nothing is changed" in write(target, ALL[1:], None)


UNITS = {"slurm": MIB, "nextflow": MIB, "kubernetes": MIB, "snakemake": 10**6}
WRITTEN = {
    "slurm": r"--(?:mem|tmp)=(\d+)M",
    "nextflow": r"(\d+)\.MB",
    "kubernetes": r"(\d+)Mi",
    "snakemake": r"(\d+)(?=[],\"])",
}


@pytest.mark.parametrize("target", BATCH)
@pytest.mark.parametrize("resource", [MEMORY, DISK])
@pytest.mark.parametrize("most", [64e9, 64.0 * 2**30, 10_000_000_001.0])
def test_what_a_machine_has_is_never_exceeded(target: str, resource: Resource, most: float) -> None:
    """A request that was cut to it is floored, whatever the unit, also after a kill."""
    one = space("x", most / 2 + 1, most, resource=resource)
    limits = {"disk_bytes": most} if resource is DISK else {}
    text = write(target, [one], most if resource is MEMORY else None, **limits)
    found = [int(number) * UNITS[target] for number in re.findall(WRITTEN[target], text)]
    assert max(found) <= most < max(found) + UNITS[target]
    assert any(most / 2 < number < most / 2 + 1 + UNITS[target] for number in found)
