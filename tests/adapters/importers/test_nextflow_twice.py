"""Several Nextflow traces that tell of one run, with other columns: each execution counts once."""

from __future__ import annotations

import itertools
import time

import pytest

import rotameter
from rotameter.adapters.importers.nextflow import Importer
from rotameter.testing import import_bytes

RUN = [
    {"task_id": "1", "hash": "aa/000001", "native_id": "11", "name": "A (x)", "status": "COMPLETED",
     "exit": "0", "attempt": "1", "submit": "2024-03-01 10:00:00.000",
     "start": "2024-03-01 10:00:01.000", "complete": "2024-03-01 10:00:09.000", "duration": "9s",
     "realtime": "8s", "%cpu": "97.1%", "peak_rss": "8.9 MB", "rchar": "32.2 MB"},
    {"task_id": "2", "hash": "bb/000002", "native_id": "12", "name": "A (y)", "status": "FAILED",
     "exit": "1", "attempt": "1", "submit": "2024-03-01 10:00:00.000",
     "start": "2024-03-01 10:00:02.000", "complete": "2024-03-01 10:00:05.000", "duration": "5s",
     "realtime": "3s", "%cpu": "50.0%", "peak_rss": "7.1 MB", "rchar": "31.0 MB"},
]  # fmt: skip


def written(rows: list[dict[str, str]], without: tuple[str, ...] = ()) -> bytes:
    columns = [name for name in rows[0] if name not in without]
    lines = [columns, *([row[name] for name in columns] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines).encode()


def counted(*traces: bytes) -> int:
    made = import_bytes(Importer, {f"t{i}.txt": data for i, data in enumerate(traces)})
    records = made.meta["importer"]["records"]
    assert records["in"] == records["out"] + records["merged"] + records["rejected"]
    assert records["out"] == made.table("tasks").num_rows
    assert not records["merged"] or any("counted once" in text for text in made.warnings)
    return records["out"]


@pytest.mark.parametrize("gone", [("hash",), ()])
@pytest.mark.parametrize(
    "column",
    ["submit", "start", "complete", "native_id", "attempt", "task_id", "hash", "%cpu", "exit"],
)
def test_traces_of_one_run_of_which_one_lacks_a_column_count_once(
    column: str, gone: tuple[str, ...]
) -> None:
    whole, less = written(RUN, gone), written(RUN, (*gone, column))
    assert counted(whole, less) == counted(less, whole) == 2


def test_without_any_dates_in_common_the_measurements_tell() -> None:
    dates = ("submit", "start", "complete", "hash")
    whole, less = written(RUN, ("hash",)), written(RUN, dates)
    assert counted(whole, less) == counted(less, whole) == 2
    other = [{**row, "realtime": "8.1s", "duration": "8.2s"} for row in RUN]
    assert counted(whole, written(other, dates)) == 4
    few = (*dates, "%cpu", "peak_rss", "rchar")
    assert counted(whole, written(RUN, few)) == 4  # two durations may well be the same


def test_three_traces_with_other_columns() -> None:
    made = [written(RUN, ("hash", name)) for name in ("submit", "start", "%cpu")]
    for several in itertools.permutations(made):
        assert counted(*several) == 2


def test_executions_that_a_trace_cannot_tell_apart_are_as_many_as_it_has() -> None:
    same = [{**RUN[0], "task_id": str(number), "native_id": str(number)} for number in range(3)]
    three = written(same, ("hash",))
    less = written(same[:2], ("hash", "task_id"))  # the native ids differ
    blind = written(same[:1], ("hash", "task_id", "native_id"))
    assert counted(three, less) == 3
    assert counted(blind, three) == 3  # one of the three is the first


def test_other_runs_are_others() -> None:
    later = [{**row, "start": row["start"].replace("03-01", "03-02"),
              "complete": row["complete"].replace("03-01", "03-02")} for row in RUN]  # fmt: skip
    assert counted(written(RUN, ("hash",)), written(later, ("hash", "submit"))) == 4
    again = [{**row, "hash": f"cc/00000{row['task_id']}"} for row in later]
    assert counted(written(RUN), written(again, ("submit",))) == 4


def test_many_rows_take_time_in_proportion() -> None:
    def took(count: int) -> float:
        rows = [{**RUN[0], "task_id": str(n), "native_id": str(n)} for n in range(count)]
        traces = written(rows, ("hash",)), written(rows, ("hash", "submit"))
        before = time.process_time()
        assert counted(*traces) == count
        return time.process_time() - before

    took(100)
    assert took(8_000) < 24 * took(1_000)


@pytest.mark.parametrize("gone", [("hash",), ()])
def test_the_row_of_the_trace_with_most_columns_is_kept(tmp_path, gone):
    whole = written(RUN, gone)
    (tmp_path / "b.txt").write_bytes(whole)
    want = rotameter.open(tmp_path / "b.txt").table("tasks")
    (tmp_path / "a.txt").write_bytes(written(RUN, (*gone, "submit", "peak_rss", "native_id")))
    for paths in ([tmp_path], [tmp_path / "a.txt", tmp_path / "b.txt"]):
        assert rotameter.open(paths).table("tasks").equals(want)
    (tmp_path / ".nextflow").mkdir()  # the folder of a run: joined
    made = rotameter.open(tmp_path).table("tasks")
    for name in ("task_id", "submitted_ns", "started_ns", "peak_memory_bytes", "wall_s"):
        assert made[name].equals(want[name])
