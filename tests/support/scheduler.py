"""A scheduler that only writes down what is asked of it, as the admission gate sees one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rotameter.adapters.dask.gate import HOLD, Gate

__all__ = ["GB", "Loop", "Scheduler", "Ts", "Worker"]

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
        self.queued: list[Any] = []
        self.loop = Loop()
        self.written: list[Any] = []
        self.erred: list[dict[str, Any]] = []
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

    def handle_task_erred(self, **told: Any) -> None:
        self.erred.append(told)

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
        self.nanny: str | None = None
        self.metrics = {"memory": 0}
        self.executing: dict[Any, float] = {}
        self.processing: set[Any] = set()
        self.long_running: set[Any] = set()
