"""Tables of tasks: what their columns mean, in which units, and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.table import Importer
from rotameter.errors import BadInput, UsageError
from rotameter.testing.importers import check_importer, import_bytes
from rotameter.values import Head

CSV = b"""job_id,task_type,submit_time,start_time,end_time,maxrss_KiB,req_mem_mb,cores,state,user
1,align,2024-01-02T10:00:00,2024-01-02T10:00:05,2024-01-02T10:01:05,1024,4,2,COMPLETED,ann
2,align,2024-01-02T10:00:00,2024-01-02T10:00:06,2024-01-02T10:00:36,2048,4,2,FAILED,ann
3,"sort, all",2024-01-02T10:01:00,2024-01-02T10:01:10,2024-01-02T10:02:10,,4,1,OUT_OF_MEMORY,bob
"""
PBS = b"""01/02/2024 10:00:00;Q;7.srv;queue=batch
01/02/2024 10:00:05;S;7.srv;user=ann group=lab jobname=align queue=batch ctime=1704189600 \
qtime=1704189600 etime=1704189600 start=1704189605 exec_host=n1/0*2 Resource_List.ncpus=2 \
Resource_List.mem=4gb Resource_List.walltime=01:00:00
01/02/2024 10:01:05;E;7.srv;user=ann group=lab jobname=align queue=batch ctime=1704189600 \
qtime=1704189600 etime=1704189600 start=1704189605 exec_host=n1/0*2 Resource_List.ncpus=2 \
Resource_List.mem=4gb Resource_List.walltime=01:00:00 session=5 end=1704189665 Exit_status=0 \
resources_used.cput=00:01:30 resources_used.mem=1048576kb resources_used.walltime=00:01:00
01/02/2024 10:05:00;E;8.srv;user=bob jobname=big queue=batch ctime=1704189600 qtime=1704189600 \
start=1704189700 exec_host=n2/0 Resource_List.ncpus=1 Resource_List.mem=2gb end=1704189800 \
Exit_status=-27 resources_used.mem=1gb resources_used.walltime=00:01:40
01/02/2024 10:06:00;S;9.srv;user=bob jobname=long queue=batch ctime=1704189600 start=1704189960
01/02/2024 10:07:00;E;10.srv;user=bob jobname=del ctime=1704189600 start=1704189700 \
end=1704189800 Exit_status=271 resources_used.walltime=00:01:40
"""
CONDOR = b"""ClusterId = 5
ProcId = 0
JobStatus = 4
ExitCode = 0
ExitBySignal = false
Owner = "ann"
Cmd = "/home/ann/run.sh"
QDate = 1704189600
JobCurrentStartDate = 1704189605
CompletionDate = 1704189665
RemoteWallClockTime = 60.0
RemoteUserCpu = 50.0
RemoteSysCpu = 5.0
ResidentSetSize_RAW = 2000
MemoryUsage = ((ResidentSetSize + 1023) / 1024)
RequestMemory = 1024
RequestCpus = 1
LastRemoteHost = "slot1_1@node7"

ClusterId = 5
ProcId = 1
JobStatus = 5
HoldReasonCode = 34
HoldReason = "memory usage exceeded request_memory"
Owner = "ann"
QDate = 1704189600
JobCurrentStartDate = 1704189605
RequestMemory = 1024
ResidentSetSize_RAW = 2000
CompletionDate = 0
EnteredCurrentStatus = 1704189700

