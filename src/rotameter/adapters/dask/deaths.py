"""What a worker's unexpected death means: who ran there, who merely queued, how it ended.

Evidence, best first: the dead process's slot file (read here, by the nanny, or by a sibling worker
of the same host; it also has what ended so late that nobody was told), then the last heartbeat, at
most ``nthreads`` tasks by priority. The first kind is reported, the last inferred and marked so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dask.utils import key_split

from rotameter.adapters.dask import slots
from rotameter.adapters.dask.names import (
    SLOTS_OP,
    closing_reason,
    emit,
    exit_signal,
    group_of,
    host_name,
    removal_reason,
    run_id_of,
    task_id_of,
)
from rotameter.profiler.live.recorder import Recorder

__all__ = ["LOST_COLUMNS", "Deaths", "Hello"]

LOST_COLUMNS = (
    "task_id",
    "run_id",
    "group",
    "worker",
    "host",
    "submitted_ns",
    "ready_ns",
    "started_ns",
    "ended_ns",
    "outcome",
    "outcome_kind",
    "source",
)
WAIT_S = 2.0
_SIGNALLED = ("asked to stop", "cluster closing", removal_reason("handle-worker-cleanup-"))
"""Why a worker goes that may have got a signal: it cannot send its last rows then."""


class Hello(NamedTuple):
    """What a worker said of itself when its tracer began."""

    origin: str
    host: str
    pid: int
    slots: str | None


class _Task(NamedTuple):
    """One task that a worker held when it died."""

    task_id: str
    run_id: str
    group: str
    submitted_ns: int | None
    ready_ns: int | None
    executing: bool
    priority: Any


class _Death:
    """A death whose evidence is still awaited."""

    __slots__ = ("asked", "at_ns", "done", "heartbeat_rss", "nthreads", "tasks", "worker")

    def __init__(
        self, worker: str, tasks: list[_Task], nthreads: int, *, asked: bool = False
    ) -> None:
        self.asked = asked  # to go, by a signal perhaps: only its slots tell what ran
        self.worker = worker
        self.tasks = tasks
        self.nthreads = nthreads
        self.at_ns = time.time_ns()
        self.done = False


def _cancelled() -> bool:
    """Tell whether the event loop ends under the scheduler (``asyncio.run`` cancels what is left).

    Then the streams of all workers end, without a word of theirs.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


