"""Attempts that several files of one import tell, each at another time: one of them counts.

The first day's log says that a job began, the second's that it ended; a queue and its history
overlap; a table is exported on Monday and again on Tuesday.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TWICE", "Part", "told_by", "told_twice"]

TWICE = "attempts that are told twice (the same id, and start or try) are counted once"
"""What is said of them; the Importer counts them."""

_TOLD = {
    "airflow": "try", "prefect": "try", "ray": "try",
    "pbs": "log", "lsf": "start", "htcondor": "start", "sge": "start",
}  # fmt: skip
# Columns that tell the parts of a job array apart, without which these have one id and one start.
_PARTS = {
    "lsf": frozenset(("idx", "JOBINDEX")),
    "sge": frozenset(("taskid", "task_number")),
    "airflow": frozenset(("run_id", "dag_run_id", "execution_date")),
}
_OPEN = ("running", "unknown")
_LOOKED = ("task_id", "attempt", "submitted_ns", "started_ns", "ended_ns", "outcome", "exit_code",
           "signal")  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """Rows of one chunk: whether we number their attempts, and what tells these apart.

    ``told`` is ``try`` or ``start``, ``log`` for a log that has a record of the start and one of
    the end, ``both`` for a table that says the number, or empty where equal rows are several.
    """

    size: int
    counted: bool
    told: str = ""


def told_by(mapping: str, headers: Iterable[str]) -> str:
    """Say what tells the attempts of a shipped mapping's tables apart; empty if nothing does.

    Examples
    --------
    >>> told_by("ray", ["task_id"]), told_by("htcondor", ["ClusterId"]), told_by("table", ["id"])
    ('try', 'start', '')
    >>> told_by("lsf", ["JOBID", "START_TIME"]), told_by("lsf", ["JOBID", "JOBINDEX"])
    ('', 'start')
    """
    known = mapping not in _PARTS or not _PARTS[mapping].isdisjoint(headers)
    return _TOLD.get(mapping, "") if known else ""


def told_twice(tasks: pa.Table, parts: Sequence[Part]) -> tuple[NDArray[np.bool_], int]:
    """Find the rows to keep, and how many others are to be spoken of.

    Of the rows of one attempt the one is kept that knows an end, then that which says more, then
    the last. A log's own record of a start beside that of the end is nothing to speak of.

    Examples
    --------
    >>> both = pa.table({"task_id": ["a", "a", "b"], "attempt": [1, 2, 1],
    ...                  "submitted_ns": pa.nulls(3, pa.int64()), "started_ns": [5, 5, 5],
    ...                  "ended_ns": pa.array([None, 9, None], pa.int64()),
    ...                  "outcome": ["running", "ok", "running"],
    ...                  "exit_code": pa.nulls(3, pa.int64()), "signal": pa.nulls(3, pa.int64())})
    >>> keep, spoken = told_twice(both, [Part(3, True, "start")])
    >>> keep.tolist(), spoken
    ([False, True, True], 1)
    """
    keep = np.ones(len(tasks), dtype=bool)
    told = np.repeat([one.told for one in parts], [one.size for one in parts])
    rows = np.flatnonzero((told != "") & _often(tasks["task_id"]))
    if not len(rows):
        return keep, 0
    taken = tasks.take(pa.array(rows))
    said = sum(column.is_valid().to_numpy().astype(np.int64) for column in taken.columns)
    groups: dict[str, list[Row]] = {}
    for at, row in enumerate(taken.select(list(_LOOKED)).to_pylist()):
        row |= {
            "row": int(rows[at]),
            "told": str(told[rows[at]]),
            "said": int(np.asarray(said)[at]),
        }
        if row["task_id"] is not None:
            groups.setdefault(row["task_id"], []).append(row)
    spoken = 0
    for group in groups.values():
        for row, loud in _others(group):
            keep[row] = False
            spoken += loud
    return keep, spoken


def _often(ids: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Say of each row whether its id comes more than once."""
    coded = pc.dictionary_encode(pc.fill_null(ids, "")).unify_dictionaries().combine_chunks()
    coded = coded if isinstance(coded, pa.Array) else pa.concat_arrays(coded.chunks)
    code = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray(np.bincount(code)[code] > 1) if len(code) else np.zeros(0, dtype=bool)


def _others(group: list[Row]) -> Iterator[tuple[int, bool]]:
    """Give the rows of one task that are not kept, and whether that is to be said."""
    if len(group) < 2:
        return
    same: dict[tuple[Any, ...], list[Row]] = {}
    for row in group:
        same.setdefault(_key(row), []).append(row)
    kept = []
    for rows in same.values():
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
    return "waits", row["submitted_ns"]


def _earlier(kept: list[Row]) -> Iterator[tuple[int, bool]]:
    """Give what was told of a task before it began, or began anew, as others of its rows show."""
    begun = {row["submitted_ns"] for row in kept if row["started_ns"] is not None}
    over = {row["submitted_ns"] for row in kept if row["outcome"] not in _OPEN}
    last = max((row["started_ns"] for row in kept if row["started_ns"] is not None), default=None)
    for row in kept:
        if row["told"] not in ("start", "log") or row["outcome"] not in _OPEN:
            continue
        start = row["started_ns"]
        if start is None:
            if row["submitted_ns"] is not None and row["submitted_ns"] in begun | over:
                yield row["row"], True
        elif row["told"] == "log" and row["outcome"] == "running" and start < last:
            yield row["row"], False  # begun anew without a word on its first run's end


def _worth(row: Row) -> tuple[Any, ...]:
    ended = row["outcome"] not in _OPEN
    return ended, row["ended_ns"] is not None, row["said"], row["row"]
