"""Chrome Trace Event JSON: both forms, cut anywhere, events in any order."""

import gzip
import json
import random

import pytest
from hypothesis import given
from tests.property.grammars import chrome_trace as grammar

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._chrome_slices import Mark, pair
from rotameter.adapters.importers.chrome_trace import Importer
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput, RotameterError, UsageError
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head


def x(name, ts, dur, tid=1, pid=1, **more):
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, "pid": pid, "tid": tid, **more}


def m(phase, name, ts, tid=1, pid=1, **more):
    return {"name": name, "ph": phase, "ts": ts, "pid": pid, "tid": tid, **more}


def read(*events, name="t.json", **options):
    data = events[0] if isinstance(events[0], bytes) else json.dumps(list(events)).encode()
    return import_bytes(Importer, {name: data}, **options)


def tasks(trace):
    return [
        (row["group"], row["started_ns"], row["ended_ns"])
        for row in trace.table("tasks").to_pylist()
    ]


def spans(trace, lane=None):
    return [
        (row["name"], row["start_ns"], row["end_ns"], row["parent"])
        for row in trace.table("intervals").to_pylist()
        if lane is None or row["lane"] == lane
    ]


SAMPLES = {
    "array.json": json.dumps([x("a", 0, 9), x("b", 1, 2), m("C", "rss", 3, args={"v": 1})]),
    "open.json": "[\n" + json.dumps(x("é", 0, 9)) + ",\n" + json.dumps(x("b", 10, 2.5)) + ",\n",
    "object.json": json.dumps(
        {
            "displayTimeUnit": "ms",
            "traceEvents": [
                m("B", "a", 0),
                m("E", "a", 5),
                m("b", "wait", 1, cat="io", id=7),
                m("e", "wait", 4, cat="io", id=7),
                m("i", "now", 2, s="t"),
                m("M", "process_name", 0, args={"name": "worker"}),
            ],
            "metadata": {"source": "test"},
        },
        indent=1,
    ),
    "lines.json": "\n".join(json.dumps(e) for e in (x("a", "1", "2"), x("b", "4", "2"))),
}


def test_conformance():
    check_importer(Importer, {name: text.encode() for name, text in SAMPLES.items()}, cuts=20)


def test_equal_or_nested_slices_and_who_ran_them():
    trace = read(
        m("M", "process_name", 0, args={"name": "py"}),
        m("M", "thread_name", 0, args={"name": "main"}),
        x("out", 0, 10, tdur=4),
        x("in", 2, 3),
        x("in", 5, 5),
        x("next", 10, 1),
    )
    assert tasks(trace) == [("out", 0, 10_000), ("next", 10_000, 11_000)]
    row = trace.table("tasks").to_pylist()[0]
    assert (row["worker"], row["wall_s"], row["cpu_s"]) == ("py", 1e-5, 4e-6)
    assert (row["outcome"], row["outcome_kind"]) == ("ok", "inferred")
    assert spans(trace, "main")[:3] == [
        ("out", 0, 10_000, None), ("in", 2000, 5000, "out"), ("in", 5000, 10_000, "out"),
    ]  # fmt: skip
    assert trace.table("workers")["pid"].to_pylist() == [1]
    # What nests is in its outer slice's time: a sum over tasks counts each moment once.
    assert sum(row["wall_s"] for row in trace.table("tasks").to_pylist()) == pytest.approx(11e-6)


def test_nested_slices_can_be_tasks():
    trace = read(x("out", 0, 10), x("in", 2, 3), nested="tasks")
    rows = trace.table("tasks").to_pylist()
    assert [(r["group"], r["parent"]) for r in rows] == [("out", None), ("in", rows[0]["task_id"])]
    with pytest.raises(UsageError):
        read(x("a", 0, 1), nested="both")


def test_ends_without_names_and_without_begins():
    trace = read(
        m("B", "a", 0), m("B", "b", 1), {"ph": "E", "ts": 4, "pid": 1, "tid": 1},
        {"ph": "E", "ts": 9, "pid": 1, "tid": 1}, {"ph": "E", "ts": 3, "pid": 1, "tid": 2},
    )  # fmt: skip
    assert spans(trace) == [("a", 0, 9000, None), ("b", 1000, 4000, "a")]
    (reject,) = trace.table("rejects").to_pylist()
    assert "no begin" in reject["reason"]
    assert any("ends without a begin" in text for text in trace.warnings)


