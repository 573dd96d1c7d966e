"""OpenTelemetry traces and metrics in the JSON of OTLP."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from rotameter.adapters.importers._otlp_read import attributes, hex_id, integer, status_of, time_ns
from rotameter.adapters.importers.otlp import Importer
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import check_importer, import_bytes

T0 = 1_700_000_000_000_000_000
TRACE = "0af7651916cd43dd8448eb211c80319c"
A, B, C = "b7ad6b7169203331", "c7ad6b7169203332", "d7ad6b7169203333"


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def span(
    span_id: str, name: str = "load", start: float = 0, length: float = 1, **more: Any
) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": span_id,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(T0 + round(start * 1e9)),
        "endTimeUnixNano": str(T0 + round((start + length) * 1e9)),
        **more,
    }


def document(*spans: Any, scopes: str = "scopeSpans", **resource: str) -> dict[str, Any]:
    facts = {"service.name": "wf", **{k.replace("_", "."): v for k, v in resource.items()}}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [text(k, v) for k, v in facts.items()]},
                scopes: [{"scope": {"name": "t"}, "spans": list(spans)}],
            }
        ]
    }


def snake(value: Any) -> Any:
    """The same document with field names in snake_case."""
    if isinstance(value, list):
        return [snake(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in k): snake(v)
        for k, v in value.items()
    }


SPANS = [
    span(A, "flow", 0, 10, parentSpanId=""),
    span(B, "load", 1, 2, parentSpanId=A, status={"code": 1}),
    span(
        C,
        "fit",
        4,
        3,
        parentSpanId=A,
        links=[{"traceId": TRACE, "spanId": B}],
        status={"code": 2, "message": "bad input"},
        events=[{"timeUnixNano": str(T0 + 5 * 10**9), "name": "checkpoint"}],
        attributes=[
            {"key": "rows", "value": {"intValue": "12"}},
            {"key": "ratio", "value": {"doubleValue": 0.5}},
            {"key": "net.peer.port", "value": {"intValue": 80}},
            {"key": "process.exit.code", "value": {"intValue": "3"}},
        ],
    ),
]
FILES = {
    "document.json": json.dumps(document(*SPANS)),
    "indented.json": json.dumps(document(*SPANS), indent=2),
    "lines.jsonl": "\n".join(json.dumps(document(s)) for s in SPANS),
    "old.json": json.dumps(document(*SPANS, scopes="instrumentationLibrarySpans")),
    "snake.json": json.dumps(snake(document(*SPANS))),
    "list.json": json.dumps([document(*SPANS[:1]), document(*SPANS[1:])]),
    "numbers.json": json.dumps(
        document(*({**s, "startTimeUnixNano": int(s["startTimeUnixNano"])} for s in SPANS))
    ),
    "upper.json": json.dumps(document(*SPANS)).replace(A, A.upper()),
    "wrapped.json": json.dumps({"batches": document(*SPANS)["resourceSpans"]}),
}


def load(*documents: Any) -> Trace:
    body = "\n".join(json.dumps(d) for d in documents)
    return import_bytes(Importer, {"trace.json": body.encode()})


def rows(trace: Trace, table: str = "tasks") -> list[dict[str, Any]]:
    return trace.table(table).to_pylist()


def test_conforms() -> None:
    check_importer(Importer, {n: body.encode() for n, body in FILES.items()}, cuts=20)


@pytest.mark.parametrize("body", FILES.values(), ids=list(FILES))
def test_every_way_to_write_gives_the_same(body: str) -> None:
    trace = import_bytes(Importer, {"x.json": body.encode()})
    tasks = rows(trace)
    assert [t["task_id"] for t in tasks] == [A, B, C]
    assert [t["parent"] for t in tasks] == [None, A, A]
    assert [t["group"] for t in tasks] == ["flow", "load", "fit"]
    assert [t["wall_s"] for t in tasks] == [10.0, 2.0, 3.0]
    assert [t["started_ns"] for t in tasks] == [T0, T0 + 10**9, T0 + 4 * 10**9]
    assert [(t["outcome"], t["outcome_kind"]) for t in tasks] == [
        ("ok", "inferred"),
        ("ok", "reported"),
        ("failed", "reported"),
    ]
    assert (tasks[2]["error"], tasks[2]["exit_code"]) == ("bad input", 3)
    assert {t["worker"] for t in tasks} == {"wf"}
    assert rows(trace, "deps") == [{"task_id": C, "depends_on": B}]
    moment = rows(trace, "intervals")[0]
    assert (moment["name"], moment["start_ns"], moment["end_ns"]) == (
        "checkpoint",
        T0 + 5 * 10**9,
        T0 + 5 * 10**9,
    )
    numbers = {s["metric"]: s["value"] for s in rows(trace, "samples")}
    assert numbers == {"rows": 12.0, "ratio": 0.5}
    assert trace.warnings == []


@pytest.mark.parametrize("parent", ["", "0000000000000000", "AAAAAAAAAAA=", None])
def test_no_parent_is_a_root(parent: Any) -> None:
    trace = load(document(span(A, parentSpanId=parent)))
    assert rows(trace)[0]["parent"] is None
    assert trace.warnings == []


def test_a_parent_outside_the_file_is_said() -> None:
    trace = load(document(span(A, parentSpanId=B), span(C, parentSpanId=A)))
    assert [t["parent"] for t in rows(trace)] == [None, A]
    assert any("parent outside the input" in w and w.endswith(": 1") for w in trace.warnings)
    flags = [s["subject"] for s in rows(trace, "samples") if s["metric"] == "parent_missing"]
    assert flags == [A]


def test_a_parent_in_another_file_is_found() -> None:
    one, two = (json.dumps(document(s)).encode() for s in SPANS[:2])
    trace = import_bytes(Importer, {"2.json": two, "1.json": one})
    assert {t["task_id"]: t["parent"] for t in rows(trace)} == {A: None, B: A}


def test_circles_are_cut() -> None:
    trace = load(
        document(span(A, parentSpanId=B), span(B, parentSpanId=A), span(C, parentSpanId=C))
    )
    parents = {t["task_id"]: t["parent"] for t in rows(trace)}
    assert list(parents.values()).count(None) == 2
    assert any("own ancestors" in w for w in trace.warnings)


def test_a_span_that_begins_before_its_parent_is_said_and_left_as_it_is() -> None:
    early = [span(B, "far", -3600, 2, parentSpanId=A), span(C, "near", 0.499, 1, parentSpanId=A)]
    trace = load(document(span(A, "flow", 0.5, 10), *early))
    assert [w for w in trace.warnings if "before their parent" in w] == [
        "spans that begin before their parent, by more than 5 ms: the clocks of their hosts may "
        "be apart; times are left as they are: 1"
    ]
    begun = {row["task_id"]: row["started_ns"] for row in rows(trace)}
    assert begun[A] - begun[B] == 3600_500_000_000
    assert not load(document(span(A, "flow", 0.5, 10), early[1])).warnings


def test_links_become_dependencies_where_they_can_be() -> None:
    links = [{"traceId": TRACE, "spanId": s} for s in (A, A, B, C)]
    links.append({"traceId": TRACE, "spanId": "ffffffffffffffff"})
    trace = load(document(span(A, start=0), span(B, start=5), span(C, start=3, links=links)))
    assert rows(trace, "deps") == [{"task_id": C, "depends_on": A}]
    words = " | ".join(trace.warnings)
    assert "outside the input, left out: 1" in words and "did not begin before" in words


def test_the_same_span_id_in_two_traces() -> None:
    other = "1" * 32
    trace = load(
        document(
            span(A),
            {**span(A), "traceId": other},
            {**span(B, parentSpanId=A), "traceId": other},
        )
    )
    assert [t["task_id"] for t in rows(trace)] == [f"{TRACE}:{A}", f"{other}:{A}", B]
    assert rows(trace)[2]["parent"] == f"{other}:{A}"


def test_a_span_sent_twice_counts_once() -> None:
    trace = load(document(span(A)), document(span(A)))
    assert len(rows(trace)) == 1
    assert trace.meta["importer"]["records"] == {"in": 2, "out": 1, "merged": 1, "rejected": 0}


def test_instances_of_a_service_are_workers() -> None:
    trace = load(
        document(span(A), service_instance_id="i-1", host_name="n1"),
        document(span(B), service_instance_id="i-2", host_name="n2"),
        document(span(C), service_name="other", service_instance_id="i-3"),
    )
    assert [(t["worker"], t["host"]) for t in rows(trace)] == [
        ("wf/i-1", "n1"),
        ("wf/i-2", "n2"),
        ("other", None),
    ]


def test_an_unnamed_service_is_no_worker() -> None:
    trace = load(document(span(A), service_name="unknown_service:python"))
    assert rows(trace)[0]["worker"] is None


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (None, "ok"),
        ({}, "ok"),
        ({"code": 0}, "ok"),
        ({"code": "STATUS_CODE_UNSET"}, "ok"),
        ({"code": "STATUS_CODE_OK"}, "ok"),
        ({"code": "Ok"}, "ok"),
        ({"code": 2}, "failed"),
        ({"code": "2"}, "failed"),
        ({"code": "STATUS_CODE_ERROR"}, "failed"),
        ({"code": 7}, "unknown"),
        ({"code": "gone"}, "unknown"),
        (5, "ok"),
    ],
)
def test_status(status: Any, outcome: str) -> None:
    assert rows(load(document(span(A, status=status))))[0]["outcome"] == outcome


def test_an_exception_event_says_what_went_wrong() -> None:
    def failed(kind: str) -> dict[str, Any]:
        found = [text("exception.type", kind), text("exception.message", "no space token=abc123")]
        event = {"name": "exception", "timeUnixNano": str(T0), "attributes": found}
        return span(A, status={"code": 2}, events=[event])

    row = rows(load(document(failed("java.lang.OutOfMemoryError"))))[0]
    assert row["outcome"] == "oom" and row["peak_memory_bytes"] is None
    assert row["error"] == "java.lang.OutOfMemoryError: no space token=[redacted]"
    assert rows(load(document(failed("ValueError"))))[0]["outcome"] == "failed"


def test_unended_and_unstarted_spans() -> None:
    trace = load(
        document(
            span(A, endTimeUnixNano="0"),
            span(B, startTimeUnixNano=None),
            span(C, endTimeUnixNano=str(T0 - 5)),
        )
    )
    assert [t["outcome"] for t in rows(trace)] == ["running", "ok", "ok"]
    assert [t["wall_s"] for t in rows(trace)] == [None, None, None]
    assert rows(trace)[2]["ended_ns"] is None
    words = " | ".join(trace.warnings)
    assert "without an end" in words and "without a start" in words


SPLIT = [10**9, 10**9 + 5 * 10**8]


def _at(*ns: int) -> list[int]:
    return [T0 + one for one in ns]


@pytest.mark.parametrize(
    "write",
    [
        str,
        int,
        float,
        lambda at: f" {at} ",
        lambda at: {"low": (at & 0xFFFFFFFF) - (1 << 32), "high": at >> 32, "unsigned": False},
        lambda at: {"low": at & 0xFFFFFFFF, "high": at >> 32, "unsigned": True},
    ],
    ids=["text", "number", "float", "spaces", "long", "unsigned"],
)
def test_times_may_be_numbers_or_texts(write: Any) -> None:
    begin, end = _at(*SPLIT)
    near = 256  # what a float holds of a time of today
    made = {"startTimeUnixNano": write(begin), "endTimeUnixNano": write(end)}
    (row,) = rows(load(document(span(A, **made))))
    assert abs(row["started_ns"] - begin) <= near and abs(row["ended_ns"] - end) <= near
    assert row["wall_s"] == pytest.approx(0.5, abs=1e-6) and row["outcome"] == "ok"


NONE = (None, 0, "0", "", 0.0, {"low": 0, "high": 0}, ...)


def _without(name: str, value: Any) -> dict[str, Any]:
    made = span(A, **{name: value})
    if value is ...:
        del made[name]
    return made


@pytest.mark.parametrize("value", NONE)
def test_a_missing_start_or_end_is_unknown_and_said(value: Any) -> None:
    trace = load(document(_without("startTimeUnixNano", value)))
    (row,) = rows(trace)
    assert row["started_ns"] is None and row["wall_s"] is None and row["ended_ns"] is not None
    assert trace.warnings == ["spans without a start: 1"]
    trace = load(document(_without("endTimeUnixNano", value)))
    (row,) = rows(trace)
    assert row["ended_ns"] is None and row["wall_s"] is None and row["started_ns"] is not None
    assert row["outcome"] == "running" and len(trace.warnings) == 1
    assert trace.warnings[0].startswith("spans without an end")
    neither = {**_without("startTimeUnixNano", value), "endTimeUnixNano": None}
    trace = load(document(neither))
    (row,) = rows(trace)
    assert (row["started_ns"], row["ended_ns"], row["wall_s"]) == (None, None, None)
    assert len(trace.warnings) == 2
    facts = stats(trace)
    assert not facts["task_wall_s"] and not facts["makespan_s"]


@pytest.mark.parametrize("write", [str, int])
def test_a_start_behind_its_end_has_no_duration_and_it_is_said(write: Any) -> None:
    begin, end = _at(*SPLIT)
    swapped = {"startTimeUnixNano": write(end), "endTimeUnixNano": write(begin)}
    trace = load(document(span(A, **swapped), span(B)))
    row = rows(trace)[0]
    assert row["wall_s"] is None and row["ended_ns"] is None
    assert trace.warnings == ["end lies before start: end is left out"]


@pytest.mark.parametrize("write", [int, str])
@pytest.mark.parametrize("unit", [10**6, 10**3])
def test_times_that_cannot_be_in_nanoseconds_are_said(unit: int, write: Any) -> None:
    made = [write(at // unit) for at in _at(*SPLIT)]
    trace = load(document(span(A, startTimeUnixNano=made[0], endTimeUnixNano=made[1])))
    assert [text for text in trace.warnings if "not in nanoseconds as OTLP" in text]


@pytest.mark.parametrize(
    "bad",
    [
        {"spanId": None},
        {"spanId": "0" * 16},
        {"spanId": None, "attributes": [text("rotameter.task_id", "")]},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": -1},
        {"endTimeUnixNano": str(10**30)},
        {"endTimeUnixNano": 1e999},
        {"endTimeUnixNano": [1]},
        {"startTimeUnixNano": "+-5"},
    ],
)
def test_spans_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    trace = load(document(span(A)), document({**span(B), **bad}, 5))
    assert len(rows(trace)) == 1
    assert [r["line"] for r in rows(trace, "rejects")] == [2, 2]


def test_broken_lines_are_refused_with_their_line() -> None:
    body = f'{json.dumps(document(span(A)))}\n{{"resourceSpans": [\n{{"x": 1}}\n'
    trace = import_bytes(Importer, {"x.jsonl": body.encode()})
    assert len(rows(trace)) == 1
    assert [r["line"] for r in rows(trace, "rejects")] == [2, 3]


def test_ids_in_base64() -> None:
    def packed(value: str) -> str:
        return base64.b64encode(bytes.fromhex(value)).decode()

    one = {**span(A), "traceId": packed(TRACE), "spanId": packed(A)}
    trace = load(document(one, span(B, parentSpanId=A)))
    assert [(t["task_id"], t["parent"]) for t in rows(trace)] == [(A, None), (B, A)]


def test_metrics_become_samples() -> None:
    def metric(name: str, kind: str, point: dict[str, Any], **more: Any) -> dict[str, Any]:
        at = {"timeUnixNano": str(T0), **point}
        return {"name": name, "unit": "1", kind: {"dataPoints": [at], **more}}

    metrics = [
        metric("free", "gauge", {"asInt": "5"}) | {"unit": "By"},
        metric(
            "sent",
            "sum",
            {"asDouble": 2.5, "attributes": [text("k", "v")]},
            aggregationTemporality=1,
        ),
        metric("wait", "histogram", {"count": "3", "sum": 4.5, "bucketCounts": ["3"]}),
        metric("none", "gauge", {"flags": 1}),
        metric("never", "gauge", {"asInt": 1, "timeUnixNano": 0}),
    ]
    resource = {"attributes": [text("service.name", "wf")]}
    trace = load(
        {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}
    )
    found = [(s["subject"], s["metric"], s["value"], s["quality"]) for s in rows(trace, "samples")]
    assert found == [
        ("wf", "free (By)", 5.0, None),
        ("wf{k=v}", "sent", 2.5, "delta"),
        ("wf", "wait.count", 3.0, None),
        ("wf", "wait.sum", 4.5, None),
    ]
    assert trace.meta["importer"]["records"] == {"in": 5, "out": 3, "merged": 0, "rejected": 2}


LOGS = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {}}, {}]}]}]}


def test_log_records_are_refused_in_words() -> None:
    with pytest.raises(BadInput, match="log records only"):
        load(LOGS)
    trace = load(document(span(A)), LOGS)
    assert "2 log records" in rows(trace, "rejects")[0]["reason"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"resourceSpans": []}',
        b'{"resourceSpans": [',
        b"[" * 100_000,
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}',
        json.dumps({"resourceSpans": {"a": 1}}).encode(),
    ],
)
def test_nothing_usable_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(BadInput, match=r"x\.json"):
        import_bytes(Importer, {"x.json": body})


def test_secrets_stay_out() -> None:
    trace = load(
        document(
            span(A, "GET https://ann:pw@host/x?sig=1", attributes=[text("token", "hunter2")]),
            service_name="password=hunter2",
        )
    )
    said = str([rows(trace), rows(trace, "samples"), trace.meta])
    assert "hunter2" not in said and "ann:pw" not in said


def test_values() -> None:
    given = {
        "attributes": [
            {"key": "a", "value": {"arrayValue": {"values": [{"boolValue": True}, {}]}}},
            {"key": "m", "value": {"kvlistValue": {"values": [{"key": "k", "value": None}]}}},
            {"key": "d", "value": {"doubleValue": "NaN"}},
            {"key": 5, "value": {}},
            "x",
        ]
    }
    assert attributes(given) == {"a": [True, None], "m": {"k": None}, "d": None}
    assert attributes({"attributes": {"plain": 1}}) == {"plain": 1}
    assert (integer(True), integer("٣"), integer(2.5)) == (None, None, None)
    assert (hex_id(5, 8), hex_id("0x1F", 8), hex_id("not hex", 8)) == (None, "1f", "not hex")
    assert time_ns("") is None
    assert status_of({"status": {"code": "²"}}) == (-1, None)


# -- shared files ---------------------------------------------------------------------------------
