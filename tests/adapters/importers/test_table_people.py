"""Tables as people and spreadsheets leave them: clocks, states, sums, retries, stamps."""

from __future__ import annotations

from typing import Any

import pytest

from rotameter.adapters.importers.table import Importer
from rotameter.testing.importers import import_bytes

START = "2025-01-01T10:00:00Z"


def read(text: str, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Import a table; give its tasks and what was said."""
    trace = import_bytes(Importer, {"t.csv": text.encode()}, **options)
    return trace.table("tasks").to_pylist(), trace.warnings


def walls(text: str, **options: Any) -> tuple[list[float | None], list[str]]:
    made, said = read(text, **options)
    return [row["wall_s"] for row in made], said


# -- durations -------------------------------------------------------------------------------------


def test_a_clock_of_two_parts_that_nothing_explains_is_said() -> None:
    made, said = walls("job_id,name,elapsed\n1,a,1:30\n2,b,12:15\n")
    assert made == [90.0, 735.0]
    assert said == [
        "1:30 in elapsed is read as 1 min 30 s; say --map wall=elapsed:h if it is 1 h 30 min"
    ]
    made, said = walls("job_id,name,elapsed\n1,a,1:30\n", map=["wall=elapsed:h"])
    assert (made, said) == ([5400.0], [])
    assert walls("job_id,name,elapsed\n1,a,1:30\n", map=["wall=elapsed:min"]) == ([90.0], [])
    assert walls("job_id,name,elapsed (hours)\n1,a,1:30\n") == ([5400.0], [])


def test_start_and_end_tell_what_a_clock_of_two_parts_is() -> None:
    head = "job_id,start_time,end_time,elapsed,limit\n"
    made, said = read(head + f"1,{START},2025-01-01T11:30:20Z,1:30,2:00\n", map=["limit=limit"])
    assert (made[0]["wall_s"], made[0]["requested_wall_s"]) == (5400.0, 7200.0)
    said.sort()
    assert len(said) == 2 and "is read as 1 h 30 min, as start and end show" in said[0]
    assert "--map requested_wall=limit:min if it is 2 min" in said[1]
    made, said = read(head + f"1,{START},2025-01-01T10:01:30Z,1:30,2:00\n", map=["limit=limit"])
    assert (made[0]["wall_s"], made[0]["requested_wall_s"], said) == (90.0, 120.0, [])


def test_clocks_of_three_parts_tell_what_those_of_two_are() -> None:
    assert walls("job_id,name,elapsed\n1,a,1:30\n2,b,1:02:03\n") == ([90.0, 3723.0], [])
    assert walls("job_id,name,elapsed\n1,a,1:30\n2,b,0:01.5\n") == ([90.0, 1.5], [])
    made, said = walls("job_id,name,elapsed,cputime\n1,a,1:30,0:01:20\n")
    assert made == [90.0] and "as cputime shows" in said[0] and len(said) == 1


def test_one_sentence_on_the_unit_of_bare_durations() -> None:
    head = f"job_id,start_time,end_time,elapsed\n1,{START},2025-01-01T10:10:00Z,"
    made, said = walls(f"{head}600000\n")
    assert (made, said) == ([600.0], ["durations count 0.001 s each, as start and end show"])
    assert walls(f"{head}600\n") == ([600.0], [])
    made, said = walls("job_id,name,elapsed\n1,a,600\n")
    assert made == [600.0] and said == [
        "elapsed is read as seconds; say --map wall=elapsed:ms if it is not"
    ]


@pytest.mark.parametrize("header", ["job_id,start_time,end_time,elapsed (s)", "own"])
def test_a_duration_below_nothing_gives_way_to_start_and_end(header: str) -> None:
    lines = [f"1,{START},2025-01-01T10:20:00Z,-5", "2,,,-5", f"3,{START},2025-01-01T10:00:07Z,7"]
    if header == "own":
        header = "task_id,started_ns,ended_ns,wall_s"
        lines = ["1,0,1200000000000,-5", "2,,,-5", "3,0,7000000000,7"]
    made, said = walls("\n".join([header, *lines]) + "\n")
    assert made == [1200.0, None, 7.0]
    assert any("below 0 (such as -5 s) are not used: end - start is" in word for word in said)
    assert not any("are kept" in word for word in said)


# -- states ----------------------------------------------------------------------------------------


def test_what_ended_a_task_is_told_by_its_exit_code() -> None:
    made, said = read(
        "job_id,elapsed (s),state,exit_code\n"
        "1,5,Killed,137\n2,5,Killed,\n3,5,Killed,0\n4,5,weird,0\n5,5,weird,3\n6,5,ok,0\n"
    )
    assert [row["outcome"] for row in made] == [
        "failed", "cancelled", "cancelled", "unknown", "failed", "ok",
    ]  # fmt: skip
    assert made[0]["signal"] == 9 and made[3]["error"] == made[4]["error"] == "weird"
    assert said == ["state 'weird' is not known"]
