"""PyTorch execution traces: both layouts, callers, and who waits for whose tensors."""

import gzip
import json

import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._et_graph import tensors_of
from rotameter.adapters.importers.execution_trace import Importer
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput, RotameterError
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head


def tensor(number, elements=10):
    return [number, number, 0, elements, 4, "cuda:0"]


def old(ident, name, parent, inputs=(), outputs=(), **more):
    return {
        "name": name, "id": ident, "rf_id": ident - 1, "parent": parent, "fw_parent": 0,
        "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "", "inputs": list(inputs),
        "input_types": ["Tensor(float)"] * len(inputs), "outputs": list(outputs),
        "output_types": ["Tensor(float)"] * len(outputs), **more,
    }  # fmt: skip


def new(ident, name, parent, inputs=(), outputs=(), **attributes):
    types = ["Tensor(float)"]
    values = {"rf_id": ident - 1, "fw_parent": 0, "scope": 0, "tid": 1, **attributes}
    return {
        "id": ident, "name": name, "ctrl_deps": parent,
        "inputs": {"values": list(inputs), "shapes": [], "types": types * len(inputs)},
        "outputs": {"values": list(outputs), "shapes": [], "types": types * len(outputs)},
        "attrs": [{"name": k, "type": "uint64", "value": v} for k, v in values.items()],
    }  # fmt: skip


def document(make, schema):
    root = "[pytorch|profiler|execution_trace|thread]"
    nodes = [
        make(2, root, 1),
        make(4, "aten::t", 3, [tensor(90)], [tensor(91)]),
        make(3, "aten::linear", 2, [tensor(90), tensor(80)], [tensor(92)]),
        make(5, "aten::addmm", 3, [tensor(91), tensor(80)], [tensor(92, 20)]),
        make(6, "aten::relu", 2, [tensor(92)], [tensor(93)]),
        make(7, "aten::relu_", 2, [tensor(93)], [tensor(93)]),
        make(8, "aten::cat", 2, [[tensor(93), tensor(91)]], [tensor(94)]),
        make(9, "ReluBackward0", 2, [], [], fw_parent=6),
    ]
    return {"schema": schema, "pid": 7, "time": "2024-01-01 00:00:00", "start_ts": 1,
            "nodes": nodes, "finish_ts": 2}  # fmt: skip


DOCUMENTS = {
    "old.json": document(old, "1.0.1"),
    "new.json": document(new, "1.1.0-chakra.0.0.4"),
}


def read(data, name="et.json"):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return import_bytes(Importer, {name: data})


def pairs(trace):
    return {(int(d["task_id"]), int(d["depends_on"])) for d in trace.table("deps").to_pylist()}


def test_conformance():
    samples = {name: json.dumps(d, indent=1).encode() for name, d in DOCUMENTS.items()}
    check_importer(Importer, samples, cuts=15)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_operators_callers_and_tensors(name):
    trace = read(DOCUMENTS[name])
    rows = {int(row["task_id"]): row for row in trace.table("tasks").to_pylist()}
    assert sorted(rows) == [3, 4, 5, 6, 7, 8, 9]
    assert rows[4]["parent"] == rows[5]["parent"] == "3"
    assert rows[3]["parent"] is None
    assert rows[5]["output_bytes"] == 80
    assert dict(rows[5]["features"]) == {"input_bytes": 80.0, "input_elements": 20.0}
    assert rows[5]["wall_s"] is None and rows[5]["started_ns"] is None
    # The inner operators, not their caller; the last one that wrote a tensor; forward, backward.
    assert pairs(trace) == {(5, 4), (6, 5), (7, 6), (8, 7), (8, 4), (9, 6)}
    assert trace.meta["importer"]["records"] == {"in": 8, "out": 7, "merged": 1, "rejected": 0}
    flows = trace.table("flows").to_pylist()
    assert {f["medium"] for f in flows} == {"device"}
    assert sum(f["op"] == "write" for f in flows) == 5


def test_both_layouts_give_the_same_graph():
    old_trace, new_trace = (read(DOCUMENTS[name]) for name in sorted(DOCUMENTS))
    for table in ("tasks", "deps", "flows"):
        assert old_trace.table(table).equals(new_trace.table(table))


def test_the_order_of_the_nodes_does_not_matter():
    document = DOCUMENTS["old.json"]
    turned = {**document, "nodes": document["nodes"][::-1]}
    for table in ("tasks", "deps", "flows"):
        assert read(turned).table(table).equals(read(document).table(table))


def test_a_caller_counts_for_tensors_that_nothing_in_it_touches():
    nodes = [old(2, "make", 1, [], [tensor(5)]), old(3, "outer", 1, [tensor(5)], [tensor(6)]),
             old(4, "inner", 3), old(5, "use", 1, [tensor(6)])]  # fmt: skip
    assert pairs(read({"schema": "1.0.1", "nodes": nodes})) == {(3, 2), (5, 3)}


def test_control_in_lists_and_data_deps_of_chakra():
    nodes = [new(2, "a", 1), new(3, "b", 1), new(4, "c", 1)]
    nodes[2] |= {"ctrl_deps": [2, 3], "data_deps": [3]}
    trace = read({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes})
    assert pairs(trace) == {(4, 3)}
    assert trace.table("tasks")["parent"].to_pylist() == [None, None, "2"]


