"""The worker's half of the gate: what each task used, and MemoryError as a request for more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from typing import Any

from dask.utils import key_split
from distributed import Reschedule
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.system import memory_limit

from rotameter.adapters.dask import _compat
from rotameter.profiler.live.memory import PeakMeter, bound
from rotameter.profiler.live.proc import Own, Proc
from rotameter.profiler.live.redact import clip, first_line

__all__ = ["TOPIC", "GateWorker"]

TOPIC = "rotameter-gate"

TOLD_S = 0.05
"""What tasks used is told so much later, many at a time: a message at the end of each would make
the task's own one, which lets the next begin, wait for the stream's next turn."""

AGAIN = 20
"""A task that raised ``MemoryError`` so often on one worker keeps it: nobody gave it more."""

BESIDE = 8
"""Of tasks of so many names that ran beside one, it is told which they were."""

ERROR_BYTES = 100_000
"""A task's own error is sent along up to this size."""


_BY_VALUE = "_rotameter_live_"


def _asked_for(error: BaseException) -> float:
    """Give the bytes that numpy could not get at once; 0 where nothing says how many."""
    need = getattr(error, "_total_size", 0)
    return float(need) if isinstance(need, int) else 0.0


def _pickled(made: Any) -> bytes | None:
    """Give a task's own error as its worker would send it."""
    data = getattr(made.get("exception"), "data", None)
    return data if isinstance(data, bytes) and len(data) <= ERROR_BYTES else None


def _made(watching: bool) -> GateWorker:
    return GateWorker(watching=watching)


