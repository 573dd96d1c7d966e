"""Which rows of a job tell of the same run: listings of several days show it waiting, then over.

A requeued job is submitted anew, so that its runs differ in Submit; what waited and what then ran
have it in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_table import Columns
from rotameter.adapters.importers._slurm_values import ENDED, MISSING_NS, PENDING, words

__all__ = ["ALWAYS", "arrays_begun", "runs_of", "waiting_words"]

ALWAYS = frozenset(
    words(
        """submit eligible limit priority req_cpus req_nodes req_memory tres_req_cpus
        tres_req_memory tres_req_nodes tres_req_gpus"""
    )
)
"""Columns that a job has from its submission on."""
_ARRAY = re.compile(r"(.*)_\[([\d,:-]+)(?:%\d+)?\]")
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_MOST_TASKS = 1_000_000


def runs_of(jobs: Columns, rows: Sequence[int]) -> list[list[int]]:
    """Share the rows of one job out over its runs."""
    runs: dict[Any, list[int]] = {}
    waiting: list[int] = []
    for row in rows:
        key = _begun(jobs, row)
        if key is None:
            waiting.append(row)
        else:
            runs.setdefault(key, []).append(row)
    begun = list(runs.values())
    for row in waiting:
        at = int(jobs["submit"][row]) if "submit" in jobs else MISSING_NS
        same = _of_its_submission(jobs, begun, at)
        if same is not None:
            same.append(row)
        else:
            key = ("submitted", at) if at != MISSING_NS else _as_said(jobs, row)
            runs.setdefault(key, []).append(row)
    return list(runs.values())


def _begun(jobs: Columns, row: int) -> Any:
    """Give what tells a run that began apart; None if it did not, or nothing says that it did."""
    if "sluid" in jobs and (sluid := jobs["sluid"][row].as_py()):
        return sluid
    if "start" not in jobs or jobs["start"][row] == MISSING_NS or _pends(jobs, row):
        return None  # the start of what waits is squeue's guess
    return ("started", int(jobs["start"][row]))


def _pends(jobs: Columns, row: int) -> bool:
    return "phase" in jobs and jobs["phase"][row] == PENDING


def _of_its_submission(jobs: Columns, begun: Sequence[list[int]], at: int) -> list[int] | None:
    """Find the run that a row without a start waited for, or is; None if that is not clear."""
    if at == MISSING_NS:
        return None
    same = [run for run in begun if any(jobs["submit"][r] == at for r in run)]
    return same[0] if same else None


def _as_said(jobs: Columns, row: int) -> Any:
    said = jobs["outcome"][row].as_py() if "outcome" in jobs else None
    wall = jobs["wall"][row] if "wall" in jobs else np.nan
    over = "end" in jobs and not ("phase" in jobs and jobs["phase"][row] != ENDED)
    end = int(jobs["end"][row]) if over else MISSING_NS
    return said, None if np.isnan(wall) else float(wall), end


def arrays_begun(jobs: Columns) -> Iterator[tuple[int, int]]:
    """Give the rows of waiting arrays, such as ``7_[1-20]``, all of whose tasks have rows.

    Yields
    ------
    tuple of (int, int)
        The row, and the row of one of its tasks: they tell of the same.
    """
    found = _waiting_arrays(jobs)
    if not found:
        return
    rows: dict[str, int] = {}
    for row, key in enumerate(jobs["key"].to_pylist()):
        rows.setdefault(key, row)
    for row, of, tasks in found:
        places = [rows.get(f"{of}_{task}") for task in _tasks(tasks, len(rows))]
        if places and places[0] is not None and None not in places:
            yield row, places[0]


def _waiting_arrays(jobs: Columns) -> list[tuple[int, str, str]]:
    """Give the rows of arrays that wait, with the array's number and its tasks."""
    keys, phase = jobs["key"], jobs.get("phase")
    if phase is None:
        return []
    found = pc.match_substring(keys, "_[").to_numpy(zero_copy_only=False) & (phase == PENDING)
    matches = [(row, _ARRAY.fullmatch(keys[row].as_py())) for row in np.flatnonzero(found).tolist()]
    return [(row, match[1], match[2]) for row, match in matches if match is not None]


def waiting_words(jobs: Columns) -> str | None:
    """Say how many tasks the rows of waiting arrays stand for, which have no row of their own."""
    found = _waiting_arrays(jobs)
    if not found:
        return None
    wanted = pa.array([f"{of}_" for _, of, _ in found])
    own = pc.is_in(pc.replace_substring_regex(jobs["key"], r"_\d+$", "_"), value_set=wanted)
    begun = set(jobs["key"].filter(own).to_pylist())
    known: dict[str, int] = {}
    for row, of, tasks in found:
        all_of = _tasks(tasks, _MOST_TASKS)
        left = sum(f"{of}_{task}" not in begun for task in all_of)
        if left > 1:
            known[jobs["key"][row].as_py()] = left
    if not known:
        return None
    first = next(iter(known))
    one = len(known) == 1
    which = first if one else f"{len(known):,} waiting arrays, such as {first},"
    return (
        f"{which} {'is' if one else 'are'} one row{'' if one else ' each'} and counted as one: "
        f"{'it stands' if one else 'they stand'} for {sum(known.values()):,} tasks that wait"
    )


def _tasks(text: str, most: int) -> list[int]:
    """Give the numbers of an array's tasks; none if they are more than there can be rows.

    Examples
    --------
    >>> _tasks("1-3,7,10-20:5", 100)
    [1, 2, 3, 7, 10, 15, 20]
    """
    found: list[int] = []
    for part in text.split(","):
        match = _TASKS.fullmatch(part)
        if match is None:
            return []
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        span = range(low, high + 1, step or 1)
        if len(found) + len(span) > min(most, _MOST_TASKS):
            return []
        found += span
    return found
