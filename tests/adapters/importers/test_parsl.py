"""Parsl's monitoring.db, three generations."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers.parsl import Importer
from rotameter.errors import BadInput, UsageError
from rotameter.testing import check_importer, import_bytes

WORKFLOW = (
    "run_id TEXT, workflow_name TEXT, workflow_version TEXT, time_began DATETIME, "
    "time_completed DATETIME, host TEXT, user TEXT, rundir TEXT, tasks_failed_count INTEGER, "
    "tasks_completed_count INTEGER"
)
TASK = (
    "task_id INTEGER, run_id TEXT, task_depends TEXT, task_func_name TEXT, task_memoize TEXT, "
    "task_time_invoked DATETIME, task_time_returned DATETIME, task_fail_count INTEGER"
)
TRY = (
    "try_id INTEGER, task_id INTEGER, run_id TEXT, block_id TEXT, hostname TEXT, "
    "task_executor TEXT, task_try_time_launched DATETIME, task_try_time_running DATETIME, "
    "task_try_time_returned DATETIME, task_fail_history TEXT"
)
STATUS = "task_id INTEGER, task_status_name TEXT, timestamp DATETIME, run_id TEXT, try_id INTEGER"
RESOURCE = (
    "try_id INTEGER, task_id INTEGER, run_id TEXT, timestamp DATETIME, "
    "psutil_process_time_user FLOAT, psutil_process_time_system FLOAT, "
    "psutil_process_memory_resident FLOAT, psutil_process_disk_read FLOAT"
)
BLOCK = "run_id TEXT, executor_label TEXT, block_id TEXT, job_id TEXT, timestamp TEXT, status TEXT"
NODE = (
    "run_id TEXT, hostname TEXT, uid TEXT, block_id TEXT, cpu_count INTEGER, total_memory BIGINT, "
    "active BOOLEAN, worker_count INTEGER, timestamp DATETIME, last_heartbeat DATETIME"
)
COLUMNS = {"workflow": WORKFLOW, "task": TASK, "try": TRY, "status": STATUS}
COLUMNS |= {"resource": RESOURCE, "block": BLOCK, "node": NODE}


def at(seconds: float) -> str:
    whole, part = divmod(round(seconds * 1e6), 10**6)
    return f"2025-03-11 16:{20 + whole // 60:02d}:{whole % 60:02d}.{part:06d}"


def run(name: str = "run-1", ended: float | None = 59.0) -> tuple:
    end = None if ended is None else at(ended)
    return (name, "wf.py", "1", at(0), end, "login", "u1", "/w", 0, 1)


def make(path: Path, **tables: list[tuple]) -> Path:
    connection = sqlite3.connect(path)
    for name, rows in tables.items():
        connection.execute(f"CREATE TABLE {name} ({COLUMNS[name]})")
        marks = ", ".join("?" * len(COLUMNS[name].split(",")))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path


def sample(path: Path) -> Path:
    """Make a run: task 0 fails once and is tried again; task 1 waits for it."""
    return make(
        path,
        workflow=[run()],
        task=[
            (0, "run-1", "", "prep", "0", at(1), at(9), 1),
            (1, "run-1", "0", "join", "0", at(1), at(12), 0),
        ],
        **{
            "try": [
                (0, 0, "run-1", "0", "n1", "htex", at(2), at(3), at(5), "ManagerLost: n1 is gone"),
                (1, 0, "run-1", "1", "n2", "htex", at(5), at(6), at(9), ""),
                (0, 1, "run-1", "1", "n2", "htex", at(9), at(10), at(12), ""),
            ]
        },
        status=[
            (0, "running", at(3), "run-1", 0), (0, "fail_retryable", at(5), "run-1", 0),
            (0, "running", at(6), "run-1", 1), (0, "running_ended", at(8.5), "run-1", 1),
            (0, "exec_done", at(9), "run-1", 1), (1, "exec_done", at(12), "run-1", 0),
        ],
        resource=[
            (1, 0, "run-1", at(6.5), 100.0, 10.0, 5e8, 1000.0),
            (1, 0, "run-1", at(7.5), 101.5, 10.5, 4e8, 3000.0),
            (0, 1, "run-1", at(11), 200.0, 10.0, 3e8, 9000.0),
        ],
        node=[
            ("run-1", "n2", "uid-1", "1", 8, 32 * 10**9, 1, 4, at(4), at(4)),
            ("run-1", "n2", "uid-1", "1", 8, 32 * 10**9, 0, 4, at(15), at(14)),
        ],
        block=[
            ("run-1", "htex", "1", "77", at(1), "PENDING"),
            ("run-1", "htex", "1", "77", at(3), "RUNNING"),
            ("run-1", "htex", "1", "77", at(16), "CANCELLED"),
        ],
    )  # fmt: skip


def rows(trace) -> list[dict]:
    return trace.table("tasks").to_pylist()


def state(path: Path) -> tuple:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return digest, path.stat().st_mtime_ns, sorted(p.name for p in path.parent.iterdir())


def test_conformance(tmp_path):
    data = sample(tmp_path / "a.db").read_bytes()
    bare = make(tmp_path / "b.db", workflow=[run()], task=[]).read_bytes()
    check_importer(Importer, {"monitoring.db": data, "b/monitoring.db": bare}, text=False, cuts=20)


def test_tries_are_attempts(tmp_path):
    path = sample(tmp_path / "monitoring.db")
    before = state(path)
    trace = rotameter.open(path)
    assert state(path) == before
    first, second, third = rows(trace)
    assert (first["task_id"], first["attempt"], first["outcome"]) == ("0", 1, "worker_lost")
    assert first["outcome_kind"] == "inferred" and "ManagerLost" in first["error"]
    assert (second["attempt"], second["outcome"], second["outcome_kind"]) == (2, "ok", "reported")
    assert second["wall_s"] == 2.5  # up to running_ended, the worker's word
    assert second["host"] == "n2" and second["worker"] == "n2/block 1" and second["user"] == "u1"
    assert (second["submitted_ns"], second["ready_ns"]) == (0, 4 * 10**9)
    assert third["group"] == "join" and third["wall_s"] == 2.0
    assert trace.table("deps").to_pylist() == [{"task_id": "1", "depends_on": "0"}]
    assert trace.meta["time_base"] == "relative_ns"
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 3, "merged": 0, "rejected": 0}


def test_readings_are_peaks_and_growth(tmp_path):
    trace = rotameter.open(sample(tmp_path / "monitoring.db"))
    _, second, third = rows(trace)
    assert (second["peak_memory_bytes"], second["peak_memory_kind"]) == (5 * 10**8, "sampled")
    assert second["cpu_s"] == 2.0 and second["read_bytes"] == 2000  # not the 110 s before it
    assert second["io_kind"] == "lower_bound"
    assert third["cpu_s"] is None and third["peak_memory_bytes"] == 3 * 10**8  # one reading
    samples = trace.table("samples").to_pylist()
    assert [s["value"] for s in samples if s["metric"] == "memory_bytes"] == [5e8, 4e8, 3e8]


def test_nodes_and_blocks(tmp_path):
    trace = rotameter.open(sample(tmp_path / "monitoring.db"))
    (worker,) = trace.table("workers").to_pylist()
    assert worker["worker"] == "n2/block 1" and worker["cores"] == 8
    assert worker["ended_ns"] - worker["started_ns"] == 10 * 10**9
    blocks = [(e["reason"], e["text"]) for e in trace.table("events").to_pylist()]
    assert blocks == [("PENDING", "job 77"), ("RUNNING", "job 77"), ("CANCELLED", "job 77")]


def test_several_runs_and_choosing_one(tmp_path):
    task = [(0, name, "", "f", "0", at(1), at(2), 0) for name in ("aaaa-1", "bbbb-2")]
    path = make(tmp_path / "m.db", workflow=[run("aaaa-1"), run("bbbb-2")], task=task)
    assert [r["task_id"] for r in rows(rotameter.open(path))] == ["aaaa-1/0", "bbbb-2/0"]
    data = {"monitoring.db": path.read_bytes()}
    (one,) = rows(import_bytes(Importer, data, run="bbbb"))
    assert (one["task_id"], one["run_id"]) == ("0", "bbbb-2")
    with pytest.raises(UsageError, match="no run"):
        import_bytes(Importer, data, run="cccc")


def test_epoch_text_and_local_text_in_one_file(tmp_path):
    path = tmp_path / "monitoring.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE workflow (run_id TEXT, workflow_name TEXT, workflow_version TEXT,
            time_began TEXT, time_completed TEXT);
        CREATE TABLE task (task_id TEXT, run_id TEXT, task_executor TEXT, task_func_name TEXT,
            task_time_submitted TEXT, task_time_returned TEXT);
        CREATE TABLE status (task_id TEXT, task_status_name TEXT, timestamp TEXT, run_id TEXT);
        CREATE TABLE resource (task_id TEXT, timestamp TEXT, run_id TEXT,
            psutil_process_memory_resident TEXT, psutil_process_time_user TEXT);
        INSERT INTO workflow VALUES ('r', 'w', '2019-02-18 10:28:47', '1550507327.5', 'None');
        INSERT INTO task VALUES ('0', 'r', 'htex', 'f', '1550507327.8', '1550507352.8');
        INSERT INTO task VALUES ('1', 'r', 'htex', 'f', '1550507327.8', 'None');
        INSERT INTO status VALUES ('0', 'running', '2019-02-18 10:28:47', 'r');
        INSERT INTO status VALUES ('0', 'done', '2019-02-18 10:28:47', 'r');
        INSERT INTO status VALUES ('1', 'running', '2019-02-18 10:28:47', 'r');
        INSERT INTO resource VALUES ('0', '2019-02-18 10:28:50', 'r', '522158080', '1.9');
        """
    )
    connection.close()
    trace = rotameter.open(path)
    done, running = rows(trace)
    assert trace.meta["time_base"] == "epoch_ns"
    assert done["ended_ns"] == 1550507352_800000000 and done["outcome"] == "ok"
    assert running["outcome"] == "running" and running["ended_ns"] is None
    assert done["wall_s"] is None  # "running" meant: handed over
    samples = {s["metric"]: s for s in trace.table("samples").to_pylist()}
    assert samples["wall_s"]["value"] == 25.0 and samples["wall_s"]["quality"] == "upper_bound"
    assert samples["memory_bytes"]["at_ns"] == 1550507330 * 10**9  # six hours west, found out
    assert done["peak_memory_bytes"] == 522158080


