"""The GPU timeline in a real browser: without scripting, in both schemes, narrow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.viz.test_devices import full, trace

from rotameter.profiler.diagnose import diagnose
from rotameter.viz.report import render

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = trace([full()], [full(), full(1)], [])
    path = tmp_path_factory.mktemp("gpu") / "gpu.html"
    path.write_text(render(made, diagnose(made)), encoding="utf-8")
    return path


def test_bars_are_seen_without_scripting_in_both_schemes(page_file: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed, so the report is not opened in a browser")
    sync_api = pytest.importorskip("playwright.sync_api")
    fills: dict[str, Any] = {}
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        for scheme in ("light", "dark"):
            context = opened.new_context(
                offline=True, java_script_enabled=False, color_scheme=scheme,
                viewport={"width": 390, "height": 844},
            )  # fmt: skip
            page = context.new_page()
            page.goto(page_file.as_uri())
            assert page.locator("#gpu h2").is_visible()
            assert page.locator("#gpu .stack").count() == 3
            bar = page.locator("#gpu .stack").first.bounding_box()
            assert bar["width"] > 150
            assert bar["height"] > 10
            segment = page.locator("#gpu .stack .u-host").first
            fills[scheme] = segment.evaluate("node => getComputedStyle(node).fill")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, f"{wide} pixels wide"
            context.close()
        opened.close()
    assert fills["light"] != fills["dark"]
