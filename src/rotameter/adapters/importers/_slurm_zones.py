"""Listings in local times beside others with a zone: the zone of the first, told by common jobs.

A job that is in both starts, in the local one, by the zone's offset later than in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rotameter.adapters.importers._slurm_table import TIMES, Columns
from rotameter.adapters.importers._slurm_values import MISSING_NS, PENDING
from rotameter.adapters.importers.times import zone_text
from rotameter.units import many

__all__ = ["Zone", "told_by_jobs", "zone_words"]

_QUARTER_NS = 900 * 10**9
_MOST_NS = 15 * 3600 * 10**9
_SURE = 3
"""So many jobs do not lie the same quarter hours apart by chance."""
_SIDES = ("at_local", "at_zone")


class Zone(NamedTuple):
    """What jobs tell that are listed in local times and with a zone.

    Attributes
    ----------
    east_ns : int or None
        The one offset that they all agree on.
    jobs : int
        How many do; how many numbers are in both where they do not agree.
    sure : bool
        Whether local times were moved by it.
    """

    east_ns: int | None = None
    jobs: int = 0
    sure: bool = False


def told_by_jobs(parts: Sequence[Columns]) -> Zone:
    """Find the zone of local times; where it is sure, move them.

    Parameters
    ----------
    parts : sequence of dict
        Rows, with ``at_local`` and ``at_zone``: which have a time of either kind. Changed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> def part(zone, *hours):
    ...     no = np.zeros(3, dtype=bool)
    ...     at = {"at_zone": ~no if zone else no, "at_local": no if zone else ~no, "is_step": no}
    ...     return at | {"key": pa.array("123"), "start": np.array(hours) * 3600 * 10**9}
    >>> local = part(False, 9, 10, 12)
    >>> told_by_jobs([local, part(True, 7, 8, 10)])
    Zone(east_ns=7200000000000, jobs=3, sure=True)
    >>> (local["start"] // (3600 * 10**9)).tolist()
    [7, 8, 10]
    """
    one, two = (_starts(parts, side) for side in _SIDES)
    common = one.keys() & two.keys()
    apart = {max(one[k]) - max(two[k]) for k in common if len(one[k]) == len(two[k]) == 1}
    found = Zone(None, sum(one[key].isdisjoint(two[key]) for key in common))
    if len(apart) == 1:
        east_ns = apart.pop()
        agree = sum(not two[k].isdisjoint(at - east_ns for at in one[k]) for k in common)
        if agree == len(common) and not east_ns % _QUARTER_NS and 0 < abs(east_ns) <= _MOST_NS:
            mixed = any((p["at_local"] & p["at_zone"]).any() for p in parts if _has_both(p))
            found = Zone(east_ns, agree, agree >= _SURE and not mixed)
    if found.sure and found.east_ns is not None:
        for part in parts:
            _move(part, found.east_ns)
    return found


def _has_both(part: Columns) -> bool:
    return all(side in part for side in _SIDES)


def _starts(parts: Sequence[Columns], side: str) -> dict[str, set[int]]:
    """Give when jobs with times of one kind started."""
    found: dict[str, set[int]] = {}
    other = _SIDES[side == _SIDES[0]]
    for part in parts:
        if "start" not in part or side not in part:
            continue
        rows = part[side] & ~part.get(other, np.zeros(1, dtype=bool))
        rows = rows & ~part["is_step"] & (part["start"] != MISSING_NS)
        if "phase" in part:
            rows &= part["phase"] != PENDING
        places = np.flatnonzero(rows)
        starts = part["start"][places].tolist()
        for key, at in zip(part["key"].take(places).to_pylist(), starts, strict=True):
            found.setdefault(key, set()).add(at)
    return found


def _move(part: Columns, east_ns: int) -> None:
    local: Any = part.get("at_local")
    for name in TIMES if local is not None else ():
        if name in part:
            moved = local & (part[name] != MISSING_NS)
            part[name] = np.where(moved, part[name] - east_ns, part[name])


def zone_words(zone: Zone, zoned: int, local: int) -> str:
    """Say what times of both kinds mean for the jobs.

    Examples
    --------
    >>> zone_words(Zone(None, 0), 5, 7)
    'times with a zone: 5, without: 7: they may be hours apart'
    """
    said = f"times with a zone: {zoned:,}, without: {local:,}: "
    jobs = many(zone.jobs, "job")
    one = zone.jobs == 1
    if zone.east_ns is None:
        said += "they may be hours apart"
        if not zone.jobs:
            return said
        return (
            f"{said}; {many(zone.jobs, 'job number')} {'is' if one else 'are'} in both with other "
            "starts: if they are the same jobs, they are counted twice (give the zone of those "
            "without with --utc-offset)"
        )
    east = zone_text(zone.east_ns)
    if zone.sure:
        return (
            f"{said}those without were taken as local times of {east}, as {jobs} that are in both "
            "say; if that is wrong, give their zone with --utc-offset"
        )
    return (
        f"{said}they may be hours apart: {jobs} {'is' if one else 'are'} in both, {east} apart, "
        f"and counted twice: give --utc-offset {east} if that is the zone of those without"
    )
