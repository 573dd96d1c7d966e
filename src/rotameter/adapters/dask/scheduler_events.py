"""What happens on a scheduler besides tasks: workers, pauses, settings, counts, totals."""

from __future__ import annotations

import time
from typing import Any

from rotameter.adapters.dask import _compat
from rotameter.adapters.dask.deaths import Deaths
from rotameter.adapters.dask.names import (
    EXIT_TOPIC,
    FAULT_TOPIC,
    NOT_STARTED_TOPIC,
    closing_reason,
    emit,
    group_of,
    removal_reason,
)
from rotameter.adapters.dask.tally import Tally
from rotameter.adapters.dask.unrunnable import Unrunnable
from rotameter.profiler.live.recorder import Recorder
from rotameter.profiler.live.redact import clean_name

__all__ = ["SchedulerEvents"]

_WORKER = (
    "worker",
    "host",
    "name",
    "pid",
    "started_ns",
    "ended_ns",
    "end_reason",
    "cores",
    "memory_bytes",
)
_SETTINGS = (
    "distributed.scheduler.worker-saturation",
    "distributed.scheduler.allowed-failures",
    "distributed.scheduler.work-stealing",
    "distributed.scheduler.rootish-taskgroup",
    "distributed.worker.memory.target",
    "distributed.worker.memory.spill",
    "distributed.worker.memory.pause",
    "distributed.worker.memory.terminate",
)
_SAMPLE = ("at_ns", "subject", "metric", "value", "quality")


def _cause(reason: Any) -> str | None:
    """Give why something did not start: an error's text as another process tells it."""
    return None if reason is None else clean_name(str(reason))


