"""Attempts that several files of one import tell, each at another time: one of them counts.

The first day's log says that a job began, the second's that it ended; a queue and its history
overlap; a table is exported on Monday and again on Tuesday.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._table_attempts import codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["APART", "TWICE", "Part", "told_by", "told_twice"]

TWICE = "attempts that are told twice (the same id, and start or try) are counted once"
"""What is said of them; the Importer counts them."""

APART = (
    "attempts with the id, and try or start, of another that ended otherwise or elsewhere are kept "
    "beside it: if a column tells them apart, add it to the id (--map id=ID+COLUMN)"
)
"""And of rows that could be told twice but differ."""

_TOLD = {
    "airflow": "try", "prefect": "try", "ray": "try",
    "pbs": "log", "lsf": "start", "htcondor": "run", "sge": "start",
}  # fmt: skip
# Columns that tell the parts of a job array apart, without which these have one id and one start.
_PARTS = {
    "lsf": frozenset(("idx", "JOBINDEX")),
    "sge": frozenset(("taskid", "task_number")),
    "airflow": frozenset(("run_id", "dag_run_id", "execution_date")),
}
_OPEN = ("running", "unknown")
_TRIED = 16  # runs of one id and start that a row that equals none of them is held against
_TELLING = ("started_ns", "ended_ns", "outcome", "exit_code", "signal", "host", "wall_s", "cpu_s",
            "peak_memory_bytes")  # fmt: skip
_LOOKED = ("task_id", "attempt", "submitted_ns", "started_ns", "ended_ns", "outcome", "exit_code",
           "signal", "host", "wall_s", "cpu_s", "peak_memory_bytes")  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """Rows of one chunk: whether we number their attempts, and what tells these apart.

    ``told`` is ``try`` or ``start``, ``log`` for a log that has a record of the start and one of
    the end, ``run`` where what still runs may have an earlier start than when it has ended,
    ``both`` for a table that says the number, ``file`` where equal rows of one file are several and
    those of two are one, or empty where equal rows are several. ``file`` is the file's number.
    """

    size: int
    counted: bool
    told: str = ""
    file: int = 0


def told_by(mapping: str, headers: Iterable[str]) -> str:
    """Say what tells the attempts of a shipped mapping's tables apart; empty if nothing does.

    Examples
    --------
    >>> told_by("ray", ["task_id"]), told_by("htcondor", ["ClusterId"]), told_by("table", ["id"])
    ('try', 'run', '')
    >>> told_by("lsf", ["JOBID", "START_TIME"]), told_by("lsf", ["JOBID", "JOBINDEX"])
    ('', 'start')
    """
    known = mapping not in _PARTS or not _PARTS[mapping].isdisjoint(headers)
    return _TOLD.get(mapping, "") if known else ""


def told_twice(tasks: pa.Table, parts: Sequence[Part]) -> tuple[NDArray[np.bool_], int, int]:
    """Find the rows to keep, how many others are to be spoken of, and how many are kept apart.

    Of the rows of one attempt the one is kept that knows an end, then that which says more, then
    the last. A log's own record of a start beside that of the end is nothing to speak of.

    Examples
    --------
    >>> both = pa.table({"task_id": ["a", "a", "b"], "attempt": [1, 2, 1],
    ...                  "submitted_ns": pa.nulls(3, pa.int64()), "started_ns": [5, 5, 5],
    ...                  "ended_ns": pa.array([None, 9, None], pa.int64()),
    ...                  "outcome": ["running", "ok", "running"],
    ...                  "exit_code": pa.nulls(3, pa.int64()), "signal": pa.nulls(3, pa.int64()),
    ...                  "host": pa.nulls(3, pa.string()), "wall_s": pa.nulls(3, pa.float64()),
    ...                  "cpu_s": pa.nulls(3, pa.float64()),
    ...                  "peak_memory_bytes": pa.nulls(3, pa.int64())})
    >>> keep, spoken, apart = told_twice(both, [Part(3, True, "start")])
    >>> keep.tolist(), spoken, apart
    ([False, True, True], 1, 0)
    """
    keep = np.ones(len(tasks), dtype=bool)
    sizes = [one.size for one in parts]
    told = np.repeat([one.told for one in parts], sizes)
    file = np.repeat([one.file for one in parts], sizes)
    rows = np.flatnonzero((told != "") & _often(tasks["task_id"], told == "file", file))
    if not len(rows):
        return keep, 0, 0
    taken = tasks.take(pa.array(rows))
    said = sum(column.is_valid().to_numpy().astype(np.int64) for column in taken.columns)
    groups: dict[str, list[Row]] = {}
    for at, row in enumerate(taken.select(list(_LOOKED)).to_pylist()):
        row |= {
            "row": int(rows[at]),
            "told": str(told[rows[at]]),
            "file": int(file[rows[at]]),
            "said": int(np.asarray(said)[at]),
        }
        if row["task_id"] is not None:
            groups.setdefault(row["task_id"], []).append(row)
    spoken = apart = 0
    for group in groups.values():
        same = _attempts(group)
        apart += sum(map(_apart, same))
        for row, loud in _others([rows for several in same for rows in several]):
            keep[row] = False
            spoken += loud
    return keep, spoken, apart


def _often(
    ids: pa.ChunkedArray, alone: NDArray[np.bool_], file: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say of each row whether its id comes more than once; ``alone`` rows: in several files."""
    code = codes(ids)
    if not len(code):
        return np.zeros(0, dtype=bool)
    first = np.full(int(code.max()) + 1, len(file))
    np.minimum.at(first, code, np.arange(len(code)))
    several = np.zeros(len(first), dtype=bool)
    several[code[file != file[first[code]]]] = True
    return np.asarray(np.where(alone, several[code], np.bincount(code)[code] > 1))


