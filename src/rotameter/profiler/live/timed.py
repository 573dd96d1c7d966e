"""The shortest way through a call that is only timed: begin, call and end in one function.

Does what ``Session.begin_call`` and ``Session.end`` do at level ``time``, without their dozen
calls, which cost more than the clocks. Whatever is not ordinary goes back to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rotameter.profiler.live.context import Running, current
from rotameter.profiler.live.stretches import live_above

__all__ = ["run_timed"]


def run_timed(
    session: Any, state: Any, func: Any, spec: tuple[Any, ...], args: Any, kwargs: Any
) -> Any:
    """Call ``func`` as a task of a group (``state``) whose level is ``time``; give its result."""
    group = spec[0]
    r = Running(f"{group}-{session.tag}-{next(session._counter)}", group, state)
    r.run_id = r.attempt = r.features = None
    r.requested_memory_bytes = spec[1]
    r.stretched = False
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
    except Exception as error:
        session.faults.note("begin", error)
        return _run_unmeasured(session, r, func, args, kwargs)
    try:
        result = func(*args, **kwargs)
    except BaseException as error:
        session.end(r, "ok", error)
        raise
    if r.files or not r.entered:
        session.end(r)
    else:
        _end(session, r, wall, thread)
    return result


def _end(session: Any, r: Running, wall: Callable[[], int], thread: Callable[[], int]) -> None:
    wall1 = wall()
    try:
        r.cpu_ns = thread() - r.cpu0_ns
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
        session.record_timed(r)
        r.up = r.previous = None
    except Exception as error:
        session.faults.note("end", error)
        if r.live:
            session.end(r)


def _run_unmeasured(session: Any, r: Running, func: Any, args: Any, kwargs: Any) -> Any:
    try:
        result = func(*args, **kwargs)
    except BaseException as error:
        session.end(r, "ok", error)
        raise
    session.end(r)
    return result
