"""OTLP in JSON: spans, metrics and logs; one document, many, one a line; odd values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

IMPORTER = "otlp"

_ODD = st.sampled_from([
    None, True, "", "1e999", "nan", "-5", -1, 10**30, 2**63, 1e308, float("nan"), [], {}, "\ud800",
    "x\x00y", [[]], {"key": 1},
])  # fmt: skip
_SPANS = st.sampled_from(["a" * 16, "B" * 16, "c" * 16, "0" * 16, "", "7uGbfsPBsXQ=", "zz"])
_TRACES = st.sampled_from(["1" * 32, "2" * 32, "", None])
_NAMES = st.sampled_from(["load", "GET /x?token=abc", "é☃", "", "exception"])
_TIMES = st.one_of(
    st.integers(1_700_000_000_000_000_000, 1_700_000_000_000_000_050).map(str),
    st.integers(0, 50),
    st.just(1.7e18),
    _ODD,
)
_VALUES = st.recursive(
    st.one_of(
        st.builds(lambda v: {"stringValue": v}, _NAMES),
        st.builds(lambda v: {"intValue": v}, st.one_of(st.integers(-5, 5).map(str), _ODD)),
        st.builds(lambda v: {"doubleValue": v}, st.one_of(st.floats(), _ODD)),
        st.builds(lambda v: {"boolValue": v}, st.booleans()),
        _ODD,
    ),
    lambda inner: st.one_of(
        st.builds(lambda v: {"arrayValue": {"values": v}}, st.lists(inner, max_size=2)),
        st.builds(
            lambda v: {"kvlistValue": {"values": [{"key": "k", "value": x} for x in v]}},
            st.lists(inner, max_size=2),
        ),
    ),
    max_leaves=3,
)
_KEYS = st.sampled_from([
    "rows", "process.exit.code", "error.type", "host.name", "exception.type", "exception.message",
    "rotameter.task_id", "rotameter.parent", "rotameter.attempt", "rotameter.outcome",
    "rotameter.features", "rotameter.wall_s", "rotameter.started_ns", "rotameter.worker",
    "rotameter.peak_memory_bytes", "rotameter.requested_cores", "rotameter.nothing",
])  # fmt: skip
_ATTRIBUTES = st.one_of(
    st.lists(st.builds(lambda k, v: {"key": k, "value": v}, _KEYS, _VALUES), max_size=4),
    _ODD,
)
_EVENTS = st.lists(
    st.builds(
        lambda n, t, a: {"name": n, "timeUnixNano": t, "attributes": a}, _NAMES, _TIMES, _ATTRIBUTES
    ),
    max_size=2,
)
_LINKS = st.lists(st.builds(lambda t, s: {"traceId": t, "spanId": s}, _TRACES, _SPANS), max_size=2)
_STATUS = st.one_of(
    st.builds(
        lambda c, m: {"code": c, "message": m},
        st.sampled_from([0, 1, 2, "STATUS_CODE_ERROR", "Ok", 9]),
        _NAMES,
    ),
    _ODD,
)
_SPAN = st.one_of(
    *[
        st.fixed_dictionaries(
            {
                "traceId": _TRACES,
                "spanId": _SPANS,
                "name": _NAMES,
                "startTimeUnixNano": _TIMES,
                "endTimeUnixNano": _TIMES,
            },
            optional={
                "parentSpanId": st.one_of(_SPANS, _ODD),
                "attributes": _ATTRIBUTES,
                "events": st.one_of(_EVENTS, _ODD),
                "links": st.one_of(_LINKS, _ODD),
                "status": _STATUS,
            },
        )
    ]
    * 9,
    _ODD,
)
_POINT = st.fixed_dictionaries(
    {"timeUnixNano": _TIMES},
    optional={
        "asInt": st.one_of(st.integers(0, 9).map(str), _ODD),
        "asDouble": st.one_of(st.floats(), _ODD),
        "count": st.one_of(st.integers(0, 9), _ODD),
        "sum": st.one_of(st.floats(), _ODD),
        "attributes": _ATTRIBUTES,
    },
)
_METRIC = st.builds(
    lambda name, unit, kind, points: {"name": name, "unit": unit, kind: {"dataPoints": points}},
    st.one_of(_NAMES, _ODD),
    st.sampled_from(["1", "By", "", None]),
    st.sampled_from(["gauge", "sum", "histogram", "summary", "exponentialHistogram", "other"]),
    st.one_of(st.lists(_POINT, max_size=3), _ODD),
)


@st.composite
def _document(draw: Any) -> Any:
    kind = draw(st.sampled_from(["Spans", "Spans", "Spans", "Metrics", "Logs"]))
    items = {"Spans": _SPAN, "Metrics": _METRIC, "Logs": _ODD}[kind]
    field = {"Spans": "spans", "Metrics": "metrics", "Logs": "logRecords"}[kind]
    scopes = draw(st.sampled_from([f"scope{kind}", f"instrumentationLibrary{kind}"]))
    block = {
        "resource": draw(
            st.one_of(
                st.just({"attributes": [{"key": "service.name", "value": {"stringValue": "wf"}}]}),
                st.builds(lambda a: {"attributes": a}, _ATTRIBUTES),
                _ODD,
            )
        ),
        scopes: [{field: draw(st.lists(items, max_size=5))}],
    }
    whole = {f"resource{kind}": draw(st.sampled_from([[block], [block], [block, None], block]))}
    return draw(st.sampled_from([whole, whole, whole, {"trace": whole}]))


def _written(documents: list[Any], form: int) -> bytes:
    if form == 0:
        return "\n".join(json.dumps(d) for d in documents).encode()
    if form == 1:
        return json.dumps(documents, indent=1).encode()
    return "".join(json.dumps(d, indent=2) for d in documents).encode()


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    content = st.builds(_written, st.lists(_document(), min_size=1, max_size=4), st.integers(0, 2))
    return content.map(lambda data: ("traces.json", data))
