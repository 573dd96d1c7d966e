"""Snakemake's benchmarks."""

from __future__ import annotations

import json

import pytest

import rotameter
from rotameter.adapters.importers._snakemake_names import distinct, guess
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.reading import sniff
from rotameter.adapters.importers.snakemake import Importer
from rotameter.errors import BadInput, UsageError
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head

MIB = 1 << 20
PLAIN = (
    "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
    "41.2000\t0:00:41\t512.25\t900.00\t500.00\t505.00\t1.00\t2.50\t88.10\t36.29\n"
    "40.1000\t0:00:40\t500.00\t900.00\t500.00\t505.00\t1.00\t2.50\t90.00\t36.09\n"
)
OLD = PLAIN.replace("\tcpu_time", "").replace("\t36.29", "").replace("\t36.09", "")
WIDE = (
    PLAIN.split("\n", 1)[0]
    + "\tjobid\trule_name\twildcards\tparams\tthreads\tcpu_usage\tresources\t"
    "input_size_mb\tanother_tool\n"
    "1.50\t0:00:01\t4.25\t35.97\t0.39\t0.85\t0.00\t0.00\t186.26\t2.79\t1\talign\t{'s': 'a, b'}\t"
    "{'f': <function f at 0x7f>}\t2\t1863.32\t{'_cores': 2, '_nodes': 1, 'mem_mb': 500, "
    "'mem_mib': 477, 'runtime': 90, 'disk_mb': 2000, 'slurm_partition': 'long', 'gpus': 1, "
    "'tmpdir': '/tmp'}\t{'in/a.fq': 3.0, 'in/b.fq': 0.5}\tx\n"
)
LINES = "".join(
    json.dumps(record) + "\n"
    for record in (
        {"s": "7.5012", "h:m:s": "0:00:07", "max_rss": 96.5, "cpu_time": 9.1, "rule_name": "align"},
        {
            "s": 7.5,
            "h:m:s": "0:00:07",
            "max_rss": "NA",
            "cpu_time": None,
            "resources": {"mem_mb": 9},
        },
    )
)


def trace(data: str, name: str = "align.tsv", **options):
    return import_bytes(Importer, {name: data.encode()}, **options)


def rows(data: str, name: str = "align.tsv") -> list[dict]:
    return trace(data, name).table("tasks").to_pylist()


def test_conformance():
    samples = {"a.tsv": PLAIN, "b.txt": OLD, "c.tsv": WIDE, "d.jsonl": LINES}
    check_importer(Importer, {name: text.encode() for name, text in samples.items()}, cuts=20)


def test_units_and_repeats():
    first, second = rows(PLAIN)
    assert (first["task_id"], second["task_id"]) == ("align", "align repeat 2")
    assert first["group"] == "align" and first["wall_s"] == 41.2 and first["cpu_s"] == 36.29
    assert first["peak_memory_bytes"] == 512.25 * MIB and first["peak_memory_kind"] == "sampled"
    assert (first["read_bytes"], first["write_bytes"]) == (MIB, 2.5 * MIB)
    assert first["io_kind"] == "lower_bound" and first["outcome"] == "ok"
    assert first["started_ns"] is None and first["attempt"] is None


def test_before_cpu_time_the_mean_load_tells():
    assert rows(OLD)[0]["cpu_s"] == pytest.approx(41.2 * 0.881)


def test_extended_columns():
    (row,) = rows(WIDE, "x.tsv")
    assert (row["task_id"], row["group"]) == ("align[s=a, b]", "align")
    assert row["requested_memory_bytes"] == 477 * MIB and row["requested_wall_s"] == 5400
    assert (row["requested_cores"], row["requested_gpus"], row["requested_nodes"]) == (2, 1, 1)
    assert row["requested_disk_bytes"] == 2000 * 10**6 and row["queue"] == "long"
    assert dict(row["features"]) == {"input_bytes": 3.5 * MIB, "input_files": 2.0}


def test_json_lines():
    first, second = rows(LINES, "fallback.jsonl")
    assert first["wall_s"] == 7.5012 and first["group"] == "align"
    assert second["group"] == "fallback" and second["peak_memory_bytes"] is None
    assert second["requested_memory_bytes"] == 9 * 10**6


@pytest.mark.parametrize("missing", ["NA", "-", ""])
def test_missing_is_null(missing):
    (row,) = rows(PLAIN.split("\n")[0] + f"\n1.25\t0:00:01{(chr(9) + missing) * 8}\n")
    assert row["wall_s"] == 1.25
    assert row["peak_memory_bytes"] is row["cpu_s"] is row["read_bytes"] is row["io_kind"] is None


