"""The bucketing family and its alternatives: one resource of one group, as published or mended.

"As published" each explores its first ten tasks from a default, doubling, and retries by its own
rule. With :data:`COMMON` every one leaves the cold start after two tasks and retries as ours does,
so that what is compared is the choice of the first allocation alone.

Sources: the works named in :mod:`~rotameter.allocator.bucketing` and
:mod:`~rotameter.allocator.quantiles`; B. Tovar et al., "A job sizing strategy for high-throughput
scientific workflows" (TPDS 2017) for minimum waste and maximum throughput. Written anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rotameter.allocator.bucketing import exhaustive_tops, greedy_tops, shares
from rotameter.allocator.quantiles import kmeans_tops, quantized_tops

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["COMMON", "NAMES", "PUBLISHED", "Family", "Rules", "doubled", "family"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a sizer begins and how it goes on after a failure.

    Attributes
    ----------
    cold : int
        Completed tasks before it chooses by what it learnt.
    default : float
        What a task of an unknown group gets, in the resource's unit.
    most : float
        What the largest machine has.
    common : bool
        Retry at the largest need seen, then at twice the failed allocation; else as published.
    """

    cold: int = 10
    default: float = 1e9
    most: float = math.inf
    common: bool = False


PUBLISHED = Rules()
COMMON = Rules(cold=2, common=True)


def doubled(default: float, previous: float) -> float:
    """Give the next power-of-two multiple of the default above an allocation.

    Examples
    --------
    >>> doubled(1000.0, 1000.0), doubled(1000.0, 900.0), doubled(1000.0, 2500.0)
    (2000.0, 1000.0, 4000.0)
    """
    if default <= 0:
        return 2.0 * previous if previous > 0 else 1.0
    steps = max(0, math.floor(math.log2(max(previous / default, 1e-300)) + 1e-12) + 1)
    return float(default * 2.0**steps)


Choose = Callable[["Family"], "tuple[Floats, Floats | None]"]
"""Give candidate allocations, ascending, and the chance of each; None: the lowest that may do."""


class Family:
    """Sizes one resource of one group: a rule for the first allocation, another for retries.

    Parameters
    ----------
    choose : callable
        Rule for candidates.
    rules : Rules
    rng : numpy Generator
    whole_retry : bool
        Published retry rule: the whole machine after the last candidate, not doubling.
    every : int
        Learns anew after so many completions.
    """

    def __init__(
        self,
        choose: Choose,
        rules: Rules,
        rng: Generator,
        *,
        whole_retry: bool = False,
        every: int = 1,
    ) -> None:
        self.rules, self._choose, self._rng = rules, choose, rng
        self._whole_retry, self._every = whole_retry, every
        self.values: list[float] = []
        self.seconds: list[float] = []
        self._made: tuple[Floats, Floats | None] | None = None
        self._made_at = -1

    def learn(self, need: float, seconds: float) -> None:
        """Take what a completed task needed, and how long it ran."""
        self.values.append(need)
        self.seconds.append(seconds)

    def first(self) -> float:
        """Size a first attempt."""
        if len(self.values) < self.rules.cold:
            return min(self.rules.default, self.rules.most)
        return self._pick(-1.0) or self.rules.most

    def after(self, previous: float) -> float:
        """Size the attempt after one that exceeded its allocation; larger, up to the machine."""
        most = self.rules.most
        if self.rules.common:
            largest = max(self.values, default=0.0)
            return min(most, largest if largest > previous else 2.0 * previous)
        if len(self.values) >= self.rules.cold:
            found = self._pick(previous)
            if found is not None:
                return min(most, found)
            if self._whole_retry:
                return most
        return min(most, doubled(self.rules.default, previous))

    def _pick(self, above: float) -> float | None:
        """Draw or take a candidate above a value; None where none is."""
        n = len(self.values)
        if self._made is None or n >= self._made_at + self._every:
            self._made, self._made_at = self._choose(self), n
        tops, chances = self._made
        at = int(np.searchsorted(tops, above, side="right"))
        if at >= len(tops):
            return None
        if chances is None:
            return float(min(tops[at], self.rules.most))
        left = np.cumsum(chances[at:])
        drawn = int(np.searchsorted(left, self._rng.random() * left[-1], side="right"))
        return float(min(tops[min(at + drawn, len(tops) - 1)], self.rules.most))


