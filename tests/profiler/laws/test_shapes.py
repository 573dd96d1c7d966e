"""Shapes of the laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rotameter.profiler.laws.shapes import laws_for, log_shape

K0 = 3.0
KINDS = {"constant": 0.0, "inverse": 0.0, "klog": 0.0, "klog1": 0.0, "power": 1.7, "linear": 0.4}


@pytest.mark.parametrize(("kind", "unknown"), KINDS.items())
def test_every_curve_is_one_at_the_middle(kind, unknown):
    assert log_shape(kind, np.array([unknown]), np.array([K0]), K0)[0, 0] == pytest.approx(0)


@pytest.mark.parametrize(
    ("kind", "unknown", "curve"),
    [
        ("constant", 0.0, lambda k: 5.0),
        ("inverse", 0.0, lambda k: 5 / k),
        ("klog", 0.0, lambda k: 5 * k * math.log(k)),
        ("klog1", 0.0, lambda k: 5 * k * math.log1p(k)),
        ("power", -0.3, lambda k: 5 * k**-0.3),
        ("linear", 3 * 2 / (1 + 3 * 2), lambda k: 1 + 2 * k),
    ],
)
def test_curves_grow_as_their_formula(kind, unknown, curve):
    scale = np.array([2.0, 7.0, 40.0])
    made = np.exp(log_shape(kind, np.array([unknown]), scale, K0)[0])
    assert made == pytest.approx([curve(k) / curve(K0) for k in scale])


def test_k_log_k_is_not_meant_at_one():
    assert "c*k*log(k)" in [law.name for law in laws_for(np.array([2.0, 4.0]))]
    assert "c*k*log(1+k)" in [law.name for law in laws_for(np.array([1.0, 2.0]))]


def test_no_line_is_below_zero_where_runs_were():
    scale = np.array([1.0, 2.0, 4.0])
    line = next(law for law in laws_for(scale) if law.kind == "linear")
    edge = np.array([line.limits[1] * (1 - 1e-9)])
    assert np.isfinite(log_shape("linear", edge, scale, 2.0)).all()
    assert not np.isfinite(log_shape("linear", edge * 1.01, scale, 2.0)).all()


@pytest.mark.parametrize("name", ["c*k^a", "c+d*k"])
def test_priors_are_densities(name):
    law = next(law for law in laws_for(np.array([1.0, 2.0, 4.0])) if law.name == name)
    grid = np.linspace(*law.limits, 200_001)
    middle = (grid[1:] + grid[:-1]) / 2
    mass = float((np.exp(law.log_prior(middle)) * np.diff(grid)).sum())
    assert mass == pytest.approx(1, abs=1e-3)
