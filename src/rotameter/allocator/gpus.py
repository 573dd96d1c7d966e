"""No GPU for groups that held some and never used them.

What is known of GPUs is a mean, as of cores, and whole ones are asked for: only that they were not
used at all is clear. It is told as :mod:`~rotameter.profiler.findings.gpu_unused` tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.advised import Advice
from rotameter.allocator.resources import GPUS
from rotameter.profiler.gpu_use import FEW
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.allocator.workload import Codes, Floats, Workload

__all__ = ["advise_gpus"]


def advise_gpus(work: Workload) -> list[Advice]:
    """Advise on GPUs for each group, those that held most first: none, or what they have.

    Parameters
    ----------
    work : Workload
        Of :data:`~rotameter.allocator.resources.GPUS`.

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> one, zero, nan = np.ones(4), np.zeros(4), np.full(4, np.nan)
    >>> made = Workload("w", np.zeros(4, int), ("g",), zero, one, nan, one, resource=GPUS)
    >>> (advice,) = advise_gpus(made)
    >>> advice.request, advice.reason
    (0.0, 'none of 4 runs used the GPUs that it held')
    """
    held = np.bincount(work.group, work.asked * work.wall_s, minlength=len(work.groups))
    order = np.argsort(-held, kind="stable").tolist()
    by_group = np.argsort(work.group, kind="stable")
    edges = np.searchsorted(work.group[by_group], np.arange(len(work.groups) + 1))
    groups = ((code, by_group[edges[code] : edges[code + 1]]) for code in order)
    return [_of_group(work, code, rows) for code, rows in groups if rows.size]


def _of_group(work: Workload, code: int, rows: Codes) -> Advice:
    need, asked, wall = work.need[rows], work.asked[rows], work.wall_s[rows]
    known = need[~np.isnan(need)]
    keep = _keep(known, len(rows))
    low, median, p95, high = (
        np.quantile(known, (0.0, 0.5, 0.95, 1.0), method="inverted_cdf").tolist()
        if known.size
        else (None,) * 4
    )
    used_s = float(need @ wall) if known.size == len(rows) else None
    return Advice(
        group=work.groups[code],
        runs=len(rows),
        least=low,
        most=high,
        asked=float(np.quantile(asked, 0.5, method="inverted_cdf")),
        request=None if keep else 0.0,
        retries=(),
        kill_ratio=None,
        kill_interval=None,
        size_range=None,
        keep=keep,
        median=median,
        p95=p95,
        kinds=("estimate",) if known.size else (),
        at_most=0 if work.at_most is None else int(work.at_most[rows].sum()),
        used_held=None if used_s is None else used_s / GPUS.per_held,
        asked_held=float(asked @ wall) / GPUS.per_held,
        advised_held=None if keep else 0.0,
        reason=_why(known, len(rows), keep),
        resource=GPUS,
    )


def _keep(known: Floats, runs: int) -> str:
    """Say why the GPUs are kept; empty where none should be asked for."""
    if (known > 0).any():
        return "it uses them"
    if not known.size:
        return "no run has a reading of its GPU"
    return f"fewer than {FEW} runs" if runs < FEW else ""


def _why(known: Floats, runs: int, keep: str) -> str:
    if not keep:
        unknown = runs - known.size
        of = f"; of {many(unknown, 'more run')} it is not known" if unknown else ""
        return f"none of {many(known.size, 'run')} used the GPUs that it held{of}"
    said = f"keep, because {keep} ({many(runs, 'run')})"
    if not (known > 0).any():
        return said
    return f"{said}; busy were {GPUS.text(float(known.max()))} at most on average"
