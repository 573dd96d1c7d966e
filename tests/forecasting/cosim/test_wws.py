"""The wait score: its range, its order, its parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.errors import UsageError
from rotameter.forecasting.cosim.wws import Terms, wait_score

WAITS = st.lists(st.integers(0, 10**9), min_size=1, max_size=40)


@given(WAITS, st.data())
def test_it_lies_between_0_and_1_and_0_means_nobody_waits(waits, data):
    classes = data.draw(st.lists(st.sampled_from("abc"), min_size=len(waits), max_size=len(waits)))
    weights = data.draw(st.lists(st.integers(0, 9), min_size=len(waits), max_size=len(waits)))
    found = wait_score(waits, classes=classes, weights=weights)
    assert 0 <= found.score < 1
    assert sum(one["share"] for one in found.classes) == pytest.approx(1)
    assert sum(one["jobs"] for one in found.classes) == len(waits)
    assert wait_score([0] * len(waits), classes=classes, weights=weights).score == 0


@given(WAITS, st.data())
def test_it_never_falls_when_a_wait_grows(waits, data):
    at = data.draw(st.integers(0, len(waits) - 1))
    more = list(waits)
    more[at] += data.draw(st.integers(0, 10**6))
    assert wait_score(more).score >= wait_score(waits).score


@given(st.integers(40, 200), st.integers(0, 10**9))
def test_one_outlier_among_many_does_not_move_it_far(n, outlier):
    usual = [60.0] * n
    assert wait_score([*usual, float(outlier)]).score == pytest.approx(
        wait_score(usual).score, abs=0.02
    )


def test_at_the_reference_waits_it_is_one_half():
    terms = Terms(median_s=100.0, tail_s=400.0)
    waits = [100.0] * 90 + [400.0] * 10
    assert wait_score(waits, terms=terms).score == pytest.approx(0.5)


def test_classes_count_by_their_weights():
    found = wait_score([0, 900], classes=["a", "b"], weights=[3, 1])
    alone = wait_score([900]).score
    assert found.score == pytest.approx(alone / 4)
    assert wait_score([0, 900], classes=["a", "b"], weights=[0, 0]).score == pytest.approx(
        alone / 2
    )


def test_the_parameters_are_told():
    told = wait_score([1.0]).to_dict()["parameters"]
    assert told == {
        "median_s": 900.0, "tail_s": 14_400.0, "median_weight": 0.5, "median_q": 0.5,
        "tail_q": 0.95,
    }  # fmt: skip
    assert wait_score([]).to_dict()["score"] is None


@pytest.mark.parametrize(
    "terms",
    [{"median_s": 0.0}, {"tail_s": -1.0}, {"median_weight": 1.5}, {"median_q": 0.99}],
)
def test_parameters_that_cannot_be(terms):
    with pytest.raises(UsageError):
        Terms(**terms)
