"""What all forecasters of arrivals share: the intake of bins, and answers in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.arrivals.engine import Engine, Expert, Point
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import Array, answer
from rotameter.forecasting.arrivals.past import Past

__all__ = ["Arrivals", "OfPoint"]


class OfPoint(Kept):
    """A point forecaster with quantiles from its own past errors: an expert."""

    PARTS: ClassVar[tuple[str, ...]] = ("engine",)

    def __init__(self, point: Point, horizon: int, window: int = 1000) -> None:
        self.engine = Engine([point], horizon, window)

    def learn(self, past: Past) -> None:
        """Take the newest bin."""
        self.engine.learn(past)

    def grid(self, past: Past, horizon: int) -> Array:
        """Give quantiles at `LEVELS` for each of the next bins."""
        made: Array = self.engine.all_grids(past, horizon)[0]
        return made


class Arrivals(Kept, ABC):
    """A forecaster of counts; a subclass says which expert is behind it.

    Parameters
    ----------
    season : int
        Bins in a season, mostly a day; 0: none is known.
    horizon : int
        Bins ahead that it learns for. It answers for more, with what it learnt for the last.
    step_ns : int, optional
        Length of a bin. With it, times that skip bins mean missing ones; without it each update is
        the next bin. A time that is not after the one before is the next bin too.
    **more
        The subclass's own settings.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("season", "horizon", "step_ns")
    LEARNT: ClassVar[tuple[str, ...]] = ()
    PARTS: ClassVar[tuple[str, ...]] = ("past", "expert")
    SPACES: ClassVar[tuple[str, ...]] = ("log",)

    past: Past
    expert: Any

    def __init__(
        self, season: int = 0, horizon: int = 6, step_ns: int | None = None, **more: Any
    ) -> None:
        asked: tuple[tuple[str, Any, int], ...] = (("season", season, 0), ("horizon", horizon, 1))
        for name, value, least in asked:
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise PolicyError(
                    f"{name}={value!r}", hint=f"a whole number of bins, at least {least}"
                )
        if step_ns is not None and step_ns <= 0:
            raise PolicyError(f"step_ns={step_ns!r}", hint="the length of a bin, in nanoseconds")
        self.season, self.horizon, self.step_ns = season, horizon, step_ns
        for name, value in more.items():
            setattr(self, name, value)
        self._begin()

    def _begin(self) -> None:
        self.past = Past(self.season, self.horizon, self.step_ns, self.SPACES)
        self.expert = self._expert()

    @abstractmethod
    def _expert(self) -> Expert:
        """Make the expert behind this forecaster, which knows nothing yet."""

    def fit(self, series: Iterable[float]) -> None:
        """Begin anew and learn from a whole series, one count a bin; NaN is a missing bin."""
        self._begin()
        for x in series:
            self.take(float(x))

    def update(self, at_ns: int, x: float) -> None:
        """Learn from one more bin, the one that began at ``at_ns``; NaN is a missing one."""
        missing = self.past.missing_before(at_ns)
        gone_through = self.past.worth_filling(missing)
        if missing > gone_through:
            self.past.skip(missing - gone_through)
        for _ in range(gone_through):
            self.take(float("nan"))
        self.take(float(x))

    def take(self, x: float) -> None:
        """Learn from the next bin, whenever it began."""
        self.past.append(x)
        self.expert.learn(self.past)

    def predict(self, horizon: int, quantiles: Sequence[float]) -> np.ndarray:
        """Give quantiles of the counts of the next bins.

        Parameters
        ----------
        horizon : int
        quantiles : sequence of float
            Between 0 and 1, in any order.

        Returns
        -------
        array, shape (horizon, len(quantiles))
            Never negative; never less for a larger quantile.
        """
        if horizon < 1:
            raise PolicyError(f"horizon {horizon!r}", hint="ask for one bin or more")
        return answer(self.grid(horizon), quantiles)

    def grid(self, horizon: int) -> Array:
        """Give the quantiles at `LEVELS`, as the expert says them."""
        made: Array = self.expert.grid(self.past, horizon)
        return made
