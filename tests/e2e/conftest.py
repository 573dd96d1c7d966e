"""A browser, and reports for it to open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; a loop runs in its thread, so that it must not outlive its tests."""
    from tests.support.browser import ARGS, CHROMIUM

    if CHROMIUM is None:
        pytest.skip("chromium is not installed, so the report is not opened in a browser")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the reports."""
    from tests.support.browser import write_reports

    return write_reports(tmp_path_factory.mktemp("reports"))
