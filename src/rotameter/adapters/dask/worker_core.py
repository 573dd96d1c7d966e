"""What the tracers of one worker process share: recorder, session, slots and the wraps.

Several workers may live in one process (``LocalCluster(processes=False)``). Their tasks run side by
side, so that one session must know them all; their rows travel over whichever worker is left.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rotameter.adapters.dask import _compat, slots
from rotameter.adapters.dask.names import emit, host_name, machine_facts, origin_of, run_id_of
from rotameter.adapters.dask.tally import Tally, guarded
from rotameter.adapters.dask.transport import WorkerLink
from rotameter.adapters.dask.worker_flows import Shuffles
from rotameter.profiler.live import fileio, rows
from rotameter.profiler.live import session as sessions
from rotameter.profiler.live.alone import begin_alone, leave_alone
from rotameter.profiler.live.context import Running, current, hook
from rotameter.profiler.live.host import HostSampler
from rotameter.profiler.live.recorder import ROWS_LIMIT, CallSink, Recorder
from rotameter.profiler.live.session import Session

__all__ = ["Core", "join", "stop_all", "tracer_of"]

_lock = threading.RLock()
_tracers: dict[int, Any] = {}
_core: Core | None = None


def tracer_of(worker: Any) -> Any:
    """Give the tracer of a worker, or None."""
    return _tracers.get(id(worker))


def join(tracer: Any) -> Core:
    """Take part in this process's core, which is made for the first worker."""
    global _core
    with _lock:
        if _core is not None and not _core.closed and all(t.closed for t in _tracers.values()):
            # The last trace did not end in an orderly way; nothing of it may get into this one.
            _tracers.clear()
            _core.link.workers.clear()
            _core._stop()
        elif _core is not None and not _core.closed:
            _end_before(tracer, _core)
        if _core is None or _core.closed:
            _core = Core(tracer.worker, tracer.config)
        _tracers[id(tracer.worker)] = tracer
        _core.link.workers.append(tracer.worker)
        _know_folders()
        return _core


def _end_before(tracer: Any, core: Core) -> None:
    """End what is left of an earlier trace of this scheduler, which has one at a time."""
    mine, address = tracer.config.get("trace"), tracer.worker.scheduler.address
    if core.link.trace == mine:
        return
    for place, other in list(_tracers.items()):
        if other.worker.scheduler.address == address and other.config.get("trace") != mine:
            other.stop_recording()
            del _tracers[place]
            with contextlib.suppress(ValueError):
                core.link.workers.remove(other.worker)
    if _tracers:  # of another scheduler; what is recorded from now on is of several traces
        core.link.trace = None
    else:
        core._stop()


def _know_folders() -> None:
    """Tell of the workers' own files: parts of shuffles and what is spilled are no task's."""
    places = [getattr(t.worker, "local_directory", None) for t in _tracers.values()]
    fileio.engine_files(f"{place}/{own}" for place in places if place for own in _OWN_FILES)


def stop_all(address: str | None) -> Core | None:
    """End the tracing of this process's workers of a scheduler, whose event loop has ended.

    Returns
    -------
    Core or None
        Holds all records that were not sent; None where no such worker lives here.
    """
    with _lock:
        mine = [t for t in _tracers.values() if t.worker.scheduler.address == address]
        core = _core
        if core is None or core.closed or not mine:
            return None
        core.recorder.sink = CallSink(core.link.keep)
        for tracer in mine:
            tracer.stop_recording()
            _tracers.pop(id(tracer.worker), None)
        if _tracers:
            core.recorder.flush()
        else:
            core._stop()
        return core


def _around(
    original: Any,
    task: Any,
    data: Any,
    state: Any,
    key: Any,
    threads: Any,
    threads_lock: Any,
    time_delay: float,
) -> Any:
    """Run one task in its thread; whatever goes wrong with us, the task runs exactly once."""
    tracer = _tracers.get(id(state["worker"]))
    if tracer is None:
        return original(task, data, state, key, threads, threads_lock, time_delay)
    attempt = message = None
    try:
        attempt = tracer.begin(key)
    except Exception as error:
        tracer._failed(error)
    try:
        message = original(task, data, state, key, threads, threads_lock, time_delay)
        return message
    finally:
        try:
            tracer.end(attempt, message, time_delay)
        except Exception as error:
            tracer._failed(error)


