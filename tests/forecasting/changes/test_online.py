from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.errors import PolicyError
from rotameter.forecasting.changes import Adwin, Bayesian, Confirmed, Cusum, EDetector, default
from rotameter.testing import check_detector

Make = Callable[[], Any]

MAKERS: dict[str, Make] = {
    "cusum": Cusum,
    "e_detector": EDetector,
    "adwin": Adwin,
    "bayesian": Bayesian,
    "bayesian_values": lambda: Bayesian("values"),
    "confirmed": Confirmed,
    "confirmed_bayesian": lambda: Confirmed(Bayesian()),
}
# Each with the longest median delay of a level 1.5 times as high, for variance 1 and 3 times the
# mean; far above what the benchmarks find.
DELAYS = {"adwin": (60, 90)}

each = pytest.mark.parametrize("name", MAKERS)


def counts(seed: int, dispersion: float, *levels: tuple[float, int]) -> list[float]:
    rng = np.random.default_rng(seed)
    made: list[float] = []
    for level, n in levels:
        drawn = (
            rng.poisson(level, n)
            if dispersion == 1
            else rng.negative_binomial(level / (dispersion - 1), 1 / dispersion, n)
        )
        made += drawn.astype(float).tolist()
    return made


def alarms(watch: Any, values: list[float]) -> list[tuple[int, Any]]:
    found = ((at, watch.update(at, x)) for at, x in enumerate(values))
    return [(at, change) for at, change in found if change is not None]


@each
def test_kit(name: str) -> None:
    check_detector(MAKERS[name])


