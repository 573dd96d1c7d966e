"""Tables in local times beside others of the same jobs with a zone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import rotameter
from rotameter.adapters.importers.table import Importer
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import import_bytes

BEGUN_S = 1704189605  # 2 January 2024, 10:00:05 UTC
HOUR_S = 3600
BERLIN = ZoneInfo("Europe/Berlin")
Row = dict[str, Any]


def shown(
    at_s: int, zone: Any = timezone(timedelta(hours=1)), pattern: str = "%a %b %e %H:%M:%S %Y"
) -> str:
    return datetime.fromtimestamp(at_s, zone).strftime(pattern)


def log(*jobs: tuple[str, int], text: bool = False, more: str = "") -> str:
    """Write an accounting log of PBS, its times as epochs or as local texts."""
    lines = []
    for name, at_s in jobs:
        times = {"ctime": at_s - 5, "qtime": at_s - 5, "start": at_s, "end": at_s + 600}
        said = (
            f"{key}={shown(value, pattern='%Y-%m-%dT%H:%M:%S') if text else value}"
            for key, value in times.items()
        )
        over = shown(at_s + 600, pattern="%m/%d/%Y %H:%M:%S")
        lines.append(
            f"{over};E;{name};user=ann jobname=al {' '.join(said)} Exit_status=0 {more}"
            "resources_used.walltime=00:10:00 run_count=1\n"
        )
    return "".join(lines)


def history(*jobs: tuple[str, int], zone: Any = timezone(timedelta(hours=1))) -> str:
    """Write what ``qstat -xf -F json`` prints."""
    found = {
        name: {
            "Job_Name": "al", "Job_Owner": "ann@head", "job_state": "F", "Exit_status": 0,
            "ctime": shown(at_s - 5, zone), "qtime": shown(at_s - 5, zone),
            "stime": shown(at_s, zone), "obittime": shown(at_s + 600, zone),
            "resources_used": {"walltime": "00:10:00"}, "run_count": 1,
        }
        for name, at_s in jobs
    }  # fmt: skip
    return json.dumps({"Jobs": found}, indent=1)


def read(*files: str) -> Trace:
    named = {
        f"f{i}.{'json' if text[0] == '{' else 'log'}": text.encode() for i, text in enumerate(files)
    }
    trace = import_bytes(Importer, named)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace


def starts(trace: Trace) -> list[tuple[str, float]]:
    rows = trace.table("tasks").to_pylist()
    return sorted((row["task_id"], row["started_ns"] / 1e9) for row in rows)


def zone_words(trace: Trace) -> list[str]:
    return [text for text in trace.warnings if text.startswith("some times carry a zone")]


JOBS = [(f"{number}.srv", BEGUN_S + 1000 * number) for number in range(4)]


@pytest.mark.parametrize("other", [history, lambda *jobs: log(*jobs, text=True)])
def test_jobs_of_pbs_in_local_times_and_in_epochs_count_once(other: Any) -> None:
    for files in ((log(*JOBS), other(*JOBS)), (other(*JOBS), log(*JOBS))):
        trace = read(*files)
        assert starts(trace) == JOBS
        assert trace.meta["time_base"] == "epoch_ns"
        (word,) = zone_words(trace)
        assert "local times of +01:00, as told by 4 jobs in both" in word
        (row, *_) = trace.table("tasks").to_pylist()
        assert row["attempt"] == 1 and row["outcome"] == "ok"
        assert row["ended_ns"] - row["started_ns"] == 600 * 10**9


def test_what_only_the_local_log_has_is_moved_as_well() -> None:
    alone = ("9.srv", BEGUN_S + 9999)
    trace = read(log(*JOBS), history(*JOBS[1:], alone))
    assert starts(trace) == sorted([*JOBS, alone])


def test_submission_start_and_end_of_one_job_are_enough_and_a_start_alone_is_not(
    tmp_path: Path,
) -> None:
    assert len(starts(read(log(JOBS[0]), history(JOBS[0])))) == 1
    head = "job_id,start,state\n"
    local = head + f"7,{shown(BEGUN_S, pattern='%Y-%m-%d %H:%M:%S')},running\n"
    zoned = head + f"7,{shown(BEGUN_S, UTC, '%Y-%m-%dT%H:%M:%SZ')},running\n"
    trace = read(local, zoned)
    assert len(starts(trace)) == 2
    (word,) = zone_words(trace)
    assert "+01:00 apart, counted twice" in word and "--utc-offset" in word
    for name, text in (("a.csv", local), ("b.csv", zoned)):
        (tmp_path / name).write_text(text)
    told = rotameter.open(tmp_path, utc_offset="+01:00")
    assert starts(told) == [("7", BEGUN_S)] and not zone_words(told)


def test_a_change_of_the_clocks_lies_between() -> None:
    first = int(datetime(2024, 3, 28, 9, 0, 7, tzinfo=UTC).timestamp())
    jobs = [(f"{day}.srv", first + day * 24 * HOUR_S) for day in range(8)]
    for alone in range(8):
        rest = [job for at, job in enumerate(jobs) if at != alone]
        trace = read(history(*jobs, zone=BERLIN), log(*rest))
        assert starts(trace) == jobs
        assert "+01:00 and +02:00" in zone_words(trace)[0]


def test_jobs_that_do_not_agree_are_kept_apart_and_it_is_said() -> None:
    other = [(name, at_s + 77) for name, at_s in JOBS]
    mixed = [(name, at_s + HOUR_S * (at % 2)) for at, (name, at_s) in enumerate(JOBS)]
    far = [(name, at_s + 24 * HOUR_S) for name, at_s in JOBS]
    for jobs in (other, mixed, far):
        trace = read(log(*JOBS), history(*jobs))
        assert len(starts(trace)) == 8
        (word,) = zone_words(trace)
        assert "4 jobs in both with other starts" in word and "counted twice" in word


def test_other_jobs_tell_nothing() -> None:
    trace = read(log(*JOBS), history(("x.srv", BEGUN_S)))
    assert zone_words(trace) == ["some times carry a zone and others do not: those are read as UTC"]


def test_runs_of_a_job_tell_nothing_of_the_zone_and_are_moved() -> None:
    again = [("0.srv", BEGUN_S + 50_000)]
    files = (log(*JOBS, *again), history(*JOBS), history(*again))
    trace = read(*files)
    assert starts(trace) == sorted([*JOBS, *again])


def test_two_plain_tables() -> None:
    head = "job_id,start_time,end_time,state,host\n"

    def rows(pattern: str, zone: Any) -> str:
        return head + "".join(
            f"{name},{shown(at_s, zone, pattern)},{shown(at_s + 60, zone, pattern)},done,n1\n"
            for name, at_s in JOBS
        )

    local = rows("%Y-%m-%d %H:%M:%S", timezone(timedelta(hours=-5, minutes=-30)))
    trace = read(local, rows("%Y-%m-%dT%H:%M:%SZ", UTC))
    assert starts(trace) == JOBS and "-05:30" in zone_words(trace)[0]


def test_a_queue_in_local_times_beside_a_log_of_jobs_that_have_ended() -> None:
    queue = json.loads(history(*JOBS))
    for job in queue["Jobs"].values():
        del job["obittime"], job["Exit_status"], job["resources_used"]
        job["job_state"] = "R"
    for files in ((json.dumps(queue), log(*JOBS)), (log(*JOBS), json.dumps(queue))):
        trace = read(*files)
        assert starts(trace) == JOBS
        assert {row["outcome"] for row in trace.table("tasks").to_pylist()} == {"ok"}


def test_where_an_hour_comes_twice_other_times_are_right() -> None:
    first = int(datetime(2024, 10, 24, 9, 0, 7, tzinfo=UTC).timestamp())
    jobs = [(f"{day}.srv", first + day * 24 * HOUR_S) for day in range(6)]
    for alone in range(6):
        rest = [job for at, job in enumerate(jobs) if at != alone]
        assert starts(read(log(*rest), history(*jobs, zone=BERLIN))) == jobs
