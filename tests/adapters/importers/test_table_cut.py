"""Logs of batch systems that were cut inside their last record, and such as merely lack an end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.importers.test_table import CONDOR, LSF, PBS, QACCT, SGE

from rotameter.adapters.importers import reading
from rotameter.adapters.importers._table_ends import OPEN_END
from rotameter.adapters.importers.table import Importer
from rotameter.errors import BadInput
from rotameter.profiler.trace import Trace
from rotameter.testing.importers import import_bytes

LOGS = {"pbs": PBS, "lsf": LSF, "qacct": QACCT, "sge": SGE, "condor": CONDOR}
ENDED = b"01/02/2024 10:07:00;E;11.srv;user=bob ctime=1704189600 start=1704189700 end=1704189800 "
VALUES = ("started_ns", "ended_ns", "wall_s", "cpu_s", "peak_memory_bytes", "requested_wall_s",
          "requested_memory_bytes", "requested_cores", "exit_code", "outcome")  # fmt: skip


def said(trace: Trace) -> bool:
    return any("copy" in text for text in trace.warnings) or bool(len(trace.table("rejects")))


@pytest.mark.parametrize("kind", sorted(LOGS))
def test_nothing_that_is_cut_is_read_without_a_word(kind: str) -> None:
    whole = LOGS[kind].rstrip(b"\n")
    rows = {
        r["task_id"]: r
        for r in import_bytes(Importer, {"a": whole + b"\n"}).table("tasks").to_pylist()
    }
    begins = whole.rstrip().rfind(b"\n") if kind not in ("qacct", "condor") else len(whole) // 2
    for at in range(begins + 1, len(whole), 5):
        try:
            trace = import_bytes(Importer, {"a": whole[:at]})
        except BadInput:
            continue
        for row in trace.table("tasks").to_pylist():
            if said(trace) and row["task_id"] not in rows:
                continue
            other = rows[row["task_id"]]
            for name in VALUES:
                known = row[name] not in (None, "unknown")
                assert not known or row[name] == other[name] or said(trace), (at, name, row[name])


@pytest.mark.parametrize(
    ("kind", "last", "name"),
    [
        ("pbs", b"Exit_status=27", "exit_code"),
        ("pbs", b"resources_used.cput=03", "cpu_s"),
        ("pbs", b"resources_used.mem=1048576k", "peak_memory_bytes"),
        ("qacct", b"exit_status  13", "exit_code"),
        ("qacct", b"cpu          2", "cpu_s"),
        ("condor", b"RequestMemory = 10", "requested_memory_bytes"),
    ],
)
def test_a_value_that_is_cut_is_unknown(kind: str, last: bytes, name: str) -> None:
    first = {"pbs": ENDED, "qacct": b"=" * 62 + b"\njobnumber 1\ntaskid 2\nru_wallclock 5s\n",
             "condor": b"ClusterId = 1\nProcId = 0\nRemoteWallClockTime = 5\n"}[kind]  # fmt: skip
    before = LOGS[kind] if kind != "qacct" else QACCT[: QACCT.index(b"\n====") + 1]
    trace = import_bytes(Importer, {"a": before + first + last})
    made = trace.table("tasks").to_pylist()[-1 if kind != "pbs" else -2]
    assert made["wall_s"] is not None and made[name] is None
    key = last.replace(b"=", b" ").split()[0].decode()
    (word,) = [text for text in trace.warnings if "its last value is cut" in text]
    assert f"cut: {key} of job " in word and word.endswith("left unknown; copy the file again")
    ended = import_bytes(Importer, {"a": before + first + last + b"\n"})
    assert ended.table("tasks").to_pylist()[-1 if kind != "pbs" else -2][name] is not None


def test_the_peak_of_lsf_is_unknown_where_it_is_cut() -> None:
    begins, end = LSF.rsplit(b" 204800 ", 1)
    trace = import_bytes(Importer, {"a": begins + b" 2048"})
    assert trace.table("tasks")["peak_memory_bytes"].to_pylist() == [200 << 20, None]
    assert any("maxRMem of job 387" in text for text in trace.warnings)
    assert not said(import_bytes(Importer, {"a": begins + b" 204800 " + end.rstrip(b"\n")}))


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("qacct", b"=" * 62 + b"\nqname all.q\njobnumber    10"),
        ("qacct", b"=" * 62 + b"\nqname all.q\njobnumber    1002\n"),
        ("condor", b"ClusterId = 9"),
        ("condor", b"ClusterId = 9\n"),
        ("condor", b"ClusterId = 9\nProcId = 1"),
        ("lsf", LSF.splitlines()[1].rpartition(b" 4 204800")[0]),
        ("pbs", b"01/02/2024 10:07:00;E;1"),
        ("pbs", b"01/02/2024 10:07:00;E;11.srv;user"),
    ],
)
def test_a_record_is_refused_whose_id_is_cut(kind: str, record: bytes) -> None:
    log = LSF.splitlines()[0] + b"\n" if kind == "lsf" else LOGS[kind]
    before = import_bytes(Importer, {"a": log})
    trace = import_bytes(Importer, {"a": log + record})
    assert (
        trace.table("tasks")["task_id"].to_pylist() == before.table("tasks")["task_id"].to_pylist()
    )
    (reject,) = trace.table("rejects").to_pylist()
    assert "before its id is whole" in reject["reason"]


@pytest.mark.parametrize("kind", ["lsf", "sge", "pbs", "qacct"])
def test_a_whole_last_line_needs_no_end(kind: str) -> None:
    log = {**LOGS, "pbs": ENDED + b"Exit_status=271 resources_used.walltime=00:01:40 run_count=1",
           "qacct": QACCT.replace(b"cpu ", b"maxvmem 5\ncpu ") + b"cpu          5.5s"}  # fmt: skip
    data = log[kind].rstrip(b"\n")
    one, other = (import_bytes(Importer, {"a": data + end}) for end in (b"", b"\n"))
    assert one.table("tasks").equals(other.table("tasks")) and one.warnings == other.warnings
    assert OPEN_END not in one.warnings and not len(one.table("rejects"))


def test_a_block_of_qacct_that_ends_before_others_is_said() -> None:
    block = QACCT[: QACCT.index(b"\n====") + 1]
    assert not said(import_bytes(Importer, {"a": block + block.replace(b" 12\n", b" 14\n")}))
    short = block.replace(b" 12\n", b" 14\n")[: block.index(b"ru_maxrss")]
    assert said(import_bytes(Importer, {"a": block + short}))


def test_a_cut_parquet_file_is_refused_in_its_own_words(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    path.write_bytes(b"PAR1" + b"\x15\x04" * 40)
    with pytest.raises(BadInput, match="is cut off: 84 bytes") as caught:
        reading.read([path])
    assert "copy it again" in str(caught.value.hint)
