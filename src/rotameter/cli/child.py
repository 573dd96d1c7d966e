"""The child of ``rotameter run``: trace this process, then run the user's program in it.

The program sees what plain Python would give it: ``__main__``, ``sys.argv``, ``sys.path[0]``, its
own traceback and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import sys
import threading
import types
import warnings
from typing import Any

__all__ = ["main"]


def _start() -> Any:
    """Open this process's part of the trace; None when that fails, and the program runs on."""
    try:
        from rotameter.profiler.live import process

        options = json.loads(os.environ.get("ROTAMETER_OPTIONS") or "{}")
        return process.start(os.environ["ROTAMETER_TRACE"], **options)
    except Exception as error:
        warnings.warn(f"rotameter: this run is not traced: {error}", stacklevel=1)
        return None


def _watch_dask(session: Any) -> Any:
    """Trace dask's local schedulers, where dask is installed."""
    try:
        from rotameter.adapters.dask.callback import RotameterCallback

        callback = RotameterCallback(session)
        callback.register()
        return callback
    except Exception:
        return None


def _run_script(target: str) -> None:
    """Execute a script as ``__main__``, so that its functions pickle and spawn as usual."""
    if not os.path.isfile(target) or target.endswith(".pyz"):
        runpy.run_path(target, run_name="__main__")
        return
    target = os.path.abspath(target)  # as Python itself does for __main__
    sys.path[0] = os.path.dirname(target)
    module = types.ModuleType("__main__")
    module.__file__ = target
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    with open(target, "rb") as opened:
        source = opened.read()
    exec(compile(source, target, "exec"), module.__dict__)


def _run(kind: str, target: str) -> None:
    if kind == "module":
        sys.path[0] = os.getcwd()
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        _run_script(target)


def _users_traceback(error: BaseException) -> types.TracebackType | None:
    """Give the traceback less our own frames and runpy's."""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name != __file__ and "runpy" not in name:
            return trace
        trace = trace.tb_next
    return error.__traceback__


def _let_dask_end(callback: Any) -> None:
    """Take the last records of clusters while they still live."""
    with contextlib.suppress(Exception):
        if "distributed" in sys.modules:
            from rotameter.adapters.dask import finish_all

            finish_all()
        if callback is not None:
            callback.unregister()


def _close(session: Any, outcome: dict[str, Any]) -> None:
    """End this process's part of the trace and note how the program ended."""
    with contextlib.suppress(Exception):
        from rotameter.profiler.live import process

        if session is not None:
            process.stop(session)
    with contextlib.suppress(Exception):
        from pathlib import Path

        from rotameter.profiler.store import update_meta

        update_meta(Path(os.environ["ROTAMETER_TRACE"]), outcome=outcome)


def _join_threads() -> None:
    """Wait as the interpreter would at its end, so that what they do is still recorded.

    Threads of executors are left out: idle ones never end by themselves, and the interpreter
    drains them in its own way before `_close` runs.
    """
    futures = sys.modules.get("concurrent.futures.thread")
    pooled = set(getattr(futures, "_threads_queues", ()))
    for thread in threading.enumerate():
        if not (thread is threading.current_thread() or thread.daemon or thread in pooled):
            thread.join()


def _outcome(error: BaseException | None) -> dict[str, Any]:
    with contextlib.suppress(Exception):
        from rotameter.api import outcome_of

        options = json.loads(os.environ.get("ROTAMETER_OPTIONS") or "{}")
        return outcome_of(error, bool(options.get("keep_errors")))
    return {}


def main() -> None:
    """Run ``python -m rotameter.cli.child KIND TARGET [ARG …]``."""
    kind, target, *args = sys.argv[1:]
    sys.argv = [target, *args]
    session = _start()
    callback = _watch_dask(session) if session is not None else None
    outcome: dict[str, Any] = {}
    # Registered first, so that it runs last: after threads, executors and the program's own hooks.
    atexit.register(_close, session, outcome)
    error: BaseException | None = None
    try:
        _run(kind, target)
    except BaseException as raised:
        error = raised
        if not isinstance(error, SystemExit):
            shown = _users_traceback(error)
            sys.excepthook(type(error), error.with_traceback(shown), shown)
    outcome.update(_outcome(error))
    _join_threads()
    _let_dask_end(callback)
    if isinstance(error, SystemExit):
        raise error
    if error is not None:
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


if __name__ == "__main__":
    main()
