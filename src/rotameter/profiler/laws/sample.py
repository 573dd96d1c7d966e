"""What a series of runs says: the mean at each scale, and how sure it is.

Where the same instances (task and object names) are in all runs, they are paired: what differs
between instances of one run then is no noise, only what differs in how they change. This is the
two-way layout without replication (Scheffé, "The Analysis of Variance", 1959, ch. 4); unequal
weights of instances count by Satterthwaite's degrees of freedom (Biometrics Bulletin 2, 1946).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Sample", "Series", "sample_of"]

_WHOLE = frozenset({"bytes", "ops", "count"})
_ROUNDING = 1 / 12
"""Variance of what rounding to whole numbers adds."""
_COUNT_DF = 1e6
_EXACT = 1e-9
"""Relative noise below which readings are as good as exact."""
_HUGE = 1e100
"""Values from here on are taken for errors, and those below its inverse for 0."""
_PAIRED_SHARE = 0.8
_RANKED_LEAST = 6
_RANKED_CHANCE = 0.05
_RANKED_ORDER = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Values of one folded edge or task group at several scales.

    Parameters
    ----------
    key : str
        Which fold.
    metric : str
        ``bytes``, ``ops``, ``busy_s``, ``wall_s`` or ``count``.
    scale : tuple of float
        True scale values, one a run; equal values are repeats.
    samples : tuple of ndarray of float64
        The instances of each run; NaN is unknown. A ``count`` has one value a run.
    ids : tuple of array_like, optional
        Names or numbers of the instances, in order, by which the same are paired over runs.
    """

    key: str
    metric: str
    scale: tuple[float, ...]
    samples: tuple[Floats, ...]
    ids: tuple[Any, ...] = field(default=())
    memo: dict[str, Sample] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Sufficient numbers of a series; log means scatter with variance ``spread² / weight``.

    Parameters
    ----------
    scale, log_mean, weight : ndarray of float64, shape (n_runs,)
        ``weight`` is the number of instances behind each mean.
    squares, df : float
        ``squares / df`` estimates spread²; ``df`` 0 = nothing is known of it.
    paired : bool
    least : int
        Instances at the scale that has the fewest.
    zeros : tuple of float
        Scales at which every value is 0; they are not in ``scale``.
    runs : int
        Runs that had values.
    counts : ndarray of float64, shape (n_runs,)
        Instances behind each mean.
    single, between : float or None
        Variance of one instance and between runs, where they are known apart; then ``weight``
        is in units of 1 / variance.
    """

    scale: Floats
    log_mean: Floats
    weight: Floats
    squares: float
    df: float
    paired: bool
    least: int
    zeros: tuple[float, ...]
    runs: int
    counts: Floats
    single: float | None = None
    between: float = 0.0

    def of_new_run(self, instances: float) -> float:
        """Give the variance of a new run's mean, in units of spread²."""
        if self.single is None:
            return 1 / instances
        return self.single / instances + self.between

    @property
    def distinct(self) -> int:
        """How many different scales there are."""
        return len(np.unique(self.scale))


def sample_of(series: Series) -> Sample:
    """Give the means and their noise.

    Parameters
    ----------
    series : Series

    Returns
    -------
    Sample
        Of the runs that have known values; empty arrays where none has.

    Examples
    --------
    >>> values = (np.array([10.0, 12.0]), np.array([20.0, 24.0]))
    >>> names = (("a", "b"), ("a", "b"))
    >>> free = sample_of(Series("x", "busy_s", (1.0, 2.0), values))
    >>> same = sample_of(Series("x", "busy_s", (1.0, 2.0), values, names))
    >>> free.squares > 0.01, same.squares < 0.01, same.paired
    (True, True, True)
    """
    if "sample" not in series.memo:
        series.memo["sample"] = _sample(series)
    return series.memo["sample"]