def _apart(same: list[list[Row]]) -> int:
    """Count the rows of one id, and try or start, that are several; one file's own may be."""
    if not any(row["told"] == "file" for rows in same for row in rows):
        return len(same) - 1
    first = min(row["file"] for rows in same for row in rows)
    return sum(all(row["file"] != first for row in rows) for rows in same)


def _attempts(group: list[Row]) -> list[list[list[Row]]]:
    """Put the rows of one task together that may tell of one attempt, and part what differs."""
    same: dict[tuple[Any, ...], list[Row]] = {}
    for row in group:
        same.setdefault(_key(row), []).append(row)
    return [_unlike(rows) for rows in same.values()]


def _unlike(rows: list[Row]) -> list[list[Row]]:
    """Part rows of one id and try of which each knows an end, or its host, and another.

    A batch system has one job of an id and start. In other tables the id may be a step's name, or
    that of an array, without the column that tells its parts. What has not ended is one of those
    that have.
    """
    if len(rows) < 2:
        return [rows]
    if any(row["told"] == "file" for row in rows):
        return _by_file(rows)
    if rows[0]["told"] not in ("try", "both"):
        return [rows]
    over = [row for row in rows if _over(row)]
    found = _ends(over)
    starts = {row["started_ns"] for row in over}
    at: dict[str | None, list[Row]] = {}
    for several in found:
        for row in several:
            at.setdefault(row["host"], several)
    for row in rows:
        if _over(row):
            continue
        host = row["host"]
        like = at.get(host, at.get(None))
        if like is None and found and (host is None or row["started_ns"] not in starts):
            like = found[0]
        if like is None:
            found.append(like := [])
            at[host] = like
            starts.add(row["started_ns"])
        like.append(row)
    return found


def _by_file(rows: list[Row]) -> list[list[Row]]:
    """Put rows of different files together that tell of one run; one file's are several.

    A row that is open is one of those that have ended, on the same host if both know it.
    """
    found: list[_Run] = []
    rows = sorted(rows, key=lambda row: row["file"])
    for over in (True, False):
        at: dict[tuple[Any, ...], list[_Run]] = {}
        for run in found:
            at.setdefault(run.facts if over else run.host, []).append(run)
        for _, several in itertools.groupby(
            (row for row in rows if _over(row) is over), key=lambda row: row["file"]
        ):
            left = []
            alike: dict[tuple[Any, ...], Iterator[_Run]] = {}
            for row in several:
                facts = _facts(row) if over else (row["host"],)
                # One pass a file over runs that are alike: each takes one of its rows.
                runs = alike.setdefault(facts, iter(at.get(facts, ())))
                like = next((run for run in runs if run.free(row)), None)
                if like is None:
                    left.append((row, facts))
                else:
                    like.add(row)
            new = []
            for row, facts in left:
                near = (run for run in found[:_TRIED] if run.free(row))
                like = next((run for run in near if run.fits(facts, over=over)), None)
                if like is None:
                    new.append(_Run(facts if over else (), (row["host"],), row))
                else:
                    like.add(row)
            for run in new:
                at.setdefault(run.facts if over else run.host, []).append(run)
            found += new
    return [run.rows for run in found]


