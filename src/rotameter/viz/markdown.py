"""A verdict as Markdown, for an issue or a mail: verdict, figures, findings, changes.

Names in a trace are anybody's text. In prose they are escaped so that they stay text: no link,
image, HTML, mention, reference to an issue, table cell or heading can come out of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rotameter.units import format_seconds
from rotameter.viz.formats import clip, plain

if TYPE_CHECKING:
    from rotameter.values import Finding, Verdict

__all__ = ["escape_markdown", "fenced", "verdict_markdown"]

_MARKS = re.compile(r"([\\`*_\[\]#|~$^])")
_JOINER = "\u2060"
# What turns into a link, a mention or a reference without any mark around it.
_LIVE = re.compile(
    r"(?i)(?<=\w)(?=://)|(?<=www)(?=\.)|(?<=[@#])(?=\w)|(?<=mailto)(?=:)|(?<=\bGH)(?=-\d)"
)
_LEVELS = {"critical": "**critical**", "warning": "warning", "info": "info"}
_CODE_LIMIT = 2_000
_TEXT_LIMIT = 600
_NOTES = 12


def escape_markdown(text: object, limit: int = _TEXT_LIMIT) -> str:
    r"""Give text that Markdown shows as it is, on one line.

    Parameters
    ----------
    text : object
    limit : int
        Characters, before escaping; the middle of a longer text is left out.

    Examples
    --------
    >>> escape_markdown("load | <img src=x> [a](b)")
    'load \\| &lt;img src=x&gt; \\[a\\](b)'
    """
    whole = " ".join(clip(plain(text), limit).split())
    whole = _MARKS.sub(r"\\\1", _LIVE.sub(_JOINER, whole))
    whole = whole.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # `- x`, `1. x` and `=` make lists and headings at the beginning of a line.
    whole = re.sub(r"^([-=:+])", r"\\\1", whole)
    return re.sub(r"^(\d+)([.)])(?= |$)", r"\1\\\2", whole)


def fenced(code: str, language: str = "python") -> str:
    """Give a block of code that nothing in the code can end.

    Examples
    --------
    >>> print(fenced("a = 1"))
    ```python
    a = 1
    ```
    """
    lines = [plain(line) for line in code[:_CODE_LIMIT].splitlines()]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])


def _cost(finding: Finding) -> str:
    if finding.cost_s is None:
        return "–"
    text = format_seconds(finding.cost_s)
    if finding.cost_s_interval80 is not None:
        low, high = finding.cost_s_interval80
        text += f" ({format_seconds(low)} – {format_seconds(high)})"
    return text


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def verdict_markdown(verdict: Verdict, name: str = "") -> str:
    r"""Write a verdict as Markdown.

    Parameters
    ----------
    verdict : Verdict
    name : str
        Of the run.

    Returns
    -------
    str

    Examples
    --------
    >>> from rotameter.values import Verdict
    >>> print(verdict_markdown(Verdict("Nothing worth changing: 3 tasks.", "ok"), "run_1"))
    ### rotameter: run\_1
    <BLANKLINE>
    Nothing worth changing: 3 tasks.
    """
    parts = [f"### rotameter: {escape_markdown(name, 80)}" if name else "### rotameter"]
    parts.append(escape_markdown(verdict.sentence, 2_000))
    if verdict.figures:
        rows = [_row(["figure", "value", "how"]), _row(["---"] * 3)]
        rows += [
            _row([escape_markdown(f.label), escape_markdown(f.text), escape_markdown(f.how, 200)])
            for f in verdict.figures
        ]
        parts.append("\n".join(rows))
    if verdict.findings:
        parts += _findings(verdict)
    if verdict.notes:
        lines = [f"- {escape_markdown(note)}" for note in verdict.notes[:_NOTES]]
        if len(verdict.notes) > _NOTES:
            lines.append(f"- … and {len(verdict.notes) - _NOTES} more")
        parts.append("\n".join(["Not known:", "", *lines]))
    return "\n\n".join(parts)


def _findings(verdict: Verdict) -> list[str]:
    head = ["#", "finding", "level", "saves (80 %)", "GB·h", "core·h", "sure", "what was seen"]
    rows = [_row(head), _row(["---"] * len(head))]
    for rank, finding in enumerate(verdict.findings, start=1):
        other = [finding.cost_gbh, finding.cost_core_h]
        rows.append(
            _row(
                [
                    str(rank),
                    f"{escape_markdown(finding.code)} {escape_markdown(finding.kind)}",
                    _LEVELS.get(finding.severity, escape_markdown(finding.severity)),
                    _cost(finding),
                    *("–" if v is None else f"{v:.3g}" for v in other),
                    escape_markdown(finding.confidence),
                    escape_markdown(finding.title, 300),
                ]
            )
        )
    parts = ["\n".join(rows)]
    for rank, finding in enumerate(verdict.findings, start=1):
        if not (finding.advice or finding.change):
            continue
        parts.append(
            f"**{rank}. {escape_markdown(finding.code)}** {escape_markdown(finding.advice)}"
        )
        if finding.change:
            parts.append(fenced(finding.change))
    return parts
