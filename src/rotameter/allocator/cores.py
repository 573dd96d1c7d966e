"""Fewer cores for groups that clearly keep fewer busy than they ask for.

What is known is a mean: the CPU time of a run over its duration. It is no peak, so it says what a
run does not use rather than what it needs: advice is to ask for less, only where in every run at
least half of what was asked for stood idle, and never for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.advised import Advice
from rotameter.allocator.requesting import FEWEST
from rotameter.allocator.resources import CORES
from rotameter.profiler.whole_cores import whole_cores
from rotameter.units import many

if TYPE_CHECKING:
    from rotameter.allocator.chances import Floats
    from rotameter.allocator.workload import Workload

__all__ = ["advise_cores"]

CLEAR = 0.5
"""Part of what was asked for that a run keeps busy at most, and that a request is at most: a mean
nearer to it may hide phases that use all of it."""

KNOWN = 0.9
"""Part of a group's runs whose CPU time must be known."""


def advise_cores(work: Workload, *, headroom: float | None = None) -> list[Advice]:
    """Advise whole cores for each group, those that hold most first.

    Parameters
    ----------
    work : Workload
        Of :data:`~rotameter.allocator.resources.CORES`.
    headroom : float, optional
        Part that is added to the highest mean.

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> mean, asked = np.array([1.3] + [1.1] * 8), np.full(9, 8.0)
    >>> blank, one = np.full(9, np.nan), np.ones(9)
    >>> work = Workload("w", np.zeros(9, int), ("g",), mean, one, blank, asked, resource=CORES)
    >>> (made,) = advise_cores(work)
    >>> made.request, made.keep
    (2.0, '')
    """
    added = CORES.headroom if headroom is None else headroom
    held = np.where(np.isnan(work.asked), np.nan_to_num(work.need), work.asked) * work.wall_s
    weight = np.bincount(work.group, held, minlength=len(work.groups))
    order = np.argsort(-weight, kind="stable").tolist()
    by_group = np.argsort(work.group, kind="stable")
    edges = np.searchsorted(work.group[by_group], np.arange(len(work.groups) + 1))
    groups = ((code, by_group[edges[code] : edges[code + 1]]) for code in order)
    return [_of_group(work, code, rows, added) for code, rows in groups if rows.size]


def _of_group(work: Workload, code: int, rows: np.ndarray, headroom: float) -> Advice:
    need, asked, wall = work.need[rows], work.asked[rows], work.wall_s[rows]
    known = ~np.isnan(need)
    used = need[known]
    most = float(used.max()) if used.size else None
    request = None if most is None else float(whole_cores(np.array([most]), headroom)[0])
    keep = _keep(used, asked, work.size[rows], request)
    known_asked = asked[~np.isnan(asked)]
    ran = known if work.cached is None else known & ~work.cached[rows]
    held_s = float(wall[ran].sum()) if ran.any() else None
    asked_core_s = None if np.isnan(asked[ran]).any() else float(asked[ran] @ wall[ran])
    sizes = work.size[rows][~np.isnan(work.size[rows])]
    quantiles = np.quantile(used, (0.0, 0.5, 0.95), method="inverted_cdf") if used.size else None
    least, median, p95 = (None,) * 3 if quantiles is None else quantiles.tolist()
    return Advice(
        group=work.groups[code],
        runs=len(used),
        least=least,
        most=most,
        asked=_middle(known_asked),
        request=None if keep else request,
        retries=(),
        kill_ratio=None,
        kill_interval=None,
        size_range=(float(sizes.min()), float(sizes.max())) if sizes.size else None,
        keep=keep,
        median=median,
        p95=p95,
        kinds=("estimate",) if used.size else (),
        used_held=_hours(float(need[ran] @ wall[ran]) if ran.any() else None),
        asked_held=_hours(asked_core_s if ran.any() else None),
        advised_held=_hours(
            None if keep or request is None or held_s is None else request * held_s
        ),
        reason=_why(used, len(need), headroom, keep),
        resource=CORES,
    )


def _hours(core_s: float | None) -> float | None:
    return None if core_s is None else core_s / CORES.per_held


def _middle(asked: Floats) -> float | None:
    return float(np.quantile(asked, 0.5, method="inverted_cdf")) if asked.size else None


def _keep(used: Floats, asked: Floats, sizes: Floats, request: float | None) -> str:
    """Say why nothing is advised; empty where something is."""
    runs = len(asked)
    if request is None:
        return "the CPU time of all its threads is not known"
    if len(used) < KNOWN * runs:
        return f"the CPU time of {runs - len(used):,} of {runs:,} runs is not known"
    if len(used) < FEWEST:
        return f"fewer than {FEWEST} runs"
    if np.isnan(asked).any():
        return "what it asked for is not known"
    if not np.isnan(sizes).any() and (sizes == sizes[0]).all():
        return "all runs had the same input size"
    # What one run had it may have been held to: the least that any asked for counts.
    least = float(asked.min())
    if least <= 1:
        return "it asks for no more than one"
    if max(float(used.max()), request) > CLEAR * least:
        return "it is not clear that fewer would do"
    return ""


def _why(used: Floats, runs: int, headroom: float, keep: str) -> str:
    unknown = runs - len(used)
    of = f"; of {many(unknown, 'more run')} it is not known" if unknown and not keep else ""
    if not len(used):
        return f"keep, because {keep} ({many(runs, 'run')})"
    most = f"{CORES.text(float(used.max()))} at most on average over {many(len(used), 'run')}"
    if keep:
        return f"keep, because {keep}; busy were {most}{of}"
    more = f"; {CORES.text(100 * headroom)} % is added" if headroom else ""
    return f"busy were {most}{more}; a run that at times kept more busy would last longer{of}"
