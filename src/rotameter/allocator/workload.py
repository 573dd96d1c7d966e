"""Tasks with known needs, to try allocators on: one entry a task, in order of completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.units import many

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from rotameter.profiler.trace import Trace
    from rotameter.profiler.view import View

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = ["WINDOW", "Workload", "from_trace", "near_limit", "of_unknown_state", "orders"]

AT_LIMIT = 0.03
"""A peak within this of its request may be the request's doing."""

WINDOW = 256
"""Orders are shuffled inside stretches of so many tasks."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What each task needed and how long it ran.

    Attributes
    ----------
    name : str
    group : ndarray of int64, shape (n,)
        Codes into ``groups``.
    groups : tuple of str
    need_bytes, wall_s : ndarray of float64, shape (n,)
        Peak memory and duration, positive.
    size : ndarray of float64, shape (n,)
        A number known before the run, NaN = unknown.
    asked_bytes : ndarray of float64, shape (n,)
        What the user asked for, NaN = unknown.
    curve : ndarray of float64, shape (n, k), optional
        Part of the run after which use first reaches 1/k, 2/k … of the peak; without it an attempt
        that exceeds its allocation takes the whole time.
    deps : tuple of (int, int)
        (task, what it depends on), places.
    at_most : ndarray of bool, shape (n,), optional
        Peaks that are upper bounds only: of a cgroup with its page cache, or as large as the limit.
    killed : tuple of (int, float)
        (group, what it was granted) of each attempt that ended for lack of memory.
    killed_blind : tuple of int
        Group of each such attempt of which it is not known what it was granted.
    kinds : ndarray of str, shape (n,), optional
        How each peak was obtained; without it all are exact.
    unmet : tuple of (int, float), optional
        (group, the most it was granted, NaN = unknown) of each task that ran out of memory and of
        which no need above that is known; without it each killed attempt is one.
    cached : ndarray of bool, shape (n,), optional
        Tasks of an earlier run, taken from a cache: what they needed is known, this run held
        nothing for them.
    least : tuple of (int, float)
        (group, peak) of each completed task whose peak is a lower bound.
    notes : tuple of str
        What was taken for granted.
    """

    name: str
    group: Codes
    groups: tuple[str, ...]
    need_bytes: Floats
    wall_s: Floats
    size: Floats
    asked_bytes: Floats
    curve: Floats | None = None
    deps: tuple[tuple[int, int], ...] = field(default=())
    at_most: Mask | None = None
    killed: tuple[tuple[int, float], ...] = field(default=())
    killed_blind: tuple[int, ...] = field(default=())
    kinds: NDArray[Any] | None = None
    unmet: tuple[tuple[int, float], ...] | None = None
    cached: Mask | None = None
    least: tuple[tuple[int, float], ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.group)

    @property
    def lacks(self) -> tuple[tuple[int, float], ...]:
        """Group of each task whose need was never seen, and what was not enough for it."""
        if self.unmet is not None:
            return self.unmet
        return (*self.killed, *((group, float("nan")) for group in self.killed_blind))

    def first(self, rows: int | None) -> Workload:
        """Give the first rows alone; dependencies on others are left out."""
        return self if rows is None else self.between(0, rows)

    def between(self, begin: int, end: int) -> Workload:
        """Give the rows from ``begin`` to before ``end`` alone, as :meth:`first` does."""
        kept = slice(begin, end)
        end = min(end, len(self))
        return replace(
            self,
            group=self.group[kept],
            need_bytes=self.need_bytes[kept],
            wall_s=self.wall_s[kept],
            size=self.size[kept],
            asked_bytes=self.asked_bytes[kept],
            curve=None if self.curve is None else self.curve[kept],
            deps=tuple(
                (a - begin, b - begin)
                for a, b in self.deps
                if begin <= a < end and begin <= b < end
            ),
            at_most=None if self.at_most is None else self.at_most[kept],
            kinds=None if self.kinds is None else self.kinds[kept],
            cached=None if self.cached is None else self.cached[kept],
        )

    def failed_s(self, at: int, granted_bytes: float) -> float:
        """Give how long an attempt runs that gets less than it needs."""
        wall = float(self.wall_s[at])
        if self.curve is None or np.isnan(self.curve[at]).any():
            return wall
        known = self.curve[at]
        grid = np.arange(len(known) + 1) / len(known)
        part = granted_bytes / float(self.need_bytes[at])
        return wall * float(np.interp(part, grid, np.r_[0.0, known]))


