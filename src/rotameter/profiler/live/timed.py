"""The shortest way through an attempt that is only timed.

At level ``time`` this does what ``Session.begin`` and ``Session.end`` do, without their dozen
calls, which cost more than the clocks. Whatever is not ordinary goes back to them.

None of it is on the stack while the user's function runs: a recursion gets as deep under the
tracer as without it. Near the limit any call fails, those of an error's handler too, hence the
last resort below calls nothing.
"""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.alone import leave_alone
from rotameter.profiler.live.context import Running, current
from rotameter.profiler.live.stretches import live_above

__all__ = ["Brief", "begin_timed", "end_call", "leave_timed"]


class Brief(Running):
    """An attempt of an engine's task that is timed only, with what the engine measured of it.

    Each object more, and each call of an initialiser, costs several microseconds where caches are
    cold; hence what never changes in such an attempt stands in the class.
    """

    __slots__ = (
        *("key", "slot", "task", "worker", "wall_s", "transfer_s", "received_bytes"),
        *("spill_s", "output_bytes", "times"),
    )
    attempt = features = requested_memory_bytes = tokens = extra = None
    stretched = untimed = False
    key: Any
    times: tuple[float, float, float] | None

    @property
    def running(self) -> Running:
        """The attempt itself."""
        return self

    def finish(self) -> None:
        """Put the engine's own measure of the task back on this machine's clock."""
        self.wall_s: float | None = None
        if self.times is not None:
            start, stop, delay = self.times
            self.started_ns = int((start - delay) * 1e9)
            self.ended_ns = int((stop - delay) * 1e9)
            self.wall_s = stop - start


def begin_timed(
    session: Any, state: Any, group: str, task_id: str, above: Running | None
) -> Running:
    """Begin an attempt of a group (``state``) whose level is ``time``; ``above`` is current."""
    r = Running(task_id, group, state)
    r.session = session
    try:
        if above is not None:
            r.parent = above.task_id
            r.previous = above
            r.up = above if above.live else live_above(above)
        r.live = True
        current.set(r)
        r.cpu0_ns = session._thread()
        with session._lock:
            active = session._active
            r.wall0_ns = wall0 = session._wall()
            if active:
                session._join_crowd(r, wall0)
            else:
                session._leaves = 1
            # From here on concurrency is summed up; the clock is read while the lock is held.
            session._area_at_ns = r.area_from_ns = wall0
            r.area0_ns = session._area_ns
            r.crowd = session._crowd
            r.entered = True
            active.add(r)
        r.started_ns = wall0 + session.offset_ns
        r.quick = True
    except Exception as error:
        session.faults.note("begin", error)
    return r


def leave_timed(session: Any, r: Running) -> None:
    """End the only stretch of a ``quick`` attempt that is entered and used no counted file."""
    wall1 = session._wall()
    r.cpu_ns = session._thread() - r.cpu0_ns
    r.wall_ns = wall1 - r.wall0_ns
    with session._lock:
        # Where the lock had to be waited for, others have summed up beyond this end.
        at = session._area_at_ns
        if wall1 > at:
            session._area_ns += session._leaves * (wall1 - at)
            session._area_at_ns = at = wall1
        r.area_ns = session._area_ns - r.area0_ns
        r.area_wall_ns = at - r.area_from_ns
        r.entered = False
        active = session._active
        active.discard(r)
        if active:
            session._leave_crowd(r)
    above = r.previous
    if current.get() is r:
        current.set(above and live_above(above))
    r.ended_ns = wall1 + session.offset_ns
    r.live = False
    r.up = r.previous = None


def end_call(r: Running, error: BaseException | None = None) -> None:
    """End a call; never raises."""
    session = r.session
    try:
        if r.quick and error is None and r.entered and not r.files:
            full = r.level
            if full:
                leave_alone(session, r)
            else:
                leave_timed(session, r)
            r.outcome = "ok"
            tasks = session._tasks
            rows = tasks.rows
            if len(rows) < tasks._high:  # as Channel.add does, less the call
                rows.append(r)
            else:
                tasks.add(r)
            if session._adapts and not full:
                session.guard.ended(r.state, r, 0, 0)
            return
        session.end(r, "ok", error)
        if current.get() is r:  # it failed within
            r.live = r.entered = False
            session._active.discard(r)
            current.set(r.previous)
    except Exception as fault:
        # At the limit of recursion no function can be called here, hence none needs to be.
        faults = session.faults
        try:
            faults.note("end", fault)
        except Exception:
            faults.count += 1
        r.live = r.entered = False
        try:
            if current.get() is r:
                current.set(r.previous)
            session._active.discard(r)
        except RecursionError:
            pass
