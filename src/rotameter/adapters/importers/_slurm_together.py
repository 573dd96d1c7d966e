"""What steps of one job held at once: the largest sum over those that ran side by side.

MaxRSS is each step's own largest: with steps side by side the job held at least the largest of
them and at most their sum, as their peaks need not have come together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rotameter.adapters.importers._slurm_values import MISSING_NS, NEAR_NS

__all__ = ["in_turn", "together"]

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_FULL_RATIO = 0.9
"""Steps whose lengths add up to the job's own, or so nearly, are taken to have come one after the
other: side by side they would have left it, or its script alone, for as long as they overlapped."""
_SOME_NS, _LONGEST_S = 10**18, 8e9


def together(n: int, at: Any, values: Any, first: Any, last: Any) -> Any:
    """Give for each job the largest sum of a value over its steps that ran at the same time.

    A step whose times are not known may have run beside all others of its job.

    Parameters
    ----------
    n : int
        Number of jobs.
    at : numpy.ndarray
        The job of each step.
    values : numpy.ndarray
        NaN is unknown.
    first, last : numpy.ndarray or None
        When each step began and ended, in ns.

    Examples
    --------
    >>> begun, ended = np.array([0, 0, 9]) * 10**9, np.array([8, 9, 20]) * 10**9
    >>> together(2, np.array([1, 1, 1]), np.array([5.0, 3.0, 7.0]), begun, ended).tolist()
    [nan, 8.0]
    """
    good = np.flatnonzero(~np.isnan(values))
    at, values = at[good], values[good]
    count = np.bincount(at, minlength=n)
    out = np.bincount(at, weights=values, minlength=n).astype(np.float64)
    out[count == 0] = np.nan
    several = count[at] > 1
    if first is None or last is None or not several.any():
        return out
    begun, ended = _spans(first[good][several], last[good][several])
    at, values = at[several], values[several]
    times, jobs = np.concatenate([begun, ended]), np.concatenate([at, at])
    change = np.concatenate([values, -values])
    order = np.lexsort((change > 0, times, jobs))  # what ends makes room for what begins
    held = np.cumsum(change[order])
    top = np.zeros(n)
    np.maximum.at(top, jobs[order], held)
    return np.where(count > 1, top, out)


def _spans(first: Any, last: Any) -> tuple[Any, Any]:
    """Give when steps surely began and ended; the widest where that is not known."""
    begun = np.where(first == MISSING_NS, _LEAST, first)
    known = (first != MISSING_NS) & (last != MISSING_NS) & (last >= first)
    length = np.where(known, last, 0) - np.where(known, first, 0)
    # The end of a step may be noted after the next one began: its processes are gone.
    late = np.minimum(NEAR_NS, length // 2)
    ended = np.where((last == MISSING_NS) | (last < begun), _MOST, last)
    return begun, np.where(known, np.maximum(ended - late, begun + 1), ended)


def in_turn(n: int, at: Any, wall: Any, whole: Any, own: Any) -> tuple[Any, Any]:
    """Give times, from some moment on, of steps whose lengths let suppose that they took turns.

    Parameters
    ----------
    n : int
        Number of jobs.
    at : numpy.ndarray
        The job of each step, steps in order.
    wall : numpy.ndarray
        How long each step took, seconds.
    whole : numpy.ndarray
        How long each job took, seconds.
    own : numpy.ndarray
        Whether a step is one of the user's; the batch script and ``.extern`` are there all along.

    Returns
    -------
    tuple of numpy.ndarray
        When each step began and ended; missing where the lengths do not fit. Where they do, the
        steps may have run at once all the same, while the batch script worked on its own.

    Examples
    --------
    >>> at, own = np.zeros(3, int), np.array([False, True, True])
    >>> begun, ended = in_turn(1, at, np.array([30.0, 10.0, 20.0]), np.array([30.0]), own)
    >>> ((ended - begun) // 10**9).tolist(), bool(begun[2] == ended[1])
    ([30, 10, 20], True)
    >>> begun, _ = in_turn(1, at, np.array([30.0, 30.0, 30.0]), np.array([30.0]), own)
    >>> bool((begun == MISSING_NS).all())
    True
    """
    mine = np.where(own, wall, 0.0)
    total, count = np.bincount(at, mine, minlength=n), np.bincount(at, own, minlength=n)
    with np.errstate(invalid="ignore"):
        fits = (total >= _FULL_RATIO * whole) & (total <= whole + NEAR_NS / 1e9 * count)
        fits &= whole < _LONGEST_S
    shown = fits[at]
    mine = np.where(shown, mine, 0.0)
    order = np.argsort(at, kind="stable")
    ends = np.empty(len(at))
    ends[order] = np.cumsum(mine[order])
    before = np.concatenate([[0.0], np.cumsum(np.bincount(at, mine, minlength=n))])
    last = np.where(own, ends - before[at], whole[at])
    first = np.where(own, last - mine, 0.0)

    def stamps(seconds: Any) -> Any:
        """Give moments in ns."""
        made = np.rint(np.where(shown, seconds, 0.0) * 1e9).astype(np.int64) + _SOME_NS
        return np.where(shown, made, MISSING_NS)

    return stamps(first), stamps(last)