def test_a_slice_of_no_length_and_back_to_back_slices_of_one_name():
    events = [m("B", "f", 0), m("E", "f", 5), m("B", "f", 5), m("E", "f", 9),
              m("B", "z", 7), m("E", "z", 7)]  # fmt: skip
    for seed in range(20):
        shuffled = random.Random(seed).sample(events, len(events))
        assert spans(read(*shuffled)) == [
            ("f", 0, 5000, None), ("f", 5000, 9000, None), ("z", 7000, 7000, "f"),
        ]  # fmt: skip


def test_nameless_ends_of_one_moment_follow_a_file_in_order_of_time():
    marks = [Mark(0, True, "main"), Mark(5, True, "f"), Mark(5, False, None), Mark(9, False, None)]
    slices, stray = pair(marks, 9)
    assert sorted((s.name, s.start, s.end) for s in slices) == [("f", 5, 5), ("main", 0, 9)]
    assert not stray


def test_an_open_slice_ends_with_what_is_around_it_or_with_the_trace():
    trace = read(m("B", "out", 0), m("B", "in", 1), m("E", "out", 5), m("B", "open", 6, tid=2),
                 x("z", 0, 8, tid=3))  # fmt: skip
    assert ("in", 1000, 5000, "out") in spans(trace)
    rows = {row["group"]: row for row in trace.table("tasks").to_pylist()}
    assert rows["open"]["ended_ns"] == 8000
    assert rows["open"]["outcome"] == "running" and rows["open"]["error"]
    assert any("without an end event" in text and text.endswith(": 2") for text in trace.warnings)


def test_sums_and_repetitions_of_other_slices_are_none():
    clang = (
        x("ExecuteCompiler", 0, 1000),
        x("Total ExecuteCompiler", 0, 1000, tid=2, args={"count": 1, "avg ms": 1}),
    )
    bazel = (
        x("Compiling 0.cc", 0, 1000, tid=10, cat="action processing"),
        x("action 'Compiling 0.cc'", 0, 1000, tid=3, cat="critical path component"),
        x("Total of mine", 0, 1000, args={"count": 1}),
    )
    for events, names in ((clang, 1), (bazel, 2)):
        trace = import_bytes(Importer, {"t.json": json.dumps(list(events)).encode()})
        assert len(trace.tasks) == names
        assert any("only sum up or repeat" in word for word in trace.warnings)


def test_missing_and_odd_lengths_are_unknown_not_zero():
    trace = read(
        x("a", 0, None), x("b", 1, -3), x("c", 2, "nan"), x("d", 3, 10**30), x("e", "5.5", "1.25"),
        {"name": "f", "ph": "X", "ts": 9, "tdur": 2, "pid": 1, "tid": 1}, x("g", None, 1),
    )  # fmt: skip
    walls = {r["group"]: r["wall_s"] for r in trace.table("tasks").to_pylist()}
    assert walls == {"a": None, "b": None, "c": None, "d": None, "e": 1.25e-6, "f": 2e-6}
    assert trace.table("rejects").num_rows == 1


def test_times_are_exact_and_those_since_the_epoch_stay():
    start = "1700000000123456.789"
    trace = read(
        ('[{"name":"a","ph":"X","pid":1,"tid":1,"ts":' + start + ',"dur":0.001}]').encode()
    )
    assert tasks(trace) == [("a", 1_700_000_000_123_456_789, 1_700_000_000_123_456_790)]
    assert trace.meta["time_base"] == "epoch_ns"
    assert read(x("a", 50, 1)).meta["time_base"] == "relative_ns"


def test_async_slices_are_spans_beside_threads_and_tasks_without_them():
    events = [m("b", "req", 0, cat="net", id=1), m("b", "dns", 1, cat="net", id=1),
              m("e", "dns", 2, cat="net", id=1), m("e", "req", 5, cat="net", id=1),
              m("b", "req", 1, cat="net", id=1, scope="other"), m("e", "req", 2, cat="net", id=1, scope="other")]  # fmt: skip # noqa: E501
    alone = read(*events)
    assert sorted(tasks(alone)) == [("req", 0, 5000), ("req", 1000, 2000)]
    assert ("dns", 1000, 2000, "req") in spans(alone, "async net")
    beside = read(*events, x("work", 0, 3))
    assert tasks(beside) == [("work", 0, 3000)]
    assert len(spans(beside, "async net")) == 3


