"""Which rows of Slurm's listings tell of one run of a job, over days and files."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from rotameter.adapters.importers.slurm import Importer
from rotameter.testing import import_bytes

HEAD = "JobID|State|Submit|Start|End|Elapsed|TotalCPU|AllocCPUS|ReqMem|MaxRSS"
WAITS = "1|PENDING|2025-02-01T08:00:00|Unknown|Unknown|00:00:00|00:00:00|0|4G|"
RUNS = "1|RUNNING|2025-02-01T08:00:00|2025-02-01T20:00:00|Unknown|00:10:00|00:00:00|1|4G|"
OVER = (
    "1|FAILED|2025-02-01T08:00:00|2025-02-01T20:00:00|2025-02-01T21:00:00|01:00:00|00:50:00|1|4G|1G"
)


def tasks(*files: list[str]) -> list[dict[str, Any]]:
    data = {f"d{i}.psv": "\n".join([*lines, ""]).encode() for i, lines in enumerate(files)}
    trace = import_bytes(Importer, data)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace.table("tasks").to_pylist()


def alike(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[c] for c in ("attempt", "outcome", "wall_s", "cpu_s", "granted_cores"))


@pytest.mark.parametrize("order", list(permutations([WAITS, RUNS, OVER])))
def test_what_waited_ran_and_ended_is_one_run(order: tuple[str, ...]) -> None:
    for files in ([[HEAD, *order]], [[HEAD, line] for line in order]):
        (row,) = tasks(*files)
        assert alike(row) == (1, "failed", 3600, 3000, 1)
        assert row["started_ns"] - row["submitted_ns"] == 12 * 3600 * 10**9


@pytest.mark.parametrize("lines", [[WAITS, OVER], [OVER, WAITS], [WAITS, WAITS, OVER]])
def test_many_jobs_that_waited(lines: list[str]) -> None:
    rows = tasks([HEAD, *(f"{job}{line[1:]}" for line in lines for job in range(10, 30))])
    assert [row["attempt"] for row in rows] == [1] * 20
    assert {row["outcome"] for row in rows} == {"failed"}


def test_a_requeued_job_that_waits_again_stays_a_run_of_its_own() -> None:
    again = WAITS.replace("T08", "T22")
    first, second = tasks([HEAD, OVER.replace("FAILED", "NODE_FAIL"), again])
    assert (alike(first)[:2], alike(second)[:2]) == ((1, "worker_lost"), (2, "unknown"))
    # A day later that one has run too.
    late = OVER.replace("T20", "T23").replace("T08", "T22").replace("T21:00", "T23:59")
    rows = tasks([HEAD, OVER.replace("FAILED", "NODE_FAIL"), again], [HEAD, late])
    assert [alike(row)[:2] for row in rows] == [(1, "worker_lost"), (2, "failed")]


def test_a_guess_of_the_start_is_no_start() -> None:
    guess = WAITS.replace("Unknown|Unknown", "2025-02-03T00:00:00|2025-02-03T10:00:00")
    for lines in ([guess, OVER], [OVER, guess]):
        (row,) = tasks([HEAD, *lines])
        assert alike(row) == (1, "failed", 3600, 3000, 1)
        assert row["ended_ns"] - row["started_ns"] == 3600 * 10**9


def test_cancelled_in_the_queue() -> None:
    for start in ("Unknown", "2025-02-01T09:00:00"):
        end = WAITS.replace("PENDING", "CANCELLED by 7")
        end = end.replace("Unknown|Unknown", f"{start}|2025-02-01T09:00:00")
        (row,) = tasks([HEAD, WAITS], [HEAD, end])
        assert (row["attempt"], row["outcome"], row["started_ns"]) == (1, "cancelled", None)


def test_zeros_of_what_waits_do_not_fill_what_a_later_listing_lacks() -> None:
    first = [
        "JobID|State|Submit|Elapsed|TotalCPU|AllocCPUS|ExitCode|ReqMem",
        "1|PENDING|2025-02-01T08:00:00|00:00:00|00:00:00|0|0:0|4G",
    ]
    then = [
        "JobID|State|Submit|Start|End",
        "1|FAILED|2025-02-01T08:00:00|2025-02-01T20:00:00|2025-02-01T21:00:00",
    ]
    for files in ((first, then), (then, first)):
        (row,) = tasks(*files)
        assert alike(row) == (1, "failed", 3600, None, None)
        assert row["exit_code"] is None and row["requested_memory_bytes"] == 4 << 30


@pytest.mark.parametrize(("state", "runs"), [("COMPLETED", 1), ("TIMEOUT", 1), ("NODE_FAIL", 2)])
def test_without_submit_only_what_slurm_takes_back_waits_again(state: str, runs: int) -> None:
    lines = ["1|PENDING|Unknown|00:00:00", f"1|{state}|2025-02-01T20:00:00|01:00:00"]
    assert len(tasks(["JobID|State|Start|Elapsed", *lines])) == runs


@pytest.mark.parametrize(
    ("shown", "done", "names"),
    [
        ("[1-3%2]", (1, 2, 3), {"7_1", "7_2", "7_3"}),
        ("[1,3-5:2]", (1, 3, 5), {"7_1", "7_3", "7_5"}),
        ("[1-3]", (1, 2), {"7_[1-3]", "7_1", "7_2"}),
    ],
)
def test_an_array_that_waited_as_one_row(
    shown: str, done: tuple[int, ...], names: set[str]
) -> None:
    waits = f"7_{shown}{WAITS[1:]}"
    ended = [f"7_{task}{OVER[1:]}" for task in done]
    rows = tasks([HEAD, waits], [HEAD, waits, *ended])
    assert {row["task_id"] for row in rows} == names and len(rows) == len(names)
    assert {row["attempt"] for row in rows} == {1}


def test_a_step_that_ended_goes_before_what_was_seen_of_it_while_it_ran() -> None:
    steps = [
        "1.batch|RUNNING|2025-02-01T20:00:00|2025-02-01T20:00:00|Unknown|00:10:00|00:00:00|1||1M",
        OVER.replace("1|FAILED|2025-02-01T08", "1.batch|FAILED|2025-02-01T20").replace("4G", ""),
    ]
    for order in (steps, steps[::-1]):
        (row,) = tasks([HEAD, OVER.removesuffix("1G"), order[0]], [HEAD, order[1]])
        assert row["peak_memory_bytes"] == 1 << 30
