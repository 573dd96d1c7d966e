"""Nextflow traces that end in the middle, and what a sniffer says of them."""

from __future__ import annotations

import json

import pyarrow.compute as pc
import pytest
from tests.adapters.importers.test_nextflow import (
    DEFAULT,
    HUMAN,
    RAW,
    rows,
    trace,
)

import rotameter
from rotameter.adapters.importers._nextflow_lines import find_header
from rotameter.adapters.importers._nextflow_values import parse
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.nextflow import Importer
from rotameter.adapters.importers.reading import sniff
from rotameter.testing import import_bytes
from rotameter.values import Head

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


# -- several traces without their folder -----------------------------------------------------------


def _trace(*rows: str) -> bytes:
    head = "hash\tname\tstatus\texit\tsubmit\tduration\trealtime\n"
    return (head + "".join(f"{row}\t11s\t10s\n" for row in rows)).encode()


_FIRST = (
    "aa/000001\tA\tCOMPLETED\t0\t2025-01-14 10:00:00.000",
    "bb/000002\tB\tFAILED\t1\t2025-01-14 10:00:00.000",
)
_AGAIN = "cc/000003\tB\tCOMPLETED\t0\t2025-01-15 10:00:00.000"
_CACHED = "aa/000001\tA\tCACHED\t0\t2025-01-14 10:00:00.000"


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_run_that_has_the_other_s_work_from_its_cache_goes_on_with_it(names):
    files = dict(zip(names, (_trace(*_FIRST), _trace(_CACHED, _AGAIN)), strict=True))
    made = import_bytes(Importer, {f"{name}.txt": data for name, data in files.items()})
    tasks = [(t["task_id"], t["attempt"], t["outcome"]) for t in made.table("tasks").to_pylist()]
    assert sorted(tasks) == [("A", 1, "ok"), ("B", 1, "failed"), ("B", 2, "ok")]
    assert made.meta["importer"]["records"] == {"in": 4, "out": 3, "merged": 1, "rejected": 0}


def test_rows_of_one_work_from_the_cache_are_one_task_with_its_samples():
    head = _trace(_CACHED).partition(b"\n")[0] + b"\tpeak_vmem\n"
    cached, other = (
        f"{key}\tCACHED\t0\t2025-01-14 10:00:00.000\t11s\t10s\t{size} GB\n".encode()
        for key, size in (("aa/000001\tA", 1), ("bb/000002\tB", 2))
    )
    ran = b"cc/000003\tC\tCOMPLETED\t0\t2025-01-15 10:00:00.000\t11s\t10s\t3 GB\n"
    files = {"a.txt": head + cached, "b.txt": head + cached, "c.txt": head + cached + other + ran}
    made = import_bytes(Importer, files)
    tasks = [(t["task_id"], t["outcome"]) for t in made.table("tasks").to_pylist()]
    assert sorted(tasks) == [("A", "cached"), ("B", "cached"), ("C", "ok")]
    vmem = {s["subject"]: s["value"] / 2**30 for s in made.table("samples").to_pylist()}
    assert vmem == {"A": 1, "B": 2, "C": 3}
    assert made.meta["importer"]["records"]["merged"] == 2


def test_runs_that_share_nothing_are_each_their_own():
    made = import_bytes(Importer, {"a.txt": _trace(*_FIRST), "b.txt": _trace(_AGAIN)})
    tasks = {(t["task_id"], t["attempt"]) for t in made.table("tasks").to_pylist()}
    assert tasks == {("A", 1), ("B", 1), ("B [cc/000003]", 1)}
