from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.errors import PolicyError
from rotameter.forecasting.changes import Confirmed, Cusum
from rotameter.values import Change


class Cries:
    """Alarms at each hundredth value, whatever comes."""

    def __init__(self) -> None:
        self.n = 0

    def update(self, at_ns: int, x: float) -> Change | None:
        self.n += 1
        return None if self.n % 100 else Change(at_ns, None, None)

    def state(self) -> dict[str, Any]:
        return {"n": self.n}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Cries:
        made = cls()
        made.n = state["n"]
        return made


def run(watch: Any, values: list[float]) -> list[Change]:
    return [c for at, x in enumerate(values) if (c := watch.update(at, x)) is not None]


def test_an_alarm_without_a_change_is_dropped_and_counted() -> None:
    watch = Confirmed(Cries(), patience=10)
    values = np.random.default_rng(1).normal(10, 1, 2000).tolist()
    assert run(watch, values) == []
    assert watch.dropped == 20 - 1  # The last one is still waiting.
    assert run(watch, values[:10]) == [] and watch.dropped == 20


def test_a_change_is_located_where_it_is_not_where_the_alarm_came() -> None:
    rng = np.random.default_rng(2)
    values = [*rng.normal(10, 1, 160).tolist(), *rng.normal(14, 1, 60).tolist()]
    (change,) = run(Confirmed(Cries()), values)
    assert abs(change.at_ns - 160) <= 1
    assert change.before == pytest.approx(10, abs=0.3)
    assert change.after == pytest.approx(14, abs=0.5)
    assert change.confidence is not None and change.confidence > 0.99


def test_a_change_is_told_once() -> None:
    rng = np.random.default_rng(3)
    values = [*rng.normal(10, 1, 160).tolist(), *rng.normal(14, 1, 440).tolist()]
    assert len(run(Confirmed(Cries()), values)) == 1


def test_another_trigger_needs_what_restores_it() -> None:
    watch = Confirmed(Cries())
    run(watch, [1.0, 2.0] * 70)
    with pytest.raises(PolicyError, match="Cries"):
        Confirmed.from_state(watch.state())
    again = Confirmed.from_state(watch.state(), restore=Cries.restored)
    assert again.state() == watch.state()


def test_it_finds_nothing_that_its_trigger_does_not() -> None:
    rng = np.random.default_rng(4)
    values = [*rng.normal(10, 1, 200).tolist(), *rng.normal(13, 1, 60).tolist()]
    assert run(Confirmed(Cusum(threshold=1e9)), values) == []
    assert len(run(Confirmed(Cusum()), values)) == 1
