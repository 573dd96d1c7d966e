"""Forecasts at every origin of a series, each from what came before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.arrivals.levels import ASKED, Array

__all__ = ["origins", "rolling", "step_of"]


def origins(bins: int, first: int | None, horizon: int) -> range:
    """Give the origins of a series: indices of the first bin that is foretold.

    From ``first`` to the last one all of whose bins are known; if none is, ``first`` alone. None
    means the end of the series: what comes next.

    Examples
    --------
    >>> origins(10, 5, 3), origins(10, 9, 3), origins(10, None, 3)
    (range(5, 8), range(9, 10), range(10, 11))
    """
    first = bins if first is None else first
    if not 0 <= first <= bins:
        raise PolicyError(
            f"no origin {first}: the series has {bins} bins", hint=f"give 0 to {bins}"
        )
    return range(first, max(bins - horizon, first) + 1)


def rolling(
    forecaster: Any,
    values: Sequence[float] | Array,
    first: int | None = None,
    horizon: int = 6,
    quantiles: Sequence[float] = ASKED,
    *,
    times_ns: Sequence[int] | None = None,
) -> Iterator[tuple[int, Array]]:
    """Forecast at each origin, and learn the bin at it before the next.

    Parameters
    ----------
    forecaster : Forecaster
        A new one.
    values : sequence of float
        Counts; NaN is a missing bin.
    first : int, optional
        See :func:`origins`.
    horizon : int
    quantiles : sequence of float
    times_ns : sequence of int, optional
        When each bin began; without it they follow each other.

    Yields
    ------
    origin : int
        Index of the bin that is one step ahead.
    array, shape (horizon, len(quantiles))
        From the values before the origin only.

    Examples
    --------
    >>> from rotameter.forecasting.arrivals.last import LastValue
    >>> made = dict(rolling(LastValue(), [5.0] * 50, 40, 6, (0.5,)))
    >>> sorted(made)[:2], made[40].shape
    ([40, 41], (6, 1))
    """
    wanted = origins(len(values), first, horizon)
    if times_ns is None:
        forecaster.fit(np.asarray(values[: wanted.start], dtype=float))
    else:
        for at, x in zip(times_ns[: wanted.start], values[: wanted.start], strict=True):
            forecaster.update(int(at), float(x))
    for origin in wanted:
        yield origin, np.asarray(forecaster.predict(horizon, quantiles))
        if origin + 1 < wanted.stop:
            at = origin if times_ns is None else int(times_ns[origin])
            forecaster.update(at, float(values[origin]))


def step_of(times_ns: Sequence[int]) -> int | None:
    """Give the length of a bin: the median of the steps forward; None where there is none."""
    steps = np.diff(np.asarray(times_ns, dtype=np.int64))
    steps = steps[steps > 0]
    return int(np.median(steps)) if steps.size else None
