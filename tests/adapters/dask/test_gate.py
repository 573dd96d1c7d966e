"""The gate's decisions, on a scheduler that only writes down what is asked of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.scheduler import GB, Scheduler

from rotameter.adapters.dask.gate import Gate
from rotameter.adapters.dask.gate_worker import TOPIC


@pytest.fixture
def made() -> Any:
    scheduler = Scheduler()
    for name in ("a", "b"):
        scheduler.worker(name)

    def start(**options: Any) -> tuple[Scheduler, Gate]:
        gate = Gate(**options)
        asyncio.run(gate.start(scheduler))
        scheduler.gate = gate
        return scheduler, gate

    return start


def measured(
    gate: Gate, key: str, gb: float, kind: str = "exact", op: str = "task-finished"
) -> None:
    said = {"key": key, "op": op, "peak": int(gb * GB), "kind": kind, "wall": 5.0}
    gate.log_event(TOPIC, {"tasks": [said]})


def die(scheduler: Scheduler, gate: Gate, worker: str, keys: set[str], said: bool = True) -> None:
    """Remove a worker as distributed does: the event, the tasks, then the hook."""
    if said:
        gate.log_event("worker-restart-memory", {"worker": worker, "pid": 1, "rss": 1})
    for key in keys:
        scheduler.tasks[key].suspicious += 1
    scheduler.running.discard(scheduler.workers.pop(worker))
    gate.log_event("all", {
        "action": "remove-worker", "worker": worker, "expected": False, "stimulus_id": "s",
        "processing-tasks": keys,
    })  # fmt: skip
    for key in keys:
        scheduler.move(key, "released", "s")
        scheduler.submit(key)
    gate.remove_worker(scheduler, worker)


def test_light_groups_are_never_touched(made: Any) -> None:
    scheduler, gate = made()
    for number in range(5):
        scheduler.task(f"light-{number}")
        scheduler.submit(f"light-{number}")
        measured(gate, f"light-{number}", 1.0)
    assert not scheduler.written and gate.facts()["hungry"] == []


def test_a_group_that_needs_more_than_a_threads_share_is_admitted_one_a_worker(made: Any) -> None:
    scheduler, gate = made()
    scheduler.task("train-0")
    for _ in range(2):
        measured(gate, "train-0", 6.0)
    for number in range(1, 5):
        scheduler.task(f"train-{number}", number)
        scheduler.submit(f"train-{number}")
    scheduler.loop.run()
    assert [ts.state for ts in scheduler.tasks.values()][1:] == [
        "processing", "processing", "no-worker", "no-worker"]  # fmt: skip
    scheduler.move("train-1", "memory")
    scheduler.loop.run()
    assert scheduler.tasks["train-3"].state == "processing"
    assert scheduler.tasks["train-1"].worker_restrictions == set()
    assert gate.facts()["granted"] == 2


def test_what_ran_beside_others_makes_no_group_a_hungry_one(made: Any) -> None:
    scheduler, gate = made()
    scheduler.task("light-0")
    for _ in range(9):
        measured(gate, "light-0", 8.0, kind="upper_bound")
    assert gate.facts()["hungry"] == []


def test_a_death_of_memory_gates_its_group_forgives_and_gives_more(made: Any) -> None:
    scheduler, gate = made()
    for number in range(2):
        ts = scheduler.task(f"train-{number}", number)
        ts.state, ts.processing_on = "processing", scheduler.workers["a"]
        scheduler.workers["a"].executing[ts] = 1.0
    for number in range(3):
        scheduler.task(f"light-{number}")
        measured(gate, f"light-{number}", 0.1)
    die(scheduler, gate, "a", {"train-0", "train-1"})
    assert gate.facts()["hungry"] == ["train"] and gate.facts()["forgiven"] == 2
    assert {scheduler.tasks[k].suspicious for k in ("train-0", "train-1")} == {0}
    scheduler.loop.run()
    # With the worker that is left they run one after the other.
    states = sorted(scheduler.tasks[k].state for k in ("train-0", "train-1"))
    assert states == ["no-worker", "processing"]


def test_a_silent_death_near_the_limit_counts_the_second_time(made: Any) -> None:
    scheduler, gate = made()
    scheduler.worker("c")
    gate.add_worker(scheduler, "c")
    for worker, hungry in (("a", True), ("b", True)):
        ts = scheduler.task(f"train-{worker}")
        ts.state, ts.processing_on = "processing", scheduler.workers[worker]
        scheduler.workers[worker].metrics["memory"] = 10 * GB
        die(scheduler, gate, worker, {ts.key}, said=False)
        assert bool(gate.facts()["hungry"]) is (worker == "b") or hungry


def test_other_deaths_enlarge_and_forgive_nothing(made: Any) -> None:
    scheduler, gate = made()
    ts = scheduler.task("train-0")
    ts.state, ts.processing_on = "processing", scheduler.workers["a"]
    die(scheduler, gate, "a", {"train-0"}, said=False)
    assert (ts.suspicious, gate.facts()["hungry"], gate.facts()["killed"]) == (1, [], 0)


def test_what_the_user_restricted_is_left_alone(made: Any) -> None:
    scheduler, gate = made()
    scheduler.task("train-0")
    for _ in range(2):
        measured(gate, "train-0", 6.0)
    for name, value in (
        ("worker_restrictions", {"a"}), ("host_restrictions", {"h"}),
        ("resource_restrictions", {"GPU": 1}), ("actor", True),
    ):  # fmt: skip
        ts = scheduler.task(f"train-{name}")
        setattr(ts, name, value)
        scheduler.submit(ts.key)
        assert ts.state == "waiting" and getattr(ts, name) == value
    assert not scheduler.written


def test_watching_alone_writes_nothing(made: Any) -> None:
    scheduler, gate = made(observe=True)
    ts = scheduler.task("train-0")
    for _ in range(3):
        measured(gate, "train-0", 6.0)
    scheduler.submit("train-0")
    ts.state = "processing"
    die(scheduler, gate, "a", {"train-0"})
    scheduler.loop.run()
    assert not scheduler.written and ts.worker_restrictions is None and ts.suspicious == 1
    assert "GB" in gate.explain("train")


def test_a_paused_worker_gets_nothing_and_the_task_waits_on(made: Any) -> None:
    scheduler, gate = made()
    scheduler.task("train-0")
    for _ in range(2):
        measured(gate, "train-0", 6.0)
    scheduler.running.clear()
    scheduler.task("train-1")
    scheduler.submit("train-1")
    scheduler.loop.run()
    assert scheduler.tasks["train-1"].state == "no-worker"
    scheduler.running.update(scheduler.workers.values())
    gate._later()
    scheduler.loop.run()
    assert scheduler.tasks["train-1"].state == "processing"


def test_what_is_learnt_goes_on_in_the_next_gate(made: Any) -> None:
    scheduler, gate = made()
    scheduler.task("train-0")
    for _ in range(4):
        measured(gate, "train-0", 6.0)
    _, other = made(state=gate.learnt())
    assert other.facts()["hungry"] == ["train"]
    assert other.explain("train") == gate.explain("train")


def test_odd_messages_are_passed_over(made: Any) -> None:
    scheduler, gate = made()
    for msg in (None, 5, {}, {"tasks": [{"key": "gone", "op": "x"}]}, {"action": "remove-worker"}):
        for topic in (TOPIC, "all", "worker-restart-memory", ("a", "b")):
            gate.log_event(topic, msg)
    assert not scheduler.written


def test_who_was_admitted_beside_those_that_nobody_admitted_is_not_to_blame(made: Any) -> None:
    """Nor is a worker taken for empty while a hungry task that began before runs there."""
    scheduler, gate = made()
    ws = scheduler.workers["a"]
    old = scheduler.task("train-0")
    old.state, old.processing_on = "processing", ws
    ws.processing.add(old)
    scheduler.task("other-0")
    for _ in range(2):
        measured(gate, "train-0", 9.0)
    scheduler.task("train-1", 1)
    scheduler.submit("train-1")
    scheduler.loop.run()
    new = scheduler.tasks["train-1"]
    assert new.processing_on is scheduler.workers["b"]
    assert gate._strangers == {"a": {"train-0": "train"}}
    other = scheduler.workers["b"]
    other.executing = {new: 1.0, old: 1.0}
    blamed = gate._blame.culprits([new, old], other, gate.books.grants, "reported")
    assert blamed == {"train": "train-0"}
    scheduler.move("train-0", "memory")
    assert gate._strangers == {"a": {}}


def hungry(scheduler: Scheduler, gate: Gate, tasks: int, gb: float = 6.0) -> None:
    scheduler.task("train-0")
    for _ in range(2):
        measured(gate, "train-0", gb)
    for number in range(1, tasks + 1):
        scheduler.task(f"train-{number}", number)
        scheduler.submit(f"train-{number}")
    scheduler.loop.run()


def test_an_error_of_its_own_is_the_end_of_the_gate_and_not_of_the_run(made: Any) -> None:
    scheduler, gate = made()
    hungry(scheduler, gate, 5)
    gate.allocator.request = lambda *_: 1 / 0
    gate._amounts.clear()
    scheduler.move("train-1", "memory")
    scheduler.loop.run()
    assert "ZeroDivisionError" in gate.facts()["faults"][0]
    assert not len(gate.line)
    for number in range(2, 6):
        assert scheduler.tasks[f"train-{number}"].worker_restrictions == set()
    # Dask has them again, and the gate touches nothing any more.
    scheduler.task("train-9")
    scheduler.submit("train-9")
    assert scheduler.tasks["train-9"].state == "waiting"


def test_what_ended_otherwise_leaves_no_bound(made: Any) -> None:
    scheduler, gate = made()
    hungry(scheduler, gate, 2)
    ts = scheduler.tasks["train-1"]
    said = {"key": ts.key, "op": "memory_error", "run_id": 1, "peak": 1, "kind": "exact", "wall": 1}
    gate.log_event(TOPIC, {"tasks": [said]})
    assert gate.allocator._of("train").learners["memory_bytes"].failed
    scheduler.move("train-1", "erred")
    assert not gate.allocator._of("train").learners["memory_bytes"].failed
    assert not gate._failed and "train-1" not in gate._tasks


def test_a_restart_forgets_tasks_and_keeps_what_was_learnt(made: Any) -> None:
    scheduler, gate = made()
    hungry(scheduler, gate, 5)
    gate.restart(scheduler)
    facts = gate.facts()
    assert facts["granted"] == facts["waiting"] == 0 and facts["hungry"] == ["train"]


def test_the_machine_may_have_less_than_the_limit_says(made: Any) -> None:
    _, gate = made()
    assert gate.books.capacity() == pytest.approx(10 * GB)
    for worker in "ab":
        gate.log_event(TOPIC, {"worker": worker, "limit": 5 * GB})
    assert gate.books.capacity() == pytest.approx(4.5 * GB)


def test_without_a_limit_a_memory_error_is_the_users(made: Any) -> None:
    scheduler, gate = made()
    for ws in scheduler.workers.values():
        ws.memory_limit = 0
        gate.log_event(TOPIC, {"worker": ws.address, "limit": 0})
    ts = scheduler.task("train-0")
    ts.state, ts.processing_on = "processing", scheduler.workers["a"]
    said = {"key": ts.key, "op": "memory_error", "run_id": 1, "peak": 1, "kind": "exact", "wall": 1}
    gate.log_event(TOPIC, {"tasks": [said]})
    assert gate.facts()["hungry"] == [] and not gate.facts()["faults"]


def test_who_found_no_room_for_long_has_a_worker_kept_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small ones pass a large one, but not for ever."""
    clock = [0.0]
    monkeypatch.setattr("rotameter.adapters.dask.gate.time.monotonic", lambda: clock[0])
    scheduler = Scheduler()
    for name in ("a", "b"):
        scheduler.worker(name, threads=4)
    gate = scheduler.gate = Gate(asked={"large": 10 * GB, "small": 4 * GB})
    asyncio.run(gate.start(scheduler))
    scheduler.loop.run()
    names = [f"small-{k}" for k in range(30)]
    names.insert(4, "large-0")
    for number, name in enumerate(names):
        scheduler.task(name, number)
        scheduler.submit(name)
    scheduler.loop.run()
    ended = 0
    while scheduler.tasks["large-0"].state != "processing":
        clock[0] += 2.0
        oldest = next(k for k, t in scheduler.tasks.items() if t.state == "processing")
        scheduler.move(oldest, "memory")
        scheduler.loop.run()
        ended += 1
    assert ended < 12
