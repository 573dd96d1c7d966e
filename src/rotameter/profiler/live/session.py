"""One process's measuring: what every task attempt did, as rows of a recorder.

``begin`` and ``end`` never raise: a failure is counted, warned of once, and the attempt is
recorded with what is known.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from rotameter.profiler.live import rows
from rotameter.profiler.live.begun import tell_begun
from rotameter.profiler.live.clock import SYSTEM, Clock
from rotameter.profiler.live.context import Measured, Running, current, hook
from rotameter.profiler.live.costs import CALL_S, OPEN_S, TIMED_S
from rotameter.profiler.live.faults import Faults
from rotameter.profiler.live.levels import LevelGuard
from rotameter.profiler.live.proc import Own, renew_lost
from rotameter.profiler.live.recorder import Channel, Recorder
from rotameter.profiler.live.redact import clean_name, clip, first_line
from rotameter.profiler.live.stretches import Stretches, live_above

__all__ = ["Session", "activate", "deactivate"]

UNSET: Any = object()
_ORPHANS_LIMIT = 1_000
_sessions = itertools.count(1)


def _tag(host: str, epoch_ns: int) -> str:
    """Give what keeps task ids of different sessions, processes and hosts apart."""
    place = zlib.crc32(f"{host} {epoch_ns}".encode())
    return f"{os.getpid():x}.{next(_sessions):x}.{place:08x}"


active: Session | None = None
"""The session of this process, None when nothing is traced."""


class Session(Stretches):
    """Begin and end task attempts; each ended one becomes a ``tasks`` row.

    Parameters
    ----------
    recorder : Recorder
        Takes the rows.
    host : str
    worker : str, optional
        The engine's name of this process.
    level : {"time", "default"}
        ``time``: wall and thread CPU. ``default``: also process CPU, I/O, files and memory.
    exact_peak : bool
        Reset the kernel's peak of resident memory at task boundaries (lowers ru_maxrss for
        everybody who reads it).
    clock : Clock
    keep_errors : bool
        Keep whole error messages, not only type and redacted first line.
    adapt : bool
        Step the level down for tiny tasks and when the budget is overrun.
    source : str, optional
        The ``source`` column; ``worker`` when ``worker`` is given, else ``tracer``.
    probes : iterable of Probe
        Further probes. A reading named as a column of ``tasks`` fills it, any other becomes a
        sample of the task.

    Examples
    --------
    >>> from rotameter.profiler.live.recorder import CallSink
    >>> recorder = Recorder(CallSink(lambda frames: None), {"role": "client"})
    >>> session = Session(recorder, host="here")
    >>> running = session.begin("load-1", "load")
    >>> session.end(running)
    >>> running.readings["outcome"], running.readings["wall_s"] >= 0
    ('ok', True)
    >>> recorder.close()
    """

    # Slots: with more than thirty attributes an ordinary instance gets slow look-ups.
    __slots__ = (
        "_adapts",
        "_cost_ns",
        "_counter",
        "_ended",
        "_events",
        "_flows",
        "_intervals",
        "_samples",
        "_tasks",
        "_wider",
        "exact_peak",
        "file_calls",
        "files_opened",
        "guard",
        "host",
        "keep_errors",
        "level0",
        "offset_ns",
        "orphans",
        "own",
        "probe_ns",
        "recorder",
        "source",
        "tag",
        "timed",
        "worker",
    )

    def __init__(
        self,
        recorder: Recorder,
        *,
        host: str,
        worker: str | None = None,
        level: str = "default",
        exact_peak: bool = False,
        clock: Clock = SYSTEM,
        keep_errors: bool = False,
        adapt: bool = True,
        source: str | None = None,
        probes: Iterable[Any] = (),
    ) -> None:
        own: Own = getattr(recorder.sink, "own", None) or Own()
        faults = Faults(recorder, worker)
        super().__init__(clock, own, faults, exact_peak=exact_peak, probes=probes)
        self.own = own
        self.recorder = recorder
        self.host = host
        self.worker = worker
        self.keep_errors = keep_errors
        self.tag = _tag(host, clock.epoch())
        self.source = source or ("tracer" if worker is None else "worker")
        self.exact_peak = self.prober.meter.exact
        self.guard = LevelGuard(level, adapt=adapt, note=self._level_changed)
        self.level0 = self.guard.level
        self._adapts = adapt and self.level0 > 0
        self.probe_ns = 0
        self.file_calls = 0
        self.files_opened = 0
        self._cost_ns = 0
        self._ended = 0
        self.timed = 0
        self.offset_ns = clock.offset_ns()
        self.orphans: dict[tuple[str, str], list[int]] = {}
        self._counter = itertools.count(1)
        # Rows are made in the recorder's thread: it finds its caches warm.
        self._tasks: Channel = recorder.channel("tasks", rows.TASK_COLUMNS, self._render)
        self._flows: Channel = recorder.channel("flows", rows.FLOW_COLUMNS)
        self._intervals: Channel = recorder.channel("intervals", rows.SPAN_COLUMNS)
        self._events: Channel = recorder.channel("events", rows.LEVEL_COLUMNS)
        self._samples: Channel = recorder.channel("samples", rows.SAMPLE_COLUMNS)
        self._wider: dict[tuple[str, ...], Channel] = {}

    # -- attempts ---------------------------------------------------------------------------

    def begin(
        self,
        task_id: str,
        group: str,
        *,
        run_id: str | None = None,
        attempt: int | None = None,
        parent: str | None = UNSET,
        requested_memory_bytes: int | None = None,
        features: dict[str, float] | None = None,
        stretched: bool = False,
    ) -> Running:
        """Start measuring an attempt in the calling thread and make it the current one.

        Parameters
        ----------
        task_id, group : str
        run_id : str, optional
            The engine's identity of the attempt.
        attempt : int, optional
        parent : str, optional
            By default the task that is current.
        requested_memory_bytes : int, optional
        features : dict of str to float, optional
            Numbers known before the run.
        stretched : bool
            The attempt runs in stretches (generator, coroutine) between which its thread does
            other work.

        Returns
        -------
        Running
            To be handed to :meth:`end`.
        """
        if len(task_id) > 200:
            task_id = clip(task_id)
        if len(group) > 200:
            group = clip(group)
        state = self.guard.groups.get(group) or self.guard.group(group)
        r = (Measured if state.level else Running)(task_id, group, state)
        r.run_id = run_id
        r.attempt = attempt
        r.requested_memory_bytes = requested_memory_bytes
        r.features = features
        r.stretched = stretched
        self._start(r, parent)
        return r

    def begin_call(
        self,
        group: str,
        requested_memory_bytes: int | None,
        features: dict[str, float] | None,
        stretched: bool,
    ) -> Running:
        """Do as :meth:`begin` for a call of a decorated function, which gets an own task id."""
        state = self.guard.groups.get(group) or self.guard.group(group)
        task_id = f"{group}-{self.tag}-{next(self._counter)}"
        r = (Measured if state.level else Running)(task_id, group, state)
        r.run_id = None
        r.attempt = None
        r.requested_memory_bytes = requested_memory_bytes
        r.features = features
        r.stretched = stretched
        self._start(r, UNSET)
        return r

    def _start(self, r: Running, parent: str | None) -> None:
        r.session = self
        try:
            above = current.get()
            if parent is not UNSET:
                r.parent = parent
            if above is not None:
                if parent is UNSET:
                    r.parent = above.task_id
                r.previous = above
                r.up = above if above.live else live_above(above)
            r.live = True
            self.enter(r)
            r.started_ns = r.wall0_ns + self.offset_ns
        except Exception as error:
            self.faults.note("begin", error)

    def end(
        self,
        running: Running,
        outcome: str = "ok",
        error: BaseException | None = None,
        **columns: Any,
    ) -> None:
        """Stop measuring an attempt and record it.

        Parameters
        ----------
        running : Running
            From :meth:`begin`.
        outcome : str
            With an ``error`` and the default, the outcome follows from the error.
        error : BaseException, optional
        **columns
            Further columns of the ``tasks`` table.
        """
        # An engine's session may be handed more than columns; see its _record.
        try:
            if not running.live:
                if current.get() is running:  # recorded by close() while it ran
                    current.set(live_above(running.previous))
                return
            try:
                wall1 = self.leave(running) if running.entered else self._wall()
            except Exception as fault:
                wall1 = self.abandon(running, fault)
            running.live = False
            running.ended_ns = wall1 + self.offset_ns
            if error is not None:
                outcome, running.error = self._outcome(outcome, error)
            running.outcome = outcome
            if columns or running.extra or running.files:
                self._record(running, columns)
            else:
                self._tasks.add(running)
            running.up = running.previous = None
            if running.level:
                self._count_cost(running)
                self.guard.ended(running.state, running, self._cost_ns, wall1)
            elif self._adapts:
                self.guard.ended(running.state, running, 0, 0)
        except Exception as fault:
            running.live = False
            self.faults.note("end", fault)

    def _count_cost(self, r: Running) -> None:
        """Add what measuring an attempt cost its thread, by a sample of every eighth.

        CPU time, since a thread that waits for the interpreter does not work; and twice the end's,
        since the start readings cost about as much.
        """
        self._ended += 1
        if self._ended & 7 == 1 and r.cpu1_ns is not None:
            self._cost_ns = 2 * (self._thread() - r.cpu1_ns)
        self.probe_ns += self._cost_ns

    def _outcome(self, outcome: str, error: BaseException) -> tuple[str, str | None]:
        if outcome == "ok":
            outcome = rows.outcome_of(error)
        return outcome, None if outcome == "ok" else first_line(error, keep=self.keep_errors)

    task_row = staticmethod(rows.task_row)

    def _render(self, r: Running) -> tuple[Any, ...]:
        """Give the row of an ended attempt; a failure is noted and raised."""
        try:
            self.timed += not r.level
            return rows.task_row(r)
        except Exception as fault:
            self.faults.note("row", fault)
            raise

    def _record(self, r: Running, columns: Mapping[str, Any]) -> None:
        row = rows.task_row(r)
        if columns or r.extra:
            self._record_wide(r, row, {**(r.extra or {}), **columns})
        else:
            r.row = dict(zip(rows.TASK_COLUMNS, row, strict=True))
            self._tasks.add(row)
        if r.files:
            self._record_files(r)

    def _record_files(self, r: Running) -> None:
        files, r.files = r.files, None
        self.file_calls += sum(entry[1] for entry in (files or {}).values())
        for flow in rows.flow_rows(r, self, files or {}):
            self._flows.add(flow)

    def _record_wide(self, r: Running, row: tuple[Any, ...], more: dict[str, Any]) -> None:
        values = dict(zip(rows.TASK_COLUMNS, row, strict=True))
        known = {name: more[name] for name in more if name in rows.ALL_TASK_COLUMNS}
        for name in more.keys() - known.keys():
            sample = (r.ended_ns, r.task_id, name, rows.number(more[name]), None)
            self._samples.add(sample)
        values.update(known)
        r.row = values
        key = tuple(values)
        channel = self._wider.get(key)
        if channel is None:
            channel = self._wider[key] = self.recorder.channel("tasks", key)
        channel.add(tuple(values.values()))

    @property
    def overhead_s(self) -> float:
        """Seconds that measuring took in tasks' threads; of level ``time`` by a usual cost."""
        return self.probe_ns / 1e9 + self.timed * TIMED_S + self.files_s

    @property
    def files_s(self) -> float:
        """Seconds of these that went into counting calls on files, by a usual cost of each."""
        return self.file_calls * CALL_S + self.files_opened * OPEN_S

    # -- the rest -----------------------------------------------------------------------------

    def span(self, name: str, lane: str, start_ns: int, end_ns: int, parent: str | None) -> None:
        """Record a stretch of time (monotonic ns) inside the current attempt, or outside any."""
        r = current.get()
        task_id, run_id, attempt = (r.task_id, r.run_name, r.attempt) if r else (None, None, None)
        start_ns, end_ns = start_ns + self.offset_ns, end_ns + self.offset_ns
        attempt_of = (task_id, run_id, attempt, self.worker)
        self._intervals.add((*attempt_of, lane, "span", clean_name(name), start_ns, end_ns, parent))

    def moved_bytes(self) -> tuple[int, int]:
        """Give what the process, less the tracer, has read and written so far, in bytes.

        Raises
        ------
        OSError
            Where the kernel does not tell.
        """
        with self._lock:
            return self.prober.moved_bytes()

    def flush_orphans(self) -> None:
        """Record file traffic that belongs to no task (also called when there is much of it)."""
        with self._lock:
            orphans, self.orphans = self.orphans, {}
        self.file_calls += sum(entry[1] for entry in orphans.values())
        for flow in rows.flow_rows(None, self, orphans):
            self._flows.add(flow)

    def before_flush(self) -> None:
        """Keep clocks together and the orphans few; runs in the flush thread."""
        if self.source == "tracer":  # An engine's own records tell what a killed worker ran.
            tell_begun(self)
        if len(self.orphans) > _ORPHANS_LIMIT:
            self.flush_orphans()
        self.offset_ns = self.clock.offset_ns()
        renew_lost()

    def _level_changed(self, group: str | None, reason: str, value: float) -> None:
        now = self.clock.epoch()
        self._events.add((now, "level_changed", self.worker, self.host, group, reason, value))

    def close(self) -> None:
        """Record what is left, tasks that still run too; the recorder itself stays open."""
        with self._lock:
            left = [*self._active, *self._suspended]
            self._active.clear()
            self._suspended.clear()
        for r in left:
            with contextlib.suppress(Exception):
                # Its thread's clock cannot be read from here.
                r.cpu_ns, r.entered, r.live, r.level = None, False, False, 0
                wall1 = self._wall()
                r.wall_ns = max(r.wall_ns, wall1 - r.wall0_ns)
                r.ended_ns = 0
                r.outcome = "running"
                self._record(r, {"ended_ns": None, "wall_s": None})
        with contextlib.suppress(Exception):
            self.flush_orphans()
        self.prober.meter.close()


def activate(session: Session) -> None:
    """Make ``session`` the one that ``@task`` functions and counted files report to."""
    global active
    from rotameter.profiler.live import tracer

    tracer.install()
    active = session
    hook.active = session
    hook.gate = session


def deactivate() -> None:
    """Let nothing be traced in this process any more."""
    global active
    active = None
    hook.gate = None
    hook.active = None
