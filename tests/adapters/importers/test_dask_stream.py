"""Task streams of Dask saved as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._dask_json import Broken, values
from rotameter.adapters.importers.dask_stream import Importer
from rotameter.adapters.importers.inputs import open_members
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import check_importer, import_bytes
from rotameter.values import Head


def message(key: Any, *parts: tuple[str, float, float], **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "worker": "tcp://10.1.1.1:4000",
        "thread": 7,
        "status": "OK",
        "nbytes": 80,
        "startstops": [{"action": a, "start": b, "stop": e} for a, b, e in parts],
        **more,
    }


MESSAGES = [
    message("load-0a1b2c3d", ("transfer", 10.0, 10.5), ("compute", 10.5, 12.0)),
    message(["sum-0a1b2c3d", 0, 1], ("disk-read", 12, 12.25), ("compute", 12.5, 13)),
    message("fit-1", ("compute", 13, 14), status="error", exception_text="ValueError('x')"),
]
BODIES = {
    "list": json.dumps(MESSAGES),
    "indented": json.dumps(MESSAGES, indent=1),
    "lines": "\n".join(json.dumps(m) for m in MESSAGES) + "\n",
    "object": json.dumps({"version": 3, "task_stream": MESSAGES}),
    "lists a line": f"{json.dumps(MESSAGES[:1])}\n{json.dumps(MESSAGES[1:])}",
}


def load(*messages: Any) -> Trace:
    return import_bytes(Importer, {"stream.json": json.dumps(list(messages)).encode()})


def rows(trace: Trace, table: str = "tasks") -> list[dict[str, Any]]:
    return trace.table(table).to_pylist()


def test_conforms() -> None:
    samples = {f"{n.replace(' ', '_')}.json": body.encode() for n, body in BODIES.items()}
    check_importer(Importer, samples, cuts=20)


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_every_way_to_save_gives_the_same(body: str) -> None:
    trace = import_bytes(Importer, {"stream.json": body.encode()})
    tasks = rows(trace)
    assert [t["task_id"] for t in tasks] == ["load-0a1b2c3d", "('sum-0a1b2c3d', 0, 1)", "fit-1"]
    assert [t["group"] for t in tasks] == ["load", "sum", "fit"]
    assert [t["outcome"] for t in tasks] == ["ok", "ok", "failed"]
    assert [t["wall_s"] for t in tasks] == [1.5, 0.5, 1.0]
    assert [t["transfer_s"] for t in tasks] == [0.5, None, None]
    assert [t["spill_s"] for t in tasks] == [None, 0.25, None]
    assert [t["output_bytes"] for t in tasks] == [80, 80, None]
    assert (tasks[0]["started_ns"], tasks[0]["ended_ns"]) == (10_500_000_000, 12_000_000_000)
    assert tasks[2]["error"] == "ValueError('x')"
    assert {(i["worker"], i["lane"]) for i in rows(trace, "intervals")} == {
        ("tcp://10.1.1.1:4000", "7")
    }
    assert {i["kind"] for i in rows(trace, "intervals")} == {"transfer", "compute", "disk"}
    assert rows(trace, "workers")[0]["host"] == "10.1.1.1"


def test_a_key_again_is_another_attempt() -> None:
    trace = load(
        message("a-1", ("compute", 1, 2), status="error"), message("a-1", ("compute", 3, 5))
    )
    assert [(t["attempt"], t["outcome"]) for t in rows(trace)] == [(1, "failed"), (2, "ok")]
    assert [i["attempt"] for i in rows(trace, "intervals")] == [1, 2]


def test_streams_that_overlap_count_once() -> None:
    one = message("a-1", ("compute", 1, 2), stimulus_id="task-finished-1")
    two = message("a-2", ("compute", 2, 3), stimulus_id="task-finished-2")
    trace = import_bytes(
        Importer, {"1.json": json.dumps([one]).encode(), "2.json": json.dumps([one, two]).encode()}
    )
    assert [t["task_id"] for t in rows(trace)] == ["a-1", "a-2"]
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 2, "merged": 1, "rejected": 0}


@pytest.mark.parametrize("stimulus", [{}, {"stimulus_id": "s"}])
def test_what_cannot_happen_twice_counts_once(stimulus: dict[str, str]) -> None:
    one = message("a-1", ("compute", 1, 2), **stimulus)
    trace = load(one, message("a-2", ("compute", 2, 3)), one)
    assert [(t["task_id"], t["attempt"]) for t in rows(trace)] == [("a-1", 1), ("a-2", 1)]
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 2, "merged": 1, "rejected": 0}
    assert any("occurs twice" in word for word in trace.warnings)


def test_other_times_workers_and_threads_are_other_attempts() -> None:
    trace = load(
        message("a-1", ("compute", 1, 2)), message("a-1", ("compute", 2, 3)),
        message("a-1", ("compute", 1, 2), worker="tcp://10.9.9.9:1"),
        message("a-1", ("compute", 1, 2), thread=99),
        message("a-2", startstops=None), message("a-2", startstops=None),
    )  # fmt: skip
    assert [t["attempt"] for t in rows(trace)] == [1, 2, 3, 4, 1, 2]
    assert {t["source"] for t in rows(trace)} == {"dask_stream"}


def test_missing_timing_is_no_time_and_said() -> None:
    gone = message("a-1")
    del gone["startstops"]
    trace = load(gone, message("a-2"), message("a-3", startstops=None))
    assert [t["wall_s"] for t in rows(trace)] == [None] * 3
    assert [t["started_ns"] for t in rows(trace)] == [None] * 3
    assert any("3 messages carry no timing" in w and "a-1" in w for w in trace.warnings)


def test_unknown_actions_keep_their_name() -> None:
    trace = load(message("a-1", ("compute", 1, 2), ("nap\n", 2, 2.5)))
    assert [(i["kind"], i["name"]) for i in rows(trace, "intervals")] == [
        ("compute", "compute"),
        ("span", "nap "),
    ]
    assert rows(trace)[0]["wall_s"] == 1.0
    assert any("nap" in w for w in trace.warnings)


@pytest.mark.parametrize(
    "part",
    [
        {"action": "compute", "start": 2, "stop": 1},
        {"action": "compute", "start": float("nan"), "stop": 1},
        {"action": "compute", "start": -1, "stop": 1},
        {"action": "compute", "start": 10**400, "stop": 1},
        {"action": "compute", "start": "soon", "stop": 1},
        {"action": "compute", "start": 1},
        {"action": None, "start": 1, "stop": 2},
        "compute",
        None,
    ],
)
def test_odd_startstops_are_left_out(part: Any) -> None:
    trace = load(message("a-1", startstops=[part, {"action": "compute", "start": 3, "stop": 4}]))
    assert rows(trace)[0]["wall_s"] == 1.0
    assert len(rows(trace, "intervals")) == 1
    assert any("left out" in w for w in trace.warnings)


def test_old_layouts() -> None:
    trace = load(
        message("a-1", startstops=[["transfer", 1, 2], ["compute", 2, 4]]),
        {"key": "b-1", "worker": "w:1", "thread": 1, "compute_start": 4, "compute_stop": 5},
    )
    assert [(t["wall_s"], t["transfer_s"]) for t in rows(trace)] == [(2.0, 1.0), (1.0, None)]
    assert [t["outcome"] for t in rows(trace)] == ["ok", "unknown"]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("MemoryError('x')", "oom"),
        ("KilledWorker('a-1', 'tcp://…')", "worker_lost"),
        ("<Future: cancelled>", "failed"),
        ("", "failed"),
    ],
)
def test_errors(text: str, outcome: str) -> None:
    trace = load(message("a-1", ("compute", 1, 2), status="error", exception_text=text))
    assert rows(trace)[0]["outcome"] == outcome


def test_nothing_pickled_and_no_secret_comes_in() -> None:
    trace = load(
        message("a-1", ("compute", 1, 2), status="error", exception="b'\\x80pickle'"),
        message(
            "a-2", ("compute", 2, 3), status="error", exception_text="X('password=hunter2')\nmore"
        ),
        message("get-s3://ann:pw@bucket/x", ("compute", 3, 4)),
    )
    text = str([rows(trace), rows(trace, "intervals")])
    assert "pickle" not in text and "hunter2" not in text and "ann:pw" not in text
    assert rows(trace)[0]["error"] is None


def test_an_unknown_status_is_kept() -> None:
    row = rows(load(message("a-1", ("compute", 1, 2), status="paused")))[0]
    assert (row["outcome"], row["error"]) == ("unknown", "paused")


def test_records_that_are_none_are_refused_with_their_line() -> None:
    body = "\n".join(
        [json.dumps(MESSAGES[0]), '{"key": "a', "17", '{"worker": "w", "status": "OK"}', "{}"]
    )
    trace = import_bytes(Importer, {"s.jsonl": body.encode()})
    assert [r["line"] for r in rows(trace, "rejects")] == [2, 4, 5]
    assert len(rows(trace)) == 1


def test_a_cut_list_gives_what_is_there() -> None:
    body = json.dumps(MESSAGES, indent=1)
    trace = import_bytes(Importer, {"s.json": body[: body.index('"fit-1"')].encode()})
    assert len(rows(trace)) == 2
    assert trace.meta["importer"]["records"]["rejected"] == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"[1, 2]", b'{"data": []}', b"[" * 10_000])
def test_nothing_usable_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(BadInput, match=r"s\.json"):
        import_bytes(Importer, {"s.json": body})


def test_json_values_recover() -> None:
    found = list(values('[1,\n{"a": tru}\n,{"b": 2}]\n{"c": 3}'))
    assert [line for line, _ in found] == [1, 2, 4]
    assert isinstance(found[1][1], Broken)
    assert found[-1] == (4, {"c": 3})
    for text in ("[" + "[" * 100_000, "9" * 5000):
        assert isinstance(next(iter(values(text)))[1], Broken)


# -- shared files ---------------------------------------------------------------------------------


def test_bugcase_28(rotameter_shared: Path) -> None:
    case = rotameter_shared / "bugcases" / "28-dask-missing-startstops" / "task_stream.json"
    trace = reading.read([case])
    assert stats(trace)["tasks"] == 5
    assert stats(trace)["compute_s"] == 3.0
    assert stats(trace)["outcomes"] == {"failed": 1, "ok": 4}
    found: dict[str, float] = {}
    for one in rows(trace, "intervals"):
        name = f"{one['kind']} {one['name']}"
        found[name] = found.get(name, 0) + (one["end_ns"] - one["start_ns"]) / 1e9
    assert found == {"compute compute": 3.0, "transfer transfer": 0.5, "span hibernate": 0.25}
    assert any("2 messages carry no timing" in w and "load-2, load-3" in w for w in trace.warnings)


def test_real_stream(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data" / "formats" / "dask_report"
    trace = reading.read([folder / "generated_here_task_stream_2026.8.json"])
    assert stats(trace)["tasks"] == 62
    assert stats(trace)["outcomes"] == {"failed": 1, "ok": 61}
    assert stats(trace)["compute_s"] == pytest.approx(2.581, abs=0.001)
    assert trace.warnings == []
    moved = [i for i in rows(trace, "intervals") if i["kind"] == "transfer"]
    assert moved[0]["peer"] == "tcp://127.0.0.1:45249"


def test_sniffs_its_own_files_only(rotameter_shared: Path) -> None:
    importer = Importer()
    mine = set()
    for folder in ("data/formats", "bugcases"):
        for path in sorted((rotameter_shared / folder).rglob("*")):
            if path.is_file():
                for file in open_members(path)[:50]:
                    if importer.sniff(Head(file.name, file.head, file.path)) >= 0.5:
                        mine.add(path.name)
    assert mine == {"task_stream.json", "generated_here_task_stream_2026.8.json"}
