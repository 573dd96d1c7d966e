"""The shortest way through a call of a decorated function.

At level ``time`` this does what ``Session.begin_call`` and ``Session.end`` do, without their dozen
calls, which cost more than the clocks. Whatever is not ordinary goes back to them.

Neither function is on the stack while the user's function runs: a recursion gets as deep under
the tracer as without it. Near the limit any call fails, those of an error's handler too, hence
the last resort below calls nothing.
"""

from __future__ import annotations

import contextlib
from typing import Any

from rotameter.profiler.live.context import Running, current
from rotameter.profiler.live.rows import timed_row
from rotameter.profiler.live.stretches import live_above

__all__ = ["begin_timed", "end_call"]


def begin_timed(session: Any, state: Any, spec: tuple[Any, ...]) -> Running:
    """Begin a call as a task of a group (``state``) whose level is ``time``."""
    group = spec[0]
    r = Running(f"{group}-{session.tag}-{next(session._counter)}", group, state)
    r.run_id = r.attempt = r.features = None
    r.requested_memory_bytes = spec[1]
    r.stretched = False
    r.session = session
    try:
        above = current.get()
        if above is not None:
            r.parent = above.task_id
            r.previous = above
            r.up = above if above.live else live_above(above)
        r.live = True
        session.timed += 1
        current.set(r)
        with session._lock:
            active = session._active
            alone = not active
            if alone:
                session._leaves = 1
            else:
                session._join_crowd(r)
            r.crowd = session._crowd
            r.entered = True
            active.add(r)
        thread, wall = session._thread, session._wall
        r.cpu0_ns = thread()
        r.wall0_ns = wall0 = wall()
        if alone:
            session._area_at_ns = wall0
            r.area0_ns = session._area_ns
        else:
            r.area0_ns = session._area_ns + session._leaves * (wall0 - session._area_at_ns)
        r.started_ns = wall0 + session.offset_ns
        r.quick = True
    except Exception as error:
        session.faults.note("begin", error)
    return r


def end_call(r: Running, error: BaseException | None = None) -> None:
    """End a call; never raises."""
    session = r.session
    try:
        if r.quick and error is None and r.entered and not r.files:
            wall1 = session._wall()
            r.cpu_ns = session._thread() - r.cpu0_ns
            r.wall_ns = wall1 - r.wall0_ns
            with session._lock:
                at = session._area_at_ns
                if wall1 > at:
                    session._area_ns += session._leaves * (wall1 - at)
                    session._area_at_ns = wall1
                r.area_ns = session._area_ns - r.area0_ns
                r.entered = False
                active = session._active
                active.discard(r)
                if active:
                    session._leave_crowd(r)
            if current.get() is r:
                above = r.previous
                current.set(above and live_above(above))
            r.ended_ns = wall1 + session.offset_ns
            r.live = False
            r.row = row = timed_row(r, session)
            tasks = session._tasks
            rows = tasks.rows
            if len(rows) < tasks._high:  # as Channel.add does, less the call
                rows.append(row)
            else:
                tasks.add(row)
            if session._adapts:
                session.guard.ended(r.state, r, 0, 0)
            r.up = r.previous = None
            return
        session.end(r, "ok", error)
        if current.get() is r:  # it failed within
            _let_go(session, r)
    except Exception as fault:
        session.faults.count += 1
        with contextlib.suppress(Exception):
            session.faults.count -= 1
            session.faults.note("end", fault)
        _let_go(session, r)


def _let_go(session: Any, r: Running) -> None:
    r.live = r.entered = False
    session._active.discard(r)
    if current.get() is r:
        current.set(r.previous)
