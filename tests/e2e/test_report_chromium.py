"""The report in a real browser: offline, zoomed, narrow, dark, printed, by keyboard."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import FINDING, READY, draw_all, opened, see, wait

from rotameter.viz.sections.gather import SECTIONS

pytestmark = [pytest.mark.browser, pytest.mark.e2e]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["usual", "failed", "large", "hostile", "no-times", "nothing", "many-workers"]
)
def test_opens_offline_without_a_request_or_an_error(
    browser: Any, reports: Path, name: str, scheme: str
) -> None:
    with opened(browser, (reports / f"{name}.html").as_uri(), color_scheme=scheme) as page:
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
    with opened(browser, (reports / "usual.html").as_uri()) as page:
        for text in ("The run took 1 min 35 s", "Thread time used", FINDING):
            box = see(page, text)
            assert box["y"] + box["height"] < 900
        visible = [row.bounding_box()["y"] < 870 for row in page.locator("tr[id^=F]").all()]
        assert sum(visible) >= 3


def test_a_failed_run_begins_with_why(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "failed.html").as_uri()) as page:
        assert page.locator("h1").inner_text().startswith("The run failed after 1 min 35 s: Killed")
        assert page.locator(".level.failed").first.inner_text() == "Run failed"


def test_zoom_narrows_the_view_and_back(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "large.html").as_uri()) as page:
        span = "(() => { const c = rotameter_chart; return (c.to - c.from) / c.end; })()"
        assert page.evaluate(span) == pytest.approx(1)
        assert "100,000 attempts in view" in page.locator("[data-part=status]").inner_text()
        page.get_by_role("button", name="Zoom in").click()
        wait(page, f"{span} < 0.51")
        page.locator("#chart").focus()
        for _ in range(7):
            page.keyboard.press("+")
        wait(page, f"{span} < 0.005")
        wait(
            page,
            "document.querySelector('[data-part=status]').textContent.includes('each attempt')",
        )
        page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Whole run").click()
        wait(page, f"{span} > 0.999")
        page.locator(".canvas").scroll_into_view_if_needed()
        canvas = page.locator(".canvas").bounding_box()
        y = canvas["y"] + 5
        page.mouse.move(canvas["x"] + canvas["width"] * 0.25, y)
        page.mouse.down()
        page.mouse.move(canvas["x"] + canvas["width"] * 0.5, y, steps=4)
        page.mouse.up()
        wait(page, f"Math.abs({span} - 0.25) < 0.01")


def test_the_pointer_tells_the_task(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "usual.html").as_uri()) as page:
        wait(page, "rotameter_chart.names !== null")
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
    with opened(browser, (reports / f"{name}.html").as_uri(), color_scheme=scheme) as page:
        assert sorted(draw_all(page)) == sorted(SECTIONS)
        marks = "document.querySelectorAll('[data-chart={}] {}').length"
        assert page.evaluate(marks.format("flow", ".sankey-node")) >= 8
        assert page.evaluate(marks.format("critical_path", ".bars path")) >= 4
        assert page.evaluate(marks.format("memory_requests", ".boxes path.box")) == 4
        assert page.evaluate(marks.format("io", ".hm image, .hm .heatmaplayer image, image")) >= 1
        assert page.evaluate(marks.format("waste", ".bars path")) >= 4
        assert page.evaluate("window.pwned") is None
        assert page.locator("[data-chart] img, [data-chart] a").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


# Holds what the page would do when it is idle, until the test lets it.
HOLD_IDLE = """
    window.idle_work = [];
    window.requestIdleCallback = (work) => window.idle_work.push(work);
    window.let_idle = () => window.idle_work.splice(0).forEach((work) => work());
