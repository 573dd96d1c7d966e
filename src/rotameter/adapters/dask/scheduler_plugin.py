"""The scheduler's plug-in: ready times, dependencies, lost attempts, events; and the hub.

Attempts are known by key and ``run_id``. A row is written when a task leaves "processing"; the
worker's own row of the same attempt takes precedence column by column. What never began on a
worker (stolen, cancelled, merely queued there) is not an attempt and gets no row.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

from rotameter.adapters.dask import _compat, leave
from rotameter.adapters.dask.deaths import Deaths, Hello
from rotameter.adapters.dask.early import Early
from rotameter.adapters.dask.hub import Hub
from rotameter.adapters.dask.names import (
    ACK_OP,
    END_OP,
    FINISH_OP,
    FLUSH_OP,
    HELLO_OP,
    HUB_OP,
    PLUGIN,
    RECORDS_OP,
    emit,
    group_of,
    machine_facts,
    origin_of,
    run_id_of,
    run_prefix,
    task_id_of,
)
from rotameter.adapters.dask.origin import Origins
from rotameter.adapters.dask.scheduler_events import SchedulerEvents
from rotameter.adapters.dask.tally import Tally, guarded
from rotameter.adapters.dask.transport import SegmentStore, pieces
from rotameter.profiler.live.recorder import ROWS_LIMIT, CallSink, Recorder
from rotameter.profiler.live.redact import clip, first_line, redact

__all__ = ["SchedulerTracer"]

_WHO = "the scheduler"
ATTEMPT = (
    "task_id",
    "run_id",
    "group",
    "worker",
    "host",
    "submitted_ns",
    "ready_ns",
    "started_ns",
    "ended_ns",
    "wall_s",
    "outcome",
    "outcome_kind",
    "error",
    "output_bytes",
    "source",
)


class SchedulerTracer(SchedulerPlugin):
    """Traces one scheduler; made from plain data so that it can be shipped.

    Parameters
    ----------
    config : mapping
        ``folder`` (write here, no client is wanted), ``keep_errors``, ``rows_limit``; all optional.
    """

    name = PLUGIN
    idempotent = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.scheduler: Any = None
        self.tally = Tally()
        self._closed = False
        self._submitted: dict[Any, int] = {}
        self._ready: dict[Any, int] = {}
        self._stimulus: Any = None
        self._now_ns = 0
        self._holder: str | None = None
        self._removed = False
        self._hosts: dict[Any, str] = {}

    # ------------------------------------------------------------------ life

    async def start(self, scheduler: Any) -> None:
        """Start tracing; never raises."""
        if self.scheduler is not None:
            return  # a scheduler starts the plug-ins of its preloads once more
        try:
            self._start(scheduler)
        except Exception as error:
            self._failed(error)

    def _start(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        folder = self.config.get("folder")
        store = SegmentStore(folder) if folder else None
        self.hub = Hub(self._send, store, trace=self.config.get("trace"))
        self.origin = origin_of("scheduler")
        self._seq = 0
        self._outbox: deque[bytes] = deque()
        self.bind(CallSink(self._queue))
        handlers = {HUB_OP: self.hub_call, FINISH_OP: self.finish}
        streams = {
            RECORDS_OP: self._receive,
            HELLO_OP: self._hello,
            ACK_OP: self._acknowledge,
        }
        scheduler.handlers.update(handlers)
        scheduler.stream_handlers.update(streams)
        for address in scheduler.workers:
            self.events.worker_added(address)
        self.events.settings()

    def bind(self, sink: Any) -> None:
        """Open the recorder and its channels on a sink."""
        meta = {
            "role": "scheduler",
            **machine_facts(),
            "engine": "dask",
            "start_ns": time.time_ns(),
            "by_value": bool(self.config.get("by_value")),
            "not_measured": _compat.missing(),
        }
        limit = int(self.config.get("rows_limit") or ROWS_LIMIT)
        self.recorder = Recorder(sink, meta, rows_limit=limit, on_error=self._failed)
        self.recorder.on_fault = self._failed
        self._high = limit // 2
        self._prefix = run_prefix(getattr(self.scheduler, "id", None))
        self._attempts = self.recorder.channel("tasks", ATTEMPT)
        self._deps = self.recorder.channel("deps", ("task_id", "depends_on"))
        self.origins = Origins(self.recorder, redact)
        self.deaths = Deaths(self.scheduler, self.recorder, self._when, self._prefix)
        self.events = SchedulerEvents(self.scheduler, self.recorder, self.deaths, self.tally)
        early = Early(self.scheduler, self.recorder, self._when, self._prefix)
        self.recorder.before_flush += [self.events.tick, early.tick]

    def _send(self, client: str, message: dict[str, Any]) -> None:
        try:
            _compat.send_to_client(self.scheduler, client, message)
        except Exception as error:
            if client in self.scheduler.clients:
                self._failed(error)
            raise

    def _queue(self, frames: bytes) -> None:
        for piece in pieces(frames):
            self._outbox.append(piece)
            self.scheduler.loop.add_callback(self._own)

    def _own(self) -> None:
        if not self._outbox:
            return
        piece = self._outbox.popleft()
        if self._removed:
            return
        self._seq += 1
        self._receive(origin=self.origin, seq=self._seq - 1, data=piece)

    # An exception in a handler of a stream would end the stream, and with it the worker.

    def _receive(self, *, origin: str, seq: int, data: bytes, **more: Any) -> None:
        try:
            if (self.scheduler.id, more.get("trace")) not in leave.ended:
                self.hub.receive(origin, seq, data)
        except Exception as error:
            self._failed(error)

    def _acknowledge(self, *, n: int, client: str, **_: Any) -> None:
        try:
            self.hub.acknowledge(n, client)
        except Exception as error:
            self._failed(error)

    def _hello(self, *, worker: str, origin: str, host: str, pid: int, **more: Any) -> None:
        try:
            self._hosts[worker] = host
            self.deaths.hello(worker, Hello(origin, host, pid, more.get("slots")))
            self.events.worker_greeted(worker)
        except Exception as error:
            self._failed(error)

    def hub_call(
        self, *, client: str, action: str, to: str | None = None
    ) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Attach a client, hand over to another, or go away (a handler of the scheduler)."""
        holder = self.hub.client
        if action == "remove":
            if holder in (client, None):
                if self._closing_steps():  # it did not end in an orderly way
                    self.scheduler.loop.add_callback(asyncio.to_thread, self.recorder.close)
                self._remove_handlers()
            return {"ok": self._closed, "holder": holder}
        if action == "evict":
            return self._evict()
        orphan = self._orphaned(client)
        if self._closed or orphan:
            reason = "the trace of this scheduler has ended"
            return {"ok": False, "reason": reason, "orphan": orphan}
        if self.hub.store is not None:
            reason = f"this scheduler writes its own trace ({self.hub.store.folder}, on its host)"
            return {"ok": False, "reason": reason, "holder": None}
        if action == "handover" and holder == client:
            self.hub.attach(str(to))
        elif action == "attach":
            if holder is not None and holder != client and holder in self.scheduler.clients:
                reason = f"another client traces this cluster already ({holder})"
                return {"ok": False, "reason": reason, "holder": holder}
            self.hub.attach(client)
        self._holder = self.hub.client
        return {"ok": True, "holder": self.hub.client, "prefix": self._prefix}

    def _orphaned(self, client: str) -> bool:
        """Tell whether the client that began this trace is gone: no other may get its records."""
        holder = self._holder
        return holder not in (None, client) and holder not in self.scheduler.clients

    async def _evict(self) -> dict[str, Any]:
        ended = self._orphaned("")
        if ended:
            await leave.abandon(self)
        return {"ok": ended}

    def _remove_handlers(self) -> None:
        self._removed = True
        for op in (HUB_OP, FINISH_OP):
            self.scheduler.handlers.pop(op, None)
        # Late messages of workers must find a handler: an unknown one ends their stream.
        leave.retire_streams(self.scheduler, (RECORDS_OP, HELLO_OP, ACK_OP), trace=self.hub.trace)

    def add_client(self, scheduler: Any, client: str) -> None:
        """Go on with a client that lost its connection and is back."""
        if client == self._holder and not self._closed:
            # Its stream is there once this call has returned.
            scheduler.loop.add_callback(self.hub.attach, client)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Keep records for a client that comes back; one that does not ends the trace."""
        self.hub.detach(client)
        if client == self._holder and not self._removed:
            with contextlib.suppress(Exception):
                scheduler.loop.call_later(leave.GRACE_S, self._not_back, client)

    async def _not_back(self, client: str) -> None:
        if client == self._holder and self._orphaned(""):
            await leave.abandon(self)

    async def finish(self, *, client: str, timeout_s: float = 10.0) -> dict[str, Any]:
        """Flush all workers, then ourselves, and wait until the client has it all (a handler)."""
        if self.hub.client not in (client, None):
            return {"ok": False, "holder": self.hub.client}
        deadline = time.monotonic() + timeout_s
        facts: dict[str, Any] = {"ok": True, "workers": 0, "missing": []}
        try:
            try:
                await self._finish_workers(deadline, facts)
            finally:
                await self._close()
            await self.hub.settle(self.origin, deadline)
            if self.hub.pending:
                facts["missing"].append(f"{self.hub.pending} batches on their way to the client")
        except Exception as error:
            self._failed(error)
            facts["missing"].append(first_line(error))
        facts["batches"] = self.hub.forwarded
        facts.update(self.tally.facts())
        return facts

    def drain(self, take: Callable[[str, int, bytes], None], *, held: bool = True) -> None:
        """Give away what is here, and what the hub holds, without the event loop (any thread)."""
        self._closing_steps()
        self.recorder.sink = CallSink(lambda frames: self._outbox.extend(pieces(frames)))
        self.recorder.close()
        if held:
            self.hub.drain(take)
        while self._outbox:
            take(self.origin, self._seq, self._outbox.popleft())
            self._seq += 1

    async def _finish_workers(self, deadline: float, facts: dict[str, Any]) -> None:
        workers = [w for w in self.deaths.hellos if w in self.scheduler.workers]
        answers: dict[str, Any] = {}
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                answers = await self.scheduler.broadcast(
                    msg={"op": FLUSH_OP}, workers=workers, on_error="ignore"
                )
        for worker in workers:
            answer = answers.get(worker)
            if not isinstance(answer, dict) or "batches" not in answer:
                facts["missing"].append(f"{worker} did not answer")
                guarded(self.deaths.unheard, self._failed)(worker)
                continue
            facts["workers"] += 1
            self.tally.word(worker, answer.get("errors", 0), answer.get("first_error"))
            origin, sent = answer["origin"], answer["batches"]
            while self.hub.received[origin] < sent and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            lost = sent - self.hub.received[origin] + answer.get("lost_batches", 0)
            if lost > 0:
                facts["missing"].append(f"{lost} batches of {worker}")

    async def before_close(self) -> None:
        """Pass on what there is before the scheduler stops; the workers are mostly gone by now."""
        with contextlib.suppress(Exception):
            client = self.hub.client
            if not self._closed and client is not None:
                facts = await self.finish(client=client, timeout_s=3.0)
                self._send(client, {"op": END_OP, "facts": facts})
            else:
                await self._close()

    async def close(self) -> None:
        """Close the hub."""
        with contextlib.suppress(Exception):
            await self._close()
            self.hub.close()

    async def _close(self) -> None:
        if self._closing_steps():
            await asyncio.to_thread(self.recorder.close)

    def _closing_steps(self) -> bool:
        if self._closed:
            return False
        self._closed = True
        for step in (self.deaths.settle_all, self.events.end, self._record_errors):
            guarded(step, self._failed)()
        return True

    def _record_errors(self) -> None:
        count, first = self.tally.of(_WHO)
        if self.hub.store is not None and self.tally.count:  # no client will write it
            facts = {"faults": self.tally.count, "first_fault": self.tally.first}
            self.recorder.channel("meta", ("value",)).add((facts,))
        if count:
            said = f"{count} errors in the scheduler's hooks"
            emit(self.recorder, "hook_error", time.time_ns(), text=said, reason=first)

    def _failed(self, error: BaseException) -> None:
        self.tally.note(_WHO, error)

    # ------------------------------------------------------------------ tasks

    def update_graph(self, scheduler: Any, *, client: str, tasks: list[Any], **kwargs: Any) -> None:
        """Note new tasks, their dependencies and where they come from."""
        if self._closed:
            return
        try:
            self._graph(scheduler, tasks)
        except Exception as error:
            self._failed(error)

    def _graph(self, scheduler: Any, tasks: list[Any]) -> None:
        at_ns = time.time_ns()
        submitted, states = self._submitted, scheduler.tasks
        add, rows, high = self._deps.add, self._deps.rows, self._high
        groups: dict[str, tuple[Any, int]] = {}
        for key in tasks:
            state = states.get(key)
            if state is None:
                continue
            again = key in submitted
            # A result that was let go of since is asked for anew.
            if not again or state.state == "released":
                submitted[key] = at_ns
            if again:
                continue
            prefix = group_of(state.prefix.name)
            known = groups.get(prefix)
            groups[prefix] = (state, 1) if known is None else (known[0], known[1] + 1)
            if state.dependencies:
                task_id = task_id_of(key)
                for other in state.dependencies:
                    add((task_id, task_id_of(other.key)))
                if len(rows) > high:
                    self.recorder.flush()
        self.origins.observe(scheduler, groups)

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, stimulus_id: str, **kwargs: Any
    ) -> None:
        """Note readiness and the end of attempts; six calls a task, most return at once."""
        if start == "processing":
            if finish != "processing" and not self._closed:
                try:
                    self._left_processing(key, finish, stimulus_id, kwargs)
                except Exception as error:
                    self._failed(error)
        elif start == "waiting":
            if finish == "processing" or finish == "queued" or finish == "no-worker":
                if stimulus_id is not self._stimulus:
                    self._stimulus = stimulus_id
                    self._now_ns = time.time_ns()
                self._ready[key] = self._now_ns
        elif finish == "forgotten":
            self._submitted.pop(key, None)
            self._ready.pop(key, None)

    def _left_processing(
        self, key: Any, finish: str, stimulus_id: str, kwargs: dict[str, Any]
    ) -> None:
        state = self.scheduler.tasks[key]
        started_ns = ended_ns = wall_s = error = None
        worker = kwargs.get("worker")
        if finish == "memory":
            outcome = "ok"
        elif finish == "erred":
            if worker is not None and worker not in self.scheduler.workers:
                return  # the fourth death in a row: told by the removal
            outcome = "failed"
            error = self._error_text(kwargs.get("exception_text"))
            if error is not None and error.startswith("MemoryError"):
                outcome = "oom"
        elif stimulus_id.startswith("task-erred-"):
            outcome = "failed"  # a retry follows; distributed tells us nothing more
        elif stimulus_id.startswith("reschedule-"):
            outcome = "rescheduled"
        else:
            return  # stolen, cancelled or its worker died: the worker's word or its slots count
        for item in kwargs.get("startstops") or ():
            if item["action"] == "compute":
                start, stop = item["start"], item["stop"]
                started_ns, ended_ns = int(start * 1e9), int(stop * 1e9)
                wall_s = stop - start
        row = (
            task_id_of(key),
            run_id_of(self._prefix, state.run_id),
            group_of(state.prefix.name),
            worker,
            self._hosts.get(worker),
            self._submitted.get(key),
            self._ready.get(key),
            started_ns,
            ended_ns,
            wall_s,
            outcome,
            "reported",
            error,
            kwargs.get("nbytes"),
            "scheduler",
        )
        self._attempts.add(row)
        if len(self._attempts.rows) > self._high:
            self.recorder.flush()

    def _error_text(self, text: Any) -> str | None:
        if not text:
            return None
        if self.config.get("keep_errors"):
            return str(text)
        return clip(redact(str(text).split("\n", 1)[0]))

    def _when(self, key: Any) -> tuple[int | None, int | None]:
        return self._submitted.get(key), self._ready.get(key)

    # ------------------------------------------------------------------ workers and events

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note a new worker."""
        if self._closed:
            return
        try:
            self.events.worker_added(worker)
        except Exception as error:
            self._failed(error)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """Note a worker's end; its attempts were settled by the event that came before."""
        if not self._closed:
            why = str(kwargs.get("stimulus_id") or "removed-")
            guarded(self.events.worker_ended, self._failed)(worker, why)

    def restart(self, scheduler: Any) -> None:
        """Note that the user restarts the cluster: all tasks are gone, without a transition."""
        if not self._closed:
            self.deaths.restarting()
            self._submitted.clear()
            self._ready.clear()

    def log_event(self, topic: str, msg: Any) -> None:
        """Read distributed's own events."""
        if self._closed or (type(msg) is not dict and topic != "stealing"):
            return
        try:
            self.events.event(topic, msg)
        except Exception as error:
            self._failed(error)