"""
SGE = (
    b"all.q:n1:lab:ann:align:12:sge:0:1704189600:1704189605:1704189665:0:0:60:50.5:5.0:2048:0:0:0:"
    b"0:1:2:0:0:0:0:0:0:1:2:proj:dept:smp:4:0:55.5:0.1:0.2:-l h_rt=3600:0.5:NONE:104857600:0:0\n"
    b"all.q:n1:lab:ann:align:13:sge:0:1704189600:1704189605:1704189665:37:137:60:1:1:-1:0:0:0:"
    b"0:1:2:0:0:0:0:0:0:1:2:proj:dept:NONE:1:3:2:0.1:0.2:-l h_rt=60:0.5:NONE:104857600:0:0\n"
)
QACCT = b"""==============================================================
qname        all.q
hostname     n1
owner        ann
jobname      align
jobnumber    12
taskid       undefined
qsub_time    Tue Jan  2 10:00:00 2024
start_time   Tue Jan  2 10:00:05 2024
end_time     Tue Jan  2 10:01:05 2024
slots        4
failed       100 : assumedly after job
exit_status  137                  (Killed)
ru_wallclock 60s
ru_maxrss    2.000KB
cpu          55.500s
==============================================================
qname        all.q
jobnumber    13
start_time   -/-
end_time     -/-
failed       26 : opening input/output file
exit_status  0
"""
LSF = (
    b'"JOB_FINISH" "10.1" 1704189665 386 1000 33816578 2 1704189600 0 0 1704189605 "ann" "normal" '
    b'"rusage[mem=4]" "" "" "head" "/home/ann" "" "out" "err" "1.sh" 0 2 "n1" "n1" 64 12.5 "align" '
    b'"./run.sh ""x y""" 50.5 5.0 -1 -1 -1 -1 -1 0 0 0 0 0 -1 0 0 0 0 0 -1 "" "proj" 0 2 "" "" 0 '
    b'204800 0 "" "" "" "" 0 "" 0\n'
    b'"JOB_FINISH" "10.1" 1704189665 387 1000 33816578 1 1704189600 0 0 1704189605 "ann" "normal" '
    b'"" "" "" "head" "/home/ann" "" "out" "err" "1.sh" 0 1 "2*n2" 32 12.5 "big" '
    b'"./run.sh" -1 -1 -1 -1 -1 -1 -1 0 0 0 0 0 -1 0 0 0 0 0 -1 "" "proj" 9 1 "" "" 4 '
    b'204800 0 "" "" "" "" 0 "" 16\n'
)
JSONL = b"".join(
    json.dumps({"id": i, "process": "p", "start": 1704189600 + i, "wall_time_s": 2.5}).encode()
    + b"\n"
    for i in range(3)
)
QSTAT = json.dumps(
    {
        "timestamp": 1704189700,
        "pbs_version": "22.05",
        "Jobs": {
            "7.srv": {
                "Job_Name": "align",
                "Job_Owner": "ann@head",
                "job_state": "F",
                "Exit_status": 0,
                "queue": "batch",
                "ctime": "Tue Jan  2 10:00:00 2024",
                "stime": "Tue Jan  2 10:00:05 2024",
                "obittime": "Tue Jan  2 10:01:05 2024",
                "exec_host": "n1/0*2",
                "resources_used": {"cput": "00:01:30", "mem": "1048576kb", "walltime": "00:01:00"},
                "Resource_List": {"ncpus": 2, "mem": "4gb", "walltime": "01:00:00"},
            }
        },
    }
).encode()
AIRFLOW = b"""task_id,dag_id,run_id,map_index,start_date,end_date,duration,state,try_number,hostname
load,etl,r1,-1,2024-01-02 10:00:00+00:00,2024-01-02 10:01:00+00:00,60.0,success,1,n1
load,etl,r2,-1,2024-01-02 11:00:00+00:00,2024-01-02 11:01:00+00:00,60.0,failed,2,n1
skip,etl,r2,0,,,,skipped,0,
"""
PREFECT = json.dumps(
    [
        {
            "id": "a", "flow_run_id": "f", "task_key": "load", "name": "load-0",
            "state_type": "COMPLETED", "state_name": "Completed", "run_count": 1,
            "start_time": "2024-01-02T10:00:00Z", "end_time": "2024-01-02T10:00:10Z",
            "total_run_time": 10.0, "task_inputs": {},
        },
        {
            "id": "b", "flow_run_id": "f", "task_key": "sum", "name": "sum-0",
            "state_type": "CRASHED", "state_name": "Crashed", "run_count": 1,
            "start_time": "2024-01-02T10:00:10Z", "end_time": "2024-01-02T10:00:12Z",
            "total_run_time": 2.0,
            "task_inputs": {"x": [{"input_type": "task_run", "id": "a"}]},
        },
    ]
).encode()  # fmt: skip
RAY = json.dumps(
    [
        {
            "task_id": "t1", "attempt_number": 0, "name": "f", "func_or_class_name": "f",
            "state": "FINISHED", "node_id": "n", "worker_id": "w", "error_type": None,
            "required_resources": {"CPU": 1.0}, "creation_time_ms": 1704189600000,
            "start_time_ms": 1704189600500, "end_time_ms": 1704189602500,
        },
        {
            "task_id": "t2", "attempt_number": 1, "name": "f", "func_or_class_name": "f",
            "state": "FAILED", "node_id": "n", "worker_id": "w", "error_type": "OUT_OF_MEMORY",
            "required_resources": {"CPU": 1.0, "memory": 1e9}, "creation_time_ms": 1704189600000,
            "start_time_ms": 1704189600500, "end_time_ms": 1704189602500,
        },
    ]
).encode()  # fmt: skip
SAMPLES = {
    "jobs.csv": CSV,
    "jobs.tsv": CSV.replace(b", all", b" all").replace(b",", b"\t"),
    "jobs.jsonl": JSONL,
    "acct.log": PBS,
    "history.ads": CONDOR,
    "accounting": SGE,
    "qacct.txt": QACCT,
    "lsb.acct": LSF,
    "qstat.json": QSTAT,
    "task_instance.csv": AIRFLOW,
    "prefect.json": PREFECT,
    "ray.json": RAY,
    "own.csv": b"task_id,started_ns,ended_ns,outcome\na,1,2000000001,ok\nb,5,7,failed\n",
    "deps.csv": b"task_id,depends_on\nb,a\n",
}


