"""What README and the documents say of the commands, held against the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rotameter.cli import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_commands_is_complete() -> None:
    rows = re.findall(r"^\| `rotameter ([a-z]+)", README, re.MULTILINE)
    assert sorted(rows) == sorted(cli.commands)


def test_every_command_has_a_section_in_the_reference() -> None:
    text = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## `rotameter ([a-z]+)`", text, re.MULTILINE)
    assert sorted(sections) == sorted(cli.commands)


@pytest.mark.parametrize(
    ("built", "named"),
    [("forecast", "forecast"), ("simulate", "simulat"), ("size", "siz"), ("collect", "collect")],
)
def test_what_is_built_is_not_called_unbuilt(built: str, named: str) -> None:
    sentence = re.search(r"[^.]*\bnot built yet\b", README.replace("\n", " "))
    assert built in cli.commands
    assert sentence is not None and named not in sentence.group().lower()


def test_the_doctor_says_no_to_what_the_readme_calls_unbuilt() -> None:
    from rotameter.profiler.live.doctor import checks

    sentence = re.search(r"samplers of ([^.]*?) are designed", README.replace("\n", " "))
    assert sentence is not None
    available = {check["what"]: check["available"] for check in checks()}
    words = {"GPUs": "GPU use"}
    for what in re.split(r", | and ", sentence.group(1)):
        assert not available[words.get(what, what)], what


def test_which_logs_the_bytes_between_workers_come_from() -> None:
    """The document names the side whose log is read."""
    source = ROOT / "src/rotameter/adapters/dask"
    text = "".join(path.read_text(encoding="utf-8") for path in source.glob("*.py"))
    document = (ROOT / "docs/explanation/measuring.md").read_text(encoding="utf-8")
    logs = set(re.findall(r"transfer_(incoming|outgoing)_log", text))
    assert logs == {"incoming"}
    assert "transfer log of the worker that receives" in document
