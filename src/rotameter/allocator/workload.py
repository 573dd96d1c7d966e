"""Tasks with known needs, to try allocators on: one entry a task, in order of completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from rotameter.profiler.trace import Trace

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = ["WINDOW", "Workload", "from_trace", "orders"]

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

    def __len__(self) -> int:
        return len(self.group)

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
    which they ended, else as recorded.

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
    rows = np.flatnonzero(
        seen.ok
        & ~seen.nested
        & (seen.number("peak_memory_bytes") > 0)
        & (seen.wall > 0)
        & (seen.peak_kinds != "lower_bound")
        & (seen.peak_kinds != "missing")
    )
    ended = np.nan_to_num(seen.ended[rows], nan=np.inf)
    rows = rows[np.argsort(ended, kind="stable")]
    names = (*seen.groups, "(unnamed)")
    place = np.full(len(seen.task_ids) + 1, -1, dtype=np.int64)
    place[seen.task[rows]] = np.arange(len(rows))
    place[-1] = -1
    table = trace.table("deps")
    one = place[lookup(table["task_id"], seen.task_ids)]
    two = place[lookup(table["depends_on"], seen.task_ids)]
    both = (one >= 0) & (two >= 0) & (one != two)
    peak, asked = seen.number("peak_memory_bytes"), seen.number("requested_memory_bytes")
    with np.errstate(invalid="ignore"):
        near = np.abs(peak - asked) <= AT_LIMIT * asked
    granted = np.fmax(seen.number("granted_memory_bytes"), asked)
    killed = seen.outcome_in("oom") & ~seen.nested
    dead, blind = (np.flatnonzero(killed & known) for known in (granted > 0, ~(granted > 0)))
    return Workload(
        name=name,
        group=seen.group[rows] % len(names),
        groups=names,
        need_bytes=peak[rows],
        wall_s=seen.wall[rows],
        size=_sizes(seen.tasks["features"], len(seen.tasks))[rows],
        asked_bytes=asked[rows],
        deps=tuple(zip(one[both].tolist(), two[both].tolist(), strict=True)),
        at_most=near[rows] | (seen.peak_kinds[rows] == "upper_bound"),
        killed=tuple(
            (int(group), float(had))
            for group, had in zip(seen.group[dead] % len(names), granted[dead], strict=True)
        ),
        killed_blind=tuple((seen.group[blind] % len(names)).tolist()),
        kinds=seen.peak_kinds[rows],
    )


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
