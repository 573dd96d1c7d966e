"""The ladder is the cheapest of all sets of rungs (TS-A2)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rotameter.allocator.bucketing import exhaustive_tops, greedy_tops
from rotameter.allocator.ladder import Ladder, cheapest, cost_of, with_tail
from rotameter.allocator.sketch import Sketch


def cases(count: int):
    rng = np.random.default_rng(7)
    for _ in range(count):
        n = int(rng.integers(1, 13))
        v = np.unique(rng.choice([rng.integers(1, 50, n), rng.lognormal(3, 2, n)]).astype(float))
        w = rng.choice([0.0, 1.0, 3.5, 100.0], len(v)) + rng.random(len(v)) * rng.integers(0, 2)
        w[-1] += 0.1
        yield v.tolist(), w.tolist(), float(rng.choice([0.0, 0.3, 1.0]))


def test_equal_to_brute_force_over_all_subsets() -> None:
    for v, w, phi in cases(150):
        made = cheapest(v, w, phi)
        best = min(
            cost_of([*chosen, v[-1]], v, w, phi)
            for k in range(len(v))
            for chosen in combinations(v[:-1], k)
        )
        assert made.cost == pytest.approx(best, rel=1e-9)
        assert cost_of(made.rungs, v, w, phi) == pytest.approx(best, rel=1e-9)
        assert made.rungs[-1] == v[-1]


def test_no_other_deterministic_ladder_is_cheaper() -> None:
    for v, w, _ in cases(60):
        weights = [x + 1e-9 for x in w]
        made = cheapest(v, weights)
        for other in (greedy_tops, exhaustive_tops):
            tops = other(v, weights, deterministic=True).tolist()
            assert made.cost <= cost_of(tops, v, weights) * (1 + 1e-9)


def test_steps_of_a_ladder() -> None:
    made = Ladder((2.0, 8.0), 3.0)
    assert (made.first_from(1.0), made.first_from(8.0), made.first_from(9.0)) == (2.0, 8.0, None)
    assert (made.above(2.0), made.above(8.0)) == (8.0, None)


def test_what_was_not_seen_weighs_one_in_n_and_one() -> None:
    values, weights = with_tail([1.0, 2.0], [5.0, 5.0], 10, 2.0)
    assert values == [1.0, 2.0, 2.1, 2.5, 4.0]
    assert sum(weights) == pytest.approx(11.0)
    few = cheapest(*with_tail([1.0, 2.0], [5.0, 5.0], 2, 2.0))
    many = cheapest(*with_tail([1.0, 2.0], [5.0, 5.0], 2000, 2.0))
    assert few.cost > many.cost and 2.0 in many.rungs


def test_a_full_sketch_joins_what_costs_least_and_is_never_too_low() -> None:
    rng = np.random.default_rng(1)
    kept = Sketch(most=16)
    values = rng.lognormal(5, 1, 5000)
    for value in values:
        kept.add(float(value), 1.0)
    assert len(kept.values) == 16 and kept.values == sorted(kept.values)
    assert sum(kept.weights) == pytest.approx(5000)
    assert kept.values[-1] == values.max()
    held = np.cumsum(kept.weights)
    for value, mass in zip(kept.values, held, strict=True):
        assert mass <= (values <= value).sum() + 1e-6
    assert Sketch.from_state(kept.state()).state() == kept.state()
    exact = np.sort(values)
    true = cheapest(exact.tolist(), [1.0] * len(exact))
    assert cheapest(kept.values, kept.weights).cost <= 1.1 * true.cost
