"""The report where its scripts do not run: turned off, blocked, in a frame, in an old browser."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import FINDING, READY, opened, see, wait

pytestmark = [pytest.mark.browser, pytest.mark.e2e]


def test_without_scripting_verdict_findings_and_tables_are_there(
    browser: Any, reports: Path
) -> None:
    address = (reports / "usual.html").as_uri()
    with opened(browser, address, ready=False, java_script_enabled=False) as page:
        for text in ("The run took 1 min 35 s", FINDING, "80 %: 30.1 s", "Run at most one reduce"):
            see(page, text)
        see(page, "The timeline by worker needs scripting")
        page.locator("summary", has_text="Evidence (4)").click()
        see(page, "peak of reduce, p95")
        assert not page.locator("#theme").is_visible()
        assert not page.locator("button.copy").first.is_visible()
        assert page.locator("svg.strip").first.is_visible()


def test_without_scripting_the_tables_of_the_charts_are_open(browser: Any, reports: Path) -> None:
    address = (reports / "everything.html").as_uri()
    with opened(browser, address, ready=False, java_script_enabled=False) as page:
        for section in ("flow", "critical-path", "memory", "io", "waste"):
            assert page.locator(f"#{section} table").first.is_visible(), section
            assert page.locator(f"#{section} [data-part=chart-off]").is_visible()
            assert not page.locator(f"#{section} [data-chart]").is_visible()
        assert page.locator("#sizing table").is_visible()
        see(page, "The largest of 6 runs used 1.5 GB; 10 % is added.")


class _Strict(http.server.SimpleHTTPRequestHandler):
    """Serves the reports under a policy that lets no script run."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", "script-src 'none'")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def served(reports: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *given: _Strict(*given, directory=str(reports))
    )
    thread = threading.Thread(target=server.serve_forever, name="reports", daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_policy_that_blocks_scripts_leaves_the_verdict(browser: Any, served: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"{served}/usual.html")
        assert page.evaluate("window.rotameter_ready") is None
        see(page, "The run took 1 min 35 s")
        see(page, FINDING)
        assert not page.locator("#chart").is_visible()
        assert (
            page.evaluate("getComputedStyle(document.querySelector('.figures')).display") == "grid"
        )
    finally:
        context.close()


@pytest.mark.parametrize("sandbox", ["", "allow-scripts"])
def test_a_sandboxed_frame_shows_the_verdict(
    browser: Any, reports: Path, tmp_path: Path, sandbox: str
) -> None:
    """JupyterLab shows an HTML file in a frame, without scripts unless it is trusted."""
    report = (reports / "usual.html").as_uri()
    outer = tmp_path / "viewer.html"
    outer.write_text(
        f'<!DOCTYPE html><iframe sandbox="{sandbox}" src="{report}" width="1200" height="850">'
        "</iframe>"
    )
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(outer.as_uri())
        frame = page.frame_locator("iframe")
        frame.get_by_text("The run took 1 min 35 s").wait_for()
        assert frame.get_by_text(FINDING).is_visible()
        chart = frame.locator("#chart")
        if sandbox:
            chart.wait_for(state="visible")
        else:
            assert not chart.is_visible()
    finally:
        context.close()


def test_an_old_browser_keeps_the_tables_and_says_why(browser: Any, reports: Path) -> None:
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.add_init_script("delete window.DecompressionStream")
        page.goto((reports / "usual.html").as_uri())
        wait(page, READY)
        see(page, "needs a browser from 2023 or later")
        assert page.locator("#waste table").first.is_visible()
        assert not page.locator("#chart").is_visible()
    finally:
        context.close()
