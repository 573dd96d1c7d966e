"""Tables of tasks: secrets, cut rows, exports of our own, and times that nobody knows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.adapters.importers.test_table import rows

from rotameter.adapters.importers import reading
from rotameter.adapters.importers.table import Importer
from rotameter.errors import BadInput, UsageError
from rotameter.testing.importers import import_bytes
from rotameter.values import Head

SECRETS = ("--password=hunter2", "AKIAIOSFODNN7EXAMPLE")


@pytest.mark.parametrize("header", ["id,start", "task_id,started_ns"])
def test_no_column_keeps_a_secret(header: str) -> None:
    names = "parent,user,host,worker,account,queue,group,error,wall_s"
    lines = [f"{header},{names}"]
    for i, secret in enumerate(
        [*SECRETS, *(s.replace("2", "3").replace("7E", "8E") for s in SECRETS)]
    ):
        lines.append(",".join([f"t{i} {secret}", "1704189600000000000", *[f"x {secret}"] * 8, "1"]))
    lines.append("plain-1,1704189600000000000,p,u,h,w,a,q,g,e,1")
    trace = import_bytes(Importer, {"t.csv": "\n".join(lines).encode()})
    made = trace.table("tasks").to_pylist()
    text = json.dumps([made, trace.meta], default=str)
    assert "hunter" not in text and "AKIA" not in text
    assert len({row["task_id"] for row in made}) == 5
    assert len({row["parent"] for row in made}) == 5
    assert made[-1]["task_id"] == "plain-1" and made[-1]["host"] == "h"
    # What was cleaned once is not changed again.
    again = "task_id,wall_s\n" + "".join(f"{row['task_id']},1\n" for row in made)
    assert [r["task_id"] for r in rows(again.encode())] == [r["task_id"] for r in made]


def test_ids_with_secrets_still_join_and_the_file_name_counts() -> None:
    data = b"id,wall_s,depends\na --pw=one,1,\nb,1,a --pw=one;c --pw=two\n"
    trace = import_bytes(Importer, {"t.csv": data})
    ids = trace.table("tasks")["task_id"].to_pylist()
    ups = trace.table("deps")["depends_on"].to_pylist()
    assert ups[0] == ids[0] and ups[1] != ups[0] and "two" not in ups[1]
    deps = import_bytes(Importer, {"deps.csv": b"task_id,depends_on\nb,a --pw=one\n"})
    assert deps.table("deps")["depends_on"].to_pylist() == [ids[0]]
    flows = b"task_id,object\nb,s3://ann:pw@bucket/x\n"
    made = import_bytes(Importer, {"f.csv": flows}, table="flows").table("flows")["object"][0]
    assert made.as_py().startswith("s3://bucket/x#")
    named = import_bytes(Importer, {"AKIAIOSFODNN7EXAMPLE.csv": b"start,wall_s\n1704189600,1\n"})
    assert "AKIA" not in named.table("tasks")["task_id"][0].as_py()


def test_a_peak_of_zero_was_not_measured() -> None:
    made = rows(b"id,wall_s,max_mem_gb,state\na,1,0,ok\nb,1,0.5,ok\nc,1,0,oom\n")
    assert [r["peak_memory_bytes"] for r in made] == [None, 500_000_000, None]
    assert [r["peak_memory_kind"] for r in made] == [None, "sampled", None]


@pytest.mark.parametrize("header", [b"id,start,wall_s\n", b"task_id,started_ns,wall_s\n"])
def test_a_header_alone_is_said(header: bytes) -> None:
    trace = import_bytes(Importer, {"t.csv": header})
    assert any("t.csv has columns and no rows" in word for word in trace.warnings)


def test_a_name_is_the_group_where_nothing_else_is() -> None:
    made = rows(b"task_id,name,start_time,wall_s\n1,align,1704189600,1\n")[0]
    assert made["task_id"] == "1" and made["group"] == "align"
    made = rows(b"task_id,name,rule,start_time,wall_s\n1,x,align,1704189600,1\n")[0]
    assert made["group"] == "align"


def test_iso_durations() -> None:
    data = b"id,wall_s\na,PT90S\nb,P1DT2H\nc,PT1.5M\nd,P1W\ne,P\nf,PT\n"
    trace = import_bytes(Importer, {"t.csv": data})
    assert trace.table("tasks")["wall_s"].to_pylist() == [90.0, 93600.0, 90.0, 604800.0]
    assert trace.table("rejects").num_rows == 2


def test_messages_name_what_is_meant() -> None:
    with pytest.raises(UsageError) as caught:
        rows(b"id,start\na,1\n", map=["bogus=start"])
    assert "did you mean" not in str(caught.value.hint)
    trace = import_bytes(Importer, {"t.csv": b"id,wall_s,exit_code\na,1,x\nb,1,0\n"})
    assert any("exit_code: not a whole number: 'x'" in word for word in trace.warnings)


@pytest.mark.parametrize("name", ["job_id", "JobID"])
def test_a_plain_table_of_jobs_is_taken(name: str) -> None:
    line = "a,2024-01-01T00:00:00Z,2024-01-01T00:01:00Z,COMPLETED\n"
    state = "state" if name == "job_id" else "State"
    data = f"{name},start_time,end_time,{state}\n{line}{line}a,soon,,FAILED\n".encode()
    assert Importer().sniff(Head("jobs.csv", data)) >= reading.SURE
    trace = import_bytes(Importer, {"jobs.csv": data})
    made = trace.table("tasks").to_pylist()
    assert [(r["attempt"], r["wall_s"], r["outcome"]) for r in made] == [
        (1, 60.0, "ok"),
        (2, 60.0, "ok"),
    ]
    count = trace.meta["importer"]["records"]
    assert count == {"in": 3, "out": 2, "merged": 0, "rejected": 1}


def test_seconds_and_milliseconds_in_one_column() -> None:
    data = b"id,start,end\na,1704189600,1704189660\nb,1704189600000,1704189660000\nc,0,-\n"
    data += b"d,20000000000,1704189660\n"
    trace = import_bytes(Importer, {"t.csv": data})
    made = trace.table("tasks").to_pylist()
    assert [r["wall_s"] for r in made] == [60.0, 60.0, None, None]
    assert made[0]["started_ns"] == made[1]["started_ns"] == 1704189600 * 10**9
    assert made[2]["started_ns"] is None and made[3]["started_ns"] is None
    assert any("s and ms" in word for word in trace.warnings)


def test_dates_that_may_be_read_two_ways() -> None:
    data = b"id,start,wall_s\na,02/01/2024 10:00:00,1\n"
    with pytest.raises(BadInput, match="--map 'start=start:%d/%m/%Y %H:%M:%S' or --map"):
        rows(data)
    data += b"b,2024-01-02 10:00:00,1\n"
    trace = import_bytes(Importer, {"t.csv": data})
    assert any("day and month or month and day" in word for word in trace.warnings)
    assert trace.table("tasks")["wall_s"].to_pylist() == [1.0, 1.0]


def test_whatever_the_redactor_changes_is_looked_at() -> None:
    from rotameter.adapters.importers._table_secrets import cleaned
    from rotameter.profiler.live.redact import redact

    names = "password db_passwd PassPhrase secret apiKey auth x_pw PIN sig sas token cookie"
    names += " Authorization account_key session-id private-key credentials signature"
    long = "aB3dE5gH7jK9mN1pQ3sT5vX7z"
    texts = [f"a {name}=abcdef" for name in names.split()]
    texts += [f"a -{name} abcdef" for name in names.split()]
    texts += [f"ghp_{long}", f"glpat-{long}", f"sk-{long}", f"xoxb-{long}", f"AIza{long}{long}"]
    texts += [f"hf_{long}", f"npm_{long}", f"ya29.{long}", f"eyJ{long}.{long}", f"key {long}"]
    texts += ["https://ann:pw@host/x", "Bearer abcdefgh12", "-----BEGIN RSA KEY-----", f"pw {long}"]
    changed = [text for text in texts if redact(text) != text]
    assert len(changed) > 40
    for text, new in zip(changed, cleaned(pa.array(changed)).to_pylist(), strict=True):
        assert new.startswith(redact(text) + "#")


EXPORT = (
    "task_id,attempt,group,started_ns,ended_ns,outcome,wall_s,peak_memory_bytes,requested_cores,"
    "exit_code,source"
)


@pytest.mark.parametrize("options", [{}, {"map": ["start=started_ns:ns", "queue=lab"]}])
@pytest.mark.parametrize("extra", ["", ",lab"])
def test_the_schemas_columns_mean_the_same_beside_others(
    extra: str, options: dict[str, Any]
) -> None:
    if options and not extra:
        options = {"map": ["start=started_ns:ns"]}
    cell = ",x" if extra else ""
    data = (
        f"{EXPORT}{extra}\na,1,g,60000000000,1860000000000,ok,1800.0,1572864000,2.0,0,slurm{cell}"
    )
    data += f"\nb,2,g,60000000000,63000000000,ok,3.0,,2.0,0,slurm{cell}\n"
    trace = import_bytes(Importer, {"t.csv": data.encode()}, **options)
    first, second = trace.table("tasks").to_pylist()
    assert (first["started_ns"], first["ended_ns"]) == (60 * 10**9, 1860 * 10**9)
    assert (first["wall_s"], first["peak_memory_bytes"]) == (1800.0, 1572864000)
    assert (second["attempt"], second["requested_cores"], second["wall_s"]) == (2, 2.0, 3.0)
    assert trace.meta["time_base"] == "relative_ns"
    left = [word for word in trace.warnings if "columns not read" in word and "lab" in word]
    assert len(left) == (bool(extra) and not options)


def test_a_schema_name_carries_its_unit_in_any_table() -> None:
    data = b"job_id,started_ns,wall_s,peak_memory_bytes,read_bytes,state\n"
    data += b"1,1704067200000000000,5,1000000,1000,DONE\n"
    trace = import_bytes(Importer, {"t.csv": data})
    made = trace.table("tasks").to_pylist()[0]
    assert (made["wall_s"], made["peak_memory_bytes"], made["read_bytes"]) == (5.0, 1000000, 1000)
    assert made["started_ns"] == 1704067200 * 10**9 and made["outcome"] == "ok"
    assert not any("unit" in word for word in trace.warnings)


@pytest.mark.parametrize(
    "header", ["task_id,wall_s,exit_code", "id,wall_s,exit_code,state", "id,wall_s,exitcode"]
)
def test_an_exit_code_and_signal_in_one_cell(header: str) -> None:
    more = "," if "state" in header else ""
    data = f"{header}\na,1,0:0{more}\nb,1,1:0{more}\nc,1,0:9{more}\nd,1,x:y{more}\n"
    trace = import_bytes(Importer, {"t.csv": data.encode()})
    made = trace.table("tasks").to_pylist()
    assert [(r["exit_code"], r["signal"]) for r in made] == [
        (0, None),
        (1, None),
        (None, 9),
        (None, None),
    ]
    assert [r["outcome"] for r in made] == ["ok", "failed", "failed", "unknown"]
    assert any("'x:y'" in word for word in trace.warnings)


def test_an_unread_cell_of_a_schema_column_costs_the_cell_alone() -> None:
    data = b"task_id,started_ns,wall_s,outcome,peak_memory_bytes,requested_cores\n"
    data += b"a,soon,5,ok,x,-1\nb,1,6x,WEIRD,-5,2\nc,1,7,FAILED,99999999999999999999,2\n"
    trace = import_bytes(Importer, {"t.csv": data})
    made = trace.table("tasks").to_pylist()
    assert [r["wall_s"] for r in made] == [5.0, None, 7.0]
    assert [r["peak_memory_bytes"] for r in made] == [None] * 3
    assert [r["outcome"] for r in made] == ["ok", "unknown", "failed"]
    assert made[1]["error"] == "WEIRD" and made[0]["requested_cores"] is None
    assert trace.table("rejects").num_rows == 0
    for word in ("started_ns: not", "wall_s: not", "'WEIRD'", "a negative requested_cores"):
        assert any(word in said for said in trace.warnings), word


@pytest.mark.parametrize("sign", [";", "\t"])
@pytest.mark.parametrize("extra", ["", "lab"])
def test_our_export_as_a_spreadsheet_of_a_comma_locale_writes_it(sign: str, extra: str) -> None:
    head = [*EXPORT.split(","), *([extra] if extra else [])]
    cells = [
        "a",
        "1",
        "g",
        "60000000000",
        "1860000000000",
        "ok",
        "1800,125",
        "1572864000",
        "2,0",
        "0",
        "slurm",
    ]
    row = [*cells, *(["x"] if extra else [])]
    data = f"{sign.join(head)}\n{sign.join(row)}\n".encode()
    for options in ({}, {"map": ["group=group"]}):
        made = import_bytes(Importer, {"t.csv": data}, **options).table("tasks").to_pylist()[0]
        assert (made["wall_s"], made["requested_cores"]) == (1800.125, 2.0)
        assert made["ended_ns"] == 1860 * 10**9


def test_commas_that_may_group_thousands_are_said() -> None:
    data = b"id\tstart\twall_s\n1\t2024-01-01T00:00:00\t1,234\n"
    trace = import_bytes(Importer, {"t.tsv": data})
    assert trace.table("tasks")["wall_s"].to_pylist() == [1.234]
    assert any("--opt decimal=point" in word for word in trace.warnings)
    said = import_bytes(Importer, {"t.tsv": data}, decimal="point")
    assert said.table("tasks")["wall_s"].to_pylist() == [1234.0]
    mixed = rows(b'id,wall_s\na,"0,5"\nb,"1,234"\n')
    assert [r["wall_s"] for r in mixed] == [0.5, 1.234]


@pytest.mark.parametrize("header", ["id,start_time,end_time,duration_s", EXPORT])
def test_a_duration_that_is_not_the_end_less_the_start_is_said(header: str) -> None:
    if header == EXPORT:
        data = "task_id,started_ns,ended_ns,wall_s\na,0,60000000000,5000\n"
    else:
        data = f"{header}\na,2024-01-01T00:00:00Z,2024-01-01T00:01:00Z,5000\n"
        data += "b,2024-01-01T00:00:00Z,2024-01-01T00:01:00Z,60\n"
    trace = import_bytes(Importer, {"t.csv": data.encode()})
    assert any("5,000 s and 60 s" in word for word in trace.warnings)
    assert trace.table("tasks")["wall_s"][0].as_py() == 5000.0


@pytest.mark.parametrize("header", ["task_id,wall_s", "id,start,wall_s", EXPORT])
def test_a_table_whose_rows_are_all_refused_is_none(header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n" + f"{'1,' * 20}1\n" * 3)
    with pytest.raises(BadInput, match="nothing usable: all 3 records were refused.*21 fields"):
        reading.read([path])


def test_names_that_are_not_utf8_stay_apart() -> None:
    data = "id,wall_s\ncafé,1\ncafè,2\n"
    made = rows(data.encode("latin-1"))
    assert [(r["task_id"], r["attempt"]) for r in made] == [("café", 1), ("cafè", 1)]
    assert made == rows(data.encode())


@pytest.mark.parametrize(
    ("cell", "day"),
    [("01.03.2024 10:00:00", "2024-03-01"), ("01-03-2024 10:00", "2024-03-01"),
     ("1/3/24 10:00", "2024-03-01"), ("25.12.2023, 10:00:00.5", "2023-12-25"),
     ("3/25/2024 10:00:00 AM", "2024-03-25"), ("2024.03.01 10:00:00", "2024-03-01"),
     ("01.03.2024 10.00.00", "2024-03-01"), ("01.03.2024", "2024-03-01")],
)  # fmt: skip
def test_the_hint_for_a_date_reads_it(tmp_path: Path, cell: str, day: str) -> None:
    data = f"id\tstart\twall_s\na\t{cell}\t1\n".encode()
    with pytest.raises(BadInput) as caught:
        rows(data)
    hint = str(caught.value).partition("--map '")[2].partition("'")[0]
    (tmp_path / "t.csv").write_bytes(data)
    trace = reading.read([tmp_path / "t.csv"], options={"map": [hint]}, utc_offset_s=0)
    at = pa.scalar(trace.table("tasks")["started_ns"][0].as_py(), pa.timestamp("ns"))
    assert str(at).startswith(f"{day} {'00' if len(cell) == 10 else '10'}:00:00")


def unknown_times(trace: Any) -> list[str]:
    made = trace.table("tasks").to_pylist()
    assert made and all(r["started_ns"] is None and r["ended_ns"] is None for r in made)
    return [word for word in trace.warnings if "rounded" in word]


@pytest.mark.parametrize(
    ("text", "options"),
    [("id;start;end\na;1,86E+12;1,86E+12\nb;1,86E+12;1,87E+12\n", {}),
     ("id,start,end\na,1.86e12,1.86E+12\nb,1.86E+12,1.860000E+12\n", {}),
     ("id;begin;end\na;1,86E+09;1,86E+09\nb;1,86E+09;1,86E+09\n", {"map": ["start=begin:s"]}),
     ("id;begin;end\na;1,86E+12;1,86E+12\nb;1,86E+12;1,86E+12\n", {"map": ["start=begin:ms"]}),
     ('id,start,end\na,"1,86E+12","1,86E+12"\nb,"1,86E+12","1,86E+12"\n', {}),
     ("task_id;started_ns;ended_ns\na;1,86E+18;1,86E+18\nb;1,86E+18;1,86E+18\n", {}),
     ("task_id,started_ns,ended_ns\na,1.86E+18,1.86E+18\nb,1.86E+18,1.86E+18\n", {}),
     ("id;start;end;state\na;1,86E+12;;\nb;1,86E+12;1,86E+12;1\n", {})],
)  # fmt: skip
def test_times_that_were_rounded_are_unknown(text: str, options: dict[str, Any]) -> None:
    said = unknown_times(import_bytes(Importer, {"t.csv": text.encode()}, **options))
    assert len(said) == 2 and "86e" in said[0].lower() and "(2 times)" in said[0]


def test_times_in_exponent_form_with_enough_digits_stay() -> None:
    (row,) = rows(b"id;start;end\na;1,704067200E+09;1,70406726E+09\n")
    assert row["started_ns"] == 1_704_067_200 * 10**9 and row["ended_ns"] is None
    (row,) = rows(b"id;start;end\na;1,704067200123E+12;1,7040672601230E+12\n")
    assert row["wall_s"] == 60.0
    (row,) = rows(b"id,start,wall_s\na,1.5E+3,2\n")  # from some start: rounded like any other
    assert row["started_ns"] == 1500 * 10**9
    (row,) = rows(b"id,begin,wall_s\na,1.5E+10,2\n", map=["start=begin:ns"])
    assert row["started_ns"] == 15 * 10**9
    (row,) = rows(b"task_id,started_ns,ended_ns\na,1.5E+10,1.704067200123456789E+18\n")
    assert (row["started_ns"], row["ended_ns"]) == (15 * 10**9, 1704067200123456768)


def test_rounded_times_of_other_tables_are_refused() -> None:
    text = b"at_ns,kind\n1.86E+18,note\n1704067200000000000,note\n"
    trace = import_bytes(Importer, {"t.csv": text}, table="events")
    assert trace.table("events")["at_ns"].to_pylist() == [1704067200000000000]
    assert "rounded" in trace.table("rejects")["reason"][0].as_py()


GUARDED = """task_id,group,user,started_ns,ended_ns,outcome,error
'=cmd|' /C calc'!A0,''quoted',',1704067200000000000,1704067260000000000,ok,
'-x,'@a,'+u,1704067200000000000,1704067260000000000,failed,'=1+1
"""


@pytest.mark.parametrize("sign", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("renamed", "options"),
    [({}, {}), ({}, {"map": ["group=group"]}), ({}, {"table": "tasks"}), ({"group": "rule"}, {}),
     ({"group": "rule"}, {"map": ["group=rule"]}), ({"task_id": "no"}, {"map": ["id=no"]})],
)  # fmt: skip
def test_the_guard_of_an_export_is_undone(
    sign: str, renamed: dict[str, str], options: dict[str, Any]
) -> None:
    head, _, body = GUARDED.partition("\n")
    text = ",".join(renamed.get(name, name) for name in head.split(",")) + "\n" + body
    made = rows(text.replace(",", sign).encode(), **options)
    assert [r["task_id"] for r in made] == ["=cmd|' /C calc'!A0", "-x"]
    assert [r["group"] for r in made] == ["'quoted'", "@a"]
    assert [r["user"] for r in made] == ["" if not renamed and "map" not in options else None, "+u"]
    assert made[1]["error"] == "=1+1"


def test_the_guard_of_other_tables_is_undone() -> None:
    text = "job_id,begin,finish,maxrss,cpu,lab\n'=1,2024-03-01 10:00:00,2024-03-01 10:10:00,"
    text += "'=2048,'=1.5,''x'\n'-2,2024-03-01 10:00:00,'=2024-03-01 10:10:00,'+4096,2,'y\n"
    made = rows(text.encode(), map=["peak=maxrss:KiB", "cpu=cpu:s", "group=lab"])
    assert [r["task_id"] for r in made] == ["=1", "-2"]
    assert [r["peak_memory_bytes"] for r in made] == [2048 << 10, 4096 << 10]
    assert [r["cpu_s"] for r in made] == [1.5, 2.0]
    assert [r["group"] for r in made] == ["''x'", "'y"]  # no guard of others


def test_json_and_parquet_keep_what_looks_like_a_guard(tmp_path: Path) -> None:
    record = {"task_id": "'=1", "wall_s": 1.0}
    assert rows(json.dumps([record]).encode(), "t.json")[0]["task_id"] == "'=1"
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([record]), out)
    (tmp_path / "t.parquet").write_bytes(out.getvalue())
    trace = reading.read([tmp_path / "t.parquet"])
    assert trace.table("tasks")["task_id"].to_pylist() == ["'=1"]


def test_a_file_named_as_a_table_of_ours_needs_not_all_its_columns(tmp_path):
    (tmp_path / "tasks.csv").write_text(
        "task_id,group,worker,started_ns,ended_ns,outcome\n"
        "a,g,w,1700000000000000000,1700000002000000000,ok\n"
    )
    (tmp_path / "workers.csv").write_text("worker,host,cores\nw,h,4\n")
    (tmp_path / "flows.csv").write_text("task_id,object,op,bytes\na,/data/x,read,10\n")
    trace = reading.read([tmp_path])
    assert len(trace.tasks) == 1 and trace.warnings == []
    assert trace.table("workers")["cores"].to_pylist() == [4.0]
    assert trace.table("flows")["bytes"].to_pylist() == [10]
    other = tmp_path / "other"
    other.mkdir()
    # Named so, but with a column that no such table has: a table of tasks like any other.
    (other / "workers.csv").write_text("job_id,worker,start,end,state\n1,w,5,9,ok\n")
    assert len(reading.read([other]).tasks) == 1