def _end(tracer: Any, attempt: Any, message: Any, time_delay: float) -> None:
    try:
        tracer.end(attempt, message, time_delay)
    except Exception as error:
        tracer._failed(error)


async def _around_async(original: Any, task: Any, data: Any, time_delay: float) -> Any:
    """Run one coroutine task; the worker comes from distributed's context."""
    tracer = _tracers.get(id(_compat.current_worker()))
    key = getattr(task, "key", None)
    if tracer is None or key is None:
        return await original(task, data, time_delay)
    attempt = message = None
    try:
        attempt = tracer.begin(key, coroutine=True)
    except Exception as error:
        tracer._failed(error)
    try:
        message = await original(task, data, time_delay)
        return message
    finally:
        _end(tracer, attempt, message, time_delay)


def _close_file(file: Any) -> None:
    if file is not None:
        with contextlib.suppress(Exception):
            file.close()


_THREADS_KEPT = 16
_OWN_FILES = ("storage/", "shuffle-")  # in a worker's folder
_MEASURED = ("worker", "started_ns", "ended_ns", "wall_s")
_ADDED = ("transfer_s", "received_bytes", "spill_s", "output_bytes")
_PLACES = tuple(rows.TASK_COLUMNS.index(name) for name in _MEASURED)
_WALL, _CPU = rows.TASK_COLUMNS.index("wall_s"), rows.TASK_COLUMNS.index("cpu_s")


class DaskSession(Session):
    """A session whose rows carry Dask's own measures, without a detour through mappings.

    A task leaves the caches cold, where each line of ours costs several times more than in a
    loop. So an attempt that is timed only goes the short way, and rows are made in the recorder's
    thread, many at a time.
    """

    __slots__ = ("_dask", "run_prefix")

    def __init__(self, recorder: Recorder, run_prefix: str, **options: Any) -> None:
        super().__init__(recorder, **options)
        self.run_prefix = run_prefix
        self._dask = recorder.channel("tasks", rows.TASK_COLUMNS + _ADDED, self._dask_row)

    def name_run(self, number: int) -> str:
        """Give the ``run_id`` of the attempt of this number."""
        return run_id_of(self.run_prefix, number)

    def begin_attempt(self, task_id: str, group: str, run_id: int, coroutine: bool) -> Running:
        """Begin an attempt in the thread that runs it."""
        state = self.guard.groups.get(group) or self.guard.group(group)
        r = None
        if state.level and not coroutine and not self._probes:
            r = begin_alone(self, state, group, task_id, current.get())
        if r is None:
            r = self.begin(task_id, group, stretched=coroutine)
        r.run_id = run_id
        return r

    def end_attempt(self, attempt: Any, outcome: str, error: BaseException | None) -> None:
        """End an attempt; a row of it and of what Dask measured follows."""
        r = attempt.running
        if attempt is r or not r.quick or not r.entered or r.files or error is not None:
            self.end(r, outcome, error, attempt=attempt)
            return
        leave_alone(self, r)
        r.outcome = outcome
        self._dask.add(attempt)

    def _record(self, r: Running, columns: Mapping[str, Any]) -> None:
        attempt = columns.get("attempt")
        if attempt is None or r.extra:  # recorded while it runs, or with readings of a probe
            if attempt is not None:
                attempt.finish()
                columns = {name: getattr(attempt, name) for name in _MEASURED + _ADDED}
            super()._record(r, columns)
            return
        if not r.files:
            self._dask.add(attempt)
            return
        self._dask.add(self._dask_row(attempt))
        self._record_files(r)

    def _dask_row(self, attempt: Any) -> tuple[Any, ...]:
        attempt.finish()
        values = list(self._render(attempt.running))
        for place, name in zip(_PLACES, _MEASURED, strict=True):
            values[place] = getattr(attempt, name)
        wall, cpu = values[_WALL], values[_CPU]
        if wall is not None and cpu is not None and cpu > wall:
            values[_CPU] = wall  # what ran between Dask's clock and ours is not the task's
        return (*values, *(getattr(attempt, name) for name in _ADDED))


