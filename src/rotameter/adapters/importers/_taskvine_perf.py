"""The performance log: a table with a blank between columns, their names in the first line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._taskvine_lines import MIB
from rotameter.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.importers.inputs import InputFile

__all__ = ["PERFORMANCE", "read_performance"]

PERFORMANCE = re.compile(r"#\s*timestamp\s+\w+(?:\s|$)")
_ROWS = 20_000
_MEMORY = re.compile(r"(?:total|committed|max|min|capacity)_(?:memory|disk)|inuse_cache")
_LATEST_US = 7_258_118_400 * 10**6


def read_performance(file: InputFile, build: Builder) -> None:
    """Read one log into ``samples``: of a flat stretch both ends."""
    names: list[str] = []
    rows: list[list[float]] = []
    series = _Series(build)
    for number, text in file.lines():
        if text.startswith("#"):
            found = text.lstrip("#").split()
            if found and found[0] == "timestamp":
                series.flush(names, rows)
                rows, names = [], found
            continue
        if not text.strip():
            continue
        build.records_in += 1
        values = _numbers(text.split())
        if values is None or len(values) != len(names):
            build.reject(file.name, number, f"not {len(names)} numbers")
            continue
        rows.append(values)
        if len(rows) >= _ROWS:
            series.flush(names, rows)
            rows = []
    if len(names) < 2:
        raise BadInput(f"{file.name} has no line of column names", hint="check the file")
    series.flush(names, rows)
    build.records_out = (build.records_out or 0) + series.rows


class _Series:
    def __init__(self, build: Builder) -> None:
        self._build, self.rows = build, 0

    def flush(self, names: list[str], rows: list[list[float]]) -> None:
        """Turn rows into samples, a metric after the other."""
        if not rows:
            return
        self.rows += len(rows)
        table: NDArray[np.float64] = np.array(rows)
        at = table[:, 0].astype(np.int64) * 1000
        for column, name in enumerate(names[1:], start=1):
            values = table[:, column]
            keep = np.ones(len(values), dtype=bool)
            same = values[1:] == values[:-1]
            # Inside a flat stretch both of its ends say all.
            keep[1:-1] = ~(same[1:] & same[:-1])
            metric, scale = _unit(name)
            self._extend(at[keep], metric, values[keep] * scale)

    def _extend(self, at: NDArray[np.int64], metric: str, values: NDArray[np.float64]) -> None:
        size = len(at)
        columns: dict[str, Any] = {
            "at_ns": at,
            "subject": _same("manager", size),
            "metric": _same(metric, size),
            "value": values,
        }
        self._build.extend("samples", columns)


def _same(word: str, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(word, pa.string()), size)


def _unit(name: str) -> tuple[str, float]:
    """Give the metric's name with its unit, and what its numbers are multiplied with.

    Examples
    --------
    >>> _unit("time_send"), _unit("total_memory"), _unit("workers_idle")
    (('time_send_s', 1e-06), ('total_memory_bytes', 1048576.0), ('workers_idle', 1.0))
    """
    if name.startswith("time_when"):
        return f"{name}_us", 1.0
    if name.startswith("time_"):
        return f"{name}_s", 1e-6
    if _MEMORY.fullmatch(name):
        return f"{name}_bytes", float(MIB)
    if name == "bandwidth":
        return "bandwidth_bytes_per_s", float(MIB)
    return name[:80], 1.0


def _numbers(words: list[str]) -> list[float] | None:
    try:
        values = [float(word) for word in words]
    except ValueError:
        return None
    if not all(abs(value) < 1e18 for value in values) or not 0 < values[0] < _LATEST_US:
        return None
    return values
