"""The only module that touches private or undocumented names of distributed.

Each use is checked when it is made; what a version lacks is reported by :func:`missing` and the
caller falls back. Nothing here raises for a missing name.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from rotameter.adapters.dask.sites import Sites

__all__ = [
    "Tap",
    "call_before_close",
    "client_handlers",
    "computation_codes",
    "current_worker",
    "fail_running",
    "fail_task",
    "fine_metrics",
    "forget_preload",
    "has_own_process",
    "hook_nanny_exit",
    "is_worker_client",
    "managed_bytes",
    "memory_fractions",
    "missing",
    "note_call_sites",
    "send_to_client",
    "send_to_scheduler",
    "span_of",
    "spill_counters",
    "spilled_bytes",
    "tap_log",
    "unhook_nanny_exit",
    "untap_log",
    "wrap_run_task",
    "wrap_shuffle_send",
]

_RUN_TASK = (
    "task",
    "data",
    "execution_state",
    "key",
    "active_threads",
    "active_threads_lock",
    "time_delay",
)
_RUN_TASK_ASYNC = ("task", "data", "time_delay")
_SHUFFLE_SEND = ("self", "address", "shards")
_SOURCE_CODE = ("code", "lineno_frame", "lineno_relative", "filename")
_OUR_PRELOADS = ("rotameter.adapters.dask", "adapters/dask/preload_client.py")
_lock = threading.Lock()


def _parameters(function: Any) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def missing() -> list[dict[str, str]]:
    """List what this version of distributed does not let us measure.

    Examples
    --------
    >>> missing()
    []
    """
    out = []
    if not _run_task_known():
        out.append(
            {
                "what": "CPU, memory and I/O of single Dask tasks",
                "reason": "this version of distributed runs tasks in another way",
                "enable": "use a version of distributed from 2025.1 on that rotameter knows",
            }
        )
    if not _shuffle_known():
        out.append(
            {
                "what": "bytes that shuffles send between workers",
                "reason": "this version of distributed shuffles in another way, or not at all",
                "enable": "use a version of distributed from 2025.1 on that rotameter knows",
            }
        )
    return out


def _run_task_known() -> bool:
    import distributed.worker as module

    function = getattr(module, "_run_task", None)
    function = getattr(function, "rotameter_original", function)
    return _parameters(function) == _RUN_TASK


def _shuffle_class() -> Any:
    try:
        from distributed.shuffle import _core
    except Exception:
        return None
    return getattr(_core, "ShuffleRun", None)


def _shuffle_known() -> bool:
    function = getattr(_shuffle_class(), "_send", None)
    function = getattr(function, "rotameter_original", function)
    return _parameters(function) == _SHUFFLE_SEND


def wrap_run_task(
    around: Callable[..., Any], around_async: Callable[..., Any]
) -> Callable[[], None] | None:
    """Run every task of this process through ``around``; gives the undo, or None if impossible.

    Parameters
    ----------
    around : callable
        ``around(original, task, data, execution_state, key, *rest)`` in the task's thread.
    around_async : callable
        ``around_async(original, task, data, time_delay)``, a coroutine function.
    """
    module: Any = importlib.import_module("distributed.worker")
    if not _run_task_known():
        return None
    with _lock:
        original = module._run_task
        original_async = getattr(module, "_run_task_async", None)

        def run_task(*args: Any) -> Any:
            return around(original, *args)

        async def run_task_async(*args: Any) -> Any:
            return await around_async(original_async, *args)

        setattr(run_task, "rotameter_original", original)  # noqa: B010
        module._run_task = run_task
        wrapped_async = _parameters(original_async) == _RUN_TASK_ASYNC
        if wrapped_async:
            setattr(run_task_async, "rotameter_original", original_async)  # noqa: B010
            module._run_task_async = run_task_async

    def undo() -> None:
        # Where somebody wrapped after us the chain is left alone: ours then only passes on.
        with _lock:
            if module._run_task is run_task:
                module._run_task = original
            if wrapped_async and module._run_task_async is run_task_async:
                module._run_task_async = original_async

    return undo


def has_own_process(worker: Any) -> bool:
    """Tell whether a process is a worker's alone: no scheduler, client or further worker in it."""
    if getattr(worker, "nanny", None) is not None:
        return True
    try:
        from distributed import Client, Scheduler

        clients = [c for c in list(Client._instances) if not is_worker_client(c)]
        workers = [w for w in list(type(worker)._instances) if w is not worker]
        return not (clients or workers or list(Scheduler._instances))
    except Exception:
        return False


def current_worker() -> Any:
    """Give the worker that this coroutine task runs on, or None."""
    import distributed.worker as module

    variable = getattr(module, "_worker_cvar", None)
    return variable.get(None) if variable is not None else None


