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


def _listing(zone_h: float | None, *starts_h: float) -> str:
    """Write jobs that start at some hour in UTC, in a zone: with it, or as local times."""
    east = 0 if zone_h is None else zone_h
    lines = ["JobID|State|Submit|Start|End|Elapsed|MaxRSS"]
    for job, hour in enumerate(starts_h, 1):
        begun = _stamp(hour, east)
        ended = _stamp(hour + 0.5, east)
        for step, peak in (("", ""), (".batch", "3M")):
            lines.append(f"{job}{step}|COMPLETED|{begun}|{begun}|{ended}|00:30:00|{peak}")
    return "\n".join([*lines, ""])


def _stamp(hour: float, east_h: float) -> str:
    minutes = round((hour + east_h) * 60)
    return f"2025-03-{4 + minutes // 1440:02}T{minutes % 1440 // 60:02}:{minutes % 60:02}:00"


def _with_zone(listing: str, zone: str) -> str:
    return "|".join(f"{c}{zone}" if c.startswith("2025") else c for c in listing.split("|"))


@pytest.mark.parametrize("east_h", [2, -5, 5.75])
@pytest.mark.parametrize("turned", [False, True])
def test_local_times_are_of_the_zone_that_all_common_jobs_say(east_h: float, turned: bool) -> None:
    local = _listing(east_h, 7, 8, 12.5, 20)
    zoned = _with_zone(_listing(None, 7, 8, 12.5), "+0000")
    files = (zoned, local) if turned else (local, zoned)
    for given in (files, ("".join(files),)):
        trace = read(*given)
        rows = sorted(trace.table("tasks").to_pylist(), key=lambda row: str(row["task_id"]))
        assert [(row["task_id"], row["attempt"]) for row in rows] == [(c, 1) for c in "1234"]
        assert {row["peak_memory_bytes"] for row in rows} == {3 << 20}
        hours = [(row["started_ns"] / 3.6e12) % 24 for row in rows]
        assert hours == pytest.approx([7, 8, 12.5, 20]) and trace.meta["time_base"] == "epoch_ns"
        (said,) = [w for w in trace.warnings if "times with a zone" in w]
        east = f"{'-' if east_h < 0 else '+'}{int(abs(east_h)):02}:{int(abs(east_h) % 1 * 60):02}"
        assert f"taken as local times of {east}, as 3 jobs that are in both say" in said


def test_of_two_jobs_the_zone_is_said_not_taken() -> None:
    trace = read(_listing(2, 7, 8), _with_zone(_listing(None, 7, 8), "+0000"))
    assert trace.table("tasks").num_rows == 4
    (said,) = [w for w in trace.warnings if "times with a zone" in w]
    assert "2 jobs are in both, +02:00 apart, and counted twice: give --utc-offset +02:00" in said


@pytest.mark.parametrize("hours", [(7, 8, 9, 11), (7.1, 8.1, 9.1, 10.1), (23, 24, 25, 26)])
def test_starts_that_no_one_zone_explains_are_not_moved(hours: tuple[float, ...]) -> None:
    trace = read(_listing(2, *hours), _with_zone(_listing(None, 7, 8, 9, 10), "+0000"))
    assert trace.table("tasks").num_rows == 8 and trace.meta["time_base"] == "relative_ns"
    (said,) = [w for w in trace.warnings if "times with a zone" in w]
    assert "4 job numbers are in both with other starts" in said and "--utc-offset" in said


def test_other_jobs_in_another_zone_are_no_doubles() -> None:
    other = _with_zone(_listing(None, 7, 8, 9), "+0000").replace("\n", "\n9")
    trace = read(_listing(2, 7, 8, 9), other.removesuffix("9"))
    (said,) = [w for w in trace.warnings if "times with a zone" in w]
    assert said.endswith("they may be hours apart") and trace.table("tasks").num_rows == 6


def test_a_listing_of_raw_ids_tells_of_the_same_array_tasks_and_their_steps() -> None:
    facts = "COMPLETED|2025-03-03T07:00:00|2025-03-03T07:05:00|00:20:00"
    both = [f"JobID|JobIDRaw|State|Submit|Start|Elapsed\n30_{t}|{r}|{facts}" for t, r in ((1, 31),)]
    both.append(f"30_2|30|{facts}\n40|40|{facts}\n50+1|51|{facts}\n60_[3-4]|60|PENDING||Unknown|\n")
    lines = [f"{raw}|{facts}|" for raw in ("30", "31", "40", "51", "60")]
    lines.insert(1, f"30.batch|{facts}|7M")
    raw = "\n".join(["JobIDRaw|State|Submit|Start|Elapsed|MaxRSS", *lines, ""])
    for files in (("\n".join(both), raw), (raw, "\n".join(both))):
        rows = {row["task_id"]: row for row in tasks(*files)}
        assert sorted(rows) == ["30_1", "30_2", "40", "50+1", "60", "60_[3-4]"]
        assert rows["30_2"]["peak_memory_bytes"] == 7 << 20
    assert {row["task_id"] for row in tasks(raw)} == {"30", "31", "40", "51", "60"}
