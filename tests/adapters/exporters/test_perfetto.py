"""Chrome Trace Event JSON that viewers open: strict, and the same trace when it is read back."""

import gzip
import json
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.adapters.exporters.perfetto import Exporter
from rotameter.adapters.importers import chrome_trace, reading
from rotameter.errors import TraceError, UsageError
from rotameter.profiler.trace import Trace
from rotameter.testing import import_bytes

S = 10**6
EPOCH = 1_700_000_000 * 10**9
NEEDED = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "B": {"name", "cat", "pid", "tid", "ts", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    "C": {"name", "pid", "ts", "args"},
    "i": {"name", "s", "pid", "ts"},
}


def no_constant(text):
    raise ValueError(f"not JSON: {text}")


def validate(text):
    """Hold a file to the format more strictly than viewers do; give its events."""
    data = json.loads(text, parse_constant=no_constant, parse_float=str, parse_int=int)
    assert set(data) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert data["displayTimeUnit"] in ("ms", "ns")
    events = data["traceEvents"]
    processes, threads, arrows = {}, {}, defaultdict(list)
    slices = defaultdict(list)
    for event in events:
        assert NEEDED[event["ph"]] <= set(event), event
        assert isinstance(event["pid"], int) and isinstance(event["name"], str) and event["name"]
        for key in ("ts", "dur"):
            if key in event:
                event[f"{key}_ns"] = nanoseconds(event[key])
                assert event[f"{key}_ns"] >= 0
        if event["name"] == "process_name" and event["ph"] == "M":
            assert event["pid"] not in processes
            processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name" and event["ph"] == "M":
            assert (event["pid"], event["tid"]) not in threads
            threads[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["ph"] in "XB":
            slices[event["pid"], event["tid"]].append(event)
        elif event["ph"] in "sf":
            arrows[event["id"]].append(event)
        elif event["ph"] == "C":
            assert all(isinstance(v, (int, str)) for v in event["args"].values())
    assert len(set(threads)) == len(threads) and len({*processes.values()}) == len(processes)
    for key, found in slices.items():
        assert key in threads and key[0] in processes
        check_nesting(found)
    for pair in arrows.values():
        assert [event["ph"] for event in pair] == ["s", "f"]
        for event in pair:
            assert any(holds(one, event["ts_ns"]) for one in slices[event["pid"], event["tid"]])
    return data, events, processes, threads


def nanoseconds(value):
    whole, _, part = str(value).partition(".")
    assert len(part) <= 3
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def holds(one, at):
    return one["ph"] == "B" or one["ts_ns"] <= at <= one["ts_ns"] + one["dur_ns"]


def check_nesting(found):
    """Slices of one thread lie in one another or apart, and the outer comes first."""
    stack = []
    assert [e["ts_ns"] for e in found] == sorted(e["ts_ns"] for e in found)
    for event in found:
        end = float("inf") if event["ph"] == "B" else event["ts_ns"] + event["dur_ns"]
        while stack and stack[-1] <= event["ts_ns"]:
            stack.pop()
        assert not stack or end <= stack[-1], event
        stack.append(end)


def export(trace, path):
    Exporter().write(trace, str(path))
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def task(name, start, end, **more):
    return {"task_id": name, "group": name[0], "worker": "w", "outcome": "ok",
            "started_ns": EPOCH + start * S, "ended_ns": EPOCH + end * S, **more}  # fmt: skip


FULL = {
    "tasks": [
        task("a1", 0, 10, peak_memory_bytes=7, features={"n": 2.0}), task("b1", 5, 12),
        task("c1", 2, 4, parent="a1"), task("a2", 10, 11, worker="v", outcome="failed", error="E"),
        {"task_id": "no", "group": "no", "outcome": "cancelled"},
        task("w1", 3, 4, attempt=1), task("w1", 6, 7, attempt=2),
        {"task_id": "r", "worker": "w", "started_ns": EPOCH + 4 * S, "outcome": "running"},
    ],
    "intervals": [
        {"task_id": "a1", "worker": "w", "kind": "transfer", "name": "get", "bytes": 5,
         "start_ns": EPOCH + S, "end_ns": EPOCH + 2 * S},
        {"worker": "w", "lane": "GPU 0", "kind": "kernel", "name": "k", "start_ns": EPOCH,
         "end_ns": EPOCH + 2 * S + 1},
        {"worker": "w", "lane": "GPU 0", "kind": "kernel", "name": "k", "start_ns": EPOCH + S,
         "end_ns": EPOCH + 3 * S},
    ],
    "deps": [{"task_id": "a2", "depends_on": "a1"}, {"task_id": "b1", "depends_on": "no"}],
    "samples": [
        {"at_ns": EPOCH + S, "subject": "w", "metric": "rss", "value": 5.0},
        {"at_ns": EPOCH + S, "subject": "x", "metric": "rss", "value": float("nan")},
        {"at_ns": EPOCH + 2 * S, "subject": "a1", "metric": "queue", "value": 5.0},
    ],
    "events": [{"at_ns": EPOCH + S, "kind": "worker_paused", "worker": "w", "rss_bytes": 3}],
}  # fmt: skip


def test_everything_is_drawn(tmp_path):
    text = export(Trace.from_tables(FULL), tmp_path / "t.json")
    data, events, processes, threads = validate(text)
    assert set(processes.values()) >= {"v", "w"}
    assert {"slot 1", "slot 2", "GPU 0", "GPU 0 (2)"} <= set(threads.values())
    by_phase = defaultdict(list)
    for event in events:
        by_phase[event["ph"]].append(event)
    assert len([e for e in by_phase["X"] if e["cat"] == "task"]) == 6
    assert [e["name"] for e in by_phase["B"]] == ["r"]
    assert len(by_phase["s"]) == len(by_phase["f"]) == 1
    assert [(e["name"], e["args"]) for e in by_phase["C"]] == [
        ("rss", {"value": "5.0"}), ("queue a1", {"value": "5.0"}),
    ]  # fmt: skip
    assert by_phase["i"][0]["args"] == {"rss_bytes": 3}
    assert data["otherData"]["left_out"] == 1
    (inner,) = [e for e in by_phase["X"] if e["name"] == "c"]
    (outer,) = [e for e in by_phase["X"] if e["args"].get("task_id") == "a1" and e["cat"] == "task"]
    assert (inner["pid"], inner["tid"]) == (outer["pid"], outer["tid"])
    assert outer["args"]["peak_memory_bytes"] == 7


def test_gzip_and_options_and_the_same_bytes(tmp_path):
    trace = Trace.from_tables(FULL)
    plain = export(trace, tmp_path / "t.json")
    assert export(trace, tmp_path / "t.json.gz") == plain == export(trace, tmp_path / "u.json")
    with pytest.raises(UsageError):
        Exporter().write(trace, str(tmp_path / "v.json"), color=True)
    with pytest.raises(TraceError, match="cannot write"):
        Exporter().write(trace, str(tmp_path / "none" / "v.json"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.json", "t.json.gz", "u.json"]


def test_an_empty_trace_is_a_file_too(tmp_path):
    data, *_ = validate(export(Trace.from_tables({}), tmp_path / "t.json"))
    assert data["traceEvents"] == []


def test_what_belongs_to_no_worker_is_in_one_process(tmp_path):
    rows = {**FULL, "tasks": [{**FULL["tasks"][0], "worker": None}]}
    _, _, processes, _ = validate(export(Trace.from_tables(rows), tmp_path / "t.json"))
    assert sorted(processes.values()) == ["(no worker)", "w"]


def test_hostile_names_stay_text(tmp_path):
    rows = [task('"</script>\u2028é\x00', 0, 1), task("\\", 1, 2, worker='"')]
    _, events, *_ = validate(export(Trace.from_tables({"tasks": rows}), tmp_path / "t.json"))
    assert '"</script>\u2028é\x00' in [e.get("args", {}).get("task_id") for e in events]


def kept(trace, *, none=None):
    tasks = sorted(
        (r["task_id"], r["attempt"] or 0, r["group"] or "", r["worker"] or none, r["started_ns"],
         r["ended_ns"] or 0, r["outcome"], r["parent"] or "")
        for r in trace.table("tasks").to_pylist() if r["started_ns"] is not None
    )  # fmt: skip
    deps = sorted((d["task_id"], d["depends_on"]) for d in trace.table("deps").to_pylist())
    return tasks, deps


def lanes(trace):
    return sorted(
        (r["task_id"] or "", r["worker"] or "", r["lane"] or "", r["kind"], r["name"] or "",
         r["start_ns"], r["end_ns"], r["bytes"] or 0)
        for r in trace.table("intervals").to_pylist()
    )  # fmt: skip


def test_reading_it_back_keeps_tasks_times_names(tmp_path):
    trace = Trace.from_tables(FULL)
    again = import_bytes(chrome_trace.Importer, {"t.json": export(trace, tmp_path / "t.json")})
    tasks, deps = kept(again)
    assert tasks == kept(trace)[0]
    assert deps == [("a2", "a1")]
    assert again.meta["time_base"] == "epoch_ns"
    gpu = [r for r in lanes(again) if r[3] == "kernel"]
    assert gpu == [r for r in lanes(trace) if r[3] == "kernel"]


_ROW = st.tuples(
    st.integers(0, 30), st.integers(0, 12), st.sampled_from(["v", "w", None]),
    st.sampled_from(["load", "fit", None]), st.integers(-1, 12), st.sampled_from(["ok", "failed"]),
)  # fmt: skip
_SPAN = st.tuples(
    st.integers(0, 30), st.integers(0, 9), st.integers(-1, 12),
    st.sampled_from([None, "GPU", "thread 1"]), st.sampled_from(["kernel", "transfer", "span"]),
)  # fmt: skip


@given(st.lists(_ROW, max_size=12), st.lists(_SPAN, max_size=12), st.sampled_from([0, EPOCH]))
def test_any_trace_is_drawn_soundly_and_comes_back(tmp_path_factory, rows, spans, base):
    tasks = [
        {"task_id": f"t{i}", "group": group, "worker": worker, "outcome": outcome,
         "parent": f"t{parent}" if 0 <= parent < i else None,
         "started_ns": base + start, "ended_ns": base + start + length}
        for i, (start, length, worker, group, parent, outcome) in enumerate(rows)
    ]  # fmt: skip
    intervals = [
        {"task_id": f"t{owner}" if 0 <= owner < len(rows) else None, "worker": "w", "lane": lane,
         "kind": kind, "name": "n", "start_ns": base + start, "end_ns": base + start + length}
        for start, length, owner, lane, kind in spans
    ]  # fmt: skip
    deps = [{"task_id": f"t{i + 1}", "depends_on": f"t{i}"} for i in range(len(rows) - 1)]
    tables = {"tasks": tasks, "intervals": intervals, "deps": deps}
    trace = Trace.from_tables(tables, {"time_base": "epoch_ns"})
    path = tmp_path_factory.mktemp("out") / "t.json"
    text = export(trace, path)
    validate(text)
    again = import_bytes(chrome_trace.Importer, {"t.json": text})
    assert kept(again) == kept(trace, none="(no worker)")
    named = [(r[0], r[3], r[4], r[5], r[6]) for r in lanes(trace)]
    found = [(r[0], r[3], r[4], r[5], r[6]) for r in lanes(again)]
    for one in set(named):
        assert one in found
    on_lanes = [r for r in lanes(trace) if r[2] and not r[0]]
    assert set(on_lanes) <= set(lanes(again))


def test_real_chrome_traces_come_back_whole(rotameter_shared, tmp_path):
    for path in sorted((rotameter_shared / "data/formats/chrome_trace").glob("*.json")):
        trace = reading.read([path])
        text = export(trace, tmp_path / "t.json")
        validate(text)
        again = import_bytes(chrome_trace.Importer, {"t.json": text})
        assert kept(again) == kept(trace)
        mine = [r[:4] + r[5:] for r in lanes(trace)]
        assert [r[:4] + r[5:] for r in lanes(again)] == mine, path.name


def test_real_gpu_export_is_drawn(rotameter_shared, tmp_path):
    trace = reading.read([rotameter_shared / "data/gpu/nsys/nsight-2025.5.2.sqlite"])
    _, events, _, threads = validate(export(trace, tmp_path / "t.json"))
    assert "device 0 stream 13" in threads.values()
    assert sum(e["ph"] == "X" for e in events) >= trace.table("tasks").num_rows


def test_it_says_what_it_wrote(tmp_path):
    from rotameter.profiler.trace import Trace

    rows = [{"task_id": "a", "started_ns": 0, "ended_ns": 5}, {"task_id": "b", "wall_s": 1.0}]
    tables = {"tasks": rows, "intervals": [{"task_id": "b", "name": "x", "kind": "span"}]}
    exporter = Exporter()
    exporter.write(Trace.from_tables(tables), str(tmp_path / "t.json"))
    assert str(exporter.written) == "1 of 2 attempts; 1 have no start; 1 intervals have no start"
