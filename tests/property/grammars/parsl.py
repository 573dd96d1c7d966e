"""Parsl databases: three generations, any table or column missing, odd values in any cell."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from hypothesis import strategies as st

IMPORTER = "parsl"

_ID = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1", "None", None, -1, "x", 2.5]))
_RUN = st.sampled_from(["run-1", "run-1", "run-2", None, ""])
_TIME = st.one_of(
    st.integers(0, 59).map(lambda s: f"2025-03-11 16:20:{s:02d}.100000"),
    st.sampled_from([None, "None", "1550507327.54", "soon", 1550507327.5, "2025-13-41 99:99:99"]),
)
_NUMBER = st.one_of(
    st.floats(0, 1e9),
    st.sampled_from([None, "None", -1, 2**62, 1e308, "12.5", b"\xff\x00", "x"]),
)
_TEXT = st.one_of(
    st.sampled_from([None, "None", "step", "0, 1", "node-a1", ""]), st.text(max_size=8)
)
_STATE = st.sampled_from(
    ["pending", "launched", "running", "running_ended", "exec_done", "done", "failed", "new",
     "fail_retryable", "dep_fail", "memo_done", "States.running", None]
)  # fmt: skip
_TABLES = {
    "workflow": {
        "run_id": _RUN, "workflow_name": _TEXT, "workflow_version": _TIME, "time_began": _TIME,
        "time_completed": _TIME, "user": _TEXT, "tasks_failed_count": _NUMBER,
    },
    "task": {
        "task_id": _ID, "run_id": _RUN, "task_func_name": _TEXT, "task_time_invoked": _TIME,
        "task_time_submitted": _TIME, "task_time_returned": _TIME, "task_memoize": _TEXT,
        "task_depends": _TEXT, "task_fail_count": _NUMBER, "task_executor": _TEXT,
    },
    "try": {
        "try_id": _ID, "task_id": _ID, "run_id": _RUN, "block_id": _TEXT, "hostname": _TEXT,
        "task_executor": st.sampled_from(["htex", "threads", None]),
        "task_try_time_launched": _TIME, "task_try_time_running": _TIME,
        "task_try_time_returned": _TIME,
        "task_fail_history": st.sampled_from([None, "", "ManagerLost", "exit code 137", "x" * 99]),
    },
    "status": {
        "task_id": _ID, "task_status_name": _STATE, "timestamp": _TIME, "run_id": _RUN,
        "try_id": _ID,
    },
    "resource": {
        "try_id": _ID, "task_id": _ID, "run_id": _RUN, "timestamp": _TIME,
        "psutil_process_time_user": _NUMBER, "psutil_process_time_system": _NUMBER,
        "psutil_process_memory_resident": _NUMBER, "psutil_process_disk_read": _NUMBER,
    },
    "node": {
        "run_id": _RUN, "hostname": _TEXT, "uid": _TEXT, "block_id": _TEXT, "cpu_count": _NUMBER,
        "total_memory": _NUMBER, "active": _NUMBER, "timestamp": _TIME, "last_heartbeat": _TIME,
    },
    "block": {
        "run_id": _RUN, "executor_label": _TEXT, "block_id": _TEXT, "job_id": _TEXT,
        "timestamp": _TIME, "status": st.sampled_from(["PENDING", "RUNNING", "COMPLETED", None]),
    },
}  # fmt: skip


@st.composite
def _database(draw: st.DrawFn) -> bytes:
    made = []
    for table, columns in _TABLES.items():
        if draw(st.integers(0, 9)) == 0:
            continue
        kept = [name for name in columns if name.endswith("_id") or draw(st.integers(0, 9)) > 0]
        kept = draw(st.permutations(kept))
        rows = draw(st.lists(st.tuples(*(columns[name] for name in kept)), max_size=5))
        made.append((table, kept, rows))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "m.db"
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA page_size = 512")
        for table, kept, rows in made:
            connection.execute(f'CREATE TABLE "{table}" ({", ".join(kept)})'.replace('"', ""))
            marks = ", ".join("?" * len(kept))
            clean = [[_plain(value) for value in row] for row in rows]
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", clean)
        connection.commit()
        connection.close()
        return path.read_bytes()


def _plain(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def files() -> st.SearchStrategy[tuple[str, bytes]]:
    """Give (name, content)."""
    return _database().map(lambda data: ("monitoring.db", data))
