"""What a series says."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.profiler.laws.sample import Series, sample_of

NAMES = tuple(f"t{n}" for n in range(12))
BASE = np.geomspace(1e3, 1e6, 12)


def series(*runs, ids=(), metric="busy_s", scale=None) -> Series:
    scale = scale or tuple(float(2**n) for n in range(len(runs)))
    return Series("fold", metric, scale, tuple(np.asarray(r, dtype=float) for r in runs), ids)


def test_means_weights_and_noise_of_free_instances():
    rng = np.random.default_rng(3)
    made = sample_of(series(*(k * (1 + 0.1 * rng.standard_normal(500)) for k in (1, 2, 4))))
    assert np.exp(made.log_mean) == pytest.approx([1, 2, 4], rel=0.02)
    assert made.weight.tolist() == [500] * 3 and made.df == 3 * 499 and not made.paired
    assert np.sqrt(made.squares / made.df) == pytest.approx(0.1, rel=0.05)


def test_same_names_are_paired_in_any_order():
    rng = np.random.default_rng(4)
    order = [rng.permutation(12) for _ in range(3)]
    runs = [
        (k * BASE * (1 + 0.1 * rng.standard_normal(12)))[o]
        for k, o in zip((1, 2, 4), order, strict=True)
    ]
    ids = tuple(tuple(NAMES[i] for i in o) for o in order)
    made = sample_of(series(*runs, ids=ids))
    assert made.paired and made.df < 22  # few large instances carry the noise
    assert np.sqrt(made.squares / made.df / 12) < 0.1
    free = sample_of(series(*runs))
    assert free.squares / free.df > 10 * made.squares / made.df


def test_exact_growth_is_seen_without_names():
    assert sample_of(series(BASE, 2 * BASE[::-1])).paired


def test_chance_does_not_pair():
    rng = np.random.default_rng(5)
    for _ in range(300):
        runs = [np.exp(rng.standard_normal(6)) for _ in range(3)]
        assert not sample_of(series(*runs)).paired
    for n in (50, 3000, 20_000):
        assert not sample_of(series(*(rng.random(n) for _ in range(3)))).paired


@pytest.mark.parametrize(
    "ids",
    [
        (NAMES, tuple(f"u{n}" for n in range(12))),
        (("t",) * 12, ("t",) * 12),
        (NAMES, (*NAMES[:6], *"abcdef")),
    ],
)
def test_other_or_repeated_names_do_not_pair(ids):
    rng = np.random.default_rng(6)
    runs = [1 + rng.random(12) for _ in ids]
    assert not sample_of(series(*runs, ids=ids)).paired


def test_unknown_and_impossible_values_are_left_out():
    made = sample_of(series([1.0, np.nan, 3.0], [np.inf, -1.0, 4.0], [np.nan] * 3))
    assert made.weight.tolist() == [2, 1] and made.runs == 2 and made.least == 1
    assert np.exp(made.log_mean) == pytest.approx([2, 4])


def test_runs_of_nothing_but_zero_are_kept_apart():
    made = sample_of(series([0.0, 0.0], [2.0, 3.0], scale=(1.0, 2.0)))
    assert made.zeros == (1.0,) and made.scale.tolist() == [2.0]


def test_counts_know_their_rounding():
    made = sample_of(series([4.0], [8.0], metric="count"))
    assert 0 < made.squares / made.df < 0.01


def test_nothing():
    assert sample_of(series([], [])).runs == 0
