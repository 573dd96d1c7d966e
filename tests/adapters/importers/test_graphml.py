"""GraphML of data-flow graphs."""

from __future__ import annotations

import pytest

import rotameter
from rotameter.adapters.importers.graphml import Importer
from rotameter.errors import BadInput
from rotameter.testing import check_importer, import_bytes

GRAPH = b"""<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d4" for="edge" attr.name="data_volume" attr.type="string" />
  <key id="d3" for="edge" attr.name="access_size" attr.type="long" />
  <key id="d2" for="edge" attr.name="data_volume" attr.type="long" />
  <key id="d1" for="node" attr.name="size" attr.type="long" />
  <key id="d0" for="node" attr.name="type" attr.type="string" />
  <graph edgedefault="directed">
    <node id="in.vcf"><data key="d0">file</data><data key="d1">300</data></node>
    <node id="split_taskid0"><data key="d0">task</data></node>
    <node id="split_taskid1"><data key="d0">task</data></node>
    <node id="out.gz"><data key="d0">file</data></node>
    <edge source="in.vcf" target="split_taskid0">
      <data key="d2">104</data><data key="d3">7</data></edge>
    <edge source="in.vcf" target="split_taskid1"><data key="d4">337</data></edge>
    <edge source="split_taskid0" target="out.gz"><data key="d2">957.0</data></edge>
    <edge source="split_taskid0" target="split_taskid1" />
  </graph>
</graphml>
"""


def read(data: bytes, name: str = "g.graphml"):
    return import_bytes(Importer, {name: data})


def refused(trace) -> list[str]:
    return [row["reason"] for row in trace.table("rejects").to_pylist()]


def test_conformance():
    check_importer(
        Importer,
        {"g.graphml": GRAPH, "plain.xml": GRAPH.replace(b' xmlns="http://graphml.graph', b' a="')},
        cuts=20,
    )


def test_nodes_and_edges():
    trace = read(GRAPH)
    tasks = trace.table("tasks").to_pylist()
    assert [t["group"] for t in tasks] == ["split", "split"]
    flows = {(f["task_id"], f["object"], f["op"]): f for f in trace.table("flows").to_pylist()}
    assert flows["split_taskid0", "in.vcf", "read"]["bytes"] == 104
    assert flows["split_taskid0", "in.vcf", "read"]["ops"] == 15
    assert flows["split_taskid1", "in.vcf", "read"]["bytes"] == 337
    assert flows["split_taskid1", "in.vcf", "read"]["ops"] is None
    assert flows["split_taskid0", "out.gz", "write"]["bytes"] == 957
    sizes = {o["object"]: o["size_bytes"] for o in trace.table("objects").to_pylist()}
    assert sizes == {"in.vcf": 300, "out.gz": None}
    assert trace.table("deps").to_pylist() == [
        {"task_id": "split_taskid1", "depends_on": "split_taskid0"}
    ]
    assert trace.meta["importer"]["records"] == {"in": 8, "out": 8, "merged": 0, "rejected": 0}


@pytest.mark.parametrize(
    "kind", [b'<!DOCTYPE g [<!ENTITY a "aaaa">]>', b"<!DOCTYPE graphml SYSTEM 'x.dtd'>"]
)
def test_entities_are_refused(kind):
    with pytest.raises(BadInput, match="entities"):
        read(GRAPH.replace(b"<graphml", kind + b"<graphml", 1))


def test_deep_nesting_is_refused():
    with pytest.raises(BadInput, match="nested too deeply"):
        read(GRAPH.replace(b"<graph e", b"<x>" * 100 + b"<graph e"))


def test_what_cannot_be_used_is_refused_with_its_line():
    extra = b"""
    <node id="odd"><data key="d0">cloud</data></node>
    <node id="in.vcf"><data key="d0">file</data></node>
    <edge source="in.vcf" target="out.gz" />
    <edge source="in.vcf" target="nowhere" />
    <edge source="in.vcf" target="split_taskid0" directed="false" />
    <hyperedge><endpoint node="in.vcf" /></hyperedge>
  </graph>"""
    trace = read(GRAPH.replace(b"\n  </graph>", extra))
    assert len(refused(trace)) == 6
    assert {row["line"] for row in trace.table("rejects").to_pylist()} == set(range(18, 24))
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["rejected"] == 14


def test_defaults_of_keys_hold():
    text = GRAPH.replace(
        b'attr.name="type" attr.type="string" />',
        b'attr.name="type" attr.type="string"><default>task</default></key>',
    ).replace(b'<node id="split_taskid1"><data key="d0">task</data></node>', b"<node id='later'/>")
    assert {t["task_id"] for t in read(text).table("tasks").to_pylist()} == {
        "split_taskid0",
        "later",
    }


@pytest.mark.parametrize("value", [b"nan", b"-5", b"1e999", b"9" * 400, b"x", b""])
def test_numbers_that_are_none_are_null(value):
    trace = read(GRAPH.replace(b"104", value))
    row = next(f for f in trace.table("flows").to_pylist() if f["task_id"] == "split_taskid0")
    assert row["bytes"] is None and row["ops"] is None


@pytest.mark.parametrize("value", [b"nan", b"-5", b"1,5E+06", b"1e999", b"x"])
def test_numbers_that_are_none_are_said(value):
    words = read(GRAPH.replace(b"104", value).replace(b"300", value)).warnings
    for name in ("data_volume", "size"):
        assert sum(f"values of {name} that are no number" in word for word in words) == 1
    assert not any("no number" in word for word in read(GRAPH).warnings)


def test_scale_from_the_name_only_for_one_graph():
    one = read(GRAPH, "run_data_scale_2.0.graphml")
    assert one.meta["scale"] == {"data": 2.0}
    assert any("file's name" in w for w in one.warnings)
    both = import_bytes(
        Importer, {"a_data_scale_2.0.graphml": GRAPH, "a_data_scale_3.0.graphml": GRAPH}
    )
    assert "scale" not in both.meta
    assert len(both.tasks) == 4 and len(set(both.table("tasks")["task_id"].to_pylist())) == 4


def test_cut_file_gives_what_lies_before():
    trace = read(GRAPH[: GRAPH.index(b'<edge source="split_taskid0" target="out')])
    assert len(trace.table("flows")) == 2
    assert any("damaged" in w for w in trace.warnings)


def test_a_plain_graph_is_not_ours():
    with pytest.raises(BadInput, match="no node has a type"):
        read(b"<graphml><graph><node id='a'/></graph></graphml>")


def test_flowforecaster_sample(rotameter_shared):
    place = rotameter_shared / "data/dataflow/flowforecaster/sample_data/1000Genomes"
    trace = rotameter.open(place / "sample.1k_genome.iter-3.thrd-2_data_scale_2.0.graphml")
    assert (len(trace.tasks), len(trace.objects), len(trace.flows)) == (64, 72, 186)
    assert trace.meta["scale"] == {"data": 2.0} and not len(trace.rejects)
    groups = trace.table("tasks")["group"].value_counts().to_pylist()
    assert {g["values"]: g["counts"] for g in groups}["individuals"] == 24
