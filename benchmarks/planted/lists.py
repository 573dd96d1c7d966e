"""The injector's own list scheduler: jobs with needs on nodes with capacities, in seconds."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Job", "Node", "Placed", "makespan", "schedule"]


@dataclass(slots=True)
class Job:
    """One attempt of one task: what it needs, what it is like."""

    task: str
    group: str
    seconds: float
    attempt: int = 1
    after: tuple[tuple[str, int], ...] = ()
    cores: float = 1
    memory: float = 1e9
    gpus: float = 0
    wait_s: float = 0.0
    outcome: str = "ok"
    cpu_s: float | None = None
    peak: float | None = None
    gpu_s: float | None = None
    limit_s: float | None = None
    flows: list[dict[str, Any]] = field(default_factory=list)
    run: str = ""
    node_first_s: float = 0.0
    first_flows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int]:
        return self.task, self.attempt


@dataclass(frozen=True, slots=True)
class Node:
    """What a machine offers."""

    name: str
    cores: float
    memory: float
    gpus: float = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Where and when a job ran; ``first`` where it was the first on its node."""

    ready_s: float
    start_s: float
    end_s: float
    node: str
    first: bool


def schedule(jobs: Sequence[Job], nodes: Sequence[Node]) -> dict[tuple[str, int], Placed]:
    """Start each job as soon as it is ready and fits somewhere, in the order given.

    A job may overtake another that does not fit. ``wait_s`` passes between a job's readiness
    and its first chance to start; ``node_first_s`` is added to the first job of each node.

    >>> jobs = [Job("a", "g", 2.0), Job("b", "g", 2.0), Job("c", "g", 1.0, after=(("a", 1),))]
    >>> placed = schedule(jobs, [Node("n", 1, 4e9)])
    >>> placed["b", 1].start_s, placed["c", 1].end_s
    (2.0, 5.0)
    """
    free = {n.name: [n.cores, n.memory, n.gpus] for n in nodes}
    used: set[str] = set()
    missing = {job.key: len(set(job.after)) for job in jobs}
    followers: dict[tuple[str, int], list[Job]] = {}
    order = {job.key: number for number, job in enumerate(jobs)}
    for job in jobs:
        for key in set(job.after):
            followers.setdefault(key, []).append(job)
    placed: dict[tuple[str, int], Placed] = {}
    waiting: list[tuple[int, float, Job]] = []
    events: list[tuple[float, int, int, str, Job, str]] = [
        (job.wait_s, 1, order[job.key], "ready", job, "") for job in jobs if not missing[job.key]
    ]
    heapq.heapify(events)
    while events:
        now = events[0][0]
        while events and events[0][0] <= now + 1e-9:
            _, _, _, what, job, where = heapq.heappop(events)
            if what == "ready":
                waiting.append((order[job.key], now - job.wait_s, job))
                continue
            for place, amount in enumerate((job.cores, job.memory, job.gpus)):
                free[where][place] += amount
            for next_job in followers.get(job.key, ()):
                missing[next_job.key] -= 1
                if not missing[next_job.key]:
                    at = now + next_job.wait_s
                    heapq.heappush(events, (at, 1, order[next_job.key], "ready", next_job, ""))
        waiting.sort(key=lambda item: item[0])
        left = []
        for number, ready, job in waiting:
            needs = (job.cores, job.memory, job.gpus)
            fits = [
                name
                for name, has in free.items()
                if all(need <= have + 1e-6 for need, have in zip(needs, has, strict=True))
            ]
            if not fits:
                left.append((number, ready, job))
                continue
            where = max(fits, key=lambda name: (free[name][0], name))
            for place, amount in enumerate(needs):
                free[where][place] -= amount
            first = where not in used
            used.add(where)
            end = now + job.seconds + (job.node_first_s if first else 0.0)
            placed[job.key] = Placed(ready, now, end, where, first)
            heapq.heappush(events, (end, 0, number, "end", job, where))
        waiting = left
    if len(placed) < len(jobs):
        raise ValueError("jobs that fit nowhere, or wait for each other")
    return placed


def makespan(jobs: Sequence[Job], nodes: Sequence[Node]) -> float:
    """Give the seconds until the last job ends."""
    return max(made.end_s for made in schedule(jobs, nodes).values())


def as_rows(
    jobs: Sequence[Job], placed: Mapping[tuple[str, int], Placed]
) -> list[tuple[Job, Placed]]:
    """Pair jobs with where they ran, in the order in which they started."""
    return sorted(
        ((job, placed[job.key]) for job in jobs), key=lambda pair: (pair[1].start_s, pair[0].key)
    )
