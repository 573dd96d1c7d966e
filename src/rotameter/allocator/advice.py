"""What each group should ask for, from runs that are over: with chances, and reasons to keep.

A request is the largest need seen (with headroom, and what needs grew by meanwhile), or less where
so many runs are known that the rate of kills that the user accepts shows in them. The chance of a
kill is that of the runs that needed more, with its exact 95 % interval (Clopper and Pearson 1934);
runs that ran out of memory count, as what needs more than they had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.chances import Evidence, kill_interval
from rotameter.allocator.ledger import GB_HOUR
from rotameter.allocator.reasons import why
from rotameter.allocator.requesting import FEWEST, FLOOR_BYTES, RETRY, Terms, basis_of, steps

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["FEWEST", "FLOOR_BYTES", "Advice", "advise", "kill_interval"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What a group should ask for.

    Attributes
    ----------
    group : str
    runs : int
        Completed tasks whose use is known.
    least_bytes, most_bytes : float or None
        Range of what they used.
    asked_bytes : float or None
        What the user asked for (the middle one), if known.
    request_bytes : float or None
        What to ask for; None: keep what is.
    retry_bytes : tuple of float
        What to ask for after a kill, and after the next; the last holds all that was seen.
    kill_ratio, kill_interval
        Runs that needed more than the request, of all, those that ran out of memory and whose need
        was never seen among them; None where of some it is not known. Its 95 % interval: what is
        not known counts as enough for the lower end, as not enough for the upper one.
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
        Part of all runs that the request, and each of ``retry_bytes``, is known to be enough for.
    used_gbh, asked_gbh, advised_gbh : float or None
        What the runs used, held by what they asked for (None unless all did), and would hold by
        what is advised, killed attempts in full; without what came from a cache.
    reason : str
        From what the request comes, in words; or why it is kept.
    lacking, unsure : int
        Runs that ran out of memory and whose need was never seen; runs of which it is not known
        whether the request is enough.
    at_least_bytes, guess_bytes : float or None
        Where nothing is advised and what is asked for was not enough: what is known not to be, and
        what to try, which is a guess.
    kill_range : tuple of float or None
        Least and most that the share of kills can be among these runs.
    """

    group: str
    runs: int
    least_bytes: float | None
    most_bytes: float | None
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
    lacking: int = 0
    unsure: int = 0
    at_least_bytes: float | None = None
    guess_bytes: float | None = None
    kill_range: tuple[float, float] | None = None


def advise(
    work: Workload,
    *,
    max_kill: float = 0.01,
    headroom: float = 0.1,
    machine_bytes: float | None = None,
    floor_bytes: float = FLOOR_BYTES,
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
    floor_bytes : float
        No request is below it.

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
    terms = Terms(
        max_kill, headroom, floor_bytes, math.inf if machine_bytes is None else machine_bytes
    )
    weight = np.bincount(work.group, work.need_bytes * work.wall_s, minlength=len(work.groups))
    by_group = np.argsort(work.group, kind="stable")
    edges = np.searchsorted(work.group[by_group], np.arange(len(work.groups) + 1))
    died, lacked, least = map(_by_group, (_died(work), work.lacks, work.least))
    made = []
    for code in np.argsort(-weight, kind="stable").tolist():
        rows = by_group[edges[code] : edges[code + 1]]
        if rows.size or code in died:
            seen = Evidence(
                needs=work.need_bytes[rows],
                at_most=np.zeros(len(rows), bool) if work.at_most is None else work.at_most[rows],
                asked=work.asked_bytes[rows],
                lacked=np.array(lacked.get(code, ()), dtype=np.float64),
                died=np.array(died.get(code, ()), dtype=np.float64),
                least_bytes=max(least.get(code, ()), default=0.0),
            )
            made.append(_of_group(work, code, rows, seen, terms))
    return made


def _died(work: Workload) -> list[tuple[int, float]]:
    return [*work.killed, *((group, math.nan) for group in work.killed_blind)]


def _by_group(pairs: Iterable[tuple[int, float]]) -> dict[int, list[float]]:
    made: dict[int, list[float]] = {}
    for group, value in pairs:
        made.setdefault(group, []).append(value)
    return made


def _of_group(work: Workload, code: int, rows: np.ndarray, seen: Evidence, terms: Terms) -> Advice:
    needs, sizes = seen.needs, work.size[rows]
    kinds = None if work.kinds is None else work.kinds[rows]
    basis = basis_of(seen, sizes, kinds, terms)
    rungs = () if basis.keep else steps(basis)
    chances = [seen.chance(rung) for rung in rungs]
    first = chances[0] if chances else None
    low, median, p95, high = _quantiles(needs)
    known = sizes[~np.isnan(sizes)]
    return Advice(
        group=work.groups[code],
        runs=len(needs),
        least_bytes=low,
        most_bytes=high,
        asked_bytes=seen.asked_bytes,
        request_bytes=rungs[0] if rungs else None,
        retry_bytes=rungs[1:],
        kill_ratio=first.ratio if first else None,
        kill_interval=first.interval if first else None,
        size_range=(float(known.min()), float(known.max())) if known.size else None,
        keep=basis.keep,
        median_bytes=median,
        p95_bytes=p95,
        kinds=_kinds(kinds, len(needs)),
        at_most=basis.counted + basis.at_limit,
        killed=basis.killed,
        killed_bytes=seen.most_died,
        enough_ratios=tuple(one.enough_ratio for one in chances),
        **_gbh(work, rows, rungs, terms.most_bytes),
        reason=why(basis),
        lacking=len(seen.lacked),
        unsure=first.unsure if first else 0,
        kill_range=first.range if first else None,
        at_least_bytes=basis.at_least_bytes,
        guess_bytes=basis.guess_bytes,
    )


def _quantiles(needs: np.ndarray) -> list[float] | list[None]:
    """Give the least, the middle, the 95 % and the largest need, as they were seen."""
    if not len(needs):
        return [None] * 4
    made: list[float] = np.quantile(needs, (0.0, 0.5, 0.95, 1.0), method="inverted_cdf").tolist()
    return made


def _kinds(kinds: np.ndarray | None, runs: int) -> tuple[str, ...]:
    if kinds is None:
        return ("exact",) if runs else ()
    return tuple(sorted(set(kinds.tolist())))


def _gbh(
    work: Workload, rows: np.ndarray, rungs: tuple[float, ...], most: float
) -> dict[str, float | None]:
    """Give what the runs used, asked for and would hold; those of an earlier run held nothing."""
    ran = rows if work.cached is None else rows[~work.cached[rows]]
    needs, wall, asked = work.need_bytes[ran], work.wall_s[ran], work.asked_bytes[ran]
    return {
        "used_gbh": float(needs @ wall) / GB_HOUR if ran.size else None,
        "asked_gbh": None
        if np.isnan(asked).any() or not ran.size
        else float(asked @ wall) / GB_HOUR,
        "advised_gbh": _held_gbh(rungs, needs, wall, most) if rungs and ran.size else None,
    }


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