def rows(data: bytes, name: str = "t.csv", **options: Any) -> list[dict[str, Any]]:
    return import_bytes(Importer, {name: data}, **options).table("tasks").to_pylist()


def test_the_kit() -> None:
    check_importer(Importer, SAMPLES, cuts=20)


def test_well_known_columns() -> None:
    trace = import_bytes(Importer, {"jobs.csv": CSV})
    first, second, third = trace.table("tasks").to_pylist()
    assert first["task_id"] == "1" and first["group"] == "align" and first["user"] == "ann"
    assert first["wall_s"] == 60.0 and first["peak_memory_bytes"] == 1 << 20
    assert first["requested_memory_bytes"] == 4_000_000 and first["requested_cores"] == 2
    assert (second["outcome"], third["outcome"]) == ("failed", "oom")
    # Nothing was measured: what was asked for is the least it needs.
    assert third["peak_memory_bytes"] == 4_000_000
    assert third["peak_memory_kind"] == "lower_bound"
    assert trace.meta["time_base"] == "relative_ns"
    assert any("read as 1,000,000 bytes" in word for word in trace.warnings)


def test_short_names_units_and_features() -> None:
    data = b"name;begin_time;dur;maxrss;cpu%;size\nx;1704189600;1,5;3;50;7\n"
    made = rows(
        data,
        map=["id=name", "start=begin_time", "wall=dur:min", "peak=maxrss:MiB", "cpu=cpu%:%",
             "feature.input=size"],
    )[0]  # fmt: skip
    assert made["started_ns"] == 1704189600 * 10**9
    assert made["wall_s"] == 90.0 and made["cpu_s"] == 45.0
    assert made["peak_memory_bytes"] == 3 << 20
    assert made["features"] == [("input", 7.0)]
    assert made["ended_ns"] == 1704189690 * 10**9


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1704189600", 0), ("1704189600.5", 0.5), ("1704189600500", 0.5), ("1704189600000001", 1e-6)],
)
def test_epochs_by_magnitude(text: str, seconds: float) -> None:
    made = rows(f"id,start,wall_s\na,{text},1\n".encode())[0]
    assert made["started_ns"] == 1704189600 * 10**9 + round(seconds * 1e9)


