"""Members of folds, their sums and their distributions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.view import Codes, Floats

__all__ = ["QUANTILES", "Distribution", "Groups"]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""The quantiles that a distribution holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """What the members of each fold measured.

    Parameters
    ----------
    n : ndarray of int64, shape (n_folds,)
        Members whose value is known.
    unknown : ndarray of int64, shape (n_folds,)
    total : ndarray of float64, shape (n_folds,)
        Sum of the known values, NaN where none is.
    quantiles : ndarray of float64, shape (n_folds, len(QUANTILES))
        Of the known values, linear between neighbours; NaN where none is.
    """

    n: Codes
    unknown: Codes
    total: Floats
    quantiles: Floats


class Groups:
    """A partition of things into folds, with the members of each.

    Parameters
    ----------
    of : ndarray of int64, shape (n_things,)
        The fold of each thing.
    n : int
        Number of folds.

    Examples
    --------
    >>> groups = Groups(np.array([1, 0, 1]), 2)
    >>> groups.members(1).tolist(), groups.total(np.array([1.0, 2.0, 4.0])).tolist()
    ([0, 2], [2.0, 5.0])
    """

    def __init__(self, of: Codes, n: int) -> None:
        self.of = of
        self.n = n
        self.size: Codes = np.bincount(of, minlength=n).astype(np.int64)

    @cached_property
    def order(self) -> Codes:
        """All things, fold by fold; inside a fold in their own order."""
        made: Codes = np.argsort(self.of, kind="stable").astype(np.int64)
        return made

    @cached_property
    def bounds(self) -> Codes:
        """Where each fold begins in :attr:`order`, and where the last one ends."""
        return np.concatenate([[0], np.cumsum(self.size)]).astype(np.int64)

    def members(self, fold: int) -> Codes:
        """Give the indices of the things in one fold, ascending."""
        return self.order[self.bounds[fold] : self.bounds[fold + 1]]

    def total(self, values: Floats) -> Floats:
        """Sum the known values of each fold; NaN where none is known.

        Whole numbers add up exactly below 2**53.
        """
        good = ~np.isnan(values)
        total = np.bincount(self.of[good], values[good], minlength=self.n)
        known = np.bincount(self.of[good], minlength=self.n)
        return np.where(known > 0, total, np.nan)

    def first(self, values: NDArray[np.int64]) -> Codes:
        """Give the value of each fold's first member."""
        return values[self.order[self.bounds[:-1]]]

    def distribution(self, values: Floats) -> Distribution:
        """Give count, sum and quantiles of each fold's known values.

        Parameters
        ----------
        values : ndarray of float64, shape (n_things,)

        Examples
        --------
        >>> made = Groups(np.array([0, 0, 0]), 1).distribution(np.array([1.0, 3.0, np.nan]))
        >>> made.n.tolist(), made.unknown.tolist(), float(made.quantiles[0, 3])
        ([2], [1], 2.0)
        """
        good = np.flatnonzero(~np.isnan(values))
        known = np.bincount(self.of[good], minlength=self.n).astype(np.int64)
        ordered = values[good][np.lexsort((values[good], self.of[good]))]
        starts = np.cumsum(known) - known
        quantiles = np.full((self.n, len(QUANTILES)), np.nan)
        some = known > 0
        for place, level in enumerate(QUANTILES):
            at = level * (known[some] - 1)
            low = np.floor(at).astype(np.int64)
            high = np.minimum(low + 1, known[some] - 1)
            below, above = ordered[starts[some] + low], ordered[starts[some] + high]
            quantiles[some, place] = below + (above - below) * (at - low)
        return Distribution(known, self.size - known, self.total(values), quantiles)
