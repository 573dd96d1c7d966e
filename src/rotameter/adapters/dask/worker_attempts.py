"""Beginning and end of the attempts that pass through the wrap, in the threads that run them.

A task leaves cold caches: there a line of ours costs as much memory as it touches, ten times what
it costs in a loop. Most short tasks are timed only (level ``time``), and for these ``begin`` and
``end`` go straight on: no calls of ours, all they need in one tuple, one object an attempt. They
do what ``Session.begin``, ``Session.end`` and ``rotameter.profiler.live.timed`` do. Whatever is
not ordinary goes the long way.
"""

from __future__ import annotations

import time
from typing import Any

from rotameter.adapters.dask.names import group_of, task_id_of
from rotameter.adapters.dask.slots import KEY_LIMIT
from rotameter.profiler.live.context import current
from rotameter.profiler.live.levels import GroupLevel
from rotameter.profiler.live.redact import first_line
from rotameter.profiler.live.stretches import live_above
from rotameter.profiler.live.timed import Brief

__all__ = ["Attempt", "Attempts"]

_DONE_LIMIT = 100_000
_GROUPS_LIMIT = 4096
_NAME_LIMIT = 200
_SPARE = 8  # threads that may look for a free slot and find the same one
_NOTHING = (0.0, 0)  # seconds and bytes fetched
_new = object.__new__  # an initialiser would be one more call


class Attempt:
    """One attempt: between begin and end, then what distributed measured of it."""

    __slots__ = (
        *("group", "key", "run_id", "running", "slot", "started_ns", "task", "task_id", "told"),
        *("worker", "ended_ns", "wall_s", "transfer_s", "received_bytes", "spill_s"),
        *("output_bytes", "times"),
    )
    quick = False
    transfer_s: float | None
    received_bytes: int | None
    spill_s: float
    output_bytes: int | None

    def __init__(self, key: Any, task: Any, task_id: str, group: str, started_ns: int) -> None:
        self.key = key
        self.task_id = task_id
        self.task = task
        self.run_id: int = task.run_id
        self.group = group
        self.started_ns = started_ns
        self.slot = -1
        self.told = False
        self.running: Any = None
        self.times: tuple[float, float, float] | None = None

    def finish(self) -> None:
        """Put the cluster's own measure of the task back on this machine's clock."""
        self.wall_s: float | None = None
        self.ended_ns: int | None = self.running.ended_ns
        if self.times is not None:
            start, stop, delay = self.times
            self.started_ns = int((start - delay) * 1e9)
            self.ended_ns = int((stop - delay) * 1e9)
            self.wall_s = stop - start


