"""A fitted law as a formula with units."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rotameter.units import format_bytes, format_number, format_seconds

if TYPE_CHECKING:
    from rotameter.profiler.laws.posterior import Candidate

__all__ = ["written"]

_UNITS: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "busy_s": format_seconds,
    "wall_s": format_seconds,
    "makespan_s": format_seconds,
}
_NOTHING = 1e-3
_STEEP = 3.0
_PLAIN_SCALE = 10.0
"""Up to this least scale the number before ``k^a`` is its value at k = 1."""


def written(one: Candidate, metric: str, least: float) -> str:
    """Write a curve with its numbers and the unit of the metric.

    Parameters
    ----------
    one : Candidate
    metric : str
    least : float
        The smallest scale; powers of large scales are written relative to it.
    """
    unit = _UNITS.get(metric, format_number)
    level, k0, kind = math.exp(one.level), one.k0, one.law.kind
    if kind == "linear":
        rest, each = level * (1 - one.best), level * one.best / k0
        if abs(rest) < _NOTHING * level:
            return f"{unit(each)} · k"
        if rest < 0:
            return f"{unit(each)} · k - {unit(-rest)}"
        return f"{unit(rest)} + {unit(each)} · k"
    if kind == "power":
        base = 1.0 if least <= _PLAIN_SCALE and abs(one.best) <= _STEEP else least
        over = "k" if base == 1.0 else f"(k/{format_number(base)})"
        exponent = f"{one.best:.3g}"
        return f"{unit(one.at(base))} · {over}" + ("" if exponent == "1" else f"^{exponent}")
    if kind == "inverse":
        return f"{unit(level * k0)} / k"
    if kind == "klog":
        return f"{unit(level / k0 / math.log(k0))} · k · log k"
    if kind == "klog1":
        return f"{unit(level / k0 / math.log1p(k0))} · k · log(1 + k)"
    return unit(level)
