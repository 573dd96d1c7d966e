"""TaskVine and Work Queue logs."""

from __future__ import annotations

import json

import pytest

import rotameter
from rotameter.adapters.importers.taskvine import Importer
from rotameter.errors import BadInput
from rotameter.testing import check_importer, import_bytes

T0 = 1_700_000_000_000_000
HEADER = "# time manager_pid MANAGER manager_pid START|END time_from_origin"
MIB = 1 << 20


def log(*lines: tuple[float, str], header: str = HEADER, end: bool = True) -> bytes:
    made = [header, f"{T0} 42 MANAGER 42 START 0"]
    made += [f"{T0 + round(at * 1e6)} 42 {text}" for at, text in lines]
    made += [f"{T0 + 10**8} 42 MANAGER 42 END 100000000"] if end else []
    return ("\n".join(made) + "\n").encode()


READY = 'TASK {} READY default FIRST_RESOURCES 1 {{"cores":[2,"cores"],"memory":[500,"MB"]}}'
RUNNING = 'TASK {} RUNNING {}  FIRST_RESOURCES {{"cores":[2,"cores"],"memory":[500,"MB"]}}'
DONE = (
    'TASK 1 RETRIEVED SUCCESS  0  {} {"cores":[1,"cores"],"memory":[210,"MB"],'
    '"wall_time":[1.5,"s"],"cpu_time":[1.2,"s"],"size_input_mgr":[2,"MB"],'
    f'"time_worker_start":[{T0 / 1e6 + 2.25},"s"],"time_worker_end":[{T0 / 1e6 + 3.75},"s"]}}'
)
FULL = log(
    (0.1, READY.format(1)),
    (0.5, "WORKER w1 CONNECTION 10.0.0.5:5000"),
    (0.6, 'WORKER w1 RESOURCES {"cores":[4,"cores"],"memory":[8000,"MB"],"gpus":[1,"gpus"]}'),
    (1.0, f"WORKER w1 TRANSFER INPUT infile 38386 95 {T0 + 900_000}"),
    (2.0, RUNNING.format(1, "w1")),
    (4.0, "TASK 1 WAITING_RETRIEVAL w1 "),
    (4.1, f"WORKER w1 CACHE_UPDATE file-a 47 1500000 {T0 + 2_250_000}"),
    (4.2, DONE),
    (4.3, "TASK 1 DONE SUCCESS  0 "),
    (5.0, "WORKER w1 DISCONNECTION IDLE_OUT"),
)
PERFORMANCE = f"""# timestamp workers_idle time_send total_memory bandwidth
{T0} 0 0 0 1.000000
{T0 + 10} 1 2000000 512 1.000000
{T0 + 20} 1 2000000 512 1.000000
{T0 + 30} 1 2000000 512 1.000000
{T0 + 40} 0 2000000
""".encode()
DIGRAPH = b"""digraph "taskvine" {
node [style=filled,font=Helvetica,fontsize=10];
"file-a" [shape=rect,color=blue,label=""];
"task-1" [color=green,label=""];
"task-1" -> "file-a";
"file-a" -> "task-2";
"file-b" -> "task-2";
"task-251114384" -> "file-b";
}
"""
VERSION_2 = b"""# taskvine taskgraph version 2
TASK T1 "prep it" INPUTS OUTPUTS file-a
TASK T2 "join" INPUTS file-a file-b OUTPUTS file-c
FILE file-a "a.txt" 100
FILE file-b "b.txt" 2.5
"""


def rows(data: bytes) -> list[dict]:
    return import_bytes(Importer, {"transactions": data}).table("tasks").to_pylist()


def test_conformance():
    samples = {
        "vine-logs/transactions": FULL,
        "performance": PERFORMANCE,
        "taskgraph": DIGRAPH,
        "v2/taskgraph": VERSION_2,
    }
    check_importer(Importer, samples, cuts=20)


def test_a_task_and_its_worker():
    trace = import_bytes(Importer, {"transactions": FULL})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["task_id"], row["group"], row["worker"], row["host"]) == (
        "1",
        "default",
        "w1",
        "10.0.0.5",
    )
    assert row["started_ns"] == T0 * 1000 + 2_250_000_000 and row["wall_s"] == 1.5
    assert row["ended_ns"] - row["started_ns"] == 1_500_000_000
    assert row["submitted_ns"] == T0 * 1000 + 10**8 and row["outcome"] == "ok"
    assert row["requested_memory_bytes"] == row["granted_memory_bytes"] == 500 * MIB
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (210 * MIB, "sampled")
    assert row["cpu_s"] == 1.2 and row["received_bytes"] == 2 * MIB
    (worker,) = trace.table("workers").to_pylist()
    assert (worker["cores"], worker["memory_bytes"], worker["end_reason"]) == (
        4,
        8000 * MIB,
        "IDLE_OUT",
    )
    added, removed = trace.table("events").to_pylist()
    assert added["kind"] == "worker_added" and removed["expected"] is True
    (flow,) = trace.table("flows").to_pylist()
    assert (flow["bytes"], flow["op"], flow["busy_s"]) == (38386, "receive", 95e-6)
    assert trace.table("objects").to_pylist()[0]["size_bytes"] == 47
    assert trace.meta["runs"][0]["log_closed"] and not trace.warnings