class Attempts:
    """The attempts of one worker that run, or have ended and are not told of by a transition."""

    worker: Any
    core: Any
    arrivals: Any
    _session: Any
    _task_of: Any
    _slots: Any

    def __init__(self) -> None:
        self.worker = None
        self.errors = 0
        self._first_error: str | None = None
        self._open: dict[int, Any] = {}
        self._done: set[int] = set()
        self._closed = True
        # What the straight ways need, in one piece; None where there are none.
        self._way_in: tuple[Any, ...] | None = None
        self._way_out: tuple[Any, ...] | None = None
        self._groups: dict[str, tuple[str, GroupLevel]] = {}

    def _open_ways(self) -> None:
        """Let attempts be recorded; look up once what each of them needs."""
        self._closed = False
        self._task_of = self.worker.state.tasks.get
        file, session = self._slots, self._session
        if file is None or session._probes:
            return
        lock, channel = session._lock, session._dask
        locks = (lock.acquire, lock.release, session._active)
        tasks = self._task_of
        self._way_in = (tasks, self._groups, session, *locks, self._open, *file.parts)
        taken = (self._open, self._done, self.arrivals.waiting)
        address = self.worker.address
        self._way_out = (session, *locks, *taken, *file.parts[:2], channel, address)

    def _close_ways(self) -> None:
        self._closed = True
        self._way_in = self._way_out = None

    def _failed(self, error: BaseException) -> None:
        self.errors += 1
        if self._first_error is None:
            self._first_error = first_line(error)
            self._tell_first()

    def _tell_first(self) -> None:
        """Say that there is a fault: a process that is killed never says how many there were."""

    def begin(self, key: Any, *, coroutine: bool = False) -> Any:
        """Note that an attempt begins (the task's thread); never raises.

        Returns
        -------
        Attempt, Brief or None
            To be handed to :meth:`end`.
        """
        r: Any = None
        try:
            way = self._way_in
            if way is None:
                return self._begin(key, coroutine)
            tasks, groups, session, take, drop, active, opened, free, words, view = way
            task = tasks(key)
            if task is None:
                return None
            found = groups.get(task.prefix)
            if found is None or found[1].level or coroutine or len(free) < _SPARE:
                return self._begin(key, coroutine)
            task_id = key if key.__class__ is str else str(key)
            size = len(task_id)
            # What task_id_of says of most keys, by shorter searches.
            if size < _NAME_LIMIT and task_id.isascii() and (text := task_id.encode()).islower():
                if ":" in task_id or "=" in task_id:
                    task_id, text, size = _odd(key)
            else:
                task_id, text, size = _odd(key)
            r = _new(Brief)
            r.session, r.key, r.task_id, r.task = session, key, task_id, task
            r.group, r.state = found
            r.level = r.children = r.stretches = r.wall_ns = r.area_ns = r.area_wall_ns = 0
            r.told = r.quick = r.entered = r.shared = False
            r.parent = r.up = r.files = r.outcome = r.error = r.row = r.cpu1_ns = r.times = None
            r.slot, r.cpu_ns, r.run_id = -1, 0, task.run_id
            r.started_ns = session._wall() + session.offset_ns
            r.previous = above = current.get()
            if above is not None:
                r.parent = above.task_id
                r.up = above if above.live else live_above(above)
            opened[r.run_id] = r
            r.slot = at = free.popleft()
            words[at] = words[at + 3] = 0
            words[at + 2] = size
            words[at + 1] = r.run_id
            view[8 * at + 32 : 8 * at + 32 + size] = text
            words[at] = r.started_ns
            r.live = True
            current.set(r)
            r.cpu0_ns = session._thread()
            take()
            try:
                r.wall0_ns = wall0 = session._wall()
                if active:
                    session._join_crowd(r, wall0)
                else:
                    session._leaves = 1
                session._area_at_ns = r.area_from_ns = wall0
                r.area0_ns = session._area_ns
                r.crowd = session._crowd
                r.entered = True
                active.add(r)
            finally:
                drop()
            r.quick = True
        except Exception as error:
            self._failed(error)
        return r

    def _begin(self, key: Any, coroutine: bool) -> Attempt | None:
        """Begin an attempt that is measured in full, or is not ordinary."""
        task = self.worker.state.tasks.get(key)
        if task is None or self._closed:
            return None
        prefix = task.prefix
        group, task_id = group_of(prefix), task_id_of(key)
        attempt = Attempt(key, task, task_id, group, time.time_ns())
        run_id = attempt.run_id
        if self._slots is not None:
            attempt.slot = self._slots.begin(task_id, run_id, attempt.started_ns)
        self._open[run_id] = attempt
        running = attempt.running = self._session.begin_attempt(task_id, group, run_id, coroutine)
        if running.level:
            self.core.used(running)
        if prefix not in self._groups:
            self._know(prefix, group)
        return attempt

    def _know(self, prefix: str, group: str) -> None:
        """Let the next tasks of a prefix find their group by one look."""
        state = self._session.guard.groups.get(group)
        if state is not None:
            if len(self._groups) >= _GROUPS_LIMIT:
                self._groups.clear()
            self._groups[prefix] = group, state

    def end(self, r: Any, message: Any, time_delay: float) -> None:
        """Note that an attempt (from :meth:`begin`) ended (the task's thread); never raises."""
        if r is None:
            return
        try:
            way = self._way_out
            if way is None or not r.quick or r.files or not r.entered or message is None:
                self._end(r, message, time_delay)
                return
            session, take, drop, active, opened, done, waiting, free, words, channel, address = way
            if message.get("actual_exception") is not None or len(done) > _DONE_LIMIT:
                self._end(r, message, time_delay)
                return
            wall1 = session._wall()
            r.cpu_ns = session._thread() - r.cpu0_ns
            r.wall_ns = wall1 - r.wall0_ns
            if opened.pop(r.run_id, None) is None:
                self._end(r, message, time_delay)
                return
            done.add(r.run_id)
            task, r.task = r.task, None
            r.outcome = "cancelled" if task.state == "cancelled" else "ok"
            # The message itself is not kept: it holds the result.
            r.times = message["start"], message["stop"], time_delay
            r.output_bytes, r.worker = message.get("nbytes"), address
            r.transfer_s, r.received_bytes = self.arrivals.take(r.key) if waiting else _NOTHING
            r.spill_s = self._disk_read_s(r, task) if task.startstops else 0.0
            take()
            try:
                # Where the lock had to be waited for, others have summed up beyond this end.
                at = session._area_at_ns
                if wall1 > at:
                    session._area_ns += session._leaves * (wall1 - at)
                    session._area_at_ns = at = wall1
                r.area_ns = session._area_ns - r.area0_ns
                r.area_wall_ns = at - r.area_from_ns
                r.entered = False
                active.discard(r)
                if active:
                    session._leave_crowd(r)
            finally:
                drop()
            words[r.slot + 3] = wall1 + session.offset_ns
            free.append(r.slot)
            above = r.previous
            if current.get() is r:
                current.set(above and live_above(above))
            r.live = False
            r.up = r.previous = None
            rows = channel.rows
            if len(rows) < channel._high:  # as Channel.add does, less the call
                rows.append(r)
            else:
                channel.add(r)
            if session._adapts:
                session.guard.ended(r.state, r, 0, 0)
        except Exception as error:
            self._failed(error)

    def _end(self, attempt: Any, message: Any, time_delay: float) -> None:
        """End an attempt that was measured in full, failed, or is not ordinary."""
        if self._slots is not None:
            self._slots.end(attempt.slot, time.time_ns())
        counted = self._open.pop(attempt.run_id, None) is not None and not self._closed
        if not counted:
            # Recorded as still running when the trace ended; the session lets go of it.
            self._session.end(attempt.running)
            return
        if len(self._done) > _DONE_LIMIT:
            self._done.clear()
        self._done.add(attempt.run_id)
        task, attempt.task = attempt.task, None
        outcome, error = _outcome(task, message)
        attempt.transfer_s, attempt.received_bytes = self.arrivals.take(attempt.key)
        attempt.spill_s = self._disk_read_s(attempt, task)
        attempt.output_bytes, attempt.worker = None, self.worker.address
        if message is not None:
            # The message itself is not kept: it holds the result.
            attempt.times = message["start"], message["stop"], time_delay
            attempt.output_bytes = message.get("nbytes")
        self._session.end_attempt(attempt, outcome, error)

    def _disk_read_s(self, attempt: Any, task: Any) -> float:
        """Give the seconds that a task's inputs took to come back from disk, and record when."""
        seconds = 0.0
        for item in list(task.startstops):
            if item["action"] == "disk-read":
                seconds += item["stop"] - item["start"]
                self.arrivals.disk(attempt.key, attempt.run_id, item)
        return seconds


def _odd(key: Any) -> tuple[str, bytes, int]:
    """Give the task id of a key that is to be looked at closely, for a slot too."""
    task_id = task_id_of(key)
    text = task_id.encode("utf-8", "replace")[:KEY_LIMIT]
    return task_id, text, len(text)


def _outcome(task: Any, message: Any) -> tuple[str, BaseException | None]:
    """Give the outcome, and the error if it is one to be told."""
    if message is None:
        return "failed", None
    error = message.get("actual_exception")
    if error is None:
        return ("cancelled" if task.state == "cancelled" else "ok"), None
    if isinstance(error, MemoryError):
        return "oom", error
    if type(error).__name__ == "Reschedule":
        return "rescheduled", None
    return "failed", error