def from_trace(trace: Trace, name: str = "") -> Workload:
    """Take the completed tasks of a trace whose peak memory and duration are known.

    A peak that is a lower bound only (killed for memory) is no need; tasks are in the order in
    which they ended, else as recorded, those that came from the cache of an earlier run first.
    Where an input records no state at all, what has a peak and a duration counts as completed.

    Parameters
    ----------
    trace : Trace
    name : str

    Returns
    -------
    Workload
        Of no tasks where none has a peak.
    """
    from rotameter.profiler.view import lookup, view

    seen = view(trace)
    rows, earlier, notes = _usable(trace, seen)
    names = (*seen.groups, "(unnamed)")
    group = seen.group % len(names)
    place = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    place[seen.task[rows]] = np.arange(len(rows))
    place[-1] = -1
    table = trace.table("deps")
    one = place[lookup(table["task_id"], seen.task_ids)]
    two = place[lookup(table["depends_on"], seen.task_ids)]
    both = (one >= 0) & (two >= 0) & (one != two)
    peak, asked = seen.number("peak_memory_bytes"), seen.number("requested_memory_bytes")
    dead, had, unmet = _killed(seen, rows)
    blind = np.isnan(had)
    low = seen.ok & ~seen.nested & (peak > 0) & (seen.peak_kinds == "lower_bound")
    return Workload(
        name=name,
        group=group[rows],
        groups=names,
        need_bytes=peak[rows],
        wall_s=seen.wall[rows],
        size=_sizes(seen.tasks["features"], len(seen.tasks))[rows],
        asked_bytes=asked[rows],
        deps=tuple(zip(one[both].tolist(), two[both].tolist(), strict=True)),
        at_most=near_limit(peak, asked)[rows] | (seen.peak_kinds[rows] == "upper_bound"),
        killed=tuple(zip(group[dead[~blind]].tolist(), had[~blind].tolist(), strict=True)),
        killed_blind=tuple(group[dead[blind]].tolist()),
        kinds=seen.peak_kinds[rows],
        unmet=tuple((int(group[row]), most) for row, most in unmet),
        cached=earlier[rows],
        least=tuple(zip(group[low].tolist(), peak[low].tolist(), strict=True)),
        notes=notes,
    )


def near_limit(peak: Floats, asked: Floats) -> Mask:
    """Say which peaks are so near to what was asked for that they may be the request's doing.

    Examples
    --------
    >>> near_limit(np.array([3.95e9, 1e9, 1e9]), np.array([4e9, 4e9, np.nan])).tolist()
    [True, False, False]
    """
    with np.errstate(invalid="ignore"):
        near: Mask = np.abs(peak - asked) <= AT_LIMIT * asked
    return near


def _usable(trace: Trace, seen: View) -> tuple[Codes, Mask, tuple[str, ...]]:
    """Give attempts that show a need, in order; which are of an earlier run; what is assumed."""
    fit = _fit(seen)
    # One with times was looked up here: its figures are those of the look-up.
    earlier = seen.outcome_in("cached") & np.isnan(seen.started) & np.isnan(seen.ended)
    done = seen.ok.copy()
    notes: tuple[str, ...] = ()
    if _stateless(trace, seen) and fit.any():
        done[:] = True
        told = many(int(fit.sum()), "task")
        notes = (f"no state is recorded: {told} with a peak and a duration count as completed",)
    # A task that ran is known from its own run; from a cache it is told of again and again.
    ran = np.zeros(len(seen.task_ids) + 1, dtype=bool)
    ran[seen.task[fit & done]] = True
    from_cache = np.flatnonzero(fit & earlier & ~ran[seen.task])
    _, once = np.unique(seen.task[from_cache], return_index=True)
    rows = np.concatenate([from_cache[np.sort(once)], np.flatnonzero(fit & done)])
    ended = np.where(earlier[rows], -np.inf, np.nan_to_num(seen.ended[rows], nan=np.inf))
    return rows[np.argsort(ended, kind="stable")], earlier, notes


