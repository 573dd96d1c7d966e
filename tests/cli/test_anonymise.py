"""``rotameter anonymise``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rotameter.cli.anonymise import anonymise
from rotameter.errors import RotameterError, UsageError, WouldOverwrite
from rotameter.profiler.store import open_trace
from rotameter.profiler.trace import Trace

CSV = "id,task_type,wall_s,user,start\nannsjob,x,5,ann,1704189600\n"


def call(*words: str) -> Result:
    result = CliRunner().invoke(anonymise, list(words), standalone_mode=False)
    if isinstance(result.exception, RotameterError):
        raise result.exception
    assert result.exception is None, result.exception
    return result


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    return str(path)


def test_what_is_missing_is_named(source: str) -> None:
    with pytest.raises(UsageError, match="^OUTPUT is missing"):
        call(source)
    with pytest.raises(UsageError, match="TRACE and OUTPUT are missing"):
        call()


def test_a_trace_and_a_table(source: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a secret of mine\n")
    trace, table = tmp_path / "out.rmt", tmp_path / "out.csv"
    call(source, str(trace), "--key-file", str(key))
    call(source, str(table), "--key", "a secret of mine")
    row = open_trace(trace).table("tasks").to_pylist()[0]
    assert row["user"].startswith("user-") and row["wall_s"] == 5.0
    assert row["user"] in table.read_text() and "ann" not in table.read_text()
    with pytest.raises(WouldOverwrite):
        call(source, str(trace))
    call(source, str(trace), "--force", "--shift", "relative")
    assert open_trace(trace).table("tasks")["started_ns"].to_pylist() == [0]


@pytest.mark.parametrize(
    "words",
    [["--key", "short"], ["--key", "x" * 9, "--key-file", "k"], ["--shift", "soon"],
     ["--key-file", "nowhere"], ["--table", "tasks"]],
)  # fmt: skip
def test_wrong_words(source: str, tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(UsageError):
        call(source, str(tmp_path / "o.rmt"), *words)


def test_what_is_left_out_is_said(source: str, tmp_path: Path) -> None:
    said = call(source, str(tmp_path / "o.rmt")).stderr
    assert "Left out, since they may hold names: input" in said and "timeline" not in said
    assert "Left out" not in call(source, str(tmp_path / "o.csv")).stderr
    timeline = {"ranks": [{"words": "ann's device"}]}
    Trace.from_tables({"tasks": [{"task_id": "a"}]}, {"device_timeline": timeline}).save(
        str(tmp_path / "k.rmt")
    )
    said = call(str(tmp_path / "k.rmt"), str(tmp_path / "p.rmt")).stderr
    assert "Left out of the GPU timeline: 1 text" in said
