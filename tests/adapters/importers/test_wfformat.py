"""WfFormat 1.0 to 1.5."""

from __future__ import annotations

import json

import pytest

import rotameter
from rotameter.adapters.importers.wfformat import Importer
from rotameter.errors import BadInput, RotameterError, UsageError
from rotameter.profiler.stats import stats
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head


def job(name: str, **more: object) -> dict:
    return {"name": name, "type": "compute", "parents": [], "files": [], **more}


def old(*jobs: dict, version: str = "1.2", key: str = "jobs", **flow: object) -> dict:
    return {"name": "w", "schemaVersion": version, "workflow": {key: list(jobs), **flow}}


def new(specified: list, executed: list | None = None, files: list | None = None, **run) -> dict:
    flow: dict = {"specification": {"tasks": specified, "files": files or []}}
    if executed is not None:
        flow["execution"] = {"tasks": executed, **run}
    return {"name": "w", "schemaVersion": "1.5", "workflow": flow}


def load(data: object, name: str = "flow.json", **options: object) -> rotameter.Trace:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return import_bytes(Importer, {name: text}, **options)


def rows(trace) -> dict[str, dict]:
    return {row["task_id"]: row for row in trace.table("tasks").to_pylist()}


def edges(trace) -> set[tuple[str, str]]:
    return {(row["task_id"], row["depends_on"]) for row in trace.table("deps").to_pylist()}


OLD = old(
    job(
        "prep_ID0000001",
        id="ID0000001",
        category="prep",
        runtime=12.5,
        avgCPU=191.0,
        memory=324392,
        bytesRead=46,
        bytesWritten=39,
        cores=2,
        machine="node-1",
        priority=20,
        children=["join_ID0000002"],
        files=[
            {"name": "in.txt", "link": "input", "size": 7},
            {"name": "mid.txt", "link": "output", "size": 100},
        ],
    ),
    job(
        "join_ID0000002",
        id="ID0000002",
        runtime=1,
        parents=["prep_ID0000001"],
        files=[{"name": "mid.txt", "link": "input", "size": 100}],
    ),
    makespan=20,
    executedAt="12-19-20T21:31:53Z",
    machines=[{"nodeName": "node-1", "memory": 131795960, "cpu": {"count": 48, "speed": 1274}}],
)
NEW = new(
    [
        {"name": "prep_ID0000001", "id": "prep_ID0000001", "parents": [],
         "children": ["join_ID0000002"], "inputFiles": ["in.txt"], "outputFiles": ["mid.txt"]},
        {"name": "join_ID0000002", "id": "join_ID0000002", "parents": ["prep_ID0000001"],
         "children": [], "inputFiles": ["mid.txt"], "outputFiles": []},
    ],
    [
        {"id": "prep_ID0000001", "runtimeInSeconds": 12.5, "avgCPU": 191.0, "coreCount": 2,
         "memoryInBytes": 324392000, "readBytes": 46000, "writtenBytes": 39000, "priority": 20,
         "machines": ["node-1"], "command": {"program": "prep", "arguments": ["--token=abc"]}},
        {"id": "join_ID0000002", "runtimeInSeconds": 1},
    ],
    [{"id": "in.txt", "sizeInBytes": 7}, {"id": "mid.txt", "sizeInBytes": 100}],
    makespanInSeconds=20,
    executedAt="20200401T035043+0000",
    machines=[{"nodeName": "node-1", "memoryInBytes": 131795960000,
               "cpu": {"coreCount": 48, "speedInMHz": 1274}}],
)  # fmt: skip


def test_conformance():
    samples = {
        "old.json": OLD,
        "new.json": NEW,
        "bare.json": new(NEW["workflow"]["specification"]["tasks"]),
    }
    check_importer(
        Importer, {n: json.dumps(d, indent=1).encode() for n, d in samples.items()}, cuts=20
    )


