"""Priorities and fair shares: what they order by, and how usage fades."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.batch import run_batch
from rotameter.forecasting.cosim.jobs import make_jobs
from rotameter.forecasting.cosim.machine import Machine
from rotameter.forecasting.cosim.policies.priority import FairShare, Priority
from rotameter.forecasting.cosim.usage import Usage


def starts(policy, arrive, run, cores, **columns):
    jobs = make_jobs(arrive, run, cores, **columns)
    return run_batch(jobs, Machine(cores=4), policy).starts_s.tolist()


def test_who_used_less_goes_first():
    # User 0 holds the machine first; then each has one job waiting, user 0's came first.
    arrive, run, cores, user = [0, 1, 2], [10, 10, 10], [4, 4, 4], [0, 0, 1]
    assert starts(FairShare(), arrive, run, cores, user=user) == [0, 20, 10]
    assert starts(FairShare(), arrive, run, cores, user=[0, 1, 1]) == [0, 10, 20]


def test_shares_are_what_users_are_entitled_to():
    arrive, run, cores = [0, 0, 1, 2], [10, 10, 10, 10], [2, 2, 4, 4]
    policy = FairShare(shares={0: 1.0, 1: 9.0})
    assert starts(policy, arrive, run, cores, user=[0, 1, 0, 1]) == [0, 0, 20, 10]
    policy = FairShare(shares={0: 9.0, 1: 1.0})
    assert starts(policy, arrive, run, cores, user=[0, 1, 0, 1]) == [0, 0, 10, 20]


def test_age_and_size():
    arrive, run, cores = [0, 1, 2], [10, 10, 10], [4, 2, 3]
    old = Priority(size_weight=0.0, fair_share_weight=0.0)
    assert starts(old, arrive, run, cores) == [0, 10, 20]
    wide = Priority(age_weight=0.0, fair_share_weight=0.0)
    assert starts(wide, arrive, run, cores) == [0, 20, 10]
    small = Priority(age_weight=0.0, size_weight=-1.0, fair_share_weight=0.0)
    assert starts(small, arrive, run, [4, 3, 2]) == [0, 20, 10]


def test_beyond_its_limit_age_no_longer_counts():
    policy = Priority(age_weight=1.0, size_weight=0.1, fair_share_weight=0.0, age_max_s=1.0)
    assert starts(policy, [0, 1, 2], [10, 10, 10], [4, 3, 4]) == [0, 20, 10]


@pytest.mark.parametrize("setting", ["age_max_s", "half_life_s"])
def test_settings_that_cannot_be(setting):
    with pytest.raises(PolicyError):
        Priority(**{setting: 0.0})


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 4)), max_size=6), st.floats(1, 100))
def test_usage_is_the_fading_integral(steps, half_life):
    usage = Usage(half_life)
    now, cores, total = 0.0, 0, 0.0
    for length, held in [*steps, (10.0, 0)]:
        usage.change(1, held - cores, now)
        cores = held
        # Midpoints of thin slices of this step, each fading until the end.
        total *= 0.5 ** (length / half_life)
        at = (np.arange(400) + 0.5) / 400 * length
        total += float((held * 0.5 ** ((length - at) / half_life)).sum() * length / 400)
        now += length
    assert usage.of(1, now) == pytest.approx(total, rel=1e-3, abs=1e-9)
    assert usage.total(now) == pytest.approx(total, rel=1e-3, abs=1e-9)
    assert usage.of(2, now) == 0.0


def test_what_runs_for_ever_is_worth_the_half_life_over_ln_2():
    usage = Usage(100.0)
    usage.change(1, 3, 0.0)
    assert usage.of(1, 1e6) == pytest.approx(3 * 100.0 / math.log(2))
