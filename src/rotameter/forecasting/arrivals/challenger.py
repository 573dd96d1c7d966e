"""A forecaster that change points may replace, and only by one that proved better since.

Adapting at every alarm is double-edged: it helps where the alarm was right and hurts where it was
an outlier. So an alarm only starts a challenger, a copy of the incumbent that takes what came
before the change as if it had come at the new level. Both are scored on what comes after the alarm,
and the more the challenger wins, bin by bin, the more it is followed; after some time only the one
that has lost less stays. While it is undecided, intervals reach further, towards what either says.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from rotameter.errors import PolicyError
from rotameter.forecasting.arrivals.base import Arrivals
from rotameter.forecasting.arrivals.engine import Origins
from rotameter.forecasting.arrivals.keeping import dump
from rotameter.forecasting.arrivals.levels import LEVELS, Array, answer, pinball
from rotameter.protocols import Detector

__all__ = ["Challenged"]

_RECENT = 72
_MOST, _FAR = 34.0, 1000.0
_PACE, _BIAS = 3.0, 1.0
"""Belief in a challenger, as log odds: for each bin's worth of loss that it won, and at first."""

_MIDDLE = int(np.argmin(np.abs(LEVELS - 0.5)))


def _level(pairs: Sequence[tuple[float, float]]) -> float:
    """Give counts over what was usual."""
    return (sum(x for x, _ in pairs) + 1.0) / (sum(usual for _, usual in pairs) + 1.0)


class _Duel:
    """A challenger, what both have said since it began, and what that has cost."""

    def __init__(self, rival: Arrivals, levels: int) -> None:
        self.rival = rival
        self.ours = Origins(rival.horizon, (levels,))
        self.its = Origins(rival.horizon, (levels,))
        self.lost = [0.0, 0.0]
        self.bins = 0

    def say(self, incumbent: Arrivals) -> None:
        """Keep what both say about the next bins."""
        at = self.rival.past.count
        self.ours.say(at, incumbent.grid(incumbent.horizon))
        self.its.say(at, self.rival.grid(self.rival.horizon))

    def belief(self) -> float:
        """Give how much the challenger is followed: 0 to 1, by the bins' worth that it has won."""
        ours, its = self.lost
        whole = ours + its
        won = self.bins * (ours - its) / whole if whole > 0.0 else 0.0
        return 1.0 / (1.0 + math.exp(min(max(_BIAS - _PACE * won, -40.0), 40.0)))

    def score(self, x: float, newest: int) -> None:
        """Charge both for what they said about a bin since the duel began."""
        for which, said in enumerate((self.ours, self.its)):
            grids, valid = said.about(newest)
            losses = pinball(grids, np.full(len(grids), x)).mean(axis=-1)
            self.lost[which] += float(losses[valid].mean()) if valid.any() else 0.0
        self.bins += 1


