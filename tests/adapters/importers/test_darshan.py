"""Darshan logs, binary and as text."""

from __future__ import annotations

import importlib.util
import json
import math

import pytest

import rotameter
from rotameter.adapters.importers import _darshan_reader
from rotameter.adapters.importers.darshan import Importer
from rotameter.errors import BadInput, MissingDependency
from rotameter.testing import check_importer, import_bytes
from rotameter.values import Head

needs_pydarshan = pytest.mark.skipif(
    importlib.util.find_spec("darshan") is None, reason="pydarshan is not installed"
)


def counters(module: str, rank: int, key: int, name: str, **values: float) -> str:
    prefix = module.replace("-", "")
    return "".join(
        f"{module}\t{rank}\t{key}\t{prefix}_{counter}\t{value}\t{name}\t/scratch\tlustre\n"
        for counter, value in values.items()
    )


HEAD = """# darshan log version: 3.41
# compression method: ZLIB
# exe: ./sim --password hunter2 in.nc
# uid: 1000
# jobid: 77
# start_time: 1677270046
# start_time_asci: Fri Feb 24 20:20:46 2023
# end_time: 1677270056
# nprocs: 4
# run time: 10.5
# metadata: lib_ver = 3.4.2

# POSIX module: 235 bytes (compressed), ver=4
# MPI-IO module: 99 bytes (compressed), ver=3
# mount entry:\t/\text4
"""
TEXT = (
    HEAD
    + "# POSIX module data\n"
    + counters("POSIX", 0, 11, "/scratch/a", OPENS=2, READS=5, WRITES=0, BYTES_READ=500,
               BYTES_WRITTEN=0, F_READ_TIME=1.5, F_WRITE_TIME=0, F_META_TIME=0.5,
               F_READ_START_TIMESTAMP=1.0, F_READ_END_TIMESTAMP=3.0)
    + counters("POSIX", -1, 12, "/scratch/b", OPENS=4, READS=0, WRITES=8, BYTES_WRITTEN=4096,
               F_WRITE_TIME=2.0, F_META_TIME=0.0)
    + counters("MPI-IO", -1, 12, "/scratch/b", COLL_OPENS=4, COLL_WRITES=3, INDEP_WRITES=1,
               BYTES_WRITTEN=4000, F_WRITE_TIME=2.5)
    + counters("STDIO", 0, 13, "/scratch/log.txt", OPENS=1, WRITES=3, BYTES_WRITTEN=70)
)  # fmt: skip
TOTALS = HEAD + (
    "total_POSIX_OPENS: 6\ntotal_POSIX_BYTES_READ: 500\ntotal_POSIX_BYTES_WRITTEN: 4096\n"
    "total_POSIX_F_READ_TIME: 1.500000\ntotal_MPIIO_BYTES_WRITTEN: 4000\n"
)
TABLE = "module,bytes_read,bytes_written,read_time_s,write_time_s\nPOSIX,10,20,0.5,0\n"


def load(text: str, name: str = "job.txt") -> rotameter.Trace:
    return import_bytes(Importer, {name: text.encode()})


def test_conformance():
    samples = {"job.txt": TEXT, "total.txt": TOTALS, "summary.csv": TABLE}
    check_importer(Importer, {n: t.encode() for n, t in samples.items()}, cuts=20)


