from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from rotameter.adapters.importers.kineto import Importer
from rotameter.errors import BadInput
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head

T0 = 1_700_000_000_000_000
BASE = 1_700_000_000_000_000_000


def event(cat: str, name: str, ts: Any, dur: Any, tid: Any = 1, pid: Any = 9, **args: Any) -> Any:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def kernel(name: str, ts: Any, dur: Any, number: int, stream: int = 7, **args: Any) -> Any:
    more = {"device": 0, "stream": stream, "correlation": number, **args}
    return event(args.pop("cat", "kernel"), name, ts, dur, stream, 0, **more)


def call(ts: Any, number: int, name: str = "cudaLaunchKernel", dur: Any = 2, tid: int = 1) -> Any:
    return event("cuda_runtime", name, ts, dur, tid, correlation=number)


def trace(events: list[Any], **header: Any) -> bytes:
    made = {"schemaVersion": 1, "deviceProperties": [], **header, "traceEvents": events}
    return json.dumps(made, indent=1).encode()


def events_of_two_steps() -> list[Any]:
    return [
        event("user_annotation", "ProfilerStep#4", T0, 100),
        event("user_annotation", "ProfilerStep#5", T0 + 100, 100),
        event("cpu_op", "aten::linear", T0 + 5, 20),
        event("cpu_op", "aten::addmm", T0 + 6, 10),
        call(T0 + 7, 1),
        call(T0 + 30, 2),
        call(T0 + 110, 3, "cudaMemcpyAsync"),
        kernel("sgemm", T0 + 20, 30, 1, grid=[80, 1, 1], block=[128, 1, 1]),
        kernel("ncclDevKernel_AllReduce_Sum_f32", T0 + 40, 20, 2, stream=20),
        event(
            "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", T0 + 120, 10, 7, 0,
            device=0, stream=7, correlation=3, bytes=5000,
        ),
        event("gpu_user_annotation", "ProfilerStep#4", T0 + 10, 180, 7, 0, device=0, stream=7),
        kernel("left_over", T0 + 1, 5, 99),
        {"ph": "s", "id": 1, "pid": 9, "tid": 1, "ts": T0 + 7, "cat": "ac2g", "name": "ac2g"},
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "python"}},
    ]  # fmt: skip


WHOLE = trace(events_of_two_steps(), distributedInfo={"rank": 3, "world_size": 8})
CPU_ONLY = trace([event("cpu_op", "aten::mm", T0, 30), event("Trace", "PyTorch Profiler", T0, 99)])
OLD = json.dumps(
    {
        "traceEvents": [
            event("Kernel", "k", T0 + 2, 0, 7, 0, stream=7, correlation=1),
            event("Kernel", "k", T0 + 9, 4, 7, 0, stream=7, correlation=2),
            event("Runtime", "cudaLaunchKernel", T0, 1, correlation=1),
        ]
    }
).encode()
FINE = trace(
    [
        event("cpu_op", "aten::mm", 4203669604595.407, 340.024),
        kernel("k", 4203669604600.001, 1.5, 4),
    ],
    baseTimeNanoseconds=BASE,
)


def rows(made: Any, table: str) -> list[dict[str, Any]]:
    return made.table(table).to_pylist()  # type: ignore[no-any-return]


def timeline(made: Any) -> Any:
    return made.meta["device_timeline"]["ranks"][0]


def one(events: list[Any], **header: Any) -> Any:
    return import_bytes(Importer, {"t.pt.trace.json": trace(events, **header)})


def test_it_is_an_importer() -> None:
    samples = {"whole.json": WHOLE, "cpu.json": CPU_ONLY, "old.json": OLD, "fine.json": FINE}
    check_importer(Importer, samples, cuts=20)


