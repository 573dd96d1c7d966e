"""What tests of the report in a real browser share."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.synthetic import EPOCH_NS, HOSTILE, synthetic_trace, synthetic_verdict

from rotameter.profiler.trace import Trace
from rotameter.viz.report import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = "window.rotameter_ready === true"
FINDING = "2 of 4 workers were killed for memory while reduce ran"


def everything(odd: str = "") -> Trace:
    """Make a trace with data for every section: stages that hand files on, requests, workers."""
    tasks, deps, flows = [], [], []
    for stage in range(4):
        for i in range(6):
            name, begin = f"s{stage}-{i}", EPOCH_NS + (stage * 40 + i) * 10**9
            end = begin + 30 * 10**9
            worker = f"w{i % 3}"
            tasks.append(
                {
                    "task_id": name, "group": f"stage-{stage}{odd}", "worker": worker,
                    "submitted_ns": EPOCH_NS, "ready_ns": begin - 10**9, "started_ns": begin,
                    "ended_ns": end, "outcome": "failed" if name == "s2-3" else "ok",
                    "wall_s": 30.0, "cpu_s": 20.0, "requested_memory_bytes": 8 * 10**9,
                    "requested_cores": 1.0, "peak_memory_bytes": (stage + 1) * 10**9 + i * 10**8,
                    "peak_memory_kind": "exact",
                }
            )  # fmt: skip
            touches = [("write", f"d{stage + 1}-{i}.nc{odd}", 10**8)]
            touches.append(("read", f"d{stage}-{i}.nc{odd}", 10**9 >> stage))
            flows += [
                {"task_id": name, "worker": worker, "object": thing, "op": op, "bytes": size,
                 "medium": "file", "first_ns": begin, "last_ns": end}
                for op, thing, size in touches
            ]  # fmt: skip
            if stage:
                deps.append({"task_id": name, "depends_on": f"s{stage - 1}-{i}"})
    workers = [
        {"worker": f"w{i}", "host": "h", "started_ns": EPOCH_NS, "cores": 2.0,
         "ended_ns": EPOCH_NS + 160 * 10**9, "memory_bytes": 32 * 10**9}
        for i in range(3)
    ]  # fmt: skip
    return Trace.from_tables({"tasks": tasks, "deps": deps, "flows": flows, "workers": workers})


def write_reports(folder: Path) -> Path:
    """Write the reports that the tests open."""
    made = {
        "usual": render(
            synthetic_trace(1_500, deaths=2, failed=0.03), synthetic_verdict(), title="pipeline.rmt"
        ),
        "failed": render(synthetic_trace(200, deaths=1), synthetic_verdict("failed")),
        "large": render(
            synthetic_trace(100_000, workers=8, threads=4, failed=0.01), synthetic_verdict()
        ),
        "hostile": render(
            synthetic_trace(300, groups=10, hostile=True, deaths=1, failed=0.1),
            synthetic_verdict("failed", hostile=True),
        ),
        "no-times": render(synthetic_trace(50, times="none"), synthetic_verdict()),
        "nothing": render(synthetic_trace(0), synthetic_verdict("unknown")),
        "many-workers": render(synthetic_trace(5_000, workers=150), synthetic_verdict()),
        "everything": render(everything(), synthetic_verdict()),
        "odd-names": render(everything(HOSTILE[1] + HOSTILE[4]), synthetic_verdict()),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@contextmanager
def opened(
    browser: Any, address: str, *, ready: bool = True, before: str = "", **options: Any
) -> Iterator[Any]:
    """Open a page, after a script of the test; nothing may be asked for or complained about."""
    settings = {"offline": True, "viewport": {"width": 1280, "height": 900}, **options}
    context = browser.new_context(**settings)
    asked: list[str] = []
    problems: list[str] = []
    try:
        page = context.new_page()
        if before:
            page.add_init_script(before)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda message: (
                problems.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.goto(address)
        if ready:
            wait(page, READY)
        yield page
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert problems == []
    finally:
        context.close()


def wait(page: Any, expression: str) -> None:
    """Wait for an expression; the page's own policy forbids the driver's way of polling."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def draw_all(page: Any) -> list[str]:
    """Scroll to every chart until it is drawn; give their names."""
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('[data-chart]')].map(n => n.dataset.chart)"
    )
    for name in names:
        page.locator(f"[data-chart={name}]").scroll_into_view_if_needed()
        wait(page, f"document.querySelector('[data-chart={name}]').dataset.drawn === 'yes'")
    return names


def see(page: Any, text: str) -> dict[str, float]:
    found = page.get_by_text(text, exact=False).first
    assert found.is_visible(), text
    box: dict[str, float] = found.bounding_box()
    return box
