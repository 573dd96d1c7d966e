from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.allocator.baselines import make_allocator
from rotameter.allocator.ledger import GB_HOUR
from rotameter.allocator.needs import Record, Task, View
from rotameter.allocator.online import Nodes, concurrent, sequential
from rotameter.allocator.recorded import from_trace
from rotameter.allocator.workload import Workload, orders
from rotameter.errors import PolicyError
from rotameter.profiler.trace import Trace
from rotameter.values import Allocation, Hold

GB = 1e9


def work(needs: list[float], walls: list[float], **more: Any) -> Workload:
    n = len(needs)
    blank = np.full(n, np.nan)
    return Workload(
        "w",
        np.asarray(more.pop("group", [0] * n)),
        ("a", "b", "c"),
        np.asarray(needs) * GB,
        np.asarray(walls, dtype=float),
        blank,
        blank,
        **more,
    )


class Fixed:
    """Gives one amount first and doubles."""

    def __init__(self, first: float, held: Any = ()) -> None:
        self.first, self.held, self.seen = first * GB, set(held), []

    def request(self, task: Task, view: View | None = None) -> Any:
        if task.task_id in self.held and not self.seen:
            return Hold(task.task_id)
        return Allocation(memory_bytes=int(self.first))

    def observe(self, record: Record) -> None:
        self.seen.append(record.task_id)

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        return Allocation(memory_bytes=int(2 * attempt.granted["memory_bytes"]))


def test_the_books_of_a_sequential_trial() -> None:
    made = sequential(work([1.0, 3.0], [10.0, 20.0]), Fixed(2.0), 64 * GB)
    kept = made.ledger
    assert kept.used == pytest.approx((1 * 10 + 3 * 20) * GB)
    assert kept.surplus == pytest.approx((1 * 10 + 1 * 20) * GB)
    assert kept.failed == pytest.approx(2 * 20 * GB)
    assert kept.held == kept.used + kept.surplus + kept.failed
    assert kept.waste_gbh == pytest.approx((kept.held - kept.used) / GB_HOUR)
    assert (kept.tasks, kept.failures, kept.most_attempts, made.makespan_s) == (2, 1, 2, 50.0)


def test_a_failed_attempt_lasts_as_long_as_its_curve_says() -> None:
    """Half of the peak is reached after a tenth of the time."""
    curve = np.array([[0.1, 0.6]])
    made = sequential(work([4.0], [100.0], curve=curve), Fixed(2.0), 64 * GB)
    assert made.ledger.failed == pytest.approx(2 * 10 * GB)
    assert made.makespan_s == pytest.approx(110.0)


def test_at_once_what_is_known_is_known_at_the_end_of_an_attempt() -> None:
    made = concurrent(work([3.0] * 4, [10.0] * 4), Fixed(2.0), 64 * GB, Nodes(1, 2))
    assert (made.makespan_s, made.ledger.failures) == (40.0, 4)


def test_what_came_back_goes_first_and_what_is_held_lets_others_pass() -> None:
    held = Fixed(2.0, held=["0"])
    made = concurrent(
        work([1.0, 1.0, 1.0], [5.0, 1.0, 1.0], group=[0, 1, 1]), held, 64 * GB, Nodes(1, 1)
    )
    assert held.seen == ["1", "0", "2"] and made.makespan_s == 7.0


def test_memory_of_a_node_is_never_exceeded() -> None:
    made = concurrent(work([3.0] * 6, [10.0] * 6), Fixed(4.0), 8 * GB, Nodes(1, 8, 8 * GB))
    assert made.makespan_s == 30.0


def test_a_large_task_is_not_starved_by_small_ones() -> None:
    class ByGroup(Fixed):
        def request(self, task: Task, view: View | None = None) -> Any:
            return Allocation(memory_bytes=int(8 * GB if task.group == "b" else 2 * GB))

    seen = ByGroup(2.0)
    tasks = work([1.0] * 41, [10.0, 5.0] + [10.0] * 39, group=[0, 0, 1] + [0] * 38)
    concurrent(tasks, seen, 8 * GB, Nodes(1, 8, 8 * GB))
    assert seen.seen.index("2") < 10


def test_a_task_waits_for_what_it_depends_on() -> None:
    chain = work([1.0] * 3, [5.0] * 3, deps=((1, 0), (2, 1)))
    assert concurrent(chain, Fixed(2.0), 64 * GB, Nodes(8, 8)).makespan_s == 15.0
    assert chain.first(2).deps == ((1, 0),)


@pytest.mark.parametrize("bad", [0.0, float("nan"), -1.0])
def test_an_allocator_that_gives_nothing_usable_is_told(bad: float) -> None:
    class Broken(Fixed):
        def request(self, task: Task, view: View | None = None) -> Any:
            return Allocation(memory_bytes=bad)  # type: ignore[arg-type]

    with pytest.raises(PolicyError):
        sequential(work([1.0], [1.0]), Broken(1.0), 64 * GB)


def test_an_allocator_that_does_not_grow_or_holds_all_is_told() -> None:
    class Stuck(Fixed):
        def exceeded(self, task: Task, attempt: Record) -> Allocation:
            return Allocation(memory_bytes=int(attempt.granted["memory_bytes"]))

    with pytest.raises(PolicyError, match="not more than"):
        sequential(work([3.0], [1.0]), Stuck(1.0), 64 * GB)
    with pytest.raises(PolicyError, match="holds every task"):
        concurrent(work([3.0], [1.0]), Fixed(1.0, held=["0"]), 64 * GB, Nodes(1, 1))
    with pytest.raises(PolicyError, match="largest machine"):
        sequential(work([100.0], [1.0]), Fixed(64.0), 64 * GB)


def test_equal_runs_give_equal_outcomes() -> None:
    rng = np.random.default_rng(3)
    tasks = work(rng.lognormal(0, 1, 400).tolist(), rng.lognormal(2, 1, 400).tolist(),
                 group=rng.integers(0, 3, 400))  # fmt: skip
    order = orders(400, 1, np.random.default_rng(1))[1]
    for name in ("default", "greedy"):
        made = [
            concurrent(tasks, make_allocator(name, 64 * GB, seed=5), 64 * GB, Nodes(8, 8), order)
            for _ in range(2)
        ]
        assert made[0].ledger == made[1].ledger and made[0].makespan_s == made[1].makespan_s
        assert made[0].ledger.tasks == 400


def test_a_trace_gives_its_completed_tasks_in_the_order_in_which_they_ended() -> None:
    rows = [
        {"task_id": "late", "group": "g", "ended_ns": 9 * 10**9, "wall_s": 2.0, "outcome": "ok",
         "peak_memory_bytes": 2 * 10**9, "peak_memory_kind": "exact"},
        {"task_id": "early", "group": "g", "ended_ns": 3 * 10**9, "wall_s": 1.0, "outcome": "ok",
         "peak_memory_bytes": 10**9, "peak_memory_kind": "sampled"},
        {"task_id": "killed", "group": "g", "ended_ns": 4 * 10**9, "wall_s": 1.0, "outcome": "oom",
         "peak_memory_bytes": 10**9, "peak_memory_kind": "lower_bound"},
        {"task_id": "blank", "group": "g", "ended_ns": 4 * 10**9, "wall_s": 1.0, "outcome": "ok"},
    ]  # fmt: skip
    deps = [{"task_id": "late", "depends_on": "early"}]
    made = from_trace(Trace.from_tables({"tasks": rows, "deps": deps}))
    assert made.need.tolist() == [1e9, 2e9] and made.deps == ((1, 0),)
    assert len(from_trace(Trace.from_tables({}))) == 0