def test_epochs_in_between_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot tell"):
        rows(b"id,start,wall_s\na,20000000000,1\n")
    assert rows(b"id,start,wall_s\na,20000000000,1\n", map=["start=start:us"])


def test_times_from_some_start_are_said() -> None:
    trace = import_bytes(Importer, {"t.csv": b"id,start,end\na,5,9\n"})
    assert trace.meta["time_base"] == "relative_ns"
    assert trace.table("tasks")["wall_s"].to_pylist() == [4.0]
    assert any("seconds from some start" in word for word in trace.warnings)


def test_a_zone_makes_times_absolute() -> None:
    made = rows(b"id,start,wall_s\na,2024-01-02T10:00:00+02:00,1\n")[0]
    assert made["started_ns"] == 1704182400 * 10**9


def test_patterns_for_other_dates() -> None:
    made = import_bytes(
        Importer, {"t.csv": b"id,when,wall_s\na,02/01/2024 10:00,1\nb,03/01/2024 10:00,1\n"},
        map=["start=when:%d/%m/%Y %H:%M"],
    ).table("tasks").to_pylist()  # fmt: skip
    assert made[1]["started_ns"] - made[0]["started_ns"] == 86400 * 10**9


def test_memory_without_a_unit() -> None:
    with pytest.raises(UsageError, match="does not say"):
        rows(b"id,wall_s,maxrss\na,1,5\n", map=["peak=maxrss"])
    trace = import_bytes(Importer, {"t.csv": b"id,wall_s,maxrss\na,1,5\n"})
    assert trace.table("tasks")["peak_memory_bytes"].to_pylist() == [None]
    assert any("--map peak=maxrss:KiB" in word for word in trace.warnings)
    assert rows(b"id,wall_s,maxrss\na,1,5K\n")[0]["peak_memory_bytes"] == 5120


def test_durations_are_checked_by_start_and_end() -> None:
    trace = import_bytes(
        Importer, {"t.csv": b"id,start,end,duration\na,1704189600,1704189602,2000\n"}
    )
    assert trace.table("tasks")["wall_s"].to_pylist() == [2.0]
    assert any("0.001 s" in word for word in trace.warnings)


def test_unknown_columns_are_refused_with_an_example() -> None:
    with pytest.raises(BadInput, match=r"colour, price.*--map") as caught:
        rows(b"colour,price\nred,1\n")
    assert "pbs" in str(caught.value.hint)
    assert Importer().sniff(Head("t.csv", b"colour,price\nred,1\n")) < 0.5


def test_wrong_names_and_units_say_what_there_is() -> None:
    with pytest.raises(UsageError, match="no column 'strat'") as caught:
        rows(b"id,start,wall_s\na,1,1\n", map=["start=strat"])
    assert "did you mean 'start'" in str(caught.value.hint)
    with pytest.raises(UsageError, match="no column of ours"):
        rows(b"id,start\na,1\n", map=["strat=start"])
    with pytest.raises(UsageError, match="no unit"):
        rows(b"id,start\na,1\n", map=["start=start:GB"])
    with pytest.raises(UsageError, match="no mapping"):
        rows(b"id,start\na,1\n", mapping="nobody")


def test_what_is_not_read_is_said() -> None:
    trace = import_bytes(Importer, {"t.csv": b"id,wall_s,colour\na,1,red\n"})
    assert any("columns not read: colour" in word for word in trace.warnings)


