"""Dask performance reports: Bokeh pages of several generations."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._dask_bokeh import column, numbers, read_page, texts
from rotameter.adapters.importers._dask_summary import printed_seconds, read_summary
from rotameter.adapters.importers.dask_report import Importer
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import check_importer, import_bytes
from rotameter.values import Head

W1, W2 = "tcp://10.1.1.1:4000", "tcp://10.1.1.2:4000"
T0 = 1_600_000_000_000.0
# key, name, worker, thread, begin (ms after T0), length (ms), colour
RECTS: list[tuple[str, str, str, str, float, float, str]] = [
    ("('load-0a1b2c3d', 0)", "load", W1, "7", 0, 100, "#440154"),
    ("sum-1", "transfer-sum", W2, "8", 100, 50, "red"),
    ("sum-1", "sum", W2, "8", 150, 250, "#FDE724"),
    ("sum-1", "disk-write-sum", W2, "8", 400, 10, "orange"),
    ("bad-1", "bad", W1, "7", 100, 20, "black"),
    ("transfer-x-1", "transfer-x", W1, "7", 120, 30, "#FDE724"),
]
SUMMARY = """
<h1> Dask Performance Report </h1>
<h2> Duration: {duration} </h2>
<ul><li> number of tasks: {tasks} </li>
<li> compute time: 400.00 ms </li>
<li> disk-write time: 10.00 ms </li>
<li> transfer time: 50.00 ms </li></ul>
<h2> Scheduler Information </h2>
<ul><li> Address: tcp://10.1.1.9:8786 </li><li> Workers: 2 </li><li> Threads: 4 </li>
<li> Memory: 2.00 GiB </li><li> Dask Version: 2024.1.0 </li>
<li> Dask.Distributed Version: 2024.1.0 </li></ul>
<h2> Calling Code </h2><pre>password = "hunter2"; Duration: 99 s</pre>
"""


def columns(rects: Any = None) -> dict[str, list[Any]]:
    rects = RECTS if rects is None else rects
    return {
        "start": [T0 + r[4] + r[5] / 2 for r in rects],
        "duration": [float(r[5]) for r in rects],
        "key": [r[0] for r in rects],
        "name": [r[1] for r in rects],
        "worker": [r[2] for r in rects],
        "worker_thread": [f"{r[2]}-{r[3]}" for r in rects],
        "color": [r[6] for r in rects],
        "alpha": [1 for _ in rects],
        "y": [0.0 for _ in rects],
    }


def packed(values: list[float], kind: str = "<f8", **more: Any) -> dict[str, Any]:
    array = np.array(values, dtype=kind)
    return {
        "__ndarray__": base64.b64encode(array.tobytes()).decode(),
        "dtype": array.dtype.name,
        "shape": [len(values)],
        **more,
    }


def summary(duration: str = "450.00 ms", tasks: int = 4) -> str:
    return SUMMARY.format(duration=duration, tasks=tasks)


def flat(data: dict[str, Any], text: str | None) -> dict[str, Any]:
    """Bokeh 1 and 2: a list of references."""
    references: list[dict[str, Any]] = [
        {"type": "ColumnDataSource", "id": "1", "attributes": {"data": data}},
        {"type": "Rect", "id": "2", "attributes": {"data_source": {"id": "1"}}},
    ]
    if text is not None:
        references.append({"type": "Div", "id": "3", "attributes": {"text": text}})
    return {"roots": {"references": references, "root_ids": ["2"]}, "version": "2.4.3"}


def nested(data: dict[str, Any], text: str | None) -> dict[str, Any]:
    """Bokeh 3: objects inside objects, mappings as entries."""
    source = {
        "type": "object",
        "name": "ColumnDataSource",
        "id": "p1",
        "attributes": {"data": {"type": "map", "entries": [[k, v] for k, v in data.items()]}},
    }
    tabs: list[Any] = [{"type": "object", "name": "Figure", "attributes": {"renderers": [source]}}]
    if text is not None:
        tabs.append({"type": "object", "name": "Div", "attributes": {"text": text}})
    root = {"type": "object", "name": "Tabs", "attributes": {"tabs": tabs}}
    return {"version": "3.4.1", "title": "x", "roots": [root]}


def page(document: dict[str, Any], escapes: int = 1, quote: bool = False) -> bytes:
    text = json.dumps({"a-b": document})
    for _ in range(escapes):
        text = html.escape(text, quote=quote)
    return f"""<!DOCTYPE html>
