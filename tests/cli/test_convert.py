"""``rotameter convert``."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rotameter.cli.convert import convert
from rotameter.errors import RotameterError, UnknownPlugin, UsageError, WouldOverwrite
from rotameter.profiler.store import open_trace

CSV = "id,task_type,wall_s,colour\na,x,5,red\nb,y,6,blue\n"


def call(*words: str) -> Result:
    result = CliRunner().invoke(convert, list(words), standalone_mode=False)
    if isinstance(result.exception, RotameterError):
        raise result.exception
    assert result.exception is None, result.exception
    return result


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    return str(path)


def test_to_stdout(source: str) -> None:
    result = call(source, "--to", "csv")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("task_id,attempt,") and lines[1].startswith("a,1,")
    assert len(lines) == 3 and "columns not read: colour" in result.stderr


def test_to_files(source: str, tmp_path: Path) -> None:
    for name in ("out.csv", "out.parquet", "out.rmt"):
        target = tmp_path / name
        result = call(source, "-o", str(target))
        assert target.exists() and not result.stdout and f"Wrote {target}" in result.stderr
        with pytest.raises(WouldOverwrite):
            call(source, "-o", str(target))
        call(source, "-o", str(target), "--force")
    assert open_trace(tmp_path / "out.rmt").table("tasks").num_rows == 2
    again = call(str(tmp_path / "out.csv"), "--to", "csv").stdout
    assert again == (tmp_path / "out.csv").read_text()


def test_tables(source: str, tmp_path: Path) -> None:
    target = tmp_path / "deps.csv"
    call(source, "--map", "depends=colour", "--table", "deps", "-o", str(target))
    assert target.read_text() == "task_id,depends_on\na,red\nb,blue\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--to", "rmt"], UsageError),
        (["--to", "rmt", "--table", "tasks", "-o", "x.rmt"], UsageError),
        (["--to", "csv", "--table", "nothing"], UsageError),
        (["--to", "nothing", "-o", "x"], UnknownPlugin),
        (["-o", "x.unknown"], UsageError),
    ],
)
def test_wrong_words(source: str, words: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(source, *words)