def test_states_without_tries(tmp_path):
    names = ("exec_done", "failed", "dep_fail", "memo_done", "odd_state", "pending")
    path = make(
        tmp_path / "m.db",
        workflow=[run()],
        task=[(n, "run-1", "", "f", "0", at(1), None, 0) for n in range(len(names))],
        status=[(n, name, at(2), "run-1", 0) for n, name in enumerate(names)],
    )
    made = [(r["outcome"], r["error"]) for r in rows(rotameter.open(path))]
    assert made == [
        ("ok", None), ("failed", "failed"), ("cancelled", "dep_fail"), ("cached", None),
        ("unknown", "odd_state"), ("unknown", "pending"),
    ]  # fmt: skip


def test_threads_share_a_process(tmp_path):
    path = make(
        tmp_path / "m.db",
        workflow=[run()],
        task=[(0, "run-1", "", "f", "0", at(1), at(5), 0)],
        **{"try": [(0, 0, "run-1", "None", "n", "threads", at(1), at(2), at(5), "")]},
        resource=[(0, 0, "run-1", at(t), t, 0.0, 5e8, 0.0) for t in (2, 4)],
    )
    trace = rotameter.open(path)
    (row,) = rows(trace)
    assert row["cpu_s"] is None and row["peak_memory_kind"] == "upper_bound"
    assert any("threads of one process" in text for text in trace.warnings)


