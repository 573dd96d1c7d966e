"""Nsight Systems exports: any of the tables, ranges that nest, GPU time counted once."""

import gzip
import hashlib
import sqlite3
from contextlib import closing

import pytest
from tests.property.grammars.nsys import TABLES

from rotameter.adapters.importers import reading
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.nsys import Importer
from rotameter.errors import BadInput, RotameterError
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head

PID = 77
GLOBAL = PID << 24
THREAD = GLOBAL + 78
EPOCH = 1_700_000_000 * 10**9
DATA = {
    "StringIds": [(1, "fwd"), (2, "gemm"), (3, "ncclDevKernel_AllReduce"), (4, "cudaLaunchKernel"),
                  (5, "cudaStreamSynchronize"), (6, "main")],
    "NVTX_EVENTS": [
        (100, 900, 59, THREAD, "step", None, None),
        (200, 500, 59, THREAD, None, 1, None),
        (150, None, 60, THREAD, "load", None, None),
        (300, None, 34, THREAD, "here", None, None),
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        (210, 220, THREAD, 1, 4, 0), (230, 240, THREAD, 2, 4, 0), (600, 650, THREAD, 3, 5, 0),
        (950, 960, THREAD, 4, 4, 2),
    ],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        (300, 400, 0, 7, 1, GLOBAL, 2, 2), (350, 600, 0, 8, 2, GLOBAL, 3, 3),
        (1000, 1100, 0, 7, 4, GLOBAL, 2, 2),
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [(700, 710, 0, 7, 3, GLOBAL, 4096, 1)],
    "TARGET_INFO_SESSION_START_TIME": [(EPOCH,)],
    "TARGET_INFO_GPU": [(0, "NVIDIA T4")],
    "ThreadNames": [(6, THREAD)],
    "PROCESSES": [(GLOBAL, PID, "python")],
    "ANALYSIS_DETAILS": [(10_000, 12_000)],
}  # fmt: skip


def export(path=None, tables=None, **changes):
    """Make an export; a change to None leaves a table out."""
    chosen = {**DATA, **changes}
    with closing(sqlite3.connect(path or ":memory:")) as base:
        for name, rows in chosen.items():
            if rows is None or (tables is not None and name not in tables):
                continue
            columns = ", ".join(f'"{column}"' for column in TABLES[name])
            base.execute(f"CREATE TABLE {name} ({columns})")
            for row in rows:
                base.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        base.commit()
        return None if path else base.serialize()


def read(data):
    return import_bytes(Importer, {"report.sqlite": data})


def rows(trace, table="tasks"):
    return trace.table(table).to_pylist()


def test_conformance():
    samples = {"full.sqlite": export(), "kernels.sqlite": export(NVTX_EVENTS=None),
               "ranges.sqlite": export(tables=("StringIds", "NVTX_EVENTS"))}  # fmt: skip
    check_importer(Importer, samples, text=False, cuts=10)


def test_ranges_are_tasks_and_nest():
    trace = read(export())
    found = {row["group"]: row for row in rows(trace)}
    assert set(found) == {"step", "fwd", "load"}
    assert found["fwd"]["parent"] == found["step"]["task_id"]
    assert found["load"]["parent"] is None
    assert found["step"]["started_ns"] == EPOCH + 100
    assert found["step"]["wall_s"] == 800e-9
    assert found["step"]["worker"] == "python 77"
    assert (found["load"]["outcome"], found["load"]["ended_ns"]) == ("running", EPOCH + 2000)
    assert any("without an end" in text for text in trace.warnings)


def test_device_time_of_a_range_is_a_union():
    trace = read(export())
    found = {row["group"]: row["gpu_s"] for row in rows(trace)}
    assert found["fwd"] == pytest.approx(300e-9)  # 300..600, not 100 + 250
    assert found["step"] == pytest.approx(310e-9)  # and the copy
    assert found["load"] == 0


def test_kernels_copies_calls_and_marks():
    trace = read(export())
    made = {
        (r["kind"], r["name"], r["lane"], r["bytes"], r["end_ns"] - r["start_ns"])
        for r in rows(trace, "intervals")
        if r["kind"] != "span"
    }
    assert made == {
        ("kernel", "gemm", "device 0 stream 7", None, 100),
        ("communication", "ncclDevKernel_AllReduce", "device 0 stream 8", None, 250),
        ("transfer", "Host-to-Device", "device 0 stream 7", 4096, 10),
        ("stall", "cudaStreamSynchronize", "main 78", None, 50),
    }
    (flow,) = rows(trace, "flows")
    assert (flow["op"], flow["bytes"], flow["ops"], flow["medium"]) == ("write", 4096, 1, "device")
    (event,) = rows(trace, "events")
    assert (event["kind"], event["subject"]) == ("instant", "here")
    assert rows(trace, "workers")[0]["devices"] == "0: NVIDIA T4"
    assert trace.meta["nsys"]["report"]["failed_calls"] == 1
    assert trace.meta["importer"]["records"] == {"in": 12, "out": 12, "merged": 0, "rejected": 0}