class Deaths:
    """Turns removals of workers into events and lost attempts (event loop only).

    Parameters
    ----------
    scheduler : distributed.Scheduler
        The scheduler.
    recorder : Recorder
        Where rows go.
    when : callable
        ``when(key)`` gives (submitted_ns, ready_ns) of a task.
    prefix : str
        What the ``run_id`` of this scheduler's attempts begin with.

    Attributes
    ----------
    reasons : dict
        Worker → why it was removed, in words; taken by who writes the row of its life.
    unsaid : dict
        Worker → (when, why) of removals whose cause is not known for sure yet.
    said : callable
        Called with a worker and the reason once an unsaid removal is recorded.
    """

    def __init__(
        self,
        scheduler: Any,
        recorder: Recorder,
        when: Callable[[Any], tuple[int | None, int | None]],
        prefix: str = "",
    ) -> None:
        self.scheduler = scheduler
        self.recorder = recorder
        self.hellos: dict[str, Hello] = {}
        self.greeted: dict[str, Hello] = {}
        self._when = when
        self._rows = recorder.channel("tasks", LOST_COLUMNS)
        self._workers: dict[str, Any] = {}
        self._waiting: dict[str, _Death] = {}
        self._exits: dict[str, dict[str, Any]] = {}
        self._restarting: set[str] = set()
        self._words: dict[str, str] = {}
        self._prefix = prefix
        self.reasons: dict[str, str | None] = {}
        self.unsaid: dict[str, tuple[int, str | None]] = {}
        self.said: Callable[[str, str | None], None] = lambda worker, reason: None

    def hello(self, worker: str, hello: Hello) -> None:
        """Remember where a worker's slots are."""
        self.hellos[worker] = self.greeted[worker] = hello
        state = self.scheduler.workers.get(worker)
        if state is not None:
            self._workers[worker] = state

    def knows(self, worker: str, state: Any) -> None:
        """Remember a worker's state: it is gone from the scheduler when its death is told."""
        self._workers[worker] = state

    def restarting(self) -> None:
        """Note that the user restarts all workers: distributed calls their removal unexpected."""
        self._restarting = set(self.scheduler.workers)

    def closing(self, worker: str, reason: str | None) -> None:
        """Note that a worker was asked to close: its removal is no death (None: for a failure)."""
        if reason is None:
            return
        if worker in self.unsaid:
            self._say(worker, reason)
        elif worker in self._workers:
            self._words.setdefault(worker, reason)

    def _why(self, message: dict[str, Any]) -> tuple[bool, str | None]:
        """Tell whether a removal was expected, and why it happened."""
        worker, expected = message["worker"], bool(message.get("expected"))
        reason, word = removal_reason(message.get("stimulus_id")), self._words.pop(worker, None)
        if worker in self._restarting:
            self._restarting.discard(worker)
            return True, "restart"
        if expected:
            return True, reason
        if word is not None:
            return True, word
        status = getattr(getattr(self.scheduler, "status", None), "name", None)
        if status in ("closing", "closed") or _cancelled():
            return True, "cluster closing"
        return False, reason

    def removed(self, message: dict[str, Any]) -> None:
        """Take distributed's own event of a removal."""
        worker = message["worker"]
        expected, reason = self._why(message)
        if not expected and reason == removal_reason("handle-worker-cleanup-"):
            # A word that this was asked for may come by another way than the stream that broke.
            self.unsaid[worker] = (time.time_ns(), reason)
            with contextlib.suppress(Exception):
                self.scheduler.loop.call_later(WAIT_S, self._say, worker)
        else:
            self.reasons[worker] = reason
            self._emit_removed(worker, time.time_ns(), expected, reason)
        state = self._workers.pop(worker, None)
        keys = message.get("processing-tasks") or ()
        if not keys or (expected and reason not in _SIGNALLED):
            self._forget(worker)
            return
        self._await(worker, keys, state, asked=expected)

    def _await(self, worker: str, keys: Any, state: Any, *, asked: bool) -> None:
        """Find out what ran on a worker that is gone."""
        threads = getattr(state, "nthreads", 0) or 0
        death = _Death(worker, self._collect(keys, state), threads, asked=asked)
        self._waiting[worker] = death
        self._look(death)

    def unheard(self, worker: str) -> None:
        """Take what ran on a worker that does not answer, if its process here is gone."""
        hello, state = self.hellos.get(worker), self.scheduler.workers.get(worker)
        if state is None or hello is None or hello.host != host_name():
            return
        if state.processing and worker not in self._waiting and not slots.alive(hello.pid):
            self._await(worker, list(state.processing), state, asked=True)

    def _say(self, worker: str, word: str | None = None) -> None:
        """Record a removal that was waited with."""
        at_ns, reason = self.unsaid.pop(worker, (None, None))
        if at_ns is not None:
            self._emit_removed(worker, at_ns, word is not None, word or reason)
            self.said(worker, word or reason)

    def _emit_removed(self, worker: str, at_ns: int, expected: bool, reason: str | None) -> None:
        emit(
            self.recorder,
            "worker_removed",
            at_ns,
            subject=worker,
            worker=worker,
            expected=expected,
            reason=reason,
        )

    def _collect(self, keys: Any, state: Any) -> list[_Task]:
        executing = {task_id_of(getattr(ts, "key", ts)) for ts in getattr(state, "executing", ())}
        out = []
        for key in keys:
            ts = self.scheduler.tasks.get(key)
            if ts is None:
                continue
            task_id = task_id_of(key)
            submitted, ready = self._when(key)
            out.append(
                _Task(
                    task_id,
                    run_id_of(self._prefix, ts.run_id),
                    group_of(ts.prefix.name),
                    submitted,
                    ready,
                    task_id in executing,
                    ts.priority or (),
                )
            )
        return out

    def _look(self, death: _Death) -> None:
        """Find the slots here, or ask and wait a little."""
        hello = self.hellos.get(death.worker)
        if hello is None:
            self._settle(death, None)
            return
        read = slots.read_slots(hello.slots, hello.pid) if hello.slots else None
        told = self._exits.pop(death.worker, None)
        if read is None and told is not None and told.get("slots"):
            read = slots.SlotRead.from_message(told["slots"])
        if read is not None or hello.slots is None:
            self._settle(death, read)
            return
        with contextlib.suppress(Exception):
            self.scheduler.loop.add_callback(self._ask_siblings, death, hello)
            self.scheduler.loop.call_later(WAIT_S, self._settle, death, None)
            return
        self._settle(death, None)

    async def _ask_siblings(self, death: _Death, hello: Hello) -> None:
        siblings = [
            worker
            for worker, other in self.hellos.items()
            if other.host == hello.host and worker in self.scheduler.workers
        ][:1]
        if not siblings or death.done:
            return
        with contextlib.suppress(Exception):
            answers = await self.scheduler.broadcast(
                msg={"op": SLOTS_OP, "path": hello.slots, "pid": hello.pid},
                workers=siblings,
                on_error="ignore",
            )
            for answer in answers.values():
                if isinstance(answer, dict) and "running" in answer:
                    self._settle(death, slots.SlotRead.from_message(answer))

    def exited(self, message: dict[str, Any]) -> None:
        """Take our nanny plug-in's word on how a process ended."""
        worker, exit_code = message.get("worker"), message.get("exit_code")
        if not worker:
            return
        if message.get("closing"):
            self.closing(worker, closing_reason(message.get("reason")))
        if message.get("word"):
            return  # nothing has ended yet
        self._say(worker)
        read = message.get("slots")
        emit(
            self.recorder,
            "worker_exit",
            time.time_ns(),
            subject=worker,
            worker=worker,
            host=message.get("host"),
            pid=message.get("pid"),
            exit_code=exit_code,
            signal=exit_signal(exit_code),
            rss_bytes=read.get("rss_bytes") if read else None,
        )
        death = self._waiting.get(worker)
        if death is not None and read:
            self._settle(death, slots.SlotRead.from_message(read))
        elif death is None:
            self._exits[worker] = message

    def _settle(self, death: _Death, read: slots.SlotRead | None) -> None:
        if death.done:
            return
        death.done = True
        self._waiting.pop(death.worker, None)
        ended = self._by_run(read.ended) if read is not None else {}
        ran, kind = self._who_ran(death, read, ended)
        for task in death.tasks:
            if task.run_id in ran:
                self._lost(death, task, ran[task.run_id], kind, read)
            elif death.asked and task.run_id not in ended:
                continue  # it never began there, or it is not known
            elif task.run_id in ended:
                # It ended, but the word of it, and the result, died with the worker.
                slot = ended.pop(task.run_id)
                self._add(death, task, slot.start_ns, slot.end_ns, "reported")
            else:
                emit(
                    self.recorder,
                    "queued_at_death",
                    death.at_ns,
                    subject=death.worker,
                    worker=death.worker,
                    task_id=task.task_id,
                    run_id=task.run_id,
                    group=task.group,
                )
        self._add_ended(death, ended)
        self._forget(death.worker)

    def _by_run(self, records: tuple[slots.SlotRecord, ...]) -> dict[str, slots.SlotRecord]:
        return {run_id_of(self._prefix, int(r.run_id)): r for r in records}

    def _who_ran(
        self, death: _Death, read: slots.SlotRead | None, ended: dict[str, slots.SlotRecord]
    ) -> tuple[dict[str, int | None], str]:
        """Give the attempts that ran, with their start where known, and how that is known."""
        if read is not None:
            ran: dict[str, int | None] = {
                run_id: r.start_ns for run_id, r in self._by_run(read.running).items()
            }
            known = any(task.run_id in ran or task.run_id in ended for task in death.tasks)
            if known or death.asked:
                return ran, "reported"
            # Its tasks were not measured: the heartbeat is the last that is known of them.
            return {task.run_id: None for task in death.tasks if task.executing}, "inferred"
        if death.asked:
            return {}, "inferred"  # nothing is guessed: its own rows may come
        ordered = sorted(death.tasks, key=lambda t: (not t.executing, t.priority))
        guessed = ordered[: max(death.nthreads, sum(t.executing for t in ordered))]
        return {task.run_id: None for task in guessed}, "inferred"

    def _add_ended(self, death: _Death, ended: dict[str, slots.SlotRecord]) -> None:
        """Say when attempts ran of which the scheduler knows the end but the record was lost."""
        hello = self.hellos.get(death.worker)
        host = hello.host if hello else None
        for run_id, slot in ended.items():
            if len(slot.task_id.encode("utf-8", "replace")) >= slots.KEY_LIMIT:
                continue  # cut: not surely the task's name
            group = group_of(key_split(slot.task_id))
            times = (None, None, slot.start_ns, slot.end_ns)
            who = (slot.task_id, run_id, group, death.worker, host)
            self._rows.add((*who, *times, None, None, "slot"))

    def _lost(
        self,
        death: _Death,
        task: _Task,
        start_ns: int | None,
        kind: str,
        read: slots.SlotRead | None,
    ) -> None:
        self._add(death, task, start_ns, death.at_ns, kind)
        if death.asked:
            return
        emit(
            self.recorder,
            "executing_at_death",
            death.at_ns,
            subject=death.worker,
            worker=death.worker,
            task_id=task.task_id,
            run_id=task.run_id,
            group=task.group,
            rss_bytes=read.rss_bytes if read else None,
            duration_s=(death.at_ns - start_ns) / 1e9 if start_ns else None,
            reason=None if kind == "reported" else "inferred from the last heartbeat",
        )

    def _add(
        self, death: _Death, task: _Task, start_ns: int | None, end_ns: int | None, kind: str
    ) -> None:
        """Record an attempt that was lost."""
        hello = self.hellos.get(death.worker)
        row = (
            task.task_id,
            task.run_id,
            task.group,
            death.worker,
            hello.host if hello else None,
            task.submitted_ns,
            task.ready_ns,
            start_ns,
            end_ns,
            "worker_lost",
            kind,
            "slot" if kind == "reported" else "scheduler",
        )
        self._rows.add(row)

    def _forget(self, worker: str) -> None:
        hello = self.hellos.pop(worker, None)
        self._exits.pop(worker, None)
        if hello is not None and hello.slots and hello.host == host_name():
            with contextlib.suppress(OSError):
                if not os.path.exists(f"/proc/{hello.pid}"):
                    os.unlink(hello.slots)

    def settle_all(self) -> None:
        """Decide what is still open, at the end of the trace."""
        for worker in list(self.unsaid):
            self._say(worker)
        for death in list(self._waiting.values()):
            self._settle(death, None)