def test_arrows_are_dependencies_only_forward():
    flow = {"cat": "f", "id": 1, "pid": 1}
    trace = read(
        x("a", 0, 5), x("b", 6, 2, tid=2), x("long", 0, 9, tid=3),
        {"ph": "s", "name": "x", "ts": 5, "tid": 1, **flow},
        {"ph": "f", "bp": "e", "name": "x", "ts": 6, "tid": 2, **flow},
        {"ph": "s", "name": "y", "ts": 2, "tid": 1, **flow},
        {"ph": "f", "bp": "e", "name": "y", "ts": 4, "tid": 3, **flow},
        {"ph": "f", "bp": "e", "name": "z", "ts": 4, "tid": 3, **flow},
    )  # fmt: skip
    ids = {row["task_id"]: row["group"] for row in trace.table("tasks").to_pylist()}
    pairs = [(ids[d["task_id"]], ids[d["depends_on"]]) for d in trace.table("deps").to_pylist()]
    assert pairs == [("b", "a")]
    assert any("no dependencies" in text for text in trace.warnings)
    assert any("from or to no slice" in text for text in trace.warnings)


def test_bound_arrows_and_arrows_to_the_next_slice():
    trace = read(
        x("a", 0, 5, bind_id="0x1", flow_out=True),
        x("b", 6, 2, tid=2, bind_id="0x1", flow_in=True),
        x("c", 12, 1, tid=3), {"ph": "s", "name": "n", "id": 2, "ts": 7, "pid": 1, "tid": 2},
        {"ph": "f", "name": "n", "id": 2, "ts": 10, "pid": 1, "tid": 3},
    )  # fmt: skip
    assert trace.table("deps").num_rows == 2


def test_counters_marks_and_names():
    trace = read(
        m("M", "process_name", 0, args={"name": "py"}),
        m("C", "mem", 1, args={"rss": 5, "heap": "2.5", "x": None}),
        m("C", "queue", 2, args={"value": 3}),
        m("C", "bad", 2, args={"value": "many"}),
        m("i", "gc", 3, s="g"),
    )
    rows = {(s["metric"], s["value"], s["subject"]) for s in trace.table("samples").to_pylist()}
    assert rows == {("mem.rss", 5.0, "py"), ("mem.heap", 2.5, "py"), ("queue", 3.0, "py")}
    (event,) = trace.table("events").to_pylist()
    assert (event["kind"], event["subject"], event["at_ns"]) == ("instant", "gc", 2000)
    assert trace.meta["importer"]["records"] == {"in": 5, "out": 3, "merged": 1, "rejected": 1}
    assert any("holds no slices" in text for text in trace.warnings)


def test_processes_and_threads_are_text_or_numbers():
    trace = read(x("a", 0, 1, pid="Spans", tid="PyTorch"), x("b", 0, 1, pid=7, tid="7"),
                 x("c", 1, 1, pid="7", tid=7.0))  # fmt: skip
    assert trace.table("tasks")["worker"].to_pylist() == ["7", "7", "Spans"]


def test_two_processes_of_one_name_stay_two():
    names = [m("M", "process_name", 0, pid=p, args={"name": "py"}) for p in (1, 2)]
    trace = read(*names, x("a", 0, 1, pid=1), x("b", 0, 1, pid=2))
    assert trace.table("tasks")["worker"].to_pylist() == ["py 1", "py 2"]


def test_slices_that_cross_are_tasks_of_their_own():
    trace = read(x("a", 0, 10), x("b", 5, 10))
    assert tasks(trace) == [("a", 0, 10_000), ("b", 5000, 15_000)]
    assert any("overlap" in text for text in trace.warnings)


def test_secrets_in_names_are_taken_out():
    trace = read(x("GET https://ann:pw@host/a?token=abc", 0, 1))
    assert trace.table("tasks")["group"].to_pylist() == ["GET https://host/a"]


def test_only_begin_arguments_are_known_before():
    trace = read(m("B", "a", 0, args={"n": 5, "ok": True, "s": "x"}), m("E", "a", 1),
                 x("b", 2, 1, args={"result": 7}))  # fmt: skip
    assert [r["features"] for r in trace.table("tasks").to_pylist()] == [[("n", 5.0)], None]


WHOLE = json.dumps([x("naïve☃", i, 1, args={"s": 'a]}{["b'}) for i in range(5)], ensure_ascii=False)