def _fit(seen: View) -> Mask:
    """Say which attempts would show a need, had they completed."""
    fit: Mask = (
        ~seen.nested
        & (seen.number("peak_memory_bytes") > 0)
        & (seen.wall > 0)
        & (seen.peak_kinds != "lower_bound")
        & (seen.peak_kinds != "missing")
    )
    return fit


def of_unknown_state(trace: Trace) -> int:
    """Count attempts with a peak and a duration of which it is not known how they ended."""
    from rotameter.profiler.view import view

    seen = view(trace)
    return int((_fit(seen) & seen.outcome_in(None, "unknown")).sum())


def _stateless(trace: Trace, seen: View) -> bool:
    """Say whether an input has nothing on how its tasks ended."""
    said = ("outcome_kind", "error", "exit_code", "signal")
    return (
        trace.meta.get("origin") == "imported"
        and bool(seen.outcome_in(None, "unknown").all())
        and all(seen.tasks[name].null_count == seen.n for name in said)
    )


def _killed(seen: View, rows: Codes) -> tuple[Codes, Floats, list[tuple[int, float]]]:
    """Give what ran out of memory, and with how much.

    Returns
    -------
    dead : ndarray of int64
        Attempts that ran out of memory.
    had : ndarray of float64
        What each of them had, NaN = unknown.
    unmet : list of (int, float)
        One of the attempts of each task whose need was not seen later, and the most that it had.
    """
    dead = np.flatnonzero(seen.outcome_in("oom") & ~seen.nested)
    peak = np.where(seen.peak_kinds == "lower_bound", seen.number("peak_memory_bytes"), np.nan)
    granted = np.fmax(seen.number("granted_memory_bytes"), seen.number("requested_memory_bytes"))
    had = np.fmax(granted, peak)[dead]
    had[~(had > 0)] = np.nan
    need = np.full(len(seen.task_ids) + 1, np.nan)
    need[seen.task[rows]] = seen.number("peak_memory_bytes")[rows]
    most: dict[int, tuple[int, float]] = {}
    for row, amount in zip(dead.tolist(), had.tolist(), strict=True):
        task = int(seen.task[row])
        before = most.get(task, (row, float("nan")))[1]
        most[task] = (row, float(np.fmax(before, amount)))
    met = need[list(most)] > np.nan_to_num([amount for _, amount in most.values()])
    unmet = [one for one, known in zip(most.values(), met.tolist(), strict=True) if not known]
    return dead, had, unmet


def _sizes(features: Any, n: int) -> Floats:
    """Give each attempt's ``input_bytes`` among what was known before it ran, NaN = unknown."""
    if features.null_count == n:
        return np.full(n, np.nan)
    known = pc.map_lookup(features, pa.scalar("input_bytes"), "last").cast(pa.float64())
    made: Floats = pc.fill_null(known, float("nan")).to_numpy()
    return made


def orders(n: int, shuffles: int, rng: Generator) -> list[Sequence[int]]:
    """Give the order itself, and shuffles of it inside windows.

    Examples
    --------
    >>> [len(order) for order in orders(300, 2, np.random.default_rng(0))]
    [300, 300, 300]
    """
    made: list[Sequence[int]] = [range(n)]
    for _ in range(shuffles):
        order = np.arange(n)
        for begin in range(0, n, WINDOW):
            rng.shuffle(order[begin : begin + WINDOW])
        made.append(order.tolist())
    return made
