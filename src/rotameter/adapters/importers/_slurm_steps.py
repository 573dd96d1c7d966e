"""Which run of its job a step belongs to: the one whose time holds its own, else the row before.

Listings may hold a requeued job's runs first and all their steps after them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from rotameter.adapters.importers._slurm_table import Columns
from rotameter.adapters.importers._slurm_values import MISSING_NS, NEAR_NS, PENDING

__all__ = ["runs_of_steps"]


def runs_of_steps(
    jobs: Columns, steps: Columns, at: Any, job_codes: Any, step_at: Any, step_codes: Any
) -> tuple[Any, Any]:
    """Give the row in ``jobs`` of each step, and the steps of which that is not sure.

    Parameters
    ----------
    jobs, steps : Columns
    at, step_at : numpy.ndarray
        Places of jobs and steps in the listing.
    job_codes, step_codes : numpy.ndarray
        Codes of their jobs' ids.
    """
    if not len(step_at):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    before = np.searchsorted(at, step_at, side="right") - 1
    parent = np.where(before >= 0, before, 0)
    near = (before >= 0) & (job_codes[parent] == step_codes)
    counts = np.bincount(job_codes)
    several = counts[step_codes] > 1
    look = np.flatnonzero(~near | (several & ~_held(jobs, steps, parent)))
    runs: dict[int, list[int]] = {}
    wanted = set(step_codes[look].tolist())
    for row, code in enumerate(job_codes.tolist() if wanted else ()):
        if code in wanted:
            runs.setdefault(code, []).append(row)
    unsure = []
    for i in look.tolist():
        rows = runs[int(step_codes[i])]
        own = int(parent[i]) if near[i] else None
        parent[i], sure = _place(jobs, steps, i, rows, own)
        if not sure:
            unsure.append(i)
    return parent, _unclear(steps, parent, unsure)


def _held(jobs: Columns, steps: Columns, parent: Any) -> Any:
    """Say of which steps the time lies within that of the row before; not where one is unknown."""
    if not all("start" in one and "end" in one for one in (jobs, steps)):
        return np.zeros(len(parent), dtype=bool)
    first, last = jobs["start"][parent], jobs["end"][parent]
    begun, ended = steps["start"], steps["end"]
    known = (first != MISSING_NS) & (last != MISSING_NS)
    known &= (begun != MISSING_NS) & (ended != MISSING_NS)
    return known & (first <= begun) & (ended <= np.where(known, last, 0) + NEAR_NS)


def _place(
    jobs: Columns, steps: Columns, step: int, rows: list[int], before: int | None
) -> tuple[int, bool]:
    """Choose one step's run; whether the times say so."""
    fallback = rows[0] if before is None else before
    if len(rows) < 2:
        return fallback, True
    starts, ends, phase = jobs.get("start"), jobs.get("end"), jobs.get("phase")
    begun = steps["start"][step] if "start" in steps else MISSING_NS
    if starts is None or begun == MISSING_NS:
        return fallback, False
    begun_rows = [
        row
        for row in rows
        if starts[row] != MISSING_NS and (phase is None or phase[row] != PENDING)
    ]

    def order(row: int) -> tuple[bool, int, bool]:
        """Prefer what had begun, the latest of it, and what is listed before."""
        return bool(starts[row] <= begun), int(starts[row]), row == before

    def over(row: int) -> bool:
        """Say whether a run had ended when the step began."""
        return ends is not None and ends[row] != MISSING_NS and bool(ends[row] < begun)

    fit = [r for r in begun_rows if starts[r] - NEAR_NS <= begun and not over(r)]
    if fit:
        return max(fit, key=order), True
    early = [row for row in begun_rows if starts[row] <= begun]
    chosen = fallback if before is not None else max(early, key=order, default=fallback)
    # Rows that tell of one run, listed twice, leave no choice.
    return chosen, len({int(starts[row]) for row in begun_rows}) < 2


def _unclear(steps: Columns, parent: Any, unsure: list[int]) -> Any:
    """Leave out what, without times, stands as sacct itself lists it: each step once a run."""
    if not unsure or "start" not in steps:
        places = unsure
    else:
        begun = steps["start"]
        places = [i for i in unsure if begun[i] == MISSING_NS]
    names = steps["step"]
    count = Counter((int(parent[i]), names[i].as_py()) for i in places)
    alone = {i for i in places if count[int(parent[i]), names[i].as_py()] < 2}
    return np.array([i for i in unsure if i not in alone], dtype=np.int64)
