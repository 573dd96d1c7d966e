"""Whether what was predicted came true: what was applied, what is left, what it saved."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rotameter.profiler.comparing.directions import advised_way, went
from rotameter.units import format_seconds

if TYPE_CHECKING:
    from rotameter.profiler.comparing.align import Pair
    from rotameter.profiler.comparing.predictions import Prediction
    from rotameter.profiler.comparing.settings import Difference
    from rotameter.values import Finding

__all__ = ["Judged", "Measured", "judge"]

TOLERANCE_RATIO = 0.25
TOLERANCE_S = 0.3
"""A saving within the larger of these of the prediction is as predicted."""
GONE_RATIO = 0.5
"""A cause that costs less than this part of what it did is taken to have been dealt with."""

_FASTER = ("came true", "more than predicted")
_OPPOSITE = "what was advised went the other way"

_CLUSTER = {
    "threads a worker": r"threads[ _-]?per[ _-]?worker|nthreads|threads (?:a|each|per) worker",
    "workers": r"\bn[ _-]?workers\b|(?:more|fewer|number of) workers|\badapt\b",
    "memory a worker": r"memory[ _-]?limit|memory (?:a|each|per) worker",
}
_GRAIN = re.compile(
    r"chunk|partition|batch|fuse|granular|blocksize|split|larger tasks|files? (?:a|per) task"
    r"|fewer,?\s+(?:\w+,?\s+)?tasks",
    re.I,
)
_REQUEST = {
    "requested memory": re.compile(r"mem", re.I),
    "requested cores": re.compile(r"core|cpu", re.I),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """The difference between two sides: seconds saved, and within what it may be chance.

    Attributes
    ----------
    saved_s : float or None
    low_s, high_s : float or None
        90 % interval; None where one run a side leaves it unknown.
    noise_s : float
        Less than this is not told from chance.
    why_not : str
        Why the difference says nothing of predictions; empty where it does.
    """

    saved_s: float | None
    low_s: float | None
    high_s: float | None
    noise_s: float
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """One prediction and what became of it.

    Attributes
    ----------
    applied : {"yes", "otherwise", "opposite", "unknown"}
        ``otherwise``: what it is about was changed, but not to what was advised; ``opposite``: it
        went the other way.
    applied_how : str
    left_s : float or None
        What the same cause costs on the later side; 0 where it is not found there; None where
        that side was not diagnosed.
    outcome : {"came true", "less than predicted", "more than predicted", "did not come true",
               "cannot tell"}
    how : str
    """

    prediction: Prediction
    applied: str
    applied_how: str
    left_s: float | None
    outcome: str
    how: str


def judge(
    predictions: Sequence[Prediction],
    measured: Measured,
    differences: Sequence[Difference],
    pairs: Sequence[Pair],
    findings: Sequence[Finding] | None,
    rivals: Sequence[str] | None = None,
) -> list[Judged]:
    """Say of each prediction whether it came true.

    Parameters
    ----------
    predictions : sequence of Prediction
        Of the earlier side.
    measured : Measured
    differences : sequence of Difference
        What was set differently: shows what was applied.
    pairs : sequence of Pair
    findings : sequence of Finding, optional
        Of the later side.
    rivals : sequence of str, optional
        For each prediction, what else may be why its cause is gone; empty where nothing is.

    Returns
    -------
    list of Judged
        In the order of the predictions.
    """
    renamed = {name: pair.after for pair in pairs for name in pair.before}
    applied = [_applied(p, differences, renamed) for p in predictions]
    left = [_left(p, findings, renamed) for p in predictions]
    other = [
        _OPPOSITE if applied[n][0] == "opposite" else rivals[n] if rivals else ""
        for n in range(len(predictions))
    ]
    tried = [n for n, (state, _) in enumerate(applied) if state == "yes"]
    if not tried:  # No sign of what was applied: what is gone was, or it went by itself.
        tried = [n for n, p in enumerate(predictions) if _gone(p, left[n]) and not other[n]]
    outcome, how = _outcome([predictions[n] for n in tried], measured)
    made = []
    for n, prediction in enumerate(predictions):
        state, why = applied[n]
        if n in tried and outcome in _FASTER and _stays(prediction, left[n]):
            text = "faster for another reason: the cause is still there"
            made.append(Judged(prediction, state, why, left[n], "cannot tell", text))
        elif n in tried:
            text = "; ".join(part for part in (how, _remains(left[n])) if part)
            made.append(Judged(prediction, state, why, left[n], outcome, text))
        else:
            text = _idle(prediction, left[n], other[n])
            made.append(Judged(prediction, state, why, left[n], "cannot tell", text))
    return made


def _gone(prediction: Prediction, left_s: float | None) -> bool:
    return left_s is not None and left_s < GONE_RATIO * prediction.mid_s


def _stays(prediction: Prediction, left_s: float | None) -> bool:
    return left_s is not None and left_s >= (1 - TOLERANCE_RATIO) * prediction.mid_s


def _idle(prediction: Prediction, left_s: float | None, rival: str) -> str:
    """Say why a prediction that nobody seems to have tried cannot be judged."""
    if left_s is None:
        return "nothing shows that it was applied"
    if left_s > 0:  # What is found again is not gone, however little it costs.
        return _remains(left_s) if _gone(prediction, left_s) else "the cause is still there"
    if _gone(prediction, left_s):
        if rival:
            return f"the cause is gone, perhaps for another reason: {rival}"
        return "the cause is gone, but what was applied was something else"
    return "the cause is still there"


def _remains(left_s: float | None) -> str:
    return f"the cause is still there, and costs {format_seconds(left_s)} now" if left_s else ""


def _outcome(tried: Sequence[Prediction], measured: Measured) -> tuple[str, str]:
    """Compare the saving of what was tried, together, with the measured one."""
    if not tried:
        return "cannot tell", ""
    if measured.why_not or measured.saved_s is None:
        return "cannot tell", measured.why_not or "how long the runs took is not known"
    mid = sum(p.mid_s for p in tried)
    below = math.sqrt(sum((p.mid_s - p.low_s) ** 2 for p in tried if p.low_s is not None))
    above = math.sqrt(sum((p.high_s - p.mid_s) ** 2 for p in tried if p.high_s is not None))
    tolerance = max(TOLERANCE_RATIO * mid, TOLERANCE_S)
    low, high = mid - max(below, tolerance), mid + max(above, tolerance)
    saved, how = measured.saved_s, ""
    if len(tried) > 1:
        how = f"together with {len(tried) - 1} more; what they save may overlap"
        # Where one saves what another does too, all save as much as the largest.
        low = min(low, max(_least(p) for p in tried))
    at_most = measured.high_s if measured.high_s is not None else saved + measured.noise_s
    at_least = measured.low_s if measured.low_s is not None else saved - measured.noise_s
    if low <= saved <= high:
        if saved >= measured.noise_s:
            return "came true", how
        return "cannot tell", "so small a difference may be chance"
    if saved > high:
        return ("more than predicted", how) if at_least > 0 else ("cannot tell", "may be chance")
    if saved >= measured.noise_s and saved > 0:
        return "less than predicted", how
    if at_most >= low:
        return "cannot tell", "the difference is not told from chance"
    return "did not come true", how


def _least(prediction: Prediction) -> float:
    tolerance = max(TOLERANCE_RATIO * prediction.mid_s, TOLERANCE_S)
    low = prediction.mid_s if prediction.low_s is None else prediction.low_s
    return min(low, prediction.mid_s - tolerance)


def _left(
    prediction: Prediction,
    findings: Sequence[Finding] | None,
    renamed: dict[str, tuple[str, ...]],
) -> float | None:
    if findings is None:
        return None
    wanted = {after for name in prediction.groups for after in renamed.get(name, (name,))}
    costs = [
        finding.cost_s
        for finding in findings
        if (finding.code, finding.kind) == (prediction.code, prediction.kind)
        and (not wanted or not finding.groups or wanted & set(finding.groups))
    ]
    if any(cost is None for cost in costs):
        return None
    return float(sum(cost for cost in costs if cost is not None))


def _applied(
    prediction: Prediction,
    differences: Sequence[Difference],
    renamed: dict[str, tuple[str, ...]],
) -> tuple[str, str]:
    """Look in what was set differently for what was advised, and whether it went that way."""
    groups = {after for name in prediction.groups for after in renamed.get(name, (name,))}
    found: dict[str, str] = {}
    for difference in differences:
        state = _state(prediction, difference, groups)
        if state is not None:
            found.setdefault(state, difference.text)
    # One thing that was done as advised counts, whatever else was changed.
    for state in ("yes", "otherwise", "opposite"):
        if state in found:
            return state, found[state]
    return "unknown", "unknown whether applied"


def _state(prediction: Prediction, difference: Difference, groups: set[str]) -> str | None:
    """Say how one difference bears on an advice; None where it does not."""
    text, name, about = prediction.action, difference.name, None
    if difference.what == "setting":
        about = r"[-_. ]".join(re.escape(part) for part in re.split(r"[-_. ]", name) if part)
        if not about or not re.search(rf"(?<![\w-]){about}(?![\w-])", text, re.I):
            return None
    elif difference.what == "cluster":
        about = _CLUSTER.get(name)
        if about is None or not re.search(about, text, re.I):
            return None
    elif difference.group in groups:
        said = _GRAIN if difference.what == "tasks" else _REQUEST.get(name)
        if said is None or not said.search(f"{prediction.kind} {text}"):
            return None
    else:
        return None
    state, value = _valued(text, about, difference.after) if about else (None, None)
    if state == "yes":
        return state
    way = advised_way(prediction.kind, text, name)
    return "opposite" if went(difference, way, value) is False else state or "yes"


def _valued(text: str, name: str, value: float | str | None) -> tuple[str | None, float | None]:
    """Say whether the advised value is the new one, and the value where it is a number.

    None where no value was advised.
    """
    found = re.search(rf"(?:{name})[\"'`]*\s*[:=, ]\s*[\"'`]*([\w.+-]+)", text, re.I)
    if found is None or value is None:
        return None, None
    said = found[1].rstrip(".")
    try:
        advised = float(said)
        same = math.isclose(advised, float(value), rel_tol=0.02)
    except ValueError:
        if isinstance(value, float):  # A word behind the name is no value.
            return None, None
        return ("yes" if said.lower() == value.lower() else "otherwise"), None
    return ("yes" if same else "otherwise"), advised
