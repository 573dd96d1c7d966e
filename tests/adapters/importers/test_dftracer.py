"""DFTracer files: calls added up per process, file and kind; spans; all forms of the format."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import rotameter as rm
from rotameter.adapters.importers.dftracer import Importer
from rotameter.adapters.importers.inputs import open_members
from rotameter.adapters.importers.reading import sniff
from rotameter.errors import BadInput
from rotameter.profiler.trace import Trace
from rotameter.testing import check_importer, import_bytes

T0 = 1_727_387_307_000_000
HOST = {"hhash": 5692, "p_idx": -1, "level": 1}


def meta(kind: str, name: str, value: Any, pid: int = 7) -> dict[str, Any]:
    args = {"name": name, "value": value}
    return {"name": kind, "cat": "dftracer", "pid": pid, "tid": pid, "ph": "M", "args": args}


def call(
    name: str, at: int, lasted: int, cat: str = "POSIX", pid: int = 7, **args: Any
) -> dict[str, Any]:
    event = {"name": name, "cat": cat, "pid": pid, "tid": pid, "ts": T0 + at, "dur": lasted}
    return {**event, "ph": "X", "args": {**HOST, **args}}


def written(events: list[dict[str, Any]], *, brackets: bool = True) -> bytes:
    lines = [json.dumps({"id": i, **e}, separators=(",", ":")) for i, e in enumerate(events)]
    return "\n".join(["[", *lines, "]"] if brackets else lines).encode() + b"\n"


EVENTS = [
    meta("HH", "node1", 5692),
    meta("SH", "python train.py --token=abc", 1),
    meta("SH", "DEFAULT", 2),
    call("start", 0, 0, cat="dftracer", cmd_hash=1, exec_hash=2, ppid=3),
    meta("PR", "rank", "3"),
    meta("FH", "/data/in.h5", 11),
    call("open64", 100, 10, fhash=11, ret=5, flags=0),
    call("read", 120, 30, fhash=11, fd=5, count=4096, ret=4096),
    call("pread", 140, 30, fhash=11, fd=5, count=4096, ret=100, offset=8),
    call("read", 180, 5, fhash=11, fd=5, count=4096, ret=-1),
    meta("FH", "out.bin", 12),
    call("fopen64", 200, 7, cat="STDIO", fhash=12, mode="w"),
    call("fwrite", 210, 20, cat="STDIO", fhash=12, ret=3, size=8, count=3),
    call("fclose", 231, 2, cat="STDIO", fhash=12),
    call("train.step", 50, 400, cat="compute", epoch=1),
    call("MPI_Allreduce", 300, 40, cat="MPI"),
    call("unlink", 500, 3, fhash=12),
    call("end", 900, 0, cat="dftracer", num_events=12),
]
OLD = (
    b'[\n {"id":"0","name":"open","cat":"POSIX","pid":"12","tid":"24","ts":"1698080323775554",'
    b'"dur":"14","ph":"X","args":{"hostname":"n7","ret":18,"fname":"/a/b","flags":66}}\n'
    b'{"id":"1","name":"write","cat":"POSIX","pid":"12","tid":"24","ts":"1698080323775600",'
    b'"dur":"100","ph":"X","args":{"hostname":"n7","ret":"3276800","count":"3276800",'
    b'"fname":"/a/b","fd":18}}\n'
)
NEW = (
    b'{"name":"FH","cat":"dftracer","type":1,"pid":9,"tid":9,"ph":4,'
    b'"args":{"name":"/x/y","value":"00ffee"}}\n'
    b'{"name":"read","cat":"POSIX","type":3,"ts":1785087679000000,"ph":3,"pid":9,"tid":9,'
    b'"args":{"hhash":"8e0c","fhash":"00ffee","dft_cnt":4,"dur_min":1,"dur_max":9,"dur_sum":20,'
    b'"ret_min":1,"ret_max":50,"ret_sum":90}}\n'
    b'{"name":"write","cat":"POSIX","type":3,"ts":1785087680000000,"ph":3,"pid":9,"tid":9,'
    b'"args":{"hhash":"8e0c","fhash":"00ffee","dft_cnt":3,"dur":2,"ret":10}}\n'
    b'{"name":"cpu","cat":"sys","type":7,"ts":1785087680500000,"ph":2,"pid":8,"tid":0,'
    b'"args":{"hhash":"8e0c","user_pct":12.5,"idle_pct":80}}\n'
)


def flows(trace: Trace) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = trace.table("flows").to_pylist()
    return {(r["task_id"], r["object"], r["op"]): r for r in rows}


def test_conformance() -> None:
    samples = {
        "a-7.pfw": written(EVENTS),
        "b.pfw": written(EVENTS, brackets=False),
        "old.pfw": OLD,
        "new.pfw": NEW,
    }
    check_importer(Importer, samples, cuts=20)


def test_calls_are_added_up() -> None:
    trace = import_bytes(Importer, {"a-7.pfw": written(EVENTS)})
    (task,) = trace.table("tasks").to_pylist()
    assert task["task_id"] == "node1:7" and task["host"] == "node1" and task["run_id"] == "7"
    assert task["group"] == "train.py" and dict(task["features"]) == {"rank": 3.0}
    assert (task["read_bytes"], task["write_bytes"], task["io_kind"]) == (4196, 24, "exact")
    assert task["started_ns"] == T0 * 1000 and task["ended_ns"] == (T0 + 900) * 1000
    assert task["wall_s"] == pytest.approx(900e-6) and task["outcome"] == "unknown"
    # Reads from 120 to 170 overlap: time passes once.
    assert task["io_s"] == pytest.approx((10 + 50 + 5 + 7 + 20 + 2 + 3) * 1e-6)
    read = flows(trace)["node1:7", "/data/in.h5", "read"]
    assert (read["bytes"], read["ops"], read["busy_s"]) == (4196, 3, pytest.approx(65e-6))
    assert read["first_ns"] == (T0 + 120) * 1000 and read["last_ns"] == (T0 + 185) * 1000
    wrote = flows(trace)["node1:7", "out.bin", "write"]
    assert (wrote["bytes"], wrote["ops"]) == (24, 1)
    opened = flows(trace)["node1:7", "out.bin", "open"]
    assert (opened["bytes"], opened["ops"]) == (None, 1)
    objects = {r["object"]: r for r in trace.table("objects").to_pylist()}
    assert objects["out.bin"]["deleted_ns"] == (T0 + 503) * 1000
    assert objects["/data/in.h5"]["deleted_ns"] is None
    spans = trace.table("intervals").to_pylist()
    assert [(s["name"], s["kind"], s["task_id"], s["lane"]) for s in spans] == [
        ("train.step", "compute", "node1:7", "thread 7"),
        ("MPI_Allreduce", "communication", "node1:7", "thread 7"),
    ]
    assert spans[0]["end_ns"] - spans[0]["start_ns"] == 400_000
    assert "abc" not in str(trace.table("tasks").to_pylist())


def test_old_form() -> None:
    trace = import_bytes(Importer, {"old.pfw": OLD})
    assert flows(trace)["n7:12", "/a/b", "write"]["bytes"] == 3_276_800
    assert trace.meta["importer"]["records"]["rejected"] == 0


def test_new_form_with_calls_added_up() -> None:
    trace = import_bytes(Importer, {"new.pfw": NEW})
    found = flows(trace)
    read, wrote = found["9", "/x/y", "read"], found["9", "/x/y", "write"]
    assert (read["ops"], read["bytes"], read["busy_s"]) == (4, 90, pytest.approx(20e-6))
    assert (wrote["ops"], wrote["bytes"], wrote["busy_s"]) == (3, 30, pytest.approx(6e-6))
    values = {r["metric"]: r["value"] for r in trace.table("samples").to_pylist()}
    assert values == {"cpu.user_pct": 12.5, "cpu.idle_pct": 80.0}
    assert trace.table("tasks")["task_id"].to_pylist() == ["9"]


def test_a_name_may_come_after_its_use_and_from_another_file() -> None:
    events = [call("read", 0, 5, fhash=77, ret=9), call("read", 9, 5, fhash=88, ret=1)]
    trace = import_bytes(
        Importer,
        {"a.pfw": written(events), "b.pfw": written([meta("FH", "/late", 77), call("stat", 1, 1)])},
    )
    assert {name for _, name, _ in flows(trace)} == {"/late", "file 88", "unnamed files of 7"}
    assert any("names of 1 file are not" in w for w in trace.warnings)


def test_hashes_shared_by_files() -> None:
    events = [
        meta("FH", "/first", 5),
        call("open", 0, 1, fhash=5, ret=3),
        meta("FH", "/second", 5),
        call("open", 2, 1, fhash=5, ret=4),
        call("read", 4, 1, fhash=5, fd=3, ret=10),
        call("read", 6, 1, fhash=5, fd=4, ret=200),
        call("stat", 8, 1, fhash=5),
    ]
    trace = import_bytes(Importer, {"a.pfw": written(events)})
    found = flows(trace)
    assert found["7", "/first", "read"]["bytes"] == 10
    assert found["7", "/second", "read"]["bytes"] == 200
    assert any("several files: 1; 1 call may" in w for w in trace.warnings)


def test_what_is_not_said_is_null() -> None:
    events = [
        call("read", 0, 1, fname="/a"),
        call("read", 1, 1, fname="/a"),
        call("write", 2, 1, fname="/a", ret=5),
        call("write", 3, 1, fname="/a"),
        call("fread", 4, 1, cat="STDIO", fname="/b", ret=5),
        call("fgets", 5, 1, cat="STDIO", fname="/c", ret=140_000_000_000),
    ]
    trace = import_bytes(Importer, {"a.pfw": written(events)})
    found = {key[1:]: row["bytes"] for key, row in flows(trace).items()}
    assert found["/a", "read"] is None and found["/b", "read"] is None
    assert found["/c", "read"] is None and found["/a", "write"] == 5
    assert trace.table("tasks")["io_kind"].to_pylist() == ["lower_bound"]


def test_cut_and_joined_files() -> None:
    one = written(EVENTS)
    packed = gzip.compress(one)
    whole = import_bytes(Importer, {"a.pfw": one})
    twice = import_bytes(Importer, {"a.pfw.gz": packed + packed})
    assert twice.table("tasks")["read_bytes"].to_pylist() == [2 * 4196]
    # Random bytes do not pack, so that what is before the cut can be read.
    many = [call("read", i, 1, fname=f"/f{i * 7919 % 10007}", ret=i) for i in range(3000)]
    data = gzip.compress(written(many))
    part = import_bytes(Importer, {"a.pfw.gz": data[: len(data) // 2]})
    assert 100 < part.table("flows").num_rows < 3000
    assert any("damaged" in w for w in part.warnings)
    cut = import_bytes(Importer, {"a.pfw": one[: one.index(b'"end"')]})
    assert cut.meta["importer"]["records"]["rejected"] == 1
    assert any("without an end" in w for w in cut.warnings)
    assert not whole.warnings


def test_a_list_in_one_line_or_in_an_object() -> None:
    events = [json.loads(line) for line in written(EVENTS, brackets=False).splitlines()]
    whole = import_bytes(Importer, {"a.pfw": written(EVENTS)})
    for text in (
        json.dumps(events),
        json.dumps({"traceEvents": events}),
        json.dumps(events, indent=1),
    ):
        again = import_bytes(Importer, {"a.pfw": text.encode()})
        assert again.table("flows").equals(whole.table("flows"))


@pytest.mark.parametrize("data", [b"", b"[", b"[\n]\n", b"hello\n", b"null\n", b"{}\n", b"[1,2]\n"])
def test_nothing_usable(data: bytes) -> None:
    with pytest.raises(BadInput):
        import_bytes(Importer, {"a.pfw": data})


def test_odd_values_are_refused() -> None:
    bad = [
        {**call("read", 0, 1, fname="/a", ret=1), "ts": "nan"},
        {**call("read", 0, 1, fname="/a", ret=1), "ts": -5},
        {**call("read", 0, 1, fname="/a", ret=1), "ts": 10**400},
        {**call("read", 0, 1, fname="/a", ret=1), "pid": None},
        {**call("read", 0, 1, fname="/a", ret=1), "name": 3},
        {**call("read", 0, 1, fname="/a", ret=1), "ph": "B"},
    ]
    good = call("read", 0, 1, fname="/a\x00\ud800", ret=10**30)
    trace = import_bytes(Importer, {"a.pfw": written([*bad, good])})
    assert trace.table("rejects").num_rows == len(bad)
    assert trace.table("flows").num_rows == 1
    assert trace.table("flows")["bytes"].to_pylist() == [None]


def test_nanoseconds_and_relative_times() -> None:
    event = {**call("read", 0, 1, fname="/a", ret=1), "ts": T0 * 1000, "dur": 1500}
    (row,) = import_bytes(Importer, {"a.pfw": written([event])}).table("flows").to_pylist()
    assert row["first_ns"] == T0 * 1000 and row["busy_s"] == pytest.approx(1.5e-6)
    relative = import_bytes(Importer, {"a.pfw": written([{**event, "ts": 50, "dur": 1}])})
    assert relative.meta["time_base"] == "relative_ns"


def test_two_hosts_with_one_pid() -> None:
    here = written([meta("HH", "n1", 1), call("read", 0, 1, fname="/a", ret=1, hhash=1)])
    there = written([meta("HH", "n2", 2), call("read", 0, 1, fname="/a", ret=2, hhash=2)])
    trace = import_bytes(Importer, {"a.pfw": here, "b.pfw": there})
    assert trace.table("tasks")["task_id"].to_pylist() == ["n1:7", "n2:7"]
    assert trace.table("tasks")["read_bytes"].to_pylist() == [1, 2]


def test_sums_of_processes_that_lost_events_are_lower_bounds() -> None:
    def tasks(data: bytes) -> dict[str, tuple[Any, Any, Any]]:
        rows = import_bytes(Importer, {"a.pfw": data}).table("tasks").to_pylist()
        return {r["run_id"]: (r["read_bytes"], r["write_bytes"], r["io_kind"]) for r in rows}

    events = [
        call("read", 0, 1, fname="/a", ret=10),
        call("read", 5, 1, pid=8, fname="/a", ret=20),
        call("write", 9, 1, pid=8, fname="/b", ret=30),
    ]
    whole = written(events)
    assert tasks(whole) == {"7": (10, 0, "exact"), "8": (20, 30, "exact")}
    # The broken line still says whose it is; a line that does not may be anyone's.
    damaged = whole.replace(b'"name":"write"', b'"name":"wri')
    assert tasks(damaged) == {"7": (10, 0, "exact"), "8": (20, None, "lower_bound")}
    cut = whole[: whole.index(b'"write"')]
    assert tasks(cut) == {"7": (10, None, "lower_bound"), "8": (20, None, "lower_bound")}
    refused = [*events, {**call("write", 10, 1, pid=8, ret=5), "ts": "x"}]
    assert tasks(written(refused))["8"] == (20, 30, "lower_bound")
    start = [call("start", 0, 0, cat="dftracer"), *events]
    assert tasks(written(start))["7"] == (10, None, "lower_bound")  # no end: killed, or cut
    trace = import_bytes(Importer, {"a.pfw": cut})
    assert any("could not all be read" in w for w in trace.warnings)


def test_calls_without_a_result_give_no_bytes() -> None:
    trace = import_bytes(Importer, {"a.pfw": written([call("read", 0, 1, fname="/a")])})
    (row,) = trace.table("tasks").to_pylist()
    assert (row["read_bytes"], row["write_bytes"], row["io_kind"]) == (None, 0, "lower_bound")


# -- shared files -----------------------------------------------------------------------------


def recount(path: Path) -> dict[tuple[str, str], list[int]]:
    """Add up by hand: (op, kind of sum) per call name."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if not line.strip().startswith("{"):
                continue
            event = json.loads(line)
            if event["cat"] not in ("POSIX", "STDIO"):
                continue
            name, args = event["name"], event["args"]
            op = {"read": "read", "fread": "read", "write": "write"}.get(name, "other")
            found = sums[str(event["pid"]), op]
            found[0] += 1
            found[1] += int(event["dur"])
            if op != "other":
                found[2] += max(int(args["ret"]), 0) * int(args.get("size", 1))
    return sums


def test_shared_files(rotameter_shared: Path) -> None:
    folder = rotameter_shared / "data" / "dataflow" / "dftracer"
    expected: dict[tuple[str, str], list[int]] = {}
    for path in sorted(folder.glob("*.pfw.gz")):
        expected |= recount(path)
    trace = rm.open(folder)
    got: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0])
    for row in trace.table("flows").to_pylist():
        op = row["op"] if row["op"] in ("read", "write") else "other"
        found = got[row["task_id"].rpartition(":")[2], op]
        found[0] += row["ops"]
        found[1] += row["busy_s"] * 1e6
        found[2] += row["bytes"] or 0
    assert {k: [v[0], round(v[1]), v[2]] for k, v in got.items()} == expected
    assert sum(v[2] for (_, op), v in expected.items() if op == "read") > 131_000_000


def test_shared_files_of_others(rotameter_shared: Path) -> None:
    """No file of another format is taken, and no file of ours by another."""
    mine = 0
    for path in sorted((rotameter_shared / "data").glob("*/**/*")):
        if not path.is_file() or path.stat().st_size > 64 << 20:
            continue
        for file in open_members(path)[:3]:
            guesses = [g for g in sniff(file) if g[1] in ("dftracer", "chrome_trace", "kineto")]
            if ".pfw" in path.name:
                mine += 1
                assert guesses[0][1] == "dftracer", path
            else:
                assert not any(name == "dftracer" for _, name in guesses), path
    assert mine >= 4