class Challenged:
    """An incumbent, a detector on its errors, and now and then a challenger.

    Parameters
    ----------
    incumbent : Arrivals
        A new one.
    detector : Detector
        Fed with how far each bin is, in log units, off what was usual: 0 on average. If it has
        ``state()`` and ``from_state()``, it is stored too.
    most : int
        Bins after which the one that lost more goes.

    Attributes
    ----------
    alarms, switches : int
    """

    def __init__(
        self,
        incumbent: Arrivals,
        detector: Detector,
        *,
        most: int = 72,
    ) -> None:
        if not isinstance(detector, Detector):
            raise PolicyError("the detector has no update(at_ns, x)", hint="see Detector")
        self.incumbent, self.detector = incumbent, detector
        self.most = most
        self.alarms = self.switches = 0
        self._duel: _Duel | None = None
        self._recent: deque[tuple[int, float, float]] = deque(maxlen=_RECENT)

    def fit(self, series: Iterable[float]) -> None:
        """Begin anew and learn from a whole series; the alarms in it count too."""
        self.incumbent.fit(())
        self._duel = None
        self._recent.clear()
        for at, x in enumerate(series):
            self._take(at, float(x))

    def update(self, at_ns: int, x: float) -> None:
        """Learn from one more bin."""
        self._take(at_ns, float(x), timed=True)

    def _take(self, at_ns: int, x: float, *, timed: bool = False) -> None:
        usual = self._usual()
        for one in self._both():
            one.update(at_ns, x) if timed else one.take(x)
        past = self.incumbent.past
        if past.fresh:
            self._recent.append((at_ns, past.latest, math.expm1(min(usual, _MOST))))
            change = self.detector.update(at_ns, past.of("log") - usual)
            if self._duel is not None:
                self._judge(past.latest, past.count - 1)
            if change is not None:
                self.alarms += 1
                # A further change: who leads is the one that is challenged.
                if self._duel is None or self._duel.belief() > 0.5:
                    self._end()
                    self._challenge(change.at_ns)
        if self._duel is not None:
            self._duel.say(self.incumbent)

    def _usual(self) -> float:
        """Give what the next bin would be at the level of some thirty bins, in log units.

        The incumbent's own forecast follows a new level within a few bins: by it a change would
        hardly be seen.
        """
        past = self.incumbent.past
        track = past.tracks["log"]
        season = track.expected(past.count, past.end) if past.season else 0.0
        return max(season + track.off[-1], 0.0)

    def _both(self) -> list[Arrivals]:
        return [self.incumbent] + ([self._duel.rival] if self._duel is not None else [])

    def _challenge(self, since_ns: int) -> None:
        """Start a challenger that takes the past at the level since the change."""
        since = sum(at >= since_ns for at, _, _ in self._recent)
        since = min(max(since, 2), len(self._recent))
        pairs = [(x, usual) for _, x, usual in self._recent]
        ratio = _level(pairs[-since:]) / _level(pairs[:-since])
        rival = copy.deepcopy(self.incumbent)
        rival.past.rebase(min(max(ratio, 1.0 / _FAR), _FAR), since)
        self._duel = _Duel(rival, len(LEVELS))

    def _judge(self, x: float, newest: int) -> None:
        """Charge both; after ``most`` bins only one stays."""
        duel = self._duel
        assert duel is not None
        duel.score(x, newest)
        if duel.bins >= self.most:
            self._end()

    def _end(self) -> None:
        """Keep the one that has lost less."""
        duel, self._duel = self._duel, None
        if duel is not None and duel.lost[1] < duel.lost[0]:
            self.incumbent = duel.rival
            self.switches += 1

    def predict(self, horizon: int, quantiles: Sequence[float]) -> np.ndarray:
        """Give quantiles of the counts of the next bins; see :meth:`Arrivals.predict`."""
        return answer(self.grid(horizon), quantiles)

    def grid(self, horizon: int) -> Array:
        """Give the quantiles at `LEVELS`: the incumbent's, in a duel of both and further out."""
        made = self.incumbent.grid(horizon)
        if self._duel is None:
            return made
        other = self._duel.rival.grid(horizon)
        share = self._duel.belief()
        mixed = (1.0 - share) * made + share * other
        outer = np.where(LEVELS < 0.5, np.minimum(made, other), np.maximum(made, other))
        outer[:, _MIDDLE] = mixed[:, _MIDDLE]
        doubt: float = 2.0 * share * (1.0 - share)
        return (1.0 - doubt) * mixed + doubt * outer

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data."""
        duel = self._duel
        kept = getattr(self.detector, "state", None)
        return {
            "incumbent": self.incumbent.state(),
            "most": self.most,
            "alarms": self.alarms,
            "switches": self.switches,
            "recent": dump([list(one) for one in self._recent]),
            "detector": kept() if callable(kept) else None,
            "duel": None
            if duel is None
            else {
                "rival": duel.rival.state(),
                "ours": duel.ours.state(),
                "its": duel.its.state(),
                "lost": list(duel.lost),
                "bins": duel.bins,
            },
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], incumbent: type[Arrivals], detector: Any) -> Self:
        """Make one from :meth:`state`.

        Parameters
        ----------
        state : mapping
        incumbent : type
            The class of the incumbent.
        detector : type or Detector
            Its class, where it can be stored; else a new one.
        """
        its = state["detector"]
        made = cls(
            incumbent.from_state(state["incumbent"]),
            detector if its is None else detector.from_state(its),
            most=state["most"],
        )
        made.alarms, made.switches = state["alarms"], state["switches"]
        made._recent.extend((int(at), float(x), float(usual)) for at, x, usual in state["recent"])
        duel = state["duel"]
        if duel is not None:
            made._duel = _Duel(incumbent.from_state(duel["rival"]), len(LEVELS))
            made._duel.ours = Origins.from_state(duel["ours"])
            made._duel.its = Origins.from_state(duel["its"])
            made._duel.lost, made._duel.bins = list(duel["lost"]), duel["bins"]
        return made
