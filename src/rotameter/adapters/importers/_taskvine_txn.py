"""The transactions log: what became of each task and each worker, line after line.

Each attempt of a task goes READY (WAITING in older versions), RUNNING, WAITING_RETRIEVAL,
RETRIEVED, DONE; a worker that leaves takes its attempts along, and READY comes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rotameter.adapters.importers._nextflow_columns import Columns
from rotameter.adapters.importers._taskvine_lines import (
    Cut,
    amount,
    dicts,
    duration_s,
    outcome_of,
    size_bytes,
    time_ns,
)

__all__ = ["Attempt", "Log", "Worker"]

_TASK_EVENTS = ("READY", "WAITING", "RUNNING", "WAITING_RETRIEVAL", "RETRIEVED", "DONE")
_CANCELLED = ("CANCELED", "CANCELLED")
_WISHED = ("IDLE_OUT", "EXPLICIT", "STATUS_WORKER")
_RESOURCES = ("cores", "memory", "disk", "gpus", "wall_time")
_NAMES = ("worker", "object")
_NOTHING: Mapping[str, float] = MappingProxyType({})
_KEPT = 20_000
_MONITORED = (
    "cpu_time",
    "virtual_memory",
    "bytes_read",
    "max_concurrent_processes",
    "machine_cpus",
)


@dataclass(slots=True)
class Attempt:
    """One attempt; None is unknown."""

    ready_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    wall_s: float | None = None
    category: str | None = None
    worker: str | None = None
    requested: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    granted: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    measured: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    monitored: bool = False
    exit_code: int | None = None
    outcome: str | None = None
    inferred: bool = False
    error: str = ""
    state: str = "WAITING"


@dataclass(slots=True)
class Worker:
    """One worker's life."""

    name: str
    address: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    reason: str | None = None
    cores: float | None = None
    memory: float | None = None
    gpus: float | None = None


