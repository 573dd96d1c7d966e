"""When tasks ran that are in ``.nextflow.log`` and in no trace.

A line of the log has a local time without year and zone. Both come from times of the same events
that are whole: those of the trace, those since the epoch in the log itself, those of Slurm.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.adapters.importers._nextflow_clock import NEVER
from rotameter.adapters.importers._nextflow_rows import Attempt
from rotameter.adapters.importers._nextflow_steady import Steady, on_one_clock
from rotameter.adapters.importers._nextflow_values import LATEST_MS
from rotameter.adapters.joining._nextflow_log import Log, Stamp, Task
from rotameter.adapters.joining._nextflow_slurm import job_of
from rotameter.adapters.joining.merging import offset_between

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.adapters.importers.building import Builder
    from rotameter.adapters.joining.merging import Joined, Ledger
    from rotameter.adapters.joining.slurm_side import Slurm

__all__ = [
    "LogTimes",
    "at_ns",
    "in_order",
    "jobs_on_one_clock",
    "times_of_logs",
    "traces_on_one_clock",
    "with_starts",
    "with_times",
]

_COLUMNS = ("submitted_ns", "started_ns", "ended_ns")
_ANY_YEAR = 2000  # a leap year
_MS = 10**6


class _Trace:
    """The attempts of one trace, for :func:`on_one_clock`."""

    def __init__(self, rows: Sequence[Attempt]) -> None:
        self._rows = rows
        self.local = any(made.local for made in rows)
        self.crossings = [(at, a.crossing) for at, a in enumerate(rows) if a.crossing is not None]

    def keys(self) -> NDArray[np.int64]:
        """Give the first time that is known of each row."""
        times = [[a.row[c] for c in _COLUMNS if a.row[c] is not None] for a in self._rows]
        return np.array([one[0] if one else NEVER for one in times], np.int64)

    def ends(self) -> NDArray[np.int64]:
        """Give when each row ended."""
        ends = (a.row["ended_ns"] for a in self._rows)
        return np.array([NEVER if end is None else end for end in ends], np.int64)

    def counted(self) -> NDArray[np.bool_]:
        """Say of each row whether a change of the clocks would show in its duration."""
        return np.array([a.counted for a in self._rows], dtype=bool)

    def name(self, row: int) -> str | None:
        """Give the name of a row in the trace."""
        name: str | None = self._rows[row].row["task_id"]
        return name

    def shift(self, by_ns: NDArray[np.int64]) -> None:
        """Take something off the times of each row, in place."""
        for made, by in zip(self._rows, by_ns.tolist(), strict=True):
            _back(made.row, by)


def _back(row: dict[str, Any], by_ns: int) -> None:
    for column in _COLUMNS:
        if row.get(column) is not None:
            row[column] -= by_ns


def traces_on_one_clock(runs: Sequence[Sequence[Attempt]], build: Builder) -> Steady | None:
    """Put the times of all attempts on the clock before the first change, in place."""
    return on_one_clock([_Trace(rows) for rows in runs], build)


def jobs_on_one_clock(slurm: Slurm, steady: Steady | None) -> None:
    """Put local times of Slurm's jobs there, too: an end is on the clock of its start."""
    if steady is None or not slurm.local:
        return
    for rows in slurm.jobs.values():
        for row in rows:
            for columns in (("submitted_ns", "ready_ns"), ("started_ns", "ended_ns")):
                first = next((row[c] for c in columns if row.get(c) is not None), None)
                by_ns = 0 if first is None else int(steady.ahead(np.array([first]))[0])
                for column in columns:
                    if row.get(column) is not None:
                        row[column] -= by_ns


def in_order(logs: Iterable[Log]) -> None:
    """Count the turns of the year on from log to log, the oldest first, in place."""
    turns, last = 0, None
    for log in logs:
        if log.first is None or log.last is None:
            continue
        if last is not None and log.first[1:] < last[1:]:
            turns += 1
        for task in log.tasks.values():
            task.submitted, task.done = _turned(task.submitted, turns), _turned(task.done, turns)
        turns, last = turns + log.last[0], log.last