@pytest.mark.parametrize("form", ["array", "object"])
def test_cut_at_any_byte_what_is_whole_is_read(form):
    text = WHOLE if form == "array" else f'{{"a": 1, "traceEvents": {WHOLE}, "z": [1, 2]}}'
    data = text.encode()
    ends = [i + 1 for i in range(len(data)) if data[: i + 1].endswith(b'"b"}}')]
    ends = ends or [i + 3 for i in range(len(data)) if data[i : i + 3] == b'"}}']
    assert len(ends) == 5
    for at in range(0, len(data), 1 if len(data) < 400 else 3):
        whole = sum(end <= at for end in ends)
        try:
            trace = read(data[:at])
        except BadInput:
            assert not whole
            continue
        assert trace.table("tasks").num_rows == whole
        cut = any(f"last event cut at byte {at:,}" in w for w in trace.warnings)
        inside = not any(at >= end and not data[end:at].strip(b", ]") for end in [0, *ends])
        if form == "array" and at > 1 and inside:
            assert cut, at


def test_damage_in_the_middle_costs_one_event():
    data = WHOLE.encode()
    at = data.index(b'"ts": 2')
    for broken in (b'"ts": \xff\xfe', b'"ts" 2'):
        trace = read(data.replace(b'"ts": 2', broken, 1))
        assert trace.table("tasks").num_rows == 4
        assert trace.table("rejects").num_rows == 1
        assert any("damaged places" in text for text in trace.warnings)
    joined = read(data[: at + 3] + data)
    assert joined.table("intervals").num_rows == 7


def test_a_damaged_gzip_gives_what_comes_before(tmp_path):
    path = tmp_path / "t.json.gz"
    rng = random.Random(0)
    events = [x(f"n{rng.random()}", i, 1) for i in range(40_000)]
    path.write_bytes(gzip.compress(json.dumps(events).encode())[:-200_000])
    trace = reading.read([path])
    assert 1000 < trace.table("tasks").num_rows < 40_000
    assert any("damaged" in text and "recovered" in text for text in trace.warnings)


def test_utf16_and_deep_nesting():
    trace = import_bytes(Importer, {"t.json": WHOLE.encode("utf-16")})
    assert trace.table("tasks").num_rows == 5
    deep = '[{"ph":"X","a":' + "[" * 100_000 + "]" * 100_000 + "}," + WHOLE[1:]
    trace = read(deep.encode())
    assert trace.table("tasks").num_rows == 5
    huge = '[{"ph":"X","ts":' + "9" * 9000 + "}," + WHOLE[1:]
    assert read(huge.encode()).table("tasks").num_rows == 5


