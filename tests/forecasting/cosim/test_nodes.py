"""Several resources, in a pool and on nodes: shared and given out whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rotameter.errors import PolicyError
from rotameter.forecasting.cosim.batch import run_batch
from rotameter.forecasting.cosim.jobs import make_jobs
from rotameter.forecasting.cosim.machine import Machine, taken_by
from rotameter.forecasting.cosim.policies.conservative import Conservative
from rotameter.forecasting.cosim.policies.easy import Easy
from rotameter.forecasting.cosim.policies.fcfs import Fcfs
from rotameter.forecasting.cosim.policies.priority import Priority

GB = 10**9
POLICIES = (Fcfs, Easy, Conservative, Priority)


@st.composite
def clusters(draw: st.DrawFn):
    n = draw(st.integers(0, 12))

    def many(low, high):
        return draw(st.lists(st.integers(low, high), min_size=n, max_size=n))

    jobs = make_jobs(
        sorted(many(0, 12)),
        many(0, 9),
        many(1, 10),
        limit_s=many(1, 9),
        memory_bytes=[gb * GB for gb in many(0, 12)],
        gpus=many(0, 3),
        nodes=many(0, 3),
        exclusive=[one == 4 for one in many(0, 4)],
        user=many(0, 2),
    )
    nodes = draw(st.integers(1, 3))
    machine = Machine(
        cores=4,
        nodes=nodes,
        memory_bytes=draw(st.sampled_from([None, 6 * GB])),
        gpus=draw(st.sampled_from([None, 2])),
        exclusive=nodes > 1 and draw(st.booleans()),
    )
    return jobs, machine


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=100, deadline=None)
@given(clusters())
def test_no_node_ever_holds_more_than_it_has(policy, case):
    jobs, machine = case
    schedule = run_batch(jobs, machine, policy())
    again = run_batch(jobs, machine, policy())
    assert schedule.starts_s.tolist() == again.starts_s.tolist() and schedule.held == again.held
    kept = schedule.jobs
    assert len(kept) + schedule.too_large == len(jobs)
    taken = taken_by(kept, machine)
    assert taken.fits.all()
    for second in schedule.starts_s.tolist():
        used = np.zeros((taken.units, len(taken.unit)), np.int64)
        on = (schedule.starts_s <= second) & (second < schedule.ends_s)
        for job in np.flatnonzero(on).tolist():
            count, each = taken.need[job]
            places = schedule.held[job] if taken.units > 1 else (0,)
            assert len(set(places)) == len(places) == count
            for place in places:
                used[place] += each
        assert (used <= taken.unit).all()


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_whole_nodes_are_a_pool_of_nodes(case):
    jobs, machine = case
    whole = Machine(cores=4, nodes=5, memory_bytes=machine.memory_bytes, exclusive=True)
    count = np.maximum(np.maximum(jobs.nodes, 1), -(-jobs.cores // 4))
    if machine.memory_bytes is not None:
        count = np.maximum(count, -(-jobs.memory_bytes // machine.memory_bytes))
    same = make_jobs(jobs.arrive_s, jobs.run_s, count, limit_s=jobs.limit_s)
    got = run_batch(jobs, whole, Easy()).starts_s.tolist()
    assert got == run_batch(same, Machine(cores=5), Easy()).starts_s.tolist()


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_a_resource_that_is_never_short_changes_nothing(case):
    jobs, _ = case
    plain = run_batch(jobs, Machine(cores=12), Easy()).starts_s.tolist()
    ample = Machine(cores=12, memory_bytes=10**15, gpus=10**6)
    assert run_batch(jobs, ample, Easy()).starts_s.tolist() == plain


def test_each_resource_alone_can_hold_a_job_up():
    def starts(machine, **columns):
        jobs = make_jobs([0, 0], [5, 5], [1, 1], **columns)
        return run_batch(jobs, machine, Easy()).starts_s.tolist()

    assert starts(Machine(cores=1)) == [0, 5]
    assert starts(Machine(cores=9, memory_bytes=3), memory_bytes=[2, 2]) == [0, 5]
    assert starts(Machine(cores=9, gpus=1), gpus=[1, 1]) == [0, 5]
    assert starts(Machine(cores=9, gpus=2), gpus=[1, 1]) == [0, 0]
    assert starts(Machine(cores=4, nodes=2), nodes=[2, 2], exclusive=[True, True]) == [0, 5]
    assert starts(Machine(cores=4, nodes=2), nodes=[2, 2]) == [0, 0]


def test_sharing_nodes_shortens_waits():
    jobs = make_jobs(list(range(8)), [100] * 8, [2] * 8)
    whole = run_batch(jobs, Machine(cores=8, nodes=2, exclusive=True), Easy())
    shared = run_batch(jobs, Machine(cores=8, nodes=2), Easy())
    assert whole.waits_s.max() > 100 and shared.waits_s.max() == 0


def test_a_job_takes_the_fewest_nodes_in_equal_parts():
    jobs = make_jobs([0, 0, 0], [1, 1, 1], [9, 2, 2], memory_bytes=[0, 20, 0], nodes=[0, 0, 3])
    taken = taken_by(jobs, Machine(cores=4, nodes=3, memory_bytes=10))
    assert taken.need == [(3, (3, 0)), (2, (1, 10)), (3, (1, 0))]
    assert taken.share(0) == pytest.approx(9 / 12) and taken.share(1) == pytest.approx(20 / 30)


def test_jobs_go_to_the_fullest_node_that_holds_them():
    jobs = make_jobs([0, 1, 2], [100] * 3, [3, 1, 4])
    schedule = run_batch(jobs, Machine(cores=4, nodes=2), Fcfs())
    assert schedule.held == ((0,), (0,), (1,)) and schedule.starts_s.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "machine",
    [
        lambda: Machine(cores=0),
        lambda: Machine(cores=4, nodes=0),
        lambda: Machine(cores=4, memory_bytes=-1),
        lambda: Machine(cores=4, exclusive=True),
    ],
)
def test_machines_that_cannot_be(machine):
    with pytest.raises(PolicyError) as caught:
        machine()
    assert caught.value.hint
