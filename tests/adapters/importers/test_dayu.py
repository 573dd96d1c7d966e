"""DaYu's VFD and VOL files: exact sums per task, file and dataset; facts of datasets; odd JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import rotameter as rm
from rotameter.adapters.importers.dayu import Importer
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.reading import sniff
from rotameter.errors import BadInput, UsageError
from rotameter.profiler.trace import Trace
from rotameter.testing import check_importer, import_bytes

T0 = 1_711_558_432_000_000
NONE = {"read_bytes": 0, "read_cnt": 0, "read_ranges": {}}
NO_WRITE = {"write_bytes": 0, "write_cnt": 0, "write_ranges": {}}


def wrote(size: int, calls: int, **ranges: list[int]) -> dict[str, Any]:
    pages = {key.removeprefix("p"): value for key, value in ranges.items()}
    return {**NONE, "write_bytes": size, "write_cnt": calls, "write_ranges": pages}


def read(size: int, calls: int, **ranges: list[int]) -> dict[str, Any]:
    pages = {key.removeprefix("p"): value for key, value in ranges.items()}
    return {"read_bytes": size, "read_cnt": calls, "read_ranges": pages, **NO_WRITE}


def vfd(
    file: str,
    task: str,
    times: tuple[int, int],
    data: dict[str, Any],
    metadata: dict[str, Any],
    so_far: tuple[float, float] = (0.0, 0.0),
    **more: Any,
) -> dict[str, Any]:
    parts = [p for sets in (data, metadata) for kinds in sets.values() for p in kinds.values()]
    sums = {key: sum(p[key] for p in parts) for key in ("read_cnt", "write_cnt")}
    record = {
        "file_name": file,
        "task_name": task,
        "node_id": "n5",
        "open_time(us)": float(T0 + times[0]),
        "close_time(us)": float(T0 + times[1]),
        "file_intent": ["'H5F_ACC_RDWR','H5F_ACC_TRUNC'"],
        "file_read_cnt": sums["read_cnt"],
        "file_write_cnt": sums["write_cnt"],
        "io_bytes": sum(p["read_bytes"] + p["write_bytes"] for p in parts),
        "file_size": 9000,
        "data": [data],
        "metadata": [metadata],
        **more,
    }
    state = {
        "task_name": task,
        "task_id": int(task.rpartition("-")[2]),
        "tracker_vfd_page_size": 4096,
        "POSIX-READ-Time(us)": so_far[0],
        "POSIX-WRITE-Time(us)": so_far[1],
    }
    return {"file-1": record, "Task": state}


MADE = vfd(
    "/s/a.h5",
    "make-71",
    (0, 100),
    {"x": {"H5FD_MEM_DRAW": wrote(8000, 3, p1=[0, 1], p2=[1, 1], p3=[1, 1])}, "y": {}},
    {
        "x": {"H5FD_MEM_OHDR": wrote(50, 2, p4=[0, 0], p5=[0, 0])},
        "file": {"H5FD_MEM_SUPER": wrote(48, 1, p6=[0, 0])},
    },
    (0.0, 30.0),
)
USED = [
    vfd(
        "/s/a.h5",
        "use-72",
        (200, 260),
        {"x": {"H5FD_MEM_DRAW": read(8000, 1, p1=[0, 1])}},
        {"file": {"H5FD_MEM_SUPER": read(8, 1, p2=[0, 0])}},
        (40.0, 0.0),
    ),
    vfd(
        "/s/a.h5",
        "use-72",
        (300, 350),
        {"x": {"H5FD_MEM_DRAW": read(4000, 1, p1=[0, 0])}},
        {},
        (45.0, 0.0),
    ),
]
DATASET = {
    "dset_name": "x",
    "start_time": T0 + 10,
    "end_time": T0 + 90,
    "dt_class": "H5T_FLOAT",
    "layout": "H5D_CHUNKED",
    "storage_size": 0,
    "dset_n_elements": 1000,
    "dimensions": [10, 100],
    "dset_type_size": 8,
    "dataset_read_cnt": 0,
    "dataset_write_cnt": 1,
}
VOL = [
    {"file-0": {"file_name": "/s/a.h5", "task_name": "make-71", "datasets": [DATASET]}},
    {
        "file-2": {
            "file_name": "/s/a.h5",
            "open_time(us)": T0 - 5,
            "close_time(us)": T0 + 99,
            "file_size": 9000,
            "header_size": 2048,
            "ds_accessed": 1,
        }
    },
    {"Task": {"task_name": "make-71", "VOL-Overhead(us)": 3}},
]
ORDER = {"0": "make", "1": "use", "2": "plot"}
LISTED = {
    "use-72": {"order": 1, "io_cnt": 3, "input": ["/s/a.h5"], "output": []},
    "plot-80": {"order": 2, "io_cnt": 3, "input": ["/s/a.h5"], "output": ["/s/p.h5"]},
}


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent="\t").encode()


FOLDER = {
    "run/71-vfd_data_stat.json": as_json([MADE]),
    "run/71-vol_data_stat.json": as_json(VOL),
    "run/72-vfd_data_stat.json": as_json(USED),
    "run/run-task_to_file.json": as_json(LISTED),
    "run/task_order_list.json": as_json(ORDER),
}


def flows(trace: Trace) -> dict[tuple[str, str, str | None, str], dict[str, Any]]:
    return {
        (r["task_id"], r["object"], r["peer"], r["op"]): r for r in trace.table("flows").to_pylist()
    }


def test_conformance() -> None:
    samples = {name.rpartition("/")[2]: data for name, data in FOLDER.items()}
    check_importer(Importer, samples, cuts=20)


def test_one_folder_is_one_run() -> None:
    trace = import_bytes(Importer, FOLDER)
    tasks = {r["task_id"]: r for r in trace.table("tasks").to_pylist()}
    assert sorted(tasks) == ["make-71", "plot-80", "use-72"]
    make, use, plot = tasks["make-71"], tasks["use-72"], tasks["plot-80"]
    assert (make["group"], make["host"], make["worker"]) == ("make", "n5", "n5:71")
    assert (make["read_bytes"], make["write_bytes"], make["io_kind"]) == (0, 8098, "exact")
    assert (use["read_bytes"], use["write_bytes"]) == (12008, 0)
    assert make["started_ns"] == (T0 - 5) * 1000 and make["ended_ns"] == (T0 + 100) * 1000
    assert make["io_s"] == pytest.approx(30e-6) and use["io_s"] == pytest.approx(45e-6)
    assert [dict(t["features"])["stage_order"] for t in (make, use, plot)] == [0, 1, 2]
    assert plot["read_bytes"] is None and plot["io_kind"] is None and plot["started_ns"] is None
    records = trace.meta["importer"]["records"]
    assert records == {"in": 10, "out": 3, "merged": 7, "rejected": 0}


def test_flows_are_exact_and_add_up() -> None:
    found = flows(import_bytes(Importer, FOLDER))
    made = found["make-71", "/s/a.h5", "x", "write"]
    assert (made["bytes"], made["ops"]) == (8050, 5)
    # The object level knows when the dataset was used, the file level when the file was open.
    assert made["first_ns"] == (T0 + 10) * 1000 and made["last_ns"] == (T0 + 90) * 1000
    assert found["make-71", "/s/a.h5", None, "write"]["bytes"] == 48
    used = found["use-72", "/s/a.h5", "x", "read"]
    assert (used["bytes"], used["ops"]) == (12000, 2)
    assert used["footprint_bytes"] == 8192  # two pages, read twice
    assert found["use-72", "/s/a.h5", None, "metadata"]["ops"] == 1
    assert found["make-71", "/s/a.h5", None, "metadata"]["ops"] == 3
    assert found["plot-80", "/s/p.h5", None, "write"]["bytes"] is None
    busy = [r["busy_s"] for key, r in found.items() if key[0] == "use-72" and key[3] == "read"]
    assert sum(busy) == pytest.approx(45e-6)
    # y was not touched.
    assert not any(key[2] == "y" for key in found)


def test_facts_of_datasets_and_metadata_share() -> None:
    trace = import_bytes(Importer, FOLDER)
    facts = {(r["subject"], r["metric"]): r["value"] for r in trace.table("samples").to_pylist()}
    assert facts["/s/a.h5::x", "dataset_bytes"] == 8000
    assert facts["/s/a.h5::x", "layout_chunked"] == 1 and facts["/s/a.h5::x", "dimension_2"] == 100
    assert ("/s/a.h5::x", "dataset_stored_bytes") not in facts
    assert facts["make-71", "metadata_bytes"] == 98 and facts["make-71", "metadata_ops"] == 3
    assert facts["make-71", "metadata_share_ratio"] == pytest.approx(98 / 8098)
    objects = {r["object"]: r for r in trace.table("objects").to_pylist()}
    assert objects["/s/a.h5"]["size_bytes"] == 9000
    assert objects["/s/a.h5"]["created_ns"] == T0 * 1000


def test_datasets_as_objects() -> None:
    trace = import_bytes(Importer, FOLDER, objects="datasets")
    names = set(trace.table("flows")["object"].to_pylist())
    assert names == {"/s/a.h5", "/s/a.h5::x", "/s/p.h5"}
    with pytest.raises(UsageError):
        import_bytes(Importer, FOLDER, objects="pages")


def test_the_object_level_alone() -> None:
    trace = import_bytes(Importer, {"71-vol_data_stat.json": as_json(VOL)})
    (row,) = trace.table("flows").to_pylist()
    assert (row["ops"], row["bytes"], row["op"]) == (1, None, "write")
    (task,) = trace.table("tasks").to_pylist()
    assert task["write_bytes"] is None and task["io_kind"] is None


def test_time_is_not_shared_out_between_files_open_at_once() -> None:
    one = vfd("/a", "t-1", (0, 100), {"x": {"H5FD_MEM_DRAW": read(10, 1)}}, {}, (5.0, 0.0))
    two = vfd("/b", "t-1", (50, 150), {"x": {"H5FD_MEM_DRAW": read(10, 1)}}, {}, (9.0, 0.0))
    three = vfd("/c", "t-1", (150, 160), {"x": {"H5FD_MEM_DRAW": read(10, 1)}}, {}, (10.0, 0.0))
    trace = import_bytes(Importer, {"1-vfd_data_stat.json": as_json([one, two, three])})
    busy = {key[1]: r["busy_s"] for key, r in flows(trace).items()}
    assert busy == {"/a": None, "/b": None, "/c": pytest.approx(1e-6)}
    assert trace.table("tasks")["io_s"].to_pylist() == [pytest.approx(10e-6)]


def test_one_process_runs_tasks_one_after_the_other() -> None:
    one = vfd("/a", "first-9", (0, 10), {"x": {"H5FD_MEM_DRAW": read(10, 1)}}, {}, (5.0, 0.0))
    two = vfd("/a", "second-9", (20, 30), {"x": {"H5FD_MEM_DRAW": read(30, 1)}}, {}, (7.0, 0.0))
    trace = import_bytes(Importer, {"9-vfd_data_stat.json": as_json([one, two])})
    tasks = {r["task_id"]: r for r in trace.table("tasks").to_pylist()}
    assert tasks["first-9"]["io_s"] == pytest.approx(5e-6)
    assert tasks["second-9"]["io_s"] == pytest.approx(2e-6)
    assert tasks["second-9"]["read_bytes"] == 30


def test_a_file_may_hold_tasks_of_other_processes() -> None:
    record = vfd("/a", "child-11", (0, 10), {"x": {"H5FD_MEM_DRAW": read(10, 1)}}, {})
    trace = import_bytes(Importer, {"9-vfd_data_stat.json": as_json([record])})
    (task,) = trace.table("tasks").to_pylist()
    assert (task["task_id"], task["group"], task["run_id"]) == ("child-11", "child", "11")


def test_what_datasets_do_not_add_up_to() -> None:
    data = {"x": {"H5FD_MEM_DRAW": read(10, 1)}}
    more = vfd("/a", "t-1", (0, 9), data, {}, io_bytes=25, file_read_cnt=3)
    found = flows(import_bytes(Importer, {"1-vfd_data_stat.json": as_json([more])}))
    assert found["t-1", "/a", None, "read"]["bytes"] == 15
    assert found["t-1", "/a", None, "read"]["ops"] == 2
    both = vfd("/a", "t-1", (0, 9), data, {}, io_bytes=25, file_read_cnt=1, file_write_cnt=1)
    trace = import_bytes(Importer, {"1-vfd_data_stat.json": as_json([both])})
    assert any("not the sum of their datasets: 1" in w for w in trace.warnings)
    assert trace.table("tasks")["io_kind"].to_pylist() == ["lower_bound"]


def test_datasets_of_one_name_in_several_groups() -> None:
    part = json.dumps({"H5FD_MEM_DRAW": read(10, 1)})
    record = vfd("/a", "t-1", (0, 9), {}, {}, io_bytes=20, file_read_cnt=2)
    text = json.dumps([record]).replace('"data": [{}]', f'"data": [{{"x": {part}, "x": {part}}}]')
    assert text.count('"x"') == 2
    found = flows(import_bytes(Importer, {"1-vfd_data_stat.json": text.encode()}))
    assert {key[2]: (r["bytes"], r["ops"]) for key, r in found.items()} == {"x": (20, 2)}


def test_odd_json() -> None:
    good = json.dumps(MADE)
    whole = import_bytes(Importer, {"71-vfd_data_stat.json": f"[{good}]".encode()})
    for text in (
        f"[\n{good},\n]",
        f"[{good[:-1]},}},]",
        good,
        f"{good}\n",
        f"[{good}",
        f"\x00{good}]]",
    ):
        again = import_bytes(Importer, {"71-vfd_data_stat.json": text.encode()})
        assert again.table("flows").equals(whole.table("flows")), text[:20]
        assert again.meta["importer"]["records"]["rejected"] == 0
    second = json.dumps(USED[0])
    joined = import_bytes(Importer, {"71-vfd_data_stat.json": f"[{good}][{second}]".encode()})
    assert joined.table("tasks").num_rows == 2
    cut = f"[\n{good[: len(good) // 2]}\n{second},\n{good[:-30]}"
    part = import_bytes(Importer, {"71-vfd_data_stat.json": cut.encode()})
    assert part.table("tasks")["task_id"].to_pylist() == ["use-72"]
    lines = part.table("rejects")["line"].to_pylist()
    assert lines == [2, 4]


def test_older_units() -> None:
    record = json.loads(json.dumps(MADE).replace("_time(us)", "_time"))
    trace = import_bytes(Importer, {"71-vfd_data_stat.json": as_json([record])})
    assert trace.table("tasks")["started_ns"].to_pylist() == [T0 * 1000]
    milli = json.loads(json.dumps(MADE).replace("Time(us)", "Time(ms)"))
    trace = import_bytes(Importer, {"71-vfd_data_stat.json": as_json([milli])})
    assert trace.table("tasks")["io_s"].to_pylist() == [pytest.approx(30e-3)]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"hello", b'[{"Task": {}', b"[[[[", b"null"])
def test_nothing_usable(data: bytes) -> None:
    with pytest.raises(BadInput):
        import_bytes(Importer, {"1-vfd_data_stat.json": data})


def test_odd_values() -> None:
    text = json.dumps([MADE]).replace("8000", "1e999").replace('"write_cnt": 3', '"write_cnt": -3')
    trace = import_bytes(Importer, {"71-vfd_data_stat.json": text.encode()})
    assert trace.table("tasks").num_rows == 1
    deep = b'[{"file-1": ' + b'{"file_name":' * 5000
    with pytest.raises(BadInput):
        import_bytes(Importer, {"71-vfd_data_stat.json": deep})


def test_sums_of_a_cut_file_are_lower_bounds(tmp_path: Path) -> None:
    text = json.dumps([MADE, MADE, *USED])
    (whole, _) = (
        import_bytes(Importer, {"71-vfd_data_stat.json": text.encode()}).table("tasks").to_pylist()
    )
    assert whole["io_kind"] == "exact" and whole["write_bytes"]
    one, count = json.dumps(MADE), '"write_cnt": 3'
    for damaged in (
        f"[{one},{one[: len(one) // 2]}",
        f"[{one},{one.replace(':', '', 1)},{one}]",
        f"[{one.replace(count, count.replace('3', '-3'))}]",
    ):
        trace = import_bytes(Importer, {"71-vfd_data_stat.json": damaged.encode()})
        (row,) = trace.table("tasks").to_pylist()
        assert row["io_kind"] == "lower_bound" and row["read_bytes"] != 0
        assert any("lower bounds" in w for w in trace.warnings)
    # The file level is lost: the object level knows no bytes.
    (tmp_path / "71-vfd_data_stat.json").write_text(one[: len(one) // 2])
    (tmp_path / "71-vol_data_stat.json").write_bytes(as_json(VOL))
    (row,) = rm.open(tmp_path).table("tasks").to_pylist()
    assert row["read_bytes"] is None and row["write_bytes"] is None and row["io_kind"] is None
    # Losses of the object level are none of bytes.
    files = {"71-vfd_data_stat.json": as_json([MADE]), "71-vol_data_stat.json": as_json(VOL)[:-60]}
    (row,) = import_bytes(Importer, files).table("tasks").to_pylist()
    assert row["io_kind"] == "exact"


# -- shared files -----------------------------------------------------------------------------

SETS = ("ddmd", "s9f9p8", "seq9f9s", "sync-write-1d-contig-contig-read-full_1", "vist")


@pytest.mark.parametrize("name", SETS)
def test_shared_sets(rotameter_shared: Path, name: str) -> None:
    folder = rotameter_shared / "data" / "dataflow" / "dayu" / name
    expected: dict[tuple[str, str], int] = defaultdict(int)
    calls: dict[str, int] = defaultdict(int)
    for path in folder.glob("*-vfd_data_stat.json"):
        for entry in json.loads(path.read_text()):
            for key, record in entry.items():
                if not key.startswith("file-"):
                    continue
                expected[record["task_name"], record["file_name"]] += record["io_bytes"]
                calls[record["task_name"]] += record["file_read_cnt"] + record["file_write_cnt"]
    trace = rm.open(folder)
    got: dict[tuple[str, str], int] = defaultdict(int)
    ops: dict[str, int] = defaultdict(int)
    for row in trace.table("flows").to_pylist():
        if row["op"] in ("read", "write") and row["bytes"] is not None:
            got[row["task_id"], row["object"]] += row["bytes"]
            ops[row["task_id"]] += row["ops"]
    assert {k: v for k, v in got.items() if v} == {k: v for k, v in expected.items() if v}
    assert dict(ops) == {k: v for k, v in calls.items() if v}
    measured = {r["task_id"]: r for r in trace.table("tasks").to_pylist() if r["io_kind"]}
    totals = {t: r["read_bytes"] + r["write_bytes"] for t, r in measured.items()}
    for task, total in totals.items():
        assert total == sum(v for (name_, _), v in expected.items() if name_ == task)
    assert set(measured) == {task for task, _ in expected}
    assert trace.meta["importer"]["records"]["rejected"] == 0
    assert all(r["io_kind"] == "exact" for r in measured.values())


def test_a_shared_set_of_lists_only(rotameter_shared: Path) -> None:
    trace = rm.open(rotameter_shared / "data" / "dataflow" / "dayu" / "vist_1t_chunk")
    assert trace.table("tasks").num_rows == 4 and trace.table("flows").num_rows == 4
    assert trace.table("flows")["bytes"].null_count == 4


def test_shared_files_of_others(rotameter_shared: Path) -> None:
    mine = 0
    for path in sorted((rotameter_shared / "data").glob("*/**/*")):
        if not path.is_file() or path.stat().st_size > 64 << 20:
            continue
        for file in open_members(path)[:3]:
            guesses = sniff(file)
            ours = path.suffix == ".json" and "dayu" in path.parts
            mine += ours
            assert (bool(guesses) and guesses[0][1] == "dayu") == ours, path
            assert ours or not any(name == "dayu" for _, name in guesses), path
    assert mine > 40
