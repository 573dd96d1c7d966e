"""The admission gate: workers never run together what does not fit, and the killed get more.

Only groups that are known to be hungry are gated: those whose task needs more than comes with a
thread, or in whose company a worker died of memory. Their tasks wait in the state ``no-worker``
under a restriction that no worker meets; the gate takes them by priority, the first of each group,
and sends each to the worker with the most left. All others are scheduled by Dask as ever.

A death counts as one of memory where the nanny says so, or the last heartbeat was near the smaller
of Dask's and the control group's limit (inferred; two such of a group enlarge once).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from dask.utils import key_split
from distributed.diagnostics.plugin import SchedulerPlugin

from rotameter.adapters.dask import _compat
from rotameter.adapters.dask.gate_ledger import Ledger, Waiting
from rotameter.adapters.dask.gate_worker import TOPIC
from rotameter.adapters.dask.names import group_of
from rotameter.allocator.default import Default
from rotameter.allocator.needs import Record, Task
from rotameter.errors import PolicyError
from rotameter.units import format_bytes
from rotameter.values import Allocation

__all__ = ["HOLD", "Gate"]

HOLD = "rotameter-hold"
"""A worker address that no worker has."""

USABLE = 0.9
"""Part of a worker's limit that tasks may use; the nanny ends it at 0.95."""

NEAR = 0.7
"""A heartbeat above this part of the limit makes a silent death one of memory, likely."""

GRACE_S = 5.0
"""How long a task that fits on no worker waits for a larger one."""

AGAIN_S = 1.0
"""How often it looks at what waits where nothing happens."""


def _group(key: Any) -> str:
    return group_of(key_split(key))


