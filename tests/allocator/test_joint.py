"""One ladder for several resources: rungs that are real, retries that raise what goes with it."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.allocator.test_several import both, work

from rotameter.allocator.baselines import make_allocator
from rotameter.allocator.joint import Joint
from rotameter.allocator.needs import Record, Task, View
from rotameter.allocator.online import Nodes, concurrent, sequential
from rotameter.allocator.resources import DISK
from rotameter.values import Allocation, Hold

GB = 1e9
CAPS = {"memory_bytes": 64 * GB, "disk_bytes": 128 * GB}
MOST = tuple(CAPS.values())


def done(task: str, memory: float, disk: float, wall: float = 10.0) -> Record:
    used = {"memory_bytes": memory * GB, "disk_bytes": disk * GB}
    return Record(task, "g", "ok", used, wall_s=wall)


def taught(*needs: tuple[float, float], **more: Any) -> Joint:
    made = Joint(CAPS, resources=tuple(CAPS), **more)
    for k, (memory, disk) in enumerate(needs):
        made.observe(done(f"before-{k}", memory, disk))
    return made


def amounts(made: Any) -> tuple[float, float]:
    assert isinstance(made, Allocation) and made.memory_bytes and made.disk_bytes
    return made.memory_bytes / GB, made.disk_bytes / GB


def exceeded(allocator: Joint, task: Task, had: tuple[float, float], *names: str) -> Allocation:
    granted = {"memory_bytes": had[0] * GB, "disk_bytes": had[1] * GB}
    record = Record(task.task_id, "g", "oom", granted=granted, exceeded=frozenset(names))
    return allocator.exceeded(task, record)


def test_the_retry_raises_what_goes_with_it() -> None:
    """Small tasks use 1 GB and 2 GB, large ones 20 GB and 40 GB: never 20 GB and 2 GB."""
    allocator = taught(*[(1.0, 2.0)] * 40, (20.0, 40.0), (20.0, 40.0))
    task = Task("a", "g")
    first = amounts(allocator.request(task))
    assert first == pytest.approx((1.01, 2.02))
    again = amounts(exceeded(allocator, task, first, "memory_bytes"))
    assert 20.2 <= again[0] <= 21.3 and again[1] == pytest.approx(2 * again[0])
    alone = make_allocator("default", CAPS)
    for k in range(42):
        alone.observe(done(str(k), *((1.0, 2.0) if k < 40 else (20.0, 40.0))))
    alone.request(task)
    assert exceeded(alone, task, first, "memory_bytes").disk_bytes == first[1] * GB  # type: ignore[arg-type]


def test_a_failure_is_paid_in_all_that_is_held() -> None:
    """Where disk is large either way, a low rung of memory saves little and may cost it again."""
    needs = [(1.0, 50.0), (3.0, 50.0)] * 20
    assert amounts(taught(*needs).request(Task("a", "g"))) == pytest.approx((3.03, 50.5))
    split = make_allocator("joint", {"memory_bytes": 64 * GB})
    for k, (memory, _) in enumerate([(1.0, 0.0)] * 36 + [(30.0, 0.0)] * 4):
        split.observe(Record(str(k), "g", "ok", {"memory_bytes": memory * GB}, wall_s=10.0))
    assert split.request(Task("a", "g")).memory_bytes < 2 * GB


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 63), st.floats(0, 127), st.floats(0.1, 1e4)),
        min_size=1,
        max_size=50,
    ),
    st.sampled_from(["memory_bytes", "disk_bytes"]),
)
def test_a_retry_has_more_of_what_was_exceeded_and_less_of_nothing(
    needs: list[tuple[float, float, float]], name: str
) -> None:
    allocator = Joint(CAPS, resources=tuple(CAPS), scouts=0)
    for k, (memory, disk, wall) in enumerate(needs):
        allocator.observe(done(f"before-{k}", memory, disk, wall))
    task = Task("a", "g")
    had = amounts(allocator.request(task))
    for _ in range(20):
        place = list(CAPS).index(name)
        if had[place] >= MOST[place] / GB:
            break
        again = amounts(exceeded(allocator, task, had, name))
        assert again[place] > had[place]
        assert all(after >= before for after, before in zip(again, had, strict=True))
        assert all(after <= most / GB for after, most in zip(again, MOST, strict=True))
        had = again
    else:
        pytest.fail("it does not come to an end")


def test_next_to_nothing_is_not_doubled_for_ever() -> None:
    allocator = taught(*[(1.0, 2e-300)] * 9)
    had = amounts(allocator.request(Task("a", "g")))
    for _ in range(12):
        had = amounts(exceeded(allocator, Task("a", "g"), had, "disk_bytes"))
        if had[1] >= MOST[1] / GB:
            break
    assert had[1] >= MOST[1] / GB


def test_while_nothing_larger_is_known_the_next_first_request_is_above_a_failure() -> None:
    allocator = taught(*[(1.0, 2.0)] * 9)
    exceeded(allocator, Task("a", "g"), (8.0, 2.02), "memory_bytes")
    memory, disk = amounts(allocator.request(Task("b", "g")))
    assert memory > 8.0 and 2.0 < disk < 2.2
    allocator.observe(done("a", 9.0, 2.0))
    assert amounts(allocator.request(Task("c", "g")))[0] < 9.5


def test_unknown_groups_are_scouted_and_the_user_decides() -> None:
    allocator = Joint(CAPS, resources=tuple(CAPS))
    assert not isinstance(allocator.request(Task("a", "g")), Hold)
    assert not isinstance(allocator.request(Task("b", "g")), Hold)
    assert isinstance(allocator.request(Task("c", "g")), Hold)
    allocator = taught(*[(1.0, 2.0)] * 9)
    memory, disk = amounts(allocator.request(Task("a", "g", asked={"disk_bytes": 7 * GB})))
    assert 1.0 < memory < 1.1 and disk == 7.0
    share = View(share={"memory_bytes": 4 * GB})
    memory, disk = amounts(allocator.request(Task("b", "g"), share))
    assert memory == 4.0 and 2.0 < disk < 2.2


def test_what_nobody_uses_is_given_all_the_same() -> None:
    memory, disk = amounts(taught(*[(1.0, 0.0)] * 9).request(Task("a", "g")))
    assert 1.0 < memory < 1.1 and disk > 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, None, True, "2 GB"])
def test_uses_that_are_none_teach_nothing(bad: Any) -> None:
    allocator = taught(*[(1.0, 2.0)] * 9)
    before = amounts(allocator.request(Task("a", "g")))
    used = {"memory_bytes": 50 * GB, "disk_bytes": bad}
    allocator.observe(Record("x", "g", "ok", used, wall_s=5.0))
    assert amounts(allocator.request(Task("b", "g"))) == before


def test_it_goes_on_where_it_was() -> None:
    rng = np.random.default_rng(2)
    allocator = taught(*rng.lognormal(0, 1, (60, 2)).tolist())
    again = Joint.from_state(json.loads(json.dumps(allocator.state())))
    task = Task("a", "g")
    assert allocator.request(task) == again.request(task)
    assert allocator.explain(task) == again.explain(task)
    assert allocator.explain(task).startswith("all together, from 60 tasks: ")
    assert "memory" in allocator.explain(Task("a", "unknown"))


def correlated(n: int = 400) -> Any:
    rng = np.random.default_rng(5)
    large = rng.random(n) < 0.1
    memory = np.where(large, 20.0, 1.0) * rng.uniform(0.8, 1.0, n)
    return both(memory, 2 * memory, rng.lognormal(2, 1, n), group=rng.integers(0, 2, n))


def test_where_needs_go_together_it_fails_less() -> None:
    tasks, nodes = correlated(), Nodes(4, 8).holding(CAPS)
    made = {
        name: concurrent(tasks, make_allocator(name, CAPS), MOST, nodes)
        for name in ("default", "joint")
    }
    assert made["joint"].ledger.failures <= made["default"].ledger.failures
    for out in made.values():
        assert out.ledger.tasks == 400
    alone = {name: sequential(tasks, make_allocator(name, CAPS), MOST) for name in made}
    held = {
        name: sum(one.held / cap for one, cap in zip(out.ledgers.values(), MOST, strict=True))
        for name, out in alone.items()
    }
    assert held["joint"] <= 1.05 * held["default"]


def test_of_one_resource_it_is_a_ladder_too() -> None:
    made = concurrent(
        work([1.0, 3.0] * 40, [9.0] * 80, DISK), make_allocator("joint", {"disk_bytes": 64 * GB}),
        64 * GB, Nodes(1, 8),
    )  # fmt: skip
    assert made.ledger.tasks == 80 and made.ledger.efficiency > 0.3  # type: ignore[operator]


def test_a_decision_takes_no_time_to_speak_of() -> None:
    rng = np.random.default_rng(1)
    allocator = taught(*rng.lognormal(0, 1, (600, 2)).tolist())
    spent = []
    for k in range(200):
        began = time.thread_time_ns()
        allocator.request(Task(f"t{k}", "g"))
        allocator.observe(done(f"t{k}", 1.0, 2.0))
        spent.append(time.thread_time_ns() - began)
    assert np.median(spent) < 5e6
