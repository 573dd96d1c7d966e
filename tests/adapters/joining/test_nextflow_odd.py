"""Nextflow's runs with odd logs, odd paths and many traces."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import rotameter
from rotameter.adapters.importers._nextflow_rows import echoes
from rotameter.adapters.importers.walking import Unread
from rotameter.adapters.joining import _nextflow_log
from rotameter.adapters.joining._nextflow_exits import places
from rotameter.adapters.joining._nextflow_times import at_ns
from rotameter.adapters.joining.nextflow_run import find

SENT = "{at} [Task submitter] INFO  x - [aa/{key:06}] Submitted process > A ({key})\n"
DONE = (
    "{at} [Task monitor] DEBUG x - Task completed > TaskHandler[jobId: 7; id: 1; name: A ({key}); "
    "status: COMPLETED; exit: 0; error: -; workDir: {place}/aa/{key:06}0000 "
    "started: {started}; exited: {exited}; ]\n"
)


def log(
    started: str = "1767607205000", exited: str = "2026-01-05T10:01:00Z", place: str = "/w"
) -> str:
    end = DONE.format(at="Jan-05 10:01:00.000", key=1, place=place, started=started, exited=exited)
    return SENT.format(at="Jan-05 10:00:00.000", key=1) + end


@pytest.mark.parametrize(
    "odd",
    [{"started": "99999999999999"}, {"exited": "9998-01-05T10:01:00Z"},
     {"exited": "9999-12-31T10:01:00Z"}, {"exited": "1960-01-01T10:01:00Z"}],
)  # fmt: skip
def test_times_that_cannot_be_are_unknown(tmp_path: Path, odd: dict[str, str]) -> None:
    (tmp_path / ".nextflow.log").write_text(log(**odd))
    (task,) = rotameter.open(tmp_path).table("tasks").to_pylist()
    times = [task[f"{name}_ns"] for name in ("submitted", "started", "ended")]
    assert task["outcome"] == "ok" and None in times
    assert all(at is None or at < 4 * 10**18 for at in times)


def test_a_log_of_thousands_of_years_is_no_trouble(tmp_path: Path) -> None:
    months = ("Jan", "May", "Sep", "Dec")
    lines = (SENT.format(at=f"{months[i % 4]}-05 10:00:00.000", key=i + 1) for i in range(36_000))
    (tmp_path / ".nextflow.log").write_text("".join(lines) + log())
    assert rotameter.open(tmp_path).table("tasks").num_rows == 36_000
    assert at_ns((10**6, 1, 1, 0), 2026) > 0


def test_lines_out_of_order_at_new_year_turn_it_once() -> None:
    stamps = ("Dec-31 23:59:59.000", "Jan-01 00:00:00.001", "Dec-31 23:59:59.999",
              "Jan-01 00:00:00.002")  # fmt: skip
    read = _nextflow_log.read(SENT.format(at=at, key=i) for i, at in enumerate(stamps))
    assert [task.submitted[0] for task in read.tasks.values() if task.submitted] == [0, 1, 0, 1]


def test_a_work_folder_whose_name_is_too_long_is_said(tmp_path: Path) -> None:
    place = "/" + "n" * 300
    (tmp_path / ".nextflow.log").write_text(log(place=place))
    trace = rotameter.open(tmp_path)
    assert trace.table("tasks").num_rows == 1
    assert any(f"left out: {place}" in word for word in trace.warnings)


def test_a_work_folder_that_may_not_be_looked_at_is_noted(tmp_path: Path, monkeypatch) -> None:
    def denied(path: Path, **_: object) -> None:
        raise PermissionError(13, os.strerror(13), str(path))

    unread = Unread()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", denied)
        assert places(None, [f"{tmp_path}/w/aa/1", f"{tmp_path}/w/ab/1"], unread) == []
    assert unread.words() == [
        f"1 folder or file cannot be read and is left out: {tmp_path}/w (Permission denied)"
    ]


def test_logs_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [".nextflow.log", *(f".nextflow.log.{i}" for i in range(1, 12))]
    for name in names:
        (tmp_path / name).write_text(log())
    found = find(tmp_path)
    assert found is not None and [path.name for path in found.logs] == names


def test_cached_rows_of_many_traces_take_time_in_proportion() -> None:
    def took(traces: int) -> float:
        runs = [(set[str](), {f"{at}/{i}" for i in range(200)}) for at in range(traces)]
        before = time.process_time()
        assert not any(echoes(runs))
        return time.process_time() - before

    assert took(800) < 30 * max(took(100), 0.01)
