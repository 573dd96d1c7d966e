from __future__ import annotations

import html
import json
import re
from importlib import resources
from typing import Any

import jsonschema
import pytest
from tests.profiler.test_gpu import device, sets, step, timeline
from tests.support.synthetic import HOSTILE

from rotameter.profiler.diagnose import diagnose
from rotameter.profiler.trace import Trace
from rotameter.viz.devices import DETAILS_LIMIT, PARTS, devices, gpu_section
from rotameter.viz.report import findings_document, render

SCHEMA = json.loads((resources.files("rotameter.viz") / "findings.schema.json").read_text())

KERNELS = {
    "count": 12,
    "different": 2,
    "limited": {"communication": 0.4, "unknown": 0.2},
    "top": [
        {"name": "ncclKernel_AllReduce", "count": 10, "total_s": 0.4, "mean_s": 0.04, "min_s": 0.03,
         "max_s": 0.05, "share": 0.66, "limiter": "communication", "why": "it exchanges data",
         "occupancy": 4.7, "occupancy_limit": None, "host_wait_s": 0.1},
        {"name": "gemm<float>", "count": 2, "total_s": 0.2, "mean_s": 0.1, "min_s": 0.1,
         "max_s": 0.1, "share": 0.34, "limiter": "occupancy", "why": "few blocks",
         "occupancy": 12.0, "occupancy_limit": "registers", "host_wait_s": 0.0},
    ],
}  # fmt: skip
COPIES = {
    "classes": [
        {"kind": "HtoD", "memory": "pageable", "mode": "async", "path": "host", "count": 4,
         "bytes": 4_000_000, "bytes_known": 3, "total_s": 0.001, "mean_bytes_per_s": 3e9,
         "max_bytes_per_s": 5e9}
    ],
    "series": {},
}  # fmt: skip
STREAMS = [
    {"stream": 7, "count": 10, "idle_s": 0.5, "host_wait_s": 0.4, "kernel_wait_s": 0.05,
     "other_s": 0.05, "queue": {"points": 20, "mean": 3.0, "max": 8, "time_mean": 2.5,
                                "full_s": 0.0, "series": [[0.0, 8], [0.02, 4], [0.5, 1]]}},
    {"stream": None, "count": 1, "queue": {"series": []}},
]  # fmt: skip

PLOTLY_LIMIT_BYTES = 2_100_000  # what draws the charts, packed


def full(number: int = 0, **more: Any) -> dict[str, Any]:
    return {**device(number), "kernels": KERNELS, "transfers": COPIES, "streams": STREAMS, **more}


def trace(*ranks: list[dict[str, Any]], **tables: Any) -> Trace:
    return Trace.from_tables({"tasks": [step(outcome_kind="inferred")], **tables}, timeline(*ranks))


def page_of(made: Trace) -> tuple[str, str]:
    page = render(made, diagnose(made))
    text = re.sub(r"<(script|style)>.*?</\1>", " ", page, flags=re.S)
    return page, re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def test_the_parts_of_a_window_add_up() -> None:
    one = devices(trace([full()]))[0]
    assert sum(one["parts"].values()) == pytest.approx(one["window_s"])
    assert set(one["parts"]) == {name for name, _ in PARTS}
    section = gpu_section(trace([full()]), [one])
    assert section is not None
    widths = [float(s["width"]) for s in section.rows[0]["segments"]]
    assert abs(sum(widths) - 1000) < 0.1
    ends = [float(s["x"]) + float(s["width"]) for s in section.rows[0]["segments"]]
    assert abs(ends[-1] - 1000) < 0.1


def test_the_section_shows_bars_tables_and_bound() -> None:
    page, text = page_of(trace([full()]))
    for piece in (
        "GPU timeline", "rank 0 · device 0", "idle: waiting for the host", "ncclKernel_AllReduce",
        "gemm<float>", "by registers", "HtoD", "pageable", "4 MB of 3", "3 GB/s", "stream 7",
        "≥ 500 ms", "by host", "that saves at most 500 ms (50 %) of 1 s",
        "If all overlapped: the longest of computing",
    ):  # fmt: skip
        assert piece in text, piece
    assert page.count('class="u-host"') == 1
    assert '<a href="#gpu">' in page
    assert "Bytes between workers" not in text


def test_nothing_of_it_is_there_without_a_timeline() -> None:
    plain = Trace.from_tables({"tasks": [step()]})
    page, text = page_of(plain)
    assert "GPU timeline" not in text
    assert 'id="gpu"' not in page
    assert findings_document(plain, diagnose(plain))["devices"] == []


