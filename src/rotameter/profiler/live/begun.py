"""Tell that tasks have begun while they run: a process that is killed has no other chance.

A row here says only that an attempt began, and where; the row of its end replaces it when the trace
is read. Tasks shorter than the time between two flushes never get one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rotameter.profiler.live.rows import number

if TYPE_CHECKING:
    from rotameter.profiler.live.context import Running
    from rotameter.profiler.live.session import Session

__all__ = ["BEGUN", "BEGUN_COLUMNS", "tell_begun"]

BEGUN = "begun"
"""The ``source`` of such a row."""

BEGUN_COLUMNS = (
    "task_id",
    "run_id",
    "attempt",
    "parent",
    "group",
    "worker",
    "host",
    "started_ns",
    "requested_memory_bytes",
    "source",
)


def tell_begun(session: Session) -> None:
    """Record those attempts of a session that run and have not been told of; each once."""
    with session._lock:
        running = [*session._active, *session._suspended]
    fresh = [r for r in running if r.live and not getattr(r, "told", False)]
    if not fresh:
        return
    channel = session.recorder.channel("tasks", BEGUN_COLUMNS)
    for r in fresh:
        started_ns = getattr(r, "started_ns", None)
        if number(started_ns) is None:  # it is just beginning
            continue
        r.told = True
        channel.add(_row(session, r))


def _row(session: Session, r: Running) -> tuple[object, ...]:
    return (
        r.task_id,
        r.run_name,
        r.attempt,
        r.parent,
        r.group,
        session.worker,
        session.host,
        r.started_ns,
        r.requested_memory_bytes,
        BEGUN,
    )
