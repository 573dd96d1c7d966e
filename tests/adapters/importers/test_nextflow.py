"""Nextflow's trace."""

from __future__ import annotations

import json
import random

import pyarrow.compute as pc
import pytest

import rotameter
from rotameter.adapters.importers._nextflow_lines import find_header
from rotameter.adapters.importers._nextflow_values import FIELDS, parse
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.nextflow import Importer
from rotameter.adapters.importers.reading import sniff
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head

DEFAULT = (
    "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\t"
    "peak_vmem\trchar\twchar\n"
)
HUMAN = (
    DEFAULT + "1\tab/000001\t10\tA:TRIM (s1)\tCOMPLETED\t0\t2024-03-01 10:00:00.000\t29.5s\t14s\t"
    "121.7%\t8.9 MB\t19.4 MB\t32.2 MB\t468 B\n"
    "2\tab/000002\t11\tA:QC\tFAILED\t1\t2024-03-01 10:00:01.500\t1h 2m 3s\t1h\t-\t-\t-\t-\t-\n"
).encode()
RAW = (
    b"hash\tname\tprocess\ttag\tstatus\texit\tattempt\tsubmit\tstart\tcomplete\tduration\trealtime\t"
    b"%cpu\tpeak_rss\tcpus\tmemory\ttime\tread_bytes\thostname\tqueue\n"
    b"aa/000001\tP (x)\tP\tx\tCOMPLETED\t0\t1\t1700000000000\t1700000002000\t1700000012000\t12000\t"
    b"9000\t150.0\t1048576\t2\t4294967296\t3600000\t4096\tn1\tlong\n"
)
OLD = (
    b"task_id;hash;name;status;exit;submit;duration;realtime;%cpu;rss;vmem;rchar;wchar\n"
    b"1;aa/000001;map;COMPLETED;0;2018-01-01 00:00:00.000;2.5s;1.5s;97.5%;10 MB;1 GB;1 KB;0\n"
)


def trace(data: bytes | str, name: str = "trace.txt"):
    return import_bytes(Importer, {name: data.encode() if isinstance(data, str) else data})


def rows(data: bytes | str) -> list[dict]:
    return trace(data).table("tasks").to_pylist()


def rejects(data: bytes | str) -> list[dict]:
    return trace(data).table("rejects").to_pylist()


def samples(data: bytes | str) -> dict[str, float]:
    return {s["metric"]: s["value"] for s in trace(data).table("samples").to_pylist()}


def test_conformance():
    check_importer(Importer, {"t.txt": HUMAN, "t.tsv": RAW, "trace.txt.1": OLD}, cuts=20)


def test_human_form():
    first, second = rows(HUMAN)
    assert (first["task_id"], first["group"], first["run_id"]) == (
        "A:TRIM (s1)",
        "A:TRIM",
        "ab/000001",
    )
    assert first["wall_s"] == 14.0 and first["cpu_s"] == pytest.approx(14 * 1.217)
    assert first["peak_memory_bytes"] == round(8.9 * 2**20)
    assert first["peak_memory_kind"] == "sampled"
    assert (first["read_bytes"], first["write_bytes"]) == (round(32.2 * 2**20), 468)
    assert (first["ended_ns"] - first["submitted_ns"]) / 1e9 == 29.5
    assert (first["ended_ns"] - first["started_ns"]) / 1e9 == 14.0
    assert second["wall_s"] == 3600.0 and second["outcome"] == "failed"
    assert second["peak_memory_bytes"] is None and second["cpu_s"] is None
    assert second["error"] == "exit 1" and second["group"] == "A:QC"
    assert trace(HUMAN).meta["time_base"] == "relative_ns"
    assert min(r["submitted_ns"] for r in (first, second)) == 0


def test_raw_form():
    (row,) = rows(RAW)
    assert row["submitted_ns"] == 1_700_000_000_000 * 10**6
    assert row["wall_s"] == 9.0 and row["cpu_s"] == 13.5
    assert (row["requested_cores"], row["requested_memory_bytes"]) == (2, 4 << 30)
    assert (row["requested_wall_s"], row["host"], row["queue"]) == (3600, "n1", "long")
    assert row["read_bytes"] == 4096 and row["attempt"] == 1
    assert samples(RAW)["staging_s"] == pytest.approx(1.0)
    assert trace(RAW).meta["time_base"] == "epoch_ns"


