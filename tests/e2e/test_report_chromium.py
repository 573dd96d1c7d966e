"""The report in a real browser: offline, without scripting, framed, narrow, dark, printed."""

from __future__ import annotations

import http.server
import importlib.util
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.synthetic import EPOCH_NS, HOSTILE, synthetic_trace, synthetic_verdict

from rotameter.profiler.trace import Trace
from rotameter.viz.report import render
from rotameter.viz.sections.gather import SECTIONS

pytestmark = [pytest.mark.browser, pytest.mark.e2e]

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed, so the report is not opened in a browser")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
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
def _opened(browser: Any, address: str, *, ready: bool = True, **options: Any) -> Iterator[Any]:
    """Open a page; afterwards nothing may have been asked for or complained about."""
    settings = {"offline": True, "viewport": {"width": 1280, "height": 900}, **options}
    context = browser.new_context(**settings)
    asked: list[str] = []
    problems: list[str] = []
    try:
        page = context.new_page()
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
            _wait(page, READY)
        yield page
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert problems == []
    finally:
        context.close()


def _wait(page: Any, expression: str) -> None:
    """Wait for an expression; the page's own policy forbids the driver's way of polling."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def _draw_all(page: Any) -> list[str]:
    """Scroll to every chart until it is drawn; give their names."""
    names: list[str] = page.evaluate(
        "[...document.querySelectorAll('[data-chart]')].map(n => n.dataset.chart)"
    )
    for name in names:
        page.locator(f"[data-chart={name}]").scroll_into_view_if_needed()
        _wait(page, f"document.querySelector('[data-chart={name}]').dataset.drawn === 'yes'")
    return names


def _see(page: Any, text: str) -> dict[str, float]:
    found = page.get_by_text(text, exact=False).first
    assert found.is_visible(), text
    box: dict[str, float] = found.bounding_box()
    return box


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["usual", "failed", "large", "hostile", "no-times", "nothing", "many-workers"]
)
def test_opens_offline_without_a_request_or_an_error(
    browser: Any, reports: Path, name: str, scheme: str
) -> None:
    with _opened(browser, (reports / f"{name}.html").as_uri(), color_scheme=scheme) as page:
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        has_chart = name not in ("no-times", "nothing")
        assert page.locator("#chart").is_visible() == has_chart
        if has_chart:
            painted = page.evaluate(
                "(() => { const c = document.querySelector('canvas'); const p = c.getContext('2d')"
                ".getImageData(0, 0, c.width, c.height).data; const seen = new Set();"
                "for (let i = 0; i < p.length; i += 4) seen.add(p[i] << 16 | p[i + 1] << 8);"
                "return seen.size; })()"
            )
            assert painted >= 3


def test_the_verdict_and_first_findings_are_above_the_fold(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "usual.html").as_uri()) as page:
        for text in ("The run took 1 min 35 s", "Thread time used", FINDING):
            box = _see(page, text)
            assert box["y"] + box["height"] < 900
        visible = [row.bounding_box()["y"] < 870 for row in page.locator("tr[id^=F]").all()]
        assert sum(visible) >= 3


def test_a_failed_run_begins_with_why(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "failed.html").as_uri()) as page:
        assert page.locator("h1").inner_text().startswith("The run failed after 1 min 35 s: Killed")
        assert page.locator(".level.failed").first.inner_text() == "Run failed"


def test_zoom_narrows_the_view_and_back(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "large.html").as_uri()) as page:
        span = "(() => { const c = rotameter_chart; return (c.to - c.from) / c.end; })()"
        assert page.evaluate(span) == pytest.approx(1)
        assert "100,000 attempts in view" in page.locator("[data-part=status]").inner_text()
        page.get_by_role("button", name="Zoom in").click()
        _wait(page, f"{span} < 0.51")
        page.locator("#chart").focus()
        for _ in range(7):
            page.keyboard.press("+")
        _wait(page, f"{span} < 0.005")
        _wait(
            page,
            "document.querySelector('[data-part=status]').textContent.includes('each attempt')",
        )
        page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Whole run").click()
        _wait(page, f"{span} > 0.999")
        page.locator(".canvas").scroll_into_view_if_needed()
        canvas = page.locator(".canvas").bounding_box()
        y = canvas["y"] + 5
        page.mouse.move(canvas["x"] + canvas["width"] * 0.25, y)
        page.mouse.down()
        page.mouse.move(canvas["x"] + canvas["width"] * 0.5, y, steps=4)
        page.mouse.up()
        _wait(page, f"Math.abs({span} - 0.25) < 0.01")


def test_the_pointer_tells_the_task(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "usual.html").as_uri()) as page:
        _wait(page, "rotameter_chart.names !== null")
        page.locator(".canvas").scroll_into_view_if_needed()
        canvas = page.locator(".canvas").bounding_box()
        for share in range(10, 60):
            page.mouse.move(canvas["x"] + canvas["width"] * share / 100, canvas["y"] + 6)
            if page.locator("[data-part=tip]").is_visible():
                break
        tip = page.locator("[data-part=tip]").inner_text()
        assert "-0a1b2c3d4e5f" in tip
        assert "ran " in tip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["everything", "odd-names"])
def test_every_chart_is_drawn_offline_under_the_policy(
    browser: Any, reports: Path, name: str, scheme: str
) -> None:
    with _opened(browser, (reports / f"{name}.html").as_uri(), color_scheme=scheme) as page:
        assert sorted(_draw_all(page)) == sorted(SECTIONS)
        marks = "document.querySelectorAll('[data-chart={}] {}').length"
        assert page.evaluate(marks.format("flow", ".sankey-node")) >= 8
        assert page.evaluate(marks.format("critical_path", ".bars path")) >= 4
        assert page.evaluate(marks.format("memory_requests", ".boxes path.box")) == 4
        assert page.evaluate(marks.format("io", ".hm image, .hm .heatmaplayer image, image")) >= 1
        assert page.evaluate(marks.format("waste", ".bars path")) >= 4
        assert page.evaluate("window.pwned") is None
        assert page.locator("[data-chart] img, [data-chart] a").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_chart_is_drawn_only_when_it_comes_near(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "usual.html").as_uri()) as page:
        page.wait_for_timeout(300)
        assert page.evaluate("typeof Plotly") == "undefined"
        assert page.evaluate("document.querySelectorAll('[data-drawn]').length") == 0
        page.locator("[data-chart=waste]").scroll_into_view_if_needed()
        _wait(page, "document.querySelector('[data-chart=waste]').dataset.drawn === 'yes'")


def test_a_chart_follows_the_theme_and_the_width(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "everything.html").as_uri(), color_scheme="light") as page:
        _draw_all(page)
        ink = "getComputedStyle(document.querySelector('[data-chart=waste] .ytick text')).fill"
        before = page.evaluate(ink)
        page.evaluate("document.getElementById('theme').click()")
        _wait(page, f"{ink} !== {before!r}")
        page.set_viewport_size({"width": 700, "height": 900})
        wide = (
            "document.querySelector('[data-chart=waste] .main-svg').getBoundingClientRect().width"
        )
        _wait(page, f"{wide} < 700")
        assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_the_table_of_a_chart_is_reached_by_keyboard(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "everything.html").as_uri()) as page:
        summary = page.locator("#waste details summary")
        assert not page.locator("#waste table").first.is_visible()
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("#waste table").first.is_visible()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('role')") == "region"


def test_charts_that_cannot_be_drawn_leave_their_tables(browser: Any, reports: Path) -> None:
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.add_init_script("Object.defineProperty(window, 'Plotly', {get: () => undefined})")
        page.goto((reports / "everything.html").as_uri())
        _wait(page, READY)
        page.locator("#flow").scroll_into_view_if_needed()
        _wait(page, "document.querySelector('#flow details').open")
        assert page.locator("#flow [data-part=chart-off]").is_visible()
        assert page.locator("#waste table").first.is_visible()
        assert not page.locator("[data-chart=flow]").is_visible()
    finally:
        context.close()


def test_theme_can_be_switched(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "usual.html").as_uri(), color_scheme="light") as page:
        ground = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(ground)
        page.get_by_role("button", name="Dark theme").click()
        assert page.evaluate(ground) != before
        assert page.locator("#theme").inner_text() == "Light theme"


def test_without_scripting_verdict_findings_and_tables_are_there(
    browser: Any, reports: Path
) -> None:
    address = (reports / "usual.html").as_uri()
    with _opened(browser, address, ready=False, java_script_enabled=False) as page:
        for text in ("The run took 1 min 35 s", FINDING, "80 %: 30.1 s", "Run at most one reduce"):
            _see(page, text)
        _see(page, "The timeline by worker needs scripting")
        page.locator("summary", has_text="Evidence (4)").click()
        _see(page, "peak of reduce, p95")
        assert not page.locator("#theme").is_visible()
        assert not page.locator("button.copy").first.is_visible()
        assert page.locator("svg.strip").first.is_visible()


def test_without_scripting_the_tables_of_the_charts_are_open(browser: Any, reports: Path) -> None:
    address = (reports / "everything.html").as_uri()
    with _opened(browser, address, ready=False, java_script_enabled=False) as page:
        for section in ("flow", "critical-path", "memory", "io", "waste"):
            assert page.locator(f"#{section} table").first.is_visible(), section
            assert page.locator(f"#{section} [data-part=chart-off]").is_visible()
            assert not page.locator(f"#{section} [data-chart]").is_visible()
        assert page.locator("#sizing table").is_visible()
        _see(page, "The largest of 6 runs used 1.5 GB; 10 % is added.")


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
        _see(page, "The run took 1 min 35 s")
        _see(page, FINDING)
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
        _wait(page, READY)
        _see(page, "needs a browser from 2023 or later")
        assert page.locator("#waste table").first.is_visible()
        assert not page.locator("#chart").is_visible()
    finally:
        context.close()


@pytest.mark.parametrize("name", ["usual", "hostile", "many-workers", "everything"])
def test_a_narrow_screen_does_not_scroll_sideways(browser: Any, reports: Path, name: str) -> None:
    narrow = {"width": 360, "height": 740}
    with _opened(browser, (reports / f"{name}.html").as_uri(), viewport=narrow) as page:
        if name == "everything":
            _draw_all(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("h1").is_visible()


def test_print_opens_what_is_folded(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "usual.html").as_uri()) as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()


def test_a_printed_chart_fits_the_paper(browser: Any, reports: Path) -> None:
    with _opened(browser, (reports / "everything.html").as_uri()) as page:
        _draw_all(page)
        assert len(page.pdf(format="A4")) > 20_000
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        wide = (
            "document.querySelector('[data-chart=waste] .main-svg').getBoundingClientRect().width"
        )
        _wait(page, f"{wide} <= 680")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        _wait(page, f"{wide} > 900")


def test_paper_is_white_also_from_a_dark_screen(browser: Any, reports: Path) -> None:
    # The part of the timeline that is drawn in colours of a dark screen.
    lane = """() => {
        const canvas = document.querySelector('#chart canvas');
        const copy = document.createElement('canvas');
        [copy.width, copy.height] = [canvas.width, canvas.height];
        const context = copy.getContext('2d', {willReadFrequently: true});
        context.drawImage(canvas, 0, 0);
        const {data} = context.getImageData(0, 0, copy.width, copy.height);
        let dark = 0;
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] && Math.max(data[i], data[i + 1], data[i + 2]) < 80) dark += 1;
        return dark / (copy.width * copy.height);
    }"""
    ink = "getComputedStyle(document.querySelector('[data-chart=waste] .ytick text')).fill"
    with _opened(browser, (reports / "everything.html").as_uri(), color_scheme="dark") as page:
        _draw_all(page)
        dark, light_ink = page.evaluate(lane), page.evaluate(ink)
        assert dark > 0.02
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print", color_scheme="dark")
        _wait(page, f"{ink} !== {light_ink!r}")
        assert page.evaluate(lane) < 0.02
        page.emulate_media(media="screen", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        _wait(page, f"{ink} === {light_ink!r}")
        assert page.evaluate(lane) == pytest.approx(dark, abs=0.02)
        assert page.evaluate("document.documentElement.dataset.theme") is None


def test_legends_fit_a_narrow_screen(browser: Any, reports: Path) -> None:
    narrow = {"width": 400, "height": 740}
    with _opened(browser, (reports / "everything.html").as_uri(), viewport=narrow) as page:
        _draw_all(page)
        page.wait_for_timeout(300)
        beyond = page.evaluate(
            """[...document.querySelectorAll('.legendtext')].filter(
                (text) => text.getBoundingClientRect().right > 400).length"""
        )
        bars = page.evaluate(
            """[...document.querySelectorAll('.legend .scrollbar')].filter(
                (bar) => bar.getBoundingClientRect().height > 0).length"""
        )
        assert (beyond, bars) == (0, 0)


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("usual", 1280, "light"),
        ("usual", 1280, "dark"),
        ("usual", 360, "light"),
        ("hostile", 1280, "dark"),
        ("no-times", 1280, "light"),
        ("nothing", 360, "dark"),
        ("everything", 1280, "light"),
        ("everything", 1280, "dark"),
        ("odd-names", 360, "dark"),
    ],
)
def test_axe_finds_nothing_at_wcag_2_aa(
    browser: Any, reports: Path, name: str, width: int, scheme: str
) -> None:
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-playwright-python is not installed, so accessibility is not checked")
    axe = (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")
    context = browser.new_context(
        offline=True,
        bypass_csp=True,
        color_scheme=scheme,
        viewport={"width": width, "height": 900},
    )
    try:
        page = context.new_page()
        page.goto((reports / f"{name}.html").as_uri())
        _wait(page, READY)
        _draw_all(page)
        page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', "
            "'best-practice']})"
        )
        problems = [
            (rule["id"], node["html"][:160], node["failureSummary"][:200])
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]
        assert problems == []
    finally:
        context.close()
