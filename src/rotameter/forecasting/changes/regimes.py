"""Regimes of any series of a trace: task times, memory, bandwidth, each group by itself.

A detector is handed in and runs over each group's values in order of time. Values of a trace are
amounts whose noise is in proportion to them, so detectors see their logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.errors import UsageError
from rotameter.profiler.open_ends import complete
from rotameter.values import Change

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View
    from rotameter.protocols import Detector

    Floats = NDArray[np.float64]

__all__ = ["SERIES", "Regime", "changes_in", "regimes", "regimes_of"]


@dataclass(frozen=True, slots=True)
class Regime:
    """A stretch of a group's values that are alike.

    Parameters
    ----------
    group : str
    begins_ns, ends_ns : int
        Times of its first and last value.
    n : int
        Values in it.
    level : float
        Their median.
    change : Change, optional
        What began it, in the values' own unit; None for a group's first.
    """

    group: str
    begins_ns: int
    ends_ns: int
    n: int
    level: float
    change: Change | None = None


def _confirmed() -> Detector:
    from rotameter.forecasting.changes.confirm import Confirmed

    return Confirmed()


def changes_in(
    at_ns: Sequence[int] | NDArray[np.int64],
    values: Sequence[float] | Floats,
    *,
    make: Callable[[], Detector] | None = None,
    log: bool = True,
) -> list[Change]:
    """Give the changes in one series, in order of time; levels are medians of what is between them.

    Parameters
    ----------
    at_ns, values : array_like, shape (n,)
        In any order; NaN is unknown, as is what is not positive where logarithms are taken.
    make : callable, optional
        Makes a fresh detector; by default a CUSUM whose alarms are confirmed.
    log : bool
        Whether the detector sees logarithms.

    Examples
    --------
    >>> wall = [1.0, 1.2, 0.9, 1.1] * 10 + [3.0, 3.3, 2.8, 3.1] * 5
    >>> [(c.at_ns, c.before, c.after) for c in changes_in(range(60), wall)]
    [(40, 1.05, 3.05)]
    """
    at, x = _in_order(at_ns, values, log)
    bounds, sure = _bounds(x, make or _confirmed, log)
    return [one.change for one in _cut("", at, x, bounds, sure) if one.change is not None]


def regimes(
    at_ns: Sequence[int] | NDArray[np.int64],
    values: Sequence[float] | Floats,
    groups: Sequence[str | None] | None = None,
    *,
    make: Callable[[], Detector] | None = None,
    log: bool = True,
) -> list[Regime]:
    """Give the regimes of each group's values, groups in order of appearance.

    Parameters are as for :func:`changes_in`; ``groups`` names each value's group, and a value
    without one is left out.

    Examples
    --------
    >>> found = regimes(range(60), [1.0, 1.2, 0.9, 1.1] * 10 + [3.0, 3.2] * 10, ["g"] * 60)
    >>> [(one.group, one.n, one.level) for one in found]
    [('g', 40, 1.05), ('g', 20, 3.1)]
    """
    at, x = np.asarray(at_ns, dtype=np.int64), np.asarray(values, dtype=np.float64)
    names = ["" for _ in range(len(x))] if groups is None else list(groups)
    if not len(at) == len(x) == len(names):
        raise UsageError(f"{len(at)} times, {len(x)} values and {len(names)} groups do not match")
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        if name is not None:
            rows.setdefault(name, []).append(row)
    found: list[Regime] = []
    for name, mine in rows.items():
        times, known = _in_order(at[mine], x[mine], log)
        found += _cut(name, times, known, *_bounds(known, make or _confirmed, log))
    return found


def regimes_of(
    trace: Trace, series: str = "time", *, make: Callable[[], Detector] | None = None
) -> list[Regime]:
    """Give the regimes of each task group of a trace, by start of the attempts that ended well.

    Parameters
    ----------
    trace : Trace
    series : {"time", "memory", "read bandwidth", "write bandwidth"}
        Seconds, bytes at the peak, or bytes a second of I/O time.
    make : callable, optional
        Makes a fresh detector.

    Examples
    --------
    >>> from rotameter.profiler.trace import Trace
    >>> rows = [
    ...     {"task_id": f"t{k}", "group": "g", "outcome": "ok", "started_ns": k * 10**9,
    ...      "ended_ns": (k + 1) * 10**9, "wall_s": 1.0 + 0.1 * (k % 3) + (k >= 40)}
    ...     for k in range(60)
    ... ]
    >>> [(one.n, round(one.level, 2)) for one in regimes_of(Trace.from_tables({"tasks": rows}))]
    [(40, 1.1), (20, 2.1)]
    """
    from rotameter.profiler.view import view

    if series not in SERIES:
        raise UsageError(f"no series {series!r}", hint=f"known: {', '.join(SERIES)}")
    seen = view(trace)
    values = SERIES[series](seen)
    known = np.flatnonzero(seen.ran & complete(seen) & (seen.group >= 0) & np.isfinite(values))
    started = seen.tasks["started_ns"].take(known).to_numpy()
    names = [seen.groups[code] for code in seen.group[known].tolist()]
    return regimes(started, values[known], names, make=make)


def _bandwidth(column: str) -> Callable[[View], Floats]:
    def of(seen: View) -> Floats:
        seconds = seen.number("io_s")
        good = (seconds > 0) & (seen.number(column) > 0)
        made = np.full(seen.n, np.nan)
        made[good] = seen.number(column)[good] / seconds[good]
        return made

    return of


SERIES: dict[str, Callable[[Any], Floats]] = {
    "time": lambda seen: seen.wall,
    "memory": lambda seen: seen.task_memory,
    "read bandwidth": _bandwidth("read_bytes"),
    "write bandwidth": _bandwidth("write_bytes"),
}
"""Series of a trace → its value for each attempt."""


def _in_order(at_ns: Any, values: Any, log: bool) -> tuple[NDArray[np.int64], Floats]:
    at, x = np.asarray(at_ns, dtype=np.int64), np.asarray(values, dtype=np.float64)
    if at.shape != x.shape or at.ndim != 1:
        raise UsageError(f"{at.size} times and {x.size} values do not match")
    known = np.isfinite(x) & (x > 0) if log else np.isfinite(x)
    at, x = at[known], x[known]
    order = np.argsort(at, kind="stable")
    return at[order], x[order]


def _bounds(
    x: Floats, make: Callable[[], Detector], log: bool
) -> tuple[list[int], list[float | None]]:
    """Give where each regime but the first begins, and how sure that is."""
    watch, bounds = make(), [0]
    sure: list[float | None] = [None]
    # Times may be alike; the place in the order is what tells values apart.
    for at, value in enumerate(np.log(x).tolist() if log else x.tolist()):
        change = watch.update(at, value)
        if change is not None and bounds[-1] < change.at_ns <= at:
            bounds.append(int(change.at_ns))
            sure.append(change.confidence)
    return bounds, sure


def _cut(
    group: str, at: NDArray[np.int64], x: Floats, bounds: list[int], sure: list[float | None]
) -> list[Regime]:
    found: list[Regime] = []
    for begin, end, confidence in zip(bounds, [*bounds[1:], len(x)], sure, strict=True):
        if end == begin:
            continue
        level = float(np.median(x[begin:end]))
        change = None
        if found:
            change = Change(int(at[begin]), found[-1].level, level, confidence)
        found.append(Regime(group, int(at[begin]), int(at[end - 1]), end - begin, level, change))
    return found
