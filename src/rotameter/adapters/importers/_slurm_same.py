"""Runs of one job number that listings with other columns tell of: the same one, or another.

One listing has Submit and Start, another one (``sacct`` as it comes) neither, or one has Start and
another one End. What contradicts nothing is one run, where only one can be meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rotameter.adapters.importers._slurm_table import Columns
from rotameter.adapters.importers._slurm_values import (
    ENDED,
    MISSING_NS,
    NEAR_NS,
    PENDING,
    RUNNING,
)

__all__ = ["put_same_together"]

_REQUEUED = frozenset(("worker_lost", "preempted", "rescheduled", "unknown"))
_MOST_RUNS = 200
_HOUR_S = 3600


class _Told:
    """What the rows of one run tell of it; an empty set is "not said"."""

    def __init__(self, jobs: Columns, rows: Sequence[int]) -> None:
        phases = {row: int(jobs["phase"][row]) if "phase" in jobs else ENDED for row in rows}
        states = {row: _text(jobs, "outcome", row) for row in rows}
        ended = [row for row in rows if phases[row] == ENDED and states[row] is not None]
        begun = [row for row in rows if phases[row] != PENDING]
        self.ids = {text for row in rows if (text := _text(jobs, "sluid", row))}
        self.submits = _times(jobs, "submit", rows)
        self.starts = _times(jobs, "start", begun)
        over = [row for row in begun if phases[row] != RUNNING]
        self.ends = _times(jobs, "end", over)
        self.walls = _numbers(jobs, "wall", over)
        self.so_far = _numbers(jobs, "wall", [row for row in rows if phases[row] == RUNNING])
        self.outcomes = {states[row] for row in ended}
        self.only_waits = not begun
        self.resizing = any(_text(jobs, "error", row) == "RESIZING" for row in rows)
        self.suspended = bool(_numbers(jobs, "suspended", rows) - {0.0})


def _text(jobs: Columns, name: str, row: int) -> str | None:
    return jobs[name][row].as_py() if name in jobs else None


def _times(jobs: Columns, name: str, rows: Sequence[int]) -> set[int]:
    values = jobs.get(name)
    return set() if values is None else {int(values[r]) for r in rows} - {MISSING_NS}


def _numbers(jobs: Columns, name: str, rows: Sequence[int]) -> set[float]:
    values = jobs.get(name)
    return set() if values is None else {float(values[r]) for r in rows if values[r] == values[r]}


def put_same_together(jobs: Columns, runs: list[list[int]]) -> tuple[list[list[int]], bool]:
    """Join runs that may be the same where each can be no other; say whether some are unclear.

    Parameters
    ----------
    jobs : Columns
    runs : list of list of int
        The rows of each run of one job.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> jobs = {"outcome": pa.array(["running", "ok"]), "phase": np.array([1, 0])}
    >>> put_same_together(jobs | {"wall": np.array([300.0, 600.0])}, [[0], [1]])
    ([[0, 1]], False)
    >>> jobs = {"outcome": pa.array(["ok"] * 3), "phase": np.zeros(3)}
    >>> put_same_together(jobs | {"start": np.array([7, 9, MISSING_NS])}, [[0], [1], [2]])
    ([[0], [1], [2]], True)
    """
    if len(runs) < 2:
        return runs, False
    told = [_Told(jobs, rows) for rows in runs]
    if _all_apart([one.starts for one in told]) or _all_apart([one.submits for one in told]):
        return runs, False
    if len(runs) > _MOST_RUNS:
        return runs, True
    links: list[dict[int, bool]] = [{at: True} for at in range(len(runs))]
    for one in range(len(runs)):
        for two in range(one):
            same = _same(told[one], told[two])
            if same is not False:
                links[one][two] = links[two][one] = bool(same)
    out: list[list[int]] = []
    done: set[int] = set()
    unclear = False
    for at in range(len(runs)):
        if at in done:
            continue
        if all(links[at].values()) and all(links[o].keys() == links[at].keys() for o in links[at]):
            done |= links[at].keys()
            out.append([row for o in sorted(links[at]) for row in runs[o]])
        else:
            unclear = True
            out.append(runs[at])
    return out, unclear


def _all_apart(told: Sequence[set[int]]) -> bool:
    """Say whether all runs have a time, and no two of them the same."""
    return all(told) and len(set().union(*told)) == sum(map(len, told))


def _same(one: _Told, two: _Told) -> bool | None:
    """Say whether two may tell of the same run; None if that may as well be another one."""
    if one.resizing != two.resizing:
        return False
    pairs: tuple[tuple[set[Any], set[Any]], ...] = (
        (one.ids, two.ids),
        (one.submits, two.submits),
        (one.starts, two.starts),
        (one.outcomes, two.outcomes),
        (one.walls, two.walls),
    )
    if any(a and b and not a & b for a, b in pairs):
        return False
    if one.ends and two.ends and abs(max(one.ends) - max(two.ends)) > NEAR_NS:
        return False
    known = bool(one.submits & two.submits or one.starts & two.starts or one.ids & two.ids)
    verdicts = [_follows(a, b, known) for a, b in ((one, two), (two, one))]
    return False if False in verdicts else None if None in verdicts else True


def _follows(one: _Told, two: _Told, known: bool) -> bool | None:
    """Say whether what the second tells may have come after what the first does."""
    if one.so_far and two.walls and max(one.so_far) > max(two.walls) + NEAR_NS / 1e9:
        return False
    before, after = one.submits | one.starts, two.ends
    if before and after and max(before) > max(after):
        return False
    if one.submits and two.starts and max(one.submits) > min(two.starts):
        return False
    if two.outcomes & _REQUEUED and not one.outcomes and not known:
        # Taken back: what is seen to wait or to run may be the next run.
        return False if one.only_waits else None
    if one.starts and after and not one.ends and (walls := one.walls | two.walls):
        off_s = (max(after) - min(one.starts)) / 1e9 - max(walls)
        # More than a change of the clocks: it was suspended, or it is another run.
        if abs(off_s) > _HOUR_S + NEAR_NS / 1e9 and not (one.suspended or two.suspended):
            return None
    return True
