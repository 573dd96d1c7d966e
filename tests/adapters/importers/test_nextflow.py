"""Nextflow's trace."""

from __future__ import annotations

import random

import pytest

from rotameter.adapters.importers._nextflow_values import FIELDS
from rotameter.adapters.importers.nextflow import Importer
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.testing import check_importer, import_bytes

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


def test_several_runs_in_one_input_are_said_for_the_makespan_spans_them():
    first = DEFAULT + "1\taa/000001\t10\tA (1)\tCOMPLETED\t0\t2024-03-01 10:00:00.000\t9s\t8s\t-\t"
    first += "-\t-\t-\t-\n"
    later = first.replace("aa/000001", "bb/000002").replace("03-01", "03-02")
    said = "2 runs (traces) lie in this input: all are joined, and the makespan spans all of them"
    apart = import_bytes(Importer, {"trace.txt": first.encode(), "trace.txt.1": later.encode()})
    for made in (apart, trace(first + later)):
        assert said in made.warnings
        assert stats(made)["makespan_s"] == 86400 + 9
    again = import_bytes(Importer, {"a.txt": first.encode(), "b.txt": first.encode()})
    for made in (trace(first), again):
        assert not any("runs (traces)" in text for text in made.warnings)
