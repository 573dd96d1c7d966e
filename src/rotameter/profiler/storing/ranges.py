"""Say where a query lies outside what was measured, or in a gap of it, and in which dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotameter.profiler.storing.table import DIMENSIONS, MIB, Floats

__all__ = ["Range", "ranges_of"]

# Two neighbouring levels more than a factor 8 apart, with a query that is at neither, are a gap.
_GAP_OCTAVES = 3.0
# A query within a quarter octave of a measured level is at that level.
_AT_OCTAVES = 0.25
# No measured configuration within so many octaves (all dimensions together): a hole of the grid.
_HOLE_OCTAVES = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """What was measured of one operation on one store: levels a dimension, log2."""

    levels: tuple[Floats, ...]
    points: Floats

    def clamp(self, at: Floats) -> Floats:
        """Bring log2 queries, shape (m, 4), to the nearest measured value where outside."""
        out = at.copy()
        for i, levels in enumerate(self.levels):
            if len(levels):
                out[:, i] = np.clip(np.nan_to_num(at[:, i], nan=levels[0]), levels[0], levels[-1])
        return out

    def flags(self, at: Floats) -> list[tuple[str, ...]]:
        """Give, for each of the log2 queries of shape (m, 4), why it is no interpolation."""
        found: list[list[str]] = [[] for _ in range(len(at))]
        for i, levels in enumerate(self.levels):
            for row, text in _outside(i, levels, at[:, i]):
                found[row].append(text)
        inside = self.clamp(at)
        usable = [i for i, levels in enumerate(self.levels) if len(levels)]
        for row in [r for r, texts in enumerate(found) if not texts]:
            away = np.abs(self.points[:, usable] - inside[row, usable]).sum(1)
            if len(usable) and away.min() > _HOLE_OCTAVES:
                near = self.points[int(away.argmin())]
                worst = max(usable, key=lambda i: (abs(near[i] - inside[row, i]), -i))
                found[row].append(f"no measurement near this combination ({DIMENSIONS[worst]})")
        return [tuple(texts) for texts in found]


def _outside(i: int, levels: Floats, x: Floats) -> list[tuple[int, str]]:
    name = DIMENSIONS[i]
    out: list[tuple[int, str]] = []
    if not len(levels):
        return [(int(r), f"{name} is not in the table") for r in np.flatnonzero(~np.isnan(x))]
    text = f"{name} unknown, {_text(i, levels[0])} taken"
    out += [(int(row), text) for row in np.flatnonzero(np.isnan(x))]
    for row in np.flatnonzero(x < levels[0] - _AT_OCTAVES):
        low = _text(i, levels[0])
        out.append((int(row), f"{name} {_text(i, x[row])} is below the measured {low}"))
    for row in np.flatnonzero(x > levels[-1] + _AT_OCTAVES):
        high = _text(i, levels[-1])
        out.append((int(row), f"{name} {_text(i, x[row])} is above the measured {high}"))
    inner = np.flatnonzero((x >= levels[0]) & (x <= levels[-1]))
    upper = np.clip(np.searchsorted(levels, x[inner]), 1, max(len(levels) - 1, 1))
    for row, k in zip(inner, upper, strict=True):
        if len(levels) < 2:
            continue
        low_level, high_level = levels[k - 1], levels[k]
        near = min(abs(x[row] - low_level), abs(x[row] - high_level))
        if high_level - low_level > _GAP_OCTAVES and near > _AT_OCTAVES:
            between = f"{_text(i, low_level)} and {_text(i, high_level)}"
            out.append((int(row), f"{name} {_text(i, x[row])}: nothing measured between {between}"))
    return out


def _text(i: int, octaves: float) -> str:
    value = float(2.0**octaves)
    if DIMENSIONS[i] == "size_bytes":
        return f"{value / MIB:.6g} MiB"
    return f"{value:.6g} B" if DIMENSIONS[i] == "transfer_bytes" else f"{value:.6g}"


def ranges_of(log_dims: Floats, codes: NDArray[np.int64], n: int) -> list[Range]:
    """Give the measured range of each of ``n`` (operation, store) codes."""
    out = []
    for code in range(n):
        points = np.unique(log_dims[codes == code], axis=0)
        levels = tuple(np.unique(column[~np.isnan(column)]) for column in points.T)
        out.append(Range(levels, np.nan_to_num(points)))
    return out
