"""Predictions: what a diagnosis said would be saved, as rows of ``decisions``, and back.

A finding with a cost is a prediction: so many seconds off the makespan, within an interval, if
its advice is followed. As a row of ``decisions`` it outlives the session that made it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["POLICY", "Prediction", "from_rows", "predictions_of", "to_rows"]

POLICY = "rotameter.diagnose"


@dataclass(frozen=True, slots=True)
class Prediction:
    """One saving that was predicted.

    Attributes
    ----------
    code, kind : str
        Of the finding.
    groups : tuple of str
    low_s, mid_s, high_s : float or None, seconds
        80 % interval and middle.
    action : str
        What was advised: the change to copy, else the advice.
    reason : str
        How the saving was obtained.
    version : str
        Of rotameter.
    """

    code: str
    kind: str
    groups: tuple[str, ...]
    low_s: float | None
    mid_s: float
    high_s: float | None
    action: str
    reason: str = ""
    version: str = ""


def predictions_of(verdict: Verdict, version: str) -> list[Prediction]:
    """Give the predictions that a verdict makes: each finding with a cost.

    Parameters
    ----------
    verdict : Verdict
    version : str
        Of rotameter.

    Examples
    --------
    >>> from rotameter.values import Finding, Verdict
    >>> found = Finding("RM104", "transfer_bound", "warning", "t", ("join",), cost_s=21.0,
    ...                 cost_s_interval80=(14.0, 26.0), advice="Fewer chunks.")
    >>> predictions_of(Verdict("s", "ok", findings=(found,)), "1")[0].high_s
    26.0
    """
    made = []
    for finding in verdict.findings:
        if finding.cost_s is None or not finding.cost_s > 0:
            continue
        low, high = finding.cost_s_interval80 or (None, None)
        advice = "\n".join(text for text in (finding.change, finding.advice) if text)
        made.append(
            Prediction(
                finding.code,
                finding.kind,
                tuple(finding.groups),
                low,
                float(finding.cost_s),
                high,
                advice,
                finding.cost_how,
                version,
            )
        )
    return made


def to_rows(predictions: Iterable[Prediction], at_ns: int | None) -> list[dict[str, Any]]:
    """Give predictions as rows of the table ``decisions``.

    Parameters
    ----------
    predictions : iterable of Prediction
    at_ns : int or None
        The end of the run that they are of; no clock is read, so that rows made again are equal.

    Examples
    --------
    >>> rows = to_rows([Prediction("RM1", "spill", ("a b",), None, 2.0, None, "do")], 5)
    >>> rows[0]["subject"], rows[0]["predicted_mid"]
    ('RM1 spill ["a b"]', 2.0)
    """
    return [
        {
            "at_ns": at_ns,
            "policy": POLICY,
            "version": p.version,
            "subject": f"{p.code} {p.kind} {json.dumps(list(p.groups), ensure_ascii=False)}",
            "action": p.action,
            "predicted_low": p.low_s,
            "predicted_mid": p.mid_s,
            "predicted_high": p.high_s,
            "reason": p.reason,
        }
        for p in predictions
    ]


def from_rows(rows: Iterable[Mapping[str, Any]]) -> list[Prediction]:
    """Read predictions from rows of ``decisions``; rows of other policies are left alone.

    Examples
    --------
    >>> one = Prediction("RM1", "spill", ("a b",), 1.0, 2.0, 3.0, "do", "how", "1")
    >>> from_rows(to_rows([one], None)) == [one]
    True
    """
    made = []
    for row in rows:
        if row.get("policy") != POLICY:
            continue
        code, _, rest = str(row.get("subject") or "").partition(" ")
        kind, _, text = rest.partition(" ")
        mid = _number(row.get("predicted_mid"))
        try:
            groups = json.loads(text)
        except ValueError:
            continue
        if not code or mid is None or not isinstance(groups, list):
            continue
        made.append(
            Prediction(
                code,
                kind,
                tuple(str(g) for g in groups),
                _number(row.get("predicted_low")),
                mid,
                _number(row.get("predicted_high")),
                str(row.get("action") or ""),
                str(row.get("reason") or ""),
                str(row.get("version") or ""),
            )
        )
    return made


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def recorded(trace: Trace) -> list[Prediction]:
    """Give the predictions that are in the trace's own ``decisions``."""
    return from_rows(trace.table("decisions").to_pylist())