@each
@pytest.mark.parametrize("dispersion", [1, 3])
def test_few_false_alarms_and_a_short_delay(name: str, dispersion: int) -> None:
    found = alarms(MAKERS[name](), counts(dispersion, dispersion, (20, 20_000)))
    assert len(found) <= 10
    delays = []
    for seed in range(40):
        values = counts(seed, dispersion, (20, 250), (30, 100))
        late = [at for at, _ in alarms(MAKERS[name](), values) if at >= 250]
        delays.append(late[0] - 249 if late else math.inf)
    assert statistics.median(delays) <= DELAYS.get(name, (10, 24))[dispersion // 2]


@each
def test_a_change_is_located_and_its_levels_are_told(name: str) -> None:
    values = counts(5, 1, (20, 300), (60, 100))
    change = next(c for at, c in alarms(MAKERS[name](), values) if at >= 300)
    assert change.before == pytest.approx(20, abs=2.5)
    if name == "adwin":  # Its buckets hold several values.
        assert abs(change.at_ns - 300) <= 8
        return
    assert abs(change.at_ns - 300) <= 2
    assert change.after == pytest.approx(60, abs=12)


@each
def test_a_fall_is_found_too(name: str) -> None:
    values = counts(6, 3, (60, 300), (20, 100))
    assert any(300 <= at < 330 for at, _ in alarms(MAKERS[name](), values))


@pytest.mark.parametrize("name", [n for n in MAKERS if n not in ("bayesian", "confirmed_bayesian")])
def test_residuals_around_zero_work(name: str) -> None:
    rng = np.random.default_rng(8)
    values = [*rng.normal(0, 0.1, 300).tolist(), *rng.normal(0.4, 0.1, 80).tolist()]
    assert [at for at, _ in alarms(MAKERS[name](), values[:300])] == []
    assert any(300 <= at < 330 for at, _ in alarms(MAKERS[name](), values))


@each
def test_one_odd_value_is_no_change(name: str) -> None:
    taken = 0
    for seed in range(20):
        values = counts(seed, 1, (20, 300))
        values[250] = 1e6
        taken += any(250 <= at < 260 for at, _ in alarms(MAKERS[name](), values))
    assert taken <= 2  # Where the values before it were high by chance.


@each
def test_two_changes_soon_after_each_other(name: str) -> None:
    values = counts(10, 1, (20, 200), (60, 60), (20, 60))
    found = [at for at, _ in alarms(MAKERS[name](), values)]
    assert any(200 <= at < 240 for at in found) and any(260 <= at < 310 for at in found)


def test_values_that_follow_each_other_are_not_taken_for_changes() -> None:
    rng, x, values = np.random.default_rng(11), 0.0, []
    for noise in rng.normal(0, 1, 20_000).tolist():
        x = 0.5 * x + noise
        values.append(x)
    assert len(alarms(default(), values)) <= 20


@each
@settings(max_examples=25)
@given(
    values=st.lists(
        st.one_of(
            st.floats(),
            st.integers(-5, 60),
            st.sampled_from([0.0, 20.0, -1.0, math.nan, math.inf, 1e308, 5e-324, None, 10**400]),
        ),
        max_size=150,
    ),
    times=st.lists(st.integers(-(2**62), 2**62), max_size=150),
    cut=st.integers(0, 150),
)
def test_anything_is_survived_and_the_state_goes_on(
    name: str, values: list[Any], times: list[int], cut: int
) -> None:
    at = (times + [0] * len(values))[: len(values)]
    first = MAKERS[name]()
    other: Any = None
    for step, (at_ns, x) in enumerate(zip(at, values, strict=True)):
        if step == cut:
            other = type(first).from_state(json.loads(json.dumps(first.state(), allow_nan=False)))
        change = first.update(at_ns, x)
        if change is not None:
            assert change.at_ns in at[: step + 1]
            assert math.isfinite(change.before) and math.isfinite(change.after)
        if other is not None:
            assert other.update(at_ns, x) == change
    assert other is None or other.state() == first.state()


ODD = [math.nan, math.inf, -math.inf, 1e308, -1e150, 1e150, 5e-324, 0.0, -0.0, None, 10**400, "x"]
SCALES: list[Callable[[random.Random], float]] = [
    lambda draw: float(draw.randint(0, 3)),
    lambda draw: draw.gauss(0, 1) * 10 ** draw.uniform(-200, 140),
    lambda draw: 0.0,
    lambda draw: 1e149 * draw.random(),
    lambda draw: 1e-310 * draw.random(),
    lambda draw: 1e15 + draw.randint(0, 2),
    lambda draw: draw.lognormvariate(0, 3),
]


@each
@pytest.mark.parametrize("seed", range(4))
def test_scales_that_jump_by_hundreds_of_orders(name: str, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(15):
        watch, scale = MAKERS[name](), draw.choice(SCALES)
        for _ in range(draw.randint(1, 200)):
            if draw.random() < 0.02:
                scale = draw.choice(SCALES)
            x: Any = draw.choice(ODD) if draw.random() < 0.03 else scale(draw)
            change = watch.update(draw.randint(-5, 5), x)
            if change is not None:
                assert math.isfinite(change.before) and math.isfinite(change.after)
        kept = json.dumps(watch.state(), allow_nan=False)
        assert json.dumps(type(watch).from_state(json.loads(kept)).state()) == kept


@each
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    level=st.sampled_from([0.3, 3.0, 20.0, 400.0]),
    dispersion=st.sampled_from([1, 3]),
    factor=st.sampled_from([100.0, 2.0**-20, 1e6]),
)
def test_units_do_not_matter(
    name: str, seed: int, level: float, dispersion: int, factor: float
) -> None:
    values = counts(seed, dispersion, (level, 120), (2.5 * level, 60), (level, 60))
    one = alarms(MAKERS[name](), values)
    two = alarms(MAKERS[name](), [x * factor for x in values])
    assert [(at, c.at_ns) for at, c in one] == [(at, c.at_ns) for at, c in two]
    for (_, a), (_, b) in zip(one, two, strict=True):
        assert b.after == pytest.approx(a.after * factor)


@pytest.mark.parametrize("name", ["cusum", "e_detector", "adwin", "bayesian_values", "confirmed"])
def test_where_zero_lies_does_not_matter_either(name: str) -> None:
    values = counts(12, 1, (20, 200), (40, 60))
    one = [at for at, _ in alarms(MAKERS[name](), values)]
    assert one == [at for at, _ in alarms(MAKERS[name](), [x - 1024.0 for x in values])]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cusum(threshold=0),
        lambda: Cusum(shift=-1),
        lambda: EDetector(alpha=0),
        lambda: Adwin(delta=1),
        lambda: Bayesian("poisson"),  # type: ignore[arg-type]
        lambda: Bayesian(hazard=0),
        lambda: Confirmed(window=3),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Make) -> None:
    with pytest.raises(PolicyError):
        make()


class _Broken(Cusum):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told = 0


class _Deaf(_Broken):
    def update(self, at_ns: int, x: float) -> None:
        return None


class _Raises(_Broken):
    def update(self, at_ns: int, x: float) -> Any:
        if math.isnan(x):
            raise ValueError("planted")
        return super().update(at_ns, x)


class _Scaled(_Broken):
    def update(self, at_ns: int, x: float) -> Any:
        return super().update(at_ns, x if abs(x) > 1 else 0.0)


class _Forgets(_Broken):
    def state(self) -> dict[str, Any]:
        return {**super().state(), "base": Cusum().state()["base"]}


class _Wanders(_Broken):
    made = 0

    def __init__(self, *given: Any) -> None:
        type(self).made += 1
        super().__init__(1.2 + 0.5 * (self.made % 2), 8.0)


@pytest.mark.parametrize("broken", [_Deaf, _Raises, _Scaled, _Forgets, _Wanders])
def test_the_kit_can_fail(broken: Make) -> None:
    with pytest.raises(AssertionError):
        check_detector(broken)