def test_missing_is_null_and_rows_of_another_length_are_refused() -> None:
    data = b"id,start,wall_s,cpu_s,cores\na,1704189600,NA,-,none\nb,soon,1,1,1\nc,1704189600,1\n"
    trace = import_bytes(Importer, {"t.csv": data})
    made, other = trace.table("tasks").to_pylist()
    assert made["wall_s"] is made["cpu_s"] is made["requested_cores"] is None
    assert (other["task_id"], other["started_ns"], other["wall_s"]) == ("b", None, 1.0)
    assert any("values are left out: start: not a time: 'soon'" in w for w in trace.warnings)
    assert [r["line"] for r in trace.table("rejects").to_pylist()] == [4]


def test_hostile_numbers() -> None:
    data = b"id,wall_s,exit_code,maxrss_kb\na,1e999,0,1\nb,1,99999999999999999999,1\nc,1,0,1e300\n"
    trace = import_bytes(Importer, {"t.csv": data})
    assert trace.meta["importer"]["records"]["rejected"] == 1  # no time at all
    assert trace.table("tasks")["peak_memory_bytes"].to_pylist() == [1000, None]
    assert trace.table("tasks")["exit_code"].to_pylist() == [None, 0]


def test_states_and_exit_codes() -> None:
    data = b"id,wall_s,state,exit_code\na,1,done,3\nb,1,weird,\nc,1,,0\nd,1,CANCELLED by 5,\n"
    made = rows(data)
    assert [r["outcome"] for r in made] == ["failed", "unknown", "ok", "cancelled"]
    assert made[1]["error"] == "weird"
    assert rows(b"id,wall_s,exit_status\na,1,32512\n")[0]["exit_code"] == 127


def test_equal_ids() -> None:
    data = b"id,task_type,wall_s\n1,a,1\n1,a,2\n1,b,3\n"
    made = rows(data)
    assert [(r["task_id"], r["attempt"]) for r in made] == [("1", 1), ("1", 2), ("b/1", 1)]


def test_dependencies_and_constants() -> None:
    data = b"id,wall_s,needs\na,1,\nb,1,a\nc,1,a;b\n"
    trace = import_bytes(Importer, {"t.csv": data}, map=["depends=needs", "state='ok'"])
    assert trace.table("deps").to_pylist() == [
        {"task_id": "b", "depends_on": "a"},
        {"task_id": "c", "depends_on": "a"},
        {"task_id": "c", "depends_on": "b"},
    ]
    assert trace.table("tasks")["outcome"].to_pylist() == ["ok"] * 3


def test_parquet_with_types() -> None:
    stamps = pa.array([1704189600_000, 1704189660_000], pa.timestamp("ms", tz="UTC"))
    table = pa.table({"id": [1, 2], "start": stamps, "wall_s": [1.5, None], "state": ["ok", "ok"]})
    out = io.BytesIO()
    pq.write_table(table, out)
    made = rows(out.getvalue(), "t.parquet")
    assert made[0]["started_ns"] == 1704189600 * 10**9 and made[1]["wall_s"] is None


def test_a_saved_mapping_works_again(tmp_path: Path) -> None:
    data = b"n,b,d,m\nx,1704189600,5,3\n"
    given = ["id=n", "start=b", "wall=d:s", "peak=m:MiB"]
    path = tmp_path / "mine.json"
    first = rows(data, map=given, save=str(path))
    assert rows(data, mapping=str(path)) == first
    path.write_text("{}")
    with pytest.raises(UsageError, match="no columns"):
        rows(data, mapping=str(path))
    with pytest.raises(UsageError, match="exists"):
        rows(data, map=given, save=str(path))


