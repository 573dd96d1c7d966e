"""Tables as people and spreadsheets leave them: clocks, states, sums, retries, stamps."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rotameter.adapters.importers import reading
from rotameter.adapters.importers.table import Importer
from rotameter.errors import TraceWarning
from rotameter.testing.importers import import_bytes
from rotameter.values import Head

START = "2025-01-01T10:00:00Z"


def read(text: str, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Import a table; give its tasks and what was said."""
    trace = import_bytes(Importer, {"t.csv": text.encode()}, **options)
    return trace.table("tasks").to_pylist(), trace.warnings


def walls(text: str, **options: Any) -> tuple[list[float | None], list[str]]:
    made, said = read(text, **options)
    return [row["wall_s"] for row in made], said


# -- durations -------------------------------------------------------------------------------------


def test_a_clock_of_two_parts_that_nothing_explains_is_said() -> None:
    made, said = walls("job_id,name,elapsed\n1,a,1:30\n2,b,12:15\n")
    assert made == [90.0, 735.0]
    assert said == [
        "1:30 in elapsed is read as 1 min 30 s; say --map wall=elapsed:h if it is 1 h 30 min"
    ]
    made, said = walls("job_id,name,elapsed\n1,a,1:30\n", map=["wall=elapsed:h"])
    assert (made, said) == ([5400.0], [])
    assert walls("job_id,name,elapsed\n1,a,1:30\n", map=["wall=elapsed:min"]) == ([90.0], [])
    assert walls("job_id,name,elapsed (hours)\n1,a,1:30\n") == ([5400.0], [])


def test_start_and_end_tell_what_a_clock_of_two_parts_is() -> None:
    head = "job_id,start_time,end_time,elapsed,limit\n"
    made, said = read(head + f"1,{START},2025-01-01T11:30:20Z,1:30,2:00\n", map=["limit=limit"])
    assert (made[0]["wall_s"], made[0]["requested_wall_s"]) == (5400.0, 7200.0)
    said.sort()
    assert len(said) == 2 and "is read as 1 h 30 min, as start and end show" in said[0]
    assert "--map requested_wall=limit:min if it is 2 min" in said[1]
    made, said = read(head + f"1,{START},2025-01-01T10:01:30Z,1:30,2:00\n", map=["limit=limit"])
    assert (made[0]["wall_s"], made[0]["requested_wall_s"], said) == (90.0, 120.0, [])


def test_clocks_of_three_parts_tell_what_those_of_two_are() -> None:
    assert walls("job_id,name,elapsed\n1,a,1:30\n2,b,1:02:03\n") == ([90.0, 3723.0], [])
    assert walls("job_id,name,elapsed\n1,a,1:30\n2,b,0:01.5\n") == ([90.0, 1.5], [])
    made, said = walls("job_id,name,elapsed,cputime\n1,a,1:30,0:01:20\n")
    assert made == [90.0] and "as cputime shows" in said[0] and len(said) == 1


def test_one_sentence_on_the_unit_of_bare_durations() -> None:
    head = f"job_id,start_time,end_time,elapsed\n1,{START},2025-01-01T10:10:00Z,"
    made, said = walls(f"{head}600000\n")
    assert (made, said) == ([600.0], ["durations count 0.001 s each, as start and end show"])
    assert walls(f"{head}600\n") == ([600.0], [])
    made, said = walls("job_id,name,elapsed\n1,a,600\n")
    assert made == [600.0] and said == [
        "elapsed is read as seconds; say --map wall=elapsed:ms if it is not"
    ]


@pytest.mark.parametrize("header", ["job_id,start_time,end_time,elapsed (s)", "own"])
def test_a_duration_below_nothing_gives_way_to_start_and_end(header: str) -> None:
    lines = [f"1,{START},2025-01-01T10:20:00Z,-5", "2,,,-5", f"3,{START},2025-01-01T10:00:07Z,7"]
    if header == "own":
        header = "task_id,started_ns,ended_ns,wall_s"
        lines = ["1,0,1200000000000,-5", "2,,,-5", "3,0,7000000000,7"]
    made, said = walls("\n".join([header, *lines]) + "\n")
    assert made == [1200.0, None, 7.0]
    assert any("below 0 (such as -5 s) are not used: end - start is" in word for word in said)
    assert not any("are kept" in word for word in said)


# -- states ----------------------------------------------------------------------------------------