def test_a_job_and_its_files():
    trace = load(TEXT)
    (row,) = trace.table("tasks").to_pylist()
    assert (row["task_id"], row["group"], row["user"]) == ("77", "sim", "uid 1000")
    assert row["wall_s"] == 10.5 and row["outcome"] == "unknown"
    assert (row["read_bytes"], row["write_bytes"]) == (500, 4096)  # POSIX, nothing added
    assert row["io_s"] == (1.5 + 2.0 + 0.5) / 4 and dict(row["features"]) == {"nprocs": 4.0}
    flows = {(f["object"], f["op"]): f for f in trace.table("flows").to_pylist()}
    assert set(flows) == {
        ("/scratch/a", "read"), ("/scratch/a", "open"), ("/scratch/b", "write"),
        ("/scratch/b", "open"), ("/scratch/log.txt", "write"), ("/scratch/log.txt", "open"),
    }  # fmt: skip
    read = flows["/scratch/a", "read"]
    assert (read["bytes"], read["ops"], read["busy_s"], read["tier"]) == (500, 5, 1.5, "lustre")
    assert read["worker"] == "rank 0" and read["first_ns"] == 1677270047 * 10**9
    shared = flows["/scratch/b", "write"]
    assert shared["bytes"] == 4096 and shared["worker"] is None  # all ranks; not MPI-IO's 4000
    totals = {(s["subject"], s["metric"]): s["value"] for s in trace.table("samples").to_pylist()}
    assert totals["MPI-IO", "write_bytes"] == 4000 and totals["STDIO", "write_bytes"] == 70
    assert any("STDIO moved 70 bytes in files that POSIX did not see" in w for w in trace.warnings)
    assert row["io_kind"] == "lower_bound"
    assert "hunter2" not in json.dumps([trace.meta, trace.table("tasks").to_pylist()], default=str)


def test_totals_alone():
    trace = load(TOTALS)
    (row,) = trace.table("tasks").to_pylist()
    assert (row["read_bytes"], row["write_bytes"]) == (500, 4096)
    assert not trace.table("flows").num_rows


def test_a_partial_module_is_said():
    trace = load(TEXT + "# *WARNING*: The POSIX module contains incomplete data!\n")
    assert any("POSIX ran out of memory for records (partial)" in w for w in trace.warnings)
    kinds = {s["subject"]: s["quality"] for s in trace.table("samples").to_pylist()}
    assert kinds == {"POSIX": "lower_bound", "MPI-IO": "exact", "STDIO": "exact"}


def test_nothing_recorded_is_zero_bytes_and_no_rate():
    trace = load(HEAD.partition("\n# POSIX module:")[0])
    (row,) = trace.table("tasks").to_pylist()
    assert (row["read_bytes"], row["write_bytes"]) == (0, 0)
    assert trace.meta["logs"][0]["bandwidth_bytes_per_s"] is None
    assert any("no I/O recorded" in text for text in trace.warnings)


def test_bad_lines_are_rejected():
    trace = load(TEXT + "POSIX\t0\t11\tPOSIX_READS\tx\t/a\nhello\n")
    lines = len(TEXT.splitlines())
    assert [r["line"] for r in trace.table("rejects").to_pylist()] == [lines + 1, lines + 2]
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 1, "merged": 0, "rejected": 2}


def test_totals_of_a_cut_text_are_lower_bounds():
    def kinds(text: str) -> tuple:
        (row,) = load(text).table("tasks").to_pylist()
        return row["read_bytes"], row["write_bytes"], row["io_kind"]

    posix = HEAD.replace("# MPI-IO module: 99 bytes (compressed), ver=3\n", "")
    values = {"OPENS": 1, "BYTES_READ": 500, "BYTES_WRITTEN": 7}
    whole = (
        posix + counters("POSIX", 0, 1, "/a", **values) + counters("POSIX", 0, 2, "/b", **values)
    )
    assert kinds(whole) == (1000, 14, "exact")
    lines = whole.splitlines(keepends=True)
    assert kinds("".join(lines[:-1])) == (1000, 7, "lower_bound")
    assert kinds(whole[:-40]) == (1000, 7, "lower_bound")
    assert kinds(posix) == (None, None, None)  # POSIX is announced and is not there


def test_text_of_darshan_2_is_refused():
    old = "# darshan log version: 2.06\n0\t17\tCP_POSIX_READS\t4\t...a.txt\t/\text3\n"
    with pytest.raises(BadInput, match="no counters of Darshan 3"):
        load(old)


