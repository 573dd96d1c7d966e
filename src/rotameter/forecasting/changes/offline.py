"""Change points of a whole series at once, by ruptures.

Truong, Oudre and Vayatis (2020), "Selective review of offline change point detection methods",
Signal Processing 167. Costs and penalties are on the standardised series, so that units and the
level do not matter. What is unknown (NaN) is left out and the rest is taken as if it were evenly
spaced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.baseline import LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

__all__ = ["METHODS", "Method", "best_split", "segment"]

Method = Literal["window", "pelt", "kernel"]
METHODS: tuple[Method, ...] = ("window", "pelt", "kernel")

WIDTH = 40
"""Values that the two halves of a sliding window hold; a sixth of the series where it is short."""

PENALTY = 3.0
"""Penalty of a change, in logarithms of the number of values (Zhang and Siegmund 2007)."""

FEWEST = 6
"""With fewer values there is nothing to compare."""

SURE = 7.0
"""A single split is more than chance from here on, by its two-sample chi-square."""

FAR = 4.0
"""A single value counts as at most so many spreads in a single split."""

_PERSISTENT = 0.9


def segment(
    values: Sequence[float] | Floats, *, method: Method = "window", penalty: float | None = None
) -> list[int]:
    """Give the indices of the first values after each change, ascending.

    Parameters
    ----------
    values : array_like of float
        In order of time; NaN is unknown.
    method : {"window", "pelt", "kernel"}
        Sliding windows of least squares, the default; or optimal partitioning by least squares
        (Killick, Fearnhead and Eckley 2012) or by a Gaussian kernel (Arlot, Celisse and
        Harchaoui 2019).
    penalty : float, optional
        In logarithms of the number of values.

    Examples
    --------
    >>> segment([1.0, 2.0] * 20 + [8.0, 9.0] * 20)
    [40]
    """
    if method not in METHODS:
        raise PolicyError(f"unknown method {method!r}", hint=f"known: {', '.join(METHODS)}")
    if penalty is not None and not penalty > 0:
        raise PolicyError(f"the penalty must be positive, not {penalty!r}")
    y, where = _standard(values)
    if y is None:
        return []
    model = _model(method, len(y)).fit(y.reshape(-1, 1))
    if method == "window":
        # Where two neighbours score alike, neither is a peak to ruptures: the first one is ours.
        model.score = np.round(model.score, 7) - 1e-9 * np.arange(len(model.score))
    charge = (PENALTY if penalty is None else penalty) * math.log(len(y))
    return [int(where[end]) for end in model.predict(pen=charge)[:-1]]


def _model(method: Method, n: int) -> Any:
    import ruptures

    if method == "window":
        width = max(2, min(WIDTH, n // 6))
        return ruptures.Window(width=width, model="l2", jump=1)
    if method == "pelt":
        return ruptures.Pelt(model="l2", min_size=2, jump=1)
    return ruptures.KernelCPD(kernel="rbf", min_size=2)


def best_split(values: Sequence[float] | Floats) -> tuple[int, float] | None:
    """Give the one most likely change of a window, where it is more than chance.

    Found by ruptures' ``KernelCPD`` with a linear kernel; then the two sides' means are compared
    on the variance within them, which counts for more where values follow each other.

    Returns
    -------
    split : int
        Index of the first value after the change.
    score : float
        Squared distance of the means in units of its variance; at least :data:`SURE` plus twice
        the logarithm of the number of values.

    Examples
    --------
    >>> best_split([1.0, 2.0] * 20 + [8.0, 9.0] * 3)[0]
    40
    >>> best_split([1.0, 2.0] * 20) is None
    True
    """
    import ruptures

    y, where = _standard(_pulled(np.asarray(values, dtype=np.float64).ravel()))
    if y is None:
        return None
    found = ruptures.KernelCPD(kernel="linear", min_size=2).fit(y.reshape(-1, 1)).predict(n_bkps=1)
    split = int(found[0])
    if not 0 < split < len(y):
        return None
    score = _score(y, split)
    if score < SURE + 2.0 * math.log(len(y)):
        return None
    return int(where[split]), score


def _pulled(x: Floats) -> Floats:
    """Pull in what is far from the median: one odd value is no change."""
    known = x[np.abs(x) <= LARGEST]
    if not len(known):
        return x
    middle = float(np.median(known))
    far = FAR * 1.4826 * float(np.median(np.abs(known - middle)))
    return np.clip(x, middle - far, middle + far) if far > 0.0 else x


def _score(y: Floats, split: int) -> float:
    one, two = y[:split], y[split:]
    gap = float(two.mean() - one.mean())
    left = np.concatenate([one - one.mean(), two - two.mean()])
    variance = float(left @ left) / max(1, len(y) - 2)
    if variance <= 1e-18:
        return math.inf if gap else 0.0
    follows = float(left[1:] @ left[:-1]) / float(left @ left)
    if follows > 2.0 / math.sqrt(len(y)):
        follows = min(follows, _PERSISTENT)
        variance *= (1.0 + follows) / (1.0 - follows)
    return gap * gap / (variance * (1.0 / len(one) + 1.0 / len(two)))


def _standard(values: Sequence[float] | Floats) -> tuple[Floats | None, Indices]:
    """Give the known values with mean 0 and variance 1, and where they were; None if all alike."""
    x = np.asarray(values, dtype=np.float64).ravel()
    where = np.flatnonzero(np.abs(x) <= LARGEST)  # NaN compares as false.
    x = x[where]
    if len(x) < FEWEST:
        return None, where
    unit = float(np.abs(x).max())
    if unit == 0.0:
        return None, where
    x = x / unit
    spread = float(x.std(ddof=1))
    if spread <= 1e-12:
        return None, where
    return (x - x.mean()) / spread, where