@dataclass
class Log:
    """What a transactions log says, as far as it was read."""

    source: str
    tasks: dict[str, list[Attempt]] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    here: dict[str, Worker] = field(default_factory=dict)
    libraries: dict[str, dict[str, int]] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    leaves: list[tuple[int, str | None, str]] = field(default_factory=list)
    joins: list[tuple[int, str]] = field(default_factory=list)
    transfers: Columns = field(default_factory=lambda: Columns("flows", late=_NAMES))
    objects: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    closed: bool = False
    work_queue: bool = False
    merged: int = 0
    _same: dict[tuple[tuple[str, float], ...], dict[str, float]] = field(default_factory=dict)

    def line(self, text: str) -> None:
        """Take one line.

        Raises
        ------
        Cut
            If it is not whole or no record of this kind of log.
        """
        words = text.split(maxsplit=5)
        at = time_ns(words[0]) if words else None
        if at is None or len(words) < 4 or not words[1].isdigit():
            raise Cut("not: time pid SUBJECT …")
        subject, rest = words[2], words[3:]
        if subject in ("MANAGER", "MASTER"):
            self._manager(subject, rest)
        elif subject == "TASK":
            self._task(at, rest)
        elif subject == "WORKER":
            self._worker(at, rest)
        elif subject == "LIBRARY":
            self._library(at, rest)
        elif subject in ("CATEGORY", "APPLICATION", "TRANSFER"):
            self.events[subject] += 1
        else:
            raise Cut(f"no subject of this log: {subject[:40]}")
        self.first_ns = at if self.first_ns is None else min(at, self.first_ns)
        self.last_ns = at if self.last_ns is None else max(at, self.last_ns)

    def _manager(self, subject: str, rest: list[str]) -> None:
        self.work_queue = self.work_queue or subject == "MASTER"
        event = next((word for word in rest if word in ("START", "END")), None)
        if event is None:
            raise Cut(f"{subject} neither STARTs nor ENDs")
        self.events[f"{subject} {event}"] += 1
        self.closed = event == "END"

    # -- tasks ------------------------------------------------------------------------------

    def _task(self, at: int, rest: list[str]) -> None:
        if len(rest) < 2 or not rest[0].isdigit():
            raise Cut("TASK without an id or an event")
        key, event, more = rest[0], rest[1], rest[2] if len(rest) > 2 else ""
        if event in ("READY", "WAITING"):
            self._ready(at, key, more)
        elif event == "RUNNING":
            self._running(at, key, more)
        elif event == "WAITING_RETRIEVAL":
            if not more.strip():
                raise Cut("WAITING_RETRIEVAL without a worker")
            attempt = self._current(key)
            attempt.ended_ns, attempt.state = at, event
        elif event in ("RETRIEVED", "DONE"):
            self._result(at, key, event, more)
        elif event in _CANCELLED:
            attempt = self._current(key)
            attempt.outcome, attempt.state = "cancelled", event
            attempt.ended_ns = attempt.ended_ns or (at if attempt.started_ns else None)
        elif len(event) < len("UNKNOWN") and any(e.startswith(event) for e in _TASK_EVENTS):
            raise Cut(f"TASK with half an event: {event}")
        self.events[f"TASK {event[:40]}"] += 1

    def _current(self, key: str) -> Attempt:
        """Give the attempt that a line is about; the first line about a task makes one."""
        if key not in self.tasks:
            self.tasks[key] = [Attempt()]
        else:
            self.merged += 1
        return self.tasks[key][-1]

    def _new(self, at: int, key: str) -> Attempt:
        """Begin an attempt; one before it that did not end is over."""
        attempts = self.tasks.setdefault(key, [])
        if attempts and attempts[-1].outcome is None:
            self._over(attempts[-1], at)
        attempts.append(Attempt())
        return attempts[-1]

    def _over(self, attempt: Attempt, at: int) -> None:
        """Close an attempt that never gave a result: its worker left, or it was taken back."""
        attempt.outcome, attempt.inferred = "rescheduled", True
        life = next((w for w in reversed(self.workers) if w.name == attempt.worker), None)
        left = life is not None and life.ended_ns is not None
        if left and life is not None and (attempt.started_ns or 0) <= (life.ended_ns or 0):
            attempt.error = f"worker left: {life.reason}"
            attempt.ended_ns = life.ended_ns
            if life.reason != "FAST_ABORT":
                attempt.outcome = "worker_lost"
        elif attempt.started_ns is not None:
            attempt.ended_ns = attempt.ended_ns or at

    def _ready(self, at: int, key: str, more: str) -> None:
        words, found = dicts(more)
        if not words:
            raise Cut("READY without a category")
        before = self.tasks.get(key)
        if before and before[-1].state == "WAITING" and before[-1].outcome is None:
            attempt = self._current(key)
        else:
            attempt = self._new(at, key)
        attempt.ready_ns = at if attempt.ready_ns is None else attempt.ready_ns
        attempt.category = words[0]
        attempt.requested = self._shared(_amounts(found[0])) if found else _NOTHING

    def _running(self, at: int, key: str, more: str) -> None:
        words, found = dicts(more)
        if not words:
            raise Cut("RUNNING without a worker")
        before = self.tasks.get(key)
        if before and before[-1].started_ns is None and before[-1].outcome is None:
            attempt = self._current(key)
        else:
            attempt = self._new(at, key)
            if before is not None and len(before) > 1:
                attempt.category = before[-2].category
                attempt.requested = before[-2].requested
        attempt.started_ns, attempt.worker, attempt.state = at, words[0], "RUNNING"
        attempt.granted = self._shared(_amounts(found[0])) if found else _NOTHING

    def _result(self, at: int, key: str, event: str, more: str) -> None:
        words, found = dicts(more)
        if not words:
            raise Cut(f"{event} without a result")
        attempt = self._current(key)
        attempt.state = event
        if len(words) > 1 and words[1].lstrip("-").isdigit() and len(words[1]) < 12:
            attempt.exit_code = int(words[1])
        limits, measured = (*found, {}, {})[:2]
        attempt.outcome, attempt.error = outcome_of(words[0], attempt.exit_code, limits)
        if measured:
            self._measured(attempt, measured)
        if attempt.started_ns is not None and attempt.ended_ns is None:
            attempt.ended_ns = at

    def _measured(self, attempt: Attempt, measured: Mapping[str, Any]) -> None:
        attempt.measured = _amounts(measured)
        attempt.monitored = any(name in measured for name in _MONITORED)
        for name in ("size_input_mgr", "size_output_mgr", "vine_input_size", "vine_output_size"):
            size = amount(measured, name)
            if size is not None:
                kind = "received" if "input" in name else "sent"
                attempt.measured = {**attempt.measured, kind: size}
        attempt.measured = self._shared(attempt.measured)
        attempt.wall_s = amount(measured, "wall_time") or attempt.wall_s
        start = amount(measured, "time_worker_start") or amount(measured, "start")
        end = amount(measured, "time_worker_end") or amount(measured, "end")
        if start and end and 1e8 < start <= end < 7e9:
            attempt.started_ns, attempt.ended_ns = _us(start), _us(end)

    def _shared(self, amounts: Mapping[str, float]) -> Mapping[str, float]:
        """Give one mapping for equal ones: most tasks ask for the same."""
        key = tuple(amounts.items())
        if len(self._same) > _KEPT:
            self._same.clear()
        return self._same.setdefault(key, dict(key))

    # -- workers, libraries ---------------------------------------------------------------------

    def _worker(self, at: int, rest: list[str]) -> None:
        if len(rest) < 2:
            raise Cut("WORKER without an event")
        name, event, more = rest[0], rest[1], rest[2] if len(rest) > 2 else ""
        if event == "RESOURCES":
            self._resources(name, more)
        elif event == "CONNECTION" or more.split(maxsplit=1)[:1] == ["CONNECTION"]:
            # Work Queue: worker, address, event; TaskVine: worker, event, address.
            address = more if event == "CONNECTION" else event
            worker = Worker(name, address.strip()[:200] or None, at)
            self.workers.append(worker)
            self.here[name] = worker
            self.joins.append((at, name))
            event = "CONNECTION"
        elif event == "DISCONNECTION" or more.split(maxsplit=1)[:1] == ["DISCONNECTION"]:
            words = more.split()
            reason = words[-1] if words and words[-1] != "DISCONNECTION" else "UNKNOWN"
            self._gone(at, name, reason)
            event = "DISCONNECTION"
        elif event == "TRANSFER":
            self._transfer(name, more.split())
        elif event == "CACHE_UPDATE":
            self._cached(more.split())
        else:
            raise Cut(f"no event of a worker: {event[:40]}")
        self.events[f"WORKER {event}"] += 1

    def _life(self, name: str) -> Worker:
        if name not in self.here:
            self.here[name] = Worker(name)
            self.workers.append(self.here[name])
        return self.here[name]

    def _resources(self, name: str, more: str) -> None:
        _, found = dicts(more)
        if not found:
            raise Cut("RESOURCES without resources")
        worker = self._life(name)
        worker.cores = amount(found[0], "cores") or worker.cores
        worker.memory = amount(found[0], "memory") or worker.memory
        gpus = amount(found[0], "gpus")
        worker.gpus = worker.gpus if gpus is None else gpus

    def _gone(self, at: int, name: str, reason: str) -> None:
        # One that never said its name is "(null)".
        known = name if name != "(null)" else None
        self.leaves.append((at, known, reason))
        if known is not None:
            worker = self._life(known)
            worker.ended_ns, worker.reason = at, reason
            del self.here[known]

    def _transfer(self, worker: str, words: list[str]) -> None:
        if len(words) < 4:
            raise Cut("TRANSFER without a file, size and time")
        first, busy = time_ns(words[4]) if len(words) > 4 else None, duration_s(words[3])
        last = first + round(busy * 1e9) if first is not None and busy is not None else None
        self.transfers.add(
            {
                "worker": worker,
                "op": "receive" if words[0] == "INPUT" else "send",
                "object": words[1],
                "medium": "network",
                "peer": "manager",
                "bytes": size_bytes(words[2]),
                "busy_s": busy,
                "first_ns": first,
                "last_ns": last,
            }
        )

    def _cached(self, words: list[str]) -> None:
        if len(words) < 2:
            raise Cut("CACHE_UPDATE without a file and size")
        size = size_bytes(words[1])
        start = time_ns(words[3]) if len(words) > 3 else None
        if size is None:
            raise Cut("CACHE_UPDATE with no size")
        before, made = self.objects.get(words[0], (0, None))
        starts = [s for s in (made, start) if s is not None]
        self.objects[words[0]] = (max(size, before), min(starts, default=None))

    def _library(self, at: int, rest: list[str]) -> None:
        if len(rest) < 2:
            raise Cut("LIBRARY without an event")
        self.libraries.setdefault(rest[0], {}).setdefault(rest[1][:40], at)
        self.events[f"LIBRARY {rest[1][:40]}"] += 1

    # -- the end --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Close what the log left open where a worker's leaving tells the end."""
        gone = {w.name: w for w in self.workers if w.ended_ns is not None}
        for attempts in self.tasks.values():
            last = attempts[-1]
            worker = gone.get(last.worker or "")
            if last.outcome is not None or last.state != "RUNNING" or worker is None:
                continue
            left = worker.ended_ns or 0
            if worker.name not in self.here and (last.started_ns or 0) <= left:
                self._over(last, left)


def wished(reason: str) -> bool:
    """Say whether a worker left as it should."""
    return reason in _WISHED


def _us(seconds: float) -> int:
    return round(seconds * 1e6) * 1000


def _amounts(found: Mapping[str, Any]) -> dict[str, float]:
    made = {name: amount(found, name) for name in _RESOURCES}
    made["cpu_time"] = amount(found, "cpu_time")
    return {name: value for name, value in made.items() if value is not None}