def test_two_programs_of_one_job():
    trace = import_bytes(Importer, {"a.txt": TEXT.encode(), "b.txt": TEXT.encode()})
    assert trace.table("tasks")["task_id"].to_pylist() == ["77", "77/2"]


def binary(version: bytes = b"3.41") -> bytes:
    return version.ljust(8, b"\0") + (6567223).to_bytes(8, "little") + b"\0" * 100


def test_sniffing():
    assert Importer().sniff(Head("a.darshan", binary())) > 0.9
    swapped = b"3.00\0\0\0\0" + (6567223).to_bytes(8, "big") + b"\0" * 9
    assert Importer().sniff(Head("a.darshan", swapped)) > 0.9
    assert Importer().sniff(Head("a.csv", b"module,name,size\n")) == 0


def test_without_pydarshan(monkeypatch, tmp_path):
    monkeypatch.setattr(_darshan_reader.importlib.util, "find_spec", lambda name: None)
    (tmp_path / "a.darshan").write_bytes(binary())
    with pytest.raises(MissingDependency) as caught:
        rotameter.open(tmp_path / "a.darshan")
    assert "pip install 'rotameter[darshan]'" in caught.value.hint and caught.value.exit_code == 5


@needs_pydarshan
def test_a_damaged_log_is_refused_and_the_next_one_read(rotameter_shared):
    good = rotameter_shared / "data/formats/darshan/empty_log__empty_log.darshan"
    data = good.read_bytes()
    importer = Importer()
    for content in (binary(), data[:200], data[:50] + b"\xff" * 400 + data[450:]):
        try:
            import_bytes(lambda: importer, {"bad.darshan": content})
        except BadInput as error:
            assert error.hint and "\n" not in str(error)
    trace = import_bytes(lambda: importer, {"good.darshan": data})
    assert trace.table("tasks").num_rows == 1


# -- real files ------------------------------------------------------------------------------------


@needs_pydarshan
def test_totals_equal_those_of_pydarshan(rotameter_shared):
    folder = rotameter_shared / "data/formats/darshan"
    oracle = json.loads((folder / "ORACLE_pydarshan_3.5.0.json").read_text())
    for name, expected in oracle.items():
        trace = rotameter.open(folder / name)
        (facts,) = trace.meta["logs"]
        assert facts["nprocs"] == expected["nprocs"] and facts["log_version"] == expected["log_ver"]
        assert facts["run_time_s"] == expected["run_time"]
        (row,) = trace.table("tasks").to_pylist()
        assert row["started_ns"] // 10**9 == expected["start"]
        assert row["ended_ns"] // 10**9 == expected["end"]
        assert set(facts["modules"]) == set(expected["modules"])
        for module, totals in expected["modules"].items():
            for key, value in totals.items():
                assert math.isclose(facts["modules"][module][key], value, abs_tol=1e-6), (name, key)
        base = facts["layer"]
        if base is not None:
            assert row["read_bytes"] == expected["modules"][base]["bytes_read"]
            assert row["write_bytes"] == expected["modules"][base]["bytes_written"]


@needs_pydarshan
def test_an_empty_log(rotameter_shared):
    trace = rotameter.open(rotameter_shared / "data/formats/darshan/empty_log__empty_log.darshan")
    (facts,) = trace.meta["logs"]
    assert (facts["nprocs"], round(facts["run_time_s"], 3), facts["files"]) == (4, 0.038, 0)
    assert facts["bandwidth_bytes_per_s"] is None
    assert trace.table("tasks")["read_bytes"].to_pylist() == [0]
    assert any("no I/O recorded" in text for text in trace.warnings)


def test_a_table_of_zeros(rotameter_shared):
    trace = rotameter.open(rotameter_shared / "bugcases/51-darshan-no-io/summary.csv")
    (facts,) = trace.meta["logs"]
    assert facts["bandwidth_bytes_per_s"] is None and facts["files"] == 0
    assert facts["modules"]["POSIX"]["read_bytes_per_busy_s"] is None
    assert any("no I/O recorded" in text for text in trace.warnings)
