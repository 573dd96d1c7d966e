"""Tables of attempts that have no end, or lack one of start, end and duration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.adapters.importers.test_table import rows

from rotameter.adapters.importers.table import Importer
from rotameter.testing.importers import import_bytes

AIRFLOW = (
    "dag_id,run_id,task_id,map_index,try_number,state,start_date,end_date,duration\n"
    "d,r,a,0,1,running,2025-03-01 10:00:00+00:00,,0.0\n"
    "d,r,a,1,1,running,2025-03-01 10:00:00+00:00,,12.5\n"
    "d,r,a,2,1,success,2025-03-01 10:00:00+00:00,2025-03-01 10:00:00+00:00,0.0\n"
)


def walls(data: str, name: str = "t.csv") -> list[float | None]:
    return [row["wall_s"] for row in rows(data.encode(), name)]


def test_a_duration_of_0_without_an_end_is_unknown() -> None:
    assert walls(AIRFLOW) == [None, 12.5, 0.0]


@pytest.mark.parametrize(("kind", "outcome"), [("RUNNING", "running"), ("CRASHED", "worker_lost")])
@pytest.mark.parametrize("named", [True, False])
def test_prefect_counts_no_time_before_a_run_is_over(kind: str, outcome: str, named: bool) -> None:
    end = {"end_time": None} if named else {}
    run = {"id": "x", "name": "p-0", "task_key": "p", "flow_run_id": "f", "state_type": kind}
    record = {**run, "start_time": "2025-03-01T10:00:00Z", "total_run_time": 0.0, **end}
    (made,) = rows(json.dumps([record]).encode(), "t.json")
    assert (made["outcome"], made["wall_s"], made["ended_ns"]) == (outcome, None, None)
    assert made["started_ns"] is not None


def test_a_table_without_ends_keeps_its_durations_of_0() -> None:
    table = "job_id,elapsed_s,state\na,0,COMPLETED\nb,0,RUNNING\nc,4,COMPLETED\n"
    assert walls(table) == [0, None, 4]


def test_shares_of_an_unknown_duration_are_unknown() -> None:
    table = "id,start,end,wall_s,cpu\na,2025-03-01 10:00,,0,50\nb,2025-03-01 10:00,,8,50\n"
    trace = import_bytes(Importer, {"t.csv": table.encode()}, map=["cpu_s=cpu:%"])
    assert trace.table("tasks")["cpu_s"].to_pylist() == [None, 4.0]


def times(data: str) -> list[tuple[Any, ...]]:
    """Give start, end and duration in seconds since ten o'clock."""
    since = 1_740_823_200 * 10**9
    made = []
    for row in rows(data.encode()):
        both = (row[column] for column in ("started_ns", "ended_ns"))
        made.append((*(None if at is None else (at - since) / 1e9 for at in both), row["wall_s"]))
    return made


def test_of_start_end_and_duration_two_give_the_third_in_each_row() -> None:
    table = (
        "job_id,start_time,end_time,elapsed (s)\n"
        "a,2025-03-01T10:00:00Z,2025-03-01T10:00:30Z,30\n"
        "b,2025-03-01T10:00:10Z,,25\n"
        "c,,2025-03-01T10:01:00Z,20\n"
        "d,2025-03-01T10:00:00Z,2025-03-01T10:00:07Z,\n"
        "e,2025-03-01T10:00:05Z,,\n"
        "f,,,9\n"
        "h,,2025-03-01T10:00:20Z,0\n"
        "g,#REF!,2025-03-01T10:00:50Z,50\n"
    )
    assert times(table) == [
        (0, 30, 30), (10, 35, 25), (40, 60, 20), (0, 7, 7), (5, None, None), (None, None, 9),
        (None, 20, 0), (0, 50, 50),
    ]  # fmt: skip


@pytest.mark.parametrize("column", [",end_time", ""])
def test_what_runs_has_no_end(column: str) -> None:
    blank = "," if column else ""
    table = f"job_id,state,start_time,elapsed (s){column}\n"
    table += f"a,RUNNING,2025-03-01T10:00:00Z,30{blank}\nb,FAILED,2025-03-01T10:00:00Z,8{blank}\n"
    assert times(table) == [(0, None, 30), (0, 8, 8)]


@pytest.mark.parametrize("names", ["job_id,start_time,elapsed_s", "task_id,started_ns,wall_s"])
def test_all_cells_that_cannot_be_read_are_counted(names: str) -> None:
    times = ("2025-03-01T10:00:00Z", "#VALUE!", "########", "########", "2025-03-01T10:00:00Z")
    if "_ns" in names:
        times = tuple(t if "#" in t else "1740823200000000000" for t in times)
    table = f"{names}\n" + "".join(f"{i},{at},{i}\n" for i, at in enumerate(times, 1))
    trace = import_bytes(Importer, {"t.csv": table.replace(",5\n", ",???x\n").encode()})
    said = [text for text in trace.warnings if "left out" in text]
    assert len(said) == 2
    assert any("#VALUE!" in t and "########" in t and "(3 times)" in t for t in said), said
    assert any("???x" in t and "times)" not in t for t in said), said
