"""Slurm: records of one job that changed its size, and jobs that share but their number."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.adapters.importers.slurm import Importer
from rotameter.testing import import_bytes

HEAD = "JobID|JobName|Partition|User|State|Submit|Start|End|Elapsed|TotalCPU|AllocCPUS|NNodes"
GIB = 1 << 30


def line(
    state: str,
    begin: str,
    end: str,
    wall: str,
    cpu: str = "00:10:00",
    cpus: int = 4,
    nodes: int = 2,
) -> str:
    day = "2025-02-03T"
    ended = day + end if end[0].isdigit() else end
    return f"9|r|c|ann|{state}|{day}{begin}|{day}{begin}|{ended}|{wall}|{cpu}|{cpus}|{nodes}"


def read(
    *lines: str, head: str = HEAD, **files: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    given = {"jobs.psv": list(lines), **files}
    data = {name: "\n".join([head, *rows, ""]).encode() for name, rows in given.items()}
    trace = import_bytes(Importer, data)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace.table("tasks").to_pylist(), list(trace.warnings)


# -- jobs that changed their size ------------------------------------------------------------------

BEFORE = line("RESIZING", "09:00:00", "09:10:00", "00:10:00")
AFTER = line("COMPLETED", "09:10:00", "09:30:00", "00:20:00", "00:20:00", 1, 1)


@pytest.mark.parametrize("lines", [(BEFORE, AFTER), (AFTER, BEFORE)])
def test_a_resized_job_is_one_run(lines: tuple[str, ...]) -> None:
    (row,), said = read(*lines)
    assert (row["task_id"], row["attempt"], row["outcome"], row["error"]) == ("9", 1, "ok", None)
    assert row["ended_ns"] - row["started_ns"] == 1800 * 10**9
    assert row["submitted_ns"] == row["started_ns"]
    assert (row["wall_s"], row["cpu_s"]) == (1800, 1800)
    assert row["granted_cores"] == pytest.approx((4 * 600 + 1 * 1200) / 1800)
    assert row["granted_nodes"] == 2
    assert any(text.startswith("1 job changed size while running, such as 9") for text in said)
    assert not any("differ" in text for text in said)


@pytest.mark.parametrize(
    ("one", "two"), [("00:05:00", ""), ("", "00:05:00"), ("00:02:00", "00:03:00")]
)
def test_a_suspension_of_one_size_is_one_of_the_whole(one: str, two: str) -> None:
    day = "2025-02-03T"
    (row,), said = read(
        f"9|r|RESIZING|{day}09:00:00|{day}09:00:00|{day}09:10:00|00:10:00|{one}",
        f"9|r|COMPLETED|{day}09:10:00|{day}09:10:00|{day}09:35:00|00:20:00|{two}",
        head="JobID|JobName|State|Submit|Start|End|Elapsed|Suspended",
    )
    assert row["wall_s"] == 1800  # of 35 minutes
    assert not any("differ" in text for text in said)


def test_a_job_resized_twice_that_still_runs() -> None:
    last = line("RUNNING", "09:10:00", "Unknown", "00:05:00", "00:00:00", 1, 1)
    first = line("RESIZING", "08:00:00", "09:00:00", "01:00:00")
    (row,), _ = read(first, BEFORE, last)
    assert (row["outcome"], row["ended_ns"], row["wall_s"]) == ("running", None, 4500)


def test_a_record_of_a_change_alone_is_over_and_how_the_job_ended_is_unknown() -> None:
    (row,), _ = read(BEFORE)
    assert (row["outcome"], row["error"]) == ("unknown", "RESIZING")
    assert row["ended_ns"] - row["started_ns"] == 600 * 10**9 and row["cpu_s"] == 600


def test_a_job_about_to_change_its_size_runs() -> None:
    (row,), _ = read(line("RESIZING", "09:00:00", "Unknown", "00:10:00"))
    assert (row["outcome"], row["error"], row["ended_ns"]) == ("running", "RESIZING", None)


def test_steps_of_all_sizes_are_of_the_one_run() -> None:
    head = f"{HEAD}|MaxRSS"
    step = BEFORE.replace("9|r", "9.0|r", 1).replace("RESIZING", "COMPLETED")
    late = AFTER.replace("9|r", "9.1|r", 1)
    (row,), _ = read(f"{BEFORE}|", f"{step}|3G", f"{AFTER}|", f"{late}|1G", head=head)
    assert row["peak_memory_bytes"] == 3 * GIB


def test_what_one_part_does_not_tell_is_unknown_of_the_whole() -> None:
    blank = BEFORE.replace("00:10:00|00:10:00|4|2", "|||2")
    (row,), _ = read(blank, AFTER)
    assert row["wall_s"] == 1800  # its Start and End tell it
    assert (row["cpu_s"], row["granted_cores"]) == (None, None)


# -- the same number -------------------------------------------------------------------------------


def job(name: str, queue: str, user: str, day: int, state: str = "COMPLETED") -> str:
    at = f"2025-02-0{day}T09"
    return f"5|{name}|{queue}|{user}|{state}|{at}:00:00|{at}:01:00|{at}:02:00|00:01:00|00:00:10|1|1"


def ids(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return sorted((row["task_id"], row["attempt"], row["group"]) for row in rows)


def test_two_clusters_in_two_files_are_two_tasks() -> None:
    rows, said = read(job("a", "p", "", 3), more=[job("b", "q", "", 4, "FAILED")])
    assert ids(rows) == [("5", 1, "a"), ("5#2", 1, "b")]
    assert any(text.startswith("1 job number stood for jobs of different users") for text in said)


def test_another_user_is_another_job_and_each_has_its_own_attempts() -> None:
    rows, _ = read(
        job("a", "p", "ann", 3, "NODE_FAIL"), job("a", "p", "bob", 4), job("a", "p", "ann", 5)
    )
    assert ids(rows) == [("5", 1, "a"), ("5", 2, "a"), ("5#2", 1, "a")]
    assert {row["user"] for row in rows if row["task_id"] == "5"} == {"ann"}


FIXED = """\
       JobID    JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
{:12} {:>10} {:>10}        acc          4  COMPLETED      0:0
"""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("cut", "several"),
    [(("a_long_jo+", "long_part+"), False), (("another_j+", "other_par+"), True)],
)
def test_names_that_sacct_cut_short_are_the_same(
    cut: tuple[str, str], several: bool, turned: bool
) -> None:
    whole = (
        "JobID|User|JobName|Partition|Account|State|Start|End|Elapsed\n"
        "7|ann|a_long_job_name|long_partition|acc|COMPLETED|2025-01-01T10:00:00|"
        "2025-01-01T11:00:00|01:00:00\n"
    )
    files = [whole.encode(), FIXED.format("7", *cut).encode()]
    named = dict(zip("ab", reversed(files) if turned else files, strict=True))
    trace = import_bytes(Importer, {f"{name}.txt": text for name, text in named.items()})
    ids = ["7", "7#2"] if several else ["7"]
    assert sorted(trace.table("tasks")["task_id"].to_pylist()) == ids
    said = [text for text in trace.warnings if "stood for jobs" in text]
    # Without Submit, it is not sure.
    assert [("renamed and moved" in text) for text in said] == [True] * several


@pytest.mark.parametrize(
    ("told", "runs"),
    [
        ("COMPLETED|", 2), ("COMPLETED|00:02:00", 2), ("NODE_FAIL|00:01:00", 2),
        ("COMPLETED|00:03:00", 3), ("FAILED|00:01:00", 3), ("CANCELLED|00:00:00", 3),
    ],
)  # fmt: skip
def test_a_listing_without_times_tells_of_the_run_that_ended_so(told: str, runs: int) -> None:
    whole = (
        "JobID|JobName|State|Start|End|Elapsed\n"
        "7|a|NODE_FAIL|2025-01-01T10:00:00|2025-01-01T10:01:00|00:01:00\n"
        "7|a|COMPLETED|2025-01-01T11:00:00|2025-01-01T11:02:00|00:02:00\n"
    )
    other = f"JobID|JobName|State|Elapsed|AllocCPUS\n7|a|{told}|4\n"
    trace = import_bytes(Importer, {"a.psv": whole.encode(), "b.psv": other.encode()})
    rows = trace.table("tasks").to_pylist()
    assert len(rows) == runs
    assert [row["granted_cores"] for row in rows].count(4) == (not told.startswith("CANCELLED"))


@pytest.mark.parametrize(
    ("one", "two"),
    [(("a", "p", "ann"), ("a", "q", "ann")), (("a", "p", ""), ("b", "p", "")),
     (("a", "p", "ann"), ("a", "p", ""))],
)  # fmt: skip
def test_a_requeued_job_stays_one(one: tuple[str, ...], two: tuple[str, ...]) -> None:
    rows, said = read(job(*one, 3, "NODE_FAIL"), job(*two, 4))  # type: ignore[arg-type]
    assert [(row["task_id"], row["attempt"]) for row in rows] == [("5", 1), ("5", 2)]
    assert not any("stood for" in text for text in said)


def test_one_submission_is_one_job_whatever_it_is_called() -> None:
    rows, _ = read(job("a", "p", "", 3), job("b", "q", "", 3))
    assert [(row["task_id"], row["attempt"]) for row in rows] == [("5", 1)]


def test_steps_go_with_their_own_job() -> None:
    head = f"{HEAD}|MaxRSS"
    files = {
        "more": [f"{job('b', 'q', '', 4)}|", f"{job('s', '', '', 4).replace('5|', '5.0|', 1)}|2G"]
    }
    step = job("s", "", "", 3).replace("5|", "5.0|", 1)
    rows, _ = read(f"{job('a', 'p', '', 3)}|", f"{step}|1G", head=head, **files)
    assert {row["task_id"]: row["peak_memory_bytes"] for row in rows} == {
        "5": GIB,
        "5#2": 2 * GIB,
    }
