"""The request of a group and what to ask for after each kill, from what is known of its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.reasons import Basis
from rotameter.allocator.workload import near_limit
from rotameter.units import next_whole

if TYPE_CHECKING:
    from rotameter.allocator.chances import Evidence, Floats
    from rotameter.allocator.resources import Resource

__all__ = ["FEWEST", "RETRY", "Terms", "basis_of", "steps"]

FEWEST = 5
"""Runs from which a request is advised."""

RETRY = 2.0

TAIL, MOST_GROWTH = 0.95, 1.5
"""Growth is told by this quantile of needs, and trusted up to this factor."""

_MORE = 0.1
"""What was not enough is exceeded by so much at least, whatever headroom is wanted."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user accepts and has: see :func:`~rotameter.allocator.advice.advise`."""

    max_kill: float
    headroom: float
    floor: float
    most: float


def basis_of(
    seen: Evidence, sizes: Floats, kinds: Floats | None, terms: Terms, resource: Resource
) -> Basis:
    """Give what a group should ask for, and what makes it that.

    Parameters
    ----------
    seen : Evidence
    sizes : ndarray of float64
        Sizes of the inputs of its completed runs, NaN = unknown.
    kinds : ndarray of str, optional
        How each peak was obtained.
    terms : Terms
    resource : Resource
    """
    died = seen.most_died
    counted = 0 if kinds is None else int((kinds == "upper_bound").sum())
    growth = _growth(seen)
    bounds = seen.bounds * (1 + terms.headroom)
    base = added = most = 0.0
    at_least = float(seen.bounds.max(initial=0.0))
    over = aside = 0
    counts_bound = False
    if len(seen.needs):
        wanted = _wanted(seen, growth, terms.headroom)
        # Runs that were killed use up what may be killed: how much they need is not known.
        spare = math.floor(terms.max_kill * (len(seen.needs) + len(seen.lacked)))
        order = np.argsort(wanted, kind="stable")
        spare = min(max(0, spare - len(seen.lacked)), len(order) - 1)
        # So many runs may exceed the request, whether all of their need was seen or a part.
        limit = np.sort(np.concatenate([wanted, bounds]))[-1 - spare]
        pick = order[max(0, int((wanted <= limit).sum()) - 1)]
        at_least = float(seen.bounds[bounds <= limit].max(initial=0.0))
        base, added, most = float(seen.needs[pick]), float(wanted[pick]), float(wanted.max())
        more = seen.needs > base
        over, aside = int((more & (wanted > added)).sum()), int((more & (wanted <= added)).sum())
        counts_bound = bool(seen.at_most[pick])
    least, rests_on = _decides(seen, at_least, terms)
    plain = max(added, least)
    request = float(min(_up(max(plain, terms.floor), resource.step), terms.most))
    return Basis(
        runs=len(seen.needs),
        over=over,
        aside=aside,
        base=base,
        base_is_bound=counts_bound,
        headroom=terms.headroom,
        growth=growth,
        counted=counted,
        at_limit=int(seen.at_most.sum()) - counted,
        killed=len(seen.died),
        killed_with=died or 0.0,
        least=seen.least,
        rests_on=rests_on if least > max(added, terms.floor) else (),
        unsure=int((~(seen.lacked >= request)).sum()),
        floor=terms.floor if plain < terms.floor else 0.0,
        request=request,
        top=max(most, least, float(bounds.max(initial=0.0))),
        most=terms.most,
        asked=seen.typical_asked or 0.0,
        keep=_keep(seen, sizes, resource),
        resource=resource,
    )


def _decides(seen: Evidence, at_least: float, terms: Terms) -> tuple[float, tuple[str, ...]]:
    """Give what lower bounds make of a request, and the tasks of the one that decides.

    What was not enough once is not advised, nor is anything after it that is no more than that.
    """
    died = seen.most_died or 0.0
    of_died = died * (1 + max(terms.headroom, _MORE))
    of_bound = at_least * (1 + terms.headroom)
    if of_died >= of_bound:
        return of_died, seen.names_of(died)
    return of_bound, seen.names_of(at_least)


def steps(basis: Basis) -> tuple[float, ...]:
    """Give the request and what to ask for after each kill.

    Each is twice the one before; the last also holds all that was seen to be needed.

    Examples
    --------
    >>> from rotameter.allocator.reasons import Basis
    >>> steps(Basis(1000, 3, 1e9, 0.1, 1.0, 0, 0, 0, 0.0, 1.1e9, math.inf, "", top=14e9))
    (1100000000.0, 2200000000.0, 14000000000.0)
    """
    first = basis.request
    last = max(first * RETRY**2, basis.top)
    step = basis.resource.step
    most = basis.most
    made = (
        float(most if one >= most else min(_up(one, step), most))
        for one in (first, first * RETRY, last)
    )
    return tuple(dict.fromkeys(made))


def _up(amount: float, step: float) -> float:
    """Give the next whole multiple of a step."""
    return next_whole(amount / step) * step


def _wanted(seen: Evidence, growth: float, headroom: float) -> Floats:
    """Give what to ask for on account of each completed run.

    Nothing is added to an upper bound; a run at its limit completed with what it had asked for.
    """
    bound = np.fmax(seen.needs, np.where(near_limit(seen.needs, seen.asked), seen.asked, np.nan))
    made: Floats = np.where(seen.at_most, bound, seen.needs * growth * (1 + headroom))
    return made


def _growth(seen: Evidence) -> float:
    """Give how much needs grew from the first half of the runs to the second; 1 to MOST_GROWTH.

    What grew while it was seen is expected to grow once more.
    """
    early, late = _halves(seen)
    if min(len(early), len(late)) < FEWEST:
        return 1.0
    before, after = (float(np.quantile(half, TAIL)) for half in (early, late))
    if before <= 0:
        return MOST_GROWTH if after > 0 else 1.0
    return min(max(1.0, after / before), MOST_GROWTH)


def _halves(seen: Evidence) -> tuple[Floats, Floats]:
    """Part needs by when runs started: of runs that started together the long ones end last."""
    needs, n = seen.needs[~seen.at_most], int((~seen.at_most).sum())
    begun = None if seen.begun is None else seen.begun[~seen.at_most]
    if begun is None or not n or np.isnan(begun).any():
        return needs[: (n + 1) // 2], needs[(n + 1) // 2 :]
    middle = np.sort(begun)[min((n + 1) // 2, n - 1)]
    # Those that started with the one in the middle are of one half, whichever leaves both some.
    early = begun < middle
    if early.sum() < FEWEST:
        early = begun <= middle
    return needs[early], needs[~early]


def _keep(seen: Evidence, sizes: Floats, resource: Resource) -> str:
    """Say why nothing can be advised; empty where something can."""
    if not len(seen.needs):
        return f"no completed run has a known {resource.shown}"
    if not resource.floor and not (seen.needs.any() or seen.least or len(seen.died)):
        return "no run used any"
    if len(seen.needs) < FEWEST:
        return f"fewer than {FEWEST} runs"
    if seen.at_most.all():
        return resource.bounded
    if not np.isnan(sizes).any() and (sizes == sizes[0]).all():
        return "all runs had the same input size"
    return ""