<html lang="en"><head><title>Dask Performance Report</title>
<script src="https://cdn.bokeh.org/bokeh-3.min.js"></script></head><body>
<script type="application/json" id="x">
{text}
</script><script type="text/javascript">alert("never run")</script></body></html>
""".encode()


def typed(values: list[float], kind: str, order: str) -> dict[str, Any]:
    array = np.array(values, dtype=kind)
    data = base64.b64encode(array.tobytes()).decode()
    return {
        "type": "ndarray",
        "array": {"type": "bytes", "data": data},
        "shape": [len(values)],
        "dtype": array.dtype.name,
        "order": order,
    }


def _with(**more: Any) -> dict[str, Any]:
    return {**columns(), **more}


COLUMNS = columns()
PAGES = {
    "bokeh1": page(flat(_with(start=packed(COLUMNS["start"])), summary())),
    "bokeh2": page(
        flat(
            _with(
                start=packed(COLUMNS["start"], ">f8", order="big"),
                duration=packed(COLUMNS["duration"], "<f4", order="little"),
            ),
            summary(),
        )
    ),
    "bokeh2_ints": page(flat(_with(duration=packed(COLUMNS["duration"], "<i4")), summary())),
    "bokeh3": page(nested(columns(), summary())),
    "bokeh3_typed": page(
        nested(_with(start=typed(COLUMNS["start"], ">f8", "big")), summary()), quote=True
    ),
    "plain": page(flat(columns(), summary()), escapes=0),
    "twice": page(flat(columns(), summary()), escapes=2),
    "text_twice": page(nested(columns(), html.escape(summary(), quote=False))),
}


def rows(trace: Trace, table: str = "tasks") -> list[dict[str, Any]]:
    return trace.table(table).to_pylist()


def load(data: bytes) -> Trace:
    return import_bytes(Importer, {"report.html": data})


def sums(trace: Trace) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in rows(trace, "intervals"):
        length = (one["end_ns"] - one["start_ns"]) / 1e9
        found[one["name"]] = round(found.get(one["name"], 0) + length, 9)
    return found


def test_conforms() -> None:
    check_importer(Importer, {f"{name}.html": data for name, data in PAGES.items()}, cuts=20)


@pytest.mark.parametrize("data", PAGES.values(), ids=list(PAGES))
def test_every_layout_gives_the_same(data: bytes) -> None:
    trace = load(data)
    tasks = rows(trace)
    assert [t["task_id"] for t in tasks] == [
        "('load-0a1b2c3d', 0)",
        "sum-1",
        "bad-1",
        "transfer-x-1",
    ]
    assert [t["group"] for t in tasks] == ["load", "sum", "bad", "transfer-x"]
    assert [t["outcome"] for t in tasks] == ["ok", "ok", "failed", "ok"]
    assert {t["outcome_kind"] for t in tasks} == {"inferred"}
    assert [t["wall_s"] for t in tasks] == [0.1, 0.25, 0.02, 0.03]
    assert tasks[1]["transfer_s"] == 0.05 and tasks[1]["spill_s"] == 0.01
    assert tasks[0]["started_ns"] == int(T0) * 10**6
    assert sums(trace) == {"compute": 0.4, "transfer": 0.05, "disk-write": 0.01}
    records = trace.meta["importer"]["records"]
    assert records == {"in": 6, "out": 4, "merged": 2, "rejected": 0}
    assert trace.warnings == []
    said = trace.meta["reports"][0]
    assert (said["tasks"], said["workers"], said["threads"]) == (4, 2, 4)
    assert said["memory_bytes"] == 2 << 30 and said["duration_s"] == 0.45
    assert trace.meta["versions"]["dask"] == "2024.1.0"
    assert {w["cores"] for w in rows(trace, "workers")} == {2.0}
    assert "hunter2" not in json.dumps(trace.meta)


def test_differences_from_the_summary_are_said() -> None:
    trace = load(page(flat(columns(RECTS[:3]), summary())))
    words = " | ".join(trace.warnings)
    assert "the summary counts 4 tasks, the task stream holds 2" in words
    assert "0.4 s of compute, the task stream holds 0.35 s" in words
    assert "0.01 s of disk-write, the task stream holds 0 s" in words


def test_a_stream_longer_than_the_report_is_said() -> None:
    trace = load(page(flat(columns(), summary(duration="300.00 ms"))))
    assert any("spans 0.41 s, the report 0.3 s" in w for w in trace.warnings)


def test_an_empty_stream_is_said() -> None:
    trace = load(page(flat(columns([]), None)))
    assert len(rows(trace)) == 0
    assert any("the task stream is empty" in w for w in trace.warnings)


def test_a_saved_task_stream_has_no_summary() -> None:
    trace = load(page(nested(columns(), None)))
    assert len(rows(trace)) == 4 and trace.warnings == []
    assert "reports" not in trace.meta
    assert any("threads that ran" in text for text in trace.meta["not_measured"])


def test_odd_rectangles_are_refused_one_by_one() -> None:
    data = columns(RECTS * 2)
    data["start"][0], data["duration"][1], data["start"][2] = "NaN", -1.0, 1e300
    data["key"][3] = data["name"][3] = None
    data["duration"][4] = {"type": "number", "value": "inf"}
    data["duration"][5] = "x"
    trace = load(page(flat(data, None)))
    assert trace.meta["importer"]["records"]["rejected"] == 6
    assert len(rows(trace)) == 4


def test_equal_keys_one_after_the_other_are_attempts() -> None:
    again = [(*r[:4], r[4] + 1000, *r[5:]) for r in RECTS[1:3]]
    trace = load(page(flat(columns([*RECTS[1:3], *again]), None)))
    assert [(t["task_id"], t["attempt"]) for t in rows(trace)] == [("sum-1", 1), ("sum-1", 2)]


def test_unknown_prefixes_are_kept() -> None:
    rect = ("sum-1", "hibernate-sum", W1, "7", 0, 10, "red")
    assert sums(load(page(flat(columns([rect]), None)))) == {"hibernate": 0.01}


def test_twice_escaped_names_come_out_plain() -> None:
    rect = ("<lambda>-1 & more", "x", W1, "7", 0, 10, "red")
    for escapes in (0, 1, 2):
        trace = load(page(flat(columns([rect]), summary()), escapes=escapes))
        assert rows(trace)[0]["task_id"] == "<lambda>-1 & more"


def test_samples_beside_the_stream() -> None:
    document = flat(columns(), None)
    tables = [
        {"time": packed([T0, T0 + 500]), "cpu": [50.0, "NaN"], "memory": [1000, 2000]},
        {"bandwidth": [1, 2], "bandwidth_text": ["1", "2"], "source": ["a", "b"]}
        | {"destination": ["a", "b"]},
        {"bandwidth": [5e6], "bandwidth_text": ["4.77 MiB"], "type": ["numpy.ndarray"]},
        {"bandwidth": [6e6], "bandwidth_text": ["6 MB"], "source": [0], "destination": [1]},
    ]
    for table in tables:
        source = {"type": "ColumnDataSource", "attributes": {"data": table}}
        document["roots"]["references"].append(source)
    found = {
        (s["subject"], s["metric"], s["at_ns"]): s["value"]
        for s in rows(load(page(document)), "samples")
    }
    first = int(T0) * 10**6
    assert found == {
        ("scheduler", "cpu_ratio", first): 0.5,
        ("scheduler", "process_rss_bytes", first): 1000.0,
        ("scheduler", "process_rss_bytes", first + 500 * 10**6): 2000.0,
        ("numpy.ndarray", "bandwidth_bytes_per_s", None): 5e6,
        ("0 to 1", "bandwidth_bytes_per_s", None): 6e6,
    }


PROFILE = {"left": [0], "line_number": [1], "name": ["f"], "time": ["1 s"]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no Bokeh document"),
        (PAGES["bokeh1"][:600], "no Bokeh document"),
        (page(flat(PROFILE, None)), "profile"),
        (page(flat({"x": [1]}, None)), "without a task stream"),
        (page(flat(_with(start={"__buffer__": 1}), None)), "encoded"),
        (page(flat(_with(start=[1.0]), None)), "encoded"),
        (b'<script type="application/json">' + b"[" * 200_000, "no Bokeh document"),
    ],
)
def test_nothing_usable_is_refused_in_words(data: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        load(data)


def test_inline_documents_of_old_bokeh() -> None:
    document = json.dumps({"a": flat(columns(), None)})
    text = f"<html><script>var docs_json = {document};\nvar render_items = [];</script></html>"
    assert len(rows(load(text.encode()))) == 4


def test_a_page_that_is_shown_twice_counts_once() -> None:
    one = page(flat(columns(), None))
    assert len(rows(load(one + one))) == 4


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_of_every_type_and_byte_order(kind: str, order: str) -> None:
    array = np.array([1, 2, 100], dtype=f"{order}{kind}")
    data = base64.b64encode(array.tobytes()).decode()
    word = "little" if order == "<" else "big"
    name = array.dtype.name
    for value in (
        {"__ndarray__": data, "dtype": name, "shape": [3], "order": word},
        {"__ndarray__": data, "dtype": f"{order}{kind}", "shape": [3]},
        {
            "type": "ndarray",
            "array": {"type": "bytes", "data": data},
            "dtype": name,
            "shape": [3],
            "order": word,
        },
    ):
        assert numbers(value).tolist() == [1.0, 2.0, 100.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "x",
        {},
        {"__buffer__": 3},
        {"__ndarray__": "AAAA", "dtype": "object", "shape": [1]},
        {"__ndarray__": "AAAA", "dtype": "V8", "shape": [1]},
        {"__ndarray__": "AAAA", "dtype": "float64", "shape": [1]},
        {"__ndarray__": "§", "dtype": "uint8", "shape": [1]},
        {"__ndarray__": "AAAA", "dtype": "uint8", "shape": [2, 2]},
        {"type": "ndarray", "array": {"id": 1}, "dtype": "uint8"},
    ],
)
def test_what_cannot_be_decoded_is_none(value: Any) -> None:
    assert column(value) is None and numbers(value) is None and texts(value) is None


@pytest.mark.parametrize(
    ("text", "seconds", "off"),
    [
        ("42.99 s", 42.99, 0.005),
        ("219.23 ms", 0.21923, 5e-6),
        ("12.00 us", 12e-6, 5e-9),
        ("12.00 µs", 12e-6, 5e-9),
        ("3hr 25m", 12300.0, 60.0),
        ("14d 6hr", 1231200.0, 3600.0),
    ],
)
def test_printed_times(text: str, seconds: float, off: float) -> None:
    made = printed_seconds(text)
    assert made is not None
    assert made == (pytest.approx(seconds), pytest.approx(off))


def test_no_summary_is_an_empty_one() -> None:
    assert read_summary(["", "<h1>other</h1>", "Duration: 5 s"]).facts() == {}


def test_hostile_pages_take_no_time() -> None:
    for text in (
        "<" * 200_000,
        "<!--" * 50_000,
        "<script" * 50_000,
        "&amp;" * 100_000,
        "<a " * 90_000,
        "<script>" * 50_000,
        "<script type='application/json'>[" + "</script><script " * 50_000,
    ):
        assert read_page(text).tables == []


# -- shared files ---------------------------------------------------------------------------------


def test_real_reports_equal_the_oracle(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data" / "formats" / "dask_report"
    oracle = json.loads((folder / "ORACLE.json").read_text())
    checked = 0
    for name, truth in oracle.items():
        if "sum_compute_s" not in truth:
            continue
        trace = reading.read([folder / name])
        assert stats(trace)["compute_s"] == pytest.approx(truth["sum_compute_s"], abs=0.01)
        assert sums(trace)["transfer"] == pytest.approx(truth["sum_transfer_s"], abs=0.01)
        assert stats(trace)["tasks"] == truth["unique_keys"]
        assert trace.table("intervals").num_rows == truth["rects"]
        assert trace.table("workers").num_rows == truth["workers"]
        starts = [i["start_ns"] for i in rows(trace, "intervals")]
        ends = [i["end_ns"] for i in rows(trace, "intervals")]
        assert min(starts) / 1e6 == pytest.approx(truth["t0_ms"], abs=0.1)
        assert (max(ends) - min(starts)) / 1e9 == pytest.approx(truth["span_s"], abs=0.01)
        if truth["duration_txt"]:
            assert (max(ends) - min(starts)) / 1e9 <= float(truth["duration_txt"].split()[0])
        assert trace.warnings == []
        checked += 1
    assert checked == 2


def test_the_report_and_the_stream_of_one_run_agree(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data" / "formats" / "dask_report"
    report = reading.read([folder / "generated_here_dask2026.8_bokeh3.9.html"])
    stream = reading.read([folder / "generated_here_task_stream_2026.8.json"])
    assert report.warnings == []
    for name in ("task_id", "attempt", "group", "worker", "outcome"):
        assert report.table("tasks")[name].to_pylist() == stream.table("tasks")[name].to_pylist()
    for name in ("started_ns", "ended_ns"):
        pairs = zip(
            report.table("tasks")[name].to_pylist(),
            stream.table("tasks")[name].to_pylist(),
            strict=True,
        )
        assert all(abs(a - b) < 2000 for a, b in pairs)


def test_real_files_without_tasks(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data" / "formats" / "dask_report"
    empty = reading.read([folder / "hbb-coffea_dask-report.html"])
    assert empty.table("tasks").num_rows == 0
    assert any("the task stream is empty" in w for w in empty.warnings)
    with pytest.raises(BadInput, match="profile"):
        reading.read([folder / "mrocklin_dask-cudf-join-profile.html"])


def test_sniffs_its_own_files_only(rotameter_shared: Path) -> None:
    importer = Importer()
    mine = set()
    for folder in ("data/formats", "bugcases"):
        for path in sorted((rotameter_shared / folder).rglob("*")):
            if path.is_file():
                for file in open_members(path)[:50]:
                    if importer.sniff(Head(file.name, file.head, file.path)) >= 0.5:
                        mine.add(path.suffix)
                        assert path.parent.name == "dask_report"
    assert mine == {".html"}


def test_reports_that_overlap_count_once() -> None:
    data = PAGES[next(iter(PAGES))]
    alone = load(data)
    both = import_bytes(Importer, {"1.html": data, "2.html": data + b"<!-- later -->"})
    assert rows(both) == rows(alone) and rows(both)[0]["source"] == "dask_report"
    records = both.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    said = [word for word in both.warnings if "occurs again" in word]
    assert said and not any("the summary counts" in w for w in both.warnings if w not in said)