def test_zeros_without_a_reading_are_null():
    data = PLAIN.split("\n")[0] + "\n0.02\t0:00:00\t0\t0\t0\t0\t0.00\t0.00\t0.00\t0.00\n"
    (row,) = rows(data)
    assert row["peak_memory_bytes"] is row["cpu_s"] is row["read_bytes"] is None
    assert any("never" in w or "not measured" in w for w in trace(data).warnings)


def test_the_clock_stands_in_for_seconds():
    data = PLAIN.split("\n")[0] + "\nNA\t1 day, 2:03:04" + "\t1" * 8 + "\n"
    assert rows(data)[0]["wall_s"] == 93784.0


def test_a_file_without_seconds_has_the_clock():
    text = "h:m:s\tmax_rss\n1 day, 1:00:00\t100.00\n0:00:05\t7.00\n"
    assert [row["wall_s"] for row in rows(text)] == [90000.0, 5.0]
    assert rows(text)[0]["peak_memory_bytes"] == 100 * MIB
    assert Importer().sniff(Head("a.tsv", text.encode())) >= 0.9
    assert rows("s\tmax_rss\n5.0000\t7.00\n")[0]["wall_s"] == 5.0
    for other in ("s\tprice\n1\t2\n", "h:m:s\n0:00:01\n", "s\tmax_rss\n1\t2\n"):
        assert Importer().sniff(Head("a.tsv", other.encode())) == 0.0


@pytest.mark.parametrize(
    ("last", "cpu_s", "said"),
    [("36.29", 36.29, None), ("36.2", 22.5, "is cut"), ("3", 22.5, "is cut"), ("NA", 22.5, None)],
)
def test_a_last_value_that_is_cut_is_unknown(last, cpu_s, said):
    line = f"45.0000\t0:00:45\t512.25\t9\t9\t9\t1.00\t2.00\t50.00\t{last}"
    made = trace(PLAIN.split("\n")[0] + "\n" + line)
    assert made.table("tasks")["cpu_s"][0].as_py() == cpu_s
    words = [word for word in made.warnings if "no end" in word]
    assert len(words) == (said is not None) and all(said in word for word in words)


def test_where_it_cannot_be_told_the_last_value_is_kept():
    header = PLAIN.split("\n")[0]
    line = "45\t0:00:45\t512\t9\t9\t9\t1\t2\t50\t{}"
    made = trace(f"{header}\n{line.format(36)}\n{line.format(4)}")
    assert made.table("tasks")["cpu_s"].to_pylist() == [36.0, 4.0]
    assert sum("may be cut" in word for word in made.warnings) == 1
    made = trace(LINES.rstrip("\n"), "a.jsonl")
    assert len(made.tasks) == 2 and not [word for word in made.warnings if "no end" in word]


def test_bad_records_are_refused_with_their_line():
    header = PLAIN.split("\n")[0]
    made = trace(
        f"{header}\nx\t0\t1\n-1{chr(9)}no{(chr(9) + '1') * 8}\n" + PLAIN.split("\n")[1] + "\n"
    )
    assert [r["line"] for r in made.table("rejects").to_pylist()] == [2, 3]
    made = trace(LINES + '{"s": \n[1]\n' + '{"s": 1e999, "h:m:s": 3}\n', "a.jsonl")
    assert [r["line"] for r in made.table("rejects").to_pylist()] == [3, 4, 5]


def test_objects_with_line_breaks_in_parameters():
    broken = WIDE.replace("<function f at 0x7f>", "   a  b\n0  1  2\n[1 rows x 2 columns]")
    (row,) = rows(broken)
    assert row["requested_memory_bytes"] == 477 * MIB


def test_no_code_of_a_file_runs(tmp_path):
    target = tmp_path / "ran"
    cell = f"{{'mem_mb': __import__('pathlib').Path('{target}').touch()}}"
    assert rows(WIDE.replace("{'f': <function f at 0x7f>}", "{}").replace("{'_cores': 2", cell))
    assert not target.exists()


def test_empty_and_header_only():
    with pytest.raises(BadInput, match="empty"):
        trace("")
    with pytest.raises(BadInput, match="not a Snakemake benchmark"):
        trace("a\tb\n")
    made = trace(PLAIN.split("\n")[0])
    assert len(made.tasks) == 0 and any("only its header" in word for word in made.warnings)