def test_the_same_facts_are_in_the_findings_file() -> None:
    made = trace([full(), full(1)], [])
    document = findings_document(made, diagnose(made))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert [(d["worker"], d["device"]) for d in document["devices"]] == [
        ("rank 0", "0"), ("rank 0", "1"), ("rank 1", None),
    ]  # fmt: skip
    first = document["devices"][0]
    assert first["kernels"]["top"][1]["occupancy_limit"] == "registers"
    assert first["transfers"][0]["bytes"] == 4_000_000
    assert first["streams"][0]["queue"] == [[0.0, 8], [0.02, 4], [0.5, 1]]
    assert document["devices"][2]["words"] == "no GPU activity recorded"


def test_bars_are_of_all_work_and_kernels_of_what_the_steps_launched() -> None:
    made = trace([full(**sets())])
    document = findings_document(made, diagnose(made))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    (one,) = document["devices"]
    assert (one["window_s"], one["busy_s"], one["of"]) == (2.0, 0.6, "all device work")
    assert sum(one["parts"].values()) == pytest.approx(1.0)  # as `whole` has them
    _, text = page_of(made)
    assert (
        "Kernels and queues below are of work launched in the recorded steps; 4 of 10 events"
        in text
    )


def test_no_gpu_activity_is_said() -> None:
    _, text = page_of(trace([]))
    assert "No GPU activity was recorded of rank 0. Busy shares are unknown, not 0." in text
    _, text = page_of(trace([full()], []))
    assert "No GPU activity was recorded of rank 1" in text


def test_hostile_names_stay_text() -> None:
    kernels = {**KERNELS, "top": [{**KERNELS["top"][0], "name": n, "why": n} for n in HOSTILE]}  # type: ignore[index]
    odd = full(name=HOSTILE[0], kernels=kernels)
    meta = timeline([odd])
    meta["device_timeline"]["ranks"][0]["worker"] = HOSTILE[1]
    odd["breakdown"]["fully_overlapped"]["by"] = HOSTILE[2]
    made = Trace.from_tables({"tasks": [step()]}, meta)
    page, _ = page_of(made)
    assert not re.findall(r"<img|onerror=[\"']?\w*[\"']? ?>", page)
    assert page.count("<script") == 5
    for hidden in ("\u202e", "\u2066", "\u2028", "\x1b", "\x00"):
        assert hidden not in page


def test_a_damaged_timeline_still_makes_a_page() -> None:
    for broken in (
        {"breakdown": {"window_s": 1.0, "exactly_s": [], "idle_causes": 3}, "kernels": [1]},
        {"breakdown": {"window_s": float("nan")}, "streams": "x"},
        {"breakdown": {"window_s": 1e300, "exactly_s": {"compute": 10**400}}},
        {"streams": [{"queue": {"series": [[1], [0, None], "x", [0, 1], [0, 2]]}}], "device": []},
    ):
        made = trace([broken])
        document = findings_document(made, diagnose(made))
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        page_of(made)


def test_many_devices_keep_the_page_small_and_say_what_is_left_out() -> None:
    kernels = {**KERNELS, "top": [{**KERNELS["top"][0], "name": "k" * 900}] * 50}  # type: ignore[index]
    made = trace(*[[full(i, kernels=kernels) for i in range(8)] for _ in range(16)])
    page, text = page_of(made)
    assert len(page.encode()) < 1_500_000 + PLOTLY_LIMIT_BYTES
    assert "The 64 devices that idled longest, of 128" in text
    assert f"of the other {128 - DETAILS_LIMIT} devices are in the findings file" in text


def test_bars_of_a_queue_stand_where_something_was_launched() -> None:
    section = gpu_section(trace([full()]), devices(trace([full()])))
    assert section is not None
    (queue,) = section.rows[0]["queues"]
    assert queue["top"] == 8
    starts = [float(x) for x in re.findall(r"M([\d.]+) 100", queue["path"])]
    assert len(starts) == 3
    assert starts[0] == 0
    ends = [float(x) for x in re.findall(r"H([\d.]+)V100", queue["path"])]
    assert ends[-1] == 1000
    assert ends[1] < starts[2]  # nothing is drawn between


def test_copies_between_a_host_and_its_device_are_not_between_workers() -> None:
    move = {"worker": "rank 0", "peer": "host", "kind": "transfer", "name": "HtoD", "bytes": 9,
            "start_ns": 0, "end_ns": 5}  # fmt: skip
    made = trace([full()], intervals=[move])
    assert findings_document(made, diagnose(made))["pairs"] == []
