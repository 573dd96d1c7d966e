"""What each group should ask for, from runs that are over: with chances, and reasons to keep.

A request is the largest need seen (with headroom, and what needs grew by meanwhile), or less where
so many runs are known that the rate of kills that the user accepts shows in them. The chance of a
kill is that of the runs that needed more, with its exact 95 % interval (Clopper and Pearson 1934);
runs that ran out of memory count, as what needs more than they had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rotameter.allocator.advised import Advice
from rotameter.allocator.chances import Evidence, kill_interval
from rotameter.allocator.reasons import why
from rotameter.allocator.requesting import FEWEST, RETRY, Terms, basis_of, steps

if TYPE_CHECKING:
    from rotameter.allocator.workload import Workload

__all__ = ["FEWEST", "Advice", "advise", "kill_interval"]

T = TypeVar("T")


def advise(
    work: Workload,
    *,
    max_kill: float | None = None,
    headroom: float | None = None,
    most: float | None = None,
    floor: float | None = None,
) -> list[Advice]:
    """Advise a request for each group of a workload, those that hold most first.

    Parameters
    ----------
    work : Workload
    max_kill : float, optional
        Share of runs that may be killed and run again; without it that of the resource.
    headroom : float, optional
        Part that is added to what was needed; without it that of the resource.
    most : float, optional
        What the largest machine has, or the queue allows; no rung is beyond it.
    floor : float, optional
        No request is below it; without it that of the resource.

    Returns
    -------
    list of Advice

    Examples
    --------
    >>> from rotameter.allocator.workload import Workload
    >>> need, nan = np.array([2e9] + [1e9] * 9), np.full(10, np.nan)
    >>> work = Workload("w", np.zeros(10, int), ("load",), need, np.ones(10), nan, nan)
    >>> (made,) = advise(work)
    >>> made.request, made.retries, made.kill_ratio
    (2200000000.0, (4400000000.0, 8800000000.0), 0.0)
    """
    resource = work.resource
    added = resource.headroom if headroom is None else headroom
    least_of_all = resource.floor if floor is None else floor
    share = resource.max_kill if max_kill is None else max_kill
    terms = Terms(share, added, least_of_all, math.inf if most is None else most)
    # A limit of time holds nothing: there, those that ran longest come first.
    held = work.need * work.wall_s if resource.held else work.wall_s
    weight = np.bincount(work.group, held, minlength=len(work.groups))
    by_group = np.argsort(work.group, kind="stable")
    edges = np.searchsorted(work.group[by_group], np.arange(len(work.groups) + 1))
    died, lacked, least = map(_by_group, (_died(work), work.lacks, work.least))
    named = [
        _by_group((group, name) for (group, _), name in zip(pairs, names, strict=False))
        for pairs, names in ((work.killed, work.killed_names), (work.least, work.least_names))
    ]
    made = []
    for code in np.argsort(-weight, kind="stable").tolist():
        rows = by_group[edges[code] : edges[code + 1]]
        if rows.size or code in died:
            seen = Evidence(
                needs=work.need[rows],
                at_most=np.zeros(len(rows), bool) if work.at_most is None else work.at_most[rows],
                asked=work.asked[rows],
                lacked=np.array(lacked.get(code, ()), dtype=np.float64),
                died=np.array(died.get(code, ()), dtype=np.float64),
                bounds=np.array(least.get(code, ()), dtype=np.float64),
                begun=None if work.begun is None else work.begun[rows],
                died_names=named[0].get(code, ()),
                bounds_names=named[1].get(code, ()),
            )
            made.append(_of_group(work, code, rows, seen, terms))
    return made


def _died(work: Workload) -> list[tuple[int, float]]:
    return [*work.killed, *((group, math.nan) for group in work.killed_blind)]


def _by_group(pairs: Iterable[tuple[int, T]]) -> dict[int, list[T]]:
    made: dict[int, list[T]] = {}
    for group, value in pairs:
        made.setdefault(group, []).append(value)
    return made


def _of_group(work: Workload, code: int, rows: np.ndarray, seen: Evidence, terms: Terms) -> Advice:
    needs, sizes = seen.needs, work.size[rows]
    kinds = None if work.kinds is None else work.kinds[rows]
    basis = basis_of(seen, sizes, kinds, terms, work.resource)
    rungs = () if basis.keep else steps(basis)
    chances = [seen.chance(rung) for rung in rungs]
    first = chances[0] if chances else None
    low, median, p95, high = _quantiles(needs)
    known = sizes[~np.isnan(sizes)]
    return Advice(
        group=work.groups[code],
        runs=len(needs),
        least=low,
        most=high,
        asked=seen.typical_asked,
        request=rungs[0] if rungs else None,
        retries=rungs[1:],
        kill_ratio=first.ratio if first else None,
        kill_interval=first.interval if first else None,
        size_range=(float(known.min()), float(known.max())) if known.size else None,
        keep=basis.keep,
        median=median,
        p95=p95,
        kinds=_kinds(kinds, len(needs)),
        at_most=basis.counted + basis.at_limit,
        killed=basis.killed,
        killed_with=seen.most_died,
        enough_ratios=tuple(one.enough_ratio for one in chances),
        **_sums(work, rows, rungs, terms.most),
        reason=why(basis),
        lacking=len(seen.lacked),
        unsure=first.unsure if first else 0,
        kill_range=first.range if first else None,
        at_least=basis.at_least,
        guess=basis.guess,
        rests_on=basis.rests_on if rungs or basis.at_least is not None else (),
        inputs=(),
        resource=work.resource,
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


def _sums(
    work: Workload, rows: np.ndarray, rungs: tuple[float, ...], most: float
) -> dict[str, float | None]:
    """Give what the runs used, asked for and would hold; those of an earlier run held nothing."""
    if not work.resource.held:
        return {}
    per = work.resource.per_held
    ran = rows if work.cached is None else rows[~work.cached[rows]]
    needs, wall, asked = work.need[ran], work.wall_s[ran], work.asked[ran]
    return {
        "used_held": float(needs @ wall) / per if ran.size else None,
        "asked_held": None if np.isnan(asked).any() or not ran.size else float(asked @ wall) / per,
        "advised_held": _tried(rungs, needs, wall, most) / per if rungs and ran.size else None,
    }


def _tried(rungs: tuple[float, ...], needs: np.ndarray, wall: np.ndarray, most: float) -> float:
    """Give what runs hold that are tried with each rung until one is enough, then with twice it."""
    held, left, rung = 0.0, np.ones(len(needs), dtype=bool), 0.0
    for step in range(64):
        rung = rungs[step] if step < len(rungs) else min(RETRY * rung, most)
        held += rung * float(wall[left].sum())
        left &= needs > rung
        if not left.any():
            break
    return held
