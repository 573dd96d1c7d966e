"""A cheap online trigger, confirmed and located in the latest values.

What triggers is any detector, best on the residuals of a forecast; where it alarms, `best_split`
(KernelCPD) looks for the change in the last values. An alarm that it does not confirm within a few
more values is dropped.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.adwin import Adwin
from rotameter.forecasting.changes.baseline import reading
from rotameter.forecasting.changes.bayesian import Bayesian
from rotameter.forecasting.changes.cusum import Cusum
from rotameter.forecasting.changes.edetector import EDetector
from rotameter.values import Change

if TYPE_CHECKING:
    from rotameter.protocols import Detector

__all__ = ["Confirmed"]

_OURS: dict[str, Any] = {kind.__name__: kind for kind in (Adwin, Bayesian, Cusum, EDetector)}


class Confirmed:
    """A detector whose alarms are confirmed and located in the last ``window`` values.

    Parameters
    ----------
    watch : Detector, optional
        What triggers; by default :class:`Cusum` with a lower threshold than it has by itself.
    window : int
        Values that a change is looked for in.
    patience : int
        Values after an alarm within which it must be confirmed.

    Attributes
    ----------
    dropped : int
        Alarms that were not confirmed.

    Notes
    -----
    ``confidence`` is the chance that the two sides' means differ by less if there is no change, for
    normal values and a split that was known beforehand.

    Examples
    --------
    >>> watch = Confirmed()
    >>> values = [20.0, 21.0, 19.0, 22.0, 18.0] * 10 + [35.0] * 5
    >>> [c.at_ns for at, x in enumerate(values) if (c := watch.update(at, x))]
    [50]
    """

    def __init__(
        self, watch: Detector | None = None, *, window: int = 200, patience: int = 30
    ) -> None:
        if window < 8 or patience < 1:
            raise PolicyError(f"a window of {window!r} or a patience of {patience!r} is too small")
        self._watch: Detector = Cusum(threshold=7.0) if watch is None else watch
        self.window, self.patience = int(window), int(patience)
        self.dropped = 0
        self._values: deque[tuple[int, float]] = deque(maxlen=self.window)
        self._left = 0

    def update(self, at_ns: int, x: float) -> Change | None:
        """Take one value; give the change once it is confirmed, where it is most likely."""
        alarm = self._watch.update(at_ns, x)
        value = reading(x)
        if value is None:
            return None
        self._values.append((at_ns, value))
        if alarm is not None:
            self._left = self.patience
        if not self._left:
            return None
        found = self._located()
        self._left = 0 if found else self._left - 1
        if not found and not self._left:
            self.dropped += 1
        return found

    def _located(self) -> Change | None:
        from rotameter.forecasting.changes.offline import best_split

        values = [x for _, x in self._values]
        found = best_split(values)
        if found is None:
            return None
        split, score = found
        before, after = median(values[:split]), median(values[split:])
        at_ns = self._values[split][0]
        for _ in range(split):
            self._values.popleft()
        return Change(at_ns, before, after, math.erf(math.sqrt(min(score, 1e6) / 2.0)))

    # -- keeping ----------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Give all of it as plain data; what triggers must have ``state()`` too."""
        return {
            "schema": 1,
            "window": self.window,
            "patience": self.patience,
            "dropped": self.dropped,
            "left": self._left,
            "values": [list(pair) for pair in self._values],
            "kind": type(self._watch).__name__,
            "watch": self._watch.state(),  # type: ignore[attr-defined]
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], *, restore: Callable[[Any], Detector] | None = None
    ) -> Confirmed:
        """Make one from :meth:`state`; it goes on as the first would have.

        Parameters
        ----------
        state : mapping
        restore : callable, optional
            Makes what triggers from its own state; needed where it is not one of ours.
        """
        if restore is None:
            kind = _OURS.get(state["kind"])
            if kind is None:
                raise PolicyError(
                    f"the trigger {state['kind']!r} is not one of rotameter's",
                    hint="give restore=, which makes it from its state",
                )
            restore = kind.from_state
        made = cls(restore(state["watch"]), window=state["window"], patience=state["patience"])
        made.dropped, made._left = int(state["dropped"]), int(state["left"])
        made._values.extend((int(at), float(x)) for at, x in state["values"])
        return made