def _turned(stamp: Stamp | None, turns: int) -> Stamp | None:
    return None if stamp is None else (stamp[0] + turns, *stamp[1:])


def at_ns(stamp: Stamp, year: int) -> int:
    """Give a time of the log, read as UTC, where the log's first turn is a year.

    Examples
    --------
    >>> at_ns((0, 1, 1, 5), 1970), at_ns((1, 1, 2, 0), 1969) // 10**9
    (5, 86400)
    """
    turn, month, day, ns = stamp
    return timegm((max(MINYEAR, min(year + turn, MAXYEAR)), month, day, 0, 0, 0)) * 10**9 + ns


@dataclass
class _Clock:
    """The log's clock: its first year, and what it is ahead of the clock of the table.

    ``steady`` is the table's, where the clocks changed: the log's did as well.
    """

    year: int
    ahead_ns: int
    steady: Steady | None = None

    def place(self, stamp: Stamp | None) -> int | None:
        """Give a time of the log on the table's clock; None if it is none, or no time."""
        if stamp is None:
            return None
        at = _steady_ns(stamp, self.year, self.steady) - self.ahead_ns
        return at if abs(at) <= LATEST_MS * _MS else None


def _steady_ns(stamp: Stamp, year: int, steady: Steady | None) -> int:
    """Give a time of the log by the clock before the first change."""
    at = at_ns(stamp, year)
    return at if steady is None else at - int(steady.ahead(np.array([at], np.int64))[0])


Pairs = list[tuple[Stamp, int]]


@dataclass(frozen=True)
class LogTimes:
    """How times of the logs come onto the clock of the table.

    Attributes
    ----------
    shift_ns : int or None
        What the table's clock is ahead of times since the epoch; None if that is not known.
    dated : bool
        Whether some record tells the year of the log's times: without one they stay relative, and
        a zone that the user gave says nothing.
    """

    clock: _Clock | None
    shift_ns: int | None
    dated: bool = True


def times_of_logs(
    attempts: Sequence[Attempt],
    tasks: Mapping[str, Task],
    slurm: Slurm,
    build: Builder,
    ledger: Ledger,
    zone_ns: int | None,
    given_s: float | None,
    steady: Steady | None = None,
) -> LogTimes | None:
    """Tell the clock of attempts that only the log has; None where there are none.

    ``build`` is local afterwards where the table's times are.

    Parameters
    ----------
    attempts : sequence of Attempt
        All, those of traces with their times.
    tasks : mapping
        What the logs say of them, by hash.
    slurm, build, ledger
        Of the join.
    zone_ns : int, optional
        Zone of the trace's local times, as the log tells it.
    given_s : float, optional
        Zone that the user gave.
    steady : Steady, optional
        The clock of the traces' local times, where it changed.
    """
    new = _only_in_logs(attempts)
    if not new:
        return None
    shift = zone_ns if build.local else 0
    epoch = [(t.done, t.exited_ns) for t in tasks.values() if t.done and t.exited_ns is not None]
    begun = [(t.submitted, t.started_ms * _MS) for t in tasks.values()
             if t.submitted and t.started_ms is not None]  # fmt: skip
    if build.local or any(a.zoned for a in attempts):
        return LogTimes(_clock(_traced(attempts, tasks), steady), shift)
    if epoch or begun:
        return LogTimes(_of_the_epoch(epoch, begun, ledger, given_s), shift)
    if slurm.jobs:
        clock = _clock(_at_slurm(new, tasks, slurm))
        build.local = clock is not None and slurm.local
        return LogTimes(clock, shift)
    build.local = True
    if given_s is not None:
        build.warn("no record tells the year of the log's times: they stay relative")
    return LogTimes(_Clock(_ANY_YEAR, 0), shift, dated=False)


