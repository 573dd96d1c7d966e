"""What came so far, bin by bin: gaps filled, the clock's jumps survived, features made.

Only bins that are over are in it, so that no feature can know what comes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rotameter.forecasting.arrivals.features import Track
from rotameter.forecasting.arrivals.keeping import Kept
from rotameter.forecasting.arrivals.levels import Array

__all__ = ["MOST", "Past"]

MOST = 1e15
"""A larger count is taken as this."""

_GAP = 512
_LOOK = 48


class Past(Kept):
    """The bins of one series that are over.

    Parameters
    ----------
    season : int
        Bins in a season (a day, mostly); 0 or 1: none.
    horizon : int
        Bins ahead that features are kept for.
    step_ns : int, optional
        Length of a bin. With it a later time than the next bin's means that bins are missing;
        without it each update is the next bin.
    spaces : sequence of {"log", "root"}
        What forecasters here work on; "log" is always there.

    Attributes
    ----------
    count : int
        Bins that are over, the missing ones too.
    seen : int
        Those of which the count is known.
    fresh : bool
        Whether the newest one's is.
    latest : float
        The last count that is known; 0 before any.
    whole : bool
        Whether all counts so far were whole numbers.
    jumps : int
        Times that did not come after the one before.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("season", "horizon", "step_ns", "spaces")
    LEARNT: ClassVar[tuple[str, ...]] = (
        "count", "seen", "fresh", "latest", "whole", "jumps", "last_ns"
    )  # fmt: skip

    def __init__(
        self,
        season: int,
        horizon: int,
        step_ns: int | None = None,
        spaces: Sequence[str] = ("log",),
    ) -> None:
        self.season = season if season > 1 else 0
        self.horizon, self.step_ns = horizon, step_ns
        self.spaces = tuple(dict.fromkeys(("log", *spaces)))
        self.keep = max(2 * self.season + horizon, 256)
        self.count = self.seen = self.jumps = 0
        self.fresh, self.latest, self.whole = False, 0.0, True
        self.last_ns: int | None = None
        self.end = 0
        self.y: Array = np.zeros(2 * self.keep)
        self.tracks = {
            space: Track(space, self.season, horizon, self.keep) for space in self.spaces
        }

    def missing_before(self, at_ns: int) -> int:
        """Take a bin's time; give how many bins are missing between the last one and it."""
        last, self.last_ns = self.last_ns, at_ns
        if last is None:
            return 0
        if at_ns <= last:
            self.jumps += 1
            return 0
        if not self.step_ns:
            return 0
        return max(round((at_ns - last) / self.step_ns) - 1, 0)

    def worth_filling(self, missing: int) -> int:
        """Give how many of the missing bins are gone through; the others only turn the season."""
        return min(missing, 2 * self.season + self.horizon, _GAP)

    def skip(self, bins: int) -> None:
        """Let bins pass unseen: the season goes on, what was foretold before is forgotten."""
        self.count += bins
        for track in self.tracks.values():
            track.ring[:] = 0.0
            track.look(self.count, self.end)

    def append(self, x: float) -> None:
        """Take one more bin; what is no count (NaN, negative, infinite) is missing."""
        self.fresh = math.isfinite(x) and x >= 0.0
        if self.fresh:
            x = min(x, MOST)
            self.latest = x
            self.whole = self.whole and x.is_integer()
            self.seen += 1
        else:
            x = min(max(math.expm1(self.tracks["log"].expected(self.count, self.end)), 0.0), MOST)
        if self.end == 2 * self.keep:
            self.y[: self.keep] = self.y[self.keep :]
            for track in self.tracks.values():
                track.z[: self.keep] = track.z[self.keep :]
            self.end = self.keep
        self.y[self.end] = x
        for track in self.tracks.values():
            track.append(x, self.count, self.end, fresh=self.fresh)
        self.end += 1
        self.count += 1
        for track in self.tracks.values():
            track.look(self.count, self.end)

    def ceiling(self) -> float:
        """Give what no forecast is above: three times the most of two seasons, or of 48 bins."""
        look = self.y[max(self.end - max(2 * self.season, _LOOK), 0) : self.end]
        return 3.0 * (float(look.max()) if look.size else 0.0) + 3.0

    def rebase(self, ratio: float, bins: int) -> None:
        """Have what came before the newest bins been larger by a ratio, as if it came since."""
        until = max(self.end - bins, 0)
        start = max(self.end - self.keep, 0)
        self.y[start:until] = np.minimum(self.y[start:until] * ratio, MOST)
        for track in self.tracks.values():
            track.rebase(ratio, self.y, start, until, self.end)
            track.look(self.count, self.end)

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        made = super().state()
        start = max(self.end - self.keep, 0)
        made["y"] = self.y[start : self.end].tolist()
        for space, track in self.tracks.items():
            made[space] = {**track.state(), "z": track.z[start : self.end].tolist()}
        return made

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take what was learnt."""
        super().restore(state)
        self.end = len(state["y"])
        self.y[: self.end] = state["y"]
        for space, track in self.tracks.items():
            track.restore(state[space])
            track.z[: self.end] = state[space]["z"]

    def of(self, space: str) -> float:
        """Give the newest bin's count in a space."""
        values = self.y if space == "count" else self.tracks[space].z
        return float(values[self.end - 1])
