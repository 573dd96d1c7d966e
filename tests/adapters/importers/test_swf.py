"""Standard Workload Format."""

from __future__ import annotations

import json

import pytest

import rotameter
from rotameter.adapters.importers.swf import Importer
from rotameter.errors import BadInput
from rotameter.profiler.stats import stats
from rotameter.testing import check_importer, import_bytes

LOG = b"""; Version: 2.2
; UnixStartTime: 1000000000

1 0 10 0 4 -1 -1 4 3600 -1 1 3 1 -1 1 -1 -1 -1
  2 20.5 -1 30.5 2 -1 -1 2 -1 -1 0 4 1 -1 -1 2 -1 -1
3 50 30 100 8 95.5 204800 8 7200 1024 5 3 1 7 1 -1 -1 -1
"""


def rows(data: bytes) -> list[dict]:
    return import_bytes(Importer, {"log.swf": data}).table("tasks").to_pylist()


def test_conformance():
    check_importer(Importer, {"log.swf": LOG, "bare.swf": LOG[LOG.index(b"1 0") :]})


def test_fields_and_units():
    first, second, third = rows(LOG)
    assert first["submitted_ns"] == 1_000_000_000 * 10**9
    assert first["started_ns"] == first["ended_ns"] == first["submitted_ns"] + 10 * 10**9
    assert first["wall_s"] == 0.0 and first["outcome"] == "ok" and first["cpu_s"] is None
    assert (first["granted_cores"], first["requested_wall_s"]) == (4, 3600)
    assert second["started_ns"] is None and second["wall_s"] == 30.5
    assert second["outcome"] == "failed" and second["queue"] == "queue 2"
    assert third["cpu_s"] == 95.5 * 8 and third["peak_memory_bytes"] == 204800 * 1024 * 8
    assert third["requested_memory_bytes"] == 1024 * 1024 * 8
    assert third["peak_memory_kind"] == "estimate" and third["group"] == "program 7"
    assert third["outcome"] == "cancelled" and third["user"] == "user 3"


def test_without_a_start_time_times_are_relative():
    trace = import_bytes(Importer, {"log.swf": LOG[LOG.index(b"1 0") :]})
    assert trace.meta["time_base"] == "relative_ns"
    assert min(trace.table("tasks")["submitted_ns"].to_pylist()) == 0


def test_the_header_names_the_machine_and_the_moment_from_which_seconds_count():
    trace = import_bytes(Importer, {"log.swf": b"; MaxProcs: 128 (nodes)\n" + LOG})
    assert trace.meta["machine_cores"] == 128
    assert trace.meta["log_start_ns"] == 1_000_000_000 * 10**9
    for odd in (b"; MaxProcs: many\n", b"; MaxProcs: -1\n", b"; MaxProcs:\n", b""):
        trace = import_bytes(Importer, {"log.swf": odd + LOG[LOG.index(b"1 0") :]})
        assert "machine_cores" not in trace.meta and trace.meta["log_start_ns"] == 0


def test_a_broken_line_is_refused_with_its_number():
    trace = import_bytes(Importer, {"log.swf": LOG + b"4 0 1 x\n"})
    (refused,) = trace.table("rejects").to_pylist()
    assert refused["line"] == 7 and len(trace.tasks) == 3
    assert any("1 of 4 records were refused" in word for word in trace.warnings)


def test_a_log_is_known_by_its_header_where_its_few_jobs_are_cut(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"; Version: 2.2\n1 0 10 0 4 -1 -1 4 3600 -1 1 3 1 -1 1 -1 -1 -1\n2 5 1\n")
    trace = rotameter.open(path)
    assert trace.meta["engine"] == "swf" and len(trace.tasks) == 1
    path.write_bytes(b"; Version: 2.2\n1 0 10 0 4\n2 5 10 0 4\n")
    with pytest.raises(BadInput, match="not 18 numbers"):
        rotameter.open(path)


def test_suspended_jobs_have_no_outcome():
    (row,) = rows(b"1 0 10 5 4 -1 -1 4 3600 -1 2 3 1 -1 1 -1 -1 -1\n")
    assert row["outcome"] == "unknown"


