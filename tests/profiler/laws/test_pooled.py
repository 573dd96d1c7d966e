"""Noise between runs, from many folds."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.profiler.laws.fit import best_candidate, fit
from rotameter.profiler.laws.pooled import RunNoise, pooled_noise, with_run_noise
from rotameter.profiler.laws.sample import Series, sample_of

SCALE = (2.0, 4.0, 8.0)


def folds(count, between, seed, single=0.05, n=20):
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        runs = tuple(
            k ** (number % 3)
            * (1 + between * rng.standard_normal())
            * (1 + single * rng.standard_normal(n))
            for k in SCALE
        )
        made.append(Series(f"{number}", "busy_s", SCALE, runs))
    return made


def found(series):
    return pooled_noise([one for one in map(best_candidate, series) if one is not None])


def test_instances_alone_show_none():
    assert all(found(folds(20, 0.0, seed)) is None for seed in range(10))


@pytest.mark.parametrize("single", [0.0, 0.05])
def test_its_size(single):
    noise = [found(folds(60, 0.06, seed, single)) for seed in range(5)]
    # The best of five laws takes a part of it.
    assert all(0.03 < np.sqrt(one.variance) < 0.07 for one in noise)


def test_too_few_folds_show_none():
    assert found(folds(1, 0.2, 1)) is None and pooled_noise([]) is None


def test_what_it_adds():
    sample = sample_of(folds(1, 0.0, 3)[0])
    more = with_run_noise(sample, RunNoise(0.01, 12.0))
    single = sample.squares / sample.df
    assert 1 / more.weight == pytest.approx(single / 20 + 0.01, rel=1e-6)
    assert 12 <= more.df < 14 and more.squares == more.df
    assert more.of_new_run(20) == pytest.approx(single / 20 + 0.01)
    assert sample.of_new_run(20) == pytest.approx(1 / 20)


def test_intervals_grow_with_it():
    series = folds(1, 0.0, 4)[0]
    narrow, wide = fit(series).predict(16), fit(series, RunNoise(0.0025, 30.0)).predict(16)
    assert wide.high / wide.low > 1.1 * narrow.high / narrow.low


def test_two_scales_say_nothing():
    assert best_candidate(Series("f", "busy_s", (1.0, 2.0), (np.ones(9), np.ones(9)))) is None
