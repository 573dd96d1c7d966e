"""A traced process from start to end, and the children that join it.

``start`` opens the process's segment, counts files and leaves word for children in the
environment; a child's first traced call opens the child's own segment. Children end in many ways
(``os._exit`` after multiprocessing's finalisers, ``exec``, a signal): what is recorded is on disk
half a second later at most, and at once where the child ends in an orderly way.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import re
import socket
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from rotameter.errors import UsageError
from rotameter.profiler.live import children, fileio
from rotameter.profiler.live import session as session_module
from rotameter.profiler.live.context import ENV, current, hook
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.host import HostSampler, granted_cores, machine, memory_limit_bytes
from rotameter.profiler.live.recorder import FLUSH_S, Recorder
from rotameter.profiler.live.redact import first_line
from rotameter.profiler.live.segment import STOP_MARK
from rotameter.profiler.live.session import Session
from rotameter.profiler.live.spool import LostSink, SegmentSink, open_sink

__all__ = ["join", "open_segment", "place", "start", "stop"]

_own: dict[str, Any] = {}
"""What this process opened itself: session, recorder, folder, whether it is the first process."""


def host_name() -> str:
    """Give this machine's name, without characters that a file name cannot hold."""
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", socket.gethostname())[:64] or "host"


def open_segment(
    folder: str | os.PathLike[str],
    role: str,
    *,
    worker: str | None = None,
    extra_meta: Mapping[str, Any] | None = None,
    flush_s: float = FLUSH_S,
) -> Recorder:
    """Open this process's segment of a trace and give the recorder that fills it.

    Where the folder cannot be written, one :class:`~rotameter.errors.TracerWarning` says so and
    the recorder counts its records as dropped.

    Parameters
    ----------
    folder : path
        The trace's folder, made if absent.
    role : str
        client, worker, scheduler, nanny or process.
    worker : str, optional
        The engine's name of this process.
    extra_meta : mapping, optional
        Further facts of the segment.
    flush_s : float
        Longest time, in seconds, that a record stays only in memory.

    Returns
    -------
    Recorder

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recorder = open_segment(folder, "client")
    ...     recorder.close()
    ...     len(os.listdir(os.path.join(folder, "segments")))
    1
    """
    place = os.fspath(folder)
    host = host_name()
    meta = {
        "role": role,
        "host": host,
        "pid": os.getpid(),
        "worker": worker,
        "start_ns": time.time_ns(),
        "versions": {"python": platform.python_version()},
        **machine(),
        **(extra_meta or {}),
    }

    def failed(error: BaseException) -> None:
        warn_once(
            f"rotameter cannot write to {place} ({first_line(error)}); the run goes on and "
            "records that do not fit are counted as dropped"
        )

    sink: SegmentSink | LostSink
    try:
        sink = open_sink(place, f"{role}-{host}-{os.getpid()}")
    except OSError as error:
        failed(error)
        sink = LostSink(error)
        return Recorder(sink, meta, flush_s=flush_s)
    try:
        return Recorder(sink, meta, flush_s=flush_s, on_error=failed)
    except BaseException:
        sink.close()
        raise


def start(
    folder: str | os.PathLike[str],
    *,
    level: str = "default",
    exact_peak: bool = False,
    keep_errors: bool = False,
    host_samples: bool = True,
    flush_s: float = FLUSH_S,
    adapt: bool = True,
    extra_meta: Mapping[str, Any] | None = None,
) -> Session:
    """Trace this process and its children into a folder.

    Parameters
    ----------
    folder : path
    level : {"time", "default"}
    exact_peak, keep_errors, adapt : bool
        See :class:`~rotameter.profiler.live.session.Session`.
    host_samples : bool
        Sample CPU, memory, disk and network of the host twice a second.
    flush_s : float
        Longest time, in seconds, that a record stays only in memory.
    extra_meta : mapping, optional
        Further facts of the segment.

    Returns
    -------
    Session
        To be handed to :func:`stop`.

    Raises
    ------
    UsageError
        If this process is being traced already.
    """
    if session_module.active is not None:
        raise UsageError(
            "this process is being traced already",
            hint="close the open trace first, or name a part of it with rm.span(...)",
        )
    place = os.path.abspath(os.fspath(folder))
    options = {
        "level": level,
        "exact_peak": exact_peak,
        "keep_errors": keep_errors,
        "flush_s": flush_s,
        "adapt": adapt,
    }
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(place, "segments", STOP_MARK))
    session = _open(place, "client", options, host_samples, extra_meta)
    children.leave_word(json.dumps({"folder": place, **options}))
    return session


