"""Weights, levels that are kept, errors that are rolled: the parts of the mix."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.arrivals import daily

from rotameter.forecasting.arrivals.aggregate import Aggregate
from rotameter.forecasting.arrivals.engine import Origins
from rotameter.forecasting.arrivals.features import columns
from rotameter.forecasting.arrivals.least_squares import LeastSquares
from rotameter.forecasting.arrivals.levels import LEVELS, NORMAL, pinball
from rotameter.forecasting.arrivals.past import Past
from rotameter.forecasting.arrivals.residuals import Residuals
from rotameter.forecasting.arrivals.tracking import Tracking

ALL = np.ones(1, dtype=bool)


def test_weights_go_to_the_better_one_and_come_back() -> None:
    rng = np.random.default_rng(0)
    made = Aggregate(2, 1)
    good, bad = 100 + 10 * NORMAL, 160 + 10 * NORMAL
    for _ in range(300):
        grids = np.array([[good], [bad]])
        made.learn(grids, made.mix(grids), float(rng.normal(100, 10)), ALL)
    assert made.weights[0].min() > 0.8
    assert made.weights.sum(axis=0) == pytest.approx(1.0)
    for _ in range(400):
        grids = np.array([[good], [bad]])
        made.learn(grids, made.mix(grids), float(rng.normal(160, 10)), ALL)
    assert made.weights[1].mean() > 0.6


def test_a_combination_may_be_better_than_its_parts() -> None:
    """One is too low and one too high: halves of both are right."""
    rng = np.random.default_rng(1)
    made = Aggregate(2, 1, share=0.0)
    grids = np.array([[80 + 10 * NORMAL], [120 + 10 * NORMAL]])
    losses = np.zeros(3)
    for k in range(1500):
        x, mixed = float(rng.normal(100, 10)), made.mix(grids)
        if k > 500:
            losses += [pinball(one[0], x).mean() for one in (grids[0], grids[1], mixed)]
        made.learn(grids, mixed, x, ALL)
    assert losses[2] < 0.6 * losses[:2].min()


def test_weights_know_no_unit() -> None:
    rng = np.random.default_rng(2)
    one, other = Aggregate(3, 1), Aggregate(3, 1)
    for _ in range(100):
        grids = rng.uniform(5e5, 15e5, size=(3, 1, len(LEVELS)))
        x = float(rng.normal(1e6, 3e5))
        one.learn(grids, one.mix(grids), x, ALL)
        other.learn(64 * grids, other.mix(64 * grids), 64 * x, ALL)
    # Their logs are averaged: log(1 + 64 x) is 64 times log(1 + x) but for the one.
    assert one.weights == pytest.approx(other.weights, abs=1e-3)


def test_levels_are_moved_until_they_hold() -> None:
    rng = np.random.default_rng(3)
    made, narrow = Tracking(1), (100 + 10 * NORMAL)[None]
    inside, plain = [], []
    for k in range(6000):
        said, x = made.read(narrow), float(rng.normal(100, 14))
        if k > 4000:
            inside.append(said[0, 3] <= x <= said[0, -4])
            plain.append(narrow[0, 3] <= x <= narrow[0, -4])
        made.learn(said, x, ALL)
    assert np.mean(plain) < 0.68 and 0.74 < np.mean(inside) < 0.86


def test_levels_that_hold_are_left_alone() -> None:
    """Also those of whole counts, of which more lie at a quantile than the level says."""
    rng = np.random.default_rng(4)
    made, right = Tracking(1), np.zeros((1, len(LEVELS)))
    right[0, -3:] = 1.0
    for _ in range(4000):
        made.learn(made.read(right), float(rng.random() < 0.06), ALL)
    assert np.abs(made.moved).max() < 0.01


def test_rolling_quantiles_are_those_of_the_newest_errors() -> None:
    rng = np.random.default_rng(4)
    made = Residuals(1, 1, window=200)
    errors = rng.normal(size=1000)
    for error in errors:
        made.push(np.array([[error]]), ALL)
    whole = np.quantile(errors[-200:], LEVELS, method="hazen")
    newest = np.quantile(errors[-40:], LEVELS, method="hazen")
    # Taken anew at every eighth bin, a little belief in normal errors: near, not the same.
    assert np.abs(made.table[0, 0, 0] - (whole + newest) / 2)[2:-2].max() < 0.25
    for error in 7.0 * errors[:200]:
        made.push(np.array([[error]]), ALL)
    assert np.ptp(made.table[0, 0, 0]) > 5 * np.ptp(whole)
    few = Residuals(1, 1)
    assert few.table[0, 0, 0] == pytest.approx(1.2533 * NORMAL)


def test_what_was_said_is_found_by_the_bin_it_was_about() -> None:
    made = Origins(3, (1,))
    for origin in range(2, 9):
        made.say(origin, np.array([[origin * 10.0], [origin * 10.0 + 1], [origin * 10.0 + 2]]))
    said, valid = made.about(8)
    assert said[:, 0].tolist() == [80.0, 71.0, 62.0] and valid.all()
    assert made.about(9)[1].tolist() == [False, True, True]


def test_least_squares_are_the_normal_equations_with_weights() -> None:
    values = daily(500, seed=5)
    past = Past(24, 2)
    made = LeastSquares(24, 2, forget=0.99, every=1)
    rows, targets = [], []
    for k, x in enumerate(values):
        past.append(float(x))
        made.learn(past)
        if k:
            rows.append(past.tracks["log"].then[0].copy())
            targets.append(np.log1p(x))
    weight = 0.99 ** np.arange(len(rows))[::-1]
    x, z = np.array(rows), np.array(targets) - np.array(rows) @ made.first
    a = (x * weight[:, None]).T @ x + made.ridge * np.eye(x.shape[1])
    assert made.w[0] == pytest.approx(
        made.first + np.linalg.solve(a, (x * weight[:, None]).T @ z), abs=1e-6
    )


def test_a_series_that_stands_still_winds_nothing_up() -> None:
    past = Past(24, 3)
    made = LeastSquares(24, 3, forget=0.9)
    for _ in range(3000):
        past.append(0.0)
        made.learn(past)
    assert np.isfinite(made.w).all() and np.abs(made.a).max() < 100
    past.append(1000.0)
    made.learn(past)
    assert np.abs(made.points(past, 3)).max() < 10


def test_rebasing_moves_what_came_before() -> None:
    past = Past(4, 2)
    for x in (10.0, 20.0, 30.0, 40.0) * 30 + (20.0, 40.0):
        past.append(x)
    past.rebase(2.0, 2)
    assert past.y[past.end - 4 : past.end].tolist() == [60.0, 80.0, 20.0, 40.0]
    now = past.tracks["log"].now
    assert now[0, columns(4).index("lag_season")] == pytest.approx(np.log1p(60.0))
    assert past.tracks["log"].mean(1, past.end) == pytest.approx(
        np.log1p([60.0, 80.0, 20.0, 40.0]).mean()
    )