def _sample(series: Series) -> Sample:
    known = [(v >= 0) & (v < _HUGE) for v in series.samples]
    rows = [n for n, good in enumerate(known) if good.any() and series.scale[n] > 0]
    values = [series.samples[n][known[n]] for n in rows]
    values = [np.where(v < 1 / _HUGE, 0.0, v) for v in values]
    ids = [np.asarray(series.ids[n])[known[n]] for n in rows] if series.ids else []
    scale = np.array([series.scale[n] for n in rows], dtype=np.float64)
    mean = np.array([v.mean() for v in values])
    counts = np.array([float(len(v)) for v in values])
    # Only the runs that are not zero throughout have a logarithm.
    up = np.flatnonzero(mean > 0)
    if series.metric == "count":
        squares, df, paired = 0.0, _COUNT_DF, False
    else:
        squares, df, paired = _noise([values[n] for n in up], [ids[n] for n in up] if ids else [])
    if df > 0:
        squares = max(squares, df * _floor(series.metric, mean[up]))
    return Sample(
        scale[up],
        np.log(mean[up]),
        counts[up],
        squares,
        df,
        paired,
        min((len(v) for v in values), default=0),
        tuple(float(k) for k in scale[mean <= 0]),
        len(rows),
        counts[up],
    )


def _floor(metric: str, mean: Floats) -> float:
    if metric not in _WHOLE or not len(mean):
        return _EXACT**2
    return float(np.mean(_ROUNDING / mean**2)) + _EXACT**2


def _noise(values: list[Floats], ids: list[Any]) -> tuple[float, float, bool]:
    """Give (sum of squares, its degrees of freedom, whether instances were paired)."""
    table = _paired(values, ids)
    if table is None:
        table = _ranked(values)
    if table is not None and table.shape[0] > 1 and table.shape[1] > 1:
        runs, n = table.shape
        shares = table / table.mean(axis=1, keepdims=True)
        middle = shares.mean(axis=0)
        variance = float(((shares - middle) ** 2).sum()) / ((runs - 1) * (n - 1))
        # Large instances carry most of the noise: fewer of them count.
        counted = float((middle**2).sum()) ** 2 / float((middle**4).sum())
        df = (runs - 1) * max(counted - 1, 0.5)
        return variance * df, df, True
    squares = sum(float(((v / v.mean() - 1) ** 2).sum()) for v in values)
    return squares, float(sum(len(v) - 1 for v in values)), False


def _paired(values: list[Floats], ids: list[Any]) -> Floats | None:
    """Give a (run, instance) table of those that are in all runs, if they are nearly all."""
    if len(ids) < 2 or any(len(np.unique(names)) < len(names) for names in ids):
        return None
    common = ids[0]
    for names in ids[1:]:
        common = np.intersect1d(common, names, assume_unique=True)
    if not len(common) or len(common) < _PAIRED_SHARE * max(len(names) for names in ids):
        return None
    common = np.sort(common)
    rows = []
    for names, run in zip(ids, values, strict=True):
        order = np.argsort(names, kind="stable")
        rows.append(run[order[np.searchsorted(names[order], common)]])
    table = np.array(rows)
    return table if (table.mean(axis=1) > 0).all() else None


def _ranked(values: list[Floats]) -> Floats | None:
    """Give such a table without names: sorted, where order statistics agree far beyond chance.

    Independent samples of n differ, sorted, by about 1/√n of their spread; where they differ by
    a twentieth of that, the same instances are behind them. Their order is the same as long as the
    noise is well below the distance of neighbours, 1/n of the spread.
    """
    sizes = {len(v) for v in values}
    if len(values) < 2 or len(sizes) != 1 or min(sizes) < _RANKED_LEAST:
        return None
    table = np.sort(np.array(values), axis=1)
    if table.min() <= 0:
        return None
    logs = np.log(table)
    logs = logs - logs.mean(axis=1, keepdims=True)
    middle = logs.mean(axis=0)
    n = float(table.shape[1])
    share = min(_RANKED_CHANCE / math.sqrt(n), _RANKED_ORDER / n)
    return table if (logs - middle).std() < share * middle.std() else None
