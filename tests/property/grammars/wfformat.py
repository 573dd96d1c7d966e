"""WfFormat documents: the three layouts, names old and new, odd amounts, loose references."""

from __future__ import annotations

import json

from hypothesis import strategies as st

IMPORTER = "wfformat"

_NUMBER = st.one_of(
    st.integers(0, 10**12),
    st.floats(0, 1e6, allow_nan=False),
    st.sampled_from([0, -1, 1e308, 10**30, "12.5", "x", None, True, float("nan"), float("inf")]),
)
_NAME = st.one_of(
    st.sampled_from(["a", "b", "c_ID0000001", "c_ID0000002", "A.B.C", "d/e:f", "x (1, 2)"]),
    st.text(max_size=8),
)
_NAMES = st.lists(_NAME, max_size=4)
_TIME = st.sampled_from(
    ["2023-03-28T18:01:31-10:00", "12-19-20T21:31:53Z", "20200401T035043+0000", "soon", "",
     "2020-01-01T00:00:00", "99-99-99T00:00:00Z"]
)  # fmt: skip
_JUNK = st.sampled_from([None, 3, "x", [], {}, [[]], [None], {"a": []}])
_USED = {
    "runtime": _NUMBER,
    "runtimeInSeconds": _NUMBER,
    "memory": _NUMBER,
    "memoryInBytes": _NUMBER,
    "avgCPU": _NUMBER,
    "bytesRead": _NUMBER,
    "readBytes": _NUMBER,
    "writtenBytes": _NUMBER,
    "cores": _NUMBER,
    "coreCount": _NUMBER,
    "energyInKWh": _NUMBER,
    "avgPowerInW": _NUMBER,
    "priority": _NUMBER,
    "machine": _NAME,
    "machines": _NAMES,
    "executedAt": _TIME,
    "command": st.one_of(st.fixed_dictionaries({"program": _NAME}), _JUNK),
}
_FILE = st.fixed_dictionaries(
    {"name": _NAME, "link": st.sampled_from(["input", "output", "both"])},
    optional={"size": _NUMBER, "sizeInBytes": _NUMBER, "path": st.sampled_from(["/a/", ""])},
)
_MACHINE = st.fixed_dictionaries(
    {"nodeName": _NAME},
    optional={
        "memory": _NUMBER,
        "memoryInBytes": _NUMBER,
        "cpu": st.one_of(st.fixed_dictionaries({}, optional={"coreCount": _NUMBER}), _JUNK),
    },
)
_MACHINES = st.one_of(st.lists(st.one_of(_MACHINE, _JUNK), max_size=3), _JUNK)


def _task(required: dict, optional: dict) -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries(required, optional=optional)


_JOB = _task(
    {"name": _NAME},
    {
        "id": _NAME,
        "parents": _NAMES,
        "children": _NAMES,
        "files": st.lists(st.one_of(_FILE, _JUNK), max_size=4),
        "category": _NAME,
        **_USED,
    },
)
_SPECIFIED = _task(
    {"id": _NAME},
    {
        "name": _NAME,
        "parents": _NAMES,
        "children": _NAMES,
        "inputFiles": _NAMES,
        "outputFiles": _NAMES,
        "rotameterId": _NAME,
    },
)
_EXECUTED = _task({"id": _NAME}, _USED)
_RUN = {"makespanInSeconds": _NUMBER, "executedAt": _TIME, "machines": _MACHINES}


def _many(one: st.SearchStrategy[dict]) -> st.SearchStrategy[list]:
    return st.lists(st.one_of(one, one, one, _JUNK), max_size=6)


_FLOW = st.one_of(
    st.fixed_dictionaries({"jobs": _many(_JOB)}, optional=_RUN),
    st.fixed_dictionaries({"tasks": _many(_JOB)}, optional=_RUN),
    st.fixed_dictionaries(
        {
            "specification": st.fixed_dictionaries(
                {"tasks": _many(_SPECIFIED)},
                optional={
                    "files": _many(
                        st.fixed_dictionaries({"id": _NAME}, optional={"sizeInBytes": _NUMBER})
                    )
                },
            )
        },
        optional={
            "execution": st.one_of(
                st.fixed_dictionaries({"tasks": _many(_EXECUTED)}, optional=_RUN), _JUNK
            )
        },
    ),
)


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    document = st.fixed_dictionaries(
        {
            "name": _NAME,
            "schemaVersion": st.sampled_from(["1.0", "1.2", "1.3", "1.4", "1.5", "9.9"]),
            "workflow": _FLOW,
        },
        optional={"createdAt": _TIME, "wms": _JUNK, "runtimeSystem": _JUNK},
    )
    return st.builds(
        lambda data, indent: ("flow.json", json.dumps(data, indent=indent).encode()),
        document,
        st.sampled_from([None, 1]),
    )