def test_lists_of_tensors_and_odd_values():
    values = [[tensor(1), [tensor(2)]], "<None>", None, [1, 2], [], [[[]]], [1, 2, 3, 4, 5, 6, 7]]
    assert [t[0] for t in tensors_of(values, None)] == [1, 2]
    assert not list(tensors_of("x", 3))
    assert not list(tensors_of([[1, 2, 3, 4, 5]], ["GenericList[Int]"]))


def test_bad_nodes_are_rejected_with_their_line():
    document = {"schema": "1.0.1", "nodes": [old(2, "a", 1), {"id": 3}, {"name": "x"}, 5,
                                             old(2, "again", 1)]}  # fmt: skip
    trace = read(json.dumps(document, indent=0).encode())
    assert trace.table("rejects").num_rows == 4
    assert all(row["line"] > 10 for row in trace.table("rejects").to_pylist())


def test_callers_in_a_circle_end():
    nodes = [old(5, "a", 6), old(6, "b", 5), old(7, "c", 7)]
    assert read({"schema": "1.0.1", "nodes": nodes}).table("tasks").num_rows == 3


def test_cut_files_give_what_is_whole():
    data = json.dumps(DOCUMENTS["old.json"]).encode()
    trace = read(data[: data.index(b"aten::cat")])
    assert trace.table("tasks").num_rows == 5
    assert any("last node cut at byte" in text for text in trace.warnings)
    with pytest.raises(BadInput):
        read(b'{"schema": "1.0.1"}')
    assert read({"schema": "1.0.1", "nodes": []}).table("tasks").num_rows == 0


def test_ranks_are_told_apart():
    data = json.dumps(DOCUMENTS["old.json"]).encode()
    trace = import_bytes(Importer, {"rank0.json": data, "rank1.json": data})
    assert trace.table("tasks").num_rows == 14
    assert trace.table("deps")["depends_on"].to_pylist()[0] == "rank0/4"
    assert len(set(trace.table("workers")["worker"].to_pylist())) == 2


def test_times_come_from_the_profilers_trace(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 7, "tid": 7, "ts": 2.5, "dur": 1,
         "args": {"Record function id": 5, "External id": 1}},
        {"ph": "X", "cat": "cpu_op", "name": "o", "ts": 9, "dur": 1, "args": {"External id": 2}},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"External id": 4}},
    ]  # fmt: skip
    path = tmp_path / "k.json"
    base = 1_700_000_000 * 10**9
    path.write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": base}))
    data = json.dumps(DOCUMENTS["old.json"]).encode()
    trace = import_bytes(Importer, {"et.json": data}, kineto=str(path))
    timed = {r["group"]: r for r in trace.table("tasks").to_pylist() if r["wall_s"] is not None}
    assert list(timed) == ["aten::relu"]
    assert timed["aten::relu"]["started_ns"] == base + 2500
    assert timed["aten::relu"]["wall_s"] == 1e-6
    assert any("same run" in text for text in trace.warnings)
    path.write_text("[]")
    with pytest.raises(BadInput):
        import_bytes(Importer, {"et.json": data}, kineto=str(path))


def test_real_profilers_trace_gives_every_operator_its_time(rotameter_shared):
    folder = rotameter_shared / "data/formats/kineto"
    stem = "hta_execution_trace_benchmark_simple_add"
    options = {"kineto": folder / f"{stem}_trace.json.gz"}
    trace = reading.read([folder / f"{stem}_et.json.gz"], options=options)
    rows = trace.table("tasks").to_pylist()
    assert len(rows) == 36 and all(row["wall_s"] is not None for row in rows)
    events = json.loads(gzip.decompress(options["kineto"].read_bytes()))["traceEvents"]
    mine = [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]
    assert sum(r["wall_s"] for r in rows) == pytest.approx(sum(e["dur"] for e in mine) / 1e6)
    for task, other in pairs(trace):
        times = {int(r["task_id"]): (r["started_ns"], r["ended_ns"]) for r in rows}
        assert times[other][1] <= times[task][0]


def test_real_files(rotameter_shared):
    folder = rotameter_shared / "data/gpu/param_et"
    paths = [*sorted(folder.glob("*_et.json.gz")),
             *(rotameter_shared / "data/formats/kineto").glob("*_et.json.gz")]  # fmt: skip
    assert len(paths) == 4
    for path in paths:
        trace = reading.read([path])
        nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
        roots = [n for n in nodes if n["name"].startswith("[pytorch|profiler|execution_")]
        ids = {str(node["id"]) for node in nodes if node not in roots}
        assert set(trace.table("tasks")["task_id"].to_pylist()) == ids
        assert not trace.warnings and not trace.table("rejects").num_rows
        found = pairs(trace)
        assert found and all(other < task for task, other in found)
        parents = {int(n["id"]): n.get("ctrl_deps", n.get("parent")) for n in nodes}
        for task, other in found:  # no operator waits for its caller or its callee
            above = task
            while above in parents and parents[above] != above:
                above = parents[above]
                assert above != other
        assert set(trace.table("tasks")["wall_s"].to_pylist()) == {None}


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
                assert (sure >= 0.5) == file.name.endswith("_et.json.gz"), file.name