@pytest.mark.parametrize(
    ("names", "rules"),
    [
        (["align/s1.tsv", "align/s2.tsv", "sort/s1.tsv", "sort/s2.tsv"], {"align", "sort"}),
        (["bench/align.s1.tsv", "bench/align.s2.tsv", "bench/sort.s1.tsv"], {"align", "sort"}),
        (["b/s1_align.txt", "b/s2_align.txt", "b/s3_align.txt"], {"align"}),
        (["b/one.txt", "b/two.txt"], {"one", "two"}),
        (["b/align.benchmark.txt"], {"align"}),
        (["align/s1.tsv", "sort/s1.tsv"], {"align", "sort"}),
        (["align/s1.tsv", "sort/s1.tsv", "sort/s2.tsv"], {"align", "sort"}),
        (["a/one.tsv", "b/two.tsv"], {"one", "two"}),
    ],
)
def test_rules_from_names(names, rules):
    assert set(guess(names)[0].values()) == rules


def test_the_user_says_where_the_rule_is():
    files = {"x/sort.s1.tsv": PLAIN.encode(), "x/sort.s2.tsv": PLAIN.encode()}
    made = import_bytes(Importer, files, rule="last")
    assert set(made.table("tasks")["group"].to_pylist()) == {"s1", "s2"}
    with pytest.raises(UsageError, match="rule"):
        trace(PLAIN, rule="somewhere")


def test_files_of_the_same_name_are_different_jobs():
    files = {"align/s1.tsv": PLAIN.encode(), "sort/s1.tsv": PLAIN.encode()}
    ids = import_bytes(Importer, files).table("tasks")["task_id"].to_pylist()
    assert ids == ["align/s1", "align/s1 repeat 2", "sort/s1", "sort/s1 repeat 2"]


@pytest.mark.parametrize("joined", [False, True])
def test_as_many_folders_as_it_takes_tell_benchmarks_apart(tmp_path, joined):
    paths = ("A/lane1/map", "A/lane2/map", "B/lane1/map", "B/lane2/map", "B/lane2/sort")
    head, row, *_ = PLAIN.split("\n")
    for number, name in enumerate(paths):
        file = tmp_path / f"{name}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{head}\n{number + 1}{row[row.index('.') :]}\n")
    if joined:
        (tmp_path / ".snakemake").mkdir()
    made = rotameter.open(tmp_path).table("tasks").to_pylist()
    found = {row["task_id"]: int(row["wall_s"]) for row in made}
    ids = [*paths[:4], "sort"]
    assert found == {name: number + 1 for number, name in enumerate(ids)}


def test_what_no_folder_tells_apart_has_its_ending_or_a_number():
    assert distinct([("s1", "s1.tsv"), ("s1", "a/s1.tsv")]) == ["s1", "a/s1"]
    assert distinct([("s1", "a/s1.tsv"), ("s1", "a/s1.txt")]) == ["a/s1.tsv", "a/s1.txt"]
    assert distinct([("s1", "a/s1.tsv")] * 2) == ["a/s1", "a/s1 [2]"]
    assert distinct([("r[x=1]", "a/b.tsv"), ("r[x=1]", "c/b.tsv")]) == ["a/r[x=1]", "c/r[x=1]"]
    assert len(set(distinct([("x", "x.tsv"), ("x", "x.tsv"), ("x [2]", "y.tsv")]))) == 3


def test_copies_of_benchmarks_are_said(tmp_path):
    for name in ("align.tsv", "copy.tsv"):
        (tmp_path / name).write_text(PLAIN)
    made = rotameter.open(tmp_path)
    assert any("perhaps copies: 1 file" in w for w in made.warnings)
    assert len(made.tasks) == 2 * len(trace(PLAIN).tasks)


@pytest.mark.parametrize("text", ["-1", "inf", "1e30", "x"])
def test_odd_numbers_are_called_what_they_are(text):
    made = trace(PLAIN.replace(PLAIN.split("\n")[1].split("\t")[0], text, 1))
    (reason, *_) = made.table("rejects")["reason"].to_pylist()
    assert text in reason and ("not a number" in reason) == (text == "x")


# -- shared files -------------------------------------------------------------------------------


