"""The queue of tasks: against brute force, against Erlang, and what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.cosim_brute import brute_queue
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim import queue as module
from rotameter.forecasting.cosim.erlang import mean_wait_s
from rotameter.forecasting.cosim.queue import run_queue
from rotameter.forecasting.cosim.workers import WorkerPlan

# A coarse grid makes ties likely; the odd numbers make sums round.
TIME = st.one_of(st.integers(0, 20).map(float), st.floats(0, 20, allow_nan=False))
LENGTH = st.one_of(st.sampled_from([0.0, 0.1, 1.0, 2.0, 5.0]), st.floats(0, 9, allow_nan=False))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], list[float], WorkerPlan]:
    arrive = sorted(draw(st.lists(TIME, max_size=12)))
    service = draw(st.lists(LENGTH, min_size=len(arrive), max_size=len(arrive)))
    moments = sorted(draw(st.lists(TIME, max_size=5)))
    if draw(st.booleans()):
        moments = [at for at in moments for _ in range(2)]
    changes = [(at, draw(st.integers(0, 4))) for at in moments]
    startup = draw(st.sampled_from([0.0, 0.5, 3.0, 10.0]))
    return arrive, service, WorkerPlan(draw(st.integers(0, 4)), changes, startup_s=startup)


def brute(arrive, service, plan):
    return brute_queue(arrive, service, plan.workers, plan.changes, plan.startup_s)


@settings(max_examples=400, deadline=None)
@given(cases())
def test_equals_brute_force_exactly(case):
    arrive, service, plan = case
    starts, held = brute(arrive, service, plan)
    run = run_queue(arrive, service, plan)
    assert run.starts_s[0].tolist() == starts
    assert run.held_s[0] == pytest.approx(held)


@settings(max_examples=150, deadline=None)
@given(st.lists(cases(), min_size=1, max_size=4), cases())
def test_many_futures_at_once_equal_one_after_another(futures, planned):
    plan = planned[2]
    longest = max(len(arrive) for arrive, _, _ in futures)
    arrive = np.array([a + [math.inf] * (longest - len(a)) for a, _, _ in futures])
    service = np.array([s + [0.0] * (longest - len(s)) for _, s, _ in futures])
    arrive, service = arrive.reshape(len(futures), -1), service.reshape(len(futures), -1)
    lives = plan.lives()
    most = lives.ready + sum(comes for _, comes in lives.events)
    if most == 0:
        return
    together = module._together(arrive, service, lives, most)
    apart = module._one_by_one(arrive, service, lives, most)
    assert together[0].tolist() == apart[0].tolist()
    assert together[1].tolist() == pytest.approx(apart[1].tolist())


def test_the_faster_way_is_taken_and_gives_the_same():
    rng = np.random.default_rng(0)
    arrive = rng.exponential(1.0, (64, 50)).cumsum(axis=1)
    service = rng.exponential(3.0, (64, 50))
    plan = WorkerPlan(4, [(10.0, 8), (30.0, 2)], startup_s=2.0)
    run = run_queue(arrive, service, plan)
    for row in (0, 17, 63):
        starts, held = brute(arrive[row].tolist(), service[row].tolist(), plan)
        assert run.starts_s[row].tolist() == starts
        assert run.held_s[row] == pytest.approx(held)
        alone = run_queue(arrive[row], service[row], plan)
        assert alone.starts_s[0].tolist() == starts


@pytest.mark.parametrize(("load", "workers"), [(0.5, 4), (0.8, 8)])
def test_mean_wait_is_erlangs(load, workers):
    rng = np.random.default_rng(7)
    futures, tasks = 200, 11_000
    arrive = rng.exponential(1 / (load * workers), (futures, tasks)).cumsum(axis=1)
    service = rng.exponential(1.0, (futures, tasks))
    waits = run_queue(arrive, service, WorkerPlan(workers)).waits_s[:, 1_000:]
    assert waits.size >= 2_000_000
    assert waits.mean() == pytest.approx(mean_wait_s(load * workers, 1.0, workers), rel=0.03)


def test_erlang_c_of_known_queues():
    # M/M/1: rho / (mu - lambda); M/M/2: rho^2 / (mu (1 - rho^2)).
    assert mean_wait_s(0.8, 1.0, 1) == pytest.approx(0.8 / 0.2)
    assert mean_wait_s(1.6, 1.0, 2) == pytest.approx(0.64 / 0.36)
    assert mean_wait_s(0.0, 1.0, 3) == 0.0
    assert mean_wait_s(3.0, 1.0, 3) == math.inf


def test_a_start_takes_its_time_and_is_paid_for():
    run = run_queue([0.0, 0.0, 0.0], [10.0] * 3, WorkerPlan(1, [(0.0, 2)], startup_s=4.0))
    assert run.starts_s.tolist() == [[0.0, 4.0, 10.0]]
    assert run.held_s.tolist() == [40.0] and run.busy_s.tolist() == [30.0]
    assert run.until_s.tolist() == [20.0]
    assert run.waits_s.tolist() == [[0.0, 4.0, 10.0]]


def test_workers_end_their_task_before_they_leave():
    run = run_queue([0.0, 0.0, 5.0], [10.0, 4.0, 1.0], WorkerPlan(2, [(1.0, 1)]))
    # The one that ends at 4 leaves then; the other goes on.
    assert run.starts_s.tolist() == [[0.0, 0.0, 10.0]]
    assert run.held_s.tolist() == [11.0 + 4.0]


def test_one_that_is_still_starting_is_given_up_first():
    plan = WorkerPlan(1, [(0.0, 2), (3.0, 1)], startup_s=5.0)
    run = run_queue([0.0, 0.0], [10.0, 1.0], plan)
    assert run.starts_s.tolist() == [[0.0, 10.0]]
    assert run.held_s.tolist() == [11.0 + 3.0]


def test_changes_at_one_moment_happen_one_after_the_other():
    # The busy one is to leave, and a new one comes at once.
    run = run_queue([0.0, 6.0], [8.0, 1.0], WorkerPlan(1, [(5.0, 0), (5.0, 1)]))
    assert run.starts_s.tolist() == [[0.0, 6.0]] and run.held_s.tolist() == [8.0 + 3.0]


def test_no_workers_serve_nobody_and_no_tasks_cost_what_is_held():
    run = run_queue([1.0, 2.0], [1.0, 1.0], WorkerPlan(0))
    assert run.starts_s.tolist() == [[math.inf, math.inf]] and run.held_s.tolist() == [0.0]
    assert run.waits_s.tolist() == [[math.inf, math.inf]] and run.busy_s.tolist() == [0.0]
    empty = run_queue([], [], WorkerPlan(3), until_s=10.0)
    assert empty.starts_s.shape == (1, 0) and empty.held_s.tolist() == [30.0]
    never = run_queue([0.0, math.inf], [1.0, 1.0], WorkerPlan(1))
    assert math.isnan(never.waits_s[0, 1]) and never.until_s.tolist() == [1.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: run_queue([2.0, 1.0], [1.0, 1.0], WorkerPlan(1)),
        lambda: run_queue([math.nan], [1.0], WorkerPlan(1)),
        lambda: run_queue([0.0], [-1.0], WorkerPlan(1)),
        lambda: run_queue([0.0], [math.inf], WorkerPlan(1)),
        lambda: WorkerPlan(-1),
        lambda: WorkerPlan(1, [(2.0, 1), (1.0, 2)]),
        lambda: WorkerPlan(1, startup_s=-1.0),
        lambda: WorkerPlan(1, from_s=math.nan),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(call):
    with pytest.raises(PolicyError) as caught:
        call()
    assert caught.value.hint