def test_pbs() -> None:
    trace = import_bytes(Importer, {"acct": PBS})
    one, two, four, three = trace.table("tasks").to_pylist()
    assert one["task_id"] == "7.srv" and one["host"] == "n1" and one["wall_s"] == 60
    assert one["cpu_s"] == 90 and one["peak_memory_bytes"] == 1 << 30
    assert one["requested_memory_bytes"] == 4 << 30 and one["requested_wall_s"] == 3600
    assert one["outcome"] == "ok" and one["requested_cores"] == 2
    assert two["outcome"] == "oom" and two["peak_memory_bytes"] == 2 << 30
    assert three["outcome"] == "running" and three["ended_ns"] is None
    assert four["outcome"] == "cancelled" and four["signal"] == 15
    assert trace.meta["engine"] == "pbs"
    assert trace.meta["importer"]["records"] == {"in": 6, "out": 4, "merged": 2, "rejected": 0}
    json_row = rows(QSTAT, "q.json")[0]
    same = ("task_id", "group", "user", "host", "wall_s", "cpu_s", "peak_memory_bytes", "outcome")
    assert [json_row[c] for c in same] == [one[c] for c in same]


def test_condor() -> None:
    one, two = rows(CONDOR, "h")
    assert one["task_id"] == "5.0" and one["cpu_s"] == 55 and one["outcome"] == "ok"
    assert one["peak_memory_bytes"] == 2000 * 1024 and one["requested_memory_bytes"] == 1 << 30
    assert one["host"] == "node7" and one["user"] == "ann"
    assert two["outcome"] == "oom" and two["peak_memory_bytes"] == 1 << 30
    assert two["peak_memory_kind"] == "lower_bound" and two["ended_ns"] is None
    ads = json.dumps([{"ClusterId": 5, "ProcId": 0, "JobStatus": 3, "QDate": 1704189600,
                       "RemoteWallClockTime": 3.0}]).encode()  # fmt: skip
    assert rows(ads, "h.json")[0]["outcome"] == "cancelled"


def test_grid_engine() -> None:
    one, two = rows(SGE, "accounting")
    assert one["wall_s"] == 60 and one["cpu_s"] == 55.5 and one["requested_cores"] == 4
    assert one["peak_memory_bytes"] == 2 << 20 and one["peak_memory_kind"] == "lower_bound"
    assert one["outcome"] == "ok" and one["requested_wall_s"] == 3600
    assert two["outcome"] == "timeout" and two["task_id"] == "13.3" and two["signal"] == 9
    assert two["peak_memory_bytes"] is None
    one, two = rows(QACCT, "q.txt")
    assert one["wall_s"] == 60 and one["outcome"] == "failed" and one["signal"] == 9
    assert two["outcome"] == "failed" and two["error"] == "opening input/output file"


def test_lsf() -> None:
    one, two = rows(LSF, "lsb.acct")
    assert one["task_id"] == "386" and one["wall_s"] == 60 and one["cpu_s"] == 55.5
    assert one["outcome"] == "ok" and one["granted_cores"] == 2 and one["host"] == "n1"
    assert one["peak_memory_bytes"] == 200 << 20
    assert two["task_id"] == "387[4]" and two["outcome"] == "oom" and two["signal"] == 9
    assert two["cpu_s"] is None and two["host"] == "n2" and two["granted_cores"] == 2
    bjobs = {"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [
        {"JOBID": "9", "STAT": "EXIT", "USER": "ann", "EXIT_CODE": "1", "MAX_MEM": "1.5 Gbytes",
         "RUN_TIME": "12 second(s)", "SUBMIT_TIME": "Jan  2 10:00:00 2024",
         "START_TIME": "Jan  2 10:00:05 2024",
         "FINISH_TIME": "Jan  2 10:00:17 2024 L"}]}  # fmt: skip
    made = rows(json.dumps(bjobs).encode(), "b.json")[0]
    assert made["outcome"] == "failed" and made["wall_s"] == 12
    assert made["peak_memory_bytes"] == round(1.5 * (1 << 30))


