"""Each forecaster: right where the answer is known, careful where nothing is."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.arrivals import QUANTILES, daily

from rotameter.errors import PolicyError
from rotameter.forecasting.arrivals.base import Arrivals
from rotameter.forecasting.arrivals.boosted import BoostedQuantiles
from rotameter.forecasting.arrivals.default import Default
from rotameter.forecasting.arrivals.ewma import EwmaNegativeBinomial, negative_binomial
from rotameter.forecasting.arrivals.last import LastValue
from rotameter.forecasting.arrivals.least_squares import RecursiveLeastSquares
from rotameter.forecasting.arrivals.levels import LEVELS, answer, weighted_loss
from rotameter.forecasting.arrivals.mix import ExpertMix
from rotameter.forecasting.arrivals.ridge import RidgeLog
from rotameter.forecasting.arrivals.rolling import origins, rolling
from rotameter.forecasting.arrivals.seasonal import SeasonalNaive

LIGHT: tuple[type[Arrivals], ...] = (
    Default, RecursiveLeastSquares, RidgeLog, EwmaNegativeBinomial, SeasonalNaive, LastValue
)  # fmt: skip
STEP_NS = 3_600_000_000_000


def scored(made: Any, values: np.ndarray, first: int, horizon: int = 6) -> tuple[float, float]:
    """Give the weighted loss and the coverage of 80 % over all origins from ``first``."""
    pairs = list(rolling(made, values, first, horizon, QUANTILES))
    grids = np.array([grid for _, grid in pairs])
    truth = np.array([values[at : at + horizon] for at, _ in pairs])
    inside = (truth >= grids[..., 1]) & (truth <= grids[..., -2])
    loss = weighted_loss(grids, truth, QUANTILES)
    assert loss is not None
    return loss, float(inside.mean())


@pytest.mark.parametrize("kind", LIGHT)
def test_only_what_came_before_an_origin_is_used(kind: type[Arrivals]) -> None:
    values = daily(300)
    other = values.copy()
    other[250:] = 10_000.0
    one = dict(rolling(kind(season=24), values, 230))
    two = dict(rolling(kind(season=24), other, 230))
    for origin in range(230, 251):
        assert np.array_equal(one[origin], two[origin]), origin
    assert any(not np.array_equal(one[at], two[at]) for at in range(252, 295))


def test_features_come_from_before_the_origin() -> None:
    """Each feature of the origin is the same whatever the bins from it on hold."""
    from rotameter.forecasting.arrivals.past import Past

    values = daily(400)
    for season in (0, 2, 24):
        kept = []
        for future in (1.0, 1e6):
            past = Past(season, 6, spaces=("log", "root"))
            for x in values[:300]:
                past.append(float(x))
            kept.append({space: track.now.copy() for space, track in past.tracks.items()})
            then = {space: track.now.copy() for space, track in past.tracks.items()}
            for _ in range(6):
                past.append(future)
            # What was known six bins ago about the newest bin is what was said then.
            for space, track in past.tracks.items():
                assert np.array_equal(track.then[5], then[space][5])
        for space in ("log", "root"):
            assert np.array_equal(kept[0][space], kept[1][space])


def test_seasonal_features_are_those_of_the_target() -> None:
    from rotameter.forecasting.arrivals.features import columns
    from rotameter.forecasting.arrivals.past import Past

    past = Past(4, 6)
    for k in range(60):
        past.append(float(k % 4))
    now, names = past.tracks["log"].now, columns(4)
    expected = np.log1p(np.arange(60, 66) % 4)
    for name in ("lag_season", "profile"):
        assert now[:, names.index(name)] == pytest.approx(expected)
    assert now[0, 1:4] == pytest.approx(np.log1p([3, 2, 1]))
    assert now[:, names.index("mean")] == pytest.approx(np.log1p([0, 1, 2, 3]).mean())
    around = np.log1p([2, 3, 0, 1, 2]).mean()  # Two bins to either side, a season before.
    assert now[0, names.index("around")] == pytest.approx(around)
    # Of a target a whole season ahead nothing after the last bin is taken.
    late = np.log1p([1, 2, 3, 3, 3]).mean()
    assert now[3, names.index("around")] == pytest.approx(late)


def test_running_sums_stay_the_means_over_a_long_series() -> None:
    from rotameter.forecasting.arrivals.past import Past

    past = Past(4, 3)
    values = daily(2000, seed=3)
    for x in values:
        past.append(float(x))
    assert past.count == 2000 and past.end <= 2 * past.keep
    track = past.tracks["log"]
    for which, window in enumerate((12, 4)):
        assert track.mean(which, past.end) == pytest.approx(np.log1p(values[-window:]).mean())


@pytest.mark.parametrize("kind", [Default, RecursiveLeastSquares, RidgeLog])
def test_a_season_is_learnt(kind: type[Arrivals]) -> None:
    values = daily(1200, seed=1)
    loss, cover = scored(kind(season=24), values, 900)
    naive, _ = scored(SeasonalNaive(season=24), values, 900)
    flat, _ = scored(LastValue(season=24), values, 900)
    assert loss < 0.85 * naive and loss < 0.85 * flat
    assert 0.74 <= cover <= 0.88


def test_the_default_is_near_the_best_part_where_a_level_hardly_moves() -> None:
    rng = np.random.default_rng(5)
    values = 200.0 + np.cumsum(rng.choice([0, 0, 0, 0, 1, -1], size=2500)).astype(float)
    mixed, _ = scored(Default(season=24), values, 1800)
    last, _ = scored(LastValue(season=24), values, 1800)
    assert mixed <= 1.1 * last


def test_zeros_and_then_a_burst_do_not_blow_up() -> None:
    values = np.concatenate([np.zeros(1500), np.random.default_rng(2).poisson(300, size=200)])
    for kind in LIGHT:
        made = kind(season=24)
        most = 0.0
        for _, grid in rolling(made, values, 1490):
            most = max(most, float(grid.max()))
        assert most < 10 * 400, kind
    mixed, _ = scored(Default(season=24), values, 1490)
    plain, _ = scored(LastValue(season=24), values, 1490)
    assert mixed < 1.4 * plain  # The level is new to all: it is learnt within some ten bins.


def test_only_zeros_give_next_to_nothing() -> None:
    made = Default(season=24)
    made.fit([0.0] * 500)
    got = made.predict(6, QUANTILES)
    assert got.max() < 0.5 and got[:, 5].max() < 0.05


def test_missing_bins_are_gone_through_and_the_season_goes_on() -> None:
    """A gap in the clock is the same as bins that are given as missing."""
    values = daily(600, seed=4)
    told, skipped = (Default(season=24, step_ns=STEP_NS) for _ in range(2))
    for k, x in enumerate(values):
        gone = 300 <= k < 330
        told.update(k * STEP_NS, math.nan if gone else float(x))
        if not gone:
            skipped.update(k * STEP_NS, float(x))
    assert np.array_equal(told.predict(6, QUANTILES), skipped.predict(6, QUANTILES))
    assert told.past.count == skipped.past.count == 600
    assert told.past.seen == 570


def test_a_jump_of_months_keeps_the_place_in_the_season() -> None:
    made = Default(season=24, step_ns=STEP_NS)
    values = daily(480, seed=6, level=100.0, phi=1.5)
    for k, x in enumerate(values):
        made.update(k * STEP_NS, float(x))
    made.update((480 + 24 * 365) * STEP_NS, 100.0)
    assert made.past.count == 481 + 24 * 365
    peak, trough = (made.predict(24, (0.5,))[at, 0] for at in (5, 17))
    assert peak > 2 * trough


def test_times_that_go_back_are_the_next_bin() -> None:
    made = LastValue(step_ns=STEP_NS)
    for at in (0, 1, 1, 0, 1):
        made.update(at * STEP_NS, 4.0)
    assert made.past.count == 5 and made.past.jumps == 2


@given(
    st.lists(
        st.one_of(
            st.integers(0, 30).map(float),
            st.floats(),
            st.sampled_from([0.0, math.nan, -1.0, 1e18, 1e308]),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 1, 2, 5]),
    st.sampled_from(LIGHT),
)
def test_any_series_gives_finite_ordered_quantiles(
    values: list[float], season: int, kind: type[Arrivals]
) -> None:
    made = kind(season=season, horizon=3)
    made.fit(values)
    got = made.predict(5, (0.001, 0.05, 0.5, 0.95, 0.999))
    assert got.shape == (5, 5)
    assert np.isfinite(got).all() and (got >= 0).all() and (np.diff(got, axis=1) >= 0).all()


@pytest.mark.parametrize("kind", LIGHT)
@pytest.mark.parametrize("at", [0, 3, 260, 700])
def test_state_goes_on_bit_for_bit(kind: type[Arrivals], at: int) -> None:
    values = daily(760, seed=7)
    values[100:110] = math.nan
    made = kind(season=24, horizon=4)
    made.fit(values[:at])
    stored = json.dumps(made.state())
    again = kind.from_state(json.loads(stored))
    assert json.dumps(again.state()) == stored
    for k, x in enumerate(values[at:], at):
        made.update(k, float(x))
        again.update(k, float(x))
    assert np.array_equal(made.predict(6, QUANTILES), again.predict(6, QUANTILES))
    assert json.dumps(made.state()) == json.dumps(again.state())


def test_settings_are_checked() -> None:
    for words in ({"season": -1}, {"horizon": 0}, {"season": 2.5}, {"step_ns": 0}):
        with pytest.raises(PolicyError):
            LastValue(**words)  # type: ignore[arg-type]
    for asked in ((0.0,), (1.0,), (math.nan,), (-0.1, 0.5)):
        with pytest.raises(PolicyError):
            LastValue().predict(1, asked)
    with pytest.raises(PolicyError):
        LastValue().predict(0, (0.5,))


def test_the_settings_of_a_subclass_are_kept() -> None:
    made = RecursiveLeastSquares(season=4, forget=0.9)
    assert RecursiveLeastSquares.from_state(made.state()).forget == 0.9


def test_negative_binomial_quantiles() -> None:
    rng = np.random.default_rng(8)
    for mean, variance in ((4.0, 4.0), (4.0, 20.0), (300.0, 2_000.0), (5e5, 4e9)):
        size = mean * mean / (variance - mean) if variance > mean else None
        if size is None:
            drawn = rng.poisson(mean, 200_000).astype(float)
        else:
            drawn = rng.negative_binomial(size, size / (size + mean), 200_000).astype(float)
        said, seen = negative_binomial(mean, variance), np.quantile(drawn, LEVELS)
        assert np.abs(said - seen).max() <= max(1.0, 0.03 * seen.max())
    assert not negative_binomial(0.0, 0.0).any()


def test_answers_are_in_order_whatever_the_grid() -> None:
    grid = np.array([[5.0, -1.0, *([3.0] * 13)]])
    got = answer(grid, (0.9, 0.1))
    assert got.shape == (1, 2) and got[0, 0] >= got[0, 1] >= 0


def test_origins_of_a_series() -> None:
    assert list(origins(10, 8, 3)) == [8]
    assert list(origins(10, 10, 3)) == [10]
    assert list(origins(0, None, 3)) == [0]
    with pytest.raises(PolicyError):
        origins(10, 11, 3)


def test_boosted_trees_learn_and_are_kept() -> None:
    values = daily(420, seed=9)
    made = BoostedQuantiles(season=24, horizon=2, trees=20)
    made.fit(values[:400])
    got = made.predict(2, QUANTILES)
    assert np.isfinite(got).all() and (np.diff(got, axis=1) >= 0).all()
    again = BoostedQuantiles.from_state(json.loads(json.dumps(made.state())))
    assert np.array_equal(got, again.predict(2, QUANTILES))


def test_the_default_is_a_mix() -> None:
    assert issubclass(Default, ExpertMix)
