"""Change points: found online in one series, confirmed and located, and as regimes of a trace.

All detectors here are free of units: a series times 100 gives the same changes.

>>> watch = default()
>>> counts = [20, 22, 18, 21, 19, 20, 23, 17] * 5 + [31, 29, 33, 30, 32, 31, 30]
>>> found = [change for at, x in enumerate(counts) if (change := watch.update(at, x))]
>>> [(change.at_ns, round(change.before)) for change in found]
[(40, 20)]
"""

from __future__ import annotations

from rotameter.forecasting.changes.adwin import Adwin
from rotameter.forecasting.changes.bayesian import Bayesian
from rotameter.forecasting.changes.confirm import Confirmed
from rotameter.forecasting.changes.cusum import Cusum
from rotameter.forecasting.changes.edetector import EDetector

__all__ = ["Adwin", "Bayesian", "Confirmed", "Cusum", "EDetector", "default"]


def default() -> Cusum:
    """Give the online detector that did best; see the explanation page on change points."""
    return Cusum()