def with_times(
    attempts: Sequence[Attempt], tasks: Mapping[str, Task], times: LogTimes | None
) -> None:
    """Time the attempts that only the log has, in place."""
    if times is None:
        return
    for made in _only_in_logs(attempts):
        _time(made, tasks[made.hash or ""], times.clock, times.shift_ns)


def _only_in_logs(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [made for made in attempts if made.file.startswith(".nextflow")]


def _traced(attempts: Iterable[Attempt], tasks: Mapping[str, Task]) -> Pairs:
    """Give the submissions that log and trace both tell."""
    pairs: Pairs = []
    for made in attempts:
        task, at = tasks.get(made.hash or ""), made.row["submitted_ns"]
        if task is not None and task.submitted and at is not None:
            pairs.append((task.submitted, at))
    return pairs


def _at_slurm(attempts: Iterable[Attempt], tasks: Mapping[str, Task], slurm: Slurm) -> Pairs:
    pairs: Pairs = []
    for made in attempts:
        task, jobs = tasks[made.hash or ""], slurm.jobs.get(job_of(made.native_id) or "")
        at = jobs[0].get("submitted_ns") if jobs else None
        if task.submitted and at is not None:
            pairs.append((task.submitted, at))
    return pairs


def _of_the_epoch(
    exact: Pairs, rough: Pairs, ledger: Ledger, given_s: float | None
) -> _Clock | None:
    """Find the clock from ends; where there are none, starts tell the year, and the user the zone.

    A start is behind the submission by as long as the job waited.
    """
    clock = _clock(exact)
    if clock is not None:
        how, zone_s = "inferred from its times since the epoch", clock.ahead_ns / 1e9
    elif given_s is not None and (year := _year(exact or rough)) is not None:
        how, zone_s = "given", given_s
        clock = _Clock(year, round(given_s * 1e9))
    else:
        return None
    ledger.zones["log"] = {"utc_offset_s": zone_s, "how": how}
    return clock


def _clock(pairs: Pairs, steady: Steady | None = None) -> _Clock | None:
    year = _year(pairs)
    if year is None:
        return None
    ahead = offset_between((_steady_ns(stamp, year, steady), at) for stamp, at in pairs)
    return None if ahead is None else _Clock(year, ahead, steady)


def _year(pairs: Pairs) -> int | None:
    """Give the year of the log's first turn with which its times are nearest to the others.

    None if they do not agree: between two logs more than a year may have passed.

    Examples
    --------
    >>> _year([((0, 5, 1, 0), 1714550400 * 10**9)]), _year([])
    (2024, None)
    """
    found = set()
    for stamp, at in pairs:
        near = datetime.fromtimestamp(at // 10**9, UTC).year - stamp[0]
        gaps = {abs(at_ns(stamp, year) - at): year for year in (near - 1, near, near + 1)}
        found.add(gaps[min(gaps)])
    return found.pop() if len(found) == 1 else None


def _time(made: Attempt, task: Task, clock: _Clock | None, shift: int | None) -> None:
    started = ended = None
    if shift is not None and task.started_ms is not None:
        started = task.started_ms * _MS + shift
    if shift is not None and task.exited_ns is not None:
        ended = task.exited_ns + shift
    if clock is not None:
        ended = clock.place(task.done) if ended is None else ended
        made.row["submitted_ns"] = clock.place(task.submitted)
    made.row.update(started_ns=started, ended_ns=ended)


def with_starts(pairs: Iterable[tuple[Attempt, Joined]]) -> None:
    """Take the start for the end less how long it ran, as for a trace without starts."""
    for made, one in pairs:
        row = one.row
        end, wall, submit = row["ended_ns"], row["wall_s"], row["submitted_ns"]
        if row["started_ns"] is None and end is not None and wall is not None:
            start = end - round(wall * 1e9)
            one.put("started_ns", start if submit is None else max(start, submit), "log")
            made.guessed_start = True
