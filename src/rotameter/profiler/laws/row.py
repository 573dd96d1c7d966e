"""One fold, or a whole run, and one metric: its laws, what they expect, and how that is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rotameter.profiler.laws.fit import Fit, Prediction
from rotameter.profiler.laws.run_time import ON_PATH
from rotameter.profiler.laws.summed import sum_of
from rotameter.units import format_bytes, format_number, format_seconds

__all__ = ["COVERAGE", "ScalingRow", "lines"]

COVERAGE = 0.9
_POINTS = 101
_NAMED_PARTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class ScalingRow:
    """One fold and one metric.

    Parameters
    ----------
    key : str
        The fold: ``GROUP reads [WRITERS > READERS]``, a task group, or a part of the run time.
    kind : str
        ``edge``, ``group``, ``path`` (a part of the critical path), or ``run`` (the sum of a
        whole run).
    metric : str
    each : Fit
        Law of one instance's value.
    count : Fit
        Law of the number of instances.
    total : Fit
        Law of the totals, one value a run.
    direction : str or None
        ``reads`` or ``writes``.
    parts : tuple of ScalingRow
        Of a whole run: what it is the sum of, where the laws of all parts are known and none of
        the five says the same of the sum.
    """

    key: str
    kind: str
    metric: str
    each: Fit
    count: Fit
    total: Fit
    direction: str | None = None
    parts: tuple[ScalingRow, ...] = ()

    @property
    def steady(self) -> float | None:
        """The number of instances, where it was the same in all runs that had the fold."""
        counts = {float(v[0]) for v in self.count.series.samples if v.size}
        return counts.pop() if len(counts) == 1 else None

    @property
    def way(self) -> str:
        """How totals are predicted: ``sum of parts``, ``count x each``, or ``total`` (directly)."""
        if self.parts:
            return "sum of parts"
        if (
            self.kind == "run"
            or self.each.law is None
            or (self.count.law is None and self.steady is None)
        ):
            return "total"
        if self.steady is not None or (self.each.certain and self.count.certain):
            return "count x each"
        return "total" if self.total.certain else "count x each"

    def predict_total(self, scale: float, coverage: float = COVERAGE) -> Prediction:
        """Give the fold's total at a scale; the interval holds what a run will show.

        Parameters
        ----------
        scale : float
        coverage : float
        """
        if self.parts:
            return sum_of([part.predict_total(scale, coverage) for part in self.parts])
        if self.way == "total":
            return self.total.predict(scale, coverage=coverage)
        number = self.steady
        if number is None:
            number = self.count.predict(scale).value
        one = self.each.predict(scale, instances=max(number, 1.0), coverage=coverage)
        ends: Sequence[float | None] = (one.low, one.high, one.law_low, one.law_high)
        if self.steady is None:
            low, high, law_low, law_high = self._product(scale, number, coverage)
        else:
            low, high, law_low, law_high = (None if v is None else v * number for v in ends)
        value, ratio = one.value * number, one.extrapolation_ratio
        return Prediction(scale, value, low, high, law_low, law_high, ratio)

    def _product(self, scale: float, number: float, coverage: float) -> list[float | None]:
        """Give the ends for a count and a value that are both uncertain, and independent."""
        if not (self.each.bounded and self.count.bounded):
            return [None] * 4
        points = (np.arange(_POINTS) + 0.5) / _POINTS
        tail = (1 - coverage) / 2
        counts = self.count.quantiles(scale, points, instances=None)
        value = number * self.each.predict(scale).value
        ends: list[float | None] = []
        for many in (max(number, 1.0), None):
            ones = self.each.quantiles(scale, points, instances=many)
            both = np.maximum(np.add.outer(counts, ones), -700.0).ravel()
            low, high = np.exp(np.minimum(np.quantile(both, [tail, 1 - tail]), 700.0))
            ends += [min(float(low), value), max(float(high), value)]
        return ends

    @property
    def formula(self) -> str:
        """The law with its numbers, or what the row is the sum of."""
        if not self.parts:
            return self.each.formula
        said = " + ".join(part.key.removesuffix(ON_PATH) for part in self.parts)
        if len(self.parts) > _NAMED_PARTS:
            said = f"the sum of {len(self.parts)} parts"
        return f"{self.metric} = {said}"

    def to_dict(self, at: float) -> dict[str, Any]:
        """Give the row as plain data, with its prediction at a scale; unknown is None."""
        own = not self.parts
        one, total = self.each.predict(at), self.predict_total(at)
        number = self.steady if self.steady is not None else self.count.predict(at).value
        return {
            "key": self.key,
            "kind": self.kind,
            "metric": self.metric,
            "direction": self.direction,
            "law": self.each.law if own else None,
            "formula": self.formula,
            "probability": self.each.probability if own else None,
            "cannot_distinguish": list(self.each.alike) if own else [],
            "count_law": self.count.law,
            "count_formula": self.count.formula,
            "total_formula": self.total.formula,
            "total_way": self.way,
            "parts": [part.key for part in self.parts],
            "instances": [len(v) for v in self.each.series.samples],
            "paired": bool(self.each.sample and self.each.sample.paired),
            "at": at,
            "each": _plain(one if own else total),
            "count": _finite(number),
            "total": _plain(total),
            "extrapolated": one.extrapolated,
            "extrapolation_ratio": one.extrapolation_ratio,
            "notes": sorted({*self.each.notes, *(f"count: {n}" for n in self.count.notes)}),
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _plain(p: Prediction) -> dict[str, float | None]:
    return {
        name: _finite(getattr(p, name)) for name in ("value", "low", "high", "law_low", "law_high")
    }


def lines(row: ScalingRow, at: float) -> list[str]:
    """Write one row: the law, what it expects, and what is to be known of it."""
    unit = {"bytes": format_bytes, "ops": format_number}.get(row.metric, format_seconds)
    total = row.predict_total(at)
    number = "" if row.steady == 1 or row.parts else f" each, {row.count.formula}"
    expected = unit(total.value)
    if total.low is not None and total.high is not None:
        expected += f" [{unit(total.low)}, {unit(total.high)}]"
    first = f"  {row.key}: {row.formula}{number}; total {expected} ({row.way})"
    said = []
    if row.each.alike and not row.parts:
        said.append(f"cannot distinguish {row.each.law} from {', '.join(row.each.alike)}")
    if total.extrapolated:
        said.append(f"extrapolated x {format_number(total.extrapolation_ratio, 2)}")
    said += () if row.parts else row.each.notes
    return [first, *(f"    {text}" for text in said)]