def test_steps_are_tasks_with_the_device_time_that_they_launched() -> None:
    made = import_bytes(Importer, {"a.json": WHOLE})
    tasks = rows(made, "tasks")
    assert [t["task_id"] for t in tasks] == ["rank 3/ProfilerStep#4", "rank 3/ProfilerStep#5"]
    assert [t["group"] for t in tasks] == ["ProfilerStep"] * 2
    assert [t["gpu_s"] for t in tasks] == pytest.approx([40e-6, 10e-6])
    assert tasks[0]["started_ns"] == T0 * 1000 and tasks[0]["wall_s"] == pytest.approx(1e-4)
    assert (tasks[0]["outcome"], tasks[0]["outcome_kind"]) == ("ok", "inferred")
    assert made.meta["importer"]["records"] == {"in": 14, "out": 9, "merged": 5, "rejected": 0}


def test_intervals_have_lane_kind_parent_and_bytes() -> None:
    found = {row["name"]: row for row in rows(import_bytes(Importer, {"a": WHOLE}), "intervals")}
    assert found["sgemm"]["lane"] == "device 0 stream 7" and found["sgemm"]["kind"] == "kernel"
    assert found["sgemm"]["parent"] == "aten::linear"
    assert found["sgemm"]["task_id"] == "rank 3/ProfilerStep#4"
    assert found["ncclDevKernel_AllReduce_Sum_f32"]["kind"] == "communication"
    copy = found["Memcpy HtoD (Pinned -> Device)"]
    assert (copy["kind"], copy["bytes"], copy["peer"]) == ("transfer", 5000, "host")
    assert found["left_over"]["task_id"] is None  # launched before recording began
    assert found["aten::linear"]["kind"] == "span" and found["aten::linear"]["lane"] == "thread 1"
    assert "aten::addmm" not in found  # inside aten::linear


def test_annotations_on_the_device_are_no_busy_time() -> None:
    device = timeline(import_bytes(Importer, {"a": WHOLE}))["devices"][0]
    assert device["busy_s"] == pytest.approx(55e-6)  # 5 + 40 + 10, not 180
    assert device["breakdown"]["left_out"] == 1
    assert device["breakdown"]["busy_s"] == pytest.approx(50e-6)
    assert device["breakdown"]["overlap_s"] == pytest.approx(10e-6)


def test_no_gpu_is_null_and_said() -> None:
    made = import_bytes(Importer, {"a.json": CPU_ONLY})
    seen = timeline(made)
    assert seen["utilisation"] is None and seen["words"] == "no GPU activity recorded"
    assert seen["rank"] is None and seen["host"]["op_s"] == pytest.approx(30e-6)
    (task,) = rows(made, "tasks")
    assert (task["task_id"], task["group"], task["gpu_s"]) == ("process 9", "process", None)
    assert any("no GPU activity recorded" in text for text in made.meta["not_measured"])


def test_old_categories_and_durations_of_zero() -> None:
    device = timeline(import_bytes(Importer, {"old.json": OLD}))["devices"][0]
    assert device["events"] == 2 and device["busy_s"] == pytest.approx(4e-6)
    assert device["device"] == 0


def test_base_time_and_fractions_are_kept() -> None:
    (task,) = rows(import_bytes(Importer, {"a.json": FINE}), "tasks")
    assert task["started_ns"] == BASE + 4203669604595407


def test_epoch_microseconds_with_a_fraction_keep_it() -> None:
    text = trace([event("cpu_op", "aten::mm", T0, 30)]).replace(
        f'"ts": {T0}'.encode(), f'"ts": {T0}.123'.encode()
    )
    (task,) = rows(import_bytes(Importer, {"a.json": text}), "tasks")
    assert task["started_ns"] == T0 * 1000 + 123


def test_times_from_elsewhere_are_relative() -> None:
    made = one([event("cpu_op", "aten::mm", 500, 30)])
    assert made.meta["time_base"] == "relative_ns"
    assert rows(made, "tasks")[0]["started_ns"] == 0


