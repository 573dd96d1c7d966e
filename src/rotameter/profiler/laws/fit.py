"""The law of a series: chosen, told apart from others or not, written as a formula.

Where every scale has 8 instances or more the law with the most evidence is taken, else the
simplest of those that fit alike ("alike": evidence within a factor of 10, the usual border of
strong evidence). Two laws that fit alike but expect different values are named: they cannot be
distinguished. A simpler law whose curve is within 1 % everywhere is taken for the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rotameter.profiler.laws.formula import written
from rotameter.profiler.laws.pooled import RunNoise, with_run_noise
from rotameter.profiler.laws.posterior import Candidate, candidate, predictive, shares
from rotameter.profiler.laws.sample import Sample, Series, sample_of
from rotameter.profiler.laws.shapes import laws_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["ENOUGH", "Fit", "Prediction", "best_candidate", "fit"]

ENOUGH = 8
"""Instances at each scale from which on they are the sample."""
_ALIKE = 10.0
_BARE = 3.0
_SAME = 0.01
_DIFFERENT = 0.05
_MISFIT_P = 1e-3
_MISSED_P = 0.05
_TESTED = 4
"""Runs from which on a law that misses them is told from chance."""
_REACH = 2.0
"""Laws are compared up to this multiple of the largest scale."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a law expects at one scale; of the mean of the instances, or of a count.

    Parameters
    ----------
    scale, value : float
    low, high : float or None
        90 % interval of what a run at that scale will show: law, spread and the choice among
        laws. None = too few values for an interval.
    law_low, law_high : float or None
        The same of the law alone, for the mean over endlessly many runs.
    extrapolation_ratio : float
        How far outside the scales that were run; 1 = inside.
    """

    scale: float
    value: float
    low: float | None
    high: float | None
    law_low: float | None
    law_high: float | None
    extrapolation_ratio: float

    @property
    def extrapolated(self) -> bool:
        """Whether the scale lies outside the runs."""
        return self.extrapolation_ratio > 1


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The law of one series.

    Parameters
    ----------
    series : Series
    law : str or None
        Name of the law; None where no law is possible (see ``notes``).
    probability : float or None
        Posterior probability of the law, all five being equally likely beforehand; None where
        the data cannot give one.
    alike : tuple of str
        Other laws that fit as well and expect other values: cannot be distinguished.
    notes : tuple of str
    """

    series: Series
    law: str | None
    probability: float | None
    alike: tuple[str, ...]
    notes: tuple[str, ...]
    chosen: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    sample: Sample | None = None
    bounded: bool = False
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def formula(self) -> str:
        """The law with its numbers, such as ``bytes = 1.2 GB · k^0.98``."""
        if self.chosen is None:
            text = "0" if self.law == "c" else "unknown"
        else:
            text = written(self.chosen, self.series.metric, min(self.series.scale))
        return f"{self.series.metric} = {text}"

    @property
    def certain(self) -> bool:
        """Whether no other law fits as well."""
        return self.law is not None and not self.alike

    def predict(
        self, scale: float, *, instances: float | None = None, coverage: float = 0.9
    ) -> Prediction:
        """Give what is expected at a scale.

        Parameters
        ----------
        scale : float
            Above 0, in the unit of the series' scales.
        instances : float, optional
            How many instances that run will have; by default as many as the largest run had.
        coverage : float
            Of the intervals.

        Raises
        ------
        ValueError
            If the scale is not above 0, or the coverage not between 0 and 1.
        """
        if not (0 < scale < math.inf and 0 < coverage < 1):
            raise ValueError(f"scale {scale} must be above 0, coverage {coverage} within (0, 1)")
        known = [k for k, v in zip(self.series.scale, self.series.samples, strict=True) if len(v)]
        ratio = 1.0
        if known:
            ratio = max(scale / max(known), min(known) / scale, 1.0)
        if self.chosen is None or self.sample is None:
            value = 0.0 if self.law == "c" else math.nan
            return Prediction(scale, value, None, None, None, None, ratio)
        value = self.chosen.at(scale)
        if not self.bounded:
            return Prediction(scale, value, None, None, None, None, ratio)
        tail = (1 - coverage) / 2
        ends = np.array([tail, 1 - tail])
        many = instances or float(self.sample.counts[np.argmax(self.sample.scale)])
        law, run = (
            np.exp(np.minimum(self.quantiles(scale, ends, instances=n), 700.0))
            for n in (None, many)
        )
        return Prediction(
            scale,
            value,
            min(float(run[0]), value),
            max(float(run[1]), value),
            min(float(law[0]), value),
            max(float(law[1]), value),
            ratio,
        )

    def quantiles(self, scale: float, levels: Floats, *, instances: float | None) -> Floats:
        """Give log quantiles over all laws; see :func:`..posterior.predictive`."""
        assert self.sample is not None
        return predictive(list(self.candidates), self.sample, scale, levels, instances=instances)


