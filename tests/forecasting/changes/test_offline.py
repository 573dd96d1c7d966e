from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.errors import PolicyError
from rotameter.forecasting.changes.offline import METHODS, best_split, segment


def steps(seed: int, *levels: tuple[float, int]) -> list[float]:
    rng = np.random.default_rng(seed)
    return [x for level, n in levels for x in rng.normal(level, 1.0, n).tolist()]


@pytest.mark.parametrize("method", METHODS)
def test_steps_are_found_where_they_are(method: str) -> None:
    values = steps(1, (0, 80), (8, 60), (2, 100))
    found = segment(values, method=method)  # type: ignore[arg-type]
    assert len(found) == 2
    assert abs(found[0] - 80) <= 1 and abs(found[1] - 140) <= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [100.0, 1e-6, -1.0])
def test_units_do_not_matter(method: str, factor: float) -> None:
    values = np.array(steps(2, (0, 60), (6, 60)))
    assert segment(values, method=method) == segment(values * factor + 7, method=method)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_unknown_values_are_left_out_and_places_stay_those_of_the_series(method: str) -> None:
    values = steps(3, (0, 80), (8, 80))
    values[10:20] = [math.nan] * 10
    (found,) = segment(values, method=method)  # type: ignore[arg-type]
    assert abs(found - 80) <= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [3.0] * 50, [0.0] * 50, [math.nan] * 9])
def test_nothing_to_find_is_no_error(method: str, values: list[float]) -> None:
    assert segment(values, method=method) == []  # type: ignore[arg-type]
    assert best_split(values) is None


def test_words_that_are_not_known_are_refused() -> None:
    with pytest.raises(PolicyError, match="unknown method"):
        segment([1.0], method="psychic")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="positive"):
        segment([1.0], penalty=-1)


@given(st.lists(st.floats(), max_size=60))
def test_any_values_give_places_inside_or_nothing(values: list[float]) -> None:
    for method in METHODS:
        found = segment(values, method=method)
        assert found == sorted(set(found))
        assert all(0 < at < len(values) for at in found)
    split = best_split(values)
    assert split is None or 0 < split[0] < len(values)


def test_a_split_is_rare_where_nothing_changes_and_sure_where_it_does() -> None:
    rng = np.random.default_rng(4)
    chance = sum(best_split(rng.normal(0, 1, 200)) is not None for _ in range(300))
    assert chance <= 6
    found = [best_split(steps(seed, (0, 150), (2, 50))) for seed in range(50)]
    assert sum(one is not None and abs(one[0] - 150) <= 3 for one in found) >= 45
