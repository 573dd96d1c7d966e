"""The report: one HTML file that opens offline, verdict first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rotameter.viz import devices as gpu
from rotameter.viz.document import findings_document
from rotameter.viz.matrix import heat
from rotameter.viz.overview import area_path
from rotameter.viz.page import MODULES, content_policy, docs_link, environment, script, style
from rotameter.viz.payload import script_json
from rotameter.viz.plotly import packed
from rotameter.viz.progress import Progress
from rotameter.viz.provenance import provenance_rows
from rotameter.viz.sections.gather import SECTIONS, TABLES
from rotameter.viz.sections.path import KIND_WORDS
from rotameter.viz.timeline import Timeline, timeline
from rotameter.viz.wording import Wording, wording

if TYPE_CHECKING:
    from rotameter.profiler.storing.advice import Advice
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["findings_document", "render"]

ROWS_LIMIT = 100
OTHERS_LIMIT = 20
_GPU_LIMITS = {
    "bars": gpu.BARS_LIMIT,
    "details": gpu.DETAILS_LIMIT,
    "kernels": gpu.KERNELS_LIMIT,
}


def _headline(document: dict[str, Any], words: Wording) -> list[str]:
    run = document["run"]
    many = f"{run['tasks']:,} {words.noun}{'' if run['tasks'] == 1 else 's'}"
    if run["attempts"] != run["tasks"]:
        many += f" in {run['attempts']:,} attempts"
    return [text for text in (run["started_utc"], words.engine, many) if text]


def _paths(overview: dict[str, Any] | None) -> dict[str, Any]:
    """Give the curves of the overview and their peaks, rounded up."""
    paths: dict[str, str | None] = {"running": None, "waiting": None}
    peaks: dict[str, float] = {"running": 0, "waiting": 0}
    for key in paths if overview is not None else ():
        values = overview[key] if overview else None
        if values is None:
            continue
        peaks[key] = max(1, round(max(values) + 0.499))
        paths[key] = area_path(values, peaks[key])
    return {"paths": paths, "peaks": peaks}


def render(
    trace: Trace,
    verdict: Verdict,
    *,
    title: str | None = None,
    docs_url: str | None = None,
    advice: Advice | None = None,
    facts: dict[str, Any] | None = None,
) -> str:
    """Make the report of a run as one HTML page.

    Parameters
    ----------
    trace : Trace
        What happened; any table or column may be empty, the page then says what is missing.
    verdict : Verdict
        What it means.
    title : str, optional
        Name of the run; shown at the top.
    docs_url : str, optional
        Folder or address that holds one page for each finding code (``RM101.html``); without it
        codes are plain text.
    advice : Advice, optional
        Storage configurations that were priced.
    facts : dict, optional
        Is filled with the page's facts, as of :func:`findings_document`.

    Returns
    -------
    str
        HTML that needs no network, and no script for the verdict, the findings and all tables.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> from rotameter.values import Verdict
    >>> page = render(Trace.from_tables({}), Verdict("Nothing ran.", "ok"))
    >>> page.startswith("<!DOCTYPE html>"), "Nothing ran." in page
    (True, True)
    """
    with Progress(len(SECTIONS) + len(TABLES) + 3) as bar:
        document = findings_document(trace, verdict, bar.step, advice=advice)
        if facts is not None:
            facts.update(document)
        bar.step("timeline")
        view = timeline(trace, document["incidents"])
        bar.step("page")
        return _page(trace, verdict, document, view, title, docs_url)


def _page(
    trace: Trace,
    verdict: Verdict,
    document: dict[str, Any],
    view: Timeline,
    title: str | None,
    docs_url: str | None,
) -> str:
    pairs = document["pairs"]
    words = wording(trace, verdict, document)
    links = {f["id"]: docs_link(docs_url, str(f["code"])) for f in document["findings"]}
    css, theme_js, page_js = style(), script("theme.js"), script(*MODULES)
    drawn = {name: document[name] for name in SECTIONS if document[name]}
    library = packed() if drawn else None
    scripts = [theme_js, page_js, *([library.text] if library else [])]
    versions = document["provenance"]["versions"]
    own = versions.get("rotameter") if isinstance(versions, dict) else None
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            doc=document,
            title=title or "Report of a run",
            headline=_headline(document, words),
            words=words,
            gpu=gpu.gpu_section(trace, document["devices"]),
            gpu_limits=_GPU_LIMITS,
            links={key: link for key, link in links.items() if link},
            legend=view.legend,
            failed_attempts=document["run"]["failed"],
            marks=Counter(i["mark"] for i in document["incidents"]),
            timeline_notes=view.notes,
            timeline_drawn=view.drawn,
            row_text=view.row_text,
            payload=Markup(script_json(view.payload)) if view.payload else None,
            charts_data=Markup(script_json(drawn)) if drawn else None,
            plotly=library,
            kind_words=KIND_WORDS,
            heat=heat(trace, pairs),
            transferred=sum(p["bytes"] for p in pairs),
            transferred_p2p=sum(p["p2p_bytes"] for p in pairs),
            provenance_rows=provenance_rows(document),
            rows_limit=ROWS_LIMIT,
            others_limit=OTHERS_LIMIT,
            version=own or "",
            css=Markup(css),
            theme_js=Markup(theme_js),
            page_js=Markup(page_js),
            csp=content_policy(scripts, [css, *([""] if library else [])]),
            **_paths(document["overview"]),
        )
    )
