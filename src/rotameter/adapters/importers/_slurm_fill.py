"""What rows of one run, or of one step, know beside the row that is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._slurm_runs import ALWAYS
from rotameter.adapters.importers._slurm_table import FLOATS, TIMES, Columns
from rotameter.adapters.importers._slurm_values import MISSING_NS, words

__all__ = ["fill_jobs", "fill_steps"]

_NAMES = words("name user account queue")
"""Texts that a job has from its submission on."""
_TEXTS = (*_NAMES, *words("raw host outcome error reason comment admincomment gpu_json sluid"))


def fill_jobs(jobs: Columns, gone: Any, target: Any, sizes: Sequence[int]) -> None:
    """Fill what the kept row of a run does not say.

    Parameters
    ----------
    jobs : Columns
        Changed.
    gone : numpy.ndarray
        Rows that are not kept.
    target : numpy.ndarray
        For each row, the one that is kept.
    sizes : sequence of int
        Rows of parts of a run: what these used was added up before.
    """
    phase = jobs.get("phase", np.zeros(len(target), dtype=np.int8))
    # A run that is not over says 0 of what is to come.
    late = gone[(phase[gone] <= phase[target[gone]]) & ~np.isin(gone, sizes)]
    per = jobs.get("req_per")
    for name, values in jobs.items():
        sure = gone if name in ALWAYS or name in _NAMES else late
        if name in _TEXTS:
            jobs[name] = _texts(values, sure, target)
        if name not in FLOATS and name not in TIMES:
            continue
        missing = np.isnan if name in FLOATS else _is_missing
        for row in sure.tolist():
            if missing(values[target[row]]):
                values[target[row]] = values[row]
                if name == "req_memory" and per is not None:
                    per[target[row]] = per[row]


def _is_missing(value: Any) -> Any:
    return value == MISSING_NS


def _texts(values: Any, rows: Any, target: Any) -> Any:
    known = values.is_valid().to_numpy(zero_copy_only=False)
    wanted = rows[~known[target[rows]] & known[rows]]
    if not len(wanted):
        return values
    source = np.arange(len(values))
    source[target[wanted]] = wanted
    return values.take(pa.array(source))


def fill_steps(steps: Columns, order: Any, last: Any) -> None:
    """Fill what the kept row of a step does not say from others that are as far as it.

    Parameters
    ----------
    steps : Columns
        Changed.
    order : numpy.ndarray
        Rows such that those of one step follow one another, the kept one last.
    last : numpy.ndarray
        Where in that order a step's last row is.
    """
    n = len(order)
    first = np.concatenate([[True], last[:-1]])
    begin = np.maximum.accumulate(np.where(first, np.arange(n), 0))
    ends = np.flatnonzero(last)
    phase = steps.get("phase", np.zeros(n, dtype=np.int8))[order]
    alike = phase == phase[ends[np.cumsum(first) - 1]]
    several = ends[begin[ends] < ends]
    for name, values in steps.items():
        if name not in FLOATS and name not in TIMES:
            continue
        sorted_values = values[order]
        known = alike & ~(np.isnan if name in FLOATS else _is_missing)(sorted_values)
        latest = np.maximum.accumulate(np.where(known, np.arange(n), begin))
        take = several[known[latest[several]]]
        values[order[take]] = sorted_values[latest[take]]