class _Run:
    """Rows of different files that tell of one run."""

    def __init__(self, facts: tuple[Any, ...], host: tuple[Any, ...], row: Row) -> None:
        self.facts, self.host = facts, host
        self.rows: list[Row] = []
        self._files: set[int] = set()
        self.add(row)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        if row["told"] == "file":
            self._files.add(row["file"])

    def free(self, row: Row) -> bool:
        return row["file"] not in self._files

    def fits(self, facts: tuple[Any, ...], *, over: bool) -> bool:
        return not _differ(facts, self.facts if over else self.host)


def _over(row: Row) -> bool:
    return row["outcome"] not in _OPEN or row["ended_ns"] is not None


def _facts(row: Row) -> tuple[Any, ...]:
    return tuple(None if row[c] in _OPEN else row[c] for c in _TELLING)


def _ends(rows: list[Row]) -> list[list[Row]]:
    """Put those together that tell nothing else; what one does not know is no difference."""
    same: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        same.setdefault(_facts(row), []).append(row)
    known = [all(told[i] is not None for told in same) for i in range(len(_TELLING))]
    alike: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], list[Row]]]] = {}
    for told, several in same.items():
        key = tuple(value for value, sure in zip(told, known, strict=True) if sure)
        near = alike.setdefault(key, [])
        fits = (of for other, of in near if not _differ(told, other))
        like = next(fits, None)
        if like is None:
            near.append((told, several))
        else:
            like += several
    return [several for near in alike.values() for _, several in near]


def _differ(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    pairs = zip(one, other, strict=True)
    return any(a is not None and b is not None and a != b for a, b in pairs)


def _others(same: list[list[Row]]) -> Iterator[tuple[int, bool]]:
    """Give the rows of one task that are not kept, and whether that is to be said."""
    if sum(map(len, same)) < 2:
        return
    kept = []
    for rows in same:
        best = max(rows, key=_worth)
        kept.append(best)
        for row in rows:
            if row is not best:
                log = row["told"] == "log" and row["exit_code"] is row["signal"] is None
                yield row["row"], not log
    yield from _earlier(kept)


def _key(row: Row) -> tuple[Any, ...]:
    """Give what is the same in all rows of one attempt."""
    told, start, attempt = row["told"], row["started_ns"], row["attempt"]
    if told == "try":
        return told, attempt
    if told == "both":
        return (told, start, attempt) if start is not None else (told, row["row"])
    if start is not None:
        return "start", start
    if row["outcome"] not in _OPEN:
        known = row["submitted_ns"] is not None
        return ("never", row["submitted_ns"], row["ended_ns"]) if known else ("row", row["row"])
    if told == "file" and row["submitted_ns"] is None:
        return "row", row["row"]
    return "waits", row["submitted_ns"]


def _earlier(kept: list[Row]) -> Iterator[tuple[int, bool]]:
    """Give what was told of a task before it began, or began anew, as others of its rows show."""
    begun = {row["submitted_ns"] for row in kept if row["started_ns"] is not None}
    over = {row["submitted_ns"] for row in kept if row["outcome"] not in _OPEN}
    last = max((row["started_ns"] for row in kept if row["started_ns"] is not None), default=None)
    files = {row["file"] for row in kept if row["started_ns"] is not None or _over(row)}
    for row in kept:
        start = row["started_ns"]
        if row["told"] == "try" and start is None and row["attempt"] == 0 and len(kept) > 1:
            yield row["row"], True  # Airflow before 2.10 counts what is queued as none
        if row["told"] not in ("start", "run", "log", "file") or row["outcome"] not in _OPEN:
            continue
        if start is None:
            if row["told"] == "file" and row["file"] in files:
                continue  # one file's rows are several
            if row["submitted_ns"] is not None and row["submitted_ns"] in begun | over:
                yield row["row"], True
        elif row["told"] in ("run", "log") and row["outcome"] == "running" and start < last:
            # Begun anew without a word on its first run's end. HTCondor tells of a job whose input
            # is on its way when it was given a machine, and later when it began to run.
            yield row["row"], row["told"] == "run"


def _worth(row: Row) -> tuple[Any, ...]:
    ended = row["outcome"] not in _OPEN
    return ended, row["ended_ns"] is not None, row["said"], row["row"]
