"""What each group should ask for, from runs that are over: with chances, and reasons to keep.

A request is the largest need seen (with headroom, and what needs grew by meanwhile), or less where
so many runs are known that the rate of kills that the user accepts shows in them. The chance of a
kill is that of the runs that needed more, with its exact 95 % interval (Clopper and Pearson 1934).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.ledger import GB_HOUR
from rotameter.allocator.reasons import Basis, why

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
    size_range : tuple of float or None
        Range of the sizes of their inputs, if known.
    keep : str
        Why nothing is advised; empty where something is.
    median_bytes, p95_bytes : float or None
        Of what they used: values that were seen (nearest rank).
    kinds : tuple of str
        How their peaks were obtained.
    at_most : int
        Runs whose peak is an upper bound only: page cache counted, or as large as the limit.
    killed : int
    killed_bytes : float or None
        Attempts that ran out of memory, and the most that one of them had, if known.
    enough_ratios : tuple of float
        Part of the runs that the request, and each of ``retry_bytes``, is enough for.
    used_gbh, asked_gbh, advised_gbh : float or None
        What the runs used, held by what they asked for (None unless all did), and would hold by
        what is advised, killed attempts in full.
    reason : str
        From what the request comes, in words; or why it is kept.
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
    median_bytes: float | None = None
    p95_bytes: float | None = None
    kinds: tuple[str, ...] = ()
    at_most: int = 0
    killed: int = 0
    killed_bytes: float | None = None
    enough_ratios: tuple[float, ...] = ()
    used_gbh: float | None = None
    asked_gbh: float | None = None
    advised_gbh: float | None = None
    reason: str = ""


def kill_interval(killed: int, runs: int) -> tuple[float, float]:
    """Give the exact 95 % interval of a rate.

    Examples
    --------
    >>> low, high = kill_interval(0, 100)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    none_of, all_of = 1.0 - 0.025 ** (1.0 / runs), 0.025 ** (1.0 / runs)
    if killed in (0, runs):
        return (0.0, none_of) if killed == 0 else (all_of, 1.0)
    # Not scipy.stats, whose import takes longer than all else here.
    from scipy.special import betaincinv

    low = float(betaincinv(killed, runs - killed + 1, 0.025))
    high = float(betaincinv(killed + 1, runs - killed, 0.975))
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
    by_group = np.argsort(work.group, kind="stable")
    edges = np.searchsorted(work.group[by_group], np.arange(len(work.groups) + 1))
    dead: dict[int, list[float]] = {}
    for group, had in work.killed:
        dead.setdefault(group, []).append(had)
    blind = Counter(work.killed_blind)
    made = []
    for code in np.argsort(-weight, kind="stable").tolist():
        rows = by_group[edges[code] : edges[code + 1]]
        if rows.size:
            died = (dead.get(code, []), blind[code])
            made.append(_of_group(work, code, rows, died, max_kill, headroom, most))
    return made


def _of_group(
    work: Workload,
    code: int,
    rows: np.ndarray,
    died: tuple[list[float], int],
    max_kill: float,
    headroom: float,
    most: float,
) -> Advice:
    needs, wall = work.need_bytes[rows], work.wall_s[rows]
    asked = work.asked_bytes[rows]
    sizes = work.size[rows][~np.isnan(work.size[rows])]
    basis = _basis(work, rows, died, max_kill, headroom, most)
    request = basis.request_bytes
    retries = [min(request * RETRY**k, most) for k in (1, 2) if request < most]
    rungs = () if basis.keep else tuple(dict.fromkeys(map(float, (request, *retries))))
    over, n = int((needs > request).sum()), len(needs)
    low, median, p95, high = np.quantile(needs, (0.0, 0.5, 0.95, 1.0), method="inverted_cdf")
    return Advice(
        group=work.groups[code],
        runs=n,
        least_bytes=float(low),
        most_bytes=float(high),
        asked_bytes=None if np.isnan(asked).all() else float(np.nanmedian(asked)),
        request_bytes=rungs[0] if rungs else None,
        retry_bytes=rungs[1:],
        kill_ratio=over / n if rungs else None,
        kill_interval=kill_interval(over, n) if rungs else None,
        size_range=(float(sizes.min()), float(sizes.max())) if sizes.size else None,
        keep=basis.keep,
        median_bytes=float(median),
        p95_bytes=float(p95),
        kinds=("exact",) if work.kinds is None else tuple(sorted(set(work.kinds[rows].tolist()))),
        at_most=basis.counted + basis.at_limit,
        killed=basis.killed,
        killed_bytes=max(died[0], default=None),
        enough_ratios=tuple(float((needs <= rung).mean()) for rung in rungs),
        used_gbh=float(needs @ wall) / GB_HOUR,
        asked_gbh=None if np.isnan(asked).any() else float(asked @ wall) / GB_HOUR,
        advised_gbh=_held_gbh(rungs, needs, wall, most) if rungs else None,
        reason=why(basis),
    )


def _basis(
    work: Workload,
    rows: np.ndarray,
    died: tuple[list[float], int],
    max_kill: float,
    headroom: float,
    most: float,
) -> Basis:
    """Give what a group should ask for, and what makes it that."""
    dead, blind = died
    counted = 0 if work.kinds is None else int((work.kinds[rows] == "upper_bound").sum())
    needs = np.sort(work.need_bytes[rows])
    sizes = work.size[rows][~np.isnan(work.size[rows])]
    base = float(needs[len(needs) - 1 - math.floor(max_kill * len(needs))])
    growth = _growth(work.need_bytes[rows])
    # What was not enough once is not advised, unless more was seen to be needed and enough.
    request = max([base * growth * (1 + headroom), *(had * (1 + headroom) for had in dead)])
    return Basis(
        runs=len(needs),
        over=int((needs > base).sum()),
        base_bytes=base,
        headroom=headroom,
        growth=growth,
        counted=counted,
        at_limit=0 if work.at_most is None else int(work.at_most[rows].sum()) - counted,
        killed=len(dead) + blind,
        killed_bytes=max(dead, default=0.0),
        request_bytes=float(min(math.ceil(request), most)),
        most_bytes=most,
        keep=_keep(work, rows, sizes),
    )


def _held_gbh(rungs: tuple[float, ...], needs: np.ndarray, wall: np.ndarray, most: float) -> float:
    """Give what runs hold that are tried with each rung until one is enough, then with twice it."""
    held, left, rung = 0.0, np.ones(len(needs), dtype=bool), 0.0
    for step in range(64):
        rung = rungs[step] if step < len(rungs) else min(RETRY * rung, most)
        held += rung * float(wall[left].sum())
        left &= needs > rung
        if not left.any():
            break
    return held / GB_HOUR


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
