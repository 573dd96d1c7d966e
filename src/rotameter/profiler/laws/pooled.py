"""Noise that all instances of a run share, found over many folds at once.

Two runs of one workflow differ by more than their instances tell: another load, another cache.
One fold at three scales cannot tell that from its law, all folds together can: if their misfits,
in units of what instances explain, are larger than chance allows, the variance between runs is
what makes them as large as expected (Paule & Mandel, J. Res. NBS 87, 1982; the test is Cochran's
Q, Biometrics 10, 1954), and it is added to every mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rotameter.profiler.laws.posterior import Candidate
    from rotameter.profiler.laws.sample import Sample

    Floats = NDArray[np.float64]

__all__ = ["RunNoise", "pooled_noise", "with_run_noise"]

_CHANCE = 1e-3
_LEAST_SPARE = 4
_LEAST_DF = 10.0


@dataclass(frozen=True, slots=True)
class RunNoise:
    """Variance between runs.

    Parameters
    ----------
    variance : float
        Relative: 0.0025 is 5 %.
    df : float
        How many free numbers it rests on.
    """

    variance: float
    df: float


def pooled_noise(fits: Sequence[tuple[Sample, Candidate]]) -> RunNoise | None:
    """Find the variance between runs that the misfits of many folds show.

    Parameters
    ----------
    fits : sequence of (Sample, Candidate)
        Folds with the law that fits best; the noise of their instances alone in the samples.

    Returns
    -------
    RunNoise or None
        None where instances explain the misfits, or too few folds could show it.
    """
    from scipy.special import chdtrc

    rows = [
        (
            one.misfit,
            max(sample.squares / sample.df, 1e-300),
            len(sample.scale) - one.free,
            float(sample.weight.mean()),
        )
        for sample, one in fits
        if sample.df >= _LEAST_DF and len(sample.scale) > one.free and np.isfinite(one.misfit)
    ]
    if not rows:
        return None
    misfit, noise, spare, size = np.array(rows).T
    free = float(spare.sum())
    if free < _LEAST_SPARE or chdtrc(free, float((misfit / noise).sum())) >= _CHANCE:
        return None
    low, high = 0.0, float((misfit / size).max())
    for _ in range(100):
        middle = (low + high) / 2
        if float((misfit / (noise + size * middle)).sum()) > free:
            low = middle
        else:
            high = middle
    return RunNoise((low + high) / 2, free)


def with_run_noise(sample: Sample, noise: RunNoise) -> Sample:
    """Give the sample with the variance between runs on top of that of its instances.

    Parameters
    ----------
    sample : Sample
        With ``df`` > 0.
    noise : RunNoise
    """
    single = sample.squares / sample.df
    own = single / sample.weight
    both = own + noise.variance
    # Satterthwaite: the sum's degrees of freedom, between those of its two parts.
    each = float(own.mean()) ** 2 / sample.df + noise.variance**2 / noise.df
    df = float(both.mean()) ** 2 / each
    return replace(
        sample, weight=1 / both, squares=df, df=df, single=single, between=noise.variance
    )