def test_the_layouts_and_units_agree():
    first, second = load(OLD), load(NEW)
    for table in ("deps", "objects", "workers", "flows"):
        assert first.table(table).equals(second.table(table))
    columns = [c for c in first.table("tasks").column_names if c != "run_id"]
    assert first.table("tasks").select(columns).equals(second.table("tasks").select(columns))
    row = rows(first)["prep_ID0000001"]
    assert row["group"] == "prep" and row["wall_s"] == 12.5 and row["cpu_s"] == 23.875
    assert row["peak_memory_bytes"] == 324392000 and row["peak_memory_kind"] == "sampled"
    assert (row["read_bytes"], row["write_bytes"], row["requested_cores"]) == (46000, 39000, 2.0)
    assert row["host"] == "node-1" and row["priority"] == 20
    assert (row["outcome"], row["outcome_kind"]) == ("ok", "inferred")
    assert dict(row["features"]) == {"input_bytes": 7.0, "input_files": 1.0}
    worker = first.table("workers").to_pylist()[0]
    assert worker["cores"] == 48 and worker["memory_bytes"] == 131795960000
    assert first.meta["makespan_s"] == 20 and second.meta["executed_at"] == "20200401T035043+0000"


def test_file_sizes_of_old_layouts_are_bytes_unless_told():
    plain, told = load(OLD), load(OLD, file_size="KB")
    sizes = [
        {r["object"]: r["size_bytes"] for r in t.table("objects").to_pylist()}
        for t in (plain, told)
    ]
    assert sizes[0]["mid.txt"] == 100 and sizes[1]["mid.txt"] == 100_000
    assert any("file_size=KB" in text for text in plain.warnings) and not told.warnings
    with pytest.raises(UsageError):
        load(OLD, file_size="pages")


def test_zero_memory_is_none_and_zero_runtime_is_kept():
    trace = load(new([{"name": "a", "id": "a"}], [{"id": "a", "runtimeInSeconds": 0.0,
                     "memoryInBytes": 0, "avgCPU": 40.9}]))  # fmt: skip
    row = rows(trace)["a"]
    assert row["wall_s"] == 0.0 and row["peak_memory_bytes"] is None and row["cpu_s"] is None
    assert any("runtime of 0" in text for text in trace.warnings)
    assert any("memory of 0" in text for text in trace.warnings)


def test_edges_are_the_union_and_differences_are_counted():
    a = {"name": "a", "id": "a", "children": ["b"], "outputFiles": ["x"]}
    b = {"name": "b", "id": "b", "parents": []}
    c = {"name": "c", "id": "c", "parents": ["b", "nobody"], "inputFiles": ["x"]}
    trace = load(new([a, b, c]))
    assert edges(trace) == {("b", "a"), ("c", "b"), ("c", "a")}
    said = " | ".join(trace.warnings)
    assert "left out: 1 parent or child not in the file" in said
    assert "2 dependencies named on one side only" in said
    assert "1 dependency that only files show" in said
    assert "2 dependencies named that share no file" in said


def test_edges_from_files_alone_and_no_circle():
    a = job("p", id="1", files=[{"name": "f", "link": "output", "path": "/x/"}])
    b = job("p", id="2", files=[{"name": "f", "link": "input", "path": "/x/"}])
    trace = load(old(a, b, version="1.4", key="tasks"))
    assert edges(trace) == {("p_2", "p_1")}  # duplicate names: the id is behind the name
    assert {row["group"] for row in rows(trace).values()} == {"p"}
    b["files"].append({"name": "g", "link": "output"})
    a["files"].append({"name": "g", "link": "input"})
    b["parents"] = ["1"]
    trace = load(old(a, b, version="1.4", key="tasks"))
    assert edges(trace) == {("p_2", "p_1")} and any("circle" in text for text in trace.warnings)


def test_starts_of_tasks_and_their_zones():
    made = new([{"name": "a", "id": "a"}], [{"id": "a", "runtimeInSeconds": 2,
               "executedAt": "2023-03-28T18:01:31-10:00"}])  # fmt: skip
    row = rows(load(made))["a"]
    assert row["ended_ns"] - row["started_ns"] == 2 * 10**9
    assert row["started_ns"] == 1680062491 * 10**9
    made["workflow"]["execution"]["tasks"][0]["executedAt"] = "2023-03-28T18:01:31"
    trace = load(made)
    assert trace.meta["time_base"] == "relative_ns" and rows(trace)["a"]["started_ns"] == 0


