"""Tasks with known needs, to try allocators on: one entry a task, in order of completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.allocator.resources import MEMORY, Resource

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

__all__ = ["WINDOW", "Workload", "near_limit", "orders", "together"]

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
    need, wall_s : ndarray of float64, shape (n,)
        Peak memory (or what else the resource is, in its unit) and duration, positive.
    size : ndarray of float64, shape (n,)
        A number known before the run, NaN = unknown.
    asked : ndarray of float64, shape (n,)
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
        (group, peak) of each attempt whose peak is a lower bound: measured in part, or in a run
        that did not complete.
    notes : tuple of str
        What was taken for granted.
    resource : Resource
        What is needed and asked for; of cores and GPUs, a need that is not known is NaN.
    row : ndarray of int64, shape (n,), optional
        Which attempt of the trace each task is.
    begun : ndarray of float64, shape (n,), optional
        When each first started, seconds; NaN = unknown, -inf = before all others.
    killed_names, least_names : tuple of str
        Of the tasks of ``killed`` and ``least``, as many; nothing where they have none.
    origin_s : float, optional
        The instant that ``begun`` counts from, seconds since 1970, if known.
    """

    name: str
    group: Codes
    groups: tuple[str, ...]
    need: Floats
    wall_s: Floats
    size: Floats
    asked: Floats
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
    resource: Resource = MEMORY
    row: Codes | None = None
    begun: Floats | None = None
    killed_names: tuple[str, ...] = field(default=())
    least_names: tuple[str, ...] = field(default=())
    origin_s: float | None = None

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
            need=self.need[kept],
            wall_s=self.wall_s[kept],
            size=self.size[kept],
            asked=self.asked[kept],
            curve=None if self.curve is None else self.curve[kept],
            deps=tuple(
                (a - begin, b - begin)
                for a, b in self.deps
                if begin <= a < end and begin <= b < end
            ),
            at_most=None if self.at_most is None else self.at_most[kept],
            kinds=None if self.kinds is None else self.kinds[kept],
            cached=None if self.cached is None else self.cached[kept],
            row=None if self.row is None else self.row[kept],
            begun=None if self.begun is None else self.begun[kept],
        )

    def only(self, places: Codes) -> Workload:
        """Give some of the tasks alone, in the order of their places."""
        new = np.full(len(self), -1, dtype=np.int64)
        new[places] = np.arange(len(places))
        deps = [(int(new[a]), int(new[b])) for a, b in self.deps]
        return replace(
            self,
            group=self.group[places],
            need=self.need[places],
            wall_s=self.wall_s[places],
            size=self.size[places],
            asked=self.asked[places],
            curve=None if self.curve is None else self.curve[places],
            deps=tuple((a, b) for a, b in deps if a >= 0 and b >= 0),
            at_most=None if self.at_most is None else self.at_most[places],
            kinds=None if self.kinds is None else self.kinds[places],
            cached=None if self.cached is None else self.cached[places],
            row=None if self.row is None else self.row[places],
            begun=None if self.begun is None else self.begun[places],
        )

    def failed_s(self, at: int, granted: float) -> float:
        """Give how long an attempt runs that gets less than it needs, in the resource's unit."""
        wall = float(self.wall_s[at])
        if self.curve is None or np.isnan(self.curve[at]).any():
            return wall
        known = self.curve[at]
        grid = np.arange(len(known) + 1) / len(known)
        part = granted / float(self.need[at])
        return wall * float(np.interp(part, grid, np.r_[0.0, known]))


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


def together(works: Sequence[Workload]) -> list[Workload]:
    """Give the tasks that all of several workloads of one input have, in the order of the first.

    Parameters
    ----------
    works : sequence of Workload
        One a resource.

    Examples
    --------
    >>> one, codes = np.ones(2), np.zeros(2, dtype=np.int64)
    >>> both = [Workload("w", codes, ("g",), one * k, one, one, one, row=np.array(rows))
    ...         for k, rows in ((1, [7, 4]), (2, [4, 5]))]
    >>> [made.need.tolist() for made in together(both)]
    [[1.0], [2.0]]
    """
    rows = [np.arange(len(work)) if work.row is None else work.row for work in works]
    common = rows[0][np.logical_and.reduce([np.isin(rows[0], others) for others in rows])]
    made = []
    for work, mine in zip(works, rows, strict=True):
        order = np.argsort(mine, kind="stable")
        made.append(work.only(order[np.searchsorted(mine, common, sorter=order)]))
    return made