def wrap_shuffle_send(observe: Callable[[str, str, Any, float, float], None]) -> Any:
    """Call ``observe(sender, receiver, shards, start, stop)`` after each P2P send.

    Returns
    -------
    callable or None
        The undo; None where the shuffle is not known.
    """
    from time import time

    klass = _shuffle_class()
    if klass is None or not _shuffle_known():
        return None
    original = klass._send

    async def _send(self: Any, address: str, shards: Any) -> Any:
        start = time()
        answer = await original(self, address, shards)
        with contextlib.suppress(Exception):
            observe(self.local_address, address, shards, start, time())
        return answer

    setattr(_send, "rotameter_original", original)  # noqa: B010
    klass._send = _send

    def undo() -> None:
        if klass._send is _send:
            klass._send = original

    return undo


class Tap(deque[Any]):
    """A log of distributed that also tells us what is appended."""

    def __init__(self, log: deque[Any], observe: Callable[[Any], None]) -> None:
        super().__init__(log, maxlen=log.maxlen)
        self.observe: Callable[[Any], None] | None = observe

    def append(self, entry: Any) -> None:
        """Append as ever, then tell."""
        super().append(entry)
        if self.observe is not None:
            with contextlib.suppress(Exception):
                self.observe(entry)


def tap_log(worker: Any, name: str, observe: Callable[[Any], None]) -> bool:
    """See every entry of a worker's transfer log, which itself keeps only the last ones."""
    log = getattr(worker, name, None)
    if not isinstance(log, deque):
        return False
    setattr(worker, name, Tap(log, observe))
    return True


def untap_log(worker: Any, name: str) -> None:
    """Put a plain log back."""
    log = getattr(worker, name, None)
    if isinstance(log, Tap):
        log.observe = None
        setattr(worker, name, deque(log, maxlen=log.maxlen))


def spilled_bytes(worker: Any) -> tuple[int, int] | None:
    """Give (in-memory size, size on disk) of what a worker has spilled; None without spilling."""
    total = getattr(worker.data, "spilled_total", None)
    return None if total is None else (int(total[0]), int(total[1]))


def spill_counters(worker: Any) -> dict[str, float]:
    """Give what a worker spilled and read back so far: seconds, bytes and counts."""
    metrics = getattr(worker.data, "cumulative_metrics", None)
    if metrics is None:
        return {}
    wanted = ("disk-read", "disk-write")
    return {f"{k[0]}/{k[1]}": float(v) for k, v in list(metrics.items()) if k[0] in wanted}


def managed_bytes(worker: Any) -> int | None:
    """Give the bytes of task results that a worker holds."""
    value = getattr(worker.state, "nbytes", None)
    return None if value is None else int(value)


def memory_fractions(worker: Any) -> dict[str, float]:
    """Give the fractions of the memory limit at which a worker spills, pauses or ends."""
    manager = getattr(worker, "memory_manager", None)
    out = {}
    for name in ("target", "spill", "pause"):
        value = getattr(manager, f"memory_{name}_fraction", None)
        if value:
            out[name] = float(value)
    return out


def client_handlers(client: Any) -> dict[str, Any] | None:
    """Give the mapping of a client's stream handlers."""
    handlers = getattr(client, "_stream_handlers", None)
    return handlers if isinstance(handlers, dict) else None


class _BeforeClose:
    """Stands among a client's preloads, whose teardown runs while its streams still work."""

    name = "rotameter"

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    async def start(self) -> None:
        """Nothing to do."""

    async def teardown(self) -> None:
        await self._call()


def call_before_close(client: Any, call: Callable[[], Any]) -> bool:
    """Await ``call()`` when a client closes, before its streams do; False if impossible."""
    preloads = getattr(getattr(client, "preloads", None), "_preloads", None)
    if not isinstance(preloads, list):
        return False
    preloads.append(_BeforeClose(call))
    return True


def send_to_scheduler(client: Any, message: dict[str, Any]) -> None:
    """Put a message on a client's stream (any thread)."""
    client._send_to_scheduler(message)


def send_to_client(scheduler: Any, client: str, message: dict[str, Any]) -> None:
    """Put a message on the stream to a client; raises when it is gone."""
    scheduler.client_comms[client].send(message)


def fail_task(scheduler: Any, key: Any, error: Exception) -> None:
    """End a task that waits for a worker, with this error, as distributed's own timeouts do."""
    from time import time

    pickle: Any = importlib.import_module("distributed.protocol.pickle")
    ts = scheduler.tasks.get(key)
    if ts is None or ts.state != "no-worker":
        return
    stimulus = f"rotameter-refuse-{time()}"
    further = scheduler.transition(
        key, "erred", exception=pickle.dumps(error), cause=key, stimulus_id=stimulus
    )
    scheduler.transitions(further, stimulus_id=stimulus)


