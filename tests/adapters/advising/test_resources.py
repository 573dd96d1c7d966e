"""Time and cores in each tool's own units, beside memory or alone."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rotameter.adapters.advising import TARGETS, left_out, write
from rotameter.allocator.advice import Advice
from rotameter.allocator.resources import CORES, MEMORY, TIME, Resource

DAY = 86400.0
HOSTILE = ['it\'s "odd" $x', "a\nb: [", "x #y", "{z}", "*/", "€ 名"]


def time(group: str, *rungs: float, keep: str = "") -> Advice:
    first, rest = (rungs[0], rungs[1:]) if rungs else (None, ())
    return Advice(group, 40, 60.0, 4321.0, DAY, first, rest, 0.0, (0.0, 0.088), None, keep,
                  resource=TIME)  # fmt: skip


def cores(group: str, request: float | None, keep: str = "") -> Advice:
    return Advice(group, 40, 0.9, 1.3, 8.0, request, (), None, None, None, keep, resource=CORES)


def memory(group: str, *rungs: float) -> Advice:
    return Advice(group, 40, 1e9, 1.9e9, 8e9, rungs[0], rungs[1:], 0.0, (0.0, 0.088), None)


ALL = [
    memory("load", 2e9, 4e9),
    time("load", 5461.0, 10921.0, 2 * DAY),
    cores("load", 2.0),
    time("few", keep="fewer than 5 runs"),
    cores("few", None, "fewer than 5 runs"),
]


def load(target: str, advice: list[Advice], *more: float | None) -> Any:
    return yaml.safe_load(write(target, advice, None, *more))


@pytest.mark.parametrize("target", TARGETS)
def test_every_file_says_from_what_each_request_comes(target: str) -> None:
    text = write(target, ALL, None)
    assert "time: 40 runs, took 1 min to 1 h 12 min; killed: 0.0%, at most 8.8% (95 %)" in text
    assert "cores: 40 runs, 0.9 to 1.3 cores kept busy of 8; an average" in text
    assert "time: keep, because fewer than 5 runs (40 runs, took" in text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_on_their_line(target: str, name: str) -> None:
    text = write(target, [memory(name, 2e9), time(name, 600.0, 1200.0), cores(name, 2.0)], None)
    assert not any(line.startswith("b: [") for line in text.splitlines())
    if target not in ("slurm", "nextflow"):
        list(yaml.safe_load_all(text))
    if target == "nextflow":
        assert text.count("\n    withName: ") == 1


def test_slurm_counts_minutes_and_days() -> None:
    text = write("slurm", ALL, None)
    assert "#SBATCH --time=01:32:00\n" in text
    assert "# after a kill (TIMEOUT): --time=03:03:00, --time=2-00:00:00\n" in text
    assert "#SBATCH --cpus-per-task=2\n" in text and "--mem-per-cpu" in text
    alone = write("slurm", [time("load", 600.0)], None)
    assert "#SBATCH --time=00:10:00" in alone and "--mem" not in alone and "TIMEOUT" not in alone
    assert "--time=1-01:30:00" in write("slurm", [time("x", DAY, 2 * DAY)], None, 25.5 * 3600)


def test_huge_limits_are_written_out() -> None:
    assert "--time=1157407-09:47:00" in write("slurm", [time("x", 1e11)], None)


def test_snakemake_gives_minutes_by_attempt_and_threads() -> None:
    found = load("snakemake", ALL)
    rungs = found["set-resources"]["load"]
    assert [eval(rungs["runtime"], {"min": min}, {"attempt": a}) for a in (1, 2, 3, 4)] == [
        92, 183, 2880, 2880]  # fmt: skip
    assert "retries" not in found and found["set-threads"] == {"load": 2}
    assert set(found["set-resources"]) == {"load"}
    only = load("snakemake", [cores("load", 2.0)])
    assert only == {"set-threads": {"load": 2}}
    odd = [cores("a=b", 2.0), cores("c", 3.0)]
    assert load("snakemake", odd) == {"set-threads": {"c": 3}}
    assert "cannot name it: a=b" in left_out("snakemake", odd)[0]


def test_kubernetes_limits_a_job_and_asks_for_cores_without_a_limit() -> None:
    found = [one for one in yaml.safe_load_all(write("kubernetes", ALL, None)) if one]
    (made,) = found
    assert made["activeDeadlineSeconds"] == 92 * 60
    assert made["resources"]["requests"] == {"cpu": "2", "memory": "1908Mi"}
    assert made["resources"]["limits"] == {"memory": "1908Mi"}
    (made,) = [
        one for one in yaml.safe_load_all(write("kubernetes", [cores("x", 2.0)], None)) if one
    ]
    assert made == {"resources": {"requests": {"cpu": "2"}}}


def test_workers_hold_the_longest_task_and_have_one_thread() -> None:
    made = load("jobqueue", [*ALL, time("long", 2.5 * DAY)])["jobqueue"]["slurm"]
    assert made["walltime"] == "60:00:00" and made["memory"].endswith("MiB")
    assert load("jobqueue", [time("long", 600.0)]) == {
        "jobqueue": {"slurm": {"walltime": "00:10:00"}}
    }
    assert "cores are left out" in left_out("jobqueue", ALL)[0]
    told = left_out("dask-kubernetes", ALL)
    assert len(told) == 2 and "time is left out" in told[1]
    assert "nothing is changed" in write("dask-kubernetes", [time("x", 600.0)], None)


def kept(resource: Resource = MEMORY, **more: Any) -> Advice:
    known = {"least": None, "most": None, "asked": None, **more}
    return Advice("big\n#", 3, request=None, retries=(), kill_ratio=None, kill_interval=None,
                  size_range=None, keep="few", resource=resource, **known)  # fmt: skip


@pytest.mark.parametrize(
    ("known", "least"),
    [
        ({"asked": 40e9, "most": 30e9}, 40e9),
        ({"most": 30e9}, 30e9),
        ({"asked": 20e9, "most": 30e9}, 30e9),
        ({"asked": 8e9, "at_least": 8e9, "guess": 16e9}, 16e9),
        ({"at_least": 8e9}, 8e9),
        ({}, 2e9),
    ],
)
def test_workers_hold_what_is_kept(known: dict[str, float], least: float) -> None:
    """Any worker runs any group: also those whose requests stay as they are."""
    both = [memory("load", 2e9, 4e9), kept(**known)]
    limit = load("jobqueue", both)["jobqueue"]["slurm"]["memory"]
    assert least <= 0.7 * int(limit.removesuffix("MiB")) * 2**20 < least + 3e8
    (one,) = load("dask-kubernetes", both)["spec"]["containers"]
    assert one["resources"]["limits"]["memory"] + "B" == limit
    told = "which is kept" if known else "what big # needs is not known"
    for target in ("jobqueue", "dask-kubernetes"):
        assert told in write(target, both, None)
    assert load("jobqueue", both, 64e9)["jobqueue"]["slurm"]["memory"] in (limit, "61035MiB")
    assert "nothing is changed" in write("jobqueue", both[1:], None)


def test_workers_last_as_long_as_what_is_kept() -> None:
    both = [time("load", 600.0), kept(TIME, asked=DAY, most=36000.0)]
    text = write("jobqueue", both, None)
    assert "walltime: '24:00:00'" in text and "# time: 24 h for big #, which is kept" in text
    assert "walltime: '10:00:00'" in write("jobqueue", both, None, 36000.0)
    assert "walltime" not in write("jobqueue", both[1:], None)


def test_nextflow_climbs_each_after_its_own_end() -> None:
    text = write("nextflow", ALL, 8 * 2**30, 7 * DAY)
    assert "resourceLimits = [ memory: 8192.MB, time: 10080.min ]" in text
    assert "cpus = 2" in text and "def rungs = [92.min, 183.min, 2880.min]" in text
    assert "def was = task.previousTrace" in text and "maxRetries = 3" in text
    memory_code, time_code = text.split("memory = {")[1].split("time = {")
    assert (
        "task.exitStatus in [104, 134, 139, 247] || (task.exitStatus == 137 && !late)"
        in memory_code
    )
    assert "140" not in memory_code and "143" not in memory_code
    assert "task.exitStatus == 140 || (task.exitStatus in [137, 143] && late)" in time_code
    assert "[104, 134, 137, 139, 140, 143, 247] ? 'retry' : 'finish'" in text
    assert text.count("{") == text.count("}")


def test_nextflow_without_more_time_does_not_climb_by_attempt_either() -> None:
    """Pre-emption would: what asked for advice on time is told apart in the whole file."""
    text = write("nextflow", [memory("x", 2e9, 4e9), time("x", keep="few")], None)
    assert "task.previousTrace" in text and "time = {" not in text and "maxRetries = 1" in text
    assert "140" not in text.split("errorStrategy =")[1]
    assert "[104, 134, 139, 247] || (task.exitStatus in [137, 143] && !late) ? 'retry'" in text
    assert "what runs out of time is not tried again: time is kept" in text
    text = write("nextflow", [cores("x", 2.0)], None)
    assert "cpus = 2" in text and "errorStrategy" not in text and "resourceLimits" not in text
    kept = write("nextflow", [cores("x", None, "few")], None)
    assert "// withName: 'x': nothing is changed" in kept


def test_nextflow_tries_nothing_again_that_would_get_the_same() -> None:
    """Rungs that end at the machine's, or at the queue's, are no more rungs."""
    both = [memory("x", 2e9, 4e9), time("x", 600.0, 1200.0)]
    text = write("nextflow", both, None, 600.0)
    assert "140" not in text.split("errorStrategy =")[1] and "maxRetries = 1" in text
    assert "no more time to ask for" in text and text.count("{") == text.count("}")
    text = write("nextflow", both, 2e9)
    assert "task.exitStatus in [140, 143] || (task.exitStatus == 137 && late) ? 'retry'" in text
    assert "no more memory to ask for" in text and "maxRetries = 1" in text
    text = write("nextflow", both, 2e9, 600.0)
    assert "errorStrategy" not in text and "maxRetries =" not in text
    assert "memory = 1907.MB" in text and "time = 10.min" in text
    # Memory that is not advised on is the workflow's own.
    text = write("nextflow", both[1:], None)
    assert "[104, 134, 137, 139, 140, 143, 247] ? 'retry'" in text


def test_a_name_for_yaml_is_quoted() -> None:
    made = load("snakemake", [time('it\'s "odd"', 600.0), cores('it\'s "odd"', 2.0)])
    assert made["set-threads"] == {'it\'s "odd"': 2}