def test_bad_rows_are_rejected(tmp_path):
    path = make(
        tmp_path / "m.db",
        workflow=[run()],
        task=[(0, "run-1", "", "f", "0", "soon", at(2), 0), (None, "run-1", "", "f", "0", 1, 1, 0)],
        **{"try": [(None, 0, "run-1", "0", "n", "htex", at(1), at(1), at(2), "")]},
    )
    trace = rotameter.open(path)
    assert [r["line"] for r in trace.table("rejects").to_pylist()] == [2, 1]
    assert trace.meta["importer"]["records"] == {"in": 3, "out": 1, "merged": 0, "rejected": 2}
    assert any("1 time that cannot be read" in text for text in trace.warnings)


def test_a_write_ahead_log_is_read_and_left_alone(tmp_path):
    path = sample(tmp_path / "monitoring.db")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO task VALUES (7, 'run-1', '', 'late', '0', ?, NULL, 0)", [at(20)])
    before = state(path)
    assert "late" in {row["group"] for row in rows(rotameter.open(path))}
    assert state(path) == before
    writer.close()  # folds the log into the file, which stays in that mode
    before = state(path)
    assert len(before[2]) == 1
    assert "late" in {row["group"] for row in rows(rotameter.open(path))}
    assert state(path) == before


def test_a_write_that_was_interrupted_is_undone_in_a_copy(tmp_path):
    path = sample(tmp_path / "live.db")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN")
    for number in range(9, 300):  # more than the cache: half of it is in the file already
        writer.execute(
            "INSERT INTO task VALUES (?, 'run-1', '', ?, '0', NULL, NULL, 0)", [number, "x" * 900]
        )
    writer.execute("DELETE FROM status")
    killed = tmp_path / "killed"
    killed.mkdir()
    for suffix in ("", "-journal"):  # what a killed process leaves
        (killed / f"m.db{suffix}").write_bytes((tmp_path / f"live.db{suffix}").read_bytes())
    writer.close()
    before = state(killed / "m.db")
    trace = rotameter.open(killed / "m.db")
    assert len(rows(trace)) == 3 and trace.meta["states"]["exec_done"] == 2
    assert state(killed / "m.db") == before