class Core:
    """Recorder, session and slots of one worker process.

    Parameters
    ----------
    worker : distributed.Worker
        The first worker.
    config : mapping
        As of :class:`~rotameter.adapters.dask.worker_plugin.WorkerTracer`.
    """

    def __init__(self, worker: Any, config: Mapping[str, Any]) -> None:
        self.closed = False
        self.keep_slots = False  # where the event loop ends, rows may not arrive
        self.slots: slots.SlotFile | None = None
        self._undo: list[Callable[[], None]] = []
        self._lock_fd = -1
        self._sampler: HostSampler | None = None
        self._thread_files: dict[int, Any] = {}
        self.origin = origin_of("worker")
        self.own_process = _compat.has_own_process(worker)
        self.link = WorkerLink(self.origin, config.get("trace"))
        self.link.workers.append(worker)
        meta = {
            "role": "worker",
            **machine_facts(),
            "worker": worker.address if self.own_process else None,
            "start_ns": time.time_ns(),
            "by_value": bool(config.get("by_value")),
            "not_measured": _compat.missing(),
        }
        limit = int(config.get("rows_limit") or ROWS_LIMIT)
        self.recorder = Recorder(self.link, meta, rows_limit=limit, on_error=self._unless_io)
        self.recorder.on_fault = self._unless_io
        self._faults = Tally()
        exact = config.get("exact_peak")
        self.session = DaskSession(
            self.recorder,
            str(config.get("prefix") or ""),
            host=host_name(),
            worker=worker.address,
            level=config.get("level") or "default",
            exact_peak=self.own_process if exact is None else bool(exact),
            keep_errors=bool(config.get("keep_errors")),
        )
        self.session.faults.hush()
        self.link.workers.clear()
        self._sampled_hosts = config.get("sampled_hosts") or ()
        try:
            self._start(worker)
        except BaseException:
            self._stop()
            raise

    def _start(self, worker: Any) -> None:
        host = host_name() not in self._sampled_hosts and self._first_of_host()
        sampler = self._sampler = HostSampler(self.session, subject=worker.address, host=host)
        self.recorder.before_flush += [self.session.before_flush, sampler.tick, self.tick]
        self.shuffles = Shuffles(self.recorder)
        self.slots = self._open_slots(worker)
        # The user's own trace of this process, if there is one, stays the one that spans join.
        if hook.active is None:
            sessions.activate(self.session)
            self._undo.append(self._deactivate)
            if self.session.guard.level and not fileio.installed():
                fileio.install()
                self._undo.append(fileio.uninstall)
        for wrap in (
            lambda: _compat.wrap_run_task(_around, _around_async),
            lambda: _compat.wrap_shuffle_send(guarded(self.shuffles.observe, self.failed)),
        ):
            undo = wrap()
            if undo is not None:
                self._undo.append(undo)

    def _end_meta(self) -> None:
        """Say what measuring cost."""
        files_s = self.session.files_s
        spent_s = self.session.probe_ns / 1e9 + files_s
        facts = {"end": True, "probe_s": spent_s, "files_s": files_s}
        self.recorder.channel("meta", ("value",)).add((facts,))

    def _first_of_host(self) -> bool:
        """Tell whether no other worker process samples this host; true for one at a time.

        Where that cannot be found out, each samples it: the same figures twice do no harm.
        """
        try:
            import fcntl

            path = os.path.join(slots.folder(), "host.lock")
            self._lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._undo.append(lambda: os.close(self._lock_fd))
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (ImportError, OSError):
            return True
        return True

    def failed(self, error: BaseException) -> None:
        """Count a fault of what the workers of this process share; the first is told at once."""
        self._faults.note("process", error)
        if self._faults.count == 1:
            for tracer in list(_tracers.values())[:1]:
                tracer._tell_first()

    def _unless_io(self, error: BaseException) -> None:
        """Count a fault; a stream that ended and a file of /proc that is gone are none."""
        if not isinstance(error, OSError):
            self.failed(error)

    @property
    def first_fault(self) -> str | None:
        """The cause of the first fault that no worker of this process has told of."""
        return self.session.faults.first or self._faults.cause

    def take_faults(self) -> tuple[int, str | None]:
        """Give how many faults struck that no worker of this process has told of, and the first."""
        first, noted = self.first_fault, self.session.faults
        count = noted.count + self._faults.count
        noted.count, self._faults = 0, Tally()
        return count, first

    def _deactivate(self) -> None:
        if hook.active is self.session:
            sessions.deactivate()

    def _stop(self) -> None:
        """Undo all that :meth:`_start` did and write what is left."""
        self.closed = True
        while self._undo:
            with contextlib.suppress(Exception):
                self._undo.pop()()
        steps = (self.session.close, self._end_meta, self.recorder.close, self._close_files)
        for close in steps:
            guarded(close, self.failed)()
        self.link.workers.clear()  # nothing may follow into a later trace
        if self.slots is not None:
            self.slots.close(remove=not self.keep_slots)

    def used(self, running: Any) -> None:
        """Remember the counters of the calling thread, to close them when the trace ends."""
        state = getattr(running, "thread_state", None)
        if state is not None:
            self._thread_files[threading.get_ident()] = state

    def _forget_dead_threads(self) -> None:
        if len(self._thread_files) > _THREADS_KEPT:
            alive = {thread.ident for thread in threading.enumerate()}
            for ident in [i for i in list(self._thread_files) if i not in alive]:
                _close_file(getattr(self._thread_files.pop(ident, None), "file", None))

    def _close_files(self) -> None:
        """Close the descriptors of /proc now: nothing else does before a garbage collection."""
        prober = self.session.prober
        close = getattr(prober, "close", None)
        if close is not None:
            with contextlib.suppress(Exception):
                close()
        for state in list(self._thread_files.values()):
            _close_file(getattr(state, "file", None))
        self._thread_files.clear()
        for file in getattr(self._sampler, "_files", {}).values():
            _close_file(file)
        for name in ("io", "statm", "_status"):
            _close_file(getattr(getattr(prober, "proc", None), name, None))

    def _open_slots(self, worker: Any) -> slots.SlotFile | None:
        try:
            place = slots.folder()
            slots.remove_dead(place)
            path = os.path.join(place, f"{os.getpid()}-{self.origin.rpartition('-')[2]}.slots")
            return slots.SlotFile(path)
        except OSError as error:
            emit(
                self.recorder,
                "not_measured",
                time.time_ns(),
                worker=worker.address,
                text="what ran on a worker that was killed",
                reason=f"no slot file: {type(error).__name__}",
            )
            return None

    def tick(self) -> None:
        """Sample the workers' memory, twice a second, from the recorder's thread."""
        rss = self.session.sample_rss()
        if rss is not None and self.slots is not None:
            self.slots.memory(rss)
        for tracer in list(_tracers.values()):
            tracer.sample(rss)
        self._forget_dead_threads()

    def leave(self, tracer: Any) -> None:
        """Write what a worker still has; the last one closes everything (any thread)."""
        with _lock:
            # The next trace's tracer of this worker may be there already.
            place = id(tracer.worker)
            if _tracers.get(place) is tracer:
                del _tracers[place]
            _know_folders()
            last = not _tracers and not self.closed
            self.closed = self.closed or last
        if last:
            self._stop()
            return
        self.recorder.flush()
        with contextlib.suppress(ValueError):
            self.link.workers.remove(tracer.worker)
