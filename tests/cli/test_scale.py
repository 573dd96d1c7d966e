"""``--scale name=value`` and ``rm.open(..., scale={...})``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import rotameter as rm
from rotameter.cli.anonymise import anonymise
from rotameter.cli.convert import convert
from rotameter.cli.diagnose import diagnose
from rotameter.cli.report import report
from rotameter.cli.stats import stats
from rotameter.errors import RotameterError, UsageError
from rotameter.profiler.store import open_trace

CSV = "id,task_type,wall_s\na,x,5\nb,y,6\n"


def call(command: Any, *words: str) -> Result:
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    if isinstance(result.exception, RotameterError):
        raise result.exception
    assert result.exception is None, result.exception
    return result


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    return str(path)


def test_it_is_kept_in_the_trace(source: str, tmp_path: Path) -> None:
    target = tmp_path / "out.rmt"
    call(convert, source, "-o", str(target), "--scale", "events=3e3", "--scale", "nodes = 4")
    assert open_trace(target).meta["scale"] == {"events": 3000.0, "nodes": 4.0}
    # A trace's own scale stays; what is named again replaces it.
    again = rm.open(target, scale={"nodes": 8, "tasks": 2})
    assert again.meta["scale"] == {"events": 3000.0, "nodes": 8.0, "tasks": 2.0}
    assert rm.open(target).meta["scale"] == {"events": 3000.0, "nodes": 4.0}


def test_without_it_nothing_changes(source: str) -> None:
    assert not rm.open(source).meta.get("scale")
    assert not rm.open(source, scale=None).meta.get("scale")
    assert not rm.open(source, scale={}).meta.get("scale")


def test_every_command_that_imports_takes_it(source: str, tmp_path: Path) -> None:
    plain = json.loads(call(stats, source, "--json").stdout)
    assert json.loads(call(stats, source, "--json", "--scale", "k=2").stdout) == plain
    call(diagnose, source, "--json", "--scale", "k=2")
    page, facts = tmp_path / "r.html", tmp_path / "f.json"
    call(report, source, "-o", str(page), "--findings-json", str(facts), "--scale", "k=2")
    assert '"scale": {"k": 2.0}' in " ".join(facts.read_text().split()).replace("{ ", "{").replace(
        " }", "}"
    )
    assert page.exists()
    call(anonymise, source, str(tmp_path / "a.rmt"), "--scale", "k=2")


@pytest.mark.parametrize(
    "words",
    [
        ("--scale", "k"),
        ("--scale", "=3"),
        ("--scale", " =3"),
        ("--scale", "k="),
        ("--scale", "k=many"),
        ("--scale", "k=0"),
        ("--scale", "k=-1"),
        ("--scale", "k=nan"),
        ("--scale", "k=inf"),
        ("--scale", "k=1e999"),
        ("--scale", "k=1", "--scale", "k=2"),
        ("--scale", "k" * 200 + "=1"),
        ("--opt", "scale=2"),
    ],
)
def test_refused(source: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        call(stats, source, *words)
    assert caught.value.hint


@pytest.mark.parametrize("scale", [3, "k=3", [("k", 3)], {"k": None}, {"k": True}, {"": 1}])
def test_refused_in_python(source: str, scale: Any) -> None:
    with pytest.raises(UsageError):
        rm.open(source, scale=scale)


def test_named_twice_alike_is_once(source: str, tmp_path: Path) -> None:
    target = tmp_path / "out.rmt"
    call(convert, source, "-o", str(target), "--scale", "k=2", "--scale", "k=2.0")
    assert open_trace(target).meta["scale"] == {"k": 2.0}
