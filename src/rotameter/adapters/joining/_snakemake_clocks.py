"""The zones of Snakemake's logs, from jobs that the metadata time since the epoch too.

A log's times are local, without a zone. Where the clocks changed while it was written, the times
behind that are of another zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rotameter.adapters.importers._clock_changes import may_change, whole_hours
from rotameter.adapters.joining.merging import FURTHEST_NS, QUARTER_NS, offset_between

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.joining._snakemake_jobs import Job
    from rotameter.adapters.joining._snakemake_metadata import Job as Record
    from rotameter.adapters.joining.merging import Joined, Ledger

__all__ = ["LATE_NS", "clocks", "older_start", "span"]

_LOCAL = ("submitted_ns", "started_ns", "ended_ns")
LATE_NS = 10 * 10**9
"""By how much a log may show an end late, or a record last longer than its job."""
_START_NS = 120 * 10**9
_HOUR_NS = 3600 * 10**9
_AGREE = 0.9
_CHANGED = (
    "the clocks changed while a log was written, as jobs that the metadata time show: its times "
    "are read by the zone before or behind that"
)


@dataclass(frozen=True)
class Mark:
    """What a log's clock is ahead of UTC at a local time: when a job began or, ``end``, ended."""

    local_ns: int
    ahead_ns: int
    number: int = 0
    """The job's place in the log."""
    end: bool = False


@dataclass(frozen=True)
class Zone:
    """What a log's clock is ahead of UTC: ``first_ns``, and ``second_ns`` from a change on.

    What shows ``at_ns`` or later is behind the change. Of an hour that comes twice so are jobs
    from ``number`` on, and what the marks show to be.
    """

    first_ns: int | None
    second_ns: int | None = None
    at_ns: int = 0
    number: int = 0
    shown: Mapping[tuple[int, bool], int] = field(default_factory=dict)

    def ahead(
        self, local_ns: int, number: int = 0, *, end: bool = False, floor_ns: int | None = None
    ) -> int | None:
        """Give the zone of a time of a job; an end is not before its start, ``floor_ns``."""
        if self.first_ns is None or self.second_ns is None:
            return self.first_ns
        if (number, end) in self.shown:
            return self.shown[number, end]
        behind = local_ns >= self.at_ns
        if self.second_ns < self.first_ns and not behind and local_ns >= self.at_ns - _HOUR_NS:
            before = floor_ns is not None and local_ns - self.first_ns < floor_ns
            behind = number >= self.number or before
        return self.second_ns if behind else self.first_ns


def clocks(
    jobs: Sequence[Job],
    pairs: Sequence[tuple[Record, Job | None]],
    epoch: bool,
    build: Builder,
    ledger: Ledger,
    utc_offset_s: float | None,
) -> None:
    """Find each log's zone, and move its times to the epoch."""
    if not epoch:
        build.local = bool(jobs)
        if jobs:
            ledger.zones["log"] = {"how": "local, as given with --utc-offset or relative"}
        return
    given = None if utc_offset_s is None else round(utc_offset_s * 1e9)
    zones: dict[str, Zone] = {}
    for name in dict.fromkeys(job.log for job in jobs if job.log):
        mine = [(one, job) for one, job in pairs if job is not None and job.log == name]
        zone = offset_between(pair for one, job in mine for pair in _shared(one, job))
        zones[name] = _changed(list(_marks(mine))) or Zone(zone)
    known = {zone.first_ns for zone in zones.values()} - {None}
    for name, found in zones.items():
        offset, how = found.first_ns, "inferred from jobs that the metadata time too"
        if offset is None and given is not None:
            offset, how = given, "given"
        elif offset is None and len(known) == 1:
            offset, how = next(iter(known)), "taken to be that of the other logs"
        elif offset is None:
            how = "unknown: its times are left out, durations are kept"
            build.warn("logs whose zone cannot be found: give it with --utc-offset")
        if found.first_ns is None:
            zones[name] = Zone(offset)
        ledger.zones[name] = {"utc_offset_s": None if offset is None else offset / 1e9, "how": how}
        if found.second_ns is not None:
            ledger.zones[name]["utc_offset_behind_change_s"] = found.second_ns / 1e9
            build.note(_CHANGED)
    for each in jobs:
        if each.log:
            _shift(each.joined, zones[each.log], each.number)


def _shift(joined: Joined, zone: Zone, number: int) -> None:
    row, floor = joined.row, None
    started, ended = row.get("started_ns"), row.get("ended_ns")
    if zone.first_ns is None and started is not None and ended is not None:
        joined.put("wall_s", (ended - started) / 1e9, "log")
    for column in _LOCAL:
        if row.get(column) is not None:
            end = column == "ended_ns"
            ahead = zone.ahead(row[column], number, end=end, floor_ns=floor)
            row[column] = None if ahead is None else row[column] - ahead
            floor = row[column]