def test_what_ended_a_task_is_told_by_its_exit_code() -> None:
    made, said = read(
        "job_id,elapsed (s),state,exit_code\n"
        "1,5,Killed,137\n2,5,Killed,\n3,5,Killed,0\n4,5,weird,0\n5,5,weird,3\n6,5,ok,0\n"
    )
    assert [row["outcome"] for row in made] == [
        "failed", "cancelled", "cancelled", "unknown", "failed", "ok",
    ]  # fmt: skip
    assert made[0]["signal"] == 9 and made[3]["error"] == made[4]["error"] == "weird"
    assert said == ["state 'weird' is not known"]


# -- totals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "job_id,name,start,end,elapsed (s)\n1,a,{s},,10\n2,b,{s},,20\nTotal,,,,30\n",
        "job_id,name,start,end,elapsed (s)\n1,a,{s},,10\n2,b,{s},,20\n,Grand total:,,,31\n",
        "job_id,elapsed (s)\n1,10\n2,20\nsum,30\n",
        "job_id,elapsed (s)\nTotal,30\n1,10\n2,20\n",
        "job_id,elapsed (s)\n1,10\n2,20\nTotal,30\nAverage,15\n",
        "job_id,name,elapsed (s)\n1,a,10\n2,b,20\n,,30\n",
        "task_id,group,wall_s\n1,a,10\n2,b,20\nTotal,,30\n",
    ],
)
def test_a_row_of_totals_is_no_task(text: str) -> None:
    trace = import_bytes(Importer, {"t.csv": text.format(s=START).encode()})
    assert trace.table("tasks")["wall_s"].to_pylist() == [10.0, 20.0]
    reasons = trace.table("rejects")["reason"].to_pylist()
    assert set(reasons) == {"a row of totals, not a task"}
    assert any("is a row of totals, not a task: it is refused" in word for word in trace.warnings)
    count = trace.meta["importer"]["records"]
    assert count["in"] == 2 + len(reasons) and count["rejected"] == len(reasons)


@pytest.mark.parametrize(
    "text",
    [
        "job_id,start,elapsed (s)\n1,{s},10\n2,{s},20\ntotal,{s},30\n",
        "job_id,name,elapsed (s)\n1,a,10\n2,b,20\n3,total,7\n",
        "job_id,elapsed (s)\n1,10\ntotal,30\n2,20\n",
        "job_id,name,elapsed (s)\n1,a,10\n2,b,20\n3,,30\n",
        "job_id,name,elapsed (s)\n1,a,10\n,,20\n,,30\n",
        "job_id,elapsed (s)\n1,10\n,10\n",
        "job_id,start,elapsed (s),state\n1,{s},10,ok\n2,{s},20,ok\ntotal,,,PENDING\n",
    ],
)
def test_what_may_be_a_task_stays_one(text: str) -> None:
    made, said = read(text.format(s=START))
    assert len(made) == text.count("\n") - 1 and not any("totals" in word for word in said)


def test_totals_of_a_table_of_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from rotameter.adapters.importers import _table_rows

    monkeypatch.setattr(_table_rows, "CHUNK_ROWS", 2)
    rows = "".join(f"{i},{i}\n" for i in range(1, 6))
    made, said = read(f"job_id,elapsed (s)\n{rows}Total,15\n")
    assert [row["wall_s"] for row in made] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert any("line 7 is a row of totals" in word for word in said)


# -- retries ---------------------------------------------------------------------------------------

_TRIES = (
    "1,a,2025-01-01T10:10:00Z,2025-01-01T10:20:00Z,COMPLETED\n"
    "2,a,2025-01-01T10:00:00Z,2025-01-01T10:01:00Z,COMPLETED\n"
    "1,a,2025-01-01T10:05:00Z,2025-01-01T10:07:00Z,FAILED\n"
    "1,a,2025-01-01T10:00:00Z,2025-01-01T10:05:00Z,FAILED\n"
)


def test_retries_are_numbered_by_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rotameter.adapters.exporters.wfformat import Exporter
    from rotameter.adapters.importers import _table_rows

    text = "job_id,name,start,end,state\n" + _TRIES
    for rows in (1, 20_000):
        monkeypatch.setattr(_table_rows, "CHUNK_ROWS", rows)
        made, _ = read(text)
        assert [row["attempt"] for row in made] == [3, 1, 2, 1]
    trace = import_bytes(Importer, {"t.csv": text.encode()})
    with pytest.warns(TraceWarning, match="2 earlier attempts are left out"):
        Exporter().write(trace, str(tmp_path / "w.json"))
    tasks = json.loads((tmp_path / "w.json").read_text())["workflow"]["execution"]["tasks"]
    assert sorted(task["runtimeInSeconds"] for task in tasks) == [60.0, 600.0]


