"""PyTorch execution traces: both layouts of nodes, odd callers, tensors, lists of tensors."""

from __future__ import annotations

import json

from hypothesis import strategies as st

IMPORTER = "execution_trace"

_ODD = st.sampled_from([None, True, "", "x", -1, 10**30, [], {}, "\ud800", [[]], 1.5])
_NAMES = st.sampled_from([
    "aten::add", "aten::mm", "ProfilerStep#3", "[pytorch|profiler|execution_trace|thread]",
    "token=abc", "é",
])  # fmt: skip
_TENSOR = st.tuples(
    st.integers(0, 9), st.integers(0, 9), st.just(0), st.integers(0, 99),
    st.sampled_from([1, 4, 8]),
    st.sampled_from(["cpu", "cuda:0"]),
).map(list)  # fmt: skip
_VALUE = st.one_of(_TENSOR, st.lists(_TENSOR, max_size=3), st.integers(), st.just("<None>"), _ODD)


@st.composite
def _node(draw, ident):
    inputs = draw(st.lists(_VALUE, max_size=3))
    outputs = draw(st.lists(_VALUE, max_size=2))
    parent = draw(st.one_of(st.integers(1, max(1, ident - 1)), _ODD, st.just(ident)))
    attributes = {
        "rf_id": ident, "fw_parent": draw(st.integers(0, 5)), "seq_id": -1,
        "scope": draw(st.sampled_from([0, 1, 7])), "tid": draw(st.integers(1, 2)), "fw_tid": 0,
        "op_schema": "",
    }  # fmt: skip
    node = {"id": ident, "name": draw(_NAMES)}
    if draw(st.booleans()):
        node |= {"parent": parent, "inputs": inputs, "outputs": outputs, **attributes}
    else:
        node["ctrl_deps"] = draw(st.one_of(st.just(parent), st.just([parent, 2])))
        node["inputs"] = {"values": inputs, "shapes": [], "types": ["Tensor(float)"]}
        node["outputs"] = {"values": outputs, "shapes": [], "types": []}
        node["attrs"] = [{"name": k, "type": "uint64", "value": v} for k, v in attributes.items()]
    if draw(st.integers(0, 9)) == 0:
        node[draw(st.sampled_from(sorted(node)))] = draw(_ODD)
    return node


@st.composite
def files(draw):
    """Give (file name, bytes)."""
    count = draw(st.integers(0, 20))
    nodes = [draw(_node(ident)) for ident in range(1, count + 1)]
    order = draw(st.permutations(nodes))
    head = {
        "schema": draw(st.sampled_from(["1.0.1", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4"])),
        "pid": draw(st.one_of(st.integers(0, 99_999), _ODD)),
        "time": "2024-06-30 11:23:59",
        "start_ts": 5,
    }
    text = json.dumps(
        {**head, "nodes": order, "finish_ts": 9}, indent=draw(st.sampled_from([None, 1]))
    )
    return "et.json", text.encode("utf-8", "surrogatepass")
