"""A challenger starts at an alarm and takes over only when it has won."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.support.arrivals import QUANTILES, daily, shifted

from rotameter.errors import PolicyError
from rotameter.forecasting.arrivals.challenger import Challenged
from rotameter.forecasting.arrivals.default import Default
from rotameter.forecasting.arrivals.least_squares import RecursiveLeastSquares
from rotameter.forecasting.arrivals.levels import weighted_loss
from rotameter.protocols import Forecaster
from rotameter.values import Change


class At:
    """Alarms at given updates, whatever comes."""

    def __init__(self, *when: int) -> None:
        self.when, self.count = when, 0

    def update(self, at_ns: int, x: float) -> Change | None:
        self.count += 1
        return Change(at_ns, None, None) if self.count - 1 in self.when else None

    def state(self) -> dict[str, Any]:
        return {"when": list(self.when), "count": self.count}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> At:
        made = cls(*state["when"])
        made.count = state["count"]
        return made


class Cusum:
    """Sums of log ratios in either direction, over their spread."""

    def __init__(self, limit: float = 5.0) -> None:
        self.limit, self.up, self.down, self.spread = limit, 0.0, 0.0, 0.3
        self.since = 0

    def update(self, at_ns: int, x: float) -> Change | None:
        z = math.log(max(x, 1e-9))
        self.spread += 0.02 * (abs(z) - self.spread)
        step = z / max(1.25 * self.spread, 1e-9)
        if self.up == 0.0 and self.down == 0.0:
            self.since = at_ns
        self.up = max(self.up + step - 0.5, 0.0)
        self.down = max(self.down - step - 0.5, 0.0)
        if max(self.up, self.down) < self.limit:
            return None
        self.up = self.down = 0.0
        return Change(self.since, None, None)


def losses(made: Any, values: np.ndarray, start: int) -> np.ndarray:
    """Give the loss at each origin from ``start`` on."""
    out = []
    made.fit(values[:start])
    for k in range(start, len(values) - 6):
        got = made.predict(6, QUANTILES)
        truth = values[k : k + 6]
        out.append((weighted_loss(got, truth, QUANTILES) or 0.0) * truth.sum())
        made.update(k, float(values[k]))
    return np.array(out)


def test_it_is_a_forecaster() -> None:
    assert isinstance(Challenged(Default(season=24), At()), Forecaster)
    with pytest.raises(PolicyError):
        Challenged(Default(), object())  # type: ignore[arg-type]


def test_without_alarms_it_is_the_incumbent() -> None:
    values = daily(500)
    alone, inside = (
        RecursiveLeastSquares(season=24),
        Challenged(RecursiveLeastSquares(season=24), At()),
    )
    alone.fit(values)
    inside.fit(values)
    assert np.array_equal(alone.predict(6, QUANTILES), inside.predict(6, QUANTILES))
    assert inside.alarms == inside.switches == 0


def test_a_false_alarm_changes_little_and_is_over_in_time() -> None:
    values = daily(1100, seed=1)
    alone = losses(RecursiveLeastSquares(season=24), values, 700)
    made = Challenged(RecursiveLeastSquares(season=24), At(750, 900))
    coupled = losses(made, values, 700)
    assert made.alarms == 2
    assert coupled.sum() <= 1.02 * alone.sum()
    stored = made.state()
    assert stored["duel"] is None


def test_a_right_alarm_lowers_the_loss() -> None:
    gains = []
    for seed in range(3):
        values, _ = shifted(1000, [800], [2.5], seed=seed)
        alone = losses(RecursiveLeastSquares(season=24), values, 790)[10:82]
        made = Challenged(RecursiveLeastSquares(season=24), At(803))
        coupled = losses(made, values, 790)[10:82]
        gains.append(coupled.sum() / alone.sum())
        assert made.alarms == 1
    assert np.mean(gains) < 0.95


def test_a_detector_on_the_errors_finds_the_shift() -> None:
    values, _ = shifted(1000, [800], [2.5], seed=4)
    made = Challenged(RecursiveLeastSquares(season=24), Cusum())
    losses(made, values, 600)
    assert made.switches >= 1


def test_the_interval_is_wider_while_it_is_undecided() -> None:
    values, _ = shifted(700, [600], [3.0], seed=5)
    alone = RecursiveLeastSquares(season=24)
    made = Challenged(RecursiveLeastSquares(season=24), At(603))
    for one in (alone, made):
        one.fit(values[:610])
    plain, duelling = (one.predict(6, (0.1, 0.9)) for one in (alone, made))
    width = np.diff(duelling, axis=1) / np.diff(plain, axis=1)
    assert width.min() >= 1.0 - 1e-9 and width.max() > 1.05


@pytest.mark.parametrize("at", [300, 613])
def test_state_goes_on_bit_for_bit(at: int) -> None:
    values, _ = shifted(700, [600], [3.0], seed=6)
    made = Challenged(Default(season=24), At(605))
    made.fit(values[:at])
    stored = json.dumps(made.state())
    again = Challenged.from_state(json.loads(stored), Default, At)
    assert json.dumps(again.state()) == stored
    for k, x in enumerate(values[at:], at):
        made.update(k, float(x))
        again.update(k, float(x))
    assert np.array_equal(made.predict(6, QUANTILES), again.predict(6, QUANTILES))
    assert json.dumps(made.state()) == json.dumps(again.state())


def test_missing_bins_and_odd_values_do_no_harm() -> None:
    made = Challenged(Default(season=4, horizon=3), Cusum(), most=6)
    rng = np.random.default_rng(0)
    for k in range(400):
        x = rng.choice([0.0, 3.0, 5.0, math.nan, -1.0, 1e300, 400.0])
        made.update(k, float(x))
        got = made.predict(4, (0.05, 0.5, 0.95))
        assert np.isfinite(got).all() and (got >= 0).all() and (np.diff(got, axis=1) >= 0).all()
