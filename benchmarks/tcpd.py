"""The Turing Change Point Dataset: its two scores, its series, and the published method on it.

Written from the definitions in van den Burg and Williams (2020), "An evaluation of change point
detection algorithms", arXiv 2003.06222, section 5. Indices are of the first value after a change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["MARGIN", "Series", "bocpd", "cover", "f1", "load", "published"]

MARGIN = 5
"""Values that a change may be away from where an annotator put it."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series, and where each annotator saw changes."""

    name: str
    values: Any
    annotations: Mapping[str, Sequence[int]]


def f1(annotations: Mapping[str, Iterable[int]], found: Iterable[int]) -> float:
    """F1 at a margin: precision against all annotators together, recall averaged over them.

    Index 0 belongs to every set, so that a series without changes has a score.

    Examples
    --------
    >>> f1({"a": [50], "b": []}, [52])
    1.0
    >>> f1({"a": [50]}, [])  # precision 1, recall 1/2
    0.6666666666666666
    """
    ours = {0, *found}
    sets = [{0, *marks} for marks in annotations.values()]
    together = set().union(*sets)
    precision = len(_matched(together, ours)) / len(ours)
    recall = sum(len(_matched(marks, ours)) / len(marks) for marks in sets) / len(sets)
    return 2 * precision * recall / (precision + recall)


def _matched(marks: set[int], found: set[int]) -> set[int]:
    """Give the marks that a found change is near, each found change used for one mark at most."""
    free, matched = set(found), set()
    for mark in sorted(marks):
        near = [(abs(mark - x), x) for x in free if abs(mark - x) <= MARGIN]
        if near:
            matched.add(mark)
            free.discard(min(near)[1])
    return matched


def cover(annotations: Mapping[str, Iterable[int]], found: Iterable[int], n: int) -> float:
    """Mean over annotators of how well our segments cover theirs (Jaccard, weighted by length).

    Examples
    --------
    >>> cover({"a": [50]}, [50], 100), cover({"a": [50]}, [], 100)
    (1.0, 0.5)
    """
    ours = _segments(found, n)
    scores = []
    for marks in annotations.values():
        score = 0.0
        for begin, end in _segments(marks, n):
            best = max(
                max(0, min(end, e) - max(begin, b)) / (max(end, e) - min(begin, b)) for b, e in ours
            )
            score += (end - begin) / n * best
        scores.append(score)
    return sum(scores) / len(scores)


def _segments(changes: Iterable[int], n: int) -> list[tuple[int, int]]:
    ends = [*sorted({x for x in changes if 0 < x < n}), n]
    return list(zip([0, *ends], ends, strict=False))


def load(shared: str) -> list[Series]:
    """Give the thirty series of one dimension that may be passed on, by name."""
    place = Path(shared) / "data/arrivals/cpd/tcpd"
    marks = json.loads((place / "annotations.json").read_text())
    found = []
    for name in sorted(published(shared)["zero"]["cover"]):
        data = json.loads((place / f"{name}.json").read_text())
        raw = data["series"][0]["raw"]
        values = np.array([math.nan if v is None else float(v) for v in raw])
        found.append(Series(name, values, marks[name]))
    return found


def published(shared: str) -> dict[str, dict[str, dict[str, float]]]:
    """Give the published scores: method → cover or f1 → series → score."""
    path = Path(shared) / "data/arrivals/cpd/tcpd/published_default_scores.json"
    data = json.loads(path.read_text())
    return {
        method: {
            score: {name: row[at] for name, row in data[score].items()} for score in ("cover", "f1")
        }
        for at, method in enumerate(data["_cols"])
    }


def bocpd(values: Any, *, hazard: float = 0.01) -> list[int]:
    """Segment by Bayesian online change points, with the published default parameters.

    Normal values of unknown mean and variance; the best segmentation is carried along (Fearnhead
    and Liu 2007). Prior: mean 0, worth one value; precision gamma of shape and rate 1.
    """
    y = (values - values.mean()) / values.std(ddof=1)
    mean, count, shape, rate = (np.array([v]) for v in (0.0, 1.0, 1.0, 1.0))
    # After each value: the best log probability of a segmentation whose last part began at r.
    weights, best, origin = np.zeros(1), [0.0], []
    for x in y:
        scale = rate * (count + 1) / (shape * count)
        gap = (x - mean) ** 2 / scale
        density = (
            _lgamma(shape + 0.5) - _lgamma(shape)
            - 0.5 * np.log(2 * math.pi * shape * scale)
            - (shape + 0.5) * np.log1p(gap / (2 * shape))
        )  # fmt: skip
        weights = weights + density
        origin.append(int(np.argmax(weights)))
        best.append(float(weights.max()))
        rate = np.append(rate + count * (x - mean) ** 2 / (2 * (count + 1)), 1.0)
        mean = np.append((count * mean + x) / (count + 1), 0.0)
        count, shape = np.append(count + 1, 1.0), np.append(shape + 0.5, 1.0)
        weights = np.append(weights + math.log1p(-hazard), best[-1] + math.log(hazard))
    changes, end = [], len(y)
    while end:
        begin = origin[end - 1]
        changes.append(begin)
        end = begin
    return sorted(x for x in changes if x > 0)


def _lgamma(x: Any) -> Any:
    from scipy.special import gammaln

    return gammaln(x)