class Gate(SchedulerPlugin):
    """Sizes the memory of tasks and admits them.

    Parameters
    ----------
    state : mapping, optional
        What an earlier gate's allocator learnt (:meth:`learnt`).
    asked : mapping of str to float, optional
        Memory (bytes) that the user set for a group; respected as it is.
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
        observe: bool = False,
    ) -> None:
        self._state, self._asked, self._observe = state, dict(asked or {}), observe
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
        self._workers: dict[str, Any] = {}
        self._memory_deaths: dict[str, float] = {}
        self._silent: dict[str, int] = {}
        self._deaths: dict[str, set[Any]] = {}
        self._too_large: dict[Any, float] = {}
        self._pumping = self._timed = False
        for worker in scheduler.workers:
            self.add_worker(scheduler, worker)

    async def close(self) -> None:
        """Let everything go that waits."""
        self._free_all()

    # -- workers ----------------------------------------------------------------------------

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Count a worker's memory in."""
        ws = scheduler.workers[worker]
        self._workers[worker] = ws
        limit = float(ws.memory_limit or 0) or float("inf")
        base = float(ws.metrics.get("memory") or 0)
        self.books.join(worker, max(0.0, USABLE * limit - base), ws.nthreads)
        self._weigh()
        self._soon()

    def _weigh(self) -> None:
        """Gate what is known to need more than comes with a thread of the workers that are here."""
        share = self.books.share()
        for group in self.allocator.groups():
            if (self._need(group) or 0.0) > share:
                self._gate(group)
        for group, amount in self._asked.items():
            if amount > share:
                self._gate(group)

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Count it out; its tasks come back by themselves."""
        self.books.leave(worker)
        self._workers.pop(worker, None)
        self._soon()

    def log_event(self, topic: Any, msg: Any) -> None:
        """Take what workers measured, what nannies say of memory, and deaths."""
        if not isinstance(msg, dict):
            return
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if topic == TOPIC:
                self._measured(msg)
            elif topic == "worker-restart-memory":
                self._memory_deaths[str(msg["worker"])] = time.monotonic()
            elif topic == "all" and msg.get("action") == "remove-worker":
                self._died(msg)

    def _died(self, msg: Mapping[str, Any]) -> None:
        worker = str(msg["worker"])
        ws = self._workers.get(worker)
        if msg.get("expected") or ws is None:
            return
        said = self._memory_deaths.pop(worker, None)
        limit = float(ws.memory_limit or 0) or float("inf")
        near = float(ws.metrics.get("memory") or 0) >= NEAR * limit
        if said is None and not near:
            return
        keys = set(msg.get("processing-tasks") or ())
        self.counts["killed"] += 1
        self._deaths = {str(msg["stimulus_id"]): keys}
        for group, key in self._culprits(ws, keys).items():
            self._silent[group] = self._silent.get(group, 0) + 1
            if said is None and self._silent[group] % 2:
                continue  # One silent death may have had another reason.
            self._exceeded(group, key, worker, ws)

    def _strangers(self, ws: Any) -> list[str]:
        """Give the groups of hungry tasks that are on a worker without a grant."""
        groups = [(_group(ts.key), ts.key) for ts in ws.processing]
        return [g for g, key in groups if g in self._hungry and key not in self.books.grants]

    def _culprits(self, ws: Any, keys: set[Any]) -> dict[str, Any]:
        """Give one task of each group that may have filled the memory, those not known as small.

        Beside tasks that nobody admitted, those that were admitted are not to blame.
        """
        tasks = [t for t in (self.scheduler.tasks.get(k) for k in keys) if t is not None]
        ran = [t for t in tasks if t in ws.executing] or sorted(tasks, key=lambda t: t.priority)
        share = self.books.share()
        large = [t for t in ran[: max(1, ws.nthreads)] if not self._is_small(t, share)]
        large = large or ran[: max(1, ws.nthreads)]
        strangers = [t for t in large if t.key not in self.books.grants]
        made: dict[str, Any] = {}
        for ts in strangers or large:
            made.setdefault(_group(ts.key), ts.key)
        return made

    def _is_small(self, ts: Any, share: float) -> bool:
        need = self._need(_group(ts.key))
        return need is not None and need <= 0.5 * share

    def _need(self, group: str) -> float | None:
        """Give the largest use of a group's tasks that was measured."""
        return self.allocator.largest(group, "memory_bytes")

    # -- learning ---------------------------------------------------------------------------

    def _measured(self, msg: Mapping[str, Any]) -> None:
        key, group = msg["key"], _group(msg["key"])
        ts = self.scheduler.tasks.get(key)
        if ts is None:
            return
        if msg["op"] == "memory_error":
            self.counts["memory_errors"] += 1
            ws = ts.processing_on
            # What is said of an attempt before this one says nothing of what this one was given.
            if ws is not None and msg.get("run_id") in (None, ts.run_id):
                self._exceeded(group, key, ws.address, ws)
            return
        # What ran beside others is bounded by all of them: that makes no light group a heavy one.
        if msg["op"] == "task-finished" and (msg["kind"] != "upper_bound" or group in self._hungry):
            used = {"memory_bytes": float(max(1, msg["peak"]))}
            record = Record(
                str(key), group, "ok", used, {"memory_bytes": msg["kind"]}, wall_s=msg["wall"]
            )
            self.allocator.observe(record)
            self._failed.pop(key, None)
            if group not in self._hungry and used["memory_bytes"] > self.books.share():
                self._gate(group)

    def _exceeded(self, group: str, key: Any, worker: str, ws: Any) -> None:
        grant = self.books.grants.get(key)
        room = self.books.rooms.get(worker)
        capacity = room.capacity_bytes if room is not None else self.books.share()
        had = grant.amount_bytes if grant is not None else capacity / max(1, ws.nthreads)
        had = max(had, self._failed.get(key, 0.0))
        self._failed[key] = had
        record = Record(
            str(key), group, "oom", granted={"memory_bytes": had},
            exceeded=frozenset({"memory_bytes"}),
        )  # fmt: skip
        self.allocator.exceeded(self._task(key, group), record)
        self._gate(group)

    def _gate(self, group: str) -> None:
        """From now on a group's tasks ask before they run; those that wait somewhere are held."""
        if group in self._hungry:
            return
        self._hungry.add(group)
        if not self._observe:
            self.scheduler.loop.add_callback(self._recall, group)

    def _recall(self, group: str) -> None:
        """Hold a group's tasks that are queued, or assigned and surely not started."""
        back = {}
        started = {
            ts.key
            for ws in self._workers.values()
            for ts in sorted(ws.processing, key=lambda t: t.priority)[: ws.nthreads]
        }
        for ts in list(self.scheduler.tasks.values()):
            if _group(ts.key) != group or self._is_set(ts):
                continue
            if ts.state == "queued":
                back[ts.key] = "waiting"
            elif ts.state == "processing" and not (
                ts.key in started or ts.key in self.books.grants or self._executes(ts)
            ):
                back[ts.key] = "released"
        if back:
            self.scheduler.transitions(back, stimulus_id=f"rotameter-recall-{time.time()}")

    @staticmethod
    def _executes(ts: Any) -> bool:
        return ts.processing_on is not None and ts in ts.processing_on.executing

    # -- tasks ------------------------------------------------------------------------------

    def _is_set(self, ts: Any) -> bool:
        """Say whether the user said where a task is to run, or what it takes."""
        own = ts.worker_restrictions or set()
        ours = own == {HOLD} or ts.key in self.books.grants or ts.key in self.line
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
        try:
            self._transition(key, start, finish, stimulus_id)
        except Exception as error:  # Never into the scheduler.
            self.counts["errors"] = self.counts.get("errors", 0) + 1
            self.fault = repr(error)

    def _transition(self, key: Any, start: str, finish: str, stimulus_id: str) -> None:
        if start == "processing":
            self._left(key, finish, stimulus_id)
        if finish in ("memory", "erred", "forgotten"):
            self.line.remove(key)
            self._tasks.pop(key, None)
            if finish != "memory":
                self._failed.pop(key, None)
                self._soon()
            return
        if self._observe or not (self._hungry or key in self.line):
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

    def _left(self, key: Any, finish: str, stimulus_id: str) -> None:
        grant = self.books.release(key)
        ts = self.scheduler.tasks.get(key)
        if ts is not None and grant is not None and not self._observe:
            ts.worker_restrictions = set()
        dead = self._deaths.get(stimulus_id, ())
        forgive = ts is not None and finish == "released" and key in dead and ts.suspicious > 0
        if forgive and not self._observe:
            ts.suspicious -= 1
            self.counts["forgiven"] += 1
        if grant is not None:
            self._soon()

    # -- admitting --------------------------------------------------------------------------

    def _soon(self) -> None:
        """Admit after the transitions that are under way."""
        if self._pumping or self._observe or not len(self.line):
            return
        self._pumping = True
        self.scheduler.loop.add_callback(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if not len(self.line):
            return
        for worker, room in self.books.rooms.items():
            ws = self._workers.get(worker)
            room.open = ws is not None and ws in self.scheduler.running
            strangers = [] if ws is None else self._strangers(ws)
            room.strangers = len(strangers)
            room.other_bytes = float(ws.nbytes) if ws is not None else 0.0
            # What they need is not known better than by the most that their like has used.
            room.other_bytes += sum(self._need(g) or self.books.share() for g in strangers)
        placed: dict[Any, str] = {}

        def start(group: str, key: Any) -> bool:
            amount = self._amount(group, key)
            worker = self.books.place(amount) if amount is not None else None
            if worker is None:
                return False
            self.books.grant(key, worker, amount)  # type: ignore[arg-type]
            placed[key] = worker
            return True

        self.line.walk(start)
        if placed:
            self._admit(placed)
        if len(self.line) and not self._timed:
            # A worker that is no longer paused tells nobody of it.
            self._timed = True
            self.scheduler.loop.call_later(AGAIN_S, self._later)

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

    def _amount(self, group: str, key: Any) -> float | None:
        """Size a task: at most the largest worker there is, unless that was too little."""
        made = self.allocator.request(self._task(key, group))
        if not isinstance(made, Allocation) or made.memory_bytes is None:
            return None
        capacity, failed = self.books.capacity(), self._failed.get(key, 0.0)
        if failed and failed >= capacity > 0:
            since = self._too_large.setdefault(key, time.monotonic())
            if time.monotonic() - since >= GRACE_S:
                self._refuse(key, failed, capacity)
            return None
        self._too_large.pop(key, None)
        return min(float(made.memory_bytes), capacity)

    def _refuse(self, key: Any, failed: float, capacity: float) -> None:
        """End a task that no worker can hold, saying so."""
        self.counts["refused"] += 1
        error = PolicyError(
            f"task {key!r} needs more than {format_bytes(failed)} of memory, the most that it was "
            f"given; the largest worker has {format_bytes(capacity)} for tasks",
            hint="start a worker with more memory, or split the task",
        )
        self.scheduler.loop.add_callback(_compat.fail_task, self.scheduler, key, error)

    def _free_all(self) -> None:
        free = {}
        for key in self.line:
            ts = self.scheduler.tasks.get(key)
            if ts is not None and ts.worker_restrictions == {HOLD}:
                ts.worker_restrictions = set()
                free[key] = "processing"
            self.line.remove(key)
        self._hungry.clear()
        if free:
            self.scheduler.transitions(free, stimulus_id=f"rotameter-free-{time.time()}")

    # -- asking -----------------------------------------------------------------------------

    def learnt(self) -> dict[str, Any]:
        """Give what the allocator has learnt, to begin with another time."""
        return self.allocator.state()

    def facts(self) -> dict[str, Any]:
        """Give counts, what waits and the groups that are gated."""
        return {
            **self.counts,
            "waiting": len(self.line),
            "granted": len(self.books.grants),
            "hungry": sorted(self._hungry),
        }

    def explain(self, group: str) -> str:
        """Say why a group's tasks get what they get."""
        return self.allocator.explain(Task("", group))