def human(size: int) -> str:
    """Write an amount as Nextflow does."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if size >= 1024**power:
            text = f"{size / 1024**power:.1f}".removesuffix(".0")
            return f"{text} {unit}"
    return f"{size} B" if size else "0"


def spelled(ms: int) -> str:
    """Write a duration as Nextflow does."""
    if ms < 1000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f}".removesuffix(".0") + "s"
    seconds = round(ms / 1000)
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"))
    return " ".join(f"{n}{u}" for n, u in (*parts, (seconds % 60, "s")) if n)


def test_both_forms_of_a_run_agree_within_the_rounding():
    rng = random.Random(0)
    header = "hash\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\trchar\n"
    raw, said = [header], [header]
    for i in range(60):
        real, rss = (
            rng.randrange(1, 10 ** rng.randrange(3, 9)),
            rng.randrange(1, 1 << rng.randrange(4, 42)),
        )
        duration, percent = real + rng.randrange(5000), rng.randrange(40000) / 10
        begin = f"{i:02x}/000000\tP ({i})\tCOMPLETED\t0\t"
        raw.append(f"{begin}{1700000000000 + i}\t{duration}\t{real}\t{percent}\t{rss}\t{rss}\n")
        said.append(
            f"{begin}2023-11-14 22:13:20.{i:03}\t{spelled(duration)}\t{spelled(real)}\t"
            f"{percent}%\t{human(rss)}\t{human(rss)}\n"
        )
    for a, b in zip(rows("".join(raw)), rows("".join(said)), strict=True):
        for column in ("wall_s", "cpu_s", "peak_memory_bytes", "read_bytes"):
            assert b[column] == pytest.approx(a[column], rel=0.05, abs=1e-9), column


def test_any_columns_in_any_order():
    names = [n for n in FIELDS if n not in ("script", "env")]
    value = {"word": "1", "text": "x", "num": "1", "date": "2020-01-01 00:00:00.000"}
    value |= {"time": "1s", "perc": "50.0%", "mem": "1 MB"}
    for seed in range(20):
        rng = random.Random(seed)
        columns = rng.sample(names, rng.randrange(4, len(names)))
        columns = list(dict.fromkeys([*columns, "name", "status", "realtime", "hash"]))
        rng.shuffle(columns)
        line = "\t".join("COMPLETED" if c == "status" else value[FIELDS[c]] for c in columns)
        (row,) = rows("\t".join(columns) + "\n" + line + "\n")
        assert row["wall_s"] == 1.0 and row["outcome"] == "ok"


@pytest.mark.parametrize("separator", [",", ";", "|", " | ", "::"])
def test_other_separators(separator):
    data = RAW.decode().replace("\t", separator)
    assert rows(data)[0]["wall_s"] == 9.0


def test_old_columns_are_lower_bounds():
    (row,) = rows(OLD)
    assert (row["peak_memory_bytes"], row["peak_memory_kind"]) == (10 << 20, "lower_bound")
    assert samples(OLD)["vmem_bytes"] == 1 << 30


def test_a_tab_in_a_tag_is_repaired_where_one_reading_fits():
    columns = "hash\tname\ttag\tprocess\tstatus\texit\tsubmit\tduration\trealtime\tpeak_rss\n"
    shifted = "a/1\tP (x\ty)\tx\ty\tP\tCOMPLETED\t0\t2024-01-01 00:00:00.000\t2s\t1s\t1 MB\n"
    (row,) = rows(columns + shifted)
    assert row["task_id"] == "P (x y)" and row["peak_memory_bytes"] == 1 << 20
    assert any("put right" in word for word in trace(columns + shifted).warnings)


def test_an_unclear_shift_is_refused_with_its_reason():
    columns = "hash\tqueue\tcontainer\tname\tstatus\texit\tduration\trealtime\tpeak_rss\n"
    (refused,) = rejects(columns + "a/1\tq\tx\ty\tP\tCOMPLETED\t0\t2s\t1s\t1 MB\n")
    assert refused["line"] == 2 and "readings fit" in refused["reason"]
    plain = "hash\tstatus\texit\tname\tduration\trealtime\tpeak_rss\n"
    (refused,) = rejects(plain + "a/1\tsome text\t0\tP\t2s\t1s\t1 MB\n")
    assert "shifted" in refused["reason"] and "status" in refused["reason"]


def test_a_script_of_several_lines_is_one_row():
    data = (
        "name\tstatus\texit\tscript\trealtime\tpeak_rss\n"
        "P\tCOMPLETED\t0\techo a\n\n  echo b\t2s\t1 MB\n"
        "Q\tCOMPLETED\t0\techo\t3s\t2 MB\nR\tCOMP"
    )
    assert [(r["task_id"], r["wall_s"]) for r in rows(data)] == [("P", 2.0), ("Q", 3.0)]
    (refused,) = rejects(data)
    assert "cut" in refused["reason"]


def test_a_failed_attempt_of_two_kinds_of_times_has_no_start_and_is_judged_by_what_is_left():
    header = "name\tstatus\texit\tsubmit\tstart\tduration\ttime\n"
    line = "p\tFAILED\t140\t2024-05-01 10:00:00.000\t1700000000000\t60s\t60s\n"
    (row,) = rows(header + line)
    assert row["started_ns"] is None and row["ended_ns"] is not None
    assert row["outcome"] == "failed"


def test_times_without_a_zone_and_with_one_are_not_mixed():
    data = {"a.txt": HUMAN, "b.txt": RAW}
    made = import_bytes(Importer, data)
    assert made.meta["time_base"] == "relative_ns"
    assert made.table("tasks").to_pylist()[2]["submitted_ns"] is None
    assert any("cannot be compared" in word for word in made.warnings)


def test_cached_rows_keep_needs_and_lose_what_was_used_before():
    data = HUMAN.replace(b"COMPLETED", b"CACHED")
    row = rows(data)[0]
    assert row["outcome"] == "cached" and row["wall_s"] == 14.0 and row["peak_memory_bytes"]
    assert row["submitted_ns"] is row["cpu_s"] is row["read_bytes"] is None


def test_the_words_on_cached_rows_agree_with_the_sums():
    made = trace(HUMAN.replace(b"COMPLETED", b"CACHED"))
    totals = stats(made)
    assert totals["sums"]["wall_s"]["sum"] == totals["task_wall_s"] == 3600
    (said,) = [word for word in made.warnings if "from the cache" in word]
    assert "durations and peaks are kept, as what the tasks need; no sum holds them" in said


def test_how_attempts_end():
    line = "{0}\t{1}\t{2}\t{3}\t2024-01-01 00:0{0}:00.000\t30s\t20s\t-\t-\t4 GB\t{4}\n"
    data = "hash\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\tmemory\ttime\n"
    cases = [
        ("FAILED", "137", "1h", "oom"),
        ("FAILED", "137", "20s", "timeout"),
        ("FAILED", "140", "20s", "timeout"),
        ("FAILED", "1", "-", "failed"),
        ("FAILED", "2147483647", "-", "failed"),
        ("ABORTED", "-", "-", "cancelled"),
        ("RUNNING", "-", "-", "running"),
        ("SUBMITTED", "-", "-", "unknown"),
        ("COMPLETED", "0", "-", "ok"),
    ]
    for i, (status, code, limit, _) in enumerate(cases):
        data += line.format(i, f"P ({i})", status, code, limit)
    made = rows(data)
    assert [r["outcome"] for r in made] == [c[3] for c in cases]
    killed, late, _, _, without, _, _, waiting, _ = made
    assert (killed["peak_memory_bytes"], killed["peak_memory_kind"]) == (4 << 30, "lower_bound")
    assert killed["signal"] == 9 and killed["outcome_kind"] == late["outcome_kind"] == "inferred"
    assert late["peak_memory_bytes"] is None
    assert without["exit_code"] is None and waiting["error"] == "SUBMITTED"


def test_retries_are_attempts_of_one_task_and_namesakes_are_not():
    line = "{0}\tP (1)\t{1}\t{2}\t2024-01-01 00:{0}:00.000\t30s\t20s\t1 MB\n"
    data = "hash\tname\tstatus\texit\tsubmit\tduration\trealtime\tpeak_rss\n"
    data += line.format("12", "COMPLETED", "0") + line.format("10", "FAILED", "1")
    data += line.format("11", "FAILED", "1") + line.format("13", "COMPLETED", "0")
    data += line.format("10", "FAILED", "1").replace("10\t", "19\t", 1)
    made = {r["run_id"]: (r["task_id"], r["attempt"]) for r in rows(data)}
    assert made["10"] == ("P (1)", 1) and made["19"][0] != "P (1)"
    assert {made["11"], made["12"]} == {("P (1)", 2), (made["19"][0], 2)}
    assert made["13"] == ("P (1)", 3)
    twice = HUMAN + HUMAN.split(b"\n")[1].replace(b"ab/000001", b"ab/000009") + b"\n"
    assert [r["task_id"] for r in rows(twice)][::2] == ["A:TRIM (s1)", "A:TRIM (s1) [ab/000009]"]


def test_the_attempt_column_wins():
    data = (
        "hash\tname\tstatus\tattempt\trealtime\n" + "b\tP\tCOMPLETED\t2\t2s\na\tP\tFAILED\t1\t1s\n"
    )
    assert [(r["task_id"], r["attempt"]) for r in rows(data)] == [("P", 2), ("P", 1)]


def test_zeros_of_a_task_without_a_reading_are_unknown():
    data = (
        DEFAULT
        + "1\taa/1\t2\tP\tCOMPLETED\t0\t2024-01-01 00:00:00.000\t0ms\t0ms\t0.0%\t0\t0\t0\t0\n"
    )
    (row,) = rows(data)
    assert row["wall_s"] == 0.0
    assert row["peak_memory_bytes"] is row["cpu_s"] is row["read_bytes"] is row["io_kind"] is None


def test_one_value_that_cannot_be_read_is_null_and_said():
    made = trace(HUMAN.replace(b"121.7%", b"12x"))
    assert made.table("tasks")["cpu_s"][0].as_py() is None
    assert any("%cpu" in word for word in made.warnings)


def test_empty_and_header_only():
    for data in (b"", b"\n\n", b"\xef\xbb\xbf"):
        with pytest.raises(BadInput, match="empty"):
            trace(data)
    made = trace(DEFAULT)
    assert len(made.tasks) == 0 and any("only its header" in word for word in made.warnings)
    with pytest.raises(BadInput, match="not a Nextflow trace"):
        trace("a\tb\n1\t2\n")


ROW = (
    "{0}\tab/00000{0}\t10\tA (s{0})\tCOMPLETED\t0\t2024-03-01 10:00:00.000\t29s\t14s\t9%\t"
    "1 MB\t2 MB\t{1}"
)


def open_end(made) -> list[str]:
    return [word for word in made.warnings if "no end" in word]


@pytest.mark.parametrize(
    ("last", "size", "said"),
    [
        ("1 GB\t1", None, "is cut"),
        ("1 GB\t1 G", None, "is cut"),
        ("1 GB\t1.", None, "is cut"),
        ("1 GB\t", None, "is cut"),
        ("1 GB\t1 GB", 1 << 30, None),
        ("1 GB\t468 B", 468, None),
        ("1 GB\t0", 0, None),
        ("1 GB\t-", None, None),
    ],
)
def test_a_last_value_that_is_cut_is_unknown(last, size, said):
    made = trace(DEFAULT + ROW.format(1, "1 KB\t5 KB\n") + ROW.format(2, last))
    assert made.table("tasks")["write_bytes"].to_pylist() == [5120, size]
    words = open_end(made)
    assert len(words) == (said is not None) and all(said in word for word in words)
    assert not open_end(trace(DEFAULT + ROW.format(1, "1 KB\t5 KB\n") + ROW.format(2, last) + "\n"))


def test_a_last_value_of_which_it_cannot_be_told_is_kept_and_said():
    made = trace(RAW + RAW.split(b"\n")[1].replace(b"/000001", b"/000002")[:-1])
    assert made.table("tasks")["queue"].to_pylist() == ["long", "lon"]
    assert "may be cut" in open_end(made)[0]
    head = "name\thash\tstatus\trealtime\twchar\n"
    made = trace(head + "a\tab/000001\tCOMPLETED\t900\t4096\nb\tab/000002\tCOMPLETED\t900\t40")
    assert made.table("tasks")["write_bytes"].to_pylist() == [4096, 40]
    assert "may be cut" in open_end(made)[0]


@pytest.mark.parametrize("value", ["1h 3m", "4m 3", "4m 3s", "10ms", "2"])
def test_a_last_duration(value):
    head = "name\thash\tstatus\trchar\trealtime\n"
    text = head + f"a\tab/000001\tCOMPLETED\t4 KB\t2h\nb\tab/000002\tCOMPLETED\t4 KB\t{value}"
    made = trace(text)
    cut = value[-1] in "0123456789"
    assert (made.table("tasks")["wall_s"][1].as_py() is None) == cut
    assert len(open_end(made)) == (cut or value == "1h 3m")


def test_a_last_time_shorter_than_the_others_is_cut():
    head = "name\thash\tstatus\trealtime\tcomplete\n"
    for value, known in (("1700000012000", True), ("17000000120", False)):
        made = trace(
            f"{head}a\tab/000001\tCOMPLETED\t900\t1700000002000\nb\tab/2\tCOMPLETED\t900\t{value}"
        )
        assert (made.table("tasks")["ended_ns"][1].as_py() is not None) == known
        assert len(open_end(made)) == (not known)


def test_cells_in_quotes():
    lines = (DEFAULT + ROW.format(1, "1 KB\t5 KB\n")).rstrip("\n").split("\n")
    for mark in ",;\t":
        text = "".join(mark.join(f'"{c}"' for c in line.split("\t")) + "\n" for line in lines)
        made = trace(text.replace("A (s1)", f"A (s1{mark} s2)"))
        (row,) = made.table("tasks").to_pylist()
        assert (
            row["task_id"] == "A (s1{} s2)".format(mark.replace("\t", " "))
            and row["write_bytes"] == 5120
        )
        assert not made.warnings, made.warnings


def test_lines_before_the_header_do_not_vanish():
    made = import_bytes(Importer, {"t.txt": b"a note\n\n" + HUMAN})
    assert [r["line"] for r in made.table("rejects").to_pylist()] == [1] and len(made.tasks) == 2


def test_files_put_one_after_the_other():
    made = trace(HUMAN + HUMAN.replace(b"\tab/", b"\tcd/"))
    assert len(made.tasks) == 4 and made.meta["importer"]["records"]["rejected"] == 0
    assert len(set(made.table("tasks")["task_id"].to_pylist())) == 4


def test_a_row_that_is_there_twice_counts_once(tmp_path):
    def sums(made) -> tuple:
        tasks = made.table("tasks")
        return len(tasks), pc.sum(tasks["read_bytes"]).as_py()

    once = sums(trace(HUMAN))
    lines = HUMAN.splitlines(keepends=True)
    raw = HUMAN.replace(b"29.5s", b"29500").replace(b"\t14s", b"\t14000")  # told in another form
    files = {"a.txt": HUMAN, "b.txt": HUMAN + lines[1], "c.txt": raw}
    both = import_bytes(Importer, files)
    assert sums(both) == once
    assert any("counted once: 5 left out" in w for w in both.warnings)
    assert both.meta["importer"]["records"]["merged"] == 5
    without = b"name\tstatus\tsubmit\trealtime\t%cpu\nA\tCOMPLETED\t1700000000000\t5000\t10\n"
    assert len(rows(without + without.splitlines()[1])) == 1
    # Nothing tells these apart, and nothing says that they are one.
    bare = b"name\tstatus\trealtime\nA\tCOMPLETED\t5s\nA\tCOMPLETED\t5s\n"
    assert len(rows(bare)) == 2
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(HUMAN)
    made = rotameter.open(tmp_path)
    assert sums(made) == once and any("copies" in w for w in made.warnings)


@pytest.mark.parametrize("header", ["name\tstatus\trealtime", "realtime,process,status"])
def test_a_header_of_few_columns(header, tmp_path):
    mark = "\t" if "\t" in header else ","
    value = {"name": "A (1)", "process": "A", "status": "COMPLETED", "realtime": "5s"}
    row = mark.join(value[column] for column in header.split(mark))
    (tmp_path / "t.txt").write_text(f"{header}\n{row}\n")
    (task,) = rotameter.open(tmp_path / "t.txt").table("tasks").to_pylist()
    assert (task["group"], task["wall_s"], task["source"]) == ("A", 5.0, "nextflow")


def test_words_of_any_table_need_the_format_named(tmp_path):
    text = b"name,status,duration\nA,COMPLETED,5s\n"
    assert Importer().sniff(Head("t.csv", text)) == 0
    assert len(rows(text)) == 1


def test_secrets_in_names_are_cut():
    (row,) = rows(RAW.replace(b"P (x)", b"P (--token s3cr3t)").replace(b"\tx\t", b"\t-\t"))
    assert "s3cr3t" not in row["task_id"]


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("duration", "1d 2h 3m 4s", 93784.0),
        ("duration", "2h 5s", 7205.0),
        ("realtime", "524", 0.524),
        ("time", "01:02:03", 3723.0),
        ("time", "2 days", 172800.0),
        ("time", "1hour", 3600.0),
        ("peak_rss", "1.1 GB", round(1.1 * 2**30)),
        ("memory", "0", 0),
        ("%mem", "3.5", 3.5),
        ("exit", "2147483647", None),
        ("name", "--", None),
    ],
)
def test_values(column, text, value):
    assert parse(column, text) == value


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("duration", "-5s"),
        ("peak_rss", "x"),
        ("exit", "1e999"),
        ("submit", "9999-01-01 00:00:00"),
        ("%cpu", "-1%"),
        ("peak_rss", "9" * 400),
        ("duration", "1e999"),
        ("realtime", "abc"),
    ],
)
def test_values_that_are_none(column, text):
    with pytest.raises(ValueError):
        parse(column, text)


def test_headers_of_other_tables_are_not_taken():
    for line in (
        "name\tstatus\tduration\tprice",
        "JobID|JobName|State|Elapsed",
        "s\th:m:s\tmax_rss",
        "name\tname\tstatus\trealtime\thash",
        "id,name,status,duration",
    ):
        assert find_header(line, sure=True) is None
        assert Importer().sniff(Head("x", line.encode())) == 0


# -- shared files -------------------------------------------------------------------------------


def opened(path):
    return rotameter.open(path)


def test_sums_equal_the_oracle(rotameter_shared):
    folder = rotameter_shared / "data/formats/nextflow"
    oracle = json.loads((folder / "ORACLE.json").read_text())
    for name, known in oracle.items():
        made = opened(folder / name)
        tasks = made.table("tasks")
        assert len(tasks) == known["rows"] and not made.table("rejects").num_rows, name
        statuses: dict[str, int] = {}
        for row in tasks.select(["outcome", "exit_code"]).to_pylist():
            status = "COMPLETED" if row["outcome"] == "ok" else "FAILED"
            code = "-" if row["exit_code"] is None else row["exit_code"]
            statuses[f"{status}/{code}"] = statuses.get(f"{status}/{code}", 0) + 1
        assert statuses == known["status_exit"], name
        assert tasks["peak_memory_bytes"].null_count == known["peak_rss_missing"], name
        assert abs(pc.max(tasks["peak_memory_bytes"]).as_py() - known["peak_rss_max_bytes"]) <= 1
        total = pc.sum(tasks["wall_s"]).as_py() * 1000
        assert total == pytest.approx(known["sum_realtime_ms"], rel=1e-3), name
        spans = pc.sum(pc.subtract(tasks["ended_ns"], tasks["submitted_ns"])).as_py() / 1e6
        assert spans == pytest.approx(known["sum_duration_ms"], rel=1e-3), name
        assert len(tasks["group"].unique()) == known["distinct_processes"], name


def test_retries_of_a_real_run(rotameter_shared):
    path = rotameter_shared / "data/formats/nextflow/openproblems_2022-05c_trace_failures.txt"
    tasks = opened(path).table("tasks")
    assert len(tasks["task_id"].unique()) == 852 and pc.max(tasks["attempt"]).as_py() == 5
    lost = tasks.filter(pc.is_in(tasks["outcome"], value_set=pc.unique(tasks["outcome"])))
    failed = lost.filter(pc.not_equal(lost["outcome"], "ok"))
    assert pc.sum(failed["wall_s"]).as_py() / 3600 == pytest.approx(201, abs=1)


def test_traces_of_a_plug_in_give_what_is_sound(rotameter_shared):
    folder = rotameter_shared / "data/formats/nextflow"
    for name, n in (("co2footprint_trace_sample.txt", 7), ("co2footprint_trace_test.txt", 2)):
        made = opened(folder / name)
        tasks = made.table("tasks")
        assert len(tasks) == n and tasks["peak_memory_bytes"].null_count == n
        assert tasks["submitted_ns"].null_count == n and tasks["wall_s"].null_count == 0
        assert any("Nextflow itself does not write" in word for word in made.warnings)
    assert tasks["energy_j"][0].as_py() == pytest.approx(2.16e-3 * 3600)


def test_case_17_decimal_comma(rotameter_shared):
    made = opened(rotameter_shared / "bugcases/17-nf-decimal-comma/trace.txt")
    first, second = made.table("tasks").to_pylist()
    assert abs(first["peak_memory_bytes"] - 330930586) <= 1 and first["wall_s"] == 1.2
    assert first["cpu_s"] == pytest.approx(1.2 * 0.975)
    assert abs(second["peak_memory_bytes"] - 214748365) <= 1
    assert any("decimal comma" in word for word in made.warnings)


def test_case_18_failed_without_figures(rotameter_shared):
    made = opened(rotameter_shared / "bugcases/18-nf-failed-no-metrics/trace.txt")
    one, two, three, four, five = made.table("tasks").to_pylist()
    assert two["outcome"] == "oom" and two["outcome_kind"] == "inferred" and two["attempt"] == 1
    assert two["peak_memory_kind"] == "lower_bound" and two["peak_memory_bytes"] >= 4 << 30
    assert three["task_id"] == two["task_id"] and three["attempt"] == 2 and three["outcome"] == "ok"
    assert three["peak_memory_bytes"] == round(6.1 * 2**30)
    assert four["outcome"] == "failed" and four["exit_code"] is None
    assert five["outcome"] == "cancelled"
    measured = [r for r in (one, two, three, four, five) if r["peak_memory_kind"] == "sampled"]
    assert measured == [one, three]


def test_case_22_virtual_memory_is_not_the_need(rotameter_shared):
    made = opened(rotameter_shared / "bugcases/22-nf-vmem-is-not-need/trace.txt")
    peaks = made.table("tasks")["peak_memory_bytes"].to_pylist()
    assert all(71 << 20 <= peak <= 77 << 20 for peak in peaks)
    virtual = [s["value"] for s in made.table("samples").to_pylist()]
    assert virtual == [round(1.4 * 2**40)] * 6


def test_only_traces_are_taken_for_traces(rotameter_shared):
    for path in sorted((rotameter_shared / "data/formats").rglob("*")):
        if not path.is_file() or path.name.startswith(("SOURCES", "ORACLE")):
            continue
        for file in open_members(path)[:2]:
            mine = Importer().sniff(Head(file.name, file.head, file.path)) >= 0.5
            assert mine == (path.parent.name == "nextflow"), path
            assert not mine or sniff(file)[0][1] == "nextflow", path
