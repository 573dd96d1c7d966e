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


def test_formats_that_are_none_are_named(source: str) -> None:
    for name in ("bogus", "perfeto"):
        with pytest.raises(UnknownPlugin) as caught:
            call(source, "--to", name)
        assert "known: csv, otlp, parquet, perfetto, rmt" in str(caught.value.hint)
    assert "did you mean 'perfetto'?" in str(caught.value.hint)


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


def test_it_counts_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("id,task_type,wall_s,state\na,x,5,ok\nb,x,,ok\nc,x,1,failed\n")
    result = call(str(path), "--to", "snakemake", "-o", str(tmp_path / "x.tsv"))
    assert "(1 of 3 attempts; 1 did not end well; 1 have no known duration)" in result.stderr
    assert "warning: left out: 1 did not end well\n" in result.stderr
    result = call(str(path), "--to", "perfetto", "-o", str(tmp_path / "x.json"))
    assert "(0 of 3 attempts; 3 have no start)" in result.stderr
    assert "warning: left out: 3 have no start" in result.stderr


def test_warnings_of_exporters_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("id,task_type,wall_s,state\na,x,5,ok\na,x,6,failed\n")
    result = call(str(path), "--to", "wfformat", "-o", str(tmp_path / "x.json"))
    assert "warning: 1 earlier attempt is left out" in result.stderr
    assert "TraceWarning" not in result.stderr and "(1 of 2 attempts)" in result.stderr


def test_exporters_of_others_need_not_count(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rotameter import plugins

    class Plain:
        name = "perfetto"

        def write(self, trace: object, path: str, **options: object) -> None:
            Path(path).write_text("done")

    monkeypatch.setattr(plugins, "get", lambda kind, name, real=plugins.get: (
        Plain if kind == "exporters" else real(kind, name)))  # fmt: skip
    result = call(source, "--to", "perfetto", "-o", str(tmp_path / "x.json"))
    assert "(2 attempts)" in result.stderr
