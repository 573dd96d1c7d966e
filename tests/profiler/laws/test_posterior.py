"""Evidence and predictions, against sums and samples done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rotameter.profiler.laws.posterior import candidate, predictive, shares
from rotameter.profiler.laws.sample import Series, sample_of
from rotameter.profiler.laws.shapes import laws_for, log_shape

SCALE = np.array([1.0, 2.0, 4.0])
ENDS = np.array([0.05, 0.5, 0.95])


def sample(curve, n=20, noise=0.05, seed=1):
    rng = np.random.default_rng(seed)
    runs = tuple(curve(k) * (1 + noise * rng.standard_normal(n)) for k in SCALE)
    return sample_of(Series("f", "busy_s", tuple(SCALE), runs))


def law(kind):
    return next(one for one in laws_for(SCALE) if one.kind == kind)


@pytest.mark.parametrize("kind", ["power", "linear"])
@pytest.mark.parametrize("n", [2, 20])
def test_evidence_equals_a_plain_integral(kind, n):
    data = sample(lambda k: 1 + 2 * k, n=n)
    one = law(kind)
    grid = np.linspace(*one.limits, 400_001)
    grid = (grid[1:] + grid[:-1]) / 2
    curve = log_shape(one.kind, grid, data.scale, 2.0)
    share = data.weight / data.weight.sum()
    gap = data.log_mean - curve
    misfit = ((gap - (gap @ share)[:, None]) ** 2) @ data.weight
    order = (data.df + 3 - 1) / 2
    step = (one.limits[1] - one.limits[0]) / 400_000
    with np.errstate(divide="ignore"):
        terms = np.exp(one.log_prior(grid)) * (data.squares + misfit) ** -order * step
    made = candidate(one, data)
    if kind == "linear":  # without the extra mass on d·k
        made_log = np.logaddexp.reduce(made.log_weight[:-1]) - np.log(2 / 3)
    else:
        made_log = made.log_evidence
    assert made_log == pytest.approx(np.log(terms.sum()), abs=0.02)


def test_one_law_predicts_as_student_says():
    from scipy.stats import t

    data = sample(lambda k: 7.0, n=4)
    made = predictive([candidate(law("constant"), data)], data, 8.0, ENDS, instances=4)
    df = data.df + 2
    gap = data.log_mean - data.log_mean.mean()
    squares = data.squares + 4 * float((gap**2).sum())
    width = np.sqrt(squares / df * (1 / 12 + 1 / 4))
    assert made == pytest.approx(data.log_mean.mean() + width * t.ppf(ENDS, df), abs=1e-3)


def test_more_instances_ahead_make_it_narrower():
    data = sample(lambda k: 7 * k)
    laws = [candidate(one, data) for one in laws_for(SCALE)]
    widths = [
        float(np.diff(predictive(laws, data, 8.0, ENDS[[0, 2]], instances=n))[0])
        for n in (1, 10, None)
    ]
    assert widths[0] > widths[1] > widths[2] > 0


@pytest.mark.parametrize(
    ("kind", "curve"),
    [
        ("constant", lambda k: 9.0),
        ("inverse", lambda k: 9 / k),
        ("power", lambda k: 9 * k**1.6),
        ("power", lambda k: 9 * k**-0.5),
        ("linear", lambda k: 9 + 9 * k),
        ("klog1", lambda k: 9 * k * np.log1p(k)),
    ],
)
def test_the_true_law_has_the_most_evidence(kind, curve):
    data = sample(curve, n=200, noise=0.03)
    laws = [candidate(one, data) for one in laws_for(SCALE)]
    share = shares(laws)
    assert laws[int(np.argmax(share))].law.kind == kind and share.sum() == pytest.approx(1)


def test_a_small_constant_part_is_found():
    data = sample(lambda k: 1e-3 + k, n=8, noise=1e-7)
    made = candidate(law("linear"), data)
    assert not made.proportional and made.at(0.001) == pytest.approx(2e-3, rel=1e-2)


def test_no_possible_law_has_no_share():
    assert shares([]).tolist() == []
