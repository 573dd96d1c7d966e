"""A comparison as one HTML file: static tables in the report's style, nothing to load or run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from rotameter.units import format_seconds
from rotameter.viz.comparison_words import (
    applied_words,
    headline,
    shown_name,
    shown_total,
    signed,
    what_changed,
)
from rotameter.viz.formats import clip
from rotameter.viz.page import content_policy, environment, style

if TYPE_CHECKING:
    from rotameter.profiler.comparing.verdict import Comparison

__all__ = ["comparison_html"]

_NAME = 80
_ROWS = 500
"""More groups than this are in the JSON only, which the page says."""


def _interval(ends: tuple[float | None, float | None] | None, *, plus: bool) -> str:
    if ends is None or ends[0] is None or ends[1] is None:
        return "–"
    write = signed if plus else format_seconds
    return f"{write(ends[0])} to {write(ends[1])}"


def _groups(found: Comparison) -> list[tuple[str, ...]]:
    return [
        (
            shown_name(g, _NAME),
            "–" if g.contribution_s is None else signed(g.contribution_s),
            _interval(g.contribution_interval90, plus=True),
            what_changed(g),
            "yes" if g.is_change else "no",
        )
        for g in found.groups[:_ROWS]
    ]


def _predictions(found: Comparison) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []
    for judged in found.predictions:
        p = judged.prediction
        names = ", ".join(clip(name, _NAME) for name in p.groups[:3])
        made.append(
            (
                f"{p.code} {p.kind} {names}".strip(),
                format_seconds(p.mid_s),
                _interval((p.low_s, p.high_s), plus=False),
                f"{judged.outcome}; {judged.how}".rstrip("; "),
                applied_words(judged),
            )
        )
    return made


def comparison_html(found: Comparison, labels: tuple[str, str] = ("A", "B")) -> str:
    """Write a comparison as a page.

    Parameters
    ----------
    found : Comparison
    labels : tuple of str
        Names of the sides.

    Returns
    -------
    str
        One HTML document that opens offline and runs no script.
    """
    css = style()
    shown = [(total, row) for total in found.totals if (row := shown_total(total)) is not None]
    notes = list(found.notes)
    if len(found.groups) > _ROWS:
        notes.append(f"{len(found.groups) - _ROWS:,} smaller groups are in the JSON only")
    template = environment().get_template("comparison.html.j2")
    others = [
        (name, "–" if c.seconds is None else signed(c.seconds), c.how) for name, c in found.others
    ]
    if found.unexplained_s is not None:
        others.append(("not explained", signed(found.unexplained_s), "what is left"))
    return template.render(
        title=f"{labels[0]} and {labels[1]}",
        csp=content_policy([], [css]),
        css=Markup(css),
        sentence=headline(found, labels),
        notes=notes,
        labels=labels,
        totals=[(*row, "yes" if total.is_change else "no") for total, row in shown],
        groups=_groups(found),
        others=others,
        differences=[(d.text,) for d in found.differences],
        predictions=_predictions(found),
    )
