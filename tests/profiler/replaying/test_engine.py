"""The event loop on schedules that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rotameter.profiler.replaying.check import violations
from rotameter.profiler.replaying.engine import Loop, simulate
from rotameter.profiler.replaying.model import Policy, Worker, make_model
from rotameter.profiler.replaying.shared import Shared


def two(cores: float = 1.0) -> list[Worker]:
    return [Worker("w0", cores=cores), Worker("w1", cores=cores)]


def test_more_tasks_than_slots_run_in_waves() -> None:
    made = simulate(make_model([1.0] * 5, workers=two()))
    assert made.makespan_s == 3.0
    assert made.busy_s.tolist() == [3.0, 2.0]


def test_a_node_waits_for_all_its_inputs_and_its_delay() -> None:
    model = make_model([2.0, 1.0, 1.0], [(2, 0), (2, 1)], two(), parts_s={"transfer": [0, 0, 0.5]})
    made = simulate(model)
    assert made.ready_s[2] == 2.0
    assert made.start_s[2] == 2.5
    assert made.makespan_s == 3.5


def test_a_delay_holds_no_slot_but_overhead_does() -> None:
    late = make_model([1.0, 1.0], parts_s={"latency": [1.0, 0.0]})
    assert simulate(late).makespan_s == 2.0
    held = make_model([1.0, 1.0], parts_s={"overhead": [1.0, 0.0]})
    assert simulate(held).makespan_s == 3.0
    assert simulate(held).begin_s.tolist() == [1.0, 2.0]


def test_pinned_nodes_stay_and_others_go_where_a_slot_is() -> None:
    stay = make_model([1.0] * 4, workers=two(), home=[0] * 4, pinned=[True] * 4)
    assert simulate(stay).makespan_s == 4.0
    assert simulate(replace(stay, pinned=np.zeros(4, bool))).makespan_s == 2.0


def test_only_what_comes_before_it_keeps_a_node_from_its_data() -> None:
    """Node 2 waits 1 s for node 1 at home, where its input is; 3 to 5 come after it."""
    model = make_model(
        [1.0, 1.0, 0.1, 5.0, 5.0, 5.0],
        [(1, 0), (2, 0)],
        two(),
        home=[0] * 6,
        pinned=[True, True, False, True, True, True],
        release_s=[0.0, 0.0, 0.0, 0.5, 0.5, 0.5],
        bytes_={"output": [30.0, 0, 0, 0, 0, 0]},
    )
    made = simulate(replace(model, move_bps=10.0))
    assert made.worker[2] == 0
    assert made.start_s[2] == 2.0


def test_a_node_stays_at_home_if_its_slot_comes_free_at_once() -> None:
    model = make_model([1.0, 0.995, 1.0], workers=two(), home=[0, 1, 0])
    assert simulate(model).worker.tolist() == [0, 1, 0]
    assert simulate(make_model([1.0, 0.5, 1.0], workers=two(), home=[0, 1, 0])).worker[2] == 1


def test_moving_costs_the_fetching_of_inputs() -> None:
    model = make_model(
        [1.0, 5.0, 1.0], [(1, 0), (2, 0)], two(), home=[0, 0, 0], bytes_={"output": [30.0, 0, 0]}
    )
    made = simulate(replace(model, move_bps=10.0))
    assert made.worker.tolist() == [0, 0, 1]
    assert made.end_s[2] == 1.0 + 3.0 + 1.0


def test_priority_says_who_goes_first() -> None:
    model = make_model([1.0, 2.0, 3.0])
    made = simulate(model, policy=Policy(order=np.array([2.0, 1.0, 0.0])))
    assert made.start_s.tolist() == [5.0, 3.0, 0.0]
    with pytest.raises(ValueError, match="2 priorities for 3 nodes"):
        simulate(model, policy=Policy(order=np.zeros(2)))


def test_cores_and_memory_limit_and_too_large_a_wish_is_cut() -> None:
    wide = make_model([1.0, 1.0], workers=[Worker("w", cores=3)], cores=[2, 2])
    assert simulate(wide).makespan_s == 2.0
    room = [Worker("w", cores=4, memory_bytes=10.0)]
    full = make_model([1.0] * 3, workers=room, memory_bytes=[6.0, 6.0, 4.0])
    assert simulate(full).end_s.tolist() == [1.0, 2.0, 1.0]
    assert simulate(make_model([1.0], workers=room, cores=[9], memory_bytes=[99.0])).stuck == 0


def test_workers_join_and_leave() -> None:
    lives = [Worker("w0", until_s=0.5), Worker("w1", from_s=2.0)]
    made = simulate(make_model([1.0, 1.0], workers=lives))
    assert made.worker.tolist() == [0, 1]
    assert made.start_s.tolist() == [0.0, 2.0]


def test_where_all_workers_have_gone_they_are_taken_back() -> None:
    made = simulate(make_model([1.0, 1.0], workers=[Worker("w", until_s=0.5)]))
    assert made.stuck == 0
    assert made.makespan_s == 2.0


def test_a_slow_worker_takes_longer() -> None:
    slow = Worker("w", speed_ratio=0.5)
    assert simulate(make_model([1.0], workers=[slow])).makespan_s == 2.0
    same = replace(slow, was_ratio=0.5)
    assert simulate(make_model([1.0], workers=[same], home=[0])).makespan_s == 1.0


def test_two_transfers_share_a_link() -> None:
    model = make_model(
        [1.0, 1.0],
        workers=[Worker("w", cores=2)],
        bytes_={"received": [10.0, 20.0]},
        parts_s={"transfer": [99.0, 99.0]},
        link_bps=10.0,
    )
    assert simulate(model).start_s.tolist() == [2.0, 3.0]


def test_reading_and_writing_share_the_storage() -> None:
    model = make_model(
        [1.0, 1.0],
        workers=two(),
        bytes_={"read": [10.0, 10.0], "write": [10.0, 0.0]},
        storage_bps=10.0,
    )
    assert simulate(model).end_s.tolist() == [4.0, 3.0]


def test_a_circle_is_left_and_said() -> None:
    made = simulate(make_model([1.0, 1.0, 1.0], [(0, 1), (1, 0)]))
    assert made.stuck == 2
    assert np.isnan(made.end_s).tolist() == [True, True, False]


def test_gates_take_no_slot() -> None:
    model = make_model([3.0, 1.0, 1.0], [(2, 0)], cores=[0, 1, 1])
    made = simulate(model)
    assert made.start_s.tolist() == [0.0, 0.0, 3.0]
    assert made.worker[0] == -1


def test_places_by_bytes_evenly_and_by_a_callable() -> None:
    model = make_model(
        [1.0, 1.0, 1.0], [(1, 0), (2, 0)], two(), home=[0, 0, 0], bytes_={"output": [90.0, 0, 0]}
    )
    model = replace(model, move_bps=10.0)
    assert simulate(model, policy=Policy("bytes")).worker.tolist() == [0, 0, 0]
    assert simulate(model, policy=Policy("even")).worker.tolist() == [0, 0, 1]

    def last(node: int, loop: Loop) -> int:
        return len(loop.model.workers) - 1 if node else -1

    assert simulate(model, policy=Policy(last)).worker.tolist() == [0, 1, 1]


def test_the_check_finds_what_breaks_law_5() -> None:
    model = make_model([1.0, 1.0], [(1, 0)], [Worker("w", from_s=1.0)], release_s=[0, 1])
    made = simulate(model)
    assert violations(model, made) == []
    early = replace(made, start_s=np.zeros(2))
    found = " ".join(violations(model, early))
    for word in ("input", "release", "joined", "cores"):
        assert word in found
    assert "never ran" in violations(model, replace(made, end_s=np.array([np.nan, 3.0])))[0]
    assert "nowhere" in violations(model, replace(made, worker=np.array([-1, 0])))[-1]
    other = replace(
        model, pinned=np.ones(2, bool), home=np.zeros(2, np.int64), workers=tuple(two())
    )
    assert "pinned" in " ".join(violations(other, replace(made, worker=np.array([1, 1]))))


def test_a_shared_link_serves_a_late_flow_alike() -> None:
    link = Shared(10.0)
    link.add(0.0, 100.0, 7)
    link.add(5.0, 10.0, 3)
    assert link.next_s() == 7.0
    assert link.pop(7.0) == [3]
    assert link.next_s() == 11.0
    assert link.pop(11.0) == [7]
    assert link.next_s() == float("inf")
