"""Features of a series in one space (log or root): lags, means, the season, what departs from it.

The features of a horizon are those of its target's place in the season, and of what came before
the origin. Seasonal lags go back as many whole seasons as the horizon needs.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import Array

__all__ = ["SPACES", "Track", "back", "columns", "into"]

SPACES = ("log", "root")
LAGS = 3
_SHORT = 12
_LONG = 48
"""Bins of the longer mean where no season is known."""

_NEAR = ("one", "lag1", "lag2", "lag3", "mean", "long", "fast", "middle", "slow", "rough")
_SEASONAL = ("lag_season", "around", "profile", "week", "off")
_PAIRS = ((1, 3), (7, 2))
"""Fourier pairs: seasons in a period, number of pairs. Seven days are a week."""

_FOURIER = tuple(f"turn{k}" for k in range(2 * sum(pairs for _, pairs in _PAIRS)))
_KINDS: dict[str, tuple[str, ...]] = {
    "full": (*_NEAR, *_SEASONAL, *_FOURIER),
    "plain": (*_NEAR, *_SEASONAL),
    "steady": (*_NEAR[:-1], *_SEASONAL[:2], *_FOURIER),
    "short": ("one", "lag1", "lag2", "mean", "fast", "middle", "around", "profile"),
}
_RATES = (0.5, 0.15, 0.04)
"""Rates of the weighted means of what departs from the season."""

_AROUND = np.arange(-2, 3)
_PROFILE, _WEEK, _ROUGH = 0.15, 0.3, 0.1


def into(space: str, x: float) -> float:
    """Take a count into a space."""
    return math.log1p(x) if space == "log" else math.sqrt(x) if space == "root" else x


def back(space: str, z: Array) -> Array:
    """Take values of a space back to counts; the values must be small enough to be counts."""
    floor = np.maximum(z, 0.0)
    return np.expm1(floor) if space == "log" else floor * floor


def columns(season: int, kind: str = "full") -> tuple[str, ...]:
    """Name the features that a kind of model uses.

    Examples
    --------
    >>> len(columns(24)), len(columns(0)), columns(0, "short")[-1]
    (25, 10, 'middle')
    """
    known = set(_NEAR if not season else _KINDS["full"])
    return tuple(name for name in _KINDS[kind] if name in known)


class Track(Kept):
    """One series in one space, with what features need.

    Attributes
    ----------
    z : array
        Values; the owner says where they end.
    now : array, shape (horizon, n_features)
        Features at the present origin.
    then : array, shape (horizon, n_features)
        Features that the newest bin had at the origins from which it was 1, 2, … bins ahead; zeros
        where there was no such origin.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("space", "season", "horizon", "keep")
    LEARNT: ClassVar[tuple[str, ...]] = (
        "profile", "known", "week", "sums", "off", "rough", "seen", "now", "then", "ring"
    )  # fmt: skip

    def __init__(self, space: str, season: int, horizon: int, keep: int) -> None:
        self.space, self.season, self.horizon, self.keep = space, season, horizon, keep
        self.z: Array = np.zeros(2 * keep)
        self.windows = (_SHORT, season or _LONG)
        self.sums = [0.0, 0.0]
        self.profile: Array = np.zeros(season)
        self.known = np.zeros(season, dtype=bool)
        self.week: Array = np.full(7 * season, -1.0)  # Below 0: not known.
        self.off = [0.0, *(0.0 for _ in _RATES)]
        self.rough = 0.5
        self.seen = 0
        width = len(columns(season))
        self.now: Array = np.zeros((horizon, width))
        self.then: Array = np.zeros((horizon, width))
        self.ring: Array = np.zeros((horizon, horizon, width))
        self._steps = np.arange(horizon)
        self._places = _places(season, horizon)

    def mean(self, which: int, end: int) -> float:
        """Give the mean of one of the windows, of what there is of it."""
        return self.sums[which] / max(min(self.windows[which], end), 1)

    def expected(self, count: int, end: int) -> float:
        """Give what a missing bin is taken to be: as at this place of the season, else recent."""
        if self.season and self.known[count % self.season]:
            return float(self.profile[count % self.season])
        return self.mean(0, end)

    def append(self, x: float, count: int, end: int, *, fresh: bool) -> None:
        """Take one more bin, the ``count``-th, at ``end`` of the values."""
        z = into(self.space, x)
        self.then = self.ring[(count - self._steps) % self.horizon, self._steps]
        if fresh:
            self._learn(z, count, end)
        self.z[end] = z
        for which, window in enumerate(self.windows):
            old = float(self.z[end - window]) if end >= window else 0.0
            self.sums[which] += z - old

    def _learn(self, z: float, count: int, end: int) -> None:
        """Take a count that is known: the season, and what departs from it."""
        self.seen += 1
        usual = self.expected(count, end) if self.season else 0.0
        off = z - usual
        self.rough += _ROUGH * (abs(off - self.off[1]) - self.rough)
        self.off[0] = off
        for at, rate in enumerate(_RATES, 1):
            self.off[at] += max(rate, 1.0 / self.seen) * (off - self.off[at])
        if not self.season:
            return
        at, day = count % self.season, count % (7 * self.season)
        # The first week is half what the days before say.
        before = float(self.week[day])
        if before < 0.0:
            self.week[day] = usual + 0.5 * off
        else:
            self.week[day] = before + _WEEK * (z - before)
        if self.known[at]:
            self.profile[at] += _PROFILE * (z - self.profile[at])
        else:
            self.profile[at], self.known[at] = z, True

    def look(self, count: int, end: int) -> None:
        """Make the features of the present origin."""
        self.now = self.features(count, end, self.horizon)
        self.ring[count % self.horizon] = self.now

    def features(self, count: int, end: int, horizon: int) -> Array:
        """Give the features for the next ``horizon`` bins, shape (horizon, n_features)."""
        near = self.mean(0, end)
        out = np.empty((horizon, self.now.shape[1]))
        lags = [float(self.z[end - k]) if k <= end else near for k in range(1, LAGS + 1)]
        out[:, :10] = (1.0, *lags, near, self.mean(1, end), *self.off[1:], self.rough)
        if not self.season:
            return out
        same = horizon == self.horizon
        offsets = self._places if same else _places(self.season, horizon)
        steps = self._steps if same else np.arange(horizon)
        if end + int(offsets[:, 1:].min()) >= 0:
            got = self.z[end + offsets]
        else:
            got = np.where(end + offsets >= 0, self.z[np.maximum(end + offsets, 0)], near)
        out[:, 10] = got[:, 0]
        out[:, 11] = got[:, 1:].sum(axis=1) / len(_AROUND)
        at = (count + steps) % self.season
        usual = np.where(self.known[at], self.profile[at], near)
        out[:, 12] = usual
        day = (count + steps[:, None] + _AROUND[1:4]) % (7 * self.season)
        of_week = self.week[day]
        gone = of_week < 0.0
        if gone.any():
            of_week = np.where(gone, usual[:, None], of_week)
        out[:, 13] = of_week.sum(axis=1) / 3.0
        out[:, 14] = self.off[0]
        column = 15
        for seasons, pairs in _PAIRS:
            period = seasons * self.season
            turn = ((count + steps) % period) * (2.0 * math.pi / period)
            angles = turn[:, None] * np.arange(1, pairs + 1)
            out[:, column : column + pairs] = np.cos(angles)
            out[:, column + pairs : column + 2 * pairs] = np.sin(angles)
            column += 2 * pairs
        return out

    def rebase(self, ratio: float, y: Array, start: int, until: int, end: int) -> None:
        """Take counts up to ``until`` anew after they were multiplied by a ratio."""
        old = y[start:until]
        self.z[start:until] = np.log1p(old) if self.space == "log" else np.sqrt(old)
        self.sums = [float(self.z[max(end - w, start) : end].sum()) for w in self.windows]
        if not self.season:
            moved = math.log(ratio) if self.space == "log" else 0.0
            self.off = [self.off[0], *(off + moved for off in self.off[1:])]
            return
        self.profile = _moved(self.space, self.profile, ratio)
        self.week = np.where(self.week < 0.0, -1.0, _moved(self.space, self.week, ratio))
        # What departed from the season by the change alone does so no more.
        self.off = [0.0] * len(self.off)


def _moved(space: str, z: Array, ratio: float) -> Array:
    """Multiply the counts behind values of a space by a ratio."""
    most = 34.0 if space == "log" else 3e7
    counts = back(space, np.minimum(z, most)) * ratio
    return np.log1p(counts) if space == "log" else np.sqrt(counts)


def _places(season: int, horizon: int) -> np.ndarray:
    """Where seasonal features lie, from the end of the values: shape (horizon, 1 + 5)."""
    if not season:
        return np.zeros((horizon, 0), dtype=np.int64)
    ahead = np.arange(horizon)
    target = ahead - season * (ahead // season + 1)
    around = np.minimum(target[:, None] + _AROUND, -1)
    return np.column_stack([target, around])
