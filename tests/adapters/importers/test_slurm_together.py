"""Slurm: what steps held at once, and what is known of jobs that still run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.adapters.importers._slurm_together import together
from rotameter.adapters.importers._slurm_values import MISSING_NS
from rotameter.adapters.importers.slurm import Importer
from rotameter.allocator.advice import advise
from rotameter.allocator.recorded import from_trace
from rotameter.testing import import_bytes

MIB, GIB = 1 << 20, 1 << 30
S = 10**9
HEAD = "JobID|State|Start|End|Elapsed|ReqMem|MaxRSS|NTasks|NNodes"


def line(
    step: str, begin: str, end: str, rss: str, tasks: int = 1, state: str = "COMPLETED"
) -> str:
    day = "2025-02-03T"
    ended = day + end if end[0].isdigit() else end
    asked = "" if "." in step else "16G"
    return f"{step}|{state}|{day}{begin}|{ended}|01:00:00|{asked}|{rss}|{tasks}|1"


def read(*lines: str, head: str = HEAD) -> Any:
    return import_bytes(Importer, {"jobs.psv": "\n".join([head, *lines, ""]).encode()})


def peak(*steps: str, head: str = HEAD) -> tuple[int | None, str | None, dict[str, float]]:
    trace = read(*steps, head=head)
    (row,) = trace.table("tasks").to_pylist()
    samples = {one["metric"]: one["value"] for one in trace.table("samples").to_pylist()}
    return row["peak_memory_bytes"], row["peak_memory_kind"], samples


JOB = line("7", "09:00:00", "10:00:00", "")


def batch(rss: str) -> str:
    return line("7.batch", "09:00:00", "10:00:00", rss)


def extern(rss: str) -> str:
    return line("7.extern", "09:00:00", "10:00:00", rss)


def test_steps_side_by_side_are_at_most_their_sum_and_at_least_the_largest() -> None:
    one, two = (line(f"7.{at}", "09:00:05", "10:00:00", "5G") for at in (0, 1))
    assert peak(JOB, batch("10M"), one, two) == (
        10 * GIB + 10 * MIB,
        "upper_bound",
        {"peak_memory_lower_bound_bytes": 5 * GIB},
    )


def test_steps_one_after_the_other_count_as_the_largest() -> None:
    one = line("7.0", "09:00:05", "09:30:01", "4G")  # noted a second after the next began
    two = line("7.1", "09:30:00", "10:00:00", "5G")
    assert peak(JOB, batch("10M"), one, two) == (5 * GIB, "sampled", {})


@pytest.mark.parametrize("beside", [("12M", "1M"), ("", "0"), ("200M", "40M")])
def test_a_script_that_waits_for_its_step_is_no_other_load(beside: tuple[str, str]) -> None:
    step = line("7.0", "09:00:05", "10:00:00", "5G")
    assert peak(JOB, batch(beside[0]), extern(beside[1]), step) == (5 * GIB, "sampled", {})


def test_small_jobs_stay_sampled_whatever_their_script_takes() -> None:
    step = line("7.0", "09:00:05", "10:00:00", "100M")
    assert peak(JOB, batch("70M"), step) == (100 * MIB, "sampled", {})


def test_a_script_that_adds_some_makes_an_estimate_and_one_that_adds_much_a_bound() -> None:
    step = line("7.0", "09:00:05", "10:00:00", "4G")
    lower = {"peak_memory_lower_bound_bytes": 4 * GIB}
    assert peak(JOB, batch("1G"), step) == (5 * GIB, "estimate", lower)
    assert peak(JOB, batch("3G"), step) == (7 * GIB, "upper_bound", lower)


def test_only_those_that_ran_at_once_are_added_up() -> None:
    spans = [("09:00:00", "09:20:00"), ("09:10:00", "09:40:00"), ("09:30:00", "10:00:00")]
    steps = [line(f"7.{at}", *span, "2G") for at, span in enumerate(spans)]
    assert peak(JOB, *steps)[:2] == (4 * GIB, "upper_bound")


def test_steps_of_unknown_times_may_have_run_at_once() -> None:
    head = "JobID|State|Elapsed|MaxRSS"
    job, *steps = "7|COMPLETED|01:00:00|", "7.0|COMPLETED|00:10:00|2G", "7.1|COMPLETED|00:10:00|2G"
    assert peak(job, *steps, head=head)[:2] == (4 * GIB, "upper_bound")
    assert peak(job, steps[0], head=head)[:2] == (2 * GIB, "sampled")


def test_killed_jobs_and_several_tasks_stay_lower_bounds() -> None:
    one, two = (line(f"7.{at}", "09:00:05", "10:00:00", "5G") for at in (0, 1))
    killed = two.replace("COMPLETED", "OUT_OF_MEMORY")
    assert peak(JOB.replace("COMPLETED", "OUT_OF_MEMORY"), one, killed)[:2] == (
        16 * GIB,
        "lower_bound",
    )
    many = line("7.1", "09:00:05", "10:00:00", "5G", tasks=4)
    assert peak(JOB, one, many) == (
        5 * GIB,
        "lower_bound",
        {"peak_memory_upper_bound_bytes": 25 * GIB},
    )


def test_no_request_below_what_may_have_been_held_is_advised() -> None:
    def advised(rss: str, script: str) -> Any:
        rows = []
        for at in range(12):
            job = [JOB, batch(script), line("7.0", "09:00:05", "10:00:00", rss)]
            if rss == "5G":
                job.append(line("7.1", "09:00:05", "10:00:00", rss))
            rows += [row.replace("7", str(100 + at), 1) for row in job]
        (advice,) = advise(from_trace(read(*rows)))
        return advice

    assert advised("5G", "10M").request is None
    assert advised("4G", "10M").request >= 4 * GIB
    assert advised("4G", "1G").request >= 5 * GIB


def test_memory_of_gpus_of_steps_side_by_side() -> None:
    head = f"{HEAD}|TRESUsageInMax"
    steps = [line(f"7.{at}", "09:00:05", "10:00:00", "1G") for at in (0, 1)]
    lines = [f"{step}|gres/gpumem=8G" for step in steps]
    (row,) = read(f"{JOB}|", *lines, head=head).table("tasks").to_pylist()
    assert (row["gpu_peak_bytes"], row["gpu_kind"]) == (16 * GIB, "upper_bound")
    (row,) = read(f"{JOB}|", lines[0], head=head).table("tasks").to_pylist()
    assert (row["gpu_peak_bytes"], row["gpu_kind"]) == (8 * GIB, "sampled")


def test_what_ended_steps_of_a_running_job_used_is_a_lower_bound() -> None:
    head = f"{HEAD}|TotalCPU|TRESUsageInTot"
    job = line("7", "09:00:00", "Unknown", "", state="RUNNING") + "|00:00:00|"
    done = line("7.0", "09:00:00", "09:40:00", "2G") + "|00:39:00|fs/disk=1G"
    runs = line("7.1", "09:40:00", "Unknown", "", state="RUNNING") + "|00:00:00|"
    trace = read(job, done, runs, head=head)
    (row,) = trace.table("tasks").to_pylist()
    assert (row["outcome"], row["cpu_s"], row["read_bytes"]) == ("running", None, GIB)
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (2 * GIB, "lower_bound")
    assert row["io_kind"] == "lower_bound"
    (sample,) = trace.table("samples").to_pylist()
    assert sample.pop("at_ns") == row["started_ns"] + 3600 * S
    assert sample == {"subject": "7", "metric": "cpu_s", "value": 2340, "quality": "lower_bound"}
    assert any("1 job that still ran" in said for said in trace.meta["not_measured"])


def test_a_running_job_without_ended_steps_says_nothing_of_its_cpu_time() -> None:
    head = f"{HEAD}|TotalCPU"
    trace = read(line("7", "09:00:00", "Unknown", "", state="RUNNING") + "|00:00:00", head=head)
    assert not trace.table("samples").num_rows
    assert not any("still ran" in said for said in trace.meta["not_measured"])


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(1, 50),
        st.one_of(st.none(), st.integers(0, 30)),
        st.one_of(st.none(), st.integers(0, 30)),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_sum_at_once_lies_between_the_largest_and_the_sum(steps: list[Any]) -> None:
    at = np.array([one[0] for one in steps], dtype=np.int64)
    values = np.array([float(one[1]) for one in steps])
    first, last = (
        np.array([MISSING_NS if one[k] is None else one[k] * S for one in steps], dtype=np.int64)
        for k in (2, 3)
    )
    made = together(3, at, values, first, last)
    for job in range(3):
        mine = [one for one in steps if one[0] == job]
        if not mine:
            assert np.isnan(made[job])
            continue
        sizes = [one[1] for one in mine]
        assert max(sizes) <= made[job] <= sum(sizes)
        known = [one for one in mine if None not in one[2:] and one[3] > one[2] + 4]
        for moment in range(31):  # whatever surely ran at a moment is in it
            held = sum(one[1] for one in known if one[2] <= moment < one[3] - 2)
            assert made[job] >= held


@pytest.mark.parametrize(
    ("second", "value", "kind"),
    [("00:20:00", 3 * GIB, "estimate"), ("00:30:00", 5 * GIB, "upper_bound")],
)
def test_lengths_let_suppose_that_steps_took_turns_where_times_are_not_listed(
    second: str, value: int, kind: str
) -> None:
    head = "JobID|State|Elapsed|MaxRSS|NTasks"
    lines = (
        "7|COMPLETED|00:30:00||",
        "7.batch|COMPLETED|00:30:00|10M|1",
        "7.0|COMPLETED|00:10:00|3G|1",
        f"7.1|COMPLETED|{second}|2G|1",
    )
    found = peak(*lines, head=head)
    assert found[1] == kind and found[0] == pytest.approx(value, rel=0.01)


LENGTHS = "JobID|State|Elapsed|MaxRSS|NTasks"


def lengths(*steps: tuple[str, str, str, int], job: str = "00:10:00") -> tuple[Any, Any, Any]:
    lines = [f"7|COMPLETED|{job}||", f"7.batch|COMPLETED|{job}|100M|1"]
    return peak(*lines, *(f"7.{n}|COMPLETED|{s}|{rss}|{t}" for n, s, rss, t in steps), head=LENGTHS)


def test_that_steps_took_turns_is_supposed_only_and_what_all_held_is_told() -> None:
    # The script may work alone for one half of the time, and two steps at once for the other.
    found = lengths(("0", "00:05:00", "4096M", 1), ("1", "00:05:00", "4096M", 1))
    bound = {"peak_memory_upper_bound_bytes": 8 * GIB + 100 * MIB}
    assert found == (4 * GIB, "estimate", bound)
    # One step alone, or what all together hold is small: nothing else can be.
    assert lengths(("0", "00:10:00", "4096M", 1)) == (4 * GIB, "sampled", {})
    small = lengths(("0", "00:05:00", "50M", 1), ("1", "00:05:00", "50M", 1))
    assert small == (100 * MIB, "sampled", {})


def test_bounds_hold_whether_or_not_steps_took_turns() -> None:
    # Three tasks of one step: the peak is a lower bound, and the upper one is that of all steps.
    value, kind, samples = lengths(("0", "00:05:00", "2G", 3), ("1", "00:05:00", "1G", 1))
    assert (value, kind) == (2 * GIB, "lower_bound")
    assert samples == {"peak_memory_upper_bound_bytes": 7 * GIB + 100 * MIB}


@pytest.mark.parametrize("most", ["1000000-00:00:00", "100000000000-00:00:00"])
def test_absurd_lengths_are_no_times(most: str) -> None:
    found = lengths(("0", most, "500M", 1), ("1", "00:00:01", "4G", 1), job=most)
    assert found[1] in ("estimate", "upper_bound")
    when = "2025-02-03T09:00:00"
    for column, state in (("Start", "COMPLETED"), ("End", "COMPLETED"), ("Start", "RUNNING")):
        head = f"JobID|State|{column}|Elapsed|TotalCPU"
        trace = read(f"7|{state}|{when}|{most}|00:00:05", head=head)
        (row,) = trace.table("tasks").to_pylist()
        assert [row["started_ns"], row["ended_ns"]].count(None) == 1
        assert trace.table("samples")["at_ns"].null_count == len(trace.table("samples"))
