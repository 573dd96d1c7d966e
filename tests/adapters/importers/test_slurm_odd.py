"""The Slurm importer says what it could not read and what contradicts itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import rotameter
from rotameter.adapters.importers._slurm_unread import bad_tres, says_nothing
from rotameter.adapters.importers.slurm import Importer
from rotameter.errors import BadInput
from rotameter.testing import import_bytes
from rotameter.values import Head

TIMED = "JobID|State|Start|End|Elapsed"
NODES = "JobID|State|Elapsed|NNodes|NTasks|MaxRSS"


def _read(*lines: str, **more: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    trace = import_bytes(Importer, {"jobs.txt": "\n".join([*lines, ""]).encode(), **more})
    return trace.table("tasks").to_pylist(), list(trace.warnings)


def _about(warnings: list[str], *words: str) -> list[str]:
    return [said for said in warnings if any(word in said for word in words)]


# -- values that cannot be read --------------------------------------------------------------------


def test_unreadable_values_are_counted_by_column() -> None:
    tasks, warnings = _read(
        "JobID|State|Elapsed|Start|End|AllocCPUS|TotalCPU",
        "1|COMPLETED|01:00:00|20:35:55|21:35:55|1|00:30:00",
        "2|COMPLETED|01:00:00|Ystday 10:00|Ystday 11:00|1|00:30:00",
        "3|COMPLETED|1-00:00:00|01/02/2026 10:00|02/02/2026 10:00|1|12:00:00",
        "4|COMPLETED|garbage|2026-01-01T00:00:00|2026-01-01T01:00:00|abc|xx",
    )
    assert _about(warnings, "cannot be read") == [
        "Start cannot be read in 3 rows, such as '20:35:55'",
        "End cannot be read in 3 rows, such as '21:35:55'",
        "Elapsed cannot be read in 1 row, such as 'garbage'",
        "TotalCPU cannot be read in 1 row, such as 'xx'",
        "AllocCPUS cannot be read in 1 row, such as 'abc'",
    ]
    assert [task["started_ns"] for task in tasks] == [None, None, None, 0]
    assert tasks[3]["granted_cores"] is None and tasks[3]["cpu_s"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Submit", "2025-13-45T99:00:00"), ("Eligible", "Sat"), ("ElapsedRaw", "1e999"),
        ("UserCPU", "1h"), ("Timelimit", "forever"), ("ExitCode", "a:b"), ("ReqMem", "4 apples"),
        ("MaxRSS", "big"), ("NTasks", "two"), ("NNodes", "n1"), ("ReqCPUS", "-7"),
        ("AllocTRES", "cpu=abc,mem=4G,node=1"), ("ReqTRES", "something"), ("Suspended", "x"),
        ("ConsumedEnergy", "lots"), ("AveDiskRead", "?B"), ("Restarts", "many"),
    ],
)  # fmt: skip
def test_every_column_that_is_read_is_looked_at(name: str, value: str) -> None:
    header = f"JobID|State|Elapsed|{name}"
    _, warnings = _read(header, f"1|COMPLETED|00:01:00|{value}", "2|COMPLETED|00:01:00|")
    assert _about(warnings, "read") == [f"{name} cannot be read in 1 row, such as '{value}'"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Start", ["Unknown", "None", "", "N/A", "1970-01-01T00:00:00", "0"]),
        ("Timelimit", ["UNLIMITED", "Partition_Limit", "INFINITE", "", "NOT_SET"]),
        ("TotalCPU", ["INVALID", ""]),
        ("ReqMem", ["0", "0n", "0c", "0M", "?", ""]),
        ("MaxRSS", ["0", "", "16.00E", "18446744073709551614"]),
        ("ConsumedEnergy", ["0", "", "18446744073709551614", "4294967294", "-2"]),
        ("AllocTRES", ["", "billing=1", "gres/gpu=2", "cpu=0,mem=0,node=0"]),
        ("TRESUsageInTot", ["cpu=00:00:01,mem=4M", ""]),
        ("AllocCPUS", ["0", "Unknown"]),
    ],
)
def test_words_for_no_value_are_silent(name: str, values: list[str]) -> None:
    rows = [f"{i}|COMPLETED|00:01:00|{value}" for i, value in enumerate(values, 1)]
    _, warnings = _read(f"JobID|State|Elapsed|{name}", *rows)
    assert not _about(warnings, "read")


def test_unreadable_values_of_a_large_listing_and_several_files() -> None:
    rows = [f"{i}|COMPLETED|{i // 60 % 60:02}:{i % 60:02}:00" for i in range(1, 3000)]
    rows[7] = "8|COMPLETED|5 hours"
    _, warnings = _read(
        "JobID|State|Elapsed", *rows, **{"b.txt": b"JobID|State|Elapsed\n9000|FAILED|soon\n"}
    )
    assert len(_about(warnings, "Elapsed cannot be read in 2 rows, such as")) == 1


def test_what_is_shown_is_clean_and_short() -> None:
    _, warnings = _read(
        "JobID|State|Elapsed|Start", f"1|COMPLETED|00:01:00|https://ann:pw@h/{'x' * 90}"
    )
    (said,) = _about(warnings, "cannot be read")
    assert "pw" not in said and len(said) < 120


def test_marks() -> None:
    assert says_nothing(" n/a ") and not says_nothing("16.5K")
    assert bad_tres("mem=x") and not bad_tres("mem=0,license=y")


# -- clock changes ---------------------------------------------------------------------------------


def test_clock_change() -> None:
    tasks, warnings = _read(
        TIMED,
        "1|COMPLETED|2026-10-24T20:00:00|2026-10-24T21:00:00|01:00:00",
        "2|COMPLETED|2026-10-25T02:45:00|2026-10-25T02:15:00|00:30:00",
        "3|COMPLETED|2026-10-25T02:10:00|2026-10-25T02:40:00|01:30:00",
        "4|COMPLETED|2026-03-29T01:30:00|2026-03-29T03:30:00|01:00:00",
    )
    lasted = [task["ended_ns"] - task["started_ns"] for task in tasks]
    assert lasted == [task["wall_s"] * 10**9 for task in tasks]
    (said,) = _about(warnings, "Elapsed")
    assert "Start + Elapsed in 3 jobs, such as 2" in said
    assert not _about(warnings, "left out", "differ")


@pytest.mark.parametrize(
    "day", ["2025-02-10", "2025-07-06", "2025-12-25", "2025-10-22", "2025-03-26"]
)
def test_an_hour_off_where_no_clock_is_changed_is_no_clock_change(day: str) -> None:
    tasks, warnings = _read(TIMED, f"1|COMPLETED|{day}T10:00:00|{day}T12:00:00|01:00:00")
    assert tasks[0]["ended_ns"] - tasks[0]["started_ns"] == 7200 * 10**9
    assert not _about(warnings, "clocks") and len(_about(warnings, "differ in 1 job,")) == 1


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2025-03-09T01:30:00", "2025-03-09T04:30:00"),  # New York
        ("2025-04-05T23:30:00", "2025-04-06T00:30:00"),  # Santiago
        ("2025-09-28T01:00:00", "2025-09-28T04:00:00"),  # Auckland
        ("2025-10-30T23:30:00", "2025-10-31T00:30:00"),  # Cairo
        ("2025-11-02T00:30:00", "2025-11-02T01:30:00"),  # New York
    ],
)
def test_an_hour_off_where_clocks_are_changed_somewhere(start: str, end: str) -> None:
    tasks, warnings = _read(TIMED, f"1|COMPLETED|{start}|{end}|02:00:00")
    assert tasks[0]["ended_ns"] - tasks[0]["started_ns"] == 7200 * 10**9
    assert len(_about(warnings, "as where the clocks changed")) == 1


@pytest.mark.parametrize(
    ("start", "end", "zone"),
    [
        ("2026-03-08T01:30:00", "2026-03-08T04:30:00", "-08:00"),  # Los Angeles
        ("2026-11-01T00:30:00", "2026-11-01T01:30:00", "-08:00"),
        ("2025-03-09T01:30:00", "2025-03-09T04:30:00", "-10:00"),
        ("2026-10-04T01:30:00", "2026-10-04T04:30:00", "+10:00"),  # Sydney
        ("2025-04-05T23:30:00", "2025-04-06T00:30:00", "+12:00"),
    ],
)
def test_clocks_are_changed_in_a_local_night_whatever_the_zone(
    tmp_path: Path, start: str, end: str, zone: str
) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(f"{TIMED}\n1|COMPLETED|{start}|{end}|02:00:00\n")
    trace = rotameter.open(path, utc_offset=zone)
    (task,) = trace.table("tasks").to_pylist()
    assert task["ended_ns"] - task["started_ns"] == 7200 * 10**9
    assert len(_about(list(trace.warnings), "as where the clocks changed")) == 1


def test_durations_that_differ_are_told_once() -> None:
    at = "2025-02-10T"
    long, short = f"|COMPLETED|{at}10:00:00|{at}10:10:00|", f"|COMPLETED|{at}10:00:00|{at}12:00:00|"
    _, warnings = _read(TIMED, f"1{long}05:00:00", f"2{short}00:10:00", f"3{long}00:10:00")
    assert len(_about(warnings, "differ in 2 jobs, such as 1")) == 1
    assert not _about(warnings, "longer than")
    # A job that only its steps tell of has none of its own to differ.
    _, warnings = _read(TIMED, f"1.0{long}05:00:00", f"2{long}05:00:00")
    assert _about(warnings, "longer than") == [
        "1 attempt: a duration longer than from its start to its end"
    ]


def test_an_end_before_start_that_no_clock_explains_is_said_so() -> None:
    tasks, warnings = _read(TIMED, "1|COMPLETED|2025-07-01T10:00:00|2025-07-01T09:50:00|00:20:00")
    assert tasks[0]["ended_ns"] - tasks[0]["started_ns"] == 1200 * 10**9
    assert len(_about(warnings, "it lay before Start")) == 1 and not _about(warnings, "clocks")


def test_a_suspended_job_over_a_change_of_the_clocks() -> None:
    tasks, warnings = _read(
        f"{TIMED}|Suspended",
        "1|COMPLETED|2025-03-30T01:00:00|2025-03-30T05:00:00|01:00:00|02:00:00",
        "2|COMPLETED|2025-03-30T01:00:00|2025-03-30T03:00:00|01:00:00|00:20:00",
    )
    lasted = [(task["ended_ns"] - task["started_ns"]) // 10**9 for task in tasks]
    assert lasted == [3 * 3600, 2 * 3600]
    assert len(_about(warnings, "in 1 job, such as 1: it lay an hour off")) == 1
    assert len(_about(warnings, "differ in 1 job, such as 2")) == 1


def test_times_with_zones_are_not_touched() -> None:
    tasks, warnings = _read(
        TIMED, "1|COMPLETED|2026-03-29T01:30:00+0100|2026-03-29T03:30:00+0100|01:00:00"
    )
    assert tasks[0]["ended_ns"] - tasks[0]["started_ns"] == 7200 * 10**9
    assert not _about(warnings, "Start + Elapsed") and len(_about(warnings, "differ")) == 1


def test_end_before_start_without_elapsed_is_left_out() -> None:
    tasks, warnings = _read(TIMED, "1|COMPLETED|2026-10-25T02:45:00|2026-10-25T02:15:00|")
    assert tasks[0]["ended_ns"] is None and len(_about(warnings, "left out")) == 1


# -- contradictions --------------------------------------------------------------------------------


def test_elapsed_against_the_times() -> None:
    tasks, warnings = _read(
        TIMED,
        "1|COMPLETED|2026-01-01T00:00:10|2026-01-01T01:00:10|00:10:00",
        "2|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|00:59:58",
        "3|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|00:59:25",
        "4|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:05|00:00:04",
        "5|RUNNING|2026-01-01T00:00:00|Unknown|00:10:00",
        "6|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:10:00|05:00:00",
    )
    assert tasks[0]["wall_s"] == 600
    (said,) = _about(warnings, "differ")
    assert said.startswith(
        "Elapsed and End - Start differ in 2 jobs, such as 1 (600 s and 3,600 s)"
    )


@pytest.mark.parametrize(("suspended", "differs"), [("00:50:00", 0), ("00:20:00", 1), ("", 1)])
def test_suspended_time_explains_it(suspended: str, differs: int) -> None:
    _, warnings = _read(
        f"{TIMED}|Suspended",
        f"1|COMPLETED|2026-01-01T00:00:00|2026-01-01T01:00:00|00:10:00|{suspended}",
    )
    assert len(_about(warnings, "differ")) == differs


def test_an_hour_suspended_is_no_clock_change() -> None:
    tasks, warnings = _read(
        f"{TIMED}|Suspended",
        "1|COMPLETED|2026-01-01T00:00:00|2026-01-01T02:00:00|01:00:00|01:00:00",
    )
    assert tasks[0]["ended_ns"] - tasks[0]["started_ns"] == 7200 * 10**9
    assert not _about(warnings, "Elapsed")


def test_suspended_in_json() -> None:
    times = {"start": 1738396800, "end": 1738400400, "elapsed": 600, "suspended": 3000}
    job = {"job_id": 5, "state": {"current": ["COMPLETED"]}, "time": times}
    trace = import_bytes(Importer, {"jobs.json": json.dumps({"jobs": [job]}).encode()})
    assert not _about(list(trace.warnings), "Elapsed", "read")


# -- several nodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (["1|COMPLETED|01:00:00|4||", "1.batch|COMPLETED|01:00:00|1|1|1000000K"], "lower_bound"),
        (["1|COMPLETED|01:00:00|4||", "1.0|COMPLETED|01:00:00|1||1000000K"], "lower_bound"),
        (["1|COMPLETED|01:00:00|1||", "1.batch|COMPLETED|01:00:00|1|1|1000000K"], "sampled"),
        (["1|COMPLETED|01:00:00|4||", "1.batch|COMPLETED|01:00:00|1|1|0"], None),
    ],
)
def test_a_peak_of_one_node_of_several(rows: list[str], kind: str | None) -> None:
    tasks, _ = _read(NODES, *rows)
    assert tasks[0]["peak_memory_kind"] == kind


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("AllocTRES", "cpu=8,node=2", "lower_bound"),
        ("NodeList", "n[1-4]", "lower_bound"),
        ("NodeList", "n1,m2", "lower_bound"),
        ("NodeList", "n1", "sampled"),
    ],
)
def test_several_nodes_by_other_columns(name: str, value: str, kind: str) -> None:
    tasks, _ = _read(
        f"JobID|State|Elapsed|MaxRSS|{name}",
        f"1|COMPLETED|01:00:00||{value}",
        "1.batch|COMPLETED|01:00:00|1000000K|",
    )
    assert tasks[0]["peak_memory_kind"] == kind


# -- no jobs ---------------------------------------------------------------------------------------


def test_a_header_alone() -> None:
    tasks, warnings = _read(TIMED)
    (said,) = warnings
    assert not tasks and said.startswith("there are no jobs in ") and said.endswith("jobs.txt")


def test_headers_alone_among_files() -> None:
    head = f"{TIMED}\n".encode()
    good = b"JobID|State|Elapsed\n1|COMPLETED|00:01:00\n"
    trace = import_bytes(Importer, {"a.txt": head, "b.txt": good, "c.txt": head})
    (said,) = _about(list(trace.warnings), "no jobs")
    assert said.startswith("there are no jobs in 2 of 3 files, such as ")
    assert said.endswith("a.txt")


# -- what Slurm itself says went wrong -------------------------------------------------------------

REFUSED = {"description": "Unable to connect", "error_number": 2, "error": "Connection refused"}


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([REFUSED], "Unable to connect (Connection refused)"),
        ([{"error_number": 7000}], "error 7000"),
        (["slurmdbd is down", "slurmdbd is down"], "slurmdbd is down"),
    ],
)
@pytest.mark.parametrize("jobs", [{"jobs": []}, {"jobs": None}, {}])
def test_an_answer_with_an_error_and_no_jobs_is_refused(
    errors: list[Any], said: str, jobs: dict[str, Any]
) -> None:
    data = json.dumps({**jobs, "meta": {"Slurm": {}}, "errors": errors}).encode()
    assert Importer().sniff(Head("j.json", data)) >= 0.9
    with pytest.raises(BadInput, match=re.escape(f"could not give them: {said}")) as raised:
        import_bytes(Importer, {"j.json": data})
    assert str(raised.value).endswith(said) and raised.value.hint


def test_an_error_beside_jobs_is_said_and_the_jobs_are_kept() -> None:
    jobs = [{"job_id": 7, "state": {"current": ["COMPLETED"]}}]
    text = json.dumps({"jobs": jobs, "meta": {"slurm": {}}, "errors": [REFUSED]})
    trace = import_bytes(Importer, {"j.json": text.encode()})
    assert trace.table("tasks")["task_id"].to_pylist() == ["7"]
    (said,) = _about(trace.warnings, "Slurm says")
    assert said.endswith("j.json that not all went well: Unable to connect (Connection refused)")


def test_one_refused_answer_among_files(tmp_path: Any) -> None:
    answer = {"jobs": [], "meta": {"slurm": {}}, "errors": [REFUSED]}
    (tmp_path / "a.json").write_text(json.dumps(answer))
    (tmp_path / "b.psv").write_text("JobID|State|Elapsed\n7|COMPLETED|00:01:40\n")
    trace = rotameter.open(tmp_path)
    assert trace.table("tasks")["wall_s"].to_pylist() == [100.0]
    assert _about(trace.warnings, "Unable to connect")


def test_counts_and_their_nouns_agree() -> None:
    _, one = _read("JobID|State|Elapsed|ExitCode", "1|COMPLETED|00:01:00")
    _, two = _read("JobID|State|Elapsed|ExitCode", "1|COMPLETED|00:01:00", "2|FAILED|00:01:00")
    assert [said for said in one + two if "fewer fields" in said] == [
        "1 row has fewer fields than the header: the last are unknown",
        "2 rows have fewer fields than the header: the last are unknown",
    ]
    _, mixed = _read(TIMED, "1|COMPLETED|2025-01-01T00:00:00+0000|2025-01-01T00:01:00|00:01:00")
    assert "times with a zone: 1, without: 1: they may be hours apart" in mixed
