"""Slurm: which run of a job its steps belong to, and what rows of waiting arrays stand for."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from rotameter.adapters.importers.slurm import Importer
from rotameter.testing import import_bytes

HEAD = "JobID|State|Submit|Start|End|Elapsed|TotalCPU|AllocCPUS|MaxRSS"
FIRST = (
    "5|PREEMPTED|2025-03-01T09:00:00|2025-03-01T09:00:10|2025-03-01T09:10:00|00:09:50|00:01:00|1|"
)
AGAIN = (
    "5|COMPLETED|2025-03-01T09:10:00|2025-03-01T09:20:00|2025-03-01T09:50:00|00:30:00|00:02:00|1|"
)
STEP_1 = (
    "5.batch|CANCELLED|2025-03-01T09:00:10|2025-03-01T09:00:10|2025-03-01T09:10:01|00:09:51|"
    "00:01:00|1|1G"
)
STEP_2 = (
    "5.batch|COMPLETED|2025-03-01T09:20:00|2025-03-01T09:20:00|2025-03-01T09:50:00|00:30:00|"
    "00:02:00|1|3G"
)
UNCLEAR = "which run of its job they belong to is not clear of "


def read(*lines: str, head: str = HEAD) -> tuple[list[dict[str, Any]], list[str]]:
    trace = import_bytes(Importer, {"jobs.psv": "\n".join([head, *lines, ""]).encode()})
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace.table("tasks").to_pylist(), trace.warnings


@pytest.mark.parametrize("order", list(permutations([FIRST, AGAIN, STEP_1, STEP_2])))
def test_a_step_is_of_the_run_whose_time_holds_its_own_in_any_order(order: tuple[str, ...]) -> None:
    rows, said = read(*order)
    peaks = {row["attempt"]: row["peak_memory_bytes"] for row in rows}
    assert peaks == {1: 1 << 30, 2: 3 << 30}
    assert not any(text.startswith(UNCLEAR) for text in said)


@pytest.mark.parametrize("order", [(FIRST, AGAIN, STEP_2), (STEP_2, AGAIN, FIRST)])
def test_a_run_whose_step_is_not_listed_has_no_peak(order: tuple[str, ...]) -> None:
    peaks = {row["attempt"]: row["peak_memory_bytes"] for row in read(*order)[0]}
    assert peaks == {1: None, 2: 3 << 30}


def test_a_step_of_a_run_that_is_not_over() -> None:
    runs = AGAIN.replace("COMPLETED", "RUNNING").replace("2025-03-01T09:50:00", "Unknown")
    rows, _ = read(FIRST, runs, STEP_1, STEP_2)
    assert {row["attempt"]: row["peak_memory_bytes"] for row in rows} == {1: 1 << 30, 2: 3 << 30}


def test_a_step_that_fits_no_run_is_said() -> None:
    rows, said = read(FIRST, AGAIN, STEP_1, STEP_2.replace("T09", "T11"))
    assert {row["attempt"]: row["peak_memory_bytes"] for row in rows} == {1: 1 << 30, 2: 3 << 30}
    assert f"{UNCLEAR}1 step, such as of 5: given to the run listed before" in said


def test_steps_without_times_after_both_runs_are_said_and_those_of_each_are_not() -> None:
    head = "JobID|State|Submit|Elapsed|MaxRSS"
    first, again = (
        "5|PREEMPTED|2025-03-01T09:00:00|00:09:50|",
        "5|COMPLETED|2025-03-01T09:10:00|00:30:00|",
    )
    one, two = "5.batch|CANCELLED||00:09:50|1G", "5.batch|COMPLETED||00:30:00|3G"
    assert (
        f"{UNCLEAR}2 steps, such as of 5: given to the run listed before"
        in (read(first, again, one, two, head=head)[1])
    )
    rows, said = read(first, one, again, two, head=head)
    assert {row["peak_memory_bytes"] for row in rows} == {1 << 30, 3 << 30}
    assert not any(text.startswith(UNCLEAR) for text in said)


WAITS = "|PENDING|2025-03-01T09:00:00|Unknown|Unknown|00:00:00|00:00:00|0|"


def test_a_row_of_a_waiting_array_says_how_many_tasks_it_stands_for() -> None:
    done = AGAIN.replace("5|", "8_2|", 1)
    rows, said = read(done, f"8_[2-6,9%3]{WAITS}")
    assert len(rows) == 2
    assert "8_[2-6,9%3] is one row and counted as one: it stands for 5 tasks that wait" in said
    _, said = read(f"8_[1-9:2]{WAITS}", f"9_[1-3]{WAITS}")
    assert (
        "2 waiting arrays, such as 8_[1-9:2], are one row each and counted as one: they stand for "
        "8 tasks that wait"
    ) in said


def test_rows_of_arrays_that_stand_for_themselves_say_nothing() -> None:
    for lines in ([f"8_[4]{WAITS}"], [f"8_4{WAITS}"], [f"8{WAITS}"]):
        assert not any("stand" in text for text in read(*lines)[1])