def test_retries_without_starts_or_with_numbers_of_their_own_keep_them() -> None:
    made, _ = read("job_id,wall_s\n1,5\n1,6\n")
    assert [row["attempt"] for row in made] == [1, 2]
    head = "job_id,name,start,end,state\n"
    made, _ = read(f"{head}{_TRIES}1,a,,,FAILED\n")
    assert [row["attempt"] for row in made] == [1, 1, 2, 3, 4]
    made, _ = read("job_id,start,wall_s,attempt\n1,2025-01-02,5,1\n1,2025-01-01,6,2\n")
    assert [row["attempt"] for row in made] == [1, 2]
    made, _ = read("task_id,started_ns,wall_s\na,9000000000,1\na,5000000000,2\n")
    assert [row["attempt"] for row in made] == [2, 1]


# -- signs, stamps and numbers that are none -------------------------------------------------------


@pytest.mark.parametrize("sign", [";", ",", "\t", "^", "#"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_sign_between_columns_that_a_first_line_names(sign: str, quote: str) -> None:
    lines = [f"{quote}sep={sign}{quote}", "job_id,name,elapsed (s)", "1,a,10", "2,b,soon", "3,c"]
    text = "\r\n".join([lines[0], *(line.replace(",", sign) for line in lines[1:])]) + "\r\n"
    assert Importer().sniff(Head("t.csv", text.encode())) >= reading.SURE
    trace = import_bytes(Importer, {"t.csv": b"\xef\xbb\xbf" + text.encode()})
    assert trace.table("tasks")["wall_s"].to_pylist() == [10.0]
    assert trace.table("rejects")["line"].to_pylist() == [5, 4]
    made, _ = read(text, columns="id,name,wall", map=["wall=wall:s"])
    assert [row["wall_s"] for row in made] == [10.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2025-02-30 10:00:00", "there is no such day"),
        ("31.02.2025", "there is no such day"),
        ("2025-02-03 25:00:00", "there is no such time of day"),
        ("9999-12-31 00:00:00", "years from 1970 to 2261 can be held"),
        ("0001-01-01T00:00:00Z", "years from 1970 to 2261 can be held"),
    ],
)
def test_why_a_date_is_none(text: str, why: str) -> None:
    trace = import_bytes(
        Importer, {"t.csv": f"job_id,start\n1,{text}\n2,2025-01-02 10:00:00\n".encode()}
    )
    (reason,) = trace.table("rejects")["reason"].to_pylist()
    assert reason.endswith(why) and "%" not in reason


def test_compact_stamps() -> None:
    for text in ("20250102100000", "20250102T100000", "20250102T100000Z", "20250102T110000+0100"):
        zone = "Z" if text[-1] == "Z" or "+" in text else ""
        for other in ("", f"2,2025-01-02 10:00:00{zone},2025-01-02 10:00:09{zone}\n"):
            made, said = walls(f"job_id,start,end\n1,{text},2025-01-02 10:30:00{zone}\n{other}")
            assert (made[0], said) == (1800.0, [])
    record = b'{"id": 1, "start": 20250102100000, "end": 20250102103000}\n'
    trace = import_bytes(Importer, {"t.jsonl": record})
    assert trace.table("tasks")["wall_s"].to_pylist() == [1800.0]
    # Microseconds since 1970 are as long and no stamps.
    made, _ = walls("job_id,start,end\n1,1735812000000000,1735812001000000\n")
    assert made == [1.0]


@pytest.mark.parametrize("header", [("job_id", "max_rss_kib"), ("task_id", "peak_memory_bytes")])
def test_a_peak_that_is_not_a_number_is_said_to_be_none(header: tuple[str, str]) -> None:
    data = {header[0]: ["a", "b"], "wall_s": [1.0, 2.0], header[1]: [float("nan"), 7.0]}
    out = io.BytesIO()
    pq.write_table(pa.table(data), out)
    trace = import_bytes(Importer, {"t.parquet": out.getvalue()})
    peaks = trace.table("tasks")["peak_memory_bytes"].to_pylist()
    assert peaks[0] is None and peaks[1] > 0
    assert trace.warnings == [f"values of {header[1]} that are not a number (NaN) are left out"]
