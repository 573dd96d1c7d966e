"""The shortest way through an attempt that is only timed.

At level ``time`` this does what ``Session.begin`` and ``Session.end`` do, without their dozen
calls, which cost more than the clocks. Whatever is not ordinary goes back to them.

None of it is on the stack while the user's function runs: a recursion gets as deep under the
tracer as without it. Near the limit any call fails, those of an error's handler too, hence the
last resort below calls nothing.
"""

from __future__ import annotations

import contextlib
from _thread import get_ident
from typing import Any

from rotameter.profiler.live.context import Running, current
from rotameter.profiler.live.stretches import live_above

__all__ = ["begin_timed", "end_call", "leave_timed"]

# A thread that ended an attempt so short a time ago has run ever since: its clock, which is a
# system call, need not be asked again. Were it not so, the CPU time would be too low by this.
_SINCE_NS = 10_000


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
        r.wall0_ns = wall0 = session._wall()
        thread, wall1, cpu1 = session._last
        if wall0 - wall1 < _SINCE_NS and thread == get_ident():
            r.cpu0_ns = cpu1 + wall0 - wall1
        else:
            r.cpu0_ns = session._thread()
            r.wall0_ns = wall0 = session._wall()
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


def leave_timed(session: Any, r: Running) -> None:
    """End the only stretch of a ``quick`` attempt that is entered and used no counted file."""
    wall1 = session._wall()
    cpu1 = session._thread()
    session._last = (get_ident(), session._wall(), cpu1)
    r.cpu_ns = cpu1 - r.cpu0_ns
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
            leave_timed(session, r)
            r.outcome = "ok"
            tasks = session._tasks
            rows = tasks.rows
            if len(rows) < tasks._high:  # as Channel.add does, less the call
                rows.append(r)
            else:
                tasks.add(r)
            if session._adapts:
                session.guard.ended(r.state, r, 0, 0)
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