def test_parts_of_a_suspended_job_are_in_the_line_of_the_whole():
    whole = b"9 0 10 150 4 90 -1 4 400 -1 1 1 1 1 1 1 -1 -1\n"
    parts = (
        b"9 0 10 100 4 60 -1 4 400 -1 2 1 1 1 1 1 -1 -1\n"
        b"9 -1 20 50 4 30 -1 4 400 -1 3 1 1 1 1 1 -1 -1\n"
    )
    other = b"10 5 5 7 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n"
    trace = import_bytes(Importer, {"log.swf": whole + parts + other})
    found = trace.table("tasks").to_pylist()
    assert [(row["task_id"], row["wall_s"]) for row in found] == [("9", 150), ("10", 7)]
    assert any("parts of suspended jobs" in word for word in trace.warnings)
    assert trace.meta["importer"]["records"]["merged"] == 2
    alone = import_bytes(Importer, {"log.swf": parts})
    assert [row["outcome"] for row in alone.table("tasks").to_pylist()] == ["unknown"] * 2


def test_nothing_in_it():
    with pytest.raises(BadInput, match="no jobs"):
        rows(b"\n\n")


def test_unknown_is_no_number(rotameter_shared):  # bugcase 53
    trace = rotameter.open(rotameter_shared / "bugcases/53-swf-minus-one-and-header/log.swf")
    found = trace.table("tasks").to_pylist()
    waits = [
        (r["started_ns"] - r["submitted_ns"]) / 1e9 for r in found if r["started_ns"] is not None
    ]
    assert len(found) == 5 and sum(waits) / len(waits) == 20 and len(waits) == 2
    known = [r for r in found if r["wall_s"] is not None]
    assert len(known) == 4
    assert sum(r["wall_s"] * r["granted_cores"] for r in known) == 8061
    counts = stats(trace)["outcomes"]
    assert counts == {"ok": 2, "failed": 1, "cancelled": 1, "unknown": 1}
    assert trace.meta["header"]["MaxJobs"] == "9"


@pytest.mark.parametrize(
    "name", ["LCG.swf.gz", "NASA-iPSC-1993-3.1-cln.swf.gz", "lublin-aaroh.swf"]
)
def test_real_logs_equal_the_oracle(rotameter_shared, name):
    folder = rotameter_shared / "data/formats/swf"
    want = json.loads((folder / "ORACLE.json").read_text())[name]
    tasks = rotameter.open(folder / name).table("tasks").to_pandas()
    assert len(tasks) == want["jobs"]
    assert (tasks["wall_s"] * tasks["granted_cores"]).sum() == want["cpu_seconds"]
    assert tasks["started_ns"].isna().sum() == want["wait_unknown"]
    assert tasks["requested_wall_s"].isna().sum() == want["req_time_unknown"]
    assert (tasks["wall_s"] <= 0).sum() == want["runtime_le0"]


def test_long_logs_are_read_part_by_part(monkeypatch):
    from rotameter.adapters.importers import swf

    lines = [f"{n if n % 3 else -1} {n} 5 {n + 1} 4 -1 -1 4 3600 -1 {n % 4} 3 1 -1 1 -1 -1 -1"
             for n in range(1, 20)]  # fmt: skip
    lines[7] = "not a job"
    data = ("; UnixStartTime: 1000000000\n" + "\n".join(lines) + "\n").encode()
    whole = import_bytes(Importer, {"log.swf": data})
    monkeypatch.setattr(swf, "_BATCH", 4)
    parts = import_bytes(Importer, {"log.swf": data})
    assert parts.table("tasks").equals(whole.table("tasks")) and parts.warnings == whole.warnings
    assert parts.table("rejects")["line"].to_pylist() == [9]


def test_a_job_whose_wait_is_unknown_bounds_the_makespan_by_its_submission() -> None:
    rest = "-1 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1"
    rows = [f"1 10 5 20 {rest}", f"2 30 -1 500 {rest}", f"3 900 -1 -1 {rest}"]
    made = stats(import_bytes(Importer, {"log.swf": "\n".join([*rows, ""]).encode()}))
    assert (made["makespan_s"], made["makespan_at_least"]) == (30 + 500 - 10, True)
    made = stats(import_bytes(Importer, {"log.swf": f"{rows[0]}\n".encode()}))
    assert (made["makespan_s"], made["makespan_at_least"]) == (25, False)


JOB = b"%d %d 10 100 2 90 1000 2 200 2000 1 1 1 1 1 1 -1 -1\n"
START = b"; UnixStartTime: %d\n"


