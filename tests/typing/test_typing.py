"""Type checkers see through ``@task``: signatures survive, wrong calls are found."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("mypy")
HERE = pathlib.Path(__file__).parent
SOURCE = pathlib.Path(__import__("rotameter").__file__).parent.parent


@pytest.mark.slow
def test_mypy_sees_signatures(tmp_path, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(SOURCE))
    target = HERE / "typed_tasks.py"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += [f"--cache-dir={tmp_path}", "--follow-imports=silent", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r".*typed_tasks\.py:(\d+): (error|note): (.*)", line)
        assert match, done.stdout + done.stderr
        found.setdefault(int(match[1]), []).append((match[2], match[3]))
    lines = target.read_text().splitlines()
    start = next(n for n, text in enumerate(lines, 1) if "def bad" in text)
    wrong = {n for n in range(start + 1, len(lines) + 1) if lines[n - 1].strip()}
    errors = {n for n, items in found.items() if any(kind == "error" for kind, _ in items)}
    assert errors == wrong, done.stdout
    revealed = " ".join(text for items in found.values() for _, text in items)
    for expected in (
        "def (x: int, *, name: str =",
        'def (x: int) -> list[int]"',
        "def (x: int) -> typing.Coroutine[Any, Any, bytes]",
        'def (x: int) -> float"',
        "tracer.span",
    ):
        assert expected in revealed.replace("builtins.", ""), revealed