"""
DRAWN = "document.querySelectorAll('[data-drawn]').length"


def test_a_chart_is_drawn_when_it_comes_near(browser: Any, reports: Path) -> None:
    address = (reports / "usual.html").as_uri()
    with opened(browser, address, before=HOLD_IDLE) as page:
        page.wait_for_timeout(300)
        assert page.evaluate("typeof Plotly") == "undefined"
        assert page.evaluate(DRAWN) == 0
        page.locator("[data-chart=waste]").scroll_into_view_if_needed()
        wait(page, "document.querySelector('[data-chart=waste]').dataset.drawn === 'yes'")


def test_charts_that_nobody_scrolled_to_are_drawn_when_the_page_is_idle(
    browser: Any, reports: Path
) -> None:
    with opened(browser, (reports / "everything.html").as_uri()) as page:
        wait(page, f"{DRAWN} === document.querySelectorAll('[data-chart]').length")
        assert page.evaluate("scrollY") == 0
        assert page.locator("#waste .main-svg").first.is_visible()


def test_paper_holds_charts_that_nobody_scrolled_to(browser: Any, reports: Path) -> None:
    address = (reports / "everything.html").as_uri()
    with opened(browser, address, before=HOLD_IDLE) as page:
        # Before plotly.js is there: the tables alone, and no empty frames.
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert not page.locator("[data-chart=waste]").is_visible()
        assert page.locator("#waste table").first.is_visible()
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.locator("[data-chart=flow]").scroll_into_view_if_needed()
        wait(page, "document.querySelector('[data-chart=flow]').dataset.drawn === 'yes'")
        assert not page.evaluate("document.querySelector('[data-chart=waste]').dataset.drawn")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        for name in SECTIONS:
            page.locator(f"[data-chart={name}] .main-svg").first.wait_for(state="visible")


def test_a_chart_follows_the_theme_and_the_width(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "everything.html").as_uri(), color_scheme="light") as page:
        draw_all(page)
        ink = "getComputedStyle(document.querySelector('[data-chart=waste] .ytick text')).fill"
        before = page.evaluate(ink)
        page.evaluate("document.getElementById('theme').click()")
        wait(page, f"{ink} !== {before!r}")
        page.set_viewport_size({"width": 700, "height": 900})
        wide = (
            "document.querySelector('[data-chart=waste] .main-svg').getBoundingClientRect().width"
        )
        wait(page, f"{wide} < 700")
        assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_the_table_of_a_chart_is_reached_by_keyboard(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "everything.html").as_uri()) as page:
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
        wait(page, READY)
        page.locator("#flow").scroll_into_view_if_needed()
        wait(page, "document.querySelector('#flow details').open")
        assert page.locator("#flow [data-part=chart-off]").is_visible()
        assert page.locator("#waste table").first.is_visible()
        assert not page.locator("[data-chart=flow]").is_visible()
    finally:
        context.close()


def test_theme_can_be_switched(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "usual.html").as_uri(), color_scheme="light") as page:
        ground = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(ground)
        page.get_by_role("button", name="Dark theme").click()
        assert page.evaluate(ground) != before
        assert page.locator("#theme").inner_text() == "Light theme"


@pytest.mark.parametrize("name", ["usual", "hostile", "many-workers", "everything"])
def test_a_narrow_screen_does_not_scroll_sideways(browser: Any, reports: Path, name: str) -> None:
    narrow = {"width": 360, "height": 740}
    with opened(browser, (reports / f"{name}.html").as_uri(), viewport=narrow) as page:
        if name == "everything":
            draw_all(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("h1").is_visible()


def test_print_opens_what_is_folded(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "usual.html").as_uri()) as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()


def test_a_printed_chart_fits_the_paper(browser: Any, reports: Path) -> None:
    with opened(browser, (reports / "everything.html").as_uri()) as page:
        draw_all(page)
        assert len(page.pdf(format="A4")) > 20_000
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        wide = (
            "document.querySelector('[data-chart=waste] .main-svg').getBoundingClientRect().width"
        )
        wait(page, f"{wide} <= 680")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        wait(page, f"{wide} > 900")


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
    with opened(browser, (reports / "everything.html").as_uri(), color_scheme="dark") as page:
        draw_all(page)
        dark, light_ink = page.evaluate(lane), page.evaluate(ink)
        assert dark > 0.02
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print", color_scheme="dark")
        wait(page, f"{ink} !== {light_ink!r}")
        assert page.evaluate(lane) < 0.02
        page.emulate_media(media="screen", color_scheme="dark")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        wait(page, f"{ink} === {light_ink!r}")
        assert page.evaluate(lane) == pytest.approx(dark, abs=0.02)
        assert page.evaluate("document.documentElement.dataset.theme") is None


def test_legends_fit_a_narrow_screen(browser: Any, reports: Path) -> None:
    narrow = {"width": 400, "height": 740}
    with opened(browser, (reports / "everything.html").as_uri(), viewport=narrow) as page:
        draw_all(page)
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
        wait(page, READY)
        draw_all(page)
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
