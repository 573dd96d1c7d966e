"""``rotameter stats``: what it prints."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from rotameter.cli.stats import stats

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
