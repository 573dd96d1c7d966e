"""``rotameter stats``: what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from rotameter.cli.convert import convert
from rotameter.cli.stats import stats
from rotameter.profiler.trace import Trace

WFFORMAT = {
    "name": "w", "schemaVersion": "1.5",
    "workflow": {
        "specification": {"tasks": [{"id": "a", "name": "a", "parents": [], "children": []}]},
        "execution": {"makespanInSeconds": 3488, "executedAt": "20240301T100000Z",
                      "tasks": [{"id": "a", "runtimeInSeconds": 5}]},
    },
}  # fmt: skip


def call(*words: str) -> str:
    result = CliRunner().invoke(stats, list(words), standalone_mode=False)
    assert result.exception is None, result.exception
    return result.stdout


def test_a_makespan_that_only_the_input_states(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(WFFORMAT))
    found = json.loads(call(str(path), "--json"))
    assert (found["makespan_s"], found["makespan_how"]) == (3488.0, "recorded")
    assert not found["makespan_at_least"]
    (line,) = [one for one in call(str(path)).splitlines() if "makespan" in one]
    assert "58 min 8 s" in line and line.endswith("as the input states it")


def test_a_makespan_of_the_attempts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,start,end\na,1704067200,1704067260\n")
    found = json.loads(call(str(path), "--json"))
    assert (found["makespan_s"], found["makespan_how"]) == (60.0, "measured")
    (line,) = [one for one in call(str(path)).splitlines() if "makespan" in one]
    assert line.endswith(" 1 min")
    path.write_text("id;start;end\na;1,86E+12;1,86E+12\n")
    found = json.loads(call(str(path), "--json"))
    assert (found["makespan_s"], found["makespan_how"]) == (None, None)
    assert "makespan" not in call(str(path))


def test_task_time_is_one_number_and_a_lower_bound_where_a_duration_is_missing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    times = "2024-01-01T00:00:00Z,2024-01-01T00:01:00Z"
    path.write_text(f"id,start,end,wall_s,state\na,{times},,failed\nb,,,30,ok\n")
    found = json.loads(call(str(path), "--json"))
    assert found["task_wall_s"] == found["sums"]["wall_s"]["sum"] == 90.0
    assert found["usage"]["failed"]["of_s"] == 90.0
    assert not found["sums"]["wall_s"]["at_least"]
    (line,) = [one for one in call(str(path)).splitlines() if one.startswith("  task time")]
    assert line.split()[2:] == ["1", "min", "30", "s"]
    path.write_text(f"id,start,end,wall_s,state\na,{times},,ok\nb,2024-01-01T00:00:00Z,,,ok\n")
    found = json.loads(call(str(path), "--json"))
    assert (found["task_wall_s"], found["sums"]["wall_s"]["at_least"]) == (60.0, True)
    (line,) = [one for one in call(str(path)).splitlines() if one.startswith("  task time")]
    assert line.split()[2:] == ["≥", "1", "min"]


def test_what_is_piped_in_is_an_input(tmp_path: Path) -> None:
    """A process of its own: a pipe is no file that can be read twice."""
    text = "job_id,start,end\na,2024-01-01T00:00:00Z,2024-01-01T00:01:00Z\n"
    ran = subprocess.run(
        [sys.executable, "-m", "rotameter.cli", "stats", "-", "--json"],
        input=text, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(ran.stdout)["task_wall_s"] == 60.0
    ran = subprocess.run(
        [sys.executable, "-m", "rotameter.cli", "stats", "."],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 4 and ran.stderr.startswith("error: no files in .\n")


def test_the_table_of_what_was_refused_is_there_as_the_warning_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,name,wall_s\na,x,1\nb,y,2\nTotal,,3\n")
    ran = CliRunner().invoke(stats, [str(path)])
    assert "see table rejects (rotameter convert INPUT --to csv --table rejects)" in ran.stderr
    ran = CliRunner().invoke(convert, [str(path), "--to", "csv", "--table", "rejects"])
    assert "a row of totals, not a task" in ran.stdout


def test_dropped_records_are_said(tmp_path: Path) -> None:
    lost = {"kind": "records_dropped", "at_ns": 1, "count": 200_016}
    trace = Trace.from_tables({"tasks": [{"task_id": "a", "wall_s": 1.0}], "events": [lost]})
    path = str(trace.save(tmp_path / "poor.rmt"))
    assert json.loads(call(path, "--json"))["dropped"] == 200_016
    (line,) = [one for one in call(path).splitlines() if "dropped records" in one]
    assert line.split()[-1] == "200,016"
    whole = Trace.from_tables({"tasks": [{"task_id": "a", "wall_s": 1.0}]})
    assert "dropped" not in call(str(whole.save(tmp_path / "whole.rmt")))
