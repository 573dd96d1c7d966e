"""Rows, and ratios that carry their own noise.

A row is one line of an issue's "Must reach" table: a function registered under its name gives a
value, and the harness compares it with the target. Ratios are measured in one run with the
variants alternated at random: on / off / off again. The second "off" gives the A/A ratio of the
same run; a ratio whose A/A interval spans the distance to the limit is "not resolved", not met.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ROWS", "Context", "Ratio", "Result", "bench", "best_of", "paired_ratio", "run_row"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a benchmark may use: the shared data folder, and whether long rows run in full."""

    shared: str | None = None
    full: bool = False


@dataclass(slots=True)
class Result:
    """What one benchmark measured. ``met`` None means "not resolved" (see ``note``)."""

    value: float | int | None
    unit: str
    interval: tuple[float, float] | None = None
    met: bool | None = None
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    issue: int
    target: str
    run: Callable[[Context], Result]


ROWS: dict[str, _Row] = {}


def bench(name: str, *, issue: int, target: str) -> Callable[..., Any]:
    """Register a row. ``target`` is such as ``"<= 1.02"``, ``">= 200000"`` or ``"== 0"``."""

    def register(function: Callable[[Context], Result]) -> Callable[[Context], Result]:
        ROWS[name] = _Row(name, issue, target, function)
        return function

    return register


def _meets(value: float, target: str) -> bool:
    operator, limit = target.split()[:2]
    bound = float(limit)
    return {"<=": value <= bound, ">=": value >= bound, "==": value == bound}[operator]


def best_of(call: Callable[[], float], repeats: int = 5) -> tuple[float, tuple[float, float]]:
    """Median and (min, max) of several measurements of a cost."""
    values = sorted(call() for _ in range(repeats))
    return statistics.median(values), (values[0], values[-1])


@dataclass(frozen=True, slots=True)
class Ratio:
    """A paired ratio on/off with its 95 % interval, and the off/off ratio beside it."""

    value: float
    interval: tuple[float, float]
    aa: float
    aa_interval: tuple[float, float]
    rounds: int

    def met(self, limit: float) -> bool | None:
        """True, False, or None when this run's noise does not resolve the distance."""
        distance = abs(limit - self.value)
        noise = max(abs(self.aa_interval[0] - 1), abs(self.aa_interval[1] - 1))
        if noise >= distance:
            return None
        return self.value <= limit


def _median_interval(values: Sequence[float], seed: int) -> tuple[float, float]:
    """Bootstrap 95 % interval of a median."""
    generator = random.Random(seed)
    medians = sorted(
        statistics.median(generator.choices(values, k=len(values))) for _ in range(2000)
    )
    return medians[50], medians[1949]


def paired_ratio(
    measure: Callable[[bool], Mapping[str, float]], *, rounds: int = 15, seed: int = 0
) -> dict[str, Ratio]:
    """Measure on/off/off in random order per round; give the ratio of each clock.

    Parameters
    ----------
    measure : callable
        ``measure(on)`` runs the work once and gives {clock name: seconds}.
    rounds : int
        At least 15 for a row that counts.
    """
    generator = random.Random(seed)
    on: dict[str, list[float]] = {}
    off: dict[str, list[float]] = {}
    again: dict[str, list[float]] = {}
    measure(True)
    measure(False)
    for _ in range(rounds):
        order = [("on", True), ("off", False), ("again", False)]
        generator.shuffle(order)
        for name, flag in order:
            into = {"on": on, "off": off, "again": again}[name]
            for clock, seconds in measure(flag).items():
                into.setdefault(clock, []).append(seconds)
    out = {}
    for clock in on:
        # Each "on" is compared with the mean of the two "off" of its own round.
        ratios = [
            a / ((b + c) / 2) for a, b, c in zip(on[clock], off[clock], again[clock], strict=True)
        ]
        same = [b / c for b, c in zip(off[clock], again[clock], strict=True)]
        out[clock] = Ratio(
            statistics.median(ratios),
            _median_interval(ratios, seed),
            statistics.median(same),
            _median_interval(same, seed + 1),
            rounds,
        )
    return out


def quietest(ratios: Mapping[str, Ratio]) -> tuple[str, Ratio]:
    """Give the clock whose A/A interval is the narrowest."""
    name = min(ratios, key=lambda n: ratios[n].aa_interval[1] - ratios[n].aa_interval[0])
    return name, ratios[name]


def ratio_result(ratios: Mapping[str, Ratio], limit: float) -> Result:
    """Make a result of paired ratios, on the clock with the smaller A/A spread."""
    clock, ratio = quietest(ratios)
    met = ratio.met(limit)
    low, high = ratio.aa_interval
    note = f"{clock}; A/A {ratio.aa:.3f} [{low:.3f}, {high:.3f}], {ratio.rounds} rounds"
    if met is None:
        note += "; not resolved"
    others = [f"{n} {r.value:.3f} (A/A {r.aa:.3f})" for n, r in ratios.items() if n != clock]
    note += "; " + ", ".join(others) if others else ""
    detail = {
        n: {"ratio": r.value, "interval": r.interval, "aa": r.aa, "aa_interval": r.aa_interval}
        for n, r in ratios.items()
    }
    return Result(ratio.value, "ratio", ratio.interval, met, note, detail)


def run_row(name: str, context: Context) -> dict[str, Any]:
    """Run one row and give it as plain data."""
    row = ROWS[name]
    began = time.perf_counter()
    try:
        result = row.run(context)
    except Exception as error:
        result = Result(None, "", None, False, f"{type(error).__name__}: {error}")
    resolved = "not resolved" not in result.note
    met = result.met
    if met is None and resolved and result.value is not None:
        met = _meets(float(result.value), row.target)
    return {
        "row": row.name,
        "issue": row.issue,
        "value": result.value,
        "unit": result.unit,
        "target": row.target,
        "interval": result.interval,
        "seconds": round(time.perf_counter() - began, 2),
        "met": met,
        "note": result.note,
        "detail": result.detail,
        "command": f"python -m benchmarks {row.name}" + (" --full" if context.full else ""),
    }