def span(job: Job) -> tuple[int | None, int | None]:
    """Give when the log shows a job first and last."""
    row = job.joined.row
    return row.get("started_ns") or row.get("submitted_ns"), row.get("ended_ns")


def _shared(one: Record, job: Job) -> Iterator[tuple[int | None, int | None]]:
    """Give the times, local and of the epoch, that a record and an attempt both tell.

    A record that lasts longer than its attempt has the start of an earlier run: only its end is
    of this one.
    """
    begun, end = span(job)
    if older_start(one, None if begun is None or end is None else end - begun):
        yield end, one.ended_ns
    else:
        yield begun, one.started_ns


def older_start(one: Record, lasted_ns: int | None) -> bool:
    """Say whether a record lasts longer than its attempt: it has the start of an earlier run."""
    if one.started_ns is None or one.ended_ns is None or lasted_ns is None:
        return False
    return one.ended_ns - one.started_ns > lasted_ns + LATE_NS


def _set_back(one: Record, begun_ns: int, lasted_ns: int) -> bool:
    """Say whether a record may last longer than its attempt as the clocks were set back in it."""
    if one.started_ns is None or one.ended_ns is None:
        return False
    off = one.ended_ns - one.started_ns - lasted_ns - _HOUR_NS
    return abs(off) <= LATE_NS and may_change(begun_ns, begun_ns + lasted_ns + _HOUR_NS)


def _marks(pairs: Sequence[tuple[Record, Job]]) -> Iterator[Mark]:
    """Give what tells the zone at a time: starts, and ends right after the output's last change."""
    for one, job in pairs:
        begun, end = span(job)
        start = one.started_ns
        lasted = None if begun is None or end is None else end - begun
        if begun is not None and lasted is not None and older_start(one, lasted):
            start = start if _set_back(one, begun, lasted) else None
        sides = ((begun, start, _START_NS), (end, one.ended_ns, LATE_NS))
        for at_end, (local, reference, slack) in enumerate(sides):
            if local is None or reference is None:
                continue
            ahead = round((local - reference) / QUARTER_NS) * QUARTER_NS
            if abs(local - reference - ahead) <= slack and abs(ahead) <= FURTHEST_NS:
                yield Mark(local, ahead, job.number, bool(at_end))


def _changed(marks: Sequence[Mark]) -> Zone | None:
    """Find the change of the clocks that the marks show; None if one zone explains them as well.

    Or if there is no night between them in which clocks are changed: what is an hour off then is
    the start of an earlier run.

    Examples
    --------
    >>> hour, night = 3600 * 10**9, 1_774_742_400 * 10**9  # 29 March 2026
    >>> zone = _changed([Mark(night + hour, hour), Mark(night + 4 * hour, 2 * hour)])
    >>> [(at - night) // hour for at in (zone.at_ns, night + zone.ahead(night + 3 * hour, 9))]
    [3, 2]
    >>> _changed([Mark(night + hour, hour), Mark(night + 4 * hour, hour)]) is None
    True
    >>> day = night + 24 * hour
    >>> _changed([Mark(day + 9 * hour, hour), Mark(day + 12 * hour, 2 * hour)]) is None
    True
    """
    order = sorted(marks, key=lambda mark: mark.local_ns - mark.ahead_ns)
    zones = {mark.ahead_ns for mark in order}
    best, split = max((sum(m.ahead_ns == zone for m in order) for zone in zones), default=0), None
    for first in zones:
        for second in (first - _HOUR_NS, first + _HOUR_NS):
            if second not in zones:
                continue
            agree = sum(mark.ahead_ns == second for mark in order)
            for place, mark in enumerate(order, start=1):
                agree += (mark.ahead_ns == first) - (mark.ahead_ns == second)
                if agree > best:
                    best, split = agree, (place, first, second)
    if split is None or best < _AGREE * len(order):
        return None
    place, first, second = split
    last = max(mark.local_ns for mark in order[:place] if mark.ahead_ns == first)
    behind = [mark for mark in order[place:] if mark.ahead_ns == second]
    then = min(mark.local_ns for mark in behind)
    ahead = second > first
    low, high = (last + _HOUR_NS, then) if ahead else (last, then + _HOUR_NS)
    hours = whole_hours(low, high, second - first)
    if not hours or not may_change(low, high):
        return None
    shown = {(m.number, m.end): m.ahead_ns for m in order if m.ahead_ns in (first, second)}
    return Zone(first, second, hours[0], min(mark.number for mark in behind) + 1, shown)
