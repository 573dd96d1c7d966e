"""The parts that make the page: template environment, style, scripts, content policy."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rotameter.viz import formats
from rotameter.viz.timeline import short_worker

__all__ = ["content_policy", "docs_link", "environment", "script", "style"]

MODULES = (
    "decode.mjs",
    "lod.mjs",
    "timeline.mjs",
    "names.mjs",
    "figures.mjs",
    "sankey.mjs",
    "charts.mjs",
    "draw.mjs",
    "page.mjs",
)
_MEASURED = ("", "measured", "exact", "recorded", "counted")
_BOUNDS = {"upper_bound": "≤ ", "lower_bound": "≥ ", "exact": ""}
_LINK = re.compile(r"https?://|file:///|\.{0,2}/|[\w-]+(/|$)")


def _asset(name: str) -> str:
    return (resources.files("rotameter.viz") / "assets" / name).read_text(encoding="utf-8")


@cache
def style() -> str:
    """Give the style sheet."""
    return _asset("report.css")


@cache
def script(*names: str) -> str:
    """Give browser modules as one classic script.

    They are ES modules for their tests; in the page one scope holds them all, so that nothing is
    loaded and the page opens from a file.
    """
    parts = []
    for name in names:
        text = re.sub(r"^import .*;$", "", _asset(name), flags=re.M)
        parts.append(re.sub(r"^export ", "", text, flags=re.M))
    whole = "(() => {\n" + "\n".join(parts) + "\n})();"
    if "</script" in whole.lower() or "<!--" in whole:
        raise ValueError(f"browser code would end its own script element: {names}")
    return whole


def _digest(text: str) -> str:
    code = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"'sha256-{code}'"


def content_policy(scripts: list[str], styles: list[str]) -> dict[str, Markup]:
    """Allow these very texts and nothing else to run or style the page."""
    return {
        "script": Markup(" ".join(map(_digest, scripts))),
        "style": Markup(" ".join(map(_digest, styles))),
    }


def docs_link(base: str | None, code: str) -> str | None:
    """Give the address of a finding's page, or None where there is no safe one.

    Examples
    --------
    >>> docs_link("https://docs.example.org/findings/", "RM101")
    'https://docs.example.org/findings/RM101.html'
    >>> docs_link("javascript:alert(1)", "RM101") is None
    True
    """
    if not base or not _LINK.match(base) or not re.fullmatch(r"\w{1,20}", code):
        return None
    return f"{base.rstrip('/')}/{code}.html"


def _how(evidence: dict[str, Any]) -> str:
    """Say how a number was obtained, where not measured exactly, and from how many."""
    how = formats.brief(evidence["how"], 160)
    parts = [] if how.lower() in _MEASURED else [how]
    if evidence["n"] is not None:
        many = "observation" if evidence["n"] == 1 else "observations"
        parts.append(f"{formats.count(evidence['n'])} {many}")
    return ", ".join(parts)


def _qualified(number: float | None, kind: str) -> str:
    """Write bytes with the sign of their kind."""
    if number is None or (number == 0 and kind != "exact"):
        return formats.MISSING  # "at least nothing" says nothing
    return _BOUNDS.get(kind, "~ ") + formats.size(number)


def _amount(number: float) -> str:
    """Write an amount of what was held: whole where it is large."""
    return f"{number:,.0f}" if abs(number) >= 1_000 else f"{number:,.3g}"


def _prose(text: object, limit: int = 200) -> Markup:
    """Escape prose and set what stands between back quotes as code."""
    safe = str(escape(formats.brief(text, limit)))
    return Markup(re.sub(r"`([^`]{1,300})`", r"<code>\1</code>", safe))


def _lines(text: str, limit: int) -> str:
    """Keep the line ends of a command or a piece of code, and nothing else that is unseen."""
    kept = "\n".join(formats.plain(line) for line in str(text).splitlines())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


@cache
def environment() -> Environment:
    """Give the template environment: everything that is put in is escaped."""
    made = Environment(
        loader=PackageLoader("rotameter.viz"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=False,
    )
    made.filters |= {
        "amount": _amount,
        "brief": formats.brief,
        "clip": formats.clip,
        "count": formats.count,
        "gbh": formats.gigabyte_hours,
        "how": _how,
        "is_plain_measure": lambda how: str(how).strip().lower() in _MEASURED,
        "lines": _lines,
        # The folder of a file tells little, and pushes out what tells more.
        "origin": lambda text: formats.brief(re.sub(r"^[^ ]*/(?=[^ /]+:\d)", "", text), 64),
        "plain": formats.plain,
        "prose": _prose,
        "qualified": _qualified,
        "ratio": formats.ratio,
        "seconds": formats.seconds,
        "size": formats.size,
        "value": formats.value,
        "words": lambda text: "—" if text is None else formats.clip(text, 40).replace("_", " "),
        "worker": short_worker,
    }
    return made