def fit(series: Series, run_noise: RunNoise | None = None) -> Fit:
    """Find the law of a series.

    Parameters
    ----------
    series : Series
    run_noise : RunNoise, optional
        What runs differ by on top of their instances, from
        :func:`rotameter.profiler.laws.pooled.pooled_noise` over all folds.

    Returns
    -------
    Fit
        With ``law`` None and a note where there are no values, one scale only, or no law can be.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> runs = tuple(5e9 * k**0.5 * (1 + 0.05 * rng.standard_normal(40)) for k in (1.0, 2.0, 4.0))
    >>> found = fit(Series("a>b", "bytes", (1.0, 2.0, 4.0), runs))
    >>> found.law, found.formula
    ('c*k^a', 'bytes = 5 GB · k^0.499')
    >>> ahead = found.predict(8.0)
    >>> ahead.low < 5e9 * 8**0.5 < ahead.high, ahead.extrapolation_ratio
    (True, 2.0)
    """
    sample = sample_of(series)
    if not sample.runs:
        return Fit(series, None, None, (), ("no values",))
    if sample.runs and not len(sample.scale):
        return Fit(series, "c", None, (), ("always 0",), sample=sample)
    scales = np.unique(np.concatenate([sample.scale, np.array(sample.zeros)]))
    if len(scales) < 2:
        return Fit(series, None, None, (), ("one scale only: no law can be told",), sample=sample)
    notes: list[str] = []
    if run_noise is not None and sample.df > 0 and series.metric != "count":
        sample = with_run_noise(sample, run_noise)
    found = _candidates(sample)
    if not found:
        notes.append("0 at some scales and not at others: no law fits")
        return Fit(series, None, None, (), tuple(notes), sample=sample)
    outlier = _misfit_p(sample, found)
    if sample.df > 0 and outlier < _MISFIT_P:
        notes.append("runs differ more than their instances do: the run means are the sample")
        sample = _of_means(sample)
        found = _candidates(sample)
    few = sample.df <= 0 and len(sample.scale) < 3
    # How far counts stray is not known from two of them.
    if few or sample.distinct < 2 or (series.metric == "count" and sample.distinct < 3):
        return _without_spread(series, sample, found, notes)
    return _choose(series, sample, found, notes)


def best_candidate(
    series: Series, run_noise: RunNoise | None = None
) -> tuple[Sample, Candidate] | None:
    """Give the law with the most evidence, for :func:`..pooled.pooled_noise`.

    The sample that comes back holds the noise of the instances alone; None where there is none.
    """
    sample = own = sample_of(series)
    if sample.df <= 0 or sample.distinct < 3:
        return None
    if run_noise is not None:
        sample = with_run_noise(sample, run_noise)
    found = _candidates(sample)
    if not found:
        return None
    best = max(found, key=lambda c: c.log_evidence)
    if run_noise is None:
        return own, best
    # The misfit in the weights of the instances.
    gap = own.log_mean - np.log(best.curve(own.scale))
    return own, replace(best, misfit=float((gap**2) @ own.weight))


def _candidates(sample: Sample) -> list[Candidate]:
    """Fit all laws that are possible."""
    if not sample.zeros:
        made = [candidate(law, sample) for law in laws_for(sample.scale)]
    else:
        # Nothing but k·log k (at 1) and a straight line through zero can be 0 somewhere.
        zero = set(sample.zeros)
        laws = {law.kind: law for law in laws_for(sample.scale)}
        made = []
        if zero == {1.0} and "klog" in laws:
            made.append(candidate(laws["klog"], sample))
        if len(zero) == 1 and min(zero) < sample.scale.min():
            k0 = math.exp(float(np.log(sample.scale).mean()))
            made.append(candidate(laws["linear"], sample, fixed=1 / (1 - min(zero) / k0)))
    return [c for c in made if math.isfinite(c.log_evidence) and math.isfinite(c.misfit)]


