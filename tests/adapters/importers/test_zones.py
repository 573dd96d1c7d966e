"""Times with a zone and times without one in one import: the user's zone is that of the latter."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import rotameter

T0 = 1735689600 * 10**9
SACCT = "JobID|State|Start|End|ElapsedRaw\n{}|COMPLETED|{}|{}|60\n"
TRACE = "task_id\thash\tname\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\n"


def started(path: Path, zone: str | None = "+01:00") -> list[int]:
    trace = rotameter.open(path, utc_offset=zone)
    if zone:
        assert trace.meta["time_base"] == "epoch_ns"
        assert not [word for word in trace.warnings if "zone" in word or "compared" in word]
    return sorted(trace.table("tasks")["started_ns"].to_pylist())


def test_slurm(tmp_path):
    zoned = "2025-01-01T00:00:00+0000", "2025-01-01T00:01:00+0000"
    (tmp_path / "a.txt").write_text(SACCT.format(1, *zoned))
    (tmp_path / "b.txt").write_text(SACCT.format(2, "2025-01-01T01:00:00", "2025-01-01T01:01:00"))
    assert started(tmp_path) == [T0, T0]
    assert started(tmp_path / "a.txt") == started(tmp_path / "b.txt") == [T0]
    assert any("hours apart" in word for word in rotameter.open(tmp_path).warnings)


def test_tables_of_one_kind_each_and_of_both(tmp_path):
    zoned, bare = "2025-01-01T00:00:00Z", "2025-01-01 01:00:00"
    head = "task_id,start,end,state\n"
    (tmp_path / "a.csv").write_text(f"{head}1,{zoned},2025-01-01T00:01:00Z,ok\n")
    (tmp_path / "b.csv").write_text(f"{head}2,{bare},2025-01-01 01:01:00,ok\n")
    (tmp_path / "c.csv").write_text(f"{head}3,{bare},2025-01-01T00:01:00Z,ok\n")
    (tmp_path / "d.csv").write_text(
        f"{head}4,{zoned},2025-01-01T00:01:00Z,ok\n5,{bare},2025-01-01 01:01:00,ok\n"
    )
    assert started(tmp_path) == [T0] * 5
    tasks = rotameter.open(tmp_path, utc_offset="+01:00").table("tasks")
    assert set(tasks["wall_s"].to_pylist()) == {60.0}


def test_nextflow(tmp_path):
    raw = "\t".join(str(T0 // 10**6 + ms) for ms in (0, 0, 60_000))
    text = "\t".join(f"2025-01-01 01:0{minute}:00.000" for minute in (0, 0, 1))
    for name, times, length in (("a", raw, "60000"), ("b", text, "1m")):
        row = f"1\taa/00000{name}\t{name}\tCOMPLETED\t0\t{times}\t{length}\t{length}\n"
        (tmp_path / f"{name}.txt").write_text(TRACE + row)
    assert started(tmp_path) == [T0, T0]


def test_parsl(tmp_path):
    for name, epoch in (("a", True), ("b", False)):
        base = sqlite3.connect(tmp_path / f"{name}.db")
        kind = "REAL" if epoch else "TEXT"
        base.execute(f"CREATE TABLE workflow (run_id TEXT, workflow_name TEXT, time_began {kind})")
        base.execute(
            f"CREATE TABLE task (task_id INTEGER, run_id TEXT, task_func_name TEXT,"
            f" task_time_invoked {kind})"
        )
        base.execute("CREATE TABLE status (task_id INTEGER, task_status_name TEXT,"
                     f" timestamp {kind}, run_id TEXT, try_id INTEGER)")  # fmt: skip

        def at(second: int, epoch: bool = epoch) -> object:
            return T0 / 1e9 + second if epoch else f"2025-01-01 01:00:{second:02d}.000000"

        base.execute("INSERT INTO workflow VALUES (?, 'w.py', ?)", (name, at(0)))
        base.execute("INSERT INTO task VALUES (0, ?, 'f', ?)", (name, at(1)))
        for state, second in (("launched", 2), ("running", 3), ("exec_done", 9)):
            base.execute("INSERT INTO status VALUES (0, ?, ?, ?, 0)", (state, at(second), name))
        base.commit()
        base.close()
    assert started(tmp_path) == [T0 + 3 * 10**9] * 2