def test_a_read_only_folder_is_no_hindrance(tmp_path):
    path = sample(tmp_path / "monitoring.db")
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert len(rows(rotameter.open(path))) == 3
    finally:
        tmp_path.chmod(0o755)


def test_a_locked_database_is_said_within_ten_seconds(tmp_path):
    path = sample(tmp_path / "monitoring.db")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    try:
        with pytest.raises(BadInput, match="locked by another program"):
            rotameter.open(path)
    finally:
        writer.close()
    assert time.monotonic() - began < 10


def test_damaged_cut_and_foreign_databases(tmp_path):
    data = sample(tmp_path / "monitoring.db").read_bytes()
    for content in (data[:100], data[:5000], data[:4096] + b"\xff" * 4096, b"SQLite format 3\x00"):
        with pytest.raises(BadInput) as caught:
            import_bytes(Importer, {"monitoring.db": content})
        assert "\n" not in str(caught.value) and caught.value.hint
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE VIEW task AS SELECT 1 AS task_id")
    other.commit()
    other.close()
    with pytest.raises(BadInput, match="none of Parsl's tables"):
        import_bytes(Importer, {"m.db": (tmp_path / "other.db").read_bytes()})


# -- real files ----------------------------------------------------------------------------------


def test_the_counts_of_the_oracle(rotameter_shared):
    folder = rotameter_shared / "data/formats/parsl_monitoring"
    for name, expected in json.loads((folder / "ORACLE.json").read_text()).items():
        before = state(folder / name)
        trace = rotameter.open(folder / name)
        assert state(folder / name) == before
        (facts,) = trace.meta["databases"]
        counts = {k: v for k, v in expected.items() if k in facts["rows"]}
        assert counts == {k: facts["rows"][k] for k in counts} and "workflow" in counts
        tasks = rows(trace)
        assert len({row["task_id"] for row in tasks}) == expected["task"]
        assert trace.meta.get("states", {}) == expected.get("states", {})
        peaks = [row["peak_memory_bytes"] for row in tasks if row["peak_memory_bytes"]]
        assert max(peaks, default=None) == expected.get("max_rss")
        open_ = sum(row["ended_ns"] is None for row in tasks)
        assert open_ == expected.get("tasks_not_returned", 0)


def test_a_task_too_short_for_a_message(rotameter_shared):
    path = rotameter_shared / "bugcases/33-parsl-short-task-no-running/monitoring.db"
    trace = rotameter.open(path)
    short, long = rows(trace)
    assert short["wall_s"] is None and short["host"] is None and short["worker"] is None
    assert short["peak_memory_bytes"] is None
    bound = [s for s in trace.table("samples").to_pylist() if s["metric"] == "wall_s"]
    assert [(b["subject"], b["value"], b["quality"]) for b in bound] == [
        ("0", 0.0795, "upper_bound")
    ]
    assert long["wall_s"] == 4.5 and long["host"] == "node-a1"
    assert long["peak_memory_bytes"] == 120_000_000


