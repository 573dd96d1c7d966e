"""Each file is in its tool's own units, and says from what each request comes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from rotameter.adapters.advising import TARGETS, left_out, write
from rotameter.allocator.advice import Advice

MIB = 2**20
ODD = 'it\'s "odd" $x'
ADVICE = [
    Advice("load", 40, 1e9, 1.9e9, 8e9, 2e9, (4e9, 8e9), 0.0, (0.0, 0.088), (1e6, 5e6)),
    Advice(ODD, 9, 1e6, 2e6, None, 3e6, (6e6,), 0.1, (0.0, 0.4), None),
    Advice("few", 2, 1e9, 2e9, 4e9, None, (), None, None, None, "fewer than 5 runs"),
]
MOST = 64e9


@pytest.mark.parametrize("target", TARGETS)
def test_every_file_says_runs_range_and_chance_or_why_it_keeps(target: str) -> None:
    text = write(target, ADVICE, MOST)
    assert "40 runs, 1 GB to 1.9 GB used" in text and "at most 8.8%" in text
    assert "keep, because fewer than 5 runs" in text
    assert text.endswith("\n") and "\t" not in text


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_with_line_ends_stays_on_its_line(target: str) -> None:
    bad = Advice("a\nrm -rf /\n", 9, 1e9, 1e9, None, 2e9, (4e9,), 0.0, (0.0, 0.3), None)
    assert not any(line.startswith("rm ") for line in write(target, [bad], MOST).splitlines())


def test_slurm_counts_in_mebibytes() -> None:
    text = write("slurm", ADVICE, MOST)
    assert "#SBATCH --mem=1908M" in text and "--mem=3815M, --mem=7630M" in text


def test_nextflow_climbs_by_attempt_inside_the_limits_and_only_for_memory() -> None:
    text = write("nextflow", ADVICE, 7e9)
    assert "resourceLimits = [ memory: 6675.MB ]" in text
    assert "memory = { [1908.MB, 3815.MB, 6675.MB][Math.min(task.attempt, 3) - 1] }" in text
    assert "task.exitStatus in [104, 134, 137, 139, 143, 247] ? 'retry' : 'finish'" in text
    assert "maxRetries = 2" in text
    assert "withName: 'it\\'s \"odd\" $x'" in text
    assert text.count("{") == text.count("}")


def test_snakemake_reads_its_profile(tmp_path: Path) -> None:
    text = write("snakemake", ADVICE, MOST)
    found = yaml.safe_load(text)
    # It changes nothing for rules that it does not size; what the user may add is there.
    assert set(found) == {"set-resources"}
    assert yaml.safe_load(text.replace("\n# retries: ", "\nretries: "))["retries"] == 2
    assert "--retries 2" in text and "#     retries: 2" in text
    ladder = found["set-resources"]["load"]["mem_mb"]
    assert [eval(ladder, {"min": min}, {"attempt": a}) for a in (1, 2, 3, 4)] == [
        2000, 4000, 8000, 8000]  # fmt: skip
    assert set(found["set-resources"]) == {"load", ODD}
    assert yaml.safe_load(write("snakemake", ADVICE[2:], MOST)) == {}
    # Nor is one of a group alone that it cannot name.
    odd = Advice("a:b", 9, 1e9, 1e9, None, 2e9, (4e9,), 0.0, (0.0, 0.3), None)
    assert yaml.safe_load(write("snakemake", [odd], MOST)) == {}


def test_kubernetes_asks_for_what_it_limits() -> None:
    found = list(yaml.safe_load_all(write("kubernetes", ADVICE, MOST)))
    asked = [one["resources"] for one in found if one and "resources" in one]
    assert asked[0] == {"requests": {"memory": "1908Mi"}, "limits": {"memory": "1908Mi"}}
    assert len(asked) == 2


def test_workers_hold_the_largest_request_below_where_they_spill() -> None:
    found = yaml.safe_load(write("jobqueue", ADVICE[:2], MOST))
    memory = int(re.fullmatch(r"(\d+)MiB", found["jobqueue"]["slurm"]["memory"]).group(1)) * MIB
    assert 0.7 * memory >= 2e9 and memory < 3.5e9
    found = yaml.safe_load(write("dask-kubernetes", ADVICE, MOST))
    (container,) = found["spec"]["containers"]
    assert container["resources"]["limits"]["memory"].endswith("Mi")
    assert container["args"][-1].endswith("MiB")
    for target in ("jobqueue", "dask-kubernetes"):
        assert "nothing is changed" in write(target, ADVICE[2:], MOST)
    assert json.dumps(ODD)


@pytest.mark.parametrize("target", ["jobqueue", "dask-kubernetes"])
def test_a_worker_cut_to_its_machine_is_told_of_where_it_would_spill(target: str) -> None:
    (said,) = left_out(target, ADVICE[:1], 2.5e9)
    assert "a worker has 2.5 GB" in said and "2 GB for load and 200 MiB of its own are 88%" in said
    assert "(3.16 GB is enough)" in said and f"# {said}" in write(target, ADVICE[:1], 2.5e9)
    for enough in (3.16e9, 64e9, None):
        assert left_out(target, ADVICE[:1], enough) == []
        assert "spills" not in write(target, ADVICE[:1], enough)
    assert left_out("slurm", ADVICE[:1], 2.1e9) == []


def test_nothing_is_limited_where_no_machine_is_known() -> None:
    text = write("nextflow", ADVICE, None)
    assert "resourceLimits =" not in text and "[1908.MB, 3815.MB, 7630.MB]" in text
    assert "errorStrategy and maxRetries replace the workflow's own" in text
    assert "MiB" in write("jobqueue", ADVICE, None)


def test_retries_are_as_many_as_there_is_more_to_ask_for() -> None:
    one = Advice("load", 40, 1e9, 1.9e9, 8e9, 2e9, (4e9,), 0.0, (0.0, 0.088), None)
    assert "maxRetries = 1" in write("nextflow", [one], None)
    assert "\n# retries: 1\n" in write("snakemake", [one], None)
    assert "retries" not in write("snakemake", [replace(one, retries=())], None)
    assert "after a kill (OUT_OF_MEMORY): --mem=3815M\n" in write("slurm", [one], None)


def test_rules_that_a_profile_cannot_name_are_left_out_with_a_comment() -> None:
    odd = Advice("a:b", 9, 1e9, 1e9, None, 2e9, (4e9, 8e9), 0.0, (0.0, 0.3), None)
    text = write("snakemake", [odd, ADVICE[1]], None)
    found = yaml.safe_load(text)
    assert list(found["set-resources"]) == [ODD] and "\n# retries: 1\n" in text
    assert "# a:b: 9 runs" in text and "left out: a profile cannot name this rule" in text
    option = Advice("-a", 9, 1e9, 1e9, None, 2e9, (), 0.0, (0.0, 0.3), None)
    assert "a:b; -a" in left_out("snakemake", [odd, option])[0]
    assert left_out("snakemake", [odd]) and not left_out("slurm", [odd])


@pytest.mark.parametrize("target", TARGETS)
def test_of_killed_tasks_alone_the_bound_is_written_and_nothing_changed(target: str) -> None:
    one = Advice("x", 0, None, None, None, None, (), None, None, None, "no run has a peak",
                 killed=5, killed_with=4e9, at_least=4e9, guess=8e9)  # fmt: skip
    text = write(target, [one], None)
    assert "more than 4 GB is needed" in text and "a guess: 8 GB" in text
    assert "5 ran out of memory with up to 4 GB" in text and "--mem" not in text