class GateWorker(WorkerPlugin):
    """Measures peaks of tasks and tells the gate; never raises into a task.

    Parameters
    ----------
    watching : bool
        Measure only: a ``MemoryError`` stays one.
    """

    name = TOPIC
    idempotent = True

    def __init__(self, *, watching: bool = False) -> None:
        self._watching = watching

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._watching,)

    def setup(self, worker: Any) -> None:
        """Begin to measure."""
        self.worker = worker
        self._lock = threading.Lock()
        self._proc = Proc(Own())
        # A tracer that is here by value has its own meters: what it resets we only read.
        apart = any(type(one).__module__.startswith(_BY_VALUE) for one in worker.plugins.values())
        exact = _compat.has_own_process(worker) and not apart
        self._meter = PeakMeter(self._proc, exact=exact)
        self._kept, self._high = not (apart or self._meter.exact), 0
        self._running: dict[int, dict[str, Any]] = {}
        self._base = self._proc.rss_bytes() or 0
        self._said: list[dict[str, Any]] = []
        self._raised: Counter[Any] = Counter()
        self._undo = _compat.wrap_run_task(self._around, self._around_async)
        worker.log_event(TOPIC, {"worker": worker.address, "limit": memory_limit()})

    def teardown(self, worker: Any) -> None:
        """Stop measuring."""
        if self._undo is not None:
            self._undo()
        self._tell()
        self._meter.close()

    def _around(self, original: Any, task: Any, data: Any, state: Any, key: Any, *rest: Any) -> Any:
        if state.get("worker") is not self.worker:
            return original(task, data, state, key, *rest)
        mine = self._begin(key)
        made = original(task, data, state, key, *rest)
        with contextlib.suppress(Exception):
            error = made.get("actual_exception")
            short_of = isinstance(error, MemoryError) and self._may_come_back(key)
            said = self._end(mine, key, "memory_error" if short_of else made.get("op"))
            if short_of:
                told = {"need": _asked_for(error), "error": _pickled(made)}
                # At once: it is to be known before the task comes back.
                self._say([said | told | {"why": clip(first_line(error))}])
                if not self._watching:
                    made = {**made, "actual_exception": Reschedule()}
            else:
                self._tell_later(said)
        return made

    def _may_come_back(self, key: Any) -> bool:
        """Count a MemoryError; say whether its task may run again on account of it."""
        with self._lock:
            self._raised[key] += 1
            if self._raised[key] <= AGAIN:
                return True
            del self._raised[key]
        return False

    async def _around_async(self, original: Any, task: Any, data: Any, delay: Any) -> Any:
        return await original(task, data, delay)

    def _peak(self) -> int:
        """Give the peak since the last boundary, as far as it is known.

        Where nobody resets the kernel's peak it is that of the process's whole life: it says
        something of now only where it has risen.
        """
        high = max(self._proc.hwm_bytes() or 0, self._meter.missed_bytes)
        if not high or (self._kept and high <= self._high):
            return self._proc.rss_bytes() or 0
        self._high = high
        return high

    def _begin(self, key: Any) -> dict[str, Any]:
        mine: dict[str, Any] = {
            "key": key, "began": time.time(), "shared": False, "peak": 0, "run_id": None,
            "name": None, "beside": set(), "at_once": 1, "held": _compat.managed_bytes(self.worker),
        }  # fmt: skip
        with contextlib.suppress(Exception), self._lock:
            mine["run_id"] = self.worker.state.tasks[key].run_id
            self._stretch()
            now = self._proc.rss_bytes() or 0
            if not self._running:
                self._base = now
            mine["start"] = now
            self._running[id(mine)] = mine
            self._meet(mine)
        return mine

    def _meet(self, mine: dict[str, Any]) -> None:
        """Note who runs beside whom, from now on that one more does."""
        at_once = len(self._running)
        if at_once < 2:
            return
        for other in self._running.values():
            other["shared"] = True
            other["at_once"] = max(other["at_once"], at_once)
            if other["name"] is None:
                other["name"] = key_split(other["key"])
        for other in self._running.values():
            if other is not mine:
                for one, two in ((mine, other), (other, mine)):
                    if len(one["beside"]) <= BESIDE:
                        one["beside"].add(two["name"])

    def _stretch(self) -> None:
        """Add the peak since the last begin or end to all that run, and begin anew."""
        peak = self._peak()
        for one in self._running.values():
            one["peak"] = max(one["peak"], peak)
        self._meter.reset()

    def _end(self, mine: dict[str, Any], key: Any, op: Any) -> dict[str, Any]:
        """Give what is to be said of a task that ended."""
        with self._lock:
            self._stretch()
            self._running.pop(id(mine), None)
        amount, kind = bound(
            exact=self._meter.exact,
            shared=mine["shared"],
            peak_bytes=mine["peak"],
            new_max=False,
            start_bytes=mine.get("start", 0),
            base_bytes=self._base,
            sampled=True,
        )
        said = {
            "key": key,
            "op": op,
            "run_id": mine["run_id"],
            "peak": int(amount),
            "kind": kind,
            "wall": time.time() - mine["began"],
        }
        if op == "task-finished":
            self._raised.pop(key, None)
        return said | (self._beside(mine) if kind == "upper_bound" else {})

    def _beside(self, mine: dict[str, Any]) -> dict[str, Any]:
        """Give what else is known of a task that ran beside others: the least that it needed."""
        held, before = _compat.managed_bytes(self.worker), mine["held"]
        if held is None or before is None or len(mine["beside"]) > BESIDE:
            return {}
        return {
            "beside": sorted(mine["beside"]),
            "at_once": mine["at_once"],
            "grew": max(0, mine["peak"] - mine.get("start", 0)),
            "left": max(0, held - before),
        }

    def _tell_later(self, said: dict[str, Any]) -> None:
        with self._lock:
            self._said.append(said)
            first = len(self._said) == 1
        if first:
            loop = self.worker.loop
            loop.add_callback(loop.call_later, TOLD_S, self._tell)

    def _say(self, said: list[dict[str, Any]]) -> None:
        self.worker.log_event(TOPIC, {"tasks": said})

    def _tell(self) -> None:
        """Tell what has ended since the last time (event loop)."""
        with self._lock:
            said, self._said = self._said, []
        if said:
            with contextlib.suppress(Exception):
                self._say(said)