def test_sizes_with_a_point_are_mebibytes():
    data = log(
        (1, "WORKER w TRANSFER OUTPUT out 1.500000 2.000000"),
        (2, "WORKER w CACHE_UPDATE f 0.5 0.1"),
    )
    trace = import_bytes(Importer, {"transactions": data})
    (flow,) = trace.table("flows").to_pylist()
    assert (flow["bytes"], flow["busy_s"], flow["op"]) == (3 * MIB // 2, 2.0, "send")
    assert trace.table("objects").to_pylist()[0]["size_bytes"] == MIB // 2


def test_a_lost_worker_and_the_next_attempt():
    data = log(
        (0, READY.format(1)),
        (0, "WORKER w1 CONNECTION a:1"),
        (1, RUNNING.format(1, "w1")),
        (5, "WORKER w1 DISCONNECTION FAILURE"),
        (6, READY.format(1)),
        (7, RUNNING.format(1, "w2")),
        (9, "TASK 1 WAITING_RETRIEVAL w2"),
        (9, "TASK 1 RETRIEVED SUCCESS  3  {} {}"),
        (9, "TASK 1 DONE SUCCESS  3 "),
    )
    first, second = rows(data)
    assert (first["outcome"], first["outcome_kind"], first["wall_s"]) == (
        "worker_lost",
        "inferred",
        4,
    )
    assert first["error"] == "worker left: FAILURE"
    assert (second["attempt"], second["outcome"], second["exit_code"]) == (2, "failed", 3)
    assert second["wall_s"] == 2.0


def test_a_worker_that_takes_a_task_along_for_good():
    data = log((0, READY.format(1)), (0, "WORKER w CONNECTION a:1"), (1, RUNNING.format(1, "w")),
               (5, "WORKER w DISCONNECTION FAILURE"), end=False)  # fmt: skip
    (row,) = rows(data)
    assert (row["outcome"], row["wall_s"]) == ("worker_lost", 4.0)


@pytest.mark.parametrize(
    ("result", "limits", "outcome"),
    [
        ("RESOURCE_EXHAUSTION", '{"memory":[500,"MB"]}', "oom"),
        ("RESOURCE_EXHAUSTION", '{"disk":[500,"MB"]}', "failed"),
        ("RESOURCE_EXHAUSTION", '{"wall_time":[5,"s"]}', "timeout"),
        ("MAX_WALL_TIME", "{}", "timeout"),
        ("FORSAKEN", "{}", "rescheduled"),
        ("SIGNAL", "{}", "failed"),
        ("BRAND_NEW", "{}", "unknown"),
    ],
)
def test_results(result, limits, outcome):
    measured = '{"memory":[490,"MB"]}'
    data = log((0, READY.format(1)), (1, RUNNING.format(1, "w")),
               (2, f"TASK 1 RETRIEVED {result}  9  {limits} {measured}"))  # fmt: skip
    (row,) = rows(data)
    assert row["outcome"] == outcome and row["error"].startswith(result)
    if outcome == "oom":  # a lower bound, and not below what it was given
        assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (500 * MIB, "lower_bound")


def test_the_allocation_repeated_is_no_measurement():
    measured = '{"cores":[2,"cores"],"memory":[500,"MB"],"wall_time":[1,"s"]}'
    data = log((0, READY.format(1)), (1, RUNNING.format(1, "w")),
               (2, f"TASK 1 RETRIEVED SUCCESS  0  {{}} {measured}"))  # fmt: skip
    assert rows(data)[0]["peak_memory_bytes"] is None
    data = data.replace(b'"wall_time"', b'"cpu_time":[1,"s"],"wall_time"')  # a monitor was there
    assert rows(data)[0]["peak_memory_bytes"] == 500 * MIB


def test_work_queue():
    data = "\n".join(
        [
            "# time master_pid MASTER START|END",
            f"{T0} 16444 MASTER START",
            f"{T0 + 1} 16444 WORKER w1 10.32.79.143:48268 CONNECTION",
            f'{T0 + 2} 16444 TASK 1 WAITING default FIRST_RESOURCES {{"cores":[1,"cores"]}}',
            f"{T0 + 3} 16444 TASK 1 RUNNING 10.32.79.143:48268  "
            'FIRST_RESOURCES {"cores":[4,"cores"]}',
            f"{T0 + 4} 16444 TASK 1 WAITING_RETRIEVAL 10.32.79.143:48268",
            f'{T0 + 5} 16444 TASK 1 RETRIEVED SUCCESS  0  {{}} {{"wall_time":[123.137485,"s"]}}',
            f'{T0 + 6} 16444 TASK 1 DONE SUCCESS  0  {{}} {{"wall_time":[123.137485,"s"]}}',
            f"{T0 + 7} 16444 WORKER w1 10.32.79.143:48268 DISCONNECTION UNKNOWN",
            f"{T0 + 8} 16444 MASTER END",
        ]
    ).encode()
    trace = import_bytes(Importer, {"my.tr.log": data})
    (row,) = trace.table("tasks").to_pylist()
    assert row["wall_s"] == 123.137485 and row["granted_cores"] == 4
    assert trace.meta["engine"] == "work_queue" and not trace.table("rejects").num_rows
    assert trace.table("workers").to_pylist()[0]["host"] == "10.32.79.143"


def test_performance_is_samples_with_units():
    trace = import_bytes(Importer, {"performance": PERFORMANCE})
    found: dict[str, list[float]] = {}
    for row in trace.table("samples").to_pylist():
        found.setdefault(row["metric"], []).append(row["value"])
    assert found["time_send_s"] == [0.0, 2.0, 2.0] and found["total_memory_bytes"][-1] == 512 * MIB
    assert found["bandwidth_bytes_per_s"] == [MIB, MIB]  # flat: both ends
    assert trace.meta["importer"]["records"] == {"in": 5, "out": 4, "merged": 0, "rejected": 1}


def test_both_taskgraphs():
    old, new = (import_bytes(Importer, {"taskgraph": data}) for data in (DIGRAPH, VERSION_2))
    assert {"task_id": "2", "depends_on": "1"} in old.table("deps").to_pylist()
    assert new.table("deps").to_pylist() == [{"task_id": "2", "depends_on": "1"}]
    sizes = {r["object"]: r["size_bytes"] for r in new.table("objects").to_pylist()}
    assert sizes == {"a": 100, "b": round(2.5 * MIB), "c": None}
    assert [r["group"] for r in new.table("tasks").to_pylist()] == ["prep it", "join"]


def test_a_folder_is_one_import(tmp_path):
    for name, host in (("one", b"10.0.0.5"), ("two", b"10.0.0.6")):
        folder = tmp_path / name / "vine-logs"
        folder.mkdir(parents=True)
        (folder / "transactions").write_bytes(FULL.replace(b"10.0.0.5", host))
        (folder / "performance").write_bytes(PERFORMANCE)
        (folder / "taskgraph").write_bytes(DIGRAPH)
        (folder / "debug").write_text("2023/03/27 vine_manager[1] vine: listening\n")
    one = rotameter.open(tmp_path / "one")
    assert [r["task_id"] for r in one.table("tasks").to_pylist()] == ["1"]
    assert [
        (r["task_id"], r["op"]) for r in one.table("flows").to_pylist() if r["medium"] == "file"
    ] == [("1", "write")]
    both = rotameter.open(tmp_path)
    assert len({r["task_id"] for r in both.table("tasks").to_pylist()}) == 2


def test_what_is_no_log_is_refused():
    with pytest.raises(BadInput):
        import_bytes(Importer, {"x": b"hello"})
    with pytest.raises(BadInput):
        import_bytes(Importer, {"x": b""})
    assert not rows(HEADER.encode() + b"\n")


# -- real files ------------------------------------------------------------------------------------


def test_the_counts_of_the_oracle(rotameter_shared):
    folder = rotameter_shared / "data/formats/taskvine"
    expected = json.loads((folder / "ORACLE_lnni_transactions.json").read_text())
    trace = rotameter.open(folder / "lnni_transactions")
    (facts,) = trace.meta["runs"]
    events = dict(facts["events"])
    events["MANAGER"] = events.pop("MANAGER START")
    assert events == expected["events"] and facts["disconnections"] == expected["disconnections"]
    assert facts["span_s"] == expected["span_s"] and not facts["log_closed"]
    tasks = trace.table("tasks").to_pylist()
    assert len(tasks) == len({row["task_id"] for row in tasks}) == 1500
    assert len(tasks) + facts["libraries"] == expected["tasks_seen"] and facts["libraries"] == 366
    waiting = sum(row["started_ns"] is None for row in tasks)
    assert waiting == expected["last_state"]["READY"]
    left = [e for e in trace.table("events").to_pylist() if e["kind"] == "worker_removed"]
    assert len(left) == 33 and any("log not closed" in text for text in trace.warnings)
    records = trace.meta["importer"]["records"]
    assert records["in"] == sum(expected["events"].values()) and not records["rejected"]


def test_performance_logs(rotameter_shared):
    folder = rotameter_shared / "data/formats/taskvine"
    for name, lines in (("lnni", 372), ("montage-base", 786), ("rstriphoton", 3433)):
        trace = rotameter.open(folder / f"{name}_performance")
        assert trace.meta["importer"]["records"]["in"] == lines
        assert not trace.table("rejects").num_rows
        done = [
            s["value"] for s in trace.table("samples").to_pylist() if s["metric"] == "tasks_done"
        ]
        assert done[-1] == {"lnni": 429, "montage-base": 550, "rstriphoton": 3424}[name]


def test_a_library_is_listed_apart(rotameter_shared):
    trace = rotameter.open(rotameter_shared / "bugcases/37-vine-library-tasks/transactions")
    walls = {row["task_id"]: row["wall_s"] for row in trace.table("tasks").to_pylist()}
    assert walls == {"1": 2.0, "2": 3.0}
    (library,) = trace.table("intervals").to_pylist()
    assert library["name"] == "library 3" and library["lane"] == "library"


def test_an_unfinished_log(rotameter_shared):
    trace = rotameter.open(rotameter_shared / "bugcases/38-vine-unfinished-log/transactions")
    done, running, waiting = trace.table("tasks").to_pylist()
    assert (done["outcome"], done["wall_s"]) == ("ok", 2.0)
    assert (running["outcome"], running["ended_ns"], running["wall_s"]) == ("running", None, None)
    (least,) = trace.table("samples").to_pylist()
    assert (least["subject"], least["value"], least["quality"]) == ("2", 4.0, "lower_bound")
    assert waiting["started_ns"] is None and waiting["error"] == "WAITING"
    said = " | ".join(trace.warnings)
    assert "the last line of the log is cut: ignored" in said and "log not closed" in said


def test_a_copy_of_a_run_is_said():
    files = {"one/transactions": FULL, "two/transactions": FULL}
    assert any("a copy of a run" in w for w in import_bytes(Importer, files).warnings)


@pytest.mark.parametrize(
    ("measured", "peak"),
    [
        ('"disk":[120,"MB"],"cpu_time":[1,"s"]', 120 * MIB),
        ('"disk":[0,"MB"],"cpu_time":[1,"s"]', 0),
        ('"disk":[500,"MB"],"cpu_time":[1,"s"]', 500 * MIB),
        ('"disk":[500,"MB"]', None),
        ('"disk":[0,"MB"]', None),
        ('"cpu_time":[1,"s"]', None),
    ],
)
def test_a_peak_of_disk_is_one_that_was_measured(measured: str, peak: int | None) -> None:
    """Without a monitor the log repeats what was allocated, or has nothing."""
    asked = '{"cores":[1,"cores"],"disk":[500,"MB"]}'
    data = log((0.1, f"TASK 1 READY default FIRST_RESOURCES 1 {asked}"),
               (1, f"TASK 1 RUNNING w FIRST_RESOURCES {asked}"),
               (2, f"TASK 1 RETRIEVED SUCCESS 0 {{}} {{{measured}}}"))  # fmt: skip
    (row,) = rows(data)
    kind = None if peak is None else "sampled"
    assert (row["peak_disk_bytes"], row["peak_disk_kind"]) == (peak, kind)
    assert row["requested_disk_bytes"] == row["granted_disk_bytes"] == 500 * MIB


@pytest.mark.parametrize(
    ("result", "limits"),
    [("RESOURCE_EXHAUSTION", '{"disk":[500,"MB"]}'), ("SANDBOX_EXHAUSTION", "{}")],
)
def test_what_ran_out_of_disk_had_that_much(result: str, limits: str) -> None:
    from rotameter.allocator.by_resource import needs_of

    asked = '{"cores":[1,"cores"],"disk":[500,"MB"]}'
    data = log((0.1, f"TASK 1 READY default FIRST_RESOURCES 1 {asked}"),
               (1, f"TASK 1 RUNNING w FIRST_RESOURCES {asked}"),
               (2, f"TASK 1 RETRIEVED {result} 9 {limits} {{}}"))  # fmt: skip
    trace = import_bytes(Importer, {"transactions": data})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["outcome"], row["peak_disk_kind"]) == ("failed", "lower_bound")
    assert needs_of(trace, "disk").killed == ((0, 500.0 * MIB),)
