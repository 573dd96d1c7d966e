"""The law of a series: chosen, doubted, written, predicted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rotameter.profiler.laws.fit import fit
from rotameter.profiler.laws.sample import Series

SCALE = (1.0, 2.0, 4.0)


def series(curve, n=16, noise=0.0, scale=SCALE, metric="bytes", seed=0) -> Series:
    rng = np.random.default_rng(seed)
    runs = tuple(curve(k) * (1 + noise * rng.standard_normal(n)) for k in scale)
    return Series("fold", metric, tuple(float(k) for k in scale), runs)


@pytest.mark.parametrize(
    ("curve", "formula"),
    [
        (lambda k: 1.2e9 + 0 * k, "bytes = 1.2 GB"),
        (lambda k: 1.2e9 * k**0.75, "bytes = 1.2 GB · k^0.75"),
        (lambda k: 1.2e9 * k, "bytes = 1.2 GB · k"),
        (lambda k: 1.2e9 * k + 5e9, "bytes = 5 GB + 1.2 GB · k"),
        (lambda k: 1.2e9 * k - 1e9, "bytes = 1.2 GB · k - 1 GB"),
        (lambda k: 1.2e9 / k, "bytes = 1.2 GB / k"),
        (lambda k: 1.2e9 * k * math.log1p(k), "bytes = 1.2 GB · k · log(1 + k)"),
    ],
)
def test_formula_of_exact_values(curve, formula):
    found = fit(series(curve))
    assert found.formula == formula and found.certain
    ahead = found.predict(8)
    assert ahead.value == pytest.approx(curve(8), rel=1e-6)
    assert ahead.low <= curve(8) * (1 + 1e-9) and ahead.high >= curve(8) * (1 - 1e-9)


def test_k_log_k_of_true_sizes():
    found = fit(series(lambda k: 3e6 * k * math.log(k), scale=(100, 300, 700), noise=0.02))
    assert found.law == "c*k*log(k)" and found.formula.endswith("· k · log k")


def test_large_scales_are_written_relative_to_the_least():
    found = fit(series(lambda k: 5e6 * (k / 3000) ** 0.5, scale=(3000, 6000, 9000)))
    assert found.formula == "bytes = 5 MB · (k/3,000)^0.5"


def test_scales_with_zero_at_one():
    found = fit(series(lambda k: 1e6 * k * math.log(k)))
    assert found.law == "c*k*log(k)" and found.predict(8).value == pytest.approx(8e6 * math.log(8))
    line = fit(series(lambda k: 1e6 * (k - 2), scale=(2, 4, 8)))
    assert line.law == "c+d*k" and line.predict(16).value == pytest.approx(14e6)


def test_a_prediction_of_nothing():
    found = fit(series(lambda k: 1e6 * k * math.log(k), scale=(1, 2, 4, 8), noise=0.05))
    none = found.predict(1)
    assert (none.value, none.low, none.high) == (0, 0, 0)


def test_extrapolation_is_said():
    found = fit(series(lambda k: 1e6 * k))
    assert not found.predict(3).extrapolated and found.predict(3).extrapolation_ratio == 1
    assert found.predict(12).extrapolation_ratio == 3
    assert found.predict(0.5).extrapolation_ratio == 2


def test_two_values_give_no_interval_and_say_what_they_cannot_tell():
    for n in (1, 3, 7):
        found = fit(series(lambda k: 1e6 * (3 + k), n=n, scale=(1, 8), noise=0.01))
        assert found.predict(16).low is None and found.predict(16).law_low is None
        assert found.alike, n
    same = fit(series(lambda k: 1e6, n=1, scale=(1, 2)))
    assert same.law == "c" and same.predict(4).low is None


def test_two_scales_with_many_instances_have_one():
    found = fit(series(lambda k: 1e6 * (3 + k), n=30, scale=(1, 8), noise=0.05))
    assert found.alike and found.predict(16).low < 19e6 < found.predict(16).high


def test_few_instances_take_the_simplest_within_the_spread():
    found = fit(series(lambda k: 1e6 * k**0.05, n=3, noise=0.1))
    assert found.law == "c"
    loud = fit(series(lambda k: 1e6 * k**1.3, n=1, noise=0.2, seed=3))
    assert loud.alike


def test_runs_that_stray_more_than_their_instances():
    rng = np.random.default_rng(8)
    runs = tuple(np.full(20, 1e6 * k * (1 + 0.05 * rng.standard_normal())) for k in SCALE)
    found = fit(Series("f", "busy_s", SCALE, runs))
    assert any("runs differ more" in note for note in found.notes)
    wide = found.predict(8)
    assert wide.high / wide.low > 1.02


def test_repeats_at_one_scale_are_runs():
    found = fit(series(lambda k: 1e6 * k**0.5, scale=(1, 1, 2, 2, 4, 4), noise=0.03))
    assert found.law == "c*k^a"


@pytest.mark.parametrize(
    ("runs", "law", "note"),
    [
        ([[], []], None, "no values"),
        ([[math.nan], [math.nan]], None, "no values"),
        ([[0.0], [0.0]], "c", "always 0"),
        ([[1.0], []], None, "one scale only"),
        ([[1.0], [0.0]], None, "no law fits"),
    ],
)
def test_what_cannot_be_told(runs, law, note):
    made = Series("f", "bytes", (1.0, 2.0), tuple(np.array(r, dtype=float) for r in runs))
    found = fit(made)
    assert found.law == law and note in found.notes[0]
    value = found.predict(4).value
    assert value == 0 if law else math.isnan(value)
    assert found.predict(4).low is None and found.formula


@pytest.mark.parametrize(("scale", "coverage"), [(0, 0.9), (-1, 0.9), (math.inf, 0.9), (2, 1.0)])
def test_impossible_questions(scale, coverage):
    with pytest.raises(ValueError, match="must be"):
        fit(series(lambda k: k)).predict(scale, coverage=coverage)


def test_the_same_input_gives_the_same_result():
    one, two = (fit(series(lambda k: 1e6 * k**0.7, noise=0.05)).predict(8) for _ in range(2))
    assert one == two