def test_workflow_systems() -> None:
    made = rows(AIRFLOW)
    assert [r["outcome"] for r in made] == ["ok", "failed", "cancelled"]
    assert made[1]["task_id"] == "etl.r2.load" and made[1]["attempt"] == 2
    assert made[2]["task_id"] == "etl.r2.skip.0" and made[0]["group"] == "etl.load"
    trace = import_bytes(Importer, {"p.json": PREFECT})
    assert trace.table("tasks")["outcome"].to_pylist() == ["ok", "worker_lost"]
    assert trace.table("deps").to_pylist() == [{"task_id": "b", "depends_on": "a"}]
    made = rows(RAY, "r.json")
    assert [(r["attempt"], r["outcome"]) for r in made] == [(1, "ok"), (2, "oom")]
    assert made[0]["wall_s"] == 2.0 and made[1]["peak_memory_bytes"] == 10**9


def test_a_header_only_and_an_empty_file() -> None:
    assert rows(CSV.split(b"\n")[0] + b"\n") == []
    with pytest.raises(BadInput, match="is empty"):
        rows(b"")


def test_foreign_files_are_left_to_others(rotameter_shared: Path) -> None:
    claimed = set()
    for path in sorted((rotameter_shared / "data" / "formats").rglob("*")):
        for file in open_members(path) if path.is_file() else []:
            if Importer().sniff(Head(file.name, file.head, file.path)) >= reading.SURE:
                claimed.add(path.name)
    assert claimed == {"aws_hpc-cost-simulator_jobs.csv"}
    for path in sorted((rotameter_shared / "bugcases").rglob("*")):
        for file in open_members(path) if path.is_file() else []:
            assert Importer().sniff(Head(file.name, file.head, file.path)) < reading.SURE


def test_real_tables(rotameter_shared: Path) -> None:
    name = "data/formats/slurm_sacct/aws_hpc-cost-simulator_jobs.csv"
    options = {"map": ["cpu=ru_utime+ru_stime", "peak=ru_maxrss:KiB"]}
    trace = reading.read([rotameter_shared / name], format="table", options=options)
    made = trace.table("tasks").to_pylist()
    assert len(made) == 87 and not trace.table("rejects").num_rows
    assert made[1]["cpu_s"] == pytest.approx(0.044691 + 0.168266)
    assert made[1]["peak_memory_bytes"] == 112800 * 1024
    pods = rotameter_shared / "data/gpu/fgd/openb_pod_list_default.csv"
    options = {"map": ["id=name", "submit=creation_time", "start=scheduled_time",
                       "end=deletion_time", "cores=cpu_milli:milli",
                       "request=memory_mib"]}  # fmt: skip
    trace = reading.read([pods], format="table", options=options)
    assert trace.table("tasks")["requested_cores"][0].as_py() == 12.0
    assert trace.table("tasks")["requested_memory_bytes"][0].as_py() == 16 << 30
    lines = len(pods.read_text().splitlines()) - 1
    assert sum(trace.meta["importer"]["records"][k] for k in ("out", "rejected")) == lines
    sizes = sorted((rotameter_shared / "data" / "tasksizing").glob("*.csv"))
    for path in sizes:
        trace = reading.read([path])
        assert trace.table("tasks").num_rows == len(path.read_text().splitlines()) - 1


def test_peaks_of_disk() -> None:
    usage = b"RequestCpus = 1\nDiskUsage_RAW = 7000\nDiskUsage = 7500\nRequestDisk = 9000\n"
    one, two = rows(CONDOR.replace(b"RequestCpus = 1\n", usage), "h")
    assert (one["peak_disk_bytes"], one["peak_disk_kind"]) == (7000 * 1024, "sampled")
    assert one["requested_disk_bytes"] == 9000 * 1024
    assert two["peak_disk_bytes"] is None and two["peak_disk_kind"] is None
    expression = CONDOR.replace(b"RequestCpus = 1\n", b"RequestCpus = 1\nDiskUsage = (1 + 2)\n")
    assert rows(expression, "h")[0]["peak_disk_bytes"] is None
    table = b"id,start,end,state,disk_used\na,1704189600,1704189660,COMPLETED,2 GB\n"
    (row,) = rows(table, map=["peak_disk=disk_used"])
    assert (row["peak_disk_bytes"], row["peak_disk_kind"]) == (2 * 10**9, "sampled")
