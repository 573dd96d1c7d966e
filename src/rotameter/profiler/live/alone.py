"""The shortest way through an attempt that is measured in full while nothing else runs.

It does what ``Session.begin`` and ``Session.end`` do with ``Prober.enter`` and ``Prober.leave``
in them, without their dozen calls: those cost as much as the kernel's counters. As in
``rotameter.profiler.live.timed``, whatever is not ordinary goes back to them.
"""

from __future__ import annotations

from typing import Any

from rotameter.profiler.live.context import Measured, Running, current
from rotameter.profiler.live.proc import parse_io, usage
from rotameter.profiler.live.stretches import live_above

__all__ = ["begin_alone", "leave_alone"]


def begin_alone(
    session: Any, state: Any, group: str, task_id: str, above: Running | None
) -> Running | None:
    """Begin an attempt of a group (``state``) whose level is ``default``; ``above`` is current.

    None, and nothing done, where something else runs or the kernel's counters cannot be read.
    """
    prober, active = session.prober, session._active
    proc, meter = prober.proc, prober.meter
    io, statm = proc.io, proc.statm
    if active or prober.crowded or io is None or statm is None:
        return None
    r = Measured(task_id, group, state)
    r.session = session
    try:
        if above is not None:
            r.parent = above.task_id
            r.previous = above
            r.up = above if above.live else live_above(above)
        r.live = True
        current.set(r)
        with session._lock:
            now = session._wall()
            if active:  # another thread was faster
                session._join_crowd(r, now)
            else:
                session._leaves = 1
            session._area_at_ns = r.area_from_ns = now
            r.area0_ns = session._area_ns
            r.crowd = session._crowd
            r.entered = True
            if active or meter.exact:
                prober.enter(r)
            else:
                own = prober.own
                r.own_read0 = own.read
                r.own_write0 = own.written
                r.io_busy = own.busy > 0
                count = io.read()
                r.process_io0 = bytes(io.data)
                r.process_cpu0_s, r.max0_bytes = usage()
                own.read += count + statm.read()
                rss = int(statm.data.split(None, 2)[1]) * proc.page_bytes
                meter.base_bytes = r.rss0_bytes = r.peak_bytes = r.start_memory_bytes = rss
            active.add(r)
        r.cpu0_ns = session._thread()
        r.wall0_ns = wall0 = session._wall()
        r.started_ns = wall0 + session.offset_ns
        r.quick = True
    except Exception as error:
        session.faults.note("begin", error)
    return r


def leave_alone(session: Any, r: Any) -> None:
    """End the only stretch of a ``quick`` attempt of level ``default``."""
    wall1 = session._wall()
    r.cpu1_ns = cpu1 = session._thread()
    r.cpu_ns = cpu1 - r.cpu0_ns
    r.wall_ns = wall1 - r.wall0_ns
    r.stretches = 1
    active = session._active
    with session._lock:
        # Where the lock had to be waited for, others have summed up beyond this end.
        at = session._area_at_ns
        if wall1 > at:
            session._area_ns += session._leaves * (wall1 - at)
            session._area_at_ns = at = wall1
        r.area_ns = session._area_ns - r.area0_ns
        r.area_wall_ns = at - r.area_from_ns
        if r.crowd != session._crowd:
            r.shared = True
        prober = session.prober
        try:
            if r.shared or prober.meter.exact or len(active) != 1:
                prober.leave(r)
            else:
                _read_end(prober, r)
        except Exception as error:
            session.faults.note("probe", error)
        r.entered = False
        active.discard(r)
        if active:
            session._leave_crowd(r)
    above = r.previous
    if current.get() is r:
        current.set(above and live_above(above))
    r.ended_ns = wall1 + session.offset_ns
    r.live = False
    r.up = r.previous = None
    session._count_cost(r)
    session.guard.ended(r.state, r, session._cost_ns, wall1)


def _read_end(prober: Any, r: Any) -> None:
    """Take the end readings of an attempt beside which nothing ran (lock held)."""
    own, proc = prober.own, prober.proc
    io, statm = proc.io, proc.statm
    cpu_s, peak = usage()
    r.process_cpu_s = cpu_s - r.process_cpu0_s
    own.read += statm.read()
    rss = int(statm.data.split(None, 2)[1]) * proc.page_bytes
    start = r.rss0_bytes
    if peak > r.max0_bytes:  # the kernel's peak rose meanwhile, hence it is this attempt's
        r.added_kind = "exact"
    else:
        r.added_kind = "sampled" if r.ticks else "lower_bound"
        peak = rss
    added = max(r.peak_bytes, rss, peak) - start
    r.added_bytes = added if added > 0 else 0
    r.rss0_bytes = None
    own_read = own.read + own.reading - r.own_read0
    own_written = own.written + own.writing - r.own_write0
    r.io_busy = r.io_busy or own.busy > 0
    count = io.read()
    read1, write1 = parse_io(io.data)
    own.read += count
    read0, write0 = parse_io(r.process_io0 or b"")
    r.process_read_bytes = read1 - read0 - own_read
    r.process_write_bytes = write1 - write0 - own_written