def _misfit_p(sample: Sample, found: list[Candidate]) -> float:
    """Give how likely the misfit of the best law is, if only instances scatter."""
    if sample.df <= 0:
        return 1.0
    from scipy.special import fdtrc

    noise = sample.squares / sample.df
    chances = []
    for one in found:
        spare = len(sample.scale) - one.free
        ratio = one.misfit / noise / max(spare, 1)
        chances.append(float(fdtrc(spare, sample.df, ratio)) if spare > 0 else 1.0)
    return max(chances)


def _of_means(sample: Sample) -> Sample:
    """Give the sample with the runs' means as its only values."""
    ones = np.ones(len(sample.scale))
    return replace(sample, squares=0.0, df=0.0, weight=ones, counts=ones, single=None, between=0.0)


def _without_spread(
    series: Series, sample: Sample, found: list[Candidate], notes: list[str]
) -> Fit:
    """Two numbers: every law with an unknown goes through both, and nothing tells the noise."""
    exact = [c for c in found if c.misfit <= len(sample.scale) * _SAME**2 / 4]
    pool = exact or found
    best = min(pool, key=lambda c: (c.rank, c.misfit))
    alike = _other(best, pool, sample)
    notes.append("two values only: no interval")
    return Fit(series, best.law.name, None, alike, tuple(notes), best, tuple(found), sample)


def _choose(series: Series, sample: Sample, found: list[Candidate], notes: list[str]) -> Fit:
    probability = shares(found)
    order = np.argsort(-probability, kind="stable")
    near = [found[n] for n in order if probability[n] * _ALIKE >= probability[order[0]]]
    best = near[0]
    if sample.least < ENOUGH:
        fair = [c for c in near if not _missed(c, near, sample)]
        best = min(fair, key=lambda c: (c.rank, -c.log_evidence))
    elif sample.distinct < 3:
        # Two scales tell laws apart by one ratio: evidence not worth a mention decides nothing.
        level = best.log_evidence - math.log(_BARE)
        bare = [c for c in near if c.log_evidence >= level]
        best = min(bare, key=lambda c: (c.rank, -c.log_evidence))
    best = _simplest(best, found, sample)
    alike = _other(best, near, sample)
    bounded = sample.distinct >= 3 or sample.least >= ENOUGH
    if not bounded:
        notes.append("two scales only: no interval")
    return Fit(
        series,
        best.law.name,
        float(probability[found.index(best)]),
        alike,
        tuple(notes),
        best,
        tuple(found),
        sample,
        bounded,
    )


def _missed(one: Candidate, near: list[Candidate], sample: Sample) -> bool:
    """Say whether a simple law misses a value by far that one with another number free meets.

    By 5 % and more, and beyond what chance allows (F test of the number that is added).
    """
    from scipy.special import fdtrc

    off = np.abs(np.log(one.curve(sample.scale)) - sample.log_mean).max()
    if off <= _DIFFERENT or len(sample.scale) < _TESTED:
        return False
    spare = len(sample.scale) - one.free - 1
    for other in near:
        if other.free == one.free + 1 and other.misfit < one.misfit:
            noise = max(sample.squares + other.misfit, 1e-300) / (sample.df + spare)
            if fdtrc(1, sample.df + spare, (one.misfit - other.misfit) / noise) < _MISSED_P:
                return True
    return False


def _apart(one: Candidate, other: Candidate, sample: Sample) -> float:
    """Give the largest relative distance of two curves from the least scale to twice the last."""
    scales = np.geomspace(sample.scale.min(), _REACH * sample.scale.max(), 9)
    a, b = one.curve(scales), other.curve(scales)
    return float((np.abs(a - b) / np.maximum(np.maximum(a, b), 1e-300)).max())


def _simplest(best: Candidate, found: list[Candidate], sample: Sample) -> Candidate:
    """Give the simplest law whose curve is the same for all practical purposes."""
    same = [c for c in found if c is best or _apart(c, best, sample) < _SAME]
    return min(same, key=lambda c: (c.free, c is not best, c.rank, -c.log_evidence))


def _other(best: Candidate, near: list[Candidate], sample: Sample) -> tuple[str, ...]:
    return tuple(c.law.name for c in near if c is not best and _apart(c, best, sample) > _DIFFERENT)
