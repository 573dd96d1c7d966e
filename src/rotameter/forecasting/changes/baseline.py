"""What a series was like so far: level, spread, lean and persistence, learnt with a lag.

Detectors compare the latest values with it. A value becomes part of it only :data:`LAG` values
later, so that a change does not hide itself; while a series is new, or after a change, a baseline
first gathers :data:`WARM` values and nothing is judged.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

__all__ = ["CLIP", "LAG", "LARGEST", "WARM", "Baseline", "centre", "reading", "tilt"]

WARM = 24
"""Values before anything is judged."""

LAG = 32
"""Values that wait before they count as ordinary."""

MEMORY = 500
"""Values that the baseline goes back, about."""

CLIP = 4.0
"""A single value counts as at most so many spreads: one odd reading is no change."""

LARGEST = 1e150
"""What is beyond this is no measurement, and what is below one over it is 0: squares must fit."""

UNSURE = 16.0
"""The spread is widened as if the level's own error stayed for so many values."""

CARRIED = 12.0
"""Values that the spread before a change counts for after it, where it was the wider."""

_PERSISTENT = 0.9
_LEANING = 50.0
_MOST_LEAN = 2.0
_FINEST = 1e-9
_EVERY = 8


def reading(x: Any) -> float | None:
    """Give a value as a float; None where it is no measurement.

    Examples
    --------
    >>> reading(3), reading(float("nan")), reading(float("inf")), reading(None), reading(1e-300)
    (3.0, None, None, None, 0.0)
    """
    try:
        value = float(x)
    except (TypeError, ValueError, OverflowError):
        return None
    if not -LARGEST <= value <= LARGEST:
        return None
    return value if abs(value) >= 1.0 / LARGEST else 0.0


def tilt(shift: float, lean: float) -> tuple[float, float]:
    """Give the weight θ of a standardised value and ψ(θ), for a level that moved by ``shift``.

    The log-likelihood ratio of a value z is θ·z - ψ(θ). Values are as a Poisson variable's that
    is shifted and scaled to the skewness ``lean``; the normal distribution is the limit at 0.

    Examples
    --------
    >>> tilt(1.0, 0.0)
    (1.0, 0.5)
    """
    if abs(lean) < 1e-3:
        return shift, 0.5 * shift * shift
    grown = max(1.0 + lean * shift, 0.2)
    log = math.log(grown)
    return log / lean, (grown - 1.0 - log) / (lean * lean)


def centre(values: list[float]) -> tuple[float, float]:
    """Give the mean and the standard deviation, values far from the median pulled in.

    Examples
    --------
    >>> centre([1.0, 3.0] * 10 + [1e9])[0] < 10
    True
    """
    unit = max(map(abs, values))
    if unit == 0.0:
        return 0.0, 0.0
    scaled = sorted(v / unit for v in values)
    middle = scaled[len(scaled) // 2]
    apart = sorted(abs(v - middle) for v in scaled)
    far = 6.0 * 1.4826 * apart[len(apart) // 2]
    if far > 0.0:
        scaled = [min(max(v, middle - far), middle + far) for v in scaled]
    mean = math.fsum(scaled) / len(scaled)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in scaled) / (len(scaled) - 1))
    return mean * unit, spread * unit