def _bucketed(tops: Callable[..., Floats], *, deterministic: bool) -> Choose:
    def choose(of: Family) -> tuple[Floats, Floats | None]:
        weights = np.arange(1.0, len(of.values) + 1)
        made = tops(of.values, weights, deterministic=deterministic)
        return made, None if deterministic else shares(of.values, weights, made)

    return choose


def _quantile_like(tops: Callable[..., Floats]) -> Choose:
    def choose(of: Family) -> tuple[Floats, Floats | None]:
        made = tops(of.values)
        return made, shares(of.values, np.ones(len(of.values)), made)

    return choose


def _whole(of: Family) -> tuple[Floats, None]:
    return np.array([of.rules.most]), None


_BIN = 0.25
"""Width of the published histograms, as a part of the default."""


def _max_seen(of: Family) -> tuple[Floats, None]:
    bin_ = _BIN * of.rules.default
    top = max(of.values)
    return np.array([math.ceil((top + bin_ / 3) / bin_) * bin_ if bin_ > 0 else top]), None


def _largest(of: Family) -> tuple[Floats, None]:
    return np.array([max(of.values)]), None


def _percentile(q: float) -> Choose:
    def choose(of: Family) -> tuple[Floats, None]:
        v = np.sort(of.values)
        return v[[max(0, math.ceil(q * len(v)) - 1)]], None

    return choose


def _minimum_waste(of: Family) -> tuple[Floats, None]:
    v, above, mean = _tails(of)
    return np.unique([v[int(np.argmin(v * mean + v[-1] * above))], v[-1]]), None


def _maximum_throughput(of: Family) -> tuple[Floats, None]:
    v, above, mean = _tails(of)
    held = np.arange(1, len(v) + 1) / len(v)
    rate = (v[-1] / v * held + (1 - held)) / (mean + above)
    return np.unique([v[int(np.argmax(rate))], v[-1]]), None


def _tails(of: Family) -> tuple[Floats, Floats, float]:
    """Give needs ascending, the mean time that lies above each, and the mean time."""
    order = np.argsort(of.values, kind="stable")
    v, t = np.asarray(of.values)[order], np.asarray(of.seconds)[order]
    mean = float(t.mean())
    return v, np.maximum(mean - np.cumsum(t) / len(t), 0.0), mean


_CHOICES: dict[str, tuple[Choose, bool, int]] = {
    # Name: its rule, whether it retries on a whole machine, how often it learns.
    "greedy": (_bucketed(greedy_tops, deterministic=False), False, 1),
    "exhaustive": (_bucketed(exhaustive_tops, deterministic=False), False, 1),
    "greedy-deterministic": (_bucketed(greedy_tops, deterministic=True), False, 1),
    "exhaustive-deterministic": (_bucketed(exhaustive_tops, deterministic=True), False, 1),
    "quantized": (_quantile_like(quantized_tops), False, 1),
    "k-means": (_quantile_like(kmeans_tops), False, 1),
    "whole-machine": (_whole, True, 1),
    "max-seen": (_max_seen, True, 25),
    "min-waste": (_minimum_waste, True, 1),
    "max-throughput": (_maximum_throughput, True, 1),
    "percentile": (_percentile(0.99), False, 1),
    "max-seen-doubling": (_largest, False, 1),
}

NAMES = tuple(_CHOICES)
"""Members of the family."""


def family(name: str, rules: Rules, rng: Generator) -> Family:
    """Make a sizer of the family.

    Parameters
    ----------
    name : str
    rules : Rules
    rng : numpy Generator

    Raises
    ------
    KeyError
        For a name that is not of the family.

    Examples
    --------
    >>> made = family("max-seen-doubling", COMMON, np.random.default_rng(0))
    >>> for need in (2e9, 3e9):
    ...     made.learn(need, 1.0)
    >>> made.first(), made.after(3e9)
    (3000000000.0, 6000000000.0)
    """
    choose, whole, every = _CHOICES[name]
    cold = Rules(0, rules.default, rules.most, rules.common) if name == "whole-machine" else rules
    return Family(choose, cold, rng, whole_retry=whole, every=every)