class SchedulerEvents:
    """Records of one scheduler that belong to no single task.

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The scheduler.
    recorder : Recorder
        Where rows go.
    deaths : Deaths
        Is told of removals and exits.
    tally : Tally
        Is told of faults on workers.
    """

    def __init__(self, scheduler: Any, recorder: Recorder, deaths: Deaths, tally: Tally) -> None:
        self.tally = tally
        self.scheduler = scheduler
        self.recorder = recorder
        self.deaths = deaths
        self._samples = recorder.channel("samples", _SAMPLE)
        self._workers = recorder.channel("workers", _WORKER)
        self._started: dict[str, tuple[Any, int]] = {}
        self._unsaid: dict[str, tuple[Any, int, int]] = {}
        deaths.said = self._said
        self._unrunnable = Unrunnable(scheduler, recorder)
        self._stolen: dict[str, int] = {}
        self._counts: dict[str, float] = {}

    # ------------------------------------------------------------------ workers

    def worker_added(self, address: str) -> None:
        """Note a worker that is there or has come."""
        state, at_ns = self.scheduler.workers[address], time.time_ns()
        self._started[address] = (state, at_ns)
        self.deaths.knows(address, state)
        emit(
            self.recorder,
            "worker_added",
            at_ns,
            subject=address,
            worker=address,
            host=state.host,
            count=state.nthreads,
            limit_bytes=state.memory_limit or None,
        )
        self._row(address, state, at_ns)

    def worker_greeted(self, address: str) -> None:
        """Write what a worker has said of itself; its end may never be told."""
        known = self._started.get(address)
        if known is not None:
            self._row(address, *known)

    def _row(
        self,
        address: str,
        state: Any,
        started_ns: int,
        ended_ns: int | None = None,
        end_reason: str | None = None,
    ) -> None:
        """Write one row of a worker's life; the reader merges them column by column."""
        hello = self.deaths.greeted.get(address)
        host = hello.host if hello else None
        if host is None and ended_ns is not None:
            host = state.host
        row = (
            address,
            host,
            clean_name(str(getattr(state, "name", address))),
            hello.pid if hello else None,
            started_ns,
            ended_ns,
            end_reason,
            float(state.nthreads),
            state.memory_limit or None,
        )
        self._workers.add(row)

    def worker_ended(self, address: str, reason: str | None) -> None:
        """Write the row of a worker's life; None for the end of the trace."""
        known = self._started.pop(address, None)
        if known is None:
            return
        if address in self.deaths.unsaid:
            self._unsaid[address] = (*known, time.time_ns())
            return
        if reason is None:
            why: str | None = "trace ended"
        else:
            why = self.deaths.reasons.pop(address, None) or removal_reason(reason)
        self._row(address, *known, time.time_ns(), why)

    def _said(self, address: str, reason: str | None) -> None:
        """Write the row of a worker whose end took a while to explain."""
        known = self._unsaid.pop(address, None)
        if known is not None:
            self._row(address, *known, reason)

    # ------------------------------------------------------------------ distributed's own events

    def event(self, topic: str, msg: Any) -> None:
        """Read one event that distributed or one of our plug-ins has logged."""
        at_ns = time.time_ns()
        if topic == "stealing":
            for entry in msg if isinstance(msg, list) else [msg]:
                if entry and entry[0] == "confirm":
                    self._stolen[entry[4]] = self._stolen.get(entry[4], 0) + 1
        elif topic == EXIT_TOPIC:
            self.deaths.exited(msg)
        elif topic == "worker-restart-memory":
            self._memory_kill(msg, at_ns)
        elif topic == NOT_STARTED_TOPIC:
            reason = _cause(msg.get("reason"))
            self.tally.note(f"a {msg.get('role')} that could not be traced", str(reason))
            text = f"tasks on one {msg.get('role')}"
            emit(self.recorder, "not_measured", at_ns, text=text, reason=reason)
        elif topic == FAULT_TOPIC:
            self.tally.word(msg["worker"], msg.get("errors", 0), msg.get("first_error"))
        elif topic == "all" and msg.get("action") == "remove-worker":
            self.deaths.removed(msg)
        elif topic == "scheduler" and msg.get("action") == "update-graph":
            metrics = msg.get("metrics") or {}
            emit(
                self.recorder,
                "graph_submitted",
                at_ns,
                count=metrics.get("new_tasks"),
                duration_s=metrics.get("duration_seconds"),
                text=msg.get("status"),
            )
        elif msg.get("action") == "worker-status-change":
            self._status(topic, msg, at_ns)
        elif msg.get("action") == "closing-worker":
            # The worker's own last word, on its own stream: it comes before the stream's end.
            self.deaths.closing(topic, closing_reason(msg.get("reason")))

    def _memory_kill(self, msg: dict[str, Any], at_ns: int) -> None:
        worker = msg.get("worker")
        state = self.scheduler.workers.get(worker)
        emit(
            self.recorder,
            "worker_memory_kill",
            at_ns,
            subject=worker,
            worker=worker,
            pid=msg.get("pid"),
            rss_bytes=msg.get("rss"),
            limit_bytes=getattr(state, "memory_limit", None) or None,
        )

    def _status(self, worker: str, msg: dict[str, Any], at_ns: int) -> None:
        before, after = msg.get("prev-status"), msg.get("status")
        if after == "paused":
            kind = "worker_paused"
        elif before == "paused" and after == "running":
            kind = "worker_resumed"
        else:
            return
        state = self.scheduler.workers.get(worker)
        emit(
            self.recorder,
            kind,
            at_ns,
            subject=worker,
            worker=worker,
            limit_bytes=getattr(state, "memory_limit", None) or None,
        )

    # ------------------------------------------------------------------ counts, settings, totals

    def tick(self) -> None:
        """Take the scheduler's counts, twice a second, from the recorder's thread."""
        scheduler, at_ns = self.scheduler, time.time_ns()
        values = {
            "tasks": len(scheduler.tasks),
            "queued": len(scheduler.queued),
            "no_worker": len(scheduler.unrunnable),
            "processing": sum(len(w.processing) for w in list(scheduler.workers.values())),
            "workers": len(scheduler.workers),
        }
        for name, value in values.items():
            if self._counts.get(name) != value:
                self._counts[name] = value
                self._samples.add((at_ns, "scheduler", name, float(value), None))
        self._unrunnable.tick(at_ns)
        stolen, self._stolen = self._stolen, {}
        for worker, count in stolen.items():
            emit(self.recorder, "tasks_stolen", at_ns, subject=worker, worker=worker, count=count)

    def settings(self) -> None:
        """Write the settings that findings need."""
        import dask

        at_ns = time.time_ns()
        for name in _SETTINGS:
            value = dask.config.get(name, None)
            text = None if value is None else str(value)
            try:
                number = None if value is None else float(value)
            except (TypeError, ValueError):
                number = None
            emit(self.recorder, "setting", at_ns, subject=name, text=text, value=number)

    def end(self) -> None:
        """Write what is known only at the end: workers that live on, and the cluster's totals."""
        for address in list(self._started):
            self.worker_ended(address, None)
        at_ns = time.time_ns()
        for key, value in _compat.fine_metrics(self.scheduler).items():
            if isinstance(key, tuple) and len(key) == 4 and isinstance(value, int | float):
                context, prefix, label, unit = (str(part) for part in key)
                metric = clean_name(f"fine/{context}/{clean_name(label)}/{unit}")
                self._samples.add((at_ns, group_of(prefix), metric, float(value), "total"))