def test_runs_without_tasks(rotameter_shared):
    path = rotameter_shared / "bugcases/36-parsl-empty-or-partial-db/monitoring.db"
    before = state(path)
    trace = rotameter.open(path)
    assert state(path) == before
    assert len(trace.meta["databases"][0]["workflows"]) == 1 and not rows(trace)
    assert "no task rows: monitoring was not reached or the run ended early" in trace.warnings
    assert any("1 block was still pending: job 555" in text for text in trace.warnings)


def test_a_run_in_two_databases_is_read_once(tmp_path):
    sample(tmp_path / "one.db")
    once = rotameter.open(tmp_path / "one.db").table("tasks")
    sample(tmp_path / "two.db")
    connection = sqlite3.connect(tmp_path / "two.db")
    connection.execute("CREATE TABLE more (x TEXT)")
    connection.commit()
    connection.close()
    both = rotameter.open([tmp_path / "one.db", tmp_path / "two.db"])
    assert both.table("tasks").equals(once)
    assert any("read once" in w for w in both.warnings)


def early(path):
    """Make a copy of the sample as it was when its first task had failed once."""
    return make(
        path,
        workflow=[run(ended=None)],
        task=[
            (0, "run-1", "", "prep", "0", at(1), None, 1),
            (1, "run-1", "0", "join", "0", at(1), None, 0),
        ],
        **{"try": [(0, 0, "run-1", "0", "n1", "htex", at(2), at(3), at(5), "ManagerLost: n1")]},
        status=[(0, "running", at(3), "run-1", 0), (0, "fail_retryable", at(5), "run-1", 0)],
        resource=[],
    )


def test_of_a_run_and_an_early_copy_the_later_one_is_read(tmp_path):
    alone = rotameter.open(sample(tmp_path / "m.db"))
    early(tmp_path / "copy.db")
    for order in (("copy.db", "m.db"), ("m.db", "copy.db")):
        trace = rotameter.open([tmp_path / name for name in order])
        for table in ("tasks", "deps", "samples", "workers", "events"):
            assert trace.table(table).equals(alone.table(table))
        assert trace.meta["importer"]["records"] == alone.meta["importer"]["records"]
        assert trace.meta["states"] == alone.meta["states"]
        assert [w for w in trace.warnings if "read once, where most" in w and "1 run" in w]
    # One that is not completed but knows more is later than one that knows less.
    first, second = early(tmp_path / "a.db"), early(tmp_path / "b.db")
    connection = sqlite3.connect(second)
    connection.execute("UPDATE task SET task_time_returned = ? WHERE task_id = 0", [at(9)])
    connection.commit()
    connection.close()
    for order in ((first, second), (second, first)):
        made = [row for row in rows(rotameter.open(order)) if row["task_id"] == "0"]
        assert [row["outcome"] for row in made] == [r["outcome"] for r in rows(
            rotameter.open(second)) if r["task_id"] == "0"]  # fmt: skip


def test_an_early_copy_of_a_database_with_more_runs_than_it_has(tmp_path):
    first = [(0, "aaaa-1", "", "f", "0", at(1), at(2), 0)]
    both = [*first, (0, "bbbb-2", "", "f", "0", at(5), at(6), 0)]
    make(tmp_path / "a.db", workflow=[run("aaaa-1")], task=first)
    make(tmp_path / "b.db", workflow=[run("aaaa-1"), run("bbbb-2")], task=both)
    for order in (("a.db", "b.db"), ("b.db", "a.db")):
        trace = rotameter.open([tmp_path / name for name in order])
        assert sorted(r["task_id"] for r in rows(trace)) == ["aaaa-1/0", "bbbb-2/0"]


def test_tasks_of_runs_in_different_databases_have_names_of_their_own(tmp_path):
    for name in ("aaaa-1", "bbbb-2"):
        task = [(n, name, "" if n == 0 else "0", "f", "0", at(1), at(2), 0) for n in (0, 1)]
        make(tmp_path / f"{name}.db", workflow=[run(name)], task=task)
    trace = rotameter.open(tmp_path)
    assert sorted(r["task_id"] for r in rows(trace)) == [
        "aaaa-1/0", "aaaa-1/1", "bbbb-2/0", "bbbb-2/1"]  # fmt: skip
    edges = {(d["task_id"], d["depends_on"]) for d in trace.table("deps").to_pylist()}
    assert edges == {("aaaa-1/1", "aaaa-1/0"), ("bbbb-2/1", "bbbb-2/0")}
