"""A traced run: what ``with rm.trace(...)`` opens and closes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rotameter.errors import UsageError
from rotameter.profiler.folder import free_name, outcome_of, run_facts
from rotameter.profiler.live import process, session
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.recorder import FLUSH_S
from rotameter.profiler.live.redact import first_line

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["Run"]

_LAST = "the cluster's last records may be missing"
P = ParamSpec("P")
R = TypeVar("R")


class Run:
    """A traced run: context manager, decorator, and afterwards its trace and report.

    Made by :func:`rotameter.trace`. It never raises into the traced code; when nothing can be
    recorded it warns once and ``path`` is None.

    Attributes
    ----------
    path : pathlib.Path or None
        The trace folder.
    url : str or None
        Where the folder is uploaded to at the end, if an fsspec URL was given.
    """

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        given = os.fspath(path)
        self._named = bool(given)
        # Resolved now: the program may change its folder before the run ends.
        self._given = given if "://" in given else os.path.abspath(os.path.expanduser(given))
        self._options = options
        self.path: Path | None = None
        self.url: str | None = None
        self._session: Any = None
        self._attachment: Any = None
        self._callback: Any = None
        self._started_ns = 0
        self._trace: Trace | None = None
        self._outer: str | None = None
        self._facts: dict[str, Any] = {}

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Trace each call of a function (or coroutine function), each in a folder of its own."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def traced_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                async with Run(self._given, self._options):
                    return await function(*args, **kwargs)

            return traced_async  # type: ignore[return-value]

        @functools.wraps(function)
        def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            with Run(self._given, self._options):
                return function(*args, **kwargs)

        return traced

    def __enter__(self) -> Run:
        self._begin()
        client = self._options["client"]
        if client is not None and self.path is not None:
            try:
                self._attach(client)
            except Exception as problem:
                self._not_traced(problem)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if self._attachment is not None:
            self._guard(_LAST, self._attachment.finish)
        self._end(error)

    async def __aenter__(self) -> Run:
        self._begin()
        client = self._options["client"]
        if client is not None and self.path is not None:
            from rotameter.adapters.dask.attach import attach_async

            try:
                self._attachment = await attach_async(client, self.path, **self._dask_options())
                self._note_inactive()
            except Exception as problem:
                self._not_traced(problem)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if self._attachment is not None:
            try:
                await self._attachment.finish_async()
            except Exception as problem:
                self._warn(f"{_LAST}, the run goes on", problem)
        self._end(error)

    def _warn(self, what: str, problem: BaseException, stacklevel: int = 4) -> None:
        hint = getattr(problem, "hint", None)
        more = f" ({hint})" if hint else ""
        warn_once(f"rotameter: {what}: {first_line(problem)}{more}", stacklevel=stacklevel)

    def _guard(self, what: str, call: Callable[..., Any], *args: Any) -> None:
        try:
            call(*args)
        except Exception as problem:
            self._warn(f"{what}, the run goes on", problem)

    def _dask_options(self) -> dict[str, Any]:
        return {k: self._options[k] for k in ("level", "exact_peak", "keep_errors")}

    def _attach(self, client: Any) -> None:
        from rotameter.adapters.dask.attach import attach

        assert self.path is not None
        self._attachment = attach(client, self.path, **self._dask_options())
        self._note_inactive()

    def _note_inactive(self) -> None:
        """Leave word in the trace when somebody else already traces the cluster."""
        if not self._attachment.active:
            self._note(f"the cluster is not in this trace: {self._attachment.reason}")

    def _not_traced(self, problem: Exception) -> None:
        """Warn, and leave word in the trace, that the cluster is not in it."""
        self._warn("the cluster is not traced, the run goes on", problem)
        reason = first_line(problem).removeprefix("AttachError: the cluster is not traced: ")
        with contextlib.suppress(OSError):
            self._note(f"the cluster is not in this trace: {reason}")

    def _note(self, text: str) -> None:
        from rotameter.profiler.folder import read_meta, update_meta

        if self.path is not None:
            update_meta(self.path, warnings=[*read_meta(self.path).get("warnings", []), text])

    def _folder(self) -> Path:
        """Make the folder: the given path, a free name beside it, or a spool for a URL."""
        from rotameter.profiler.store import create

        if "://" in self._given:
            self.url = self._given
            name = Path(self._given.split("?")[0]).name or "run.rmt"
            return create(Path(tempfile.mkdtemp(prefix="rotameter-")) / name)
        if not self._named:
            raise UsageError("the name of the trace is empty", hint='such as "run.rmt"')
        path = Path(self._given)
        if self._options["force"]:
            return create(path, force=True)
        free = free_name(path)
        if free != path:
            warn_once(f"{path} exists; writing {free}", stacklevel=5)
        return create(free)

    def _begin(self) -> None:
        from rotameter.profiler.store import update_meta

        self._started_ns = time.time_ns()
        if session.active is not None:
            self._outer = process.place()
            warn_once(
                f"rotameter: a trace is open already in this process ({self._outer}); it records "
                f"this block, and {self._given} gets a copy of that part",
                stacklevel=4,
            )
            return
        try:
            folder = self._folder()
            run = {"status": "running", "started_ns": self._started_ns, "pid": os.getpid()}
            update_meta(folder, run=run, engine="python", **run_facts())
            self.path = folder
        except Exception as problem:
            self._warn(f"cannot write a trace at {self._given}; nothing is recorded", problem)
            return
        options = {k: self._options[k] for k in ("level", "exact_peak", "keep_errors")}
        try:
            self._session = process.start(
                self.path, host_samples=self._options["host_samples"], **options
            )
        except Exception as problem:
            self._warn("the tracer could not start; nothing is recorded", problem)
            return
        if "dask" in sys.modules:
            self._guard("Dask's local schedulers are not traced", self._watch_local_dask)

    def _watch_local_dask(self) -> None:
        from rotameter.adapters.dask.callback import RotameterCallback

        self._callback = RotameterCallback(self._session)
        self._callback.register()

    def _end(self, error: BaseException | None) -> None:
        if self._callback is not None:
            self._guard("Dask's callback stays registered", self._callback.unregister)
        if self._session is not None:
            self._guard("the last records may be missing", self._stop_session)
        if self._outer is not None:
            self._guard(f"{self._given} gets no copy of its part", self._copy_part, error)
        elif self.path is not None:
            self._guard("the trace could not be closed", self._finish, error)

    def _stop_session(self) -> None:
        unsaid = process.stop(self._session)["dropped_unsaid"]
        if unsaid:  # the disk was full to the end: say it where there may be room
            self._facts["dropped_unsaid"] = unsaid

    def _run_facts(self, error: BaseException | None) -> dict[str, Any]:
        return {
            **outcome_of(error, self._options["keep_errors"]),
            "started_ns": self._started_ns,
            "ended_ns": time.time_ns(),
        }

    def _copy_part(self, error: BaseException | None) -> None:
        """Inside another trace: give this block its own trace, cut out of the outer one."""
        from rotameter.profiler.store import open_trace

        run = self._run_facts(error)
        if self._options["client"] is not None:
            time.sleep(2 * FLUSH_S)  # the cluster's records are on their way
        if session.active is not None:
            session.active.recorder.flush()
        whole = open_trace(str(self._outer), warn=False)
        part = whole.between(run["started_ns"], run["ended_ns"])
        part.meta.update(run=run, warnings=[])
        self._trace = part
        self.path = self._folder()
        part.save(self.path, force=True)

    def _finish(self, error: BaseException | None) -> None:
        from rotameter.profiler.store import compact

        assert self.path is not None
        self._trace = compact(self.path, run=self._run_facts(error), **self._facts)
        if self.url is not None:
            self._upload(self.url)

    def _upload(self, url: str) -> None:
        from rotameter.profiler.upload import upload

        assert self.path is not None
        self.url = upload(self.path, url, force=bool(self._options["force"]))
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.path = None

    @property
    def trace(self) -> Trace:
        """The trace, once the run has ended.

        Raises
        ------
        UsageError
            While the run goes on, or if nothing could be recorded.
        """
        if self._trace is None:
            raise UsageError(
                "no trace yet: the run has not ended, or nothing could be recorded",
                hint="use it after the with block; an earlier TracerWarning says what failed",
            )
        return self._trace

    def verdict(self) -> Verdict:
        """Say what the run lost and why."""
        from rotameter import api

        return api.diagnose(self.trace)

    def report(self, path: str | os.PathLike[str], *, force: bool = False) -> Path | None:
        """Write the HTML report; see :func:`rotameter.report`.

        A script that ends with this call must not fail for it: where the file exists a free
        name beside it is taken, and where nothing was recorded, or the file cannot be written,
        nothing is; each warns.
        """
        if self._trace is None:
            warn_once("rotameter: no report: no trace was recorded", stacklevel=2)
            return None
        target = Path(path)
        free = target if force else free_name(target)
        if free != target:
            warn_once(f"{target} exists; writing {free}", stacklevel=2)
        from rotameter import api

        try:
            return api.report(self._trace, free, force=force)
        except Exception as problem:
            self._warn("no report", problem, stacklevel=3)
            return None

    def _repr_html_(self) -> str:
        return self.trace._repr_html_() if self._trace is not None else "<p>trace open</p>"
