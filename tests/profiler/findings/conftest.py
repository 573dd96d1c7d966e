"""A made-up cluster run, for rules to look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rotameter.profiler.trace import Trace

SECOND = 10**9
EPOCH = 1_700_000_000 * SECOND


class MadeRun:
    """Tasks put on workers by hand or, by :meth:`step`, wherever a thread is free first."""

    def __init__(
        self, workers: int = 2, threads: int = 2, memory: float | None = 2e9, engine: str = "dask"
    ) -> None:
        self.threads = threads
        self.memory = memory
        self.free = {f"w{i}": [0.0] * threads for i in range(workers)}
        self.lives: dict[str, dict[str, Any]] = {w: {"start": 0.0, "end": None} for w in self.free}
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("tasks", "deps", "events", "samples", "intervals", "flows")
        }
        self.meta: dict[str, Any] = {"engine": engine}
        self.slowness: dict[str, float] = {}

    @staticmethod
    def ns(seconds: float) -> int:
        return EPOCH + round(seconds * SECOND)

    def task(
        self, task_id: str, group: str, worker: str, start: float, duration: float, **more: Any
    ) -> None:
        row = {
            "task_id": task_id,
            "group": group,
            "worker": worker,
            "submitted_ns": self.ns(more.pop("submitted", 0.0)),
            "ready_ns": self.ns(more.pop("ready", start)),
            "started_ns": self.ns(start),
            "ended_ns": self.ns(start + duration),
            "wall_s": duration,
            "outcome": "ok",
        }
        self.tables["tasks"].append({**row, **more})

    def step(
        self,
        group: str,
        durations: list[float],
        *,
        ready: float | None = None,
        after: list[str] | None = None,
        gap: float = 0.0,
        **more: Any,
    ) -> list[str]:
        """Run tasks one by one on the thread that is free first; gives their ids."""
        begin = self.end(after) if ready is None else ready
        made = []
        for number, duration in enumerate(durations):
            worker, slot = min(
                ((w, i) for w in self.free for i in range(self.threads)),
                key=lambda place: (max(self.free[place[0]][place[1]], begin), place),
            )
            start = max(self.free[worker][slot] + gap, begin)
            took = duration * self.slowness.get(worker, 1.0)
            self.free[worker][slot] = start + took
            task_id = f"{group}-{number}"
            self.task(task_id, group, worker, start, took, ready=begin, **more)
            self.tables["deps"] += [{"task_id": task_id, "depends_on": on} for on in after or []]
            made.append(task_id)
        return made

    def end(self, of: list[str] | None = None) -> float:
        ends = [
            (row["ended_ns"] - EPOCH) / SECOND
            for row in self.tables["tasks"]
            if of is None or row["task_id"] in of
        ]
        return max(ends, default=0.0) if of is not None else 0.0

    def event(self, kind: str, at: float, **columns: Any) -> None:
        self.tables["events"].append({"kind": kind, "at_ns": self.ns(at), **columns})

    def sample(self, worker: str, metric: str, at: float, value: float) -> None:
        row = {"at_ns": self.ns(at), "subject": worker, "metric": metric, "value": value}
        self.tables["samples"].append(row)

    def interval(self, kind: str, worker: str, start: float, end: float, **columns: Any) -> None:
        row = {"kind": kind, "worker": worker, "start_ns": self.ns(start), "end_ns": self.ns(end)}
        self.tables["intervals"].append({**row, **columns})

    def die(self, worker: str, at: float, *, back_as: str | None = None, back: float = 0.0) -> None:
        self.lives[worker]["end"] = at
        if back_as is not None:
            self.lives[back_as] = {"start": back, "end": None}
            self.free[back_as] = [back] * self.threads
        self.free.pop(worker, None)

    def trace(self) -> Trace:
        workers = [
            {
                "worker": name,
                "host": "h",
                "started_ns": self.ns(life["start"]),
                "ended_ns": None if life["end"] is None else self.ns(life["end"]),
                "cores": float(self.threads),
                "memory_bytes": None if self.memory is None else round(self.memory),
            }
            for name, life in self.lives.items()
        ]
        return Trace.from_tables({**self.tables, "workers": workers}, self.meta)


@pytest.fixture
def made_run() -> Callable[..., MadeRun]:
    return MadeRun
