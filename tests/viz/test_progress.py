from __future__ import annotations

import io
from typing import Any

import pytest

from rotameter.viz.progress import Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 5))
    monkeypatch.setattr("rotameter.viz.progress.time.monotonic", lambda: next(now))


def test_a_terminal_sees_the_bar_and_then_nothing(slow: Any) -> None:
    terminal = _Terminal()
    with Progress(4, terminal) as bar:
        bar.step("timeline")
        bar.step("data flow")
    text = terminal.getvalue()
    assert "report: timeline" in text
    assert "[######.................." in text
    assert text.endswith("\r\x1b[K")


def test_nothing_else_sees_anything(slow: Any) -> None:
    stream = io.StringIO()
    with Progress(1, stream) as bar:
        bar.step("timeline")
    assert stream.getvalue() == ""


def test_quick_work_shows_no_bar() -> None:
    terminal = _Terminal()
    with Progress(1, terminal) as bar:
        bar.step("timeline")
    assert terminal.getvalue() == ""


def test_a_stream_that_is_gone_fails_nothing(slow: Any) -> None:
    terminal = _Terminal()
    bar = Progress(3, terminal)
    terminal.close()
    with bar:
        bar.step("timeline")
        bar.step("data flow")
    Progress(1, terminal).step("closed")
