"""Trials in other resources than memory, and in several at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rotameter.allocator.baselines import ALLOCATORS, make_allocator
from rotameter.allocator.needs import Record, Task, View
from rotameter.allocator.online import Nodes, concurrent, sequential, teach
from rotameter.allocator.resources import DISK, GPU_MEMORY, MEMORY, TIME, Resource
from rotameter.allocator.trials import Trial, machine_of, trials
from rotameter.allocator.workload import Workload, orders, together
from rotameter.errors import PolicyError
from rotameter.values import Allocation

GB = 1e9
SPACE = (MEMORY, DISK)


def work(needs: Any, walls: Any, resource: Resource = MEMORY, **more: Any) -> Workload:
    needs = np.asarray(needs, dtype=float) * (1.0 if resource is TIME else GB)
    blank = np.full(len(needs), np.nan)
    return Workload(
        "w", np.asarray(more.pop("group", np.zeros(len(needs), int))), ("a", "b", "c"), needs,
        np.asarray(walls, dtype=float), blank, blank, resource=resource, **more,
    )  # fmt: skip


def both(memory: Any, disk: Any, walls: Any, **more: Any) -> list[Workload]:
    return [work(memory, walls, **more), work(disk, walls, DISK, **more)]


class Fixed:
    """Gives fixed amounts and doubles what was exceeded; remembers what it was told."""

    def __init__(self, **first: float) -> None:
        self.first, self.seen = first, []  # type: ignore[var-annotated]
        self.gave: list[dict[str, float]] = []

    def _given(self, amounts: dict[str, float]) -> Allocation:
        self.gave.append(amounts)
        return Allocation(**amounts)  # type: ignore[arg-type]

    def request(self, task: Task, view: View | None = None) -> Allocation:
        return self._given(dict(self.first))

    def observe(self, record: Record) -> None:
        self.seen.append(record)

    def exceeded(self, task: Task, attempt: Record) -> Allocation:
        self.seen.append(attempt)
        more = {
            name: 2 * v if name in attempt.exceeded else v for name, v in attempt.granted.items()
        }
        return self._given(more)


def test_only_what_is_outgrown_grows() -> None:
    given = Fixed(memory_bytes=2 * GB, disk_bytes=4 * GB)
    made = sequential(both([3.0], [1.0], [10.0]), given, (64 * GB, 64 * GB))
    assert given.gave[-1] == {"memory_bytes": 4 * GB, "disk_bytes": 4 * GB}
    first, second = given.seen
    assert first.exceeded == {"memory_bytes"} and first.outcome == "oom"
    assert second.used == {"memory_bytes": 3 * GB, "disk_bytes": 1 * GB}
    memory, disk = made.ledgers["memory_bytes"], made.ledgers["disk_bytes"]
    assert memory is made.ledger and made.makespan_s == 20.0
    assert (memory.used, memory.surplus, memory.failed) == (30 * GB, 10 * GB, 20 * GB)
    assert (disk.used, disk.surplus, disk.failed) == (10 * GB, 30 * GB, 40 * GB)
    assert memory.failures == disk.failures == 1


def test_what_is_outgrown_first_ends_the_attempt() -> None:
    """Half of the peak of memory is reached after a tenth of the time, disk runs out at the end."""
    memory = work([4.0], [100.0], curve=np.array([[0.1, 0.6]]))
    given = Fixed(memory_bytes=2 * GB, disk_bytes=1 * GB)
    sequential([memory, work([8.0], [100.0], DISK)], given, (64 * GB, 64 * GB))
    assert [one.exceeded for one in given.seen[:2]] == [{"memory_bytes"}, {"disk_bytes"}]
    assert [one.wall_s for one in given.seen[:2]] == pytest.approx([10.0, 100.0])
    together_ = Fixed(memory_bytes=2 * GB, disk_bytes=1 * GB)
    sequential(both([4.0], [8.0], [100.0]), together_, (64 * GB, 64 * GB))
    assert together_.seen[0].exceeded == {"memory_bytes", "disk_bytes"}


def test_an_attempt_fits_where_it_fits_in_each() -> None:
    nodes = Nodes(1, 8, 64 * GB, {"disk_bytes": 10 * GB})
    given = Fixed(memory_bytes=1 * GB, disk_bytes=4 * GB)
    made = concurrent(both([1.0] * 6, [4.0] * 6, [10.0] * 6), given, (64 * GB, 10 * GB), nodes)
    assert made.makespan_s == 30.0
    other = Nodes(1, 8, 3 * GB, {"disk_bytes": 64 * GB})
    made = concurrent(both([1.0] * 6, [4.0] * 6, [10.0] * 6), given, (3 * GB, 64 * GB), other)
    assert made.makespan_s == 20.0
    assert nodes.share == {"memory_bytes": 8 * GB, "disk_bytes": 1.25 * GB}


def test_a_large_task_gets_the_node_with_the_scarcest_share_free() -> None:
    class ByGroup(Fixed):
        def request(self, task: Task, view: View | None = None) -> Allocation:
            disk = 8 * GB if task.group == "b" else 2 * GB
            return Allocation(memory_bytes=int(GB), disk_bytes=int(disk))

    n = 41
    groups = [0, 0, 1] + [0] * (n - 3)
    tasks = both([1.0] * n, [1.0] * n, [10.0, 5.0] + [10.0] * (n - 2), group=groups)
    seen = ByGroup()
    concurrent(tasks, seen, (8 * GB, 8 * GB), Nodes(1, 8, 64 * GB, {"disk_bytes": 8 * GB}))
    assert [one.task_id for one in seen.seen].index("2") < 10


@pytest.mark.parametrize("resource", [DISK, GPU_MEMORY])
@pytest.mark.parametrize(
    "name", ["default", "greedy", "max-seen", "whole-machine", "attempt-linear"]
)
def test_amounts_are_neutral(resource: Resource, name: str) -> None:
    """The same numbers give the same books, whatever they are numbers of."""
    rng = np.random.default_rng(1)
    needs, walls = rng.lognormal(0, 1, 120) + 0.5, rng.lognormal(2, 1, 120)
    group = rng.integers(0, 3, 120)
    cap, books = 64 * GB, []
    for one in (MEMORY, resource):
        tasks = work(needs, walls, one, group=group)
        allocator = make_allocator(name, {one.field: cap}, seed=5)
        made = concurrent(tasks, allocator, cap, Nodes(1, 16))
        books.append((made.ledger, made.makespan_s))
    assert books[0] == books[1]


def test_a_limit_of_time_ends_an_attempt_and_holds_nothing() -> None:
    given = Fixed(wall_s=40.0)
    made = sequential(work([100.0], [100.0], TIME), given, 1000.0)
    kept = made.ledger
    assert [one.outcome for one in given.seen] == ["timeout", "timeout", "ok"]
    assert made.makespan_s == 40 + 80 + 100
    assert (kept.used, kept.surplus, kept.failed) == (100.0, 60.0, 120.0)
    assert kept.efficiency == pytest.approx(100 / 280)
    found = trials(
        work([100.0] * 9, [100.0] * 9, TIME), ["default"], most=86400.0, nodes=Nodes(1, 4)
    )
    assert [one.mode for one in found] == ["sequential", "concurrent"]
    assert all(0 < one.awe <= 1 and one.unit == "h" for one in found)
    assert {"waste_h", "surplus_h", "failed_h"} <= set(found[0].to_dict())


def test_time_and_memory_end_an_attempt_each() -> None:
    given = Fixed(memory_bytes=2 * GB, wall_s=50.0)
    tasks = [work([3.0], [100.0]), work([100.0], [100.0], TIME)]
    sequential(tasks, given, (64 * GB, 1000.0))
    assert [(one.outcome, one.wall_s) for one in given.seen] == [
        ("timeout", 50.0), ("oom", 100.0), ("ok", 100.0)]  # fmt: skip
    assert given.gave[-1] == {"memory_bytes": 4 * GB, "wall_s": 100.0}


def test_a_limit_that_counts_more_than_the_task_lasts_so_long() -> None:
    tasks = [work([1.0], [90.0]), work([100.0], [100.0], TIME)]
    made = sequential(tasks, Fixed(memory_bytes=2 * GB, wall_s=95.0), (64 * GB, 1000.0))
    assert made.makespan_s == 95.0 + 100.0 and made.ledgers["wall_s"].surplus == 90.0


def lognormal(n: int = 300, seed: int = 3) -> list[Workload]:
    rng = np.random.default_rng(seed)
    memory = np.minimum(rng.lognormal(0.5, 0.8, n), 30.0)
    disk = np.minimum(memory * rng.lognormal(0, 0.3, n), 60.0)
    return both(memory, disk, rng.lognormal(2, 1, n), group=rng.integers(0, 3, n))


@pytest.mark.parametrize("name", sorted(set(ALLOCATORS) - {"exhaustive", "exhaustive+common"}))
def test_every_allocator_sizes_both(name: str) -> None:
    found = trials(
        lognormal(60), [name], most=(64 * GB, 128 * GB),
        nodes=Nodes(2, 8).holding({"memory_bytes": 64 * GB, "disk_bytes": 128 * GB}),
    )  # fmt: skip
    assert [(one.mode, one.resource.name) for one in found] == [
        (mode, name) for mode in ("sequential", "packed") for name in ("memory", "disk")
    ]
    for one in found:
        assert 0 < one.awe <= 1 and one.retries_per_task >= 0
        assert (one.nodes_used_ratio is not None) == (one.mode == "packed")
        assert set(one.to_dict()) >= {"resource", "awe", "waste_gbh", "makespan_s", "timing"}


def test_in_one_resource_several_are_as_one() -> None:
    """What is sized beside a resource that nobody lacks has the books of that resource alone."""
    tasks = lognormal()
    plenty = work([0.1] * 300, tasks[0].wall_s, DISK, group=tasks[0].group)
    order = orders(300, 1, np.random.default_rng(1))[1]
    for name in ("greedy", "max-seen-doubling", "attempt-linear"):
        alone = concurrent(
            tasks[0], make_allocator(name, 64 * GB, seed=5), 64 * GB, Nodes(4, 8, 64 * GB), order
        )
        caps = {"memory_bytes": 64 * GB, "disk_bytes": 64 * GB}
        beside = concurrent(
            [tasks[0], plenty], make_allocator(name, caps, seed=5), tuple(caps.values()),
            Nodes(4, 8, 64 * GB), order,
        )  # fmt: skip
        assert (alone.ledger, alone.makespan_s) == (beside.ledger, beside.makespan_s)


def test_two_runs_of_a_packed_trial_are_equal() -> None:
    nodes = Nodes(4, 8, 64 * GB, {"disk_bytes": 128 * GB})
    made = [
        concurrent(
            lognormal(),
            make_allocator("default", {"memory_bytes": 64 * GB, "disk_bytes": 128 * GB}),
            (64 * GB, 128 * GB),
            nodes,
        )
        for _ in range(2)
    ]
    assert made[0].ledgers == made[1].ledgers and made[0].makespan_s == made[1].makespan_s


def test_tasks_that_all_have() -> None:
    one = work([1.0, 2.0, 3.0], [1.0] * 3, row=np.array([5, 9, 2]), deps=((2, 0), (1, 0)))
    other = work([4.0, 6.0], [1.0] * 2, DISK, row=np.array([2, 5]))
    memory, disk = together([one, other])
    assert memory.need.tolist() == [1 * GB, 3 * GB] and disk.need.tolist() == [6 * GB, 4 * GB]
    assert memory.deps == ((1, 0),) and memory.row.tolist() == disk.row.tolist() == [5, 2]
    none = together([one, work([1.0], [1.0], DISK, row=np.array([77]))])
    assert [len(made) for made in none] == [0, 0]


@pytest.mark.parametrize("bad", [None, 0.0, float("nan"), float("inf"), -1.0])
def test_an_allocator_that_leaves_one_out_is_told(bad: float | None) -> None:
    given = Fixed(memory_bytes=2 * GB, **({} if bad is None else {"disk_bytes": bad}))
    with pytest.raises(PolicyError, match="gave no disk" if bad is None else "gave"):
        sequential(both([1.0], [1.0], [1.0]), given, (64 * GB, 64 * GB))


def test_an_allocator_that_does_not_grow_or_a_task_beyond_the_machine_is_told() -> None:
    class Stuck(Fixed):
        def exceeded(self, task: Task, attempt: Record) -> Allocation:
            return self._given(dict(attempt.granted))

    with pytest.raises(PolicyError, match="not more than"):
        sequential(
            both([1.0], [9.0], [1.0]), Stuck(memory_bytes=2 * GB, disk_bytes=GB), (9 * GB,) * 2
        )
    with pytest.raises(PolicyError, match="largest machine"):
        given = Fixed(memory_bytes=2 * GB, disk_bytes=64 * GB)
        sequential(both([1.0], [100.0], [1.0]), given, (64 * GB, 64 * GB))
    with pytest.raises(PolicyError, match="unknown resource"):
        make_allocator("greedy", {"bandwidth": 1.0})


def test_what_has_no_default_starts_somewhere() -> None:
    """A group that nothing is known of would get no GPU memory at all."""
    for name in ("default", "greedy", "attempt-linear"):
        made = make_allocator(name, {"gpu_memory_bytes": 80 * GB})
        assert made.request(Task("a", "g")).gpu_memory_bytes == GB
    found = trials(work([20.0] * 6, [9.0] * 6, GPU_MEMORY), ["default"], most=80 * GB, nodes=None)
    assert found[0].retries_per_task <= 1


def test_needs_of_nothing_are_given_something() -> None:
    names = ["default", "greedy", "max-seen"]
    found = trials(work([0.0] * 9, [9.0] * 9, DISK), names, most=64 * GB, nodes=Nodes(1, 4))
    assert all((one.awe, one.retries_per_task) == (0.0, 0.0) for one in found)


@pytest.mark.parametrize(
    ("resource", "needs", "has"),
    [
        (MEMORY, [1.0], 64e9),
        (MEMORY, [90.0], 128e9),
        (DISK, [0.0], 64e9),
        (DISK, [70.0], 128e9),
        (GPU_MEMORY, [20.0], 32e9),
        (TIME, [86401.0], 2 * 86400.0),
        (DISK, [], 64e9),
    ],
)
def test_a_machine_that_holds_every_task(
    resource: Resource, needs: list[float], has: float
) -> None:
    assert machine_of(work(needs, [1.0] * len(needs), resource)) == has


def test_an_allocator_learns_before_in_any_resource() -> None:
    made = make_allocator("default", {"disk_bytes": 640 * GB})
    teach(made, work([50.0] * 3, [1.0] * 3, DISK))
    assert made.request(Task("a", "a")).disk_bytes > 50 * GB


def test_a_trial_of_memory_is_as_json_had_it() -> None:
    made = Trial("f", "a", "sequential", 0.5, 1.0, 0.7, 0.3, 0.1, 2, 9.0, None).to_dict()
    assert made == {
        "file": "f", "allocator": "a", "mode": "sequential", "resource": "memory", "awe": 0.5,
        "waste_gbh": 1.0, "surplus_gbh": 0.7, "failed_gbh": 0.3, "retries_per_task": 0.1,
        "most_attempts": 2, "makespan_s": 9.0, "timing": {"p99_us": None},
    }  # fmt: skip
