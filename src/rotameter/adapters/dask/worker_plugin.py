"""The worker's plug-in: one row per attempt, from the thread that ran it.

``distributed.worker._run_task`` is wrapped once a process (see ``worker_core``). What does not pass
through the wrap (process-pool executors, failures before a task began) is recorded from the
worker's state transitions, without measurements.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from rotameter.adapters.dask import _compat, slots, worker_core
from rotameter.adapters.dask.names import (
    EXIT_TOPIC,
    FAULT_TOPIC,
    FLUSH_OP,
    HELLO_OP,
    NOT_STARTED_TOPIC,
    PLUGIN,
    SLOTS_OP,
    emit,
    group_of,
    host_name,
    run_id_of,
    task_id_of,
)
from rotameter.adapters.dask.tally import guarded
from rotameter.adapters.dask.worker_attempts import Attempt, Attempts
from rotameter.adapters.dask.worker_flows import Arrivals
from rotameter.adapters.dask.worker_samples import WorkerSampler
from rotameter.profiler.live.redact import clip, first_line, redact

__all__ = ["WorkerTracer"]

_RAN = ("executing", "long-running", "cancelled", "resumed")
_PLAIN = (
    "task_id",
    "run_id",
    "group",
    "worker",
    "host",
    "started_ns",
    "ended_ns",
    "wall_s",
    "outcome",
    "outcome_kind",
    "error",
    "transfer_s",
    "spill_s",
    "received_bytes",
    "output_bytes",
    "source",
)
# The source sorts behind all others, so that every later row of the attempt takes precedence.
_EARLY = (
    "task_id",
    "run_id",
    "group",
    "worker",
    "host",
    "started_ns",
    "outcome",
    "outcome_kind",
    "source",
)
_WORD_TIMEOUT_S = 1.0
_LONG_NS = 2_000_000_000
_OUTCOMES = {"memory": "ok", "error": "failed", "rescheduled": "rescheduled"}


class WorkerTracer(Attempts, WorkerPlugin):
    """Traces one worker; made from plain data so that it can be shipped.

    Parameters
    ----------
    config : mapping
        ``level``, ``exact_peak``, ``keep_errors``, ``rows_limit``, ``prefix``, ``by_value``; all
        optional.
    """

    name = PLUGIN
    idempotent = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self._prefix = str(self.config.get("prefix") or "")
        super().__init__()
        self._facts: dict[str, Any] = {}
        self._sampler: WorkerSampler | None = None

    # ------------------------------------------------------------------ life

    @property
    def closed(self) -> bool:
        """Whether nothing is recorded, not yet or no more."""
        return self._closed

    def setup(self, worker: Any) -> None:
        """Start tracing; on any error the worker goes on untraced and says why."""
        try:
            self._setup(worker)
        except Exception as error:
            reason = first_line(error)
            self._close_ways()
            with contextlib.suppress(Exception):
                self.core.leave(self)
            with contextlib.suppress(Exception):
                worker.log_event(NOT_STARTED_TOPIC, {"role": "worker", "reason": reason})

    def _setup(self, worker: Any) -> None:
        self.worker = worker
        _compat.forget_preload()
        core = self.core = worker_core.join(self)
        self.recorder = core.recorder
        self._session = core.session
        self._slots = core.slots
        self._plain = core.recorder.channel("tasks", _PLAIN)
        self._early = core.recorder.channel("tasks", _EARLY)
        self.arrivals = Arrivals(worker, core.recorder, self._prefix)
        self._sampler = WorkerSampler(worker, core.recorder, shared=not core.own_process)
        observe = guarded(self.arrivals.observe, self._failed)
        _compat.tap_log(worker, "transfer_incoming_log", observe)
        worker.handlers[FLUSH_OP] = self.finish
        worker.handlers[SLOTS_OP] = self.read_slots
        self._open_ways()
        self._settings()
        guarded(self._sample_now, self._failed)()  # what the worker holds before any task does
        message = {
            "op": HELLO_OP,
            "origin": core.origin,
            "host": host_name(),
            "pid": os.getpid(),
            "slots": self._slots.path if self._slots is not None else None,
        }
        worker.batched_send(message)

    def _settings(self) -> None:
        worker, at_ns = self.worker, time.time_ns()
        fractions = _compat.memory_fractions(worker)
        values = {f"distributed.worker.memory.{k}": v for k, v in fractions.items()}
        values["nthreads"] = float(worker.state.nthreads)
        for name, value in values.items():
            emit(
                self.recorder,
                "setting",
                at_ns,
                subject=name,
                worker=worker.address,
                text=str(value),
                value=value,
            )

    async def teardown(self, worker: Any) -> None:
        """Stop tracing and leave the worker as it was."""
        if getattr(worker.status, "name", "") == "closing" and _loop_ends():
            # A worker without a nanny that gets a signal: its stream is broken already.
            with contextlib.suppress(AttributeError):  # it could not be traced
                self.core.keep_slots = bool(self._open)
            said = {"worker": worker.address, "closing": True, "word": True, "reason": "signal-"}
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_WORD_TIMEOUT_S):
                    await worker.scheduler.log_event(topic=EXIT_TOPIC, msg=said)
        await self._close(closing=getattr(worker.status, "name", "") not in ("running", "paused"))
        for op in (FLUSH_OP, SLOTS_OP):
            worker.handlers.pop(op, None)

    async def finish(self) -> dict[str, Any]:
        """Write everything and say how many messages were sent (a handler of the worker)."""
        await self._close(closing=False)
        return self._facts

    async def _close(self, *, closing: bool) -> None:
        if self._closed:
            return
        self._close_ways()
        core = self.core
        for step in (self._untap, self._sample_now, self._record_errors):
            guarded(step, self._failed)()
        try:
            self._record_open("worker_lost" if closing else "running")
        except Exception as error:
            self._failed(error)
        try:
            await asyncio.to_thread(core.leave, self)
        except Exception as error:
            self._failed(error)
            with contextlib.suppress(ValueError):
                core.link.workers.remove(self.worker)  # nothing may be sent after the end
        self._take_shared_faults()
        self._facts = {
            "origin": core.origin,
            "batches": core.link.sent,
            "lost_batches": core.link.lost,
            "dropped": core.recorder.records_dropped,
            "errors": self.errors,
            "first_error": self._first_error,
        }
        if closing and self.errors:
            self._tell_faults(self.errors)  # nobody asks this one any more

    def _take_shared_faults(self) -> None:
        count, first = self.core.take_faults()
        self.errors += count
        self._first_error = self._first_error or first

    def _tell_first(self) -> None:
        self._tell_faults(1)

    def _tell_faults(self, count: int) -> None:
        """Tell the scheduler of faults (any thread)."""
        with contextlib.suppress(Exception):
            first = self._first_error or self.core.first_fault
            said = {"worker": self.worker.address, "errors": count, "first_error": first}
            self.worker.log_event(FAULT_TOPIC, said)

    def stop_recording(self) -> None:
        """Record what still runs and nothing more; the event loop has ended (any thread)."""
        self._close_ways()
        with contextlib.suppress(Exception):
            self._untap()
            self._record_open("running")

    def _untap(self) -> None:
        _compat.untap_log(self.worker, "transfer_incoming_log")

    def _sample_now(self) -> None:
        self.sample(self._session.sample_rss())

    def _record_errors(self) -> None:
        if self.errors:
            emit(
                self.recorder,
                "hook_error",
                time.time_ns(),
                worker=self.worker.address,
                text=f"{self.errors} errors in the worker's hooks",
                reason=self._first_error,
            )

    def sample(self, rss_bytes: int | None) -> None:
        """Record this worker's memory and spill."""
        if self._sampler is not None:
            self._sampler.sample(rss_bytes)
        if not self._closed:
            self._tell_long(time.time_ns())

    def _tell_long(self, now_ns: int) -> None:
        """Say once of an attempt that runs for long that it does: its end may never be told."""
        for attempt in list(self._open.values()):
            if attempt.told or now_ns - attempt.started_ns < _LONG_NS:
                continue
            attempt.told = True
            self._early.add(
                (
                    attempt.task_id,
                    run_id_of(self._prefix, attempt.run_id),
                    attempt.group,
                    self.worker.address,
                    host_name(),
                    attempt.started_ns,
                    "running",
                    "reported",
                    "early",
                )
            )

    def read_slots(self, path: str, pid: int) -> dict[str, Any] | None:
        """Read a dead sibling's slots for the scheduler (a handler of the worker)."""
        inside = os.path.dirname(os.path.realpath(path)) == os.path.realpath(slots.folder())
        read = slots.read_slots(path, pid) if inside else None
        return None if read is None else read.as_message()

    # ------------------------------------------------------------------ attempts

    def _record_open(self, outcome: str) -> None:
        """Record what still runs; its thread's CPU time cannot be read from here."""
        ended_ns = time.time_ns() if outcome == "worker_lost" else None
        for attempt in list(self._open.values()):
            if self._open.pop(attempt.run_id, None) is None or attempt.running is None:
                continue
            attempt.running.cpu_ns = None
            # Dask lets a task that nobody wants any more run on.
            given_up = getattr(attempt.task, "state", None) == "cancelled"
            self._session.end(
                attempt.running,
                "cancelled" if given_up and outcome == "running" else outcome,
                worker=self.worker.address,
                started_ns=attempt.started_ns,
                ended_ns=ended_ns,
                wall_s=None,
                transfer_s=None,
                received_bytes=None,
                spill_s=None,
                output_bytes=None,
            )

    def _add_plain(
        self, attempt: Attempt, outcome: str, error: str | None, columns: Mapping[str, Any]
    ) -> None:
        values = {
            "task_id": attempt.task_id,
            "run_id": run_id_of(self._prefix, attempt.run_id),
            "group": attempt.group,
            "worker": self.worker.address,
            "host": host_name(),
            "outcome": outcome,
            "outcome_kind": "reported",
            "error": error,
            "source": "worker",
            **columns,
        }
        self._plain.add(tuple(values.get(name) for name in _PLAIN))

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        """Record an attempt that did not pass through the wrap (event loop)."""
        if self._closed:
            return
        if start not in _RAN:
            if (finish == "released" or finish == "forgotten") and self.arrivals.waiting:
                try:
                    self.arrivals.forget(key)
                except Exception as error:
                    self._failed(error)
            return
        try:
            state = self._task_of(key)
            if state is None:
                return
            run_id = state.run_id
            if run_id in self._done:
                self._done.discard(run_id)
                if state.startstops and state.startstops[-1]["action"] == "disk-write":
                    self.arrivals.disk(key, run_id, state.startstops[-1])
            elif finish in _OUTCOMES and run_id not in self._open:
                self._record_unwrapped(key, state, finish)
        except Exception as error:
            self._failed(error)

    def _record_unwrapped(self, key: Any, state: Any, finish: str) -> None:
        began = state.start_time
        started_ns = int(began * 1e9) if began else time.time_ns()
        attempt = Attempt(key, state, task_id_of(key), group_of(state.prefix), started_ns)
        delay = self.worker.scheduler_delay
        transfer_s, received = self.arrivals.take(key)
        columns: dict[str, Any] = {
            "started_ns": attempt.started_ns,
            "ended_ns": time.time_ns(),
            "transfer_s": transfer_s,
            "received_bytes": received,
            "output_bytes": state.nbytes if finish == "memory" else None,
            "spill_s": self._disk_read_s(attempt, state),
        }
        for item in state.startstops:
            if item["action"] == "compute":
                columns["started_ns"] = int((item["start"] - delay) * 1e9)
                columns["ended_ns"] = int((item["stop"] - delay) * 1e9)
                columns["wall_s"] = item["stop"] - item["start"]
        outcome, error = _OUTCOMES[finish], None
        if finish == "error":
            error = clip(redact(str(state.exception_text).split("\n", 1)[0]))
            outcome = "oom" if error.startswith("MemoryError") else outcome
        self._add_plain(attempt, outcome, error, columns)


def _loop_ends() -> bool:
    """Tell whether the event loop ends under the worker: what runs in it is being cancelled."""
    return any(task.cancelling() for task in asyncio.all_tasks())
