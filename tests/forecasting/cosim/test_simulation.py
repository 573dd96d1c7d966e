"""From a log to numbers: fidelity, what-ifs that are refused, intervals, the trace."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forecasting.cosim.logs import line, log, recorded, trace_of_log

from rotameter import api
from rotameter.errors import FidelityError, UnknownPlugin, UsageError
from rotameter.forecasting.cosim.fidelity import Fidelity, Limits, ks_distance
from rotameter.forecasting.cosim.jobs import jobs_of
from rotameter.forecasting.cosim.machine import Machine
from rotameter.forecasting.cosim.measures import measure
from rotameter.forecasting.cosim.policies.easy import Easy
from rotameter.forecasting.cosim.simulation import capacity_curve, score_of


def test_a_replay_under_the_policy_that_recorded_it_is_exact():
    trace = trace_of_log(recorded())
    done = api.simulate(trace, "easy")
    assert done.schedule.machine == Machine(cores=16) and not done.what_if
    assert done.fidelity.ks_distance == 0 and not done.fidelity.trouble
    assert done.fidelity.recorded == done.fidelity.simulated
    assert done.fidelity.covered_ratio == 1.0 and done.fidelity.jobs == 300
    waits = (
        trace.table("tasks")["started_ns"].to_numpy()
        - trace.table("tasks")["submitted_ns"].to_numpy()
    )
    assert done.schedule.waits_s.sum() == waits.sum() // 10**9


def test_a_what_if_of_a_true_replay_has_narrow_intervals():
    done = api.simulate(trace_of_log(recorded()), "easy", Machine(cores=32))
    assert done.what_if and done.recorded_cores == 16
    for name, pair in done.intervals.items():
        assert pair == pytest.approx((done.measures.to_dict()[name],) * 2)
    own = api.simulate(trace_of_log(recorded()), "easy")
    assert done.measures.wait_mean_s < own.measures.wait_mean_s
    assert done.score.score < own.score.score


def test_the_error_of_the_replay_is_carried_into_the_intervals():
    done = api.simulate(trace_of_log(recorded(factor=1.25)), "easy", Machine(cores=20))
    low, high = done.intervals["wait_mean_s"]
    value = done.measures.wait_mean_s
    assert low == pytest.approx(value / 1.25, rel=0.01)
    assert high == pytest.approx(value * 1.25, rel=0.01)


def test_a_what_if_is_refused_where_the_replay_is_too_far_off():
    trace = trace_of_log(recorded(factor=60.0))
    with pytest.raises(FidelityError, match="KS distance") as caught:
        api.simulate(trace, "easy", Machine(cores=20))
    assert "--processors 16" in caught.value.hint and caught.value.exit_code == 1
    forced = api.simulate(trace, "easy", Machine(cores=20), forced=True)
    assert any("beyond the limit" in note for note in forced.notes)
    strict = Limits(ks_distance=1.0, makespan_factor=1e9)
    assert api.simulate(trace, "easy", Machine(cores=20), limits=strict).what_if
    assert api.simulate(trace, "easy").fidelity.trouble  # on its own machine it is only said


def test_another_policy_is_no_reason_to_refuse():
    done = api.simulate(trace_of_log(recorded()), "fcfs", Machine(cores=20))
    assert done.policy == "fcfs" and done.fidelity.policy == "easy"
    assert done.fidelity.ks_distance == 0
    assert api.simulate(trace_of_log(recorded()), "fcfs").fidelity.policy == "fcfs"


def test_a_what_if_is_refused_where_too_few_rows_can_be_used():
    rows = recorded().decode().splitlines()
    rows += [line(1000 + k, k, -1, 1) for k in range(60)]
    trace = trace_of_log("\n".join([*rows, ""]).encode())
    with pytest.raises(FidelityError, match="of the rows can be simulated"):
        api.simulate(trace, "easy", Machine(cores=20))
    done = api.simulate(trace, "easy")
    assert done.fidelity.dropped == {"run time unknown or of decades": 60}
    assert any("60 rows of 360 cannot be used" in note for note in done.notes)


def test_a_log_that_does_not_name_its_machine_is_compared_with_the_one_given():
    rows = [line(k, k, 10, 1, wait=0) for k in range(1, 9)]
    trace = trace_of_log(log(rows))
    with pytest.raises(UsageError, match="how many processors"):
        api.simulate(trace, "easy")
    done = api.simulate(trace, "easy", Machine(cores=2))
    assert not done.what_if and done.fidelity.jobs == 8
    assert any("does not say on how many" in note for note in done.notes)


def test_a_log_without_starts_says_that_nothing_is_known():
    done = api.simulate(trace_of_log(log([line(1, 0, 10, 1)], MaxProcs=4)), "fcfs", Machine(8))
    assert done.what_if and done.fidelity.jobs == 0 and done.fidelity.ks_distance is None
    assert set(done.intervals.values()) == {None}
    assert any("no start times" in note for note in done.notes)


def test_policies_by_name_and_their_settings():
    trace = trace_of_log(recorded(60))
    for name in ("fcfs", "easy", "conservative", "priority", "fair_share"):
        assert len(api.simulate(trace, name).schedule.jobs) == 60
    assert api.simulate(trace, "priority", settings={"age_weight": 3.0}).policy == "priority"
    with pytest.raises(UnknownPlugin, match="esay"):
        api.simulate(trace, "esay")
    with pytest.raises(UsageError, match="colour"):
        api.simulate(trace, "priority", settings={"colour": 1.0})


def test_same_input_same_json():
    trace = trace_of_log(recorded(80))
    first = json.dumps(api.simulate(trace, "fair_share", by="user").to_dict(), allow_nan=False)
    assert first == json.dumps(api.simulate(trace, "fair_share", by="user").to_dict())


def test_classes_of_the_score():
    done = api.simulate(trace_of_log(recorded()), "easy", by="queue")
    assert {one["name"] for one in done.score.classes} == {"queue 0", "queue 1"}
    with pytest.raises(UsageError, match="colour"):
        score_of(done.schedule, by="colour")


def test_the_trace_of_a_schedule_is_one_like_any_other(tmp_path):
    data = log([line(1, 0, 90, 2, limit=60, status=1), line(2, 5, 30, 2, limit=60, status=0)])
    done = api.simulate(trace_of_log(data), "easy", Machine(cores=2))
    trace = done.trace
    assert trace.meta["origin"] == "simulated" and trace.meta["simulated"]["policy"] == "easy"
    first, second = trace.table("tasks").to_pylist()
    assert (first["started_ns"], first["ended_ns"], first["outcome"]) == (0, 60 * 10**9, "timeout")
    assert (second["submitted_ns"], second["started_ns"]) == (5 * 10**9, 60 * 10**9)
    assert second["outcome"] == "failed" and second["outcome_kind"] == "inferred"
    assert second["requested_cores"] == 2 and second["requested_wall_s"] == 60
    again = api.open(trace.save(tmp_path / "out.rmt"))
    assert again.table("tasks").to_pylist() == trace.table("tasks").to_pylist()
    # What was simulated is replayed exactly, as the killed job ran no longer than its limit.
    same = api.simulate(again, "easy")
    assert same.schedule.starts_s.tolist() == done.schedule.starts_s.tolist()
    assert same.fidelity.ks_distance == 0


def test_jobs_on_shared_nodes_name_their_nodes():
    data = log([line(1, 0, 90, 6), line(2, 0, 30, 2)])
    trace = api.simulate(trace_of_log(data), "easy", Machine(cores=4, nodes=2)).trace
    assert trace.table("tasks")["worker"].to_pylist() == ["node-0+node-1", "node-0"]


def test_measures_by_hand():
    done = api.simulate(
        trace_of_log(log([line(1, 0, 3600, 2), line(2, 0, 3600, 1)])),
        "fcfs",
        Machine(cores=2),
        price_core_h=0.5,
        wait_limit_s=60.0,
    )
    got = done.measures
    assert (got.wait_mean_s, got.wait_max_s, got.makespan_s) == (1800.0, 3600.0, 7200.0)
    assert (got.used_core_h, got.held_core_h, got.utilisation_ratio) == (3.0, 4.0, 0.75)
    assert (got.cost, got.late_ratio, got.slowdown_mean, got.killed) == (2.0, 0.5, 1.5, 0)


def test_short_jobs_do_not_blow_up_the_slowdown():
    done = api.simulate(
        trace_of_log(log([line(1, 0, 90, 1), line(2, 0, 1, 1)])), "fcfs", Machine(cores=1)
    )
    assert done.measures.slowdown_mean == pytest.approx((1 + 91 / 10) / 2)


def test_a_capacity_curve_falls():
    jobs, _ = jobs_of(trace_of_log(recorded()))
    curve = capacity_curve(jobs, Easy, [8, 16, 24, 32])
    scores = [point.score.score for point in curve]
    assert scores == sorted(scores, reverse=True) and [p.cores for p in curve] == [8, 16, 24, 32]
    assert curve[1].measures == measure(api.simulate(trace_of_log(recorded()), "easy").schedule)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=20),
    st.lists(st.integers(0, 9), min_size=1, max_size=20),
)
def test_ks_distance_is_a_distance(a, b):
    one, other = np.array(a, float), np.array(b, float)
    by_hand = max(abs((one <= x).mean() - (other <= x).mean()) for x in range(10))
    assert ks_distance(one, other) == pytest.approx(by_hand)
    assert ks_distance(one, one) == 0 and ks_distance(one, one + 100) == 1


def test_intervals_where_a_number_is_0_are_the_difference():
    fidelity = Fidelity(9, 1.0, {}, {"wait_p50_s": 300.0}, {"wait_p50_s": 0.0}, 0.1)
    assert fidelity.interval("wait_p50_s", 100.0) == (0.0, 400.0)
    assert fidelity.interval("wait_p50_s", None) is None
