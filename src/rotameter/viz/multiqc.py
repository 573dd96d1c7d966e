"""A verdict as MultiQC custom content: one table of findings, for a file ``NAME_mqc.json``.

MultiQC (its documentation, "Custom content") takes a JSON object with ``id``, ``section_name``,
``description``, ``plot_type``, ``pconfig``, ``headers`` and ``data``. Tables of one ``id`` from
several runs become one, so a row is named by its run. MultiQC puts texts into its page as they
are: here they are escaped.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from rotameter.viz.formats import clip, plain

if TYPE_CHECKING:
    from rotameter.values import Finding, Verdict

__all__ = ["verdict_multiqc"]

_ID = "rotameter_findings"
_HEADERS: dict[str, dict[str, Any]] = {
    "kind": {"title": "Cause", "description": "What was found"},
    "groups": {"title": "Tasks", "description": "Task groups it is about"},
    "level": {"title": "Level", "description": "critical, warning or info"},
    "saving_s": {
        "title": "Saves",
        "description": "Seconds off the run time if it were gone",
        "suffix": " s",
        "format": "{:,.2f}",
        "min": 0,
        "scale": "OrRd",
    },
    "saving_low_s": {
        "title": "at least",
        "description": "Lower end of the 80 % interval",
        "suffix": " s",
        "format": "{:,.2f}",
        "hidden": True,
    },
    "saving_high_s": {
        "title": "at most",
        "description": "Upper end of the 80 % interval",
        "suffix": " s",
        "format": "{:,.2f}",
        "hidden": True,
    },
    "saving_gbh": {
        "title": "Memory",
        "description": "Memory held for nothing",
        "suffix": " GB·h",
        "format": "{:,.3f}",
        "min": 0,
        "scale": "Blues",
    },
    "saving_core_h": {
        "title": "Cores",
        "description": "Cores held for nothing",
        "suffix": " core·h",
        "format": "{:,.3f}",
        "min": 0,
        "scale": "Greens",
    },
    "seen": {"title": "Seen", "description": "What was seen"},
    "advice": {"title": "What to do", "description": "What to change"},
}


def _text(text: object, limit: int = 300) -> str:
    return html.escape(clip(plain(text), limit))


def _row(finding: Finding) -> dict[str, Any]:
    low, high = finding.cost_s_interval80 or (None, None)
    row = {
        "kind": _text(finding.kind.replace("_", " "), 60),
        "groups": _text(", ".join(clip(g, 60) for g in finding.groups[:3])) or None,
        "level": _text(finding.severity, 20),
        "saving_s": finding.cost_s,
        "saving_low_s": low,
        "saving_high_s": high,
        "saving_gbh": finding.cost_gbh,
        "saving_core_h": finding.cost_core_h,
        "seen": _text(finding.title),
        "advice": _text(finding.advice),
    }
    # MultiQC leaves a cell empty that is not there; a null it would print.
    return {name: value for name, value in row.items() if value is not None}


def verdict_multiqc(verdict: Verdict, name: str) -> dict[str, Any]:
    """Give a verdict as MultiQC custom content.

    Parameters
    ----------
    verdict : Verdict
    name : str
        Of the run: the name of its sample.

    Returns
    -------
    dict
        To be written as JSON to a file whose name ends in ``_mqc.json``.

    Examples
    --------
    >>> from rotameter.values import Finding, Verdict
    >>> one = Finding("RM105", "spill", "warning", "t", cost_s=2.0)
    >>> made = verdict_multiqc(Verdict("s", "ok", findings=(one,)), "run")
    >>> made["data"]["run 1 RM105"]["saving_s"]
    2.0
    """
    sample = _text(name, 80)
    rows = {
        f"{sample} {rank} {_text(finding.code, 20)}": _row(finding)
        for rank, finding in enumerate(verdict.findings, start=1)
    }
    if not rows:  # MultiQC leaves out a section without data, and the run would not be seen.
        rows = {sample: {"kind": "nothing found", "seen": _text(verdict.sentence)}}
    used = {column for row in rows.values() for column in row}
    return {
        "id": _ID,
        "section_name": "rotameter: what the run lost",
        "description": _text(verdict.sentence, 1_000),
        "plot_type": "table",
        "pconfig": {
            "id": f"{_ID}_table",
            "title": "rotameter: findings",
            "col1_header": "Run, rank, code",
            "sort_rows": False,
        },
        "headers": {name: facts for name, facts in _HEADERS.items() if name in used},
        "data": rows,
    }