def test_rocm_sizes_come_from_the_call() -> None:
    copy = event("cuda_runtime", "hipMemcpyWithStream", T0, 9, correlation=5, size="2560")
    on_device = event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", T0 + 3, 4, 0, 2,
                      device=2, stream=0, correlation=5, kind="HtoD")  # fmt: skip
    made = one([copy, on_device])
    (found,) = timeline(made)["devices"][0]["transfers"]["classes"]
    assert (found["kind"], found["mode"], found["bytes"]) == ("HtoD", "sync", 2560)
    (flow,) = rows(made, "flows")
    assert (flow["medium"], flow["op"], flow["bytes"]) == ("device", "write", 2560)


def test_mtia_work_is_device_work() -> None:
    made = one([event("mtia_ccp_events", "job", T0, 5, 1, 0, device=0, stream=3)])
    assert timeline(made)["devices"][0]["busy_s"] == pytest.approx(5e-6)


def test_annotations_of_the_user_are_tasks_where_there_are_no_steps() -> None:
    made = one(
        [
            event("user_annotation", "epoch", T0, 100),
            event("user_annotation", "inner", T0 + 1, 10),
            event("user_annotation", "nccl:all_reduce", T0 + 200, 10),
        ]
    )
    assert [t["task_id"] for t in rows(made, "tasks")] == ["process 9/epoch"]


def test_memory_readings_give_peaks() -> None:
    reading = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 1,
               "ts": T0 + 3, "args": {"Device Type": 1, "Device Id": 0, "Total Allocated": 700,
                                      "Total Reserved": 900}}  # fmt: skip
    made = one([event("user_annotation", "ProfilerStep#1", T0, 10), reading])
    (task,) = rows(made, "tasks")
    assert (task["gpu_peak_bytes"], task["gpu_kind"]) == (700, "lower_bound")
    assert {row["metric"] for row in rows(made, "samples")} == {
        "allocator_allocated_bytes", "allocator_reserved_bytes"}  # fmt: skip


def test_ranks_of_several_files_are_one_trace() -> None:
    files = {
        f"rank{n}.json": trace(events_of_two_steps(), distributedInfo={"rank": n}) for n in (1, 0)
    }
    made = import_bytes(Importer, files)
    assert [one["rank"] for one in made.meta["device_timeline"]["ranks"]] == [0, 1]
    assert {row["worker"] for row in rows(made, "workers")} == {"rank 0", "rank 1"}
    assert len({row["task_id"] for row in rows(made, "tasks")}) == 4


def test_two_processes_of_one_number_at_one_time_are_two() -> None:
    made = import_bytes(Importer, {"a.json": CPU_ONLY, "b.json": CPU_ONLY})
    assert {row["worker"] for row in rows(made, "workers")} == {"process 9", "process 9 (2)"}


@pytest.mark.parametrize("dur", [-1, None, "x", float("nan"), 1e30, 10**400, True])
def test_impossible_durations_are_rejected(dur: Any) -> None:
    made = one([event("cpu_op", "aten::mm", T0, 30), event("cpu_op", "bad", T0, dur)])
    assert made.meta["importer"]["records"]["rejected"] == 1
    assert rows(made, "rejects")[0]["line"] > 1


@pytest.mark.parametrize("text", [b'"bytes": nan', b'"bytes": -inf', b'"bytes": "C:\\Users\\x"'])
def test_what_pytorch_writes_but_json_lacks(text: bytes) -> None:
    data = WHOLE.replace(b'"bytes": 5000', text)
    assert data != WHOLE
    made = import_bytes(Importer, {"a.json": data})
    assert made.meta["importer"]["records"] == {"in": 14, "out": 9, "merged": 5, "rejected": 0}
    copy = next(row for row in rows(made, "intervals") if row["kind"] == "transfer")
    assert copy["bytes"] is None


def test_a_bad_event_costs_itself_only() -> None:
    data = WHOLE.replace(b'"aten::linear"', b'"aten::linear', 1)
    made = import_bytes(Importer, {"a.json": data})
    records = made.meta["importer"]["records"]
    assert records["rejected"] == 1 and records["in"] == 14
    assert len(rows(made, "tasks")) == 2


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_cut_packed_file_gives_what_came_before(share: float) -> None:
    data = trace([event("cpu_op", f"op {i * 7919 % 10007}", T0 + 9 * i, 5) for i in range(2000)])
    packed = gzip.compress(data)
    made = import_bytes(Importer, {"a.json.gz": packed[: int(len(packed) * share)]})
    assert made.meta["importer"]["records"]["in"] > 2000 * share * 0.6
    assert any("damaged" in text for text in made.meta["warnings"])


