"""What each group should ask for, from runs that are over: with chances, and reasons to keep.

A request is the largest need seen (with headroom, and what needs grew by meanwhile), or less where
so many runs are known that the rate of kills that the user accepts shows in them. The chance of a
kill is that of the runs that needed more, with its exact 95 % interval (Clopper and Pearson 1934).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["FEWEST", "Advice", "advise", "kill_interval"]

FEWEST = 5
"""Runs from which a request is advised."""

RETRY = 2.0

TAIL, MOST_GROWTH = 0.95, 1.5
"""Growth is told by this quantile of needs, and trusted up to this factor."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What a group should ask for.

    Attributes
    ----------
    group : str
    runs : int
        Completed tasks whose use is known.
    least_bytes, most_bytes : float
        Range of what they used.
    asked_bytes : float or None
        What the user asked for (the middle one), if known.
    request_bytes : float or None
        What to ask for; None: keep what is.
    retry_bytes : tuple of float
        What to ask for after a kill, and after the next.
    kill_ratio, kill_interval
        Runs that needed more than the request, of all; its 95 % interval.
    keep : str
        Why nothing is advised; empty where something is.
    """

    group: str
    runs: int
    least_bytes: float
    most_bytes: float
    asked_bytes: float | None
    request_bytes: float | None
    retry_bytes: tuple[float, ...]
    kill_ratio: float | None
    kill_interval: tuple[float, float] | None
    size_range: tuple[float, float] | None
    keep: str = ""


def kill_interval(killed: int, runs: int) -> tuple[float, float]:
    """Give the exact 95 % interval of a rate.

    Examples
    --------
    >>> low, high = kill_interval(0, 100)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    from scipy.stats import beta

    low = 0.0 if killed == 0 else float(beta.ppf(0.025, killed, runs - killed + 1))
    high = 1.0 if killed == runs else float(beta.ppf(0.975, killed + 1, runs - killed))
    return low, high


def advise(
    work: Workload,
    *,
    max_kill: float = 0.01,
    headroom: float = 0.1,
    machine_bytes: float | None = None,
) -> list[Advice]:
    """Advise a request for each group of a workload, those that hold most first.

    Parameters
    ----------
    work : Workload
    max_kill : float
        Share of runs that may be killed and run again.
    headroom : float
        Part that is added to what was needed.
    machine_bytes : float, optional
        What the largest machine has; no rung is beyond it.

    Returns
    -------
    list of Advice

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> need, nan = np.array([2e9] + [1e9] * 9), np.full(10, np.nan)
    >>> work = Workload("w", np.zeros(10, int), ("load",), need, np.ones(10), nan, nan)
    >>> (made,) = advise(work)
    >>> made.request_bytes, made.retry_bytes, made.kill_ratio
    (2200000000.0, (4400000000.0, 8800000000.0), 0.0)
    """
    most = math.inf if machine_bytes is None else machine_bytes
    weight = np.bincount(work.group, work.need_bytes * work.wall_s, minlength=len(work.groups))
    made = []
    for code in np.argsort(-weight, kind="stable").tolist():
        rows = np.flatnonzero(work.group == code)
        if rows.size:
            made.append(_of_group(work, code, rows, max_kill, headroom, most))
    return made


def _of_group(
    work: Workload, code: int, rows: np.ndarray, max_kill: float, headroom: float, most: float
) -> Advice:
    needs = np.sort(work.need_bytes[rows])
    asked = work.asked_bytes[rows]
    sizes = work.size[rows][~np.isnan(work.size[rows])]
    n = len(needs)
    keep = _keep(work, rows, sizes)
    spare = math.floor(max_kill * n)
    base = float(needs[n - 1 - spare]) * _growth(work.need_bytes[rows])
    dead = [had for group, had in work.killed if group == code]
    # What was not enough once is not advised, unless more was seen to be needed and enough.
    request = max([base * (1 + headroom), *(had * (1 + headroom) for had in dead)])
    request = min(math.ceil(request), most)
    over = int((needs > request).sum())
    retries = tuple(min(request * RETRY**k, most) for k in (1, 2) if request < most)
    return Advice(
        group=work.groups[code],
        runs=n,
        least_bytes=float(needs[0]),
        most_bytes=float(needs[-1]),
        asked_bytes=None if np.isnan(asked).all() else float(np.nanmedian(asked)),
        request_bytes=None if keep else float(request),
        retry_bytes=() if keep else tuple(dict.fromkeys(float(r) for r in retries)),
        kill_ratio=None if keep else over / n,
        kill_interval=None if keep else kill_interval(over, n),
        size_range=(float(sizes.min()), float(sizes.max())) if sizes.size else None,
        keep=keep,
    )


def _growth(needs: np.ndarray) -> float:
    """Give how much needs grew from the first half of the runs to the second; 1 to MOST_GROWTH.

    What grew while it was seen is expected to grow once more.
    """
    if len(needs) < 2 * FEWEST:
        return 1.0
    halves = np.array_split(needs, 2)
    early, late = (float(np.quantile(half, TAIL)) for half in halves)
    return min(max(1.0, late / early), MOST_GROWTH)


def _keep(work: Workload, rows: np.ndarray, sizes: np.ndarray) -> str:
    """Say why nothing can be advised; empty where something can."""
    if len(rows) < FEWEST:
        return f"fewer than {FEWEST} runs"
    if work.at_most is not None and work.at_most[rows].all():
        return "only upper bounds of its use are known"
    if len(sizes) == len(rows) and (sizes == sizes[0]).all():
        return "all runs had the same input size"
    return ""
