"""The forecaster that is used where none is named: what was best on recorded arrivals."""

from __future__ import annotations

from rotameter.forecasting.arrivals.mix import ExpertMix

__all__ = ["Default"]


class Default(ExpertMix):
    """Counts of the next bins by a mix of light forecasters, weighed by how good each has been.

    Examples
    --------
    >>> made = Default(season=4, horizon=2)
    >>> made.fit([0.0, 2.0, 9.0, 2.0] * 60)
    >>> made.predict(2, [0.1, 0.5, 0.9]).shape
    (2, 3)
    """