def test_a_list_of_events_is_a_trace_too() -> None:
    data = json.dumps(events_of_two_steps()).encode()
    assert Importer().sniff(Head("x.json", data)) >= 0.5
    assert len(rows(import_bytes(Importer, {"x.json": data}), "tasks")) == 2


def test_the_order_of_events_changes_nothing() -> None:
    forth = import_bytes(Importer, {"a.json": trace(events_of_two_steps())})
    back = import_bytes(Importer, {"a.json": trace(events_of_two_steps()[::-1])})
    assert forth.meta["device_timeline"] == back.meta["device_timeline"]
    assert forth.table("tasks").equals(back.table("tasks"))


def test_nothing_recorded_is_no_error_and_other_files_are() -> None:
    assert rows(one([]), "tasks") == []
    for data in (b"{}", b"[]", b"", b"x", b'{"traceEvents": []}', b'{"nodes": []}',
                 b'[{"ph": "X", "cat": "net", "name": "a", "ts": 1, "dur": 2}]'):  # fmt: skip
        with pytest.raises(BadInput):
            import_bytes(Importer, {"a.json": data})


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema": "1.0.1", "pid": 5, "nodes": [{"name": "a", "id": 2}]}',
        b'{"traceEvents": [{"ph": "X", "cat": "net", "name": "a", "ts": 1, "dur": 2}]}',
        b'[{"ph": "B", "name": "a", "ts": 1}, {"ph": "E", "ts": 2}',
        b'{"schemaVersion": "1.3", "workflow": {}}',
        b"[[-1, 1, 37888, 7]]",
    ],
)
def test_other_traces_are_not_claimed(data: bytes) -> None:
    assert Importer().sniff(Head("x.json", data)) < 0.5


def test_names_are_redacted() -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    made = one([event("cpu_op", f"load {secret}", T0, 30)], username="jane")
    said = json.dumps(made.meta) + json.dumps(rows(made, "intervals"))
    assert secret not in said and "jane" not in said


def test_cycles_of_one_rank_are_one_worker() -> None:
    def cycle(first: int) -> bytes:
        step = event("user_annotation", "ProfilerStep#1", T0 + first, 10)
        return trace([step], distributedInfo={"rank": 0})

    made = import_bytes(Importer, {"a.json": cycle(0), "b.json": cycle(50)})
    (worker,) = rows(made, "workers")
    assert worker["worker"] == "rank 0" and worker["ended_ns"] == (T0 + 60) * 1000
    assert [t["task_id"] for t in rows(made, "tasks")] == [
        "rank 0/ProfilerStep#1", "rank 0/ProfilerStep#1 (2)"]  # fmt: skip


def test_events_of_other_tracers_are_counted_aloud() -> None:
    made = one([event("cpu_op", "aten::mm", T0, 3), {"ph": "B", "name": "x", "ts": T0}])
    assert any("begin, end and counter" in text for text in made.meta["warnings"])


def test_the_source_is_the_importer() -> None:
    made = import_bytes(Importer, {"cpu_only.json": WHOLE})
    assert set(made.table("tasks")["source"].to_pylist()) == {"kineto"}


def test_annotations_of_other_threads_count_for_the_time_covered() -> None:
    """Collectives of gloo are annotations of its own threads, and operators may be few."""
    made = one(
        [
            event("cpu_op", "aten::mm", T0 + 900, 3),
            event("user_annotation", "gloo:all_reduce", T0, 500, tid=7),
        ]
    )
    (rank,) = made.meta["device_timeline"]["ranks"]
    assert rank["span_s"] == pytest.approx(903e-6)
