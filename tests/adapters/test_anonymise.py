"""No text of a trace survives anonymising, whatever column or fact it is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter import api
from rotameter.adapters.anonymise import Pseudonyms, anonymise
from rotameter.adapters.exporters.csv import Exporter as Csv
from rotameter.adapters.exporters.parquet import Exporter as Parquet
from rotameter.errors import RotameterError, UsageError
from rotameter.profiler.schema import TABLES
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace

KEY = b"a key for tests"
MARK = "Zmarker"


def planted() -> Trace:
    """A trace with a marker in every text, of many shapes."""
    shapes = ("{}", "/data/{}/x.{}", "s3://{}/a/{}.csv", "tcp://{}:80", "a {} b", "ValueError: {}",
              "{}: oops", r"C:\{}\y.txt", "('{}-1', 0)")  # fmt: skip
    tables: dict[str, list[dict[str, Any]]] = {}
    count = 0
    for table, columns in TABLES.items():
        rows = []
        for shape in shapes:
            row: dict[str, Any] = {}
            for name, kind in columns:
                count += 1
                if kind == "s":
                    mark = f"{MARK}{count}"
                    row[name] = shape.replace("{}", mark)
                elif kind == "m":
                    row[name] = {f"{MARK}{count}": 1.0}
                else:
                    row[name] = True if kind == "b" else 5
            rows.append(row)
        tables[table] = rows
    mark = MARK + "meta"
    meta = {
        "origin": mark, "engine": mark, "time_base": mark, "command": ["run", mark],
        "run": {"status": mark, "error": f"ValueError: {mark}", mark: mark, "exit_code": 1},
        "versions": {"python": "3.11.7", "dask": mark, mark: "1.0", "torch": f"2.1+{mark}"},
        "machines": [{"host": mark, "system": mark, "cores": 4, "memory_bytes": 5, mark: 1}],
        "processes": [{"host": mark}], "warnings": [mark], "not_measured": [mark, {"what": mark}],
        "overhead": {"encode_s": 1.0, mark: 2.0}, "scale": {mark: 3.0}, "input": {"files": [mark]},
        "importer": {"name": mark, "version": mark, "records": {"in": 1, mark: 2}},
        "levels": {mark: mark}, mark: mark, "header": {mark: [mark]}, "dropped": mark,
    }  # fmt: skip
    return Trace.from_tables(tables, meta)


def all_bytes(folder: Path) -> bytes:
    """Everything that is in a folder, Parquet unpacked as well."""
    out = b""
    for path in folder.rglob("*"):
        if path.is_file():
            out += str(path).encode() + path.read_bytes()
            if path.suffix == ".parquet":
                out += str(pq.read_table(path).to_pydict()).encode()
                out += str(pq.read_schema(path).metadata).encode()
    return out


def test_nothing_survives(tmp_path: Path) -> None:
    bare = anonymise(planted(), key=KEY)
    bare.save(tmp_path / "out.rmt")
    for table in TABLES:
        Csv().write(bare, str(tmp_path / f"{table}.csv"), table=table)
        Parquet().write(bare, str(tmp_path / f"{table}.parquet"), table=table)
    found = all_bytes(tmp_path)
    assert MARK.encode() not in found and MARK.lower().encode() not in found.lower()
    assert KEY not in found
    assert bare.meta["versions"] == {"python": "3.11.7", "torch": "2.1"}


@settings(max_examples=30)
@given(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=8))
def test_no_text_survives(text: str) -> None:
    text = f"§{text}§"
    tables = {
        name: [{c: text for c, kind in columns if kind == "s"}] for name, columns in TABLES.items()
    }
    bare = anonymise(Trace.from_tables(tables, {"x": text}), key=KEY)
    said = str({name: bare.table(name).to_pylist() for name in TABLES}) + str(bare.meta)
    assert text not in said and "§" not in said


def test_structure_stays() -> None:
    trace = Trace.from_tables(
        {
            "tasks": [
                {"task_id": "a", "group": "g", "worker": "w", "host": "h", "outcome": "ok",
                 "wall_s": 2.0, "started_ns": 5, "ended_ns": 7, "error": "MemoryError: no"},
                {"task_id": "b", "group": "g", "worker": "w", "outcome": "weird"},
            ],
            "deps": [{"task_id": "b", "depends_on": "a"}],
            "flows": [
                {"task_id": "b", "object": "/home/ann/x.fastq.gz", "medium": "file", "op": "read",
                 "peer": "w"},
                {"task_id": "b", "object": "a", "medium": "network", "op": "read"},
            ],
            "samples": [{"subject": "w", "metric": "memory_bytes", "value": 1.0}],
        }
    )  # fmt: skip
    bare = anonymise(trace, key=KEY)
    tasks = bare.table("tasks").to_pylist()
    flows = bare.table("flows").to_pylist()
    assert bare.table("deps").to_pylist() == [
        {"task_id": tasks[1]["task_id"], "depends_on": tasks[0]["task_id"]}
    ]
    assert tasks[0]["group"] == tasks[1]["group"] and tasks[0]["wall_s"] == 2.0
    assert tasks[0]["error"].startswith("MemoryError: text-")
    assert [t["outcome"] for t in tasks] == ["ok", "unknown"]
    assert flows[0]["peer"] == tasks[0]["worker"] == bare.table("samples")["subject"][0].as_py()
    assert flows[1]["object"] == tasks[0]["task_id"]
    assert flows[0]["object"].endswith(".fastq.gz") and flows[0]["object"].count("/") == 3
    before, after = stats(trace), stats(bare)
    assert {**after, "outcomes": 0} == {**before, "outcomes": 0}


def test_keys_and_shifts() -> None:
    trace = Trace.from_tables({"tasks": [{"task_id": "a", "user": "ann", "started_ns": 10**18}]})
    one, two = (anonymise(trace, key=KEY).table("tasks") for _ in range(2))
    assert one.equals(two)
    assert not anonymise(trace).table("tasks").equals(anonymise(trace).table("tasks"))
    assert (
        anonymise(trace, key=KEY, shift_ns=-5).table("tasks")["started_ns"][0].as_py() == 10**18 - 5
    )
    assert anonymise(trace, key=KEY, shift_ns=None).table("tasks")["started_ns"][0].as_py() == 0
    with pytest.raises(UsageError, match="too short"):
        anonymise(trace, key=b"abc")


def test_paths() -> None:
    names = Pseudonyms(KEY)
    assert names.path("/a/b") != names.path("/a/c") and names.path("/a/b").count("/") == 2
    assert names.path("/a/b").rpartition("/")[0] == names.path("/a/c").rpartition("/")[0]
    assert "ann" not in names.path("x.ann") and names.path("../x.csv").startswith("../")
    assert names.path("s3://bucket/k.parquet").startswith("s3://")


INPUTS = {
    "pbs.log": (
        "01/02/2024 10:05:00;E;8.{0}host;user={0}user jobname={0}job queue={0}q account={0}acc "
        "ctime=1704189600 start=1704189700 exec_host={0}node/0 end=1704189800 Exit_status=1 "
        "resources_used.walltime=00:01:40\n"
    ),
    "table.csv": (
        "id,task_type,wall_s,user,host,queue,state\n"
        "{0}id,{0}type,5,{0}user,{0}host,{0}q,{0}state\n"
    ),
    "task_instance.json": json.dumps(
        [{"dag_id": "{0}dag", "task_id": "{0}t", "run_id": "{0}r", "hostname": "{0}h",
          "unixname": "{0}u", "start_date": "2024-01-02T10:00:00Z", "state": "success"}]
    ),
    "condor.ads": (
        'ClusterId = 5\nProcId = 1\nJobStatus = 5\nHoldReason = "{0}reason"\nOwner = "{0}user"\n'
        'Cmd = "/home/{0}dir/run.sh"\nQDate = 1704189600\nJobCurrentStartDate = 1704189605\n'
        'LastRemoteHost = "slot1@{0}host"\nJobBatchName = "{0}batch"\n\n'
    ),
    "chrome.json": json.dumps(
        {"traceEvents": [{"name": "{0}name", "ph": "X", "ts": 1, "dur": 5, "pid": 1, "tid": 2,
                          "cat": "{0}cat", "args": {"path": "/home/{0}dir/x"}}]}
    ),
    "trace.txt": (
        "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\n"
        "1\tab/cdef01\t12\t{0}proc ({0}sample)\tCOMPLETED\t0\t2024-01-02 10:00:00.000\t5s\t4s\t90%"
        "\t10 MB\n"
    ),
    "sacct.txt": (
        "JobID|JobName|User|Account|Partition|State|Submit|Start|End|Elapsed|NodeList|ExitCode\n"
        "12|{0}job|{0}user|{0}acc|{0}part|FAILED|2024-01-02T10:00:00|2024-01-02T10:00:05|"
        "2024-01-02T10:01:05|00:01:00|{0}node1|1:0\n"
    ),
}  # fmt: skip


def test_inputs_of_other_tools(tmp_path: Path) -> None:
    """Seven inputs, each with names planted; what no importer here knows is counted out."""
    done = 0
    for name, text in INPUTS.items():
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        source = folder / f"{MARK}-{name}"
        source.write_text(text.replace("{0}", MARK))
        try:
            trace = api.open(source)
        except RotameterError as error:
            assert name in ("chrome.json", "trace.txt", "sacct.txt"), error
            continue
        said = str(trace.table("tasks").to_pylist())
        assert MARK in said, name
        out = folder / "out.rmt"
        anonymise(trace).save(out)
        source.unlink()
        place = b"".join(
            p.read_bytes() + str(pq.read_table(p).to_pydict()).encode()
            if p.suffix == ".parquet"
            else p.read_bytes()
            for p in out.rglob("*")
            if p.is_file()
        )
        assert MARK.encode() not in place, name
        done += 1
    assert done >= 5


def _kineto() -> Trace:
    from rotameter.adapters.importers.kineto import Importer
    from rotameter.testing import import_bytes

    at = 1_700_000_000_000_000
    place = {"device": 0, "stream": 7}

    def event(cat: str, name: str, ts: int, dur: int, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 9 if tid == 1 else 0, "tid": tid,
                "ts": at + ts, "dur": dur, "args": args}  # fmt: skip

    events = [
        event("user_annotation", f"ProfilerStep#{MARK}", 0, 900, 1),
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, 1, correlation=1),
        event("kernel", f"{MARK}_gemm", 20, 50, 7, **place, correlation=1),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 300, 10, 7, **place, bytes=5000),
        event("kernel", "ncclDevKernel_AllReduce", 310, 50, 8, device=0, stream=8),
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 1, "ts": at,
         "s": "t", "args": {"Device Type": 1, "Device Id": 0, "Total Allocated": 50, "Bytes": 5}},
    ]  # fmt: skip
    model = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "warpSize": 32}
    header = {"schemaVersion": 1, "deviceProperties": [model], "distributedInfo": {"rank": 0}}
    document = {**header, "traceEvents": events}
    return import_bytes(Importer, {f"{MARK}.json": json.dumps(document).encode()})


def _leaves(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, list)):
        return [leaf for item in items for leaf in _leaves(item)]
    return [value]


def _keys(value: Any) -> set[str]:
    found = set(value) if isinstance(value, dict) else set()
    items = value.values() if isinstance(value, dict) else value
    return found.union(*(_keys(item) for item in items if isinstance(item, (dict, list))))


def test_a_gpu_timeline_keeps_its_figures_and_loses_its_names() -> None:
    trace = _kineto()
    bare = anonymise(trace, key=KEY)
    whole, kept = trace.meta["device_timeline"], bare.meta["device_timeline"]
    assert MARK not in json.dumps(bare.meta) and MARK not in str(bare.table("intervals"))
    assert bare.meta["anonymised"]["texts_of_timeline"] == 0, "a word that is not on the list"
    assert _keys(kept) == _keys(whole) and len(_leaves(kept)) == len(_leaves(whole))
    for one, other in zip(_leaves(whole), _leaves(kept), strict=True):
        assert one == other or any(word in one for word in (MARK, "nccl", "rank 0"))
    was, now = stats(trace)["devices"], stats(bare)["devices"]
    assert [{**row, "worker": None} for row in was] == [{**row, "worker": None} for row in now]
    assert now[0]["worker"] == bare.table("tasks")["worker"][0].as_py() != "rank 0"
    kernels = {one["name"] for one in kept["ranks"][0]["devices"][0]["kernels"]["top"]}
    assert kernels and kernels <= set(bare.table("intervals")["name"].to_pylist())
    lanes = set(bare.table("intervals")["lane"].to_pylist())
    assert {"device 0 stream 7", "device 0 stream 8"} < lanes
    (flow,) = bare.table("flows").to_pylist()
    assert (flow["object"], flow["tier"], flow["peer"]) == ("device 0", "pinned", "host")
    (sample,) = bare.table("samples").to_pylist()
    assert sample["subject"] == f"{now[0]['worker']} device 0"
    assert sample["metric"] == "allocator_allocated_bytes"


def test_a_timeline_of_someone_else_tells_nothing() -> None:
    deep: Any = MARK
    for _ in range(50):
        deep = [deep]
    ranks = [{"worker": f"{MARK}1", "rank": 3, MARK: 1.0, "words": f"device {MARK}", "file": MARK,
              "devices": [{"name": f"NVIDIA {MARK}", "device": MARK, "busy_s": 2.0,
                           "kernels": {"top": [{"name": MARK, "why": MARK}]},
                           "transfers": {"series": {MARK: [[0, 1]]}}, "streams": deep}]},
             MARK]  # fmt: skip
    for timeline in ({"ranks": ranks}, MARK, [MARK], {"ranks": MARK}, {MARK: {}}, 5):
        bare = anonymise(Trace.from_tables({}, {"device_timeline": timeline}), key=KEY)
        assert MARK not in json.dumps(bare.meta)
    bare = anonymise(Trace.from_tables({}, {"device_timeline": {"ranks": ranks}}), key=KEY)
    assert bare.meta["device_timeline"]["ranks"][0]["rank"] == 3
    assert bare.meta["anonymised"]["texts_of_timeline"] == 7


def test_the_makespan_that_an_input_states_stays() -> None:
    trace = Trace.from_tables({"tasks": [{"task_id": "a", "wall_s": 1.0}]}, {"makespan_s": 7.5})
    assert stats(anonymise(trace))["makespan_s"] == 7.5
