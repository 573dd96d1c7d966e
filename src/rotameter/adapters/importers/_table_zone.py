"""Tables in local times beside others with a zone: the zone of the first, told by common jobs.

A job that is in both starts, in the local one, by the zone's offset later than in UTC. Before and
after a change of the clocks there are two offsets, each for its part of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._clock_changes import may_change, whole_hours
from rotameter.adapters.importers._table_attempts import codes
from rotameter.adapters.importers.times import zone_text
from rotameter.units import many

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers._table_twice import Part
    from rotameter.adapters.importers.building import Builder

__all__ = ["LOCAL", "ZONED", "Told", "settle", "told_by_jobs"]

LOCAL, ZONED = 1, 2
"""Sides: rows of tables in local times, and of those whose times carry a zone."""

_MISSING = np.iinfo(np.int64).min
_QUARTER_NS = 900 * 10**9
_HOUR_NS = 4 * _QUARTER_NS
_MOST_NS = 15 * _HOUR_NS
_DAY_NS = 24 * _HOUR_NS
_SUNDAY, _THURSDAY = 6, 3
"""Days of a week that begins on Monday (0); 1 January 1970 was a Thursday."""
_SURE = 3
"""So many times do not lie the same quarter hours apart by chance."""


class _Kinds(Protocol):
    zoned: bool
    local: bool


@dataclass(frozen=True)
class Told:
    """What jobs tell that are in tables with local times and in others with a zone.

    Attributes
    ----------
    jobs : int
        How many are in both; where they do not agree, how many of them have other starts.
    east_ns : tuple of int
        The offsets from UTC, one after the other; none where the jobs do not agree.
    until_ns : tuple of int
        Local times at which the next offset begins.
    sure : bool
        Whether they are enough to go by.
    """

    jobs: int = 0
    east_ns: tuple[int, ...] = ()
    until_ns: tuple[int, ...] = ()
    sure: bool = False

    def words(self) -> str:
        """Say what became of the times without a zone.

        Examples
        --------
        >>> Told().words()
        'some times carry a zone and others do not: those are read as UTC'
        """
        said = "some times carry a zone and others do not: those "
        if not self.jobs:
            return f"{said}are read as UTC"
        zones = " and ".join(dict.fromkeys(map(zone_text, self.east_ns)))
        both = f"{many(self.jobs, 'job')} in both"
        if self.sure:
            return (
                f"{said}were taken as local times of {zones}, as told by {both}; if that is "
                "wrong, give their zone with --utc-offset"
            )
        if zones:
            return (
                f"{said}are read as UTC; {both}, {zones} apart, counted twice: give "
                "--utc-offset if that is the zone of those without"
            )
        return (
            f"{said}are read as UTC; {both} with other starts: if they are the same jobs, they "
            "are counted twice (give the zone of those without with --utc-offset)"
        )


def settle(build: Builder, parts: Sequence[Part], kinds: Mapping[int, _Kinds]) -> None:
    """Put local times of tables onto the clock of the others, where common jobs tell how.

    Parameters
    ----------
    build : Builder
        Has the rows of ``parts``; is told what became of them.
    parts : sequence of Part
    kinds : mapping
        What kinds of times a file has, by its number.
    """
    sides = {file: _side(one) for file, one in kinds.items()}
    tasks = build.gathered("tasks")
    sizes = [part.size for part in parts]
    told = Told()
    if len(tasks) == sum(sizes):
        side = np.repeat([sides.get(part.file, 0) for part in parts], sizes)
        told = told_by_jobs(tasks, side)
        for name in tasks.column_names if told.sure else ():
            if name.endswith("_ns"):
                build.replace("tasks", name, _moved(tasks[name], told, side == LOCAL))
    build.warn(told.words())
    if told.sure and any(one.local and one.zoned for one in kinds.values()):
        build.warn("of tables with times of both kinds, those without a zone are read as UTC")


def _side(kinds: _Kinds) -> int:
    if kinds.local == kinds.zoned:
        return 0
    return LOCAL if kinds.local else ZONED


def told_by_jobs(tasks: pa.Table, side: NDArray[np.int64]) -> Told:
    """Find the zone of local times.

    Parameters
    ----------
    tasks : pyarrow.Table
        With ``task_id``, ``submitted_ns``, ``started_ns`` and ``ended_ns``.
    side : numpy.ndarray
        Of each row ``LOCAL``, ``ZONED``, or another number.

    Examples
    --------
    >>> hour = 3600 * 10**9
    >>> at = pa.array([9 * hour, 10 * hour, 12 * hour, 7 * hour, 8 * hour, 10 * hour])
    >>> none = pa.nulls(6, pa.int64())
    >>> jobs = pa.table({"task_id": list("abcabc"), "submitted_ns": none, "started_ns": at,
    ...                  "ended_ns": none})
    >>> told = told_by_jobs(jobs, np.repeat([LOCAL, ZONED], 3))
    >>> told.jobs, told.east_ns, told.sure
    (3, (7200000000000,), True)
    """
    at = {
        name: pc.fill_null(tasks[name], _MISSING).to_numpy()
        for name in ("started_ns", "ended_ns", "submitted_ns")
    }
    code = codes(tasks["task_id"])
    (ids, local), (others, zoned) = (_once(code, at, side == one) for one in (LOCAL, ZONED))
    _, one, two = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
    local, zoned = local[one], zoned[two]
    order = np.argsort(at["started_ns"][zoned], kind="stable")
    local, zoned = local[order], zoned[order]
    utc = at["started_ns"][zoned]
    east = at["started_ns"][local] - utc
    if not east.any():
        return Told()
    if (east % _QUARTER_NS).any() or np.abs(east).max() > _MOST_NS:
        return Told(int(np.count_nonzero(east)))
    until = _changes(utc, east)
    if until is None:
        return Told(int(np.count_nonzero(east)))
    steps = np.flatnonzero(np.concatenate(([True], east[1:] != east[:-1])))
    agree = len(east) + _agreeing(at, local, zoned, east[steps])
    return Told(len(east), tuple(east[steps].tolist()), tuple(until), agree >= _SURE)


def _once(
    code: NDArray[np.int64], at: Mapping[str, NDArray[np.int64]], wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the ids that have one start among some rows, and a row of each: one that ended."""
    rows = np.flatnonzero(wanted & (at["started_ns"] != _MISSING))
    start = at["started_ns"]
    rows = rows[np.lexsort((at["ended_ns"][rows] == _MISSING, start[rows], code[rows]))]
    if not len(rows):
        return rows, rows
    ids, begun = code[rows], start[rows]
    new = np.concatenate(([True], (ids[1:] != ids[:-1]) | (begun[1:] != begun[:-1])))
    rows, ids = rows[new], ids[new]
    single = np.bincount(ids)[ids] == 1
    return ids[single], rows[single]


