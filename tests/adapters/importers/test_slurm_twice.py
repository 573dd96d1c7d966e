"""Listings of several clusters, and listings that tell different things of the same jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rotameter.adapters.importers.slurm import Importer
from rotameter.testing import import_bytes


def read(*files: str) -> Any:
    trace = import_bytes(Importer, {f"d{i}.txt": text.encode() for i, text in enumerate(files)})
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace


def tasks(*files: str) -> list[dict[str, Any]]:
    return read(*files).table("tasks").to_pylist()


def _job(number: int, cluster: str) -> dict[str, Any]:
    time = {"start": 1_700_000_000, "end": 1_700_000_600, "elapsed": 600}
    used = {"max": [{"type": "mem", "name": "", "count": number * 2**20}]}
    step = {
        "step": {"id": f"{number}.batch", "name": "batch"},
        "time": time,
        "state": ["COMPLETED"],
        "tasks": {"count": 1},
        "tres": {"requested": used},
    }
    return {
        "job_id": number,
        "cluster": cluster,
        "name": f"on_{cluster}",
        "state": {"current": ["COMPLETED"]},
        "time": time | {"submission": 1_699_999_000},
        "tres": {"allocated": [{"type": "cpu", "count": 1}]},
        "steps": [step],
    }


@pytest.mark.parametrize("second", [7, 8])
@pytest.mark.parametrize("apart", [True, False])
def test_steps_in_json_are_of_the_cluster_of_their_job(second: int, apart: bool) -> None:
    jobs = [_job(7, "east"), _job(second, "west")]
    lists = [[job] for job in jobs] if apart else [jobs]
    rows = tasks(*(json.dumps({"meta": {"slurm": {}}, "jobs": one}) for one in lists))
    assert [(row["task_id"], row["group"], row["peak_memory_bytes"]) for row in rows] == [
        ("east:7", "on_east", 7 * 2**20),
        (f"west:{second}", "on_west", second * 2**20),
    ]
    assert sum(row["wall_s"] for row in rows) == 1200


WHOLE = """\
JobID|JobName|User|State|Submit|Start|End|Elapsed|ReqMem|MaxRSS
5|map|eve|COMPLETED|2025-03-03T07:00:00|2025-03-03T07:05:00|2025-03-03T07:25:00|00:20:00|2G|
5.batch|batch||COMPLETED|2025-03-03T07:05:00|2025-03-03T07:05:00|2025-03-03T07:25:00|00:20:00||64M
6|fold|eve|TIMEOUT|2025-03-03T07:00:00|2025-03-03T08:00:00|2025-03-03T08:30:00|00:30:00|2G|
"""
DEFAULT = """\
JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
5                   map       long        lab          2 {}      0:0
5.batch           batch                   lab          2 {}      0:0
6                  fold       long        lab          1 {}      0:0
"""
ENDED = DEFAULT.format(" COMPLETED", " COMPLETED", "   TIMEOUT")
SHORT = "JobID|State|Elapsed\n5|COMPLETED|00:20:00\n6|TIMEOUT|00:30:00\n"


@pytest.mark.parametrize("other", [ENDED, SHORT, SHORT.replace("|", ",")])
@pytest.mark.parametrize("turned", [False, True])
def test_a_listing_without_times_tells_of_the_jobs_of_the_other(other: str, turned: bool) -> None:
    five, six = tasks(*((other, WHOLE) if turned else (WHOLE, other)))
    assert (five["task_id"], five["attempt"], five["outcome"]) == ("5", 1, "ok")
    assert (six["task_id"], six["attempt"], six["outcome"]) == ("6", 1, "timeout")
    assert (five["wall_s"], six["wall_s"], five["group"]) == (1200, 1800, "map")
    assert five["peak_memory_bytes"] == 64 << 20
    assert five["ended_ns"] - five["submitted_ns"] == 1500 * 10**9
    assert five["account"] == ("lab" if other == ENDED else None)


@pytest.mark.parametrize("turned", [False, True])
def test_two_days_of_listings_without_times(turned: bool) -> None:
    before = DEFAULT.format("   RUNNING", "   RUNNING", "   PENDING")
    days = (ENDED, before) if turned else (before, ENDED)
    assert [row["outcome"] for row in tasks(*days)] == ["ok", "timeout"]
    days = ("JobID|State|Elapsed\n5|RUNNING|00:02:00\n6|PENDING|00:00:00\n", SHORT)
    rows = tasks(*(days[::-1] if turned else days))
    assert [(row["attempt"], row["wall_s"]) for row in rows] == [(1, 1200), (1, 1800)]


SUBMIT = "JobID|JobName|State|Submit|Elapsed\n5|map|COMPLETED|2025-03-03T07:00:00|00:20:00\n"
START = "JobID|User|State|Start|Elapsed\n5|eve|COMPLETED|2025-03-03T07:05:00|00:20:00\n"
END = "JobID|State|End|Elapsed\n5|COMPLETED|2025-03-03T07:25:00|00:20:00\n"


@pytest.mark.parametrize("files", [(SUBMIT, START), (START, SUBMIT), (END, START), (SUBMIT, END)])
def test_listings_with_one_time_each(files: tuple[str, ...]) -> None:
    (row,) = tasks(*files)
    assert (row["attempt"], row["wall_s"]) == (1, 1200)
    assert SUBMIT not in files or row["group"] == "map"
    assert START not in files or row["user"] == "eve"


def test_what_contradicts_is_another_run() -> None:
    for other in (
        SHORT.replace("5|COMPLETED", "5|FAILED"),
        SHORT.replace("00:20:00", "00:21:00"),
        "JobID|State|Elapsed\n5|RUNNING|00:21:00\n",
    ):
        rows = [row for row in tasks(WHOLE, other) if row["task_id"] == "5"]
        assert len(rows) == 2
    assert len(tasks(SUBMIT.replace("-03T07", "-03T08"), START)) == 2  # submitted after it began


def test_where_several_runs_could_be_meant_they_are_kept_apart_and_counted() -> None:
    again = START.replace("07:05", "09:05") + START.splitlines()[1] + "\n"
    trace = read(again, SHORT)
    assert [row["task_id"] for row in trace.table("tasks").to_pylist()].count("5") == 3
    (said,) = [w for w in trace.warnings if "not clear" in w]
    assert "not clear of 1 job number, such as 5: " in said
    # Taken back, and seen to run: this run or the next one.
    trace = read(SHORT.replace("COMPLETED", "NODE_FAIL"), SHORT.replace("COMPLETED", "RUNNING"))
    assert trace.table("tasks").num_rows == 3
    assert any("not clear of 1 job number, such as 5: " in w for w in trace.warnings)
    # That it ended otherwise than one of them tells.
    told = again.replace("COMPLETED", "PREEMPTED", 1)
    trace = read(told, SHORT)
    assert [row["task_id"] for row in trace.table("tasks").to_pylist()].count("5") == 2
    assert not any("not clear" in w for w in trace.warnings)


def test_an_end_far_from_the_start_is_not_surely_of_the_same_run() -> None:
    trace = read(START, END.replace("-03T07", "-04T07"))
    assert trace.table("tasks").num_rows == 2
    assert any("not clear of 1 job number" in w for w in trace.warnings)


def test_a_request_for_each_cpu_stays_one() -> None:
    asked = "JobID|State|ReqMem|ReqCPUS|Submit\n5|COMPLETED|2Gc|4|2025-03-03T07:00:00\n"
    (row,) = tasks(asked, END)
    assert row["requested_memory_bytes"] == 8 << 30


def test_runs_with_an_end_each_are_told_apart_by_it() -> None:
    later = END.splitlines()[1].replace("-03T07", "-04T07")
    assert len(tasks(END + later + "\n", END)) == 2