def test_large_files_are_streamed_over_chunk_borders():
    events = [x(f"n{i % 7}", i * 2, 1, args={"pad": "é" * (i % 90)}) for i in range(30_000)]
    trace = read(json.dumps(events, ensure_ascii=False).encode())
    assert trace.table("tasks").num_rows == 30_000
    assert not trace.warnings


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["deep", "first in first out", "crossing", "arrows", "garbage"])
def test_absurd_files_end_soon(kind):
    n = 20_000
    if kind == "deep":
        events = [m("B", f"n{i}", i) for i in range(n)]
    elif kind == "first in first out":
        events = [m(p, f"n{i}", i + n * (p == "E")) for p in "BE" for i in range(n)]
    elif kind == "crossing":
        events = [x("a", i, n + i) for i in range(n)]
    elif kind == "arrows":
        events = [x("a", i, 2 * n - 2 * i) for i in range(n)]
        events += [m("s" if i % 2 else "f", "x", n, id=i // 2) for i in range(n)]
    else:
        events = ['{"a":' * 50] * 2000
    text = json.dumps(events) if kind != "garbage" else "[" + "".join(events)
    trace = read(text.encode())
    if kind == "garbage":
        assert not len(trace.tasks) and trace.warnings
    else:
        assert len(trace.tasks)


def test_several_files_are_told_apart():
    one = json.dumps([x("a", 0, 1)]).encode()
    trace = import_bytes(Importer, {"r0.json": one, "r1.json": one, "d/r1.json": one})
    assert trace.table("tasks")["task_id"].to_pylist() == ["r0/1/1/0", "r1/1/1/0", "r1 2/1/1/0"]


def test_empty_list_is_a_trace_without_slices():
    assert read(b'{"traceEvents": []}').table("tasks").num_rows == 0
    with pytest.raises(BadInput):
        read(b"hello")


def test_kineto_is_left_to_its_own_importer():
    sniff = Importer().sniff
    assert sniff(Head("t", b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"}]}')) < 0.5
    assert sniff(Head("t", b'[{"ph": "X", "cat": "cpu_op", "name": "aten::add"}]')) < 0.5
    assert sniff(Head("t", b'{"traceEvents": []}')) >= 0.5


def _same(trace):
    return (sorted(map(str, trace.table("tasks").to_pylist())),
            sorted(map(str, trace.table("intervals").to_pylist())))  # fmt: skip


def test_real_files_import_alike_in_any_order_of_lines(rotameter_shared):
    folder = rotameter_shared / "data/formats/chrome_trace"
    paths = sorted(folder.glob("*.json"))
    assert len(paths) == 31 or len(paths) == 32
    for path in paths:
        trace = reading.read([path], format="chrome_trace")
        records = trace.meta["importer"]["records"]
        assert records["in"] == records["out"] + records["merged"] + records["rejected"]
        text = path.read_text().strip().rstrip(",")
        if not text.endswith(("]", "}")) or text[0] + text[-1] == "[}":
            text += "]"
        data = json.loads(text)
        events = data["traceEvents"] if isinstance(data, dict) else data
        assert records["in"] == len(events)
        plain = import_bytes(Importer, {"t.json": json.dumps(events).encode()})
        nameless = any(e.get("ph") == "E" and "name" not in e for e in events)
        for seed in range(3):
            shuffled = random.Random(seed).sample(events, len(events))
            again = import_bytes(Importer, {"t.json": json.dumps(shuffled).encode()})
            assert nameless or _same(again) == _same(plain), path.name


def test_real_chrome_trace_counts(rotameter_shared):
    folder = rotameter_shared / "data/formats/chrome_trace"
    path = folder / "chrome116_Trace-20230603T221323.json"
    trace = reading.read([path])
    events = json.loads(path.read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    total = sum(e["dur"] for e in slices)
    rows = [r for r in trace.table("intervals").to_pylist() if not r["lane"].startswith("async")]
    assert len(rows) == len(slices) == 2456
    assert sum(r["end_ns"] - r["start_ns"] for r in rows) == total * 1000
    assert not trace.table("rejects").num_rows


def test_bugcase_43_cut_files(rotameter_shared):
    folder = rotameter_shared / "bugcases/43-trace-truncated-json"
    for name, size in (("partial", None), ("cut", 126), ("object_cut", 185)):
        path = next(folder.rglob(f"{name}.json"))
        trace = reading.read([path])
        assert tasks(trace) == [("load", 0, 10_000), ("fit", 10_000, 30_000)]
        said = [w for w in trace.warnings if f"last event cut at byte {size}" in w]
        assert bool(said) == (size is not None)
        assert size is not None or not trace.warnings


def test_bugcase_44_unordered(rotameter_shared):
    path = next((rotameter_shared / "bugcases/44-trace-unordered-unbalanced").rglob("*.json"))
    events = json.loads(path.read_text())
    for seed in range(30):
        trace = read(*random.Random(seed).sample(events, len(events)))
        assert spans(trace) == [
            ("outer", 0, 100_000, None), ("inner", 10_000, 50_000, "outer"),
            ("next", 50_000, 80_000, "outer"), ("open", 90_000, 100_000, None),
        ]  # fmt: skip
        rows = {row["group"]: row for row in trace.table("tasks").to_pylist()}
        assert (rows["open"]["outcome"], rows["open"]["wall_s"]) == ("running", 1e-5)
        assert trace.table("rejects").num_rows == 1


def test_sniffing_knows_its_own_files_only(rotameter_shared):
    for folder in ("data/formats", "bugcases"):
        for path in sorted((rotameter_shared / folder).rglob("*")):
            if not path.is_file():
                continue
            try:
                members = open_members(path)
            except RotameterError:
                continue
            for file in members:
                sure = Importer().sniff(Head(file.name, file.head, file.path))
                ours = "chrome_trace/" in file.name or "/43-" in file.name or "/44-" in file.name
                ours = ours and file.name.endswith(".json")
                assert (sure >= 0.5) == ours, file.name


@given(grammar.files())
def test_whatever_it_holds_twice_is_the_same(file):
    try:
        first = import_bytes(Importer, dict([file]))
    except RotameterError:
        return
    assert _same(first) == _same(import_bytes(Importer, dict([file])))