def test_without_ranges_the_device_work_is_the_tasks():
    trace = read(export(NVTX_EVENTS=None))
    assert sorted(row["group"] for row in rows(trace)) == [
        "Host-to-Device", "gemm", "gemm", "ncclDevKernel_AllReduce",
    ]  # fmt: skip
    assert any("no NVTX" in text for text in trace.warnings)


def test_times_without_a_start_are_relative():
    trace = read(export(TARGET_INFO_SESSION_START_TIME=None))
    assert trace.meta["time_base"] == "relative_ns"
    assert min(row["started_ns"] for row in rows(trace)) == 0


def test_times_exported_as_epoch_are_not_shifted_twice():
    trace = read(export(NVTX_EVENTS=[(EPOCH + 5, EPOCH + 9, 59, THREAD, "a", None, None)]))
    assert rows(trace)[0]["started_ns"] == EPOCH + 5


@pytest.mark.parametrize("table", sorted(DATA))
def test_any_table_may_be_missing(table):
    trace = read(export(**{table: None}))
    assert trace.table("tasks").num_rows


def test_records_that_cannot_be_are_rejected():
    trace = read(export(NVTX_EVENTS=[
        (100, 50, 59, THREAD, "back", None, None), (None, 50, 59, THREAD, "none", None, None),
        ("x", 50, 59, THREAD, "text", None, None), (2**62, None, 59, THREAD, "far", None, None),
        (1, 2, 59, None, None, 99, None),
    ]))  # fmt: skip
    assert trace.table("rejects").num_rows == 4
    (row,) = [row for row in rows(trace) if row["source"] == "nsys" and row["wall_s"] == 1e-9]
    assert row["group"] is None and row["worker"] is None


def test_the_file_is_neither_changed_nor_kept_open(tmp_path):
    path = tmp_path / "r.sqlite"
    export(str(path))
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    reading.read([path])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.sqlite"]
    packed = tmp_path / "r.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert reading.read([packed]).table("tasks").num_rows == 3


@pytest.mark.timeout(30)
def test_a_locked_file_is_said_soon(tmp_path):
    path = tmp_path / "r.sqlite"
    export(str(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BadInput, match="locked"):
            reading.read([path], format="nsys")


def test_damaged_and_foreign_databases_are_refused(tmp_path):
    data = export()
    with pytest.raises(BadInput):
        read(data[:5000] + b"\xff" * 3000 + data[8000:12_000])
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("CREATE TABLE task (task_id)")
        base.commit()
        other = base.serialize()
    assert Importer().sniff(Head("monitoring.db", other)) < 0.5
    with pytest.raises(BadInput, match="no Nsight"):
        read(other)


def test_a_view_of_the_file_is_never_run():
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("CREATE TABLE StringIds (id, value)")
        base.execute(
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS "
            "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n"
        )
        base.commit()
        trace = read(base.serialize())
    assert trace.table("tasks").num_rows == 0


def test_real_export(rotameter_shared):
    path = rotameter_shared / "data/gpu/nsys/nsight-2025.5.2.sqlite"
    trace = reading.read([path])
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as base:
        count = {
            name: base.execute(f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{name}").fetchone()[0]
            for name in ("KERNEL", "MEMCPY", "GRAPH_TRACE", "RUNTIME", "SYNCHRONIZATION")
        }
        busy = base.execute('SELECT sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone()
        start = base.execute("SELECT min(start) FROM CUPTI_ACTIVITY_KIND_MEMCPY").fetchone()[0]
        epoch = base.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()[0]
    assert trace.meta["importer"]["records"]["in"] == sum(count.values()) == 41
    made = rows(trace, "intervals")
    kernels = [r for r in made if r["name"] == "add_one"]
    assert len(kernels) == count["KERNEL"] == 3
    assert sum(r["end_ns"] - r["start_ns"] for r in kernels) == busy[0]
    (copy,) = [r for r in made if r["kind"] == "transfer"]
    assert (copy["bytes"], copy["start_ns"]) == (4096, epoch + start)
    assert trace.meta["nsys"]["nsight-2025.5.2"]["not_read"] == {"OSRT_API": 654}


def test_sniffing_knows_its_own_files_only(rotameter_shared):
    for folder in ("data/formats", "data/gpu", "bugcases"):
        for path in sorted((rotameter_shared / folder).rglob("*")):
            if not path.is_file():
                continue
            try:
                members = open_members(path)
            except RotameterError:
                continue
            for file in members:
                sure = Importer().sniff(Head(file.name, file.head, file.path))
                assert (sure >= 0.5) == ("/nsys/" in file.name), file.name
