"""Two buckets by quantile or by k-means, as published before greedy and exhaustive bucketing.

Method: T. Phung et al., "Not all tasks are created equal" (WORKS 2021). Written anew.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

__all__ = ["kmeans_tops", "quantized_tops"]

_ROUNDS = 100


def quantized_tops(values: ArrayLike, buckets: int = 2) -> Floats:
    """Give the values at the quantiles 1/k, 2/k, … 1; shape (n_buckets,), ascending.

    Examples
    --------
    >>> quantized_tops([1, 2, 3, 4]).tolist()
    [2.0, 4.0]
    """
    v = np.sort(np.asarray(values, dtype=np.float64))
    if not len(v):
        return v
    at = [max(0, math.ceil(len(v) * q / buckets) - 1) for q in range(1, buckets + 1)]
    return np.unique(v[at])


def kmeans_tops(values: ArrayLike, buckets: int = 2) -> Floats:
    """Give the largest member of each of k clusters of numbers; ascending.

    Lloyd's rounds from evenly spread starts, so that equal input gives equal clusters.

    Examples
    --------
    >>> kmeans_tops([1, 2, 10, 11]).tolist()
    [2.0, 11.0]
    """
    v = np.sort(np.asarray(values, dtype=np.float64))
    if not len(v):
        return v
    centres = np.quantile(v, (np.arange(buckets) + 0.5) / buckets)
    cuts = np.zeros(0, dtype=np.int64)
    for _ in range(_ROUNDS):
        now = np.searchsorted(v, (centres[1:] + centres[:-1]) / 2, side="right")
        if np.array_equal(now, cuts):
            break
        cuts = now
        parts = np.split(v, cuts)
        centres = np.array(
            [part.mean() if len(part) else c for part, c in zip(parts, centres, strict=True)]
        )
    return np.unique([part[-1] for part in np.split(v, cuts) if len(part)])
