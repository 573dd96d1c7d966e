"""The batch engine: the fast ways, the policies themselves, and brute force agree; its laws."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.cosim_brute import brute_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forecasting.cosim.batches import jobs_from, pools

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.batch import run_batch
from rotameter.forecasting.cosim.engine import run_policy
from rotameter.forecasting.cosim.kernels import compiled
from rotameter.forecasting.cosim.machine import Machine, taken_by
from rotameter.forecasting.cosim.policies.conservative import Conservative
from rotameter.forecasting.cosim.policies.easy import Easy
from rotameter.forecasting.cosim.policies.fcfs import Fcfs
from rotameter.forecasting.cosim.policies.priority import FairShare, Priority
from rotameter.values import Drain, Place, Scale

POLICIES = {"fcfs": Fcfs, "easy": Easy, "conservative": Conservative}
ALL = {**POLICIES, "priority": Priority, "fair_share": FairShare}


def by_deciding(jobs, machine, policy):
    return run_policy(jobs, taken_by(jobs, machine), policy).starts_s


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=150, deadline=None)
@given(pools())
def test_the_fast_way_the_policy_and_brute_force_agree(name, case):
    rows, capacity = case
    jobs, machine = jobs_from(rows), Machine(cores=capacity)
    held = [(arrive, min(run, limit), limit, size) for arrive, run, limit, size in rows]
    expected = brute_batch(held, capacity, name)
    assert by_deciding(jobs, machine, POLICIES[name]()) == expected
    assert run_batch(jobs, machine, POLICIES[name]()).starts_s.tolist() == expected


@settings(max_examples=200, deadline=None)
@given(pools(most=20))
def test_the_compiled_way_is_the_same_code_run_as_python(case):
    rows, capacity = case
    jobs = jobs_from(rows)
    columns = (jobs.arrive_s, jobs.held_s, jobs.limit_s, jobs.cores)
    expected = run_batch(jobs, Machine(cores=capacity), Easy()).starts_s
    assert compiled.easy_arrays(*columns, capacity).tolist() == expected.tolist()


def test_numba_gives_the_same_where_it_is_installed():
    rng = np.random.default_rng(1)
    jobs = _heavy(rng, 3_000)
    plain = run_batch(jobs, Machine(cores=16), Easy(), accelerate=False)
    if not compiled.available():
        with pytest.raises(PolicyError, match="numba"):
            run_batch(jobs, Machine(cores=16), Easy(), accelerate=True)
        return
    fast = run_batch(jobs, Machine(cores=16), Easy(), accelerate=True)
    assert fast.starts_s.tolist() == plain.starts_s.tolist()


def _heavy(rng, n, cores=16):
    rows = zip(
        np.sort(rng.integers(0, 20 * n, n)).tolist(),
        rng.integers(0, 200, n).tolist(),
        rng.integers(1, 300, n).tolist(),
        rng.integers(1, cores + 1, n).tolist(),
        strict=True,
    )
    return jobs_from(list(rows), user=rng.integers(0, 5, n))


@pytest.mark.parametrize("name", POLICIES)
def test_long_queues_agree_too(name):
    jobs, machine = _heavy(np.random.default_rng(3), 400), Machine(cores=16)
    fast = run_batch(jobs, machine, POLICIES[name]()).starts_s.tolist()
    assert by_deciding(jobs, machine, POLICIES[name]()) == fast


def busy_at(schedule, second):
    on = (schedule.starts_s <= second) & (second < schedule.ends_s)
    return int(schedule.jobs.cores[on].sum())


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=80, deadline=None)
@given(pools(most=14))
def test_laws_of_every_policy(name, case):
    rows, capacity = case
    jobs = jobs_from(rows, user=np.arange(len(rows)) % 3)
    schedule = run_batch(jobs, Machine(cores=capacity), ALL[name]())
    again = run_batch(jobs, Machine(cores=capacity), ALL[name]())
    assert schedule.starts_s.tolist() == again.starts_s.tolist()
    assert (schedule.starts_s >= jobs.arrive_s).all()
    assert (schedule.ends_s - schedule.starts_s == np.minimum(jobs.run_s, jobs.limit_s)).all()
    assert len(schedule.jobs) == len(rows)
    for second in schedule.starts_s.tolist():
        assert busy_at(schedule, second) <= capacity


@pytest.mark.parametrize("name", ["fcfs", "easy"])
@settings(max_examples=80, deadline=None)
@given(pools(most=10))
def test_work_is_conserved_the_first_waits_only_while_it_does_not_fit(name, case):
    rows, capacity = case
    rows = [(arrive, max(run, 1), limit, size) for arrive, run, limit, size in rows]
    jobs = jobs_from(rows)
    schedule = run_batch(jobs, Machine(cores=capacity), POLICIES[name]())
    starts = schedule.starts_s
    for second in range(int(schedule.ends_s.max()) if len(rows) else 0):
        waiting = np.flatnonzero((jobs.arrive_s <= second) & (starts > second))
        if len(waiting):
            assert capacity - busy_at(schedule, second) < jobs.cores[waiting[0]]


class _Promising(Easy):
    def __init__(self):
        self.promised = {}

    def reserve(self, state, room, placed, head):
        shadow, later = super().reserve(state, room, placed, head)
        self.promised[head] = min(shadow, self.promised.get(head, shadow))
        return shadow, later


@settings(max_examples=150, deadline=None)
@given(pools(most=14), st.booleans())
def test_easy_never_delays_the_first_beyond_its_reservation(case, on_nodes):
    rows, capacity = case
    jobs = jobs_from(rows)
    machine = Machine(cores=2, nodes=capacity) if on_nodes else Machine(cores=capacity)
    taken = taken_by(jobs, machine)
    policy = _Promising()
    starts = run_policy(jobs, taken, policy).starts_s
    for job, shadow in policy.promised.items():
        assert starts[job] <= shadow


class _Booking(Conservative):
    def __init__(self):
        super().__init__()
        self.booked = {}

    def _book(self, state, profile, job):
        super()._book(state, profile, job)
        self.booked[job] = self._reserved[state.ids[job]][0]


@settings(max_examples=150, deadline=None)
@given(pools(most=12), st.booleans())
def test_conservative_delays_none_beyond_its_reservation(case, on_nodes):
    rows, capacity = case
    jobs = jobs_from(rows)
    machine = Machine(cores=2, nodes=capacity) if on_nodes else Machine(cores=capacity)
    policy = _Booking()
    starts = run_policy(jobs, taken_by(jobs, machine), policy).starts_s
    assert len(policy.booked) == len(rows)
    for job, second in policy.booked.items():
        assert starts[job] <= second


class _Restored:
    """Is put away and taken out again, through text, before each decision."""

    needs = Conservative.needs
    wake_s = None

    def __init__(self):
        self.kept = json.dumps(Conservative().state())

    def decide(self, state):
        policy = Conservative.from_state(json.loads(self.kept))
        actions = policy.decide(state)
        self.kept, self.wake_s = json.dumps(policy.state()), policy.wake_s
        return actions


def test_a_policy_put_away_and_taken_out_decides_the_same():
    jobs, machine = _heavy(np.random.default_rng(5), 150), Machine(cores=4, nodes=4)
    assert by_deciding(jobs, machine, _Restored()) == by_deciding(jobs, machine, Conservative())


def test_backfilling_uses_only_what_the_first_leaves():
    # Two run until 10; the first of the queue needs all four then. A job of 8 s may start at 1,
    # one of 10 s may not; with one core left over at 10 it may.
    assert _starts([(0, 10, 10, 2), (1, 5, 5, 4), (1, 8, 8, 2), (1, 10, 10, 2)], 4) == [
        0,
        10,
        1,
        15,
    ]
    assert _starts([(0, 10, 10, 2), (1, 5, 5, 3), (1, 20, 20, 1)], 4) == [0, 10, 1]
    # A job that ends sooner than its limit lets the first start sooner.
    assert _starts([(0, 3, 10, 2), (1, 5, 5, 4)], 4) == [0, 3]


def _starts(rows, capacity):
    return run_batch(jobs_from(rows), Machine(cores=capacity), Easy()).starts_s.tolist()


def test_jobs_are_killed_at_their_limit():
    schedule = run_batch(jobs_from([(0, 50, 20, 1), (0, 5, 20, 1)]), Machine(cores=1), Fcfs())
    assert schedule.killed.tolist() == [True, False]
    assert schedule.ends_s.tolist() == [20, 25]


def test_what_is_larger_than_the_machine_is_left_out_and_counted():
    schedule = run_batch(jobs_from([(0, 5, 5, 9), (0, 5, 5, 1)]), Machine(cores=4), Easy())
    assert schedule.too_large == 1 and schedule.jobs.ids == ("2",)


@pytest.mark.parametrize("name", ALL)
def test_nothing_to_do(name):
    schedule = run_batch(jobs_from([]), Machine(cores=4), ALL[name]())
    assert schedule.starts_s.tolist() == [] and schedule.waits_s.tolist() == []


class _Foreign:
    needs = frozenset({Scale, Drain})

    def decide(self, state):
        return []


class _Lazy:
    needs = frozenset({Place})

    def decide(self, state):
        return []


class _Greedy:
    needs = frozenset({Place})

    def decide(self, state):
        return [Place(state.ids[job], "pool") for job in state.waiting]


class _Twice:
    needs = frozenset({Place})

    def decide(self, state):
        return [Place(state.ids[state.waiting[0]], "pool")] * 2


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (_Foreign, "wants Drain, Scale"),
        (_Lazy, "leaves 2 jobs waiting"),
        (_Greedy, "does not fit"),
        (_Twice, "no such job waits"),
    ],
)
def test_a_policy_that_does_what_cannot_be_is_stopped(policy, words):
    rows = [(0, 5, 5, 3), (0, 5, 5, 3)]
    with pytest.raises(PolicyError, match=words) as caught:
        run_batch(jobs_from(rows), Machine(cores=4), policy())
    assert caught.value.hint


def test_a_subclass_decides_for_itself():
    class Reversed(Easy):
        def order(self, state):
            return state.waiting[::-1]

    rows = [(0, 5, 5, 4), (1, 5, 5, 4), (2, 5, 5, 4)]
    schedule = run_batch(jobs_from(rows), Machine(cores=4), Reversed())
    assert schedule.starts_s.tolist() == [0, 10, 5]