def _of(*logs: bytes):
    trace = import_bytes(Importer, {f"{'abc'[i]}.swf": log for i, log in enumerate(logs)})
    records = trace.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    return trace, trace.table("tasks")["task_id"].to_pylist()


def test_jobs_of_two_logs_with_one_number_are_two_tasks():
    logs = (START % 10**9 + JOB % (1, 0), START % (2 * 10**9) + JOB % (1, 0) + JOB % (2, 5))
    trace, ids = _of(*logs)
    assert ids == ["a/1", "b/1", "b/2"] and any("named by its log" in w for w in trace.warnings)
    # Without a date the same second is no sign: the lines differ.
    other = (JOB % (1, 0)).replace(b" 90 ", b" 91 ")
    assert _of(JOB % (1, 0), other)[1] == ["a/1", "b/1"]
    assert _of(JOB % (1, 0), JOB % (2, 0))[1] == ["1", "2"]


@pytest.mark.parametrize("start", [START % 10**9, b""])
def test_cuts_of_one_log_that_overlap_count_a_job_once(start: bytes):
    first, second, third = JOB % (1, 0), JOB % (2, 5), JOB % (3, 10)
    trace, ids = _of(start + first + second, start + second + third)
    assert ids == ["1", "2", "3"] and trace.meta["importer"]["records"]["merged"] == 1
    assert any("counted once" in w for w in trace.warnings)
    trace, ids = _of(start + first + second, start + second + third, START % 5 + JOB % (1, 7))
    assert ids == ["a/1", "a/2", "b/3", "c/1"]


def test_jobs_of_several_logs_without_a_run_time_are_several():
    one = START % 10**9 + (JOB % (1, 0)).replace(b" 100 ", b" -1 ", 1)
    assert _of(one, one)[1] == ["a/1", "b/1"]


def _names(trace) -> list[tuple]:
    rows = trace.table("tasks").to_pylist()
    return [tuple(row[c] for c in ("group", "user", "account", "queue")) for row in rows]


def _one(label: str) -> tuple[str, ...]:
    prefix = f"{label}/" if label else ""
    return tuple(f"{prefix}{word} 1" for word in ("program", "user", "group", "queue"))


HEADS = {
    "names": (b"; Computer: x\n; Installation: p\n", b"; Computer: x\n; Installation: q\n"),
    "sizes": (b"; MaxProcs: 128\n", b"; MaxProcs: 64\n"),
}


@pytest.mark.parametrize("heads", HEADS.values(), ids=list(HEADS))
def test_programs_and_users_of_two_machines_are_not_the_same_ones(heads):
    trace, ids = _of(*(head + START % 10**9 + JOB % (n, n) for n, head in enumerate(heads)))
    assert ids == ["0", "1"] and _names(trace) == [_one("a"), _one("b")]
    assert any("several machines" in text for text in trace.warnings)
    # Two cuts of the one, one of the other.
    logs = [head + START % 10**9 + JOB % (1, n) for n, head in enumerate((*heads, heads[0]))]
    if b"Computer" in heads[0]:
        assert _names(_of(*logs)[0]) == [_one("a"), _one("b"), _one("a")]


def test_logs_with_other_jobs_of_the_same_numbers_are_of_several_machines():
    trace, _ = _of(*(START % at + JOB % (1, 0) for at in (10**9, 2 * 10**9)))
    assert _names(trace) == [_one("a"), _one("b")]
    first, second, third = JOB % (1, 0), JOB % (2, 5), JOB % (3, 10)
    start = START % 10**9
    trace, _ = _of(start + first + second, start + second + third, START % 5 + JOB % (1, 7))
    assert _names(trace) == [_one("a"), _one("a"), _one("a"), _one("c")]


def test_names_stay_where_nothing_tells_that_machines_differ():
    start = START % 10**9
    assert _names(_of(start + JOB % (1, 0), start + JOB % (2, 0))[0]) == [_one(""), _one("")]
    same = b"; Computer: x\n; Installation: p\n"
    trace, ids = _of(*(same + START % at + JOB % (1, 0) for at in (10**9, 2 * 10**9)))
    assert ids == ["a/1", "b/1"] and _names(trace) == [_one(""), _one("")]
    nobody = start + b"1 0 10 100 2 90 1000 2 200 2000 1 -1 -1 -1 -1 -1 -1 -1\n"
    made = _names(_of(nobody, START % 5 + JOB % (1, 0))[0])
    assert made == [(None, None, None, None), _one("b")]