class Baseline:
    """What is ordinary in a series.

    Attributes
    ----------
    n : int
        Values that it stands on, at most :data:`MEMORY`; 0 while it gathers.
    level, spread : float
        Mean and standard deviation.
    lean : float
        Skewness, shrunk towards 0 while values are few.
    scale : float
        What a value is divided by: the spread, widened for what is not known of the level, and
        where values follow each other (variance of a mean of persistent values).
    recent : deque of (int, float)
        The latest values with their times, which are not part of it yet.
    """

    __slots__ = ("_age", "_last", "_old", "_persistence", "_skew", "lean", "level", "n", "recent", "scale", "spread")  # fmt: skip  # noqa: E501

    def __init__(self) -> None:
        self.n, self._age = 0, 0
        self.level = self.spread = self.scale = self.lean = 0.0
        self._old = 0.0
        self._skew = self._persistence = self._last = 0.0
        self.recent: deque[tuple[int, float]] = deque()

    def gather(self, at_ns: int, x: float) -> bool:
        """Take one of the first values; say whether there are enough now."""
        self.recent.append((at_ns, x))
        if len(self.recent) < WARM:
            return False
        self._begin()
        return True

    def take(self, at_ns: int, x: float) -> bool:
        """Take a value; say whether what detectors derive from this baseline has changed."""
        recent = self.recent
        recent.append((at_ns, x))
        if len(recent) <= LAG:
            return False
        self._absorb(recent.popleft()[1])
        self._age += 1
        if self._age % _EVERY:
            return False
        self._refresh()
        return True

    def z(self, x: float) -> float:
        """Give how many scales a value is from the level, at most :data:`CLIP`."""
        away = x - self.level
        if away == 0.0:
            return 0.0
        if self.scale <= 0.0:
            return CLIP if away > 0.0 else -CLIP
        z = away / self.scale
        return CLIP if z > CLIP else -CLIP if z < -CLIP else z

    def since(self, sign: float) -> int:
        """Give how many of the latest values have most likely left the level, upwards or down."""
        best, most, total = 1, -math.inf, 0.0
        for k, (_, x) in enumerate(reversed(self.recent), 1):
            total += sign * self.z(x)
            gain = total * abs(total) / k
            if gain > most:
                best, most = k, gain
        return best

    def renew(self, keep: int) -> list[tuple[int, float]]:
        """Begin anew with the latest ``keep`` values, and give them."""
        kept = list(self.recent)[-keep:]
        self.recent.clear()
        self.recent.extend(kept)
        self._old = self.spread
        self.n, self._age = 0, 0
        if len(kept) >= WARM:
            self._begin()
        return kept

    def _begin(self) -> None:
        values = [x for _, x in self.recent]
        self.level, self.spread = centre(values)
        self.n = n = len(values)
        # Few values often look narrower than they are; what was before says how wide is usual.
        pooled = (CARRIED * self._old**2 + (n - 1) * self.spread**2) / (CARRIED + n - 1)
        self.spread = max(self.spread, math.sqrt(pooled) if self._old else 0.0)
        self._skew = self._persistence = self._last = 0.0
        self.scale, self.lean = self.spread, 0.0
        zs = [self.z(x) for x in values]
        self._skew = math.fsum(z * z * z for z in zs) / len(zs)
        self._persistence = math.fsum(a * b for a, b in zip(zs[1:], zs, strict=False)) / len(zs)
        self._last = zs[-1]
        self.recent.clear()
        self._refresh()

    def _absorb(self, x: float) -> None:
        self.n = n = min(self.n + 1, MEMORY)
        weight = 1.0 / n
        away = x - self.level
        if self.spread <= 0.0:
            self.level += weight * away
            self.spread = abs(away) * math.sqrt(weight * (1.0 - weight))
            return
        z = away / self.spread
        z = CLIP if z > CLIP else -CLIP if z < -CLIP else z
        self.level += weight * z * self.spread
        self.spread *= math.sqrt((1.0 - weight) * (1.0 + weight * z * z))
        self._skew += weight * (z * z * z - self._skew)
        self._persistence += weight * (z * self._last - self._persistence)
        self._last = z

    def _refresh(self) -> None:
        n, follows = self.n, self._persistence
        widened = 1.0 + UNSURE / n
        if follows > 2.0 / math.sqrt(n):
            follows = min(follows, _PERSISTENT)
            widened *= (1.0 + follows) / (1.0 - follows)
        self.scale = max(self.spread * math.sqrt(widened), _FINEST * abs(self.level))
        lean = self._skew * n / (n + _LEANING)
        self.lean = min(max(lean, -_MOST_LEAN), _MOST_LEAN)

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        return {
            "n": self.n,
            "age": self._age,
            "level": self.level,
            "spread": self.spread,
            "scale": self.scale,
            "lean": self.lean,
            "skew": self._skew,
            "persistence": self._persistence,
            "last": self._last,
            "old": self._old,
            "recent": [list(pair) for pair in self.recent],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Baseline:
        """Make one from :meth:`state`; it goes on as the first would have."""
        made = cls()
        made.n, made._age = int(state["n"]), int(state["age"])
        made.level, made.spread = float(state["level"]), float(state["spread"])
        made.scale, made.lean = float(state["scale"]), float(state["lean"])
        made._skew, made._last = float(state["skew"]), float(state["last"])
        made._persistence = float(state["persistence"])
        made._old = float(state["old"])
        made.recent.extend((int(at), float(x)) for at, x in state["recent"])
        return made
