"""The gate's decisions, on a scheduler that only writes down what is asked of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rotameter.adapters.dask.gate import HOLD, Gate
from rotameter.adapters.dask.gate_worker import TOPIC

GB = 10**9


class Loop:
    """Calls that an event loop is asked for; run by hand."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def add_callback(self, call: Any, *words: Any) -> None:
        self.calls.append((call, words))

    def call_later(self, seconds: float, call: Any, *words: Any) -> None:
        """Time stands still here."""

    def run(self) -> None:
        while self.calls:
            call, words = self.calls.pop(0)
            call(*words)


class Scheduler:
    """As much of a scheduler as the gate looks at."""

    allowed_failures = 3

    def __init__(self) -> None:
        self.workers: dict[str, Any] = {}
        self.tasks: dict[str, Any] = {}
        self.running: set[Any] = set()
        self.loop = Loop()
        self.written: list[Any] = []
        self.gate: Gate | None = None

    def worker(self, name: str, gb: float = 10.0, threads: int = 2) -> None:
        ws = Worker(name, gb, threads)
        self.workers[name] = ws
        self.running.add(ws)

    def task(self, key: str, priority: int = 0, **more: Any) -> Any:
        ts = Ts(
            key=key, priority=(0, priority), state="released", suspicious=0, actor=False,
            worker_restrictions=None, host_restrictions=None, resource_restrictions=None,
            processing_on=None, run_id=1, **more,
        )  # fmt: skip
        self.tasks[key] = ts
        return ts

    def move(self, key: str, finish: str, stimulus: str = "") -> None:
        ts = self.tasks[key]
        start, ts.state = ts.state, finish
        assert self.gate is not None
        self.gate.transition(key, start, finish, stimulus_id=stimulus)

    def submit(self, key: str) -> None:
        """Do what happens to a new task: it waits, and is held or sent to a worker."""
        self.move(key, "waiting")
        if self.tasks[key].worker_restrictions == {HOLD}:
            self.move(key, "no-worker")

    def transitions(self, wanted: dict[str, str], stimulus_id: str) -> None:
        self.written.append(wanted)
        for key, finish in wanted.items():
            ts = self.tasks[key]
            if finish == "processing":
                (name,) = ts.worker_restrictions
                ts.processing_on = self.workers[name]
            self.move(key, finish)
            if finish in ("waiting", "released"):
                if finish == "released":
                    self.move(key, "waiting")
                self.move(key, "no-worker")


class Ts(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


class Worker:
    def __init__(self, name: str, gb: float, threads: int) -> None:
        self.address, self.nthreads = name, threads
        self.memory_limit, self.nbytes = int(gb * GB / 0.9), 0
        self.metrics = {"memory": 0}
        self.executing: dict[Any, float] = {}
        self.processing: set[Any] = set()


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
    gate.log_event(TOPIC, {"key": key, "op": op, "peak": int(gb * GB), "kind": kind, "wall": 5.0})


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
    for msg in (None, 5, {}, {"key": "gone", "op": "x"}, {"action": "remove-worker"}):
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
    assert gate._strangers(ws) == ["train"] and gate._strangers(scheduler.workers["b"]) == []
    scheduler.workers["b"].executing = {new: 1.0, old: 1.0}
    blamed = gate._culprits(scheduler.workers["b"], {"train-0", "train-1"})
    assert blamed == {"train": "train-0"}
