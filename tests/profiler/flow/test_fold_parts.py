"""The parts that folding is made of: scales, colours, groups."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.profiler.flow._fold_groups import Groups
from rotameter.profiler.flow._fold_scale import split_scales
from rotameter.profiler.flow._fold_sets import colours, ranked


def test_scales_part_at_decades_only():
    zero = np.zeros(6, dtype=np.int64)
    values = np.array([1, 2, 3, 1e3, 2e3, 3e3])
    assert split_scales(zero, values, 0.1).tolist() == [0, 0, 0, 1, 1, 1]
    assert split_scales(zero, np.array([1.0, 2, 4, 8, 16, 32]), 0.1).tolist() == [0] * 6
    assert split_scales(zero, np.array([1.0, 20, 400, 8e3, 1e5, 2e6]), 0.1).tolist() == [0] * 6
    single = np.array([1.0, 1, 1, 1, 1, 500])
    assert split_scales(zero, single, 0.1).tolist() == [0] * 6
    assert split_scales(zero, single, 0.0).tolist() == [0, 0, 0, 0, 0, 1]
    assert split_scales(zero, np.where(values > 2000, np.nan, values), 0.0).tolist() == [0] * 6
    three = np.array([1.0, 1, 100, 100, 1e4, 1e4])
    assert split_scales(zero, three, 0.1).tolist() == [0, 0, 1, 1, 2, 2]


def test_colours_compare_sets_inside_seeds():
    seed = np.array([0, 0, 0, 1, 1])
    vertex, token = np.array([0, 0, 1, 1, 2, 3, 3]), np.array([4, 9, 9, 4, 4, 4, 9])
    assert colours(seed, vertex, token).tolist() == [0, 0, 1, 2, 3]
    assert ranked(np.zeros(0, dtype=np.int64)).tolist() == []


def test_groups_partition():
    rng = np.random.default_rng(1)
    of = rng.integers(0, 7, 200)
    values = np.where(rng.random(200) < 0.3, np.nan, rng.integers(0, 1000, 200))
    groups = Groups(of, 8)
    assert sorted(i for f in range(8) for i in groups.members(f)) == list(range(200))
    spread = groups.distribution(values)
    for at in range(7):
        known = values[(of == at) & ~np.isnan(values)]
        assert spread.total[at] == known.sum()
        expected = np.quantile(known, (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0))
        assert spread.quantiles[at] == pytest.approx(expected)
    assert np.isnan(spread.total[7])
    assert spread.n[7] == spread.unknown[7] == 0