def _changes(utc: NDArray[np.int64], east: NDArray[np.int64]) -> list[int] | None:
    """Give local times at which the clocks changed between two jobs; None if they cannot have."""
    found = []
    for at in np.flatnonzero(east[1:] != east[:-1]).tolist():
        before, after = int(east[at]), int(east[at + 1])
        low = int(utc[at]) + before
        high = int(utc[at + 1]) + max(before, after)  # what a clock set back would have shown
        if abs(after - before) > _HOUR_NS or not may_change(low, high):
            return None
        hours = whole_hours(low, high, after - before)
        found.append(min(hours, key=_is_not_sunday, default=high))  # of equals the first
    return found


def _is_not_sunday(at_ns: int) -> bool:
    """Say whether it is a day on which few countries change their clocks."""
    return (at_ns // _DAY_NS + _THURSDAY) % 7 != _SUNDAY


def _agreeing(
    at: Mapping[str, NDArray[np.int64]],
    local: NDArray[np.int64],
    zoned: NDArray[np.int64],
    east: NDArray[np.int64],
) -> int:
    """Count the submissions and ends, other than the starts, that lie as far apart as these."""
    count = 0
    for name in ("submitted_ns", "ended_ns"):
        one, two = at[name][local], at[name][zoned]
        known = (one != _MISSING) & (two != _MISSING) & (one != at["started_ns"][local])
        count += int(np.isin(one[known] - two[known], east).sum())
    return count


def _moved(column: pa.ChunkedArray, told: Told, local: NDArray[np.bool_]) -> pa.Array:
    """Give times of some rows in UTC, those of others as they are."""
    known = column.is_valid().to_numpy() & local
    at = pc.fill_null(column, 0).to_numpy()
    east = np.array(told.east_ns)[np.searchsorted(np.array(told.until_ns), at, side="right")]
    moved: Any = np.where(known, at - east, at)
    return pa.array(moved, pa.int64(), mask=~column.is_valid().to_numpy())