def test_specified_but_not_executed_and_the_other_way_round():
    trace = load(new([{"name": "a", "id": "a"}], [{"id": "b", "runtimeInSeconds": 1},
                     {"id": "b", "runtimeInSeconds": 2}, {"runtimeInSeconds": 2}]))  # fmt: skip
    tasks = trace.table("tasks").to_pylist()
    assert [(t["task_id"], t["attempt"], t["outcome"], t["wall_s"]) for t in tasks] == [
        ("a", 1, "unknown", None),
        ("b", 1, "ok", 1.0),
        ("b", 2, "ok", 2.0),
    ]
    assert trace.meta["importer"]["records"] == {"in": 4, "out": 3, "merged": 0, "rejected": 1}


def test_odd_numbers_become_none_and_energy_is_joules():
    text = (
        b'{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a"}, 7, '
        b'{"id": "a"}]}, "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1e999, '
        b'"memoryInBytes": NaN, "readBytes": 1' + b"0" * 400 + b', "avgCPU": -3}]}}}'
    )
    trace = load(text)
    row = rows(trace)["a"]
    assert row["wall_s"] is None and row["peak_memory_bytes"] is None and row["read_bytes"] is None
    assert trace.table("rejects").num_rows == 2
    used = {"id": "a", "runtimeInSeconds": 10, "avgPowerInW": 5}
    row = rows(load(new([{"id": "a"}], [used])))["a"]
    assert row["energy_j"] == 50 and row["energy_quality"] == "estimate"
    row = rows(load(new([{"id": "a"}], [{**used, "energyInKWh": 1}])))["a"]
    assert row["energy_j"] == 3.6e6 and row["energy_quality"] is None


def test_several_machines_and_odd_machines():
    used = {"id": "a", "runtimeInSeconds": 1, "machines": ["n1", "n2"]}
    machine = {"nodeName": "n1", "memoryInBytes": 196483612, "cpu": {"coreCount": 64}}
    trace = load(new([{"id": "a"}], [used], machines=[machine]))
    assert rows(trace)["a"]["granted_nodes"] == 2 and trace.meta["hosts_of"] == {"a": ["n1", "n2"]}
    assert any("read as bytes" in text for text in trace.warnings)


def test_workflows_of_several_files_are_kept_apart():
    data = json.dumps(NEW).encode()
    trace = import_bytes(Importer, {"one.json": data, "two.json": data})
    assert len(rows(trace)) == 4 and len(edges(trace)) == 2
    assert {name.split("/")[0] for name in rows(trace)} == {"one", "two"}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"workflow": 3}', b'{"schemaVersion": "1.5", "workflow": {}}',
     b'{"workflow": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"],
)  # fmt: skip
def test_refused_in_one_sentence(data):
    with pytest.raises(BadInput) as caught:
        load(data)
    assert caught.value.hint and "\n" not in str(caught.value)


def test_schemas_are_no_instances():
    schema = {"$schema": "x", "properties": {"schemaVersion": {}, "workflow": {"tasks": 1}}}
    assert Importer().sniff(Head("s.json", json.dumps(schema).encode())) == 0


# -- real files --------------------------------------------------------------------------------

VERSIONS = ("v10", "v12", "v14", "v15")


def test_one_instance_in_four_versions(rotameter_shared):
    found = []
    for version in VERSIONS:
        path = (
            rotameter_shared / f"data/formats/wfcommons/{version}_srasearch-chameleon-10a-001.json"
        )
        trace = rotameter.open(path)
        made = stats(trace)
        assert made["tasks"] == 22 and abs(made["task_wall_s"] - 6996.8) <= 0.1
        used = {n: (r["peak_memory_bytes"], r["cpu_s"], r["group"]) for n, r in rows(trace).items()}
        found.append((edges(trace), used, trace.table("objects").to_pylist()))
    assert len(found[0][0]) == 30 and all(one == found[0] for one in found)


