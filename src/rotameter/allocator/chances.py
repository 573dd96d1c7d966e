"""How likely a request is not enough, from what runs used and what was not enough for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

__all__ = ["Chance", "Evidence", "kill_interval"]


@dataclass(frozen=True, slots=True)
class Chance:
    """How often a request is not enough.

    Attributes
    ----------
    runs : int
        Completed ones, and those that ran out of the resource and whose need was never seen.
    sure, unsure : int
        Runs that it was not enough for; runs of which this is not known.
    """

    runs: int
    sure: int
    unsure: int

    @property
    def ratio(self) -> float | None:
        """The share that it was not enough for; None where that of some is not known."""
        return None if self.unsure or not self.runs else self.sure / self.runs

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and the most that this share can be."""
        if not self.runs:
            return None
        return self.sure / self.runs, (self.sure + self.unsure) / self.runs

    @property
    def interval(self) -> tuple[float, float] | None:
        """The exact 95 % interval of it: what is not known counts as enough, then as not."""
        if not self.runs:
            return None
        low, _ = kill_interval(self.sure, self.runs)
        _, high = kill_interval(self.sure + self.unsure, self.runs)
        return low, high

    @property
    def enough_ratio(self) -> float:
        """The share that it is known to be enough for."""
        return (self.runs - self.sure - self.unsure) / self.runs if self.runs else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is known of the needs of a group's runs, in the unit of the resource.

    Attributes
    ----------
    needs : ndarray of float64
        Peaks of completed runs, in order of completion.
    at_most : ndarray of bool
        Which of them are upper bounds.
    asked : ndarray of float64
        What these runs asked for, NaN = unknown.
    lacked : ndarray of float64
        What was not enough for each run whose need was never seen, NaN = unknown.
    died : ndarray of float64
        What each attempt had that ran out of it, NaN = unknown.
    bounds : ndarray of float64
        Peaks that are lower bounds: measured in part, or in a run that did not complete.
    begun : ndarray of float64, optional
        When each of the completed runs started; NaN = unknown.
    died_names, bounds_names : sequence of str
        Tasks of ``died`` (the first of these, where of others it is not known what they had) and
        of ``bounds``.
    """

    needs: Floats
    at_most: Mask
    asked: Floats
    lacked: Floats
    died: Floats
    bounds: Floats = field(default_factory=lambda: np.zeros(0))
    begun: Floats | None = None
    died_names: Sequence[str] = ()
    bounds_names: Sequence[str] = ()

    def chance(self, request: float) -> Chance:
        """Count the runs that a request is not enough for.

        A run that was killed with so much needs more than that, how much more is not known.

        Examples
        --------
        >>> no = np.zeros(2, dtype=bool)
        >>> seen = Evidence(np.array([1e9, 3e9]), no, no * 1.0, np.array([4e9]), np.array([4e9]))
        >>> seen.chance(2e9).ratio
        0.6666666666666666
        >>> seen.chance(8e9)
        Chance(runs=3, sure=0, unsure=1)
        """
        over = self.needs > request
        lacking = self.lacked >= request
        # A run of a lower bound tells only of a request that is below it.
        below = int((self.bounds > request).sum())
        return Chance(
            runs=len(self.needs) + len(self.lacked) + below,
            sure=int((over & ~self.at_most).sum()) + int(lacking.sum()) + below,
            unsure=int((over & self.at_most).sum()) + int((~lacking).sum()),
        )

    @property
    def least(self) -> float:
        """The largest peak that is a lower bound; 0: there is none."""
        return float(self.bounds.max(initial=0.0))

    def names_of(self, amount: float) -> tuple[str, ...]:
        """Give the tasks of which so much is only a lower bound: it was not enough, or not all.

        Examples
        --------
        >>> none = np.zeros(0)
        >>> seen = Evidence(none, none > 0, none, none, np.array([4e9]), died_names=("t7",))
        >>> seen.names_of(4e9), seen.names_of(3e9)
        (('t7',), ())
        """
        both = ((self.died, self.died_names), (self.bounds, self.bounds_names))
        found = (
            name
            for values, names in both
            for value, name in zip(values.tolist(), names, strict=False)
            if value == amount and name
        )
        return tuple(dict.fromkeys(found))

    @property
    def typical_asked(self) -> float | None:
        """What the completed runs asked for (the middle one), if known."""
        return None if np.isnan(self.asked).all() else float(np.nanmedian(self.asked))

    @property
    def most_died(self) -> float | None:
        """The most that was not enough once, if known."""
        known = self.died[~np.isnan(self.died)]
        return float(known.max()) if known.size else None


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
