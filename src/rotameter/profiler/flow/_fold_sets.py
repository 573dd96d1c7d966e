"""Colours as sets of neighbours' colours: one round of refinement, vectorised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.view import Codes

__all__ = ["Profiles", "colours", "ranked"]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter numbers over 64 bits (the finaliser of splitmix64, Steele et al. 2014)."""
    mixed = values + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


def ranked(*columns: NDArray[np.generic]) -> Codes:
    """Give numbers to the distinct rows of some columns in order of their first appearance.

    Examples
    --------
    >>> ranked(np.array([7, 3, 7, 7]), np.array([1, 1, 1, 2])).tolist()
    [0, 1, 0, 2]
    """
    n = len(columns[0])
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort(columns[::-1])
    new = np.zeros(n, dtype=bool)
    for column in columns:
        inorder = column[order]
        new[1:] |= inorder[1:] != inorder[:-1]
    rows = np.cumsum(new)
    first = order[np.concatenate([[0], np.flatnonzero(new)])]  # Stable: the earliest of each.
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    made = np.empty(n, dtype=np.int64)
    made[order] = rank[rows]
    return made


class Profiles:
    """The set of tokens of each vertex, and the classes of vertices with equal sets.

    Parameters
    ----------
    seed : ndarray of int64, shape (n,)
        A class never spans two seeds.
    vertex, token : ndarray of int64, shape (n_pairs,)
        Which vertex has which token (non-negative); repeats do not count.
    """

    def __init__(self, seed: Codes, vertex: Codes, token: Codes) -> None:
        width = int(token.max(initial=0)) + 1
        pairs = np.sort(vertex * width + token)
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        self._vertex, self._token = pairs // width, pairs % width
        self.seed = seed
        self.colour = colours(seed, self._vertex, self._token)
        self.n = int(self.colour.max(initial=-1)) + 1
        self.size = np.bincount(self.colour, minlength=self.n)
        first = np.full(self.n, len(seed), dtype=np.int64)
        np.minimum.at(first, self.colour, np.arange(len(seed)))
        self.example = first
        self._bounds = np.searchsorted(self._vertex, [first, first + 1]).T.tolist()

    def tokens(self, colour: int) -> frozenset[int]:
        """Give the tokens that each member of a class has."""
        low, high = self._bounds[colour]
        return frozenset(self._token[low:high].tolist())


def colours(seed: Codes, vertex: Codes, token: Codes) -> Codes:
    """Give vertices with the same seed and the same set of tokens the same colour.

    Sets are compared by two 64-bit sums of scattered tokens: a false match among a million
    sets has a probability of 1e-26.

    Parameters
    ----------
    seed : ndarray of int64, shape (n,)
    vertex, token : ndarray of int64, shape (n_pairs,)
        Distinct pairs.

    Returns
    -------
    ndarray of int64, shape (n,)
        Numbered in order of first appearance.
    """
    sums = []
    scattered = _mixed(token.astype(np.uint64))
    for _ in range(2):
        total = np.zeros(len(seed), dtype=np.uint64)
        np.add.at(total, vertex, scattered)
        sums.append(total)
        scattered = _mixed(scattered)
    return ranked(seed, *sums)
