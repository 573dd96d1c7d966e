"""Jobs out of rows: steps joined to their job, earlier runs numbered, doubles put together.

A job's row says what was asked and given; its steps say what was used. MaxRSS is the largest of a
step's tasks (sampled every 30 s by default), so that a job's peak lies between that and NTasks
times that. With ``sacct -D`` a requeued job has one row a run, each followed by its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rotameter.adapters.importers._slurm_fill import fill_jobs, fill_steps
from rotameter.adapters.importers._slurm_namesakes import call_by_job_id, namesakes
from rotameter.adapters.importers._slurm_resized import fold_resized
from rotameter.adapters.importers._slurm_runs import arrays_begun, runs_of
from rotameter.adapters.importers._slurm_same import put_same_together
from rotameter.adapters.importers._slurm_steps import runs_of_steps
from rotameter.adapters.importers._slurm_table import FLOATS, TIMES, Columns
from rotameter.adapters.importers._slurm_values import MISSING_NS, words

__all__ = ["Joined", "join"]

_TEXTS = words(
    """key step raw name user account queue host cluster sluid reason outcome error comment
    admincomment gpu_json"""
)
_OF_STEPS = words("cpu read write energy gpu_memory gpu_peak_percent")

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Joined:
    """Jobs as columns, and of each what its steps tell.

    Attributes
    ----------
    jobs : dict
        Columns, one value a job's run.
    steps : dict
        Columns of the steps that belong to them.
    job_of : numpy.ndarray
        For each step, the row in ``jobs``.
    attempt : numpy.ndarray
        Number of the run, from 1.
    made : numpy.ndarray
        Jobs that have no row of their own: put together from their steps.
    doubles : int
        Rows that tell of a run that another row tells of too, or of a part of it (of one size, of
        the array that it waited in).
    unplaced : list of str
        Jobs of the steps of which it is not sure which run they belong to, one a step.
    namesakes : list of str
        Numbers that stand for several jobs.
    unclear : list of str
        Numbers with rows that may tell of one of several runs, or of one of their own.
    resized : list of str
        Jobs that were put together from records of several sizes.
    """

    def __init__(self, jobs: Columns, steps: Columns) -> None:
        self.jobs, self.steps = jobs, steps
        self.job_of = np.zeros(0, dtype=np.int64)
        self.attempt = np.ones(_size(jobs), dtype=np.int64)
        self.made = np.zeros(_size(jobs), dtype=bool)
        self.doubles = 0
        self.unplaced: list[str] = []
        self.namesakes: list[str] = []
        self.unclear: list[str] = []
        self.resized: list[str] = []

    @property
    def n(self) -> int:
        """Number of jobs' runs."""
        return _size(self.jobs)


def _size(columns: Columns) -> int:
    return len(columns["key"])


def _concat(parts: list[Columns], name: str) -> Any:
    have = [part.get(name) for part in parts]
    if all(values is None for values in have):
        return None
    sizes = [_size(part) for part in parts]
    if name in _TEXTS:
        whole = pa.chunked_array(
            [pa.nulls(n, pa.string()) if v is None else v for n, v in zip(sizes, have, strict=True)]
        )
        return whole.combine_chunks()
    like = next(values for values in have if values is not None)
    blank = np.nan if name in FLOATS else MISSING_NS if name in TIMES else 0
    filled = [
        np.full(n, blank, dtype=like.dtype) if v is None else v
        for n, v in zip(sizes, have, strict=True)
    ]
    return np.concatenate(filled)


def _table(parts: list[Columns]) -> Columns:
    names = dict.fromkeys(name for part in parts for name in part)
    out: Columns = {}
    for name in names:
        out[name] = _concat(parts, name)
        for part in parts:
            if name != "key":
                part.pop(name, None)  # a dump is large: keep one copy
    return out


def _take(columns: Columns, rows: Any) -> Columns:
    return {
        name: values.take(pa.array(rows)) if isinstance(values, pa.Array) else values[rows]
        for name, values in columns.items()
    }


def join(parts: list[Columns]) -> Joined:
    """Put rows together, in the order in which they came."""
    rows = _table(parts)
    seq = rows.pop("line")
    if (seq[1:] < seq[:-1]).any():  # rows that were read one by one come after the others
        rows = _take(rows, np.argsort(seq, kind="stable"))
    call_by_job_id(rows)
    _tell_clusters_apart(rows)
    codes = rows["key"].dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    step = rows["is_step"]
    is_job = np.flatnonzero(~step)
    is_step = np.flatnonzero(step)
    orphan = ~np.isin(codes[is_step], codes[is_job])
    made, firsts = _without_job(rows, codes, is_step[orphan])
    at = np.concatenate([is_job, firsts])
    order = np.argsort(at, kind="stable")
    at = at[order]
    jobs = _take(rows, at)
    if len(firsts):
        jobs = _from_steps(jobs, made[order])
    joined = Joined(jobs, _take(rows, is_step))
    joined.made = made[order]
    job_codes = codes[at]
    joined.job_of, unsure = runs_of_steps(
        jobs, joined.steps, at, job_codes, is_step, codes[is_step]
    )
    keys = pa.array(joined.job_of[unsure])
    joined.unplaced = jobs["key"].take(keys).to_pylist()
    _number_runs(joined, job_codes)
    _drop_double_steps(joined)
    return joined


def _tell_clusters_apart(rows: Columns) -> None:
    """Ids are unique in a cluster only."""
    clusters = rows.get("cluster")
    if clusters is None or len(pc.unique(clusters.drop_null())) < 2:
        return
    named = pc.binary_join_element_wise(clusters, rows["key"], ":")
    rows["key"] = pc.coalesce(named, rows["key"])


