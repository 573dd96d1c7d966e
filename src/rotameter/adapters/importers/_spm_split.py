"""Totals of a process, shared among its files so that the shares add up to the total exactly.

A file that several processes went through cannot, if each read it once, be larger than the
smallest of their totals: that bound is its weight. Cumulative rounding in whole numbers keeps
every sum exact.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

__all__ = ["bounds", "shared_out", "shared_seconds"]


def shared_out(total: int, weights: Sequence[int]) -> list[int]:
    """Share a whole number in proportion to weights.

    Parameters
    ----------
    total : int
        Bytes or operations, not negative.
    weights : sequence of int
        Not negative; all zero counts as all equal.

    Returns
    -------
    list of int
        As long as ``weights``; the sum is ``total``, no share is off by one or more.

    Examples
    --------
    >>> shared_out(10, [1, 1, 1])
    [3, 3, 4]
    """
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    shares, before, weight = [], 0, 0
    for one in weights:
        weight += one
        until = total * weight // whole
        shares.append(until - before)
        before = until
    return shares


def shared_seconds(total_s: float, weights: Sequence[int]) -> list[float]:
    """Share seconds in proportion to weights; all zero counts as all equal.

    Examples
    --------
    >>> shared_seconds(3.0, [2, 1])
    [2.0, 1.0]
    """
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    return [total_s * (one / whole) for one in weights]


def bounds(totals: Iterable[tuple[int | None, Iterable[Hashable]]]) -> dict[Hashable, int]:
    """Give each file the smallest total (bytes, above 0) of the processes that went through it.

    Examples
    --------
    >>> bounds([(100, ["big", "small"]), (7, ["small"])])
    {'big': 100, 'small': 7}
    """
    least: dict[Hashable, int] = {}
    for total, files in totals:
        if total:
            for file in files:
                least[file] = min(total, least.get(file, total))
    return least
