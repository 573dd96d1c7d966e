"""Rows of the trace's table ``samples``: what jobs' columns cannot hold, such as bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rotameter.adapters.importers._slurm_jobs import Joined
from rotameter.adapters.importers._slurm_values import LAST_S, MISSING_NS
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.adapters.importers.building import Builder

__all__ = ["Metric", "add_samples", "add_so_far"]

Metric = tuple[str, Any, str]
"""Name, one value a job (NaN is none), and how it was obtained."""


def add_samples(
    joined: Joined,
    metrics: Sequence[Metric],
    readings: Sequence[tuple[int, str, float]],
    at_ns: Any,
    build: Builder,
) -> None:
    """Add samples at the end of jobs.

    Parameters
    ----------
    joined : Joined
    metrics : sequence of Metric
    readings : sequence of (int, str, float)
        Further ones: row of the job, name, value.
    at_ns : numpy.ndarray
        When each job ended.
    build : Builder
    """
    for metric, values, quality in metrics:
        rows = np.flatnonzero(~np.isnan(values))
        if len(rows):
            _add(joined, rows, at_ns[rows], [metric] * len(rows), values[rows], quality, build)
    if readings:
        at, names, found = zip(*readings, strict=True)
        rows = np.array(at)
        _add(joined, rows, at_ns[rows], list(names), list(found), "sampled", build)


def add_so_far(joined: Joined, cpu: Any, start: Any, wall: Any, build: Builder) -> None:
    """Keep the CPU time of jobs that still run, as far as the listing tells it.

    Parameters
    ----------
    joined : Joined
    cpu : numpy.ndarray
        In seconds; NaN for jobs of which nothing is to be kept.
    start, wall : numpy.ndarray
        When each job began, in ns, and how long it had run, in seconds.
    build : Builder
    """
    rows = np.flatnonzero(~np.isnan(cpu))
    if not len(rows):
        return
    begun = (start[rows] != MISSING_NS) & (start[rows] / 1e9 + wall[rows] < LAST_S)
    ran = (np.where(begun, wall[rows], 0) * 1e9).astype(np.int64)
    seen = np.where(begun, start[rows] + ran, MISSING_NS)
    _add(joined, rows, seen, ["cpu_s"] * len(rows), cpu[rows], "lower_bound", build)
    build.not_measured(
        f"CPU time of {many(len(rows), 'job')} that still ran: what the listing has of it is kept "
        "as a lower bound (samples, cpu_s)"
    )


def _add(
    joined: Joined,
    rows: Any,
    at_ns: Any,
    names: list[str],
    values: Any,
    quality: str,
    build: Builder,
) -> None:
    build.extend(
        "samples",
        {
            "at_ns": pa.array(at_ns, pa.int64(), mask=at_ns == MISSING_NS),
            "subject": joined.jobs["key"].take(pa.array(rows)),
            "metric": names,
            "value": values,
            "quality": [quality] * len(rows),
        },
    )