def _without_job(rows: Columns, codes: Any, orphans: Any) -> tuple[Any, Any]:
    """Give, for steps whose job has no row, the first of each job: it stands for the job."""
    n_jobs = int((~rows["is_step"]).sum())
    if not len(orphans):
        return np.zeros(n_jobs, dtype=bool), orphans
    _, first = np.unique(codes[orphans], return_index=True)
    firsts = orphans[np.sort(first)]
    return np.concatenate([np.zeros(n_jobs, dtype=bool), np.ones(len(firsts), dtype=bool)]), firsts


def _from_steps(jobs: Columns, made: Any) -> Columns:
    """Blank what is a step's own where a step stands for its job."""
    for name in ("name", "raw", "host"):
        if name in jobs:
            jobs[name] = pc.if_else(pa.array(made), pa.scalar(None, pa.string()), jobs[name])
    for name in (*_OF_STEPS, "rss", "tasks"):
        if name in jobs:
            jobs[name] = np.where(made, np.nan, jobs[name])
    return jobs


def _number_runs(joined: Joined, codes: Any) -> None:
    """Give runs their number by start; rows that tell of one run become one row."""
    target = np.arange(joined.n)
    counts = np.bincount(codes)
    again = np.flatnonzero(counts[codes] > 1)
    jobs = joined.jobs
    blank = np.full(joined.n, MISSING_NS, dtype=np.int64)
    start, submit, end = (jobs.get(name, blank) for name in ("start", "submit", "end"))
    wall = jobs.get("wall", np.full(joined.n, np.nan))
    phase = jobs.get("phase", np.zeros(joined.n, dtype=np.int8))
    said = _states(jobs)
    groups: dict[int, list[int]] = {}
    for row in again.tolist():
        groups.setdefault(int(codes[row]), []).append(row)
    sizes: list[int] = []
    for rows in _apart(joined, groups.values()):
        best = []
        runs, unclear = put_same_together(jobs, runs_of(jobs, rows))
        joined.unclear += [jobs["key"][rows[0]].as_py()] if unclear else []
        for same in runs:
            # What a run that is not over yet says of its end is a guess.
            keep = max(same, key=lambda r: (said[r], -phase[r], end[r], _or_less(wall[r]), r))
            target[same] = keep
            best.append(keep)
        best.sort(key=lambda r: (start[r] == MISSING_NS, start[r], submit[r], r))
        parts = dict(fold_resized(jobs, best))
        for part, whole in parts.items():
            target[part] = whole
        sizes += parts
        joined.resized += [jobs["key"][best[0]].as_py()] if parts else []
        best = [row for row in best if row not in parts]
        joined.attempt[best] = np.arange(1, len(best) + 1)
    for array, task in arrays_begun(joined.jobs):
        target[array] = task
    _put_together(joined, target, sizes)


def _states(jobs: Columns) -> Any:
    """Say which rows tell a state."""
    if "outcome" not in jobs:
        return np.zeros(_size(jobs), dtype=bool)
    return jobs["outcome"].is_valid().to_numpy(zero_copy_only=False)


def _or_less(wall: float) -> float:
    return -1.0 if np.isnan(wall) else wall


def _apart(joined: Joined, groups: Iterable[list[int]]) -> list[list[int]]:
    """Share out rows of one number that tell of different jobs; later ones are called #2."""
    jobs, found = joined.jobs, []
    named: dict[int, str] = {}
    for rows in groups:
        shares = namesakes(jobs, rows)
        found += shares
        for number, share in enumerate(shares[1:], 2):
            key = jobs["key"][rows[0]].as_py()
            named |= {row: f"{key}#{number}" for row in share}
            joined.namesakes += [key] if number == 2 else []
    if named:
        keys = jobs["key"].to_pylist()
        jobs["key"] = pa.array([named.get(row, key) for row, key in enumerate(keys)], pa.string())
    return found


def _put_together(joined: Joined, target: Any, sizes: Sequence[int]) -> None:
    """Keep one row a run, with what the other rows of the run know beside it.

    ``sizes`` are rows of parts of a run: what these used was added up before.
    """
    gone = np.flatnonzero(target != np.arange(joined.n))
    if not len(gone):
        return
    while (target != target[target]).any():  # an array's row goes into a task's, and so on
        target = target[target]
    jobs = joined.jobs
    fill_jobs(jobs, gone, target, sizes)
    joined.doubles = len(gone)
    keep = np.ones(joined.n, dtype=bool)
    keep[gone] = False
    new = np.cumsum(keep) - 1
    joined.jobs = _take(jobs, np.flatnonzero(keep))
    joined.attempt, joined.made = joined.attempt[keep], joined.made[keep]
    joined.job_of = new[target[joined.job_of]]


def _drop_double_steps(joined: Joined) -> None:
    """Keep the last row of each step of a run, an ended one first: listings may overlap."""
    if not len(joined.job_of):
        return
    steps = joined.steps["step"].dictionary_encode()
    codes = steps.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    both = joined.job_of * (len(steps.dictionary) + 1) + codes
    phase = joined.steps.get("phase", np.zeros(len(both), dtype=np.int8))
    order = np.lexsort((np.arange(len(both)), -phase, both))
    last = np.append(both[order][1:] != both[order][:-1], True)
    if not last.all():
        fill_steps(joined.steps, order, last)
        keep = np.sort(order[last])
        joined.steps = _take(joined.steps, keep)
        joined.job_of = joined.job_of[keep]