def _open(
    place: str,
    role: str,
    options: Mapping[str, Any],
    host_samples: bool,
    extra_meta: Mapping[str, Any] | None = None,
) -> Session:
    worker = f"{host_name()}-{os.getpid()}"
    recorder = open_segment(
        place, role, worker=worker, extra_meta=extra_meta, flush_s=options["flush_s"]
    )
    session = Session(
        recorder,
        host=recorder.meta["host"],
        worker=worker,
        level=options["level"],
        exact_peak=options["exact_peak"],
        keep_errors=options["keep_errors"],
        adapt=options["adapt"],
        source="tracer",
    )
    sampler = HostSampler(session, subject=worker, host=host_samples)
    recorder.on_fault = partial(session.faults.note, "sampling")
    recorder.before_flush.append(session.before_flush)
    recorder.before_flush.append(sampler.tick)
    _own.update(session=session, sampler=sampler, place=place, role=role)
    _worker_row(session, ended_ns=None)
    session_module.activate(session)
    if session.guard.level:
        fileio.install()
    return session


def _worker_row(session: Session, ended_ns: int | None) -> None:
    meta = session.recorder.meta
    columns = ("worker", "host", "name", "pid", "started_ns", "ended_ns", "end_reason")
    row = (session.worker, session.host, meta["role"], meta["pid"], meta["start_ns"], ended_ns)
    reason = None if ended_ns is None else "closed"
    # All processes of a trace share the machine: counted once, with the first.
    first = meta["role"] == "client"
    more = (reason, granted_cores(), memory_limit_bytes()) if first else (reason, None, None)
    session.recorder.channel("workers", (*columns, "cores", "memory_bytes")).add((*row, *more))


def place() -> str | None:
    """Give the folder of the trace that this process writes to, or None."""
    found = _own.get("place")
    return found if isinstance(found, str) else None


def stop(session: Session) -> dict[str, int]:
    """End what :func:`start` began: everything recorded here, and by children so far, is on disk.

    Never raises.

    Returns
    -------
    dict
        ``dropped_unsaid``: the number of dropped records that the segment itself cannot tell of,
        since not even that could be written.
    """
    if _own.get("session") is not session:
        return {"dropped_unsaid": 0}
    # At once: closing flushes, and a child's flush looks whether it should stop.
    folder, role = _own["place"], _own["role"]
    _own.clear()
    try:
        if session_module.active is session:
            session_module.deactivate()
        fileio.uninstall()
        children.withdraw_word()
        session.close()
        _worker_row(session, time.time_ns())
        session.recorder.meta["levels"] = {"stepped_down": session.guard.steps}
        _end_meta(session)
        session.recorder.close()
        if role == "client":
            children.call_in(os.path.join(folder, "segments"), STOP_MARK)
    except Exception as error:
        session.faults.note("stop", error)
    with contextlib.suppress(Exception):
        session.faults.tell()
    return {"dropped_unsaid": max(0, session.recorder.dropped_unsaid)}


def _end_meta(session: Session) -> None:
    """Say what measuring cost and how far its level went down."""
    facts = {
        "overhead": {"probe_s": session.overhead_s, "files_s": session.files_s},
        "levels": {"start": "default" if session.level0 else "time", "steps": session.guard.steps},
        "faults": session.faults.count,
        "first_fault": session.faults.first,
    }
    session.recorder.channel("meta", ("value",)).add((facts,))


# -- children ----------------------------------------------------------------------------------


def join() -> Session | None:
    """Open this child's segment of its parent's trace; None (for good) if that cannot be."""
    session = session_module.active
    if session is not None:
        return session
    hook.gate = None
    try:
        options = json.loads(os.environ[ENV])
        place = options["folder"]
        if os.path.exists(os.path.join(place, "segments", STOP_MARK)):
            return None
        session = _open(place, "process", options, host_samples=False)
        children.mark_live(session.recorder)
        session.recorder.before_flush.append(_leave_when_stopped)
        children.at_child_exit(_stop_own)
        return session
    except Exception as error:
        warn_once(f"rotameter could not trace process {os.getpid()} ({first_line(error)})")
        return None


def _leave_when_stopped() -> None:
    """In a child: close when the first process has ended the trace (runs in the flush thread)."""
    place = _own.get("place")
    if place is not None and os.path.exists(os.path.join(place, "segments", STOP_MARK)):
        _stop_own()


def _stop_own() -> None:
    session = _own.get("session")
    if session is not None:
        stop(session)
        children.unmark_live(session.recorder)


def _after_fork_in_child() -> None:
    """Let go of all that the parent holds; the child joins at its first traced call."""
    session = hook.active
    if session is None and not _own:
        return
    for r in list(session.prober.active) if session is not None else []:
        r.live = r.entered = False
    above = current.get()
    if above is not None:
        above.live = above.entered = False
    owned = _own.pop("session", None)
    _own.clear()
    session_module.deactivate()
    if owned is not None:
        children.disown(owned.recorder)
    if os.environ.get(ENV):
        hook.gate = "join"


@atexit.register
def _at_exit() -> None:
    with contextlib.suppress(Exception):
        _stop_own()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