def test_every_real_instance(rotameter_shared):
    paths = sorted(rotameter_shared.glob("data/formats/wfcommons/v1*.json"))
    assert len(paths) == 18
    for path in paths:
        data = json.loads(path.read_text())["workflow"]
        listed = data.get("jobs") or data.get("tasks") or data["specification"]["tasks"]
        trace = rotameter.open(path)
        assert len(rows(trace)) == len(listed) and not trace.table("rejects").num_rows


def test_two_layouts_of_one_chain(rotameter_shared):
    folder = rotameter_shared / "bugcases/40-wf-two-layouts"
    traces = [rotameter.open(folder / f"{name}.json") for name in ("v14", "v15")]
    for trace in traces:
        assert edges(trace) == {("b", "a"), ("c", "b")}
        assert {n: r["wall_s"] for n, r in rows(trace).items()} == {"a": 5, "b": 10, "c": 15}
        assert rows(trace)["b"]["peak_memory_bytes"] == 1_000_000
        assert {r["host"] for r in rows(trace).values()} == {None}


def test_the_published_schemas_are_refused(rotameter_shared):
    for path in rotameter_shared.glob("data/formats/wfcommons/schema_*.json"):
        with pytest.raises(RotameterError):
            rotameter.open(path)


@pytest.mark.parametrize("key", ["coreCount", "memoryInBytes", "readBytes", "writtenBytes"])
def test_amounts_that_are_none_are_said(key):
    data = new([{"name": "a", "id": "a"}], [{"id": "a", "runtimeInSeconds": 1, key: -5}])
    made = load(data)
    assert f"a {key} that is no amount is left out" in made.warnings
    data["workflow"]["execution"]["tasks"][0][key] = 5
    assert not any("no amount" in w for w in load(data).warnings)


def test_one_instance_under_two_names_is_said():
    text = json.dumps(OLD)
    files = {"a.json": text.encode(), "b.json": json.dumps(OLD, indent=1).encode()}
    made = import_bytes(Importer, files)
    assert any("more than once" in w for w in made.warnings)


def test_a_runtime_that_is_not_a_number_is_said() -> None:
    for given in (float("nan"), -5, float("inf")):
        data = new([{"id": "a", "name": "a"}], [{"id": "a", "runtimeInSeconds": given}])
        trace = load(json.dumps(data).encode())
        assert rows(trace)["a"]["wall_s"] is None
        assert "a runtimeInSeconds that is no amount is left out" in trace.warnings


def test_a_task_that_is_its_own_parent_or_child_is_counted_as_left_out() -> None:
    tasks = [job("x", id="x", parents=["x", "gone"]), job("y", id="y", parents=["x"])]
    said = "left out: 1 parent or child not in the file (or not unique), 1 that is the task itself"
    for trace in (load(new(tasks)), load(old(*tasks, version="1.4", key="tasks"))):
        assert edges(trace) == {("y", "x")} and said in trace.warnings
    tasks = [job("x", id="x", parents=["x"], children=["x", "y"]), job("y", id="y")]
    trace = load(new(tasks))
    assert edges(trace) == {("y", "x")}
    assert "left out: 2 parents or children that are the task itself" in trace.warnings


def test_executions_of_one_id_are_said_to_be_taken_as_attempts() -> None:
    runs = [{"id": "x", "runtimeInSeconds": 3}, {"id": "x", "runtimeInSeconds": 4}]
    trace = load(new([job("x", id="x"), job("y", id="y")], [*runs, {"id": "y"}]))
    found = [(t["task_id"], t["attempt"], t["wall_s"]) for t in trace.table("tasks").to_pylist()]
    assert found == [("x", 1, 3), ("x", 2, 4), ("y", 1, None)]
    said = "1 task, such as x, is in the execution more than once: each time is taken as one more"
    assert f"{said} attempt" in trace.warnings
    once = load(new([job("x", id="x")], runs[:1]))
    assert not any("more than once" in text for text in once.warnings)
