"""Attempts that several files of one import tell, each at another time."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest

from rotameter.adapters.importers._table_pbs import PbsLog
from rotameter.adapters.importers._table_twice import APART, TWICE
from rotameter.adapters.importers.building import Builder
from rotameter.adapters.importers.inputs import InputFile
from rotameter.adapters.importers.table import Importer
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import import_bytes

# The log's clock is an hour before UTC: 10:00:05 is 1704189605, which is 10:00:05 UTC.
S = (
    "01/02/2024 09:00:05;S;7.srv;user=ann jobname=al ctime=1704189600 qtime=1704189600 "
    "start=1704189605 Resource_List.walltime=72:00:00\n"
)
E = (
    "01/03/2024 09:00:05;E;7.srv;user=ann jobname=al ctime=1704189600 qtime=1704189600 "
    "start=1704189605 end=1704276005 Exit_status=0 resources_used.walltime=24:00:00 run_count=1\n"
)
AGAIN = S.replace("01/02", "01/03").replace("start=1704189605", "start=1704276005")
OTHER = E.replace("7.srv", "8.srv")
Row = dict[str, Any]


def read(*files: str | list[Row] | Row) -> Trace:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in files]
    data = {f"f{i}.{'log' if t[0].isdigit() else 'json'}": t.encode() for i, t in enumerate(texts)}
    trace = import_bytes(Importer, data)
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    assert records["out"] == trace.table("tasks").num_rows
    return trace


def made(trace: Trace, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in trace.table("tasks").to_pylist()]


def twice(trace: Trace) -> list[str]:
    return [text for text in trace.warnings if text.startswith(TWICE)]


@pytest.mark.parametrize("files", [(S, E), (E, S), (S + E,), (S + OTHER, E), (S, OTHER, E)])
def test_a_job_of_pbs_that_begins_in_one_file_and_ends_in_another(files: tuple[str, ...]) -> None:
    trace = read(*files)
    kept = [row for row in made(trace, "task_id", "attempt", "outcome", "wall_s")]
    assert ("7.srv", 1, "ok", 86400.0) in kept
    assert len(kept) == 1 + ("8.srv" in "".join(files))
    assert trace.warnings == []


@pytest.mark.parametrize("kind", ["D", "A"])
def test_a_job_that_was_taken_out_has_ended(kind: str) -> None:
    over = f"01/02/2024 11:00:05;{kind};7.srv;requestor=ann@head\n"
    for files in ((S + over,), (S, over), (over, S), (S + OTHER, over)):
        trace = read(*files)
        found = made(trace, "task_id", "outcome", "ended_ns", "wall_s")
        assert ("7.srv", "cancelled", (1704189605 + 7200) * 10**9, 7200.0) in found
        assert trace.warnings == []
    # What was asked to go is told again when it has gone.
    for files in ((S + over + E,), (S, over, E), (S + over, E)):
        (only,) = made(read(*files), "outcome", "wall_s")
        assert only == ("ok", 86400.0)
    # Taken out before: this is a later run.
    early = over.replace("11:00:05", "08:00:00")
    assert made(read(early + S), "outcome") == [("running",)]


def test_a_job_that_began_anew_runs_once() -> None:
    for files in ((S + AGAIN,), (S, AGAIN), (AGAIN, S)):
        assert made(read(*files), "started_ns") == [(1704276005 * 10**9,)]
    runs = read(E.replace(";E;", ";R;"), AGAIN)
    assert made(runs, "attempt", "outcome") == [(1, "rescheduled"), (2, "running")]


JOB: Row = {
    "ClusterId": 5, "ProcId": 0, "Cmd": "/x", "JobStatus": 4, "ExitCode": 0, "QDate": 1735689600,
    "JobCurrentStartDate": 1735689700, "CompletionDate": 1735690300, "RemoteWallClockTime": 600.0,
}  # fmt: skip
RUNS = {**JOB, "JobStatus": 2, "CompletionDate": 0, "RemoteWallClockTime": 0.0, "ExitCode": None}
IDLE = {**RUNS, "JobStatus": 1, "JobCurrentStartDate": None}


@pytest.mark.parametrize("other", [RUNS, IDLE, JOB])
def test_a_queue_and_its_history(other: Row) -> None:
    for files in (([JOB], [other]), ([other], [JOB, {**JOB, "ProcId": 1}])):
        trace = read(*files)
        assert made(trace, "task_id", "attempt", "outcome", "wall_s")[0] == ("5.0", 1, "ok", 600.0)
        assert trace.table("tasks").num_rows == len(files[1]) and len(twice(trace)) == 1
    again = {**JOB, "JobCurrentStartDate": 1735699700, "CompletionDate": 1735699800}
    assert made(read([JOB], [again]), "attempt", "wall_s")[0] == (1, 600.0)
    assert not twice(read([JOB], [again])) and len(made(read([JOB], [again]), "attempt")) == 2


TASK: Row = {
    "task_id": "a", "dag_id": "d", "dag_run_id": "r", "map_index": -1, "state": "running",
    "start_date": "2025-01-01T00:00:00+00:00", "end_date": None, "try_number": 1,
}  # fmt: skip
DONE = {**TASK, "state": "success", "end_date": "2025-01-01T01:00:00+00:00"}


def test_a_table_that_was_exported_twice() -> None:
    for files in (({"task_instances": [TASK]}, {"task_instances": [DONE]}), ([DONE], [TASK, TASK])):
        trace = read(*files)
        assert made(trace, "attempt", "outcome", "wall_s") == [(1, "ok", 3600.0)]
        (word,) = twice(trace)
        assert ("(2 times)" in word) == (len(files[1]) == 2)
    tries = read([{**DONE, "state": "failed"}], [{**DONE, "try_number": 2}])
    assert made(tries, "attempt", "outcome") == [(1, "failed"), (2, "ok")] and not twice(tries)


def test_edges_are_told_once_as_well() -> None:
    run = {"id": "b", "flow_run_id": "f", "task_key": "s", "name": "s-0", "run_count": 1,
           "state_type": "COMPLETED", "start_time": "2024-01-02T10:00:00Z",
           "end_time": "2024-01-02T10:00:10Z",
           "task_inputs": {"x": [{"input_type": "task_run", "id": "a"}]}}  # fmt: skip
    trace = read([run], [{**run, "state_type": "RUNNING", "end_time": None}])
    assert trace.table("deps").num_rows == 1 and made(trace, "outcome") == [("ok",)]


def test_equal_rows_of_a_plain_table_are_attempts_unless_it_numbers_them() -> None:
    plain = "id,start,wall_s\na,1704189600,5\na,1704189600,5\n"
    numbered = "id,try,start,wall_s\na,2,1704189600,5\na,2,1704189600,5\na,1,1704189500,5\n"
    trace = import_bytes(Importer, {"t.csv": plain.encode()})
    assert made(trace, "attempt") == [(1,), (2,)] and not twice(trace)
    trace = import_bytes(Importer, {"t.csv": numbered.encode()})
    assert sorted(made(trace, "attempt")) == [(1,), (2,)] and len(twice(trace)) == 1


def test_parts_of_an_array_are_several_although_they_begin_at_once() -> None:
    job = {"JOBID": "9", "STAT": "DONE", "START_TIME": "2024-01-02T10:00:05Z", "RUN_TIME": "12"}
    assert read([job, job]).table("tasks").num_rows == 2  # nothing tells that they are one
    parts = [{**job, "JOBINDEX": str(index)} for index in (1, 2)]
    assert made(read(parts, parts), "task_id", "attempt") == [("9[1]", 1), ("9[2]", 1)]
    block = "=" * 62 + "\nqname q\njobnumber 4\ntaskid {}\nru_wallclock 5s\nstart_time Tue Jan  2 "
    block += "10:00:05 2024\npe_taskid {}\nexit_status 0\n"
    log = "".join(block.format(*one) for one in ((1, "NONE"), (1, "1.n2"), (2, "NONE")))
    trace = import_bytes(Importer, {"q.txt": log.encode()})
    assert made(trace, "task_id", "attempt") == [("4.1", 1), ("4.2", 1)] and not twice(trace)
    runs = [{k: v for k, v in DONE.items() if k != "dag_run_id"}]
    runs.append({**runs[0], "start_date": "2025-01-01T00:30:00+00:00"})
    assert read(runs).table("tasks").num_rows == 2
    mapped = import_bytes(
        Importer, {"h.json": json.dumps([JOB, {**JOB, "ProcId": 1}]).encode()}, map=["id=Cmd"]
    )
    assert made(mapped, "task_id", "attempt") == [("/x", 1), ("/x", 2)]


ARRAY = "job_id,array_index,attempt,start_time,end_time,state,host\n"
PARTS = (
    "7,1,1,2024-01-01T10:00:00Z,2024-01-01T10:10:00Z,done,n1\n"
    "7,2,1,2024-01-01T10:00:00Z,2024-01-01T10:20:00Z,done,n2\n"
    "7,3,1,2024-01-01T10:00:00Z,2024-01-01T10:30:00Z,failed,n3\n"
)


def apart(trace: Trace) -> list[str]:
    return [text for text in trace.warnings if text.startswith(APART)]


def table(*files: str, **options: Any) -> Trace:
    named = {f"t{i}.csv": text.encode() for i, text in enumerate(files)}
    return import_bytes(Importer, named, **options)


@pytest.mark.parametrize("head", [ARRAY, ARRAY.replace("attempt", "retry")])
def test_rows_of_one_id_and_try_that_ended_otherwise_are_several(head: str) -> None:
    trace = table(head + PARTS)
    assert sorted(made(trace, "outcome", "host", "wall_s")) == [
        ("failed", "n3", 1800.0), ("ok", "n1", 600.0), ("ok", "n2", 1200.0)]  # fmt: skip
    (word,) = apart(trace)
    assert "(2 times)" in word and word not in trace.meta.get("lossless", []) and not twice(trace)
    again = table(head + PARTS, head + PARTS)
    assert len(made(again, "outcome")) == 3 and "(3 times)" in twice(again)[0] and apart(again)


def test_what_still_ran_is_one_of_those_that_ended() -> None:
    run = PARTS.replace("2024-01-01T10:10:00Z,done", ",running").splitlines()[0] + "\n"
    trace = table(ARRAY + PARTS, ARRAY + run)
    assert sorted(made(trace, "outcome")) == [("failed",), ("ok",), ("ok",)]
    assert len(twice(trace)) == 1
    runs = PARTS.replace(",done", ",running").replace(",failed", ",running")
    for minute in (10, 20, 30):
        runs = runs.replace(f"2024-01-01T10:{minute}:00Z", "")
    assert sorted(made(table(ARRAY + runs), "host")) == [("n1",), ("n2",), ("n3",)]
    # A table of another day that knows less tells of the same.
    less = table(ARRAY + PARTS, ARRAY + PARTS.splitlines()[0].replace(",n1", ",") + "\n")
    assert len(made(less, "host")) == 3 and ("n1",) in made(less, "host")


def test_mapped_tasks_without_their_index_are_several() -> None:
    rows = [
        {**DONE, "start_date": f"2025-01-01T00:00:0{i}+00:00",
         "end_date": f"2025-01-01T01:0{i}:00+00:00"} for i in range(3)
    ]  # fmt: skip
    rows = [{key: value for key, value in row.items() if key != "map_index"} for row in rows]
    trace = read(rows)
    assert len(made(trace, "ended_ns")) == 3 and "(2 times)" in apart(trace)[0]


def test_a_job_of_condor_whose_input_was_on_its_way() -> None:
    waits = {**RUNS, "JobCurrentStartDate": 1735689690}
    over = {**JOB, "JobCurrentStartExecutingDate": 1735689700}
    for files in (([waits], [over]), ([over], [waits])):
        trace = read(*files)
        assert made(trace, "attempt", "outcome", "wall_s") == [(1, "ok", 600.0)]
        assert len(twice(trace)) == 1


def test_many_jobs_that_were_taken_out_in_a_later_file_take_time_in_proportion() -> None:
    def took(jobs: int) -> float:
        first = "".join(S.replace("7.srv", f"{i}.a") for i in range(jobs))
        later = "".join(S.replace("7.srv", f"{i}.b") for i in range(jobs))
        gone = "".join(f"01/02/2024 11:00:05;D;{i}.a;requestor=x\n" for i in range(jobs))
        log, build = PbsLog(), Builder("table", "pbs")
        for text in (first, later + gone):
            before = time.process_time()
            data = text.encode()
            for _ in log.read(InputFile("log", lambda data=data: io.BytesIO(data)), build):
                pass
        return time.process_time() - before

    assert min(took(12_000) for _ in range(3)) < 18 * min(took(1500) for _ in range(3))


HEAD = "job_id,name,start_time,end_time,state,host\n"
ROW = "2,b,2024-05-01T10:00:00Z,2024-05-01T10:00:30Z,COMPLETED,n1\n"
RUN = "2,b,2024-05-01T10:00:00Z,,RUNNING,n1\n"


@pytest.mark.parametrize("other", [ROW, RUN, ROW.replace("n1", ""), RUN.replace(",n1", ",")])
def test_rows_of_two_plain_tables_with_one_id_and_start_are_one_run(other: str) -> None:
    for files in ((ROW, other), (other, ROW)):
        trace = table(*(HEAD + text for text in files))
        assert made(trace, "attempt", "outcome", "wall_s") == [(1, "ok", 30.0)]
        assert len(twice(trace)) == 1 and not apart(trace)
        records = trace.meta["importer"]["records"]
        assert records == {"in": 2, "out": 1, "merged": 1, "rejected": 0}


def test_rows_of_two_plain_tables_that_contradict_each_other_are_kept() -> None:
    for old, new in (("n1", "n2"), ("10:00:30", "10:00:31"), ("COMPLETED", "FAILED")):
        trace = table(HEAD + ROW, HEAD + ROW.replace(old, new))
        assert made(trace, "attempt") == [(1,), (2,)]
        assert not twice(trace) and len(apart(trace)) == 1
    trace = table(HEAD + ROW, HEAD + RUN.replace("n1", "n2"))
    assert made(trace, "outcome") == [("ok",), ("running",)] and apart(trace)
    trace = table(HEAD + ROW, HEAD + ROW.replace("T10", "T11"))
    assert len(made(trace, "attempt")) == 2 and not apart(trace)


def test_equal_rows_of_one_plain_table_find_as_many_in_the_other() -> None:
    trace = table(HEAD + ROW + ROW, HEAD + ROW + ROW + ROW)
    assert made(trace, "attempt") == [(1,), (2,), (3,)] and "(2 times)" in twice(trace)[0]
    hosts = ROW + ROW.replace("n1", "n2")
    trace = table(HEAD + hosts, HEAD + RUN.replace("n1", "n2") + RUN)
    assert sorted(made(trace, "outcome", "host")) == [("ok", "n1"), ("ok", "n2")]


def test_what_waited_in_one_table_and_ended_in_another() -> None:
    head = "job_id,submit_time,start_time,end_time,state\n"
    waits = "7,2024-05-01T09:00:00Z,,,PENDING\n"
    over = "7,2024-05-01T09:00:00Z,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,COMPLETED\n"
    for files in ((waits, over), (over, waits), (waits, waits, over)):
        assert made(table(*(head + f for f in files)), "outcome") == [("ok",)]
    assert len(made(table(head + over + waits), "outcome")) == 2


def test_starts_that_are_no_dates_do_not_tell_that_runs_are_one() -> None:
    text = "id,start,wall_s\na,0,5\nb,5,5\n"
    assert len(made(table(text, text), "attempt")) == 4


def test_jobs_of_bjobs_without_an_index_and_a_queued_task_of_airflow() -> None:
    job = {"JOBID": "9", "STAT": "DONE", "START_TIME": "2024-01-02T10:00:05Z", "RUN_TIME": "12"}
    assert made(read([{**job, "STAT": "RUN", "RUN_TIME": "2"}], [job]), "outcome") == [("ok",)]
    queued = {**TASK, "state": "queued", "start_date": None, "try_number": 0}
    for files in (([queued], [DONE]), ([DONE], [queued])):
        trace = read(*files)
        assert made(trace, "attempt", "outcome") == [(1, "ok")] and len(twice(trace)) == 1


@pytest.mark.parametrize("alike", [False, True])
def test_many_rows_of_one_id_and_start_take_time_in_proportion(alike: bool) -> None:
    def took(count: int) -> float:
        rows = "".join(ROW.replace("n1", "n1" if alike else f"n{i}") for i in range(count))
        other = rows if alike else rows.replace(",n", ",m")
        before = time.process_time()
        assert len(made(table(HEAD + rows, HEAD + other), "host")) == (2 - alike) * count
        return time.process_time() - before

    took(100)
    assert took(8_000) < 24 * took(1000)


def test_a_parallel_job_of_which_only_slave_tasks_are_told_is_refused_and_counted() -> None:
    line = (
        "all.q:n1:lab:ann:al:{}:sge:0:1714557600:1714557660:1714558260:0:0:600:1.0:8.0:1048576:0:0:"
        "0:0:10:0:0:0:0:0:0:0:0:0:proj:defaultdep:{}:2:0:1080.0:0.5:0.1:-q:0.0:{}:2147483648.0:0:0\n"
    )
    slaves = line.format(101, "smp", "1.n1") + line.format(101, "smp", "2.n2")
    job, other = line.format(101, "smp", "NONE"), line.format(102, "NONE", "NONE")
    for files in ((slaves + job,), (job + slaves,), (slaves, job), (job, slaves)):
        trace = import_bytes(Importer, {f"a{i}": text.encode() for i, text in enumerate(files)})
        assert trace.meta["importer"]["records"] == {"in": 3, "out": 1, "merged": 2, "rejected": 0}
    trace = import_bytes(Importer, {"accounting": (slaves + other).encode()})
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 1, "merged": 0, "rejected": 2}
    (first, second) = trace.table("rejects").to_pylist()
    assert (first["line"], second["line"]) == (1, 2) and "job 101," in first["reason"]