def test_all_real_benchmarks(rotameter_shared):
    folder = rotameter_shared / "data/formats/snakemake_benchmark"
    made = rotameter.open(folder)
    tasks = made.table("tasks").to_pylist()
    assert len(tasks) == 17 and not made.table("rejects").num_rows
    assert {"bench_run", "bench_shell", "bench_run_shell", "cpu", "runrule"} <= {
        t["group"] for t in tasks
    }
    shell = [t for t in tasks if t["group"] == "bench_shell" and t["requested_cores"] == 2]
    assert [t["cpu_s"] for t in shell] == [19.73, 19.65]
    asked = {t["requested_memory_bytes"] for t in tasks if t["group"] == "bench_run"}
    assert asked == {954 * MIB}
    assert sum(t["peak_memory_bytes"] is None for t in tasks) == 3


def test_case_24_na_and_dash(rotameter_shared):
    made = rotameter.open(rotameter_shared / "bugcases/24-smk-na-and-dash/tiny.tsv")
    one, two, three, four = made.table("tasks").to_pylist()
    assert one["peak_memory_bytes"] is three["peak_memory_bytes"] is two["read_bytes"] is None
    assert two["peak_memory_bytes"] == 512.25 * MIB and four["read_bytes"] == MIB
    known = [r["peak_memory_bytes"] for r in (one, two, three, four) if r["peak_memory_bytes"]]
    assert len(known) == 2


def test_case_26_seconds_as_text(rotameter_shared):
    made = rotameter.open(rotameter_shared / "bugcases/26-smk-jsonl-string-seconds/align.jsonl")
    tasks = made.table("tasks").to_pylist()
    assert sum(t["wall_s"] for t in tasks) == pytest.approx(22.5039, abs=0.001)
    assert [t["group"] for t in tasks] == ["align"] * 3
    assert [t["requested_memory_bytes"] for t in tasks] == [477 * MIB, None, None]


def test_only_benchmarks_are_taken_for_benchmarks(rotameter_shared):
    for path in sorted((rotameter_shared / "data/formats").rglob("*")):
        if not path.is_file() or path.name.startswith(("SOURCES", "ORACLE")):
            continue
        for file in open_members(path)[:2]:
            mine = Importer().sniff(Head(file.name, file.head, file.path)) >= 0.5
            assert mine == (path.parent.name == "snakemake_benchmark"), path
            assert not mine or sniff(file)[0][1] == "snakemake", path


@pytest.mark.parametrize(
    ("seconds", "clock", "agree"),
    [
        ("12.9", "0:00:12", True),
        ("12.6", "0:00:13", True),
        ("90061.2", "1 day, 1:01:01", True),
        ("NA", "0:00:12", True),
        ("12.9", "NA", True),
        ("12.9", "0:02:12", False),
        ("7200", "0:02:00", False),
    ],
)
def test_two_durations_that_differ_are_said_once(seconds: str, clock: str, agree: bool) -> None:
    data = "s\th:m:s\tmax_rss\n" + f"{seconds}\t{clock}\t1.0\n" * 2
    trace = import_bytes(Importer, {"a.tsv": data.encode()})
    said = [text for text in trace.warnings if "do not say the same" in text]
    assert (
        said == []
        if agree
        else said == ["s and h:m:s of a row do not say the same: s is taken (2 times)"]
    )
    wall = 12.0 if seconds == "NA" else float(seconds)
    assert trace.table("tasks")["wall_s"].to_pylist() == [wall, wall]


_COMMAS = "s,h:m:s,max_rss,io_in,mean_load,cpu_time,rule\n"


@pytest.mark.parametrize("index", [False, True])
def test_benchmarks_put_into_one_table_with_commas_are_read(index: bool) -> None:
    lines = [_COMMAS, "10.0,0:00:10,100,1,100,10,al\n", '90061.2,"1 day, 1:01:01",-,1,1,12,so\n']
    text = "".join(f",{line}" if at == 0 else f"{at},{line}" for at, line in enumerate(lines))
    data = (text if index else "".join(lines)).encode()
    assert 0.5 <= Importer().sniff(Head("all.csv", data, None)) < 0.95
    rows = import_bytes(Importer, {"all.csv": data}).table("tasks").to_pylist()
    assert [(r["task_id"], r["group"], r["wall_s"]) for r in rows] == [
        ("al[all]", "al", 10.0),
        ("so[all]", "so", 90061.2),
    ]
    assert rows[0]["peak_memory_bytes"] == 100 << 20 and rows[1]["peak_memory_bytes"] is None


def test_a_table_with_commas_needs_more_than_a_column_s() -> None:
    for text in ("s,max_rss\n1,2\n", "h:m:s,max_rss\n0:00:01,2\n", "id,s,h:m:s\n1,2,0:00:02\n"):
        assert Importer().sniff(Head("a.csv", text.encode(), None)) == 0.0
