"""The admission gate: workers never run together what does not fit, and the killed get more.

Only groups that are known to be hungry are gated: those whose task needs more than comes with a
thread, or in whose company a worker died of memory. Their tasks wait in the state ``no-worker``
under a restriction that no worker meets; the gate takes them by priority, the first of each group,
and sends each to the worker with the most left. All others are scheduled by Dask as ever.

A worker's limit is the smaller of Dask's and its machine's or control group's. Where the gate
itself fails, it lets all that it holds go and leaves the cluster to Dask.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from dask.utils import key_split
from distributed.diagnostics.plugin import SchedulerPlugin

from rotameter.adapters.dask import _compat
from rotameter.adapters.dask.gate_blame import Blame
from rotameter.adapters.dask.gate_gone import Gone
from rotameter.adapters.dask.gate_ledger import Ledger, Waiting
from rotameter.adapters.dask.gate_limits import (
    AGAIN_S,
    GRACE_S,
    HOLD,
    MEMORY,
    PATIENCE_S,
    USABLE,
)
from rotameter.adapters.dask.gate_needs import Needs
from rotameter.adapters.dask.gate_recall import recall
from rotameter.adapters.dask.gate_refusal import Said, too_large
from rotameter.adapters.dask.gate_worker import TOPIC
from rotameter.adapters.dask.names import group_of
from rotameter.allocator.default import Default
from rotameter.allocator.needs import Record, Task

__all__ = ["HOLD", "Gate"]

INFINITE = math.inf


def _group(key: Any) -> str:
    return group_of(key_split(key))


class Gate(SchedulerPlugin):
    """Sizes the memory of tasks and admits them.

    Parameters
    ----------
    state : mapping, optional
        What an earlier gate's allocator learnt (:meth:`learnt`).
    asked : mapping of str to float, optional
        Memory (bytes) that the user set for a group; given until it was seen to be too little.
    owner : str, optional
        The client that put it there; where it is gone another may take its place.
    observe : bool
        Learn only: nothing is written to the scheduler.
    """

    name = TOPIC
    idempotent = False

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        asked: Mapping[str, float] | None = None,
        *,
        owner: str | None = None,
        observe: bool = False,
    ) -> None:
        self.owner = owner
        self._state, self._asked, self._watching = state, dict(asked or {}), observe
        self.counts = {
            "held": 0, "admitted": 0, "killed": 0, "memory_errors": 0, "forgiven": 0, "refused": 0
        }  # fmt: skip

    async def start(self, scheduler: Any) -> None:
        """Begin with the workers that are there."""
        self.scheduler = scheduler
        # Sizes are bounded where a task is placed; the largest worker may still come.
        self.allocator = Default.from_state(self._state) if self._state else Default(scouts=0)
        self.books, self.line = Ledger(), Waiting()
        self._hungry: set[str] = set()
        self._tasks: dict[Any, Task] = {}
        self._failed: dict[Any, float] = {}
        self._words: dict[Any, Said] = {}
        self._seceded: set[Any] = set()
        self._since: dict[Any, float] = {}
        self._workers: dict[str, Any] = {}
        self._limits: dict[str, float] = {}
        self._strangers: dict[str, dict[Any, str]] = {}
        self._amounts: dict[str, float] = {}
        self._needs = Needs(self.allocator, _group, self.books.share)
        self._blame, self._gone = Blame(_group, self._needs.is_small), Gone(scheduler)
        self._deaths: dict[str, set[Any]] = {}
        self._pumping = self._timed = self._over = False
        self.faults: list[str] = []
        for worker in scheduler.workers:
            self.add_worker(scheduler, worker)

    async def close(self) -> None:
        """Let everything go that waits."""
        self.let_go()

    def restart(self, scheduler: Any) -> None:
        """Forget all tasks, as the scheduler does; what was learnt stays."""
        for worker in list(self.books.rooms):
            self.books.leave(worker)
        self.line = Waiting()
        per_task: tuple[Any, ...] = (self._tasks, self._failed, self._words, self._since)
        for kept in (*per_task, self._seceded, self._strangers, self._deaths):
            kept.clear()

    def _safely(self, call: Callable[..., None], *words: Any) -> None:
        """Run one of our own steps; an error of ours is the end of the gate, not of the run."""
        if self._over:
            return
        try:
            call(*words)
        except Exception as error:
            self.faults.append(f"{call.__name__}: {error!r}")
            with contextlib.suppress(Exception):
                self.let_go()

    # -- workers ----------------------------------------------------------------------------

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Count a worker's memory in."""
        self._safely(self._join, worker)

    def _join(self, worker: str) -> None:
        ws = self.scheduler.workers.get(worker)
        if ws is None:
            return
        self._workers[worker] = ws
        base = float(ws.metrics.get("memory") or 0)
        capacity = max(0.0, USABLE * self._limit(worker, ws) - base)
        if (room := self.books.rooms.get(worker)) is not None:
            room.capacity_bytes = capacity
        else:
            self.books.join(worker, capacity, ws.nthreads)
        share = self.books.share()
        for group in self.allocator.groups():
            if (self._needs.largest(group) or 0.0) > share:
                self._gate(group)
        for group, amount in self._asked.items():
            if amount > share:
                self._gate(group)
        self._soon()

    def _limit(self, worker: str, ws: Any) -> float:
        """Give the smaller of Dask's limit and what the worker said of its machine."""
        return min(float(ws.memory_limit or 0) or INFINITE, self._limits.get(worker, INFINITE))

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Count it out; its tasks come back by themselves."""
        self.books.leave(worker)
        for kept in (self._workers, self._limits, self._strangers):
            kept.pop(worker, None)
        self._soon()

    def log_event(self, topic: Any, msg: Any) -> None:
        """Take what workers measured, what nannies say of memory, and deaths."""
        if isinstance(msg, dict):
            self._safely(self._told, topic, msg)

    def _told(self, topic: Any, msg: Mapping[str, Any]) -> None:
        if topic == TOPIC and "limit" in msg:
            self._limits[str(msg.get("worker"))] = float(msg["limit"] or 0) or INFINITE
            self._join(str(msg.get("worker")))
        elif topic == TOPIC and "tasks" in msg:
            for said in msg["tasks"]:
                self._measured(said)
        elif topic == "worker-restart-memory" and "worker" in msg:
            self._blame.nanny_says(str(msg["worker"]))
        elif topic == "all" and msg.get("action") == "remove-worker" and not msg.get("expected"):
            self._died(str(msg.get("worker")), msg)

    def _died(self, worker: str, msg: Mapping[str, Any]) -> None:
        ws = self._workers.get(worker)
        if ws is None:
            return
        used = float(ws.metrics.get("memory") or 0)
        how = self._blame.of_memory(worker, used, self._limit(worker, ws))
        keys, stimulus = set(msg.get("processing-tasks") or ()), str(msg.get("stimulus_id"))
        if not keys:
            return
        if how is None:
            if not self._watching:
                self._deaths = {stimulus: self._gone.forgive(ws.nanny, keys)}
            return
        self.counts["killed"] += 1
        self._deaths = {stimulus: keys}
        tasks = [t for t in (self.scheduler.tasks.get(k) for k in keys) if t is not None]
        for group, key in self._blame.culprits(tasks, ws, self.books.grants, how).items():
            self._exceeded(group, key, ws)

    # -- learning ---------------------------------------------------------------------------

    def _measured(self, msg: Mapping[str, Any]) -> None:
        key, group = msg["key"], _group(msg["key"])
        if msg["op"] == "memory_error":
            self._ran_out(key, group, msg)
        elif msg["op"] == "task-finished":
            hungry = self._needs.learn(msg, hungry=group in self._hungry)
            self._amounts.pop(group, None)
            self._failed.pop(key, None)
            if hungry:
                self._gate(group)

    def _ran_out(self, key: Any, group: str, msg: Mapping[str, Any]) -> None:
        """Let a task that raised MemoryError get more; what is not ours keeps its error."""
        ts = self.scheduler.tasks.get(key)
        if ts is None:
            return
        self.counts["memory_errors"] += 1
        ws = ts.processing_on
        # What is said of an attempt before this one says nothing of what this one was given.
        if ws is None or msg.get("run_id") not in (None, ts.run_id):
            return
        said = Said(str(msg.get("why") or ""), msg.get("error"))
        unlimited = self.books.capacity(ws.address) == INFINITE
        if not self._watching and (unlimited or self._is_set(ts)):
            _compat.fail_running(self.scheduler, ts, said.pickled(), said.words)
            return
        self._words[key] = said
        self._exceeded(group, key, ws, float(msg.get("need") or 0.0))

    def _exceeded(self, group: str, key: Any, ws: Any, need: float = 0.0) -> None:
        """Let a task get more than it was granted, than came with its thread, or than it said."""
        grant, room = self.books.grants.get(key), self.books.rooms.get(ws.address)
        if room is None or room.capacity_bytes == INFINITE:
            return
        had = grant.amount_bytes if grant is not None else room.capacity_bytes / ws.nthreads
        had = self._failed[key] = max(had, need, self._failed.get(key, 0.0))
        record = Record(str(key), group, "oom", granted={MEMORY: had}, exceeded=frozenset({MEMORY}))
        self.allocator.exceeded(self._task(key, group), record)
        self._amounts.pop(group, None)
        self._gate(group)

    def _gate(self, group: str) -> None:
        """From now on a group's tasks ask before they run; those that wait somewhere are held."""
        if group in self._hungry:
            return
        self._hungry.add(group)
        if not self._watching:
            self.scheduler.loop.add_callback(self._safely, self._recall, group)

    def _recall(self, group: str) -> None:
        """Hold a group's tasks that are queued, or assigned and surely not started."""

        def wanted(ts: Any) -> bool:
            """Say whether a task is to be held."""
            return (
                _group(ts.key) == group and not self._is_set(ts) and ts.key not in self.books.grants
            )

        back, begun = recall(self._workers.values(), list(self.scheduler.queued), wanted)
        for worker, key in begun:
            self._strangers.setdefault(worker, {})[key] = group
        if back:
            self.scheduler.transitions(back, stimulus_id=f"rotameter-recall-{time.time()}")

    # -- tasks ------------------------------------------------------------------------------

    def _is_set(self, ts: Any) -> bool:
        """Say whether the user said where a task is to run, or what it takes."""
        own = ts.worker_restrictions or set()
        ours = own == {HOLD} or ts.key in self.books.grants or ts.key in self.line
        ours = ours or ts.key in self._seceded
        return bool(
            (own and not ours) or ts.host_restrictions or ts.resource_restrictions or ts.actor
        )

    def _task(self, key: Any, group: str) -> Task:
        made = self._tasks.get(key)
        if made is None:
            asked = {"memory_bytes": self._asked[group]} if group in self._asked else {}
            made = self._tasks[key] = Task(str(key), group, asked=asked)
        return made

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, stimulus_id: str = "", **kwargs: Any
    ) -> None:
        """Hold what is hungry, take back what is over, forgive deaths that were of memory."""
        self._safely(self._moved, key, start, finish, stimulus_id)

    def _moved(self, key: Any, start: str, finish: str, stimulus_id: str) -> None:
        if start == "processing":
            self._left(key, finish, stimulus_id)
        if finish in ("memory", "erred", "forgotten"):
            self._ended(key, finish)
            return
        if self._watching or not (self._hungry or key in self.line):
            return
        ts = self.scheduler.tasks.get(key)
        if ts is None:
            return
        group = _group(key)
        if finish == "waiting" and group in self._hungry and not self._is_set(ts):
            ts.worker_restrictions = {HOLD}
        elif finish == "no-worker" and ts.worker_restrictions == {HOLD}:
            self.counts["held"] += 1
            self.line.push(group, ts.priority, key)
            self._soon()
        elif finish == "released":
            self.line.remove(key)

    def _ended(self, key: Any, finish: str) -> None:
        """Forget a task; of one that did not complete its bounds too."""
        self.line.remove(key)
        self._since.pop(key, None)
        self._failed.pop(key, None)
        self._words.pop(key, None)
        self._gone.forget(key)
        if self._tasks.pop(key, None) is not None and finish != "memory":
            self.allocator.observe(Record(str(key), _group(key), "cancelled"))
            self._amounts.pop(_group(key), None)
        self._soon()

    def _left(self, key: Any, finish: str, stimulus_id: str) -> None:
        grant = self.books.release(key)
        for worker in self._strangers.values():
            worker.pop(key, None)
        ts = self.scheduler.tasks.get(key)
        if ts is None or self._watching:
            return
        if grant is not None or key in self._seceded:
            self._seceded.discard(key)
            ts.worker_restrictions = set()
            self._soon()
        if finish == "released" and key in self._deaths.get(stimulus_id, ()) and ts.suspicious > 0:
            ts.suspicious -= 1
            self.counts["forgiven"] += 1

    # -- admitting --------------------------------------------------------------------------

    def _soon(self) -> None:
        """Admit after the transitions that are under way."""
        if self._pumping or self._watching or not len(self.line):
            return
        self._pumping = True
        self.scheduler.loop.add_callback(self._safely, self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if not len(self.line):
            return
        for worker, room in self.books.rooms.items():
            ws = self._workers[worker]
            strangers = self._strangers.get(worker) or {}
            if ws.long_running:
                self._let_secede(ws)
            room.open = ws in self.scheduler.running
            room.strangers = len(strangers)
            # What they need is not known better than by the most that their like has used.
            room.other_bytes = float(ws.nbytes) + sum(
                self._needs.largest(group) or self.books.share() for group in strangers.values()
            )
        self.books.changed()
        now = time.monotonic()
        kept: list[str] = []
        placed: dict[Any, str] = {}

        def start(group: str, key: Any) -> bool:
            """Grant a task its place; what waits long has the next one kept for it."""
            amount = self._amount(group, key, now)
            worker = None if amount is None else self.books.place(amount, *kept)
            if amount is not None and worker is not None:
                self._since.pop(key, None)
                self.books.grant(key, worker, amount)
                placed[key] = worker
                return True
            waited = now - self._since.setdefault(key, now)
            if amount is not None and waited > PATIENCE_S and not kept:
                kept.extend(filter(None, [self.books.reserve(amount)]))
            return False

        self.line.walk(start)
        if placed:
            self._admit(placed)
        if len(self.line) and not self._timed:
            # A worker that is no longer paused tells nobody of it.
            self._timed = True
            self.scheduler.loop.call_later(AGAIN_S, self._later)

    def _let_secede(self, ws: Any) -> None:
        """Take back what a task had that left its thread: it waits for tasks of its own."""
        for ts in ws.long_running:
            if self.books.release(ts.key) is not None:
                self._seceded.add(ts.key)

    def _later(self) -> None:
        self._timed = False
        self._soon()

    def _admit(self, placed: Mapping[Any, str]) -> None:
        """Send tasks to their workers; one that was not taken there waits again."""
        for key, worker in placed.items():
            ts = self.scheduler.tasks.get(key)
            if ts is None or ts.state != "no-worker":
                self.books.release(key)
                continue
            ts.worker_restrictions = {worker}
            if not self.scheduler.allowed_failures and ts.suspicious == 0:
                ts.suspicious = -1  # Its first death of memory is too late to be forgiven.
        self.scheduler.transitions(
            dict.fromkeys(placed, "processing"), stimulus_id=f"rotameter-admit-{time.time()}"
        )
        for key in placed:
            ts = self.scheduler.tasks.get(key)
            if ts is not None and ts.state == "no-worker":
                self.books.release(key)
                ts.worker_restrictions = {HOLD}
                self.line.push(_group(key), ts.priority, key)
            else:
                self.counts["admitted"] += 1

    def _amount(self, group: str, key: Any, now: float) -> float | None:
        """Size a task: at most the largest worker there is, unless that was too little."""
        capacity, failed = self.books.capacity(), self._failed.get(key)
        # What was set may be as large as a worker: then it runs there alone.
        asked = self._asked.get(group, 0.0)
        too_little = (asked > capacity and asked > self._largest()) or (
            failed is not None and failed >= capacity
        )
        if too_little and capacity > 0:
            if now - self._since.setdefault(key, now) >= GRACE_S:
                self._refuse(key, asked, failed, capacity)
            return None
        made = self._amounts.get(group) if failed is None else None
        if made is None:
            answer = self.allocator.request(self._task(key, group))
            made = float(getattr(answer, MEMORY))
            if failed is None:
                # All of a group that have not failed get the same until something is learnt.
                self._amounts[group] = made
        return min(made, capacity)

    def _largest(self) -> float:
        """Give the largest limit of a worker that is here."""
        return max((self._limit(w, ws) for w, ws in self._workers.items()), default=0.0)

    def _refuse(self, key: Any, asked: float, failed: float | None, capacity: float) -> None:
        """End a task that no worker can hold, saying so."""
        self.counts["refused"] += 1
        error = too_large(key, asked, failed, capacity, self._words.get(key))
        self.scheduler.loop.add_callback(
            self._safely, _compat.fail_task, self.scheduler, key, error
        )

    def let_go(self) -> None:
        """Leave all that waits, and from now on everything, to Dask."""
        self._over = True
        free = {}
        for key in self.line:
            ts = self.scheduler.tasks.get(key)
            if ts is not None and ts.worker_restrictions == {HOLD}:
                ts.worker_restrictions = set()
                free[key] = "processing"
            self.line.remove(key)
        for key in self.books.grants:
            if (ts := self.scheduler.tasks.get(key)) is not None:
                ts.worker_restrictions = set()
        self._hungry.clear()
        if free:
            self.scheduler.transitions(free, stimulus_id=f"rotameter-free-{time.time()}")

    # -- asking -----------------------------------------------------------------------------

    def learnt(self) -> dict[str, Any]:
        """Give what the allocator has learnt, to begin with another time."""
        return self.allocator.state()

    def facts(self) -> dict[str, Any]:
        """Give counts, what waits, the groups that are gated and the deaths that were of memory."""
        return {
            **self.counts,
            "waiting": len(self.line),
            "granted": len(self.books.grants),
            "hungry": sorted(self._hungry),
            "deaths": list(self._blame.told),
            "faults": list(self.faults),
        }

    def explain(self, group: str) -> str:
        """Say why a group's tasks get what they get."""
        asked = {MEMORY: self._asked[group]} if group in self._asked else {}
        said = self.allocator.explain(Task("", group, asked=asked))
        words = self._needs.words(group, hungry=group in self._hungry, watching=self._watching)
        return f"{said}\n  on this cluster: {words}"
