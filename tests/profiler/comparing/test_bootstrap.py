"""Intervals that hold what they say, and few changes called that are none."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.profiler.comparing.bootstrap import Ratio, called, ratio_of_means


def side(rng: np.random.Generator, runs: int, mean: float, between: float, n: int = 40):
    return [mean * np.exp(between * rng.normal()) * rng.lognormal(0.0, 0.2, n) for _ in range(runs)]


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("between", [0.0, 0.08])
def test_the_interval_covers_and_chance_is_not_called(runs: int, between: float) -> None:
    rng = np.random.default_rng(7)
    inside = false = 0
    tries = 100
    for number in range(tries):
        ratio = ratio_of_means(
            side(rng, runs, 1.0, between), side(rng, runs, 1.0, between), seed=(number,)
        )
        assert ratio is not None
        inside += ratio.low <= 1.0 <= ratio.high
        false += called([ratio])[0]
    assert inside >= 0.85 * tries
    assert false <= 0.1 * tries


def test_a_large_change_of_several_runs_is_called() -> None:
    rng = np.random.default_rng(3)
    ratio = ratio_of_means(side(rng, 3, 1.0, 0.03), side(rng, 3, 1.5, 0.03))
    assert called([ratio]) == [True]
    assert ratio is not None and ratio.low < 1.5 < ratio.high


def test_several_runs_may_tell_a_small_change() -> None:
    rng = np.random.default_rng(3)
    before = [rng.normal(1.0, 0.01, 50) for _ in range(5)]
    after = [rng.normal(1.05, 0.01, 50) for _ in range(5)]
    assert called([ratio_of_means(before, after)]) == [True]
    # The same numbers, one run a side: under 10 % nothing is called.
    assert called([ratio_of_means(before[:1], after[:1])]) == [False]


def test_one_run_on_one_side_varies_as_the_others_do() -> None:
    before = [np.full(9, x) for x in (1.0, 1.3, 0.8)]
    wide = ratio_of_means(before, [np.full(9, 1.0)])
    alone = ratio_of_means([before[0]], [np.full(9, 1.0)])
    assert wide is not None and alone is not None
    assert wide.runs_vary and not alone.runs_vary
    assert wide.high / wide.low > 1.3
    assert alone.high == pytest.approx(alone.low)


def test_one_task_is_not_taken_to_be_exact() -> None:
    small = ratio_of_means([np.array([1.0])], [np.array([1.15])])
    large = ratio_of_means([np.array([1.0])], [np.array([4.0])])
    assert called([small, large]) == [False, True]


def test_what_cannot_be_compared_is_none() -> None:
    assert ratio_of_means([], [np.ones(3)]) is None
    assert ratio_of_means([np.array([np.nan])], [np.ones(3)]) is None
    assert ratio_of_means([np.zeros(3)], [np.ones(3)]) is None


def test_of_many_ratios_few_are_chance() -> None:
    rng = np.random.default_rng(11)
    ratios = [Ratio(1.2, 1.01, 1.4, float(p), (3, 3), (9, 9)) for p in rng.uniform(0.0, 1.0, 200)]
    assert sum(called(ratios)) <= 2


def test_same_seed_same_numbers() -> None:
    data = [np.arange(1.0, 9.0)], [np.arange(2.0, 9.0)]
    assert ratio_of_means(*data, seed=(4,)) == ratio_of_means(*data, seed=(4,))
