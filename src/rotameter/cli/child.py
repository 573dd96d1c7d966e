"""The child of ``rotameter run``: trace this process, then run the user's program in it.

The program sees what plain Python would give it: ``__main__``, ``sys.argv``, ``sys.path[0]``, its
own traceback and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
import threading
import types
import warnings
from importlib.machinery import ModuleSpec
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


class _DaskWatch(importlib.abc.MetaPathFinder):
    """Trace dask's local schedulers from the moment that the program imports dask, if it does."""

    def __init__(self, session: Any) -> None:
        self.callback: Any = None
        self._session = session

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Stand in front of ``dask.base`` once; every other import goes its usual way."""
        if fullname != "dask.base":
            return None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        original = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            original(module)
            self._register()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _register(self) -> None:
        with contextlib.suppress(Exception):
            from rotameter.adapters.dask.callback import RotameterCallback

            callback = RotameterCallback(self._session)
            callback.register()
            self.callback = callback


def _run_script(target: str) -> None:
    """Execute a script as ``__main__``, so that its functions pickle and spawn as usual."""
    if not os.path.isfile(target) or target.endswith(".pyz"):
        runpy.run_path(target, run_name="__main__")
        return
    target = os.path.abspath(target)  # as Python itself does for __main__
    sys.path[0] = os.path.dirname(target)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=target, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    with open(target, "rb") as opened:
        source = opened.read()
    # Not with this file's own __future__ imports.
    exec(compile(source, target, "exec", dont_inherit=True), module.__dict__)


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
    return None


def _show(error: BaseException) -> None:
    """Print an error as Python would."""
    shown = _users_traceback(error)
    if shown is None and isinstance(error, ImportError) and error.__traceback__ is not None:
        # runpy's own: no such module, no __main__ in the folder
        print(f"{sys.executable}: {error}", file=sys.stderr)
    else:
        sys.excepthook(type(error), error.with_traceback(shown), shown)


def _let_dask_end(watch: _DaskWatch) -> None:
    """Take the last records of clusters while they still live."""
    with contextlib.suppress(Exception):
        if "distributed" in sys.modules:
            from rotameter.adapters.dask import finish_all

            finish_all()
        if watch.callback is not None:
            watch.callback.unregister()


def _close(session: Any, outcome: dict[str, Any]) -> None:
    """End this process's part of the trace and note how the program ended."""
    facts: dict[str, Any] = {"outcome": outcome}
    with contextlib.suppress(Exception):
        from rotameter.profiler.live import process

        if session is not None:
            unsaid = process.stop(session)["dropped_unsaid"]
            if unsaid:
                facts["dropped_unsaid"] = unsaid
    with contextlib.suppress(Exception):
        from pathlib import Path

        from rotameter.profiler.folder import update_meta

        update_meta(Path(os.environ["ROTAMETER_TRACE"]), **facts)


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
        from rotameter.profiler.folder import outcome_of

        options = json.loads(os.environ.get("ROTAMETER_OPTIONS") or "{}")
        return outcome_of(error, bool(options.get("keep_errors")))
    return {}


def main() -> None:
    """Run ``python -m rotameter.cli.child KIND TARGET [ARG …]``."""
    kind, target, *args = sys.argv[1:]
    sys.argv = [target, *args]
    session = _start()
    watch = _DaskWatch(session)
    if session is not None:
        sys.meta_path.insert(0, watch)
    outcome: dict[str, Any] = {}
    # Registered first, so that it runs last: after threads, executors and the program's own hooks.
    atexit.register(_close, session, outcome)
    error: BaseException | None = None
    try:
        _run(kind, target)
    except BaseException as raised:
        error = raised
        if not isinstance(error, SystemExit):
            _show(error)
    outcome.update(_outcome(error))
    _join_threads()
    _let_dask_end(watch)
    if isinstance(error, SystemExit):
        raise error
    if error is not None:
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


if __name__ == "__main__":
    main()