def fail_running(scheduler: Any, ts: Any, error: bytes, text: str) -> None:
    """End a task that runs with its own pickled error, as if its worker had told of it."""
    from time import time

    take = getattr(scheduler, "handle_task_erred", None)
    if take is not None:
        take(
            key=ts.key, worker=ts.processing_on.address, run_id=ts.run_id,
            stimulus_id=f"rotameter-own-{time()}", exception=error, traceback=None,
            exception_text=text, traceback_text="",
        )  # fmt: skip


def is_worker_client(client: Any) -> bool:
    """Tell whether a client was made by a task, inside a worker."""
    return str(getattr(client, "id", "")).startswith("Client-worker-")


def hook_nanny_exit(nanny: Any, hook: Callable[[int | None, int | None], None]) -> bool:
    """Call ``hook(pid, exit code)`` when the nanny's worker process ends; False if impossible."""
    original = getattr(nanny, "_on_worker_exit_sync", None)
    if original is None:
        return False
    pids: dict[str, int | None] = {"pid": getattr(nanny, "pid", None)}

    def on_exit(exit_code: int | None) -> Any:
        with contextlib.suppress(Exception):
            hook(pids["pid"], exit_code)
        return original(exit_code)

    def note(pid: int | None) -> None:
        pids["pid"] = pid

    setattr(on_exit, "rotameter_original", original)  # noqa: B010
    setattr(on_exit, "rotameter_note", note)  # noqa: B010
    nanny._on_worker_exit_sync = on_exit
    if nanny.process is not None:
        nanny.process.on_exit = on_exit
    return True


def unhook_nanny_exit(nanny: Any) -> None:
    """Take the hook of :func:`hook_nanny_exit` off."""
    hooked = getattr(nanny, "_on_worker_exit_sync", None)
    original = getattr(hooked, "rotameter_original", None)
    if original is None:
        return
    with contextlib.suppress(AttributeError):
        del nanny._on_worker_exit_sync  # the instance's, so that the class's shows again
    if nanny.process is not None:
        nanny.process.on_exit = original


def computation_codes(scheduler: Any) -> list[tuple[Any, ...]]:
    """Give the code frames of the newest computation: tuples of (code, lines, file name)."""
    computations = getattr(scheduler, "computations", None)
    if not computations:
        return []
    return list(getattr(computations[-1], "code", ()))


def span_of(scheduler: Any, task_state: Any) -> Any:
    """Give the span that a task belongs to, or None."""
    extension = scheduler.extensions.get("spans")
    spans = getattr(extension, "spans", None) or {}
    return spans.get(getattr(task_state.group, "span_id", None))


def fine_metrics(scheduler: Any) -> dict[Any, float]:
    """Give the totals of the fine performance metrics, by (context, prefix, label, unit)."""
    return dict(getattr(scheduler, "cumulative_worker_metrics", None) or {})


def forget_preload() -> None:
    """Take our client preload out of a worker process that cannot import it.

    Nannies and SSH clusters hand the client's configuration on; a client made by a task would
    fail there for want of the package.
    """
    import dask

    with contextlib.suppress(Exception):
        if importlib.util.find_spec("rotameter") is None:
            names = dask.config.get("distributed.client.preload")
            names = [names] if isinstance(names, str) else list(names or ())
            kept = [name for name in names if not str(name).endswith(_OUR_PRELOADS)]
            if kept != names:
                dask.config.set({"distributed.client.preload": kept})


def note_call_sites(
    client: Any, failed: Callable[[BaseException], None] | None = None
) -> Callable[[], None] | None:
    """Let a client tell the scheduler the line that submits a graph, unless it does so already.

    distributed can send the source of whole functions (``computations.nframes``, off by default);
    this sends one line, without its strings, found in a few microseconds. Gives the undo, or None
    if impossible.
    """
    import dask

    module = importlib.import_module("distributed.scheduler")
    source_code: Any = getattr(module, "SourceCode", None)
    original = getattr(client, "_get_computation_code", None)
    if original is None or getattr(source_code, "_fields", ()) != _SOURCE_CODE:
        return None

    sites = Sites()

    def code(stacklevel: int | None = None, nframes: int = 1) -> Any:
        """Give the user's line that computes, as distributed's own method would."""
        if nframes > 0 or dask.config.get("distributed.diagnostics.computations.nframes", 0):
            return original(stacklevel=stacklevel, nframes=nframes)
        try:
            site = sites.of(sys._getframe(1))
            if site is None:
                return ()
            name, line, text = site
            one = source_code(code=text, lineno_frame=line, lineno_relative=0, filename=name)
            return (one,)
        except Exception as error:
            if failed is not None:
                failed(error)
            return ()

    client._get_computation_code = code

    def undo() -> None:
        if client.__dict__.get("_get_computation_code") is code:
            del client._get_computation_code

    return undo
