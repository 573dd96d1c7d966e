"""The composition root: the one place that knows every part.

>>> import rotameter as rm
>>> with rm.trace("run.rmt") as run:            # doctest: +SKIP
...     main()
>>> run.report("report.html")                   # doctest: +SKIP
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rotameter.errors import RotameterError, UsageError, WouldOverwrite
from rotameter.profiler.folder import free_name, outcome_of, run_facts
from rotameter.profiler.live import process, session
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.recorder import FLUSH_S
from rotameter.profiler.live.redact import first_line

if TYPE_CHECKING:
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = ["Run", "dask", "diagnose", "open", "report", "trace"]

P = ParamSpec("P")
R = TypeVar("R")


def open(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    utc_offset: str | float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Trace:
    """Open a trace, or import what another tool left behind.

    Parameters
    ----------
    path : path or sequence of paths
        A folder ``NAME.rmt``, whole or torn; a file, folder or glob pattern that an importer
        knows; the folder of a Nextflow or Snakemake run; or the number of a Slurm job.
    format : str, optional
        The importer's name, where it is not found out.
    utc_offset : str or float, optional
        Zone of times that carry none: ``"+02:00"``, ``"UTC"``, or hours east of UTC. Without it
        such times stay relative to the run's first instant.
    progress : callable, optional
        Called as ``progress(files_done, files)`` while many files are read.
    **options
        The importer's own.

    Raises
    ------
    rotameter.errors.TraceError
        If there is no readable trace there; the error says what to do.
    rotameter.errors.InputError
        If it is a file that cannot be imported.
    """
    from rotameter.adapters.importers import locating

    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return locating.open_any(
        given, format=format, utc_offset=utc_offset, progress=progress, options=options
    )


def diagnose(trace: Trace | str | os.PathLike[str]) -> Verdict:
    """Say what a run lost and why: every advisor's findings, ranked by what they cost.

    Parameters
    ----------
    trace : Trace or path

    Examples
    --------
    >>> from rotameter import Trace
    >>> diagnose(Trace.from_tables({})).status
    'unknown'
    """
    from rotameter import plugins
    from rotameter.profiler.diagnose import diagnose as run_rules

    if isinstance(trace, (str, os.PathLike)):
        trace = open(trace)
    advisors: list[Any] = []
    broken: list[str] = []
    for name in plugins.names("advisors"):
        try:
            advisors.append(plugins.get("advisors", name)())
        except Exception as error:
            broken.append(f"rule {name} could not be loaded: {error}")
    verdict: Verdict = run_rules(trace, advisors)
    if broken:
        from dataclasses import replace

        verdict = replace(verdict, notes=(*verdict.notes, *broken))
    return verdict


def report(
    trace: Trace | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    findings_json: str | os.PathLike[str] | None = None,
) -> Path:
    """Write the report of a trace: one HTML file that opens offline.

    Parameters
    ----------
    trace : Trace or path
    path : path
        The HTML file.
    force : bool
        Replace existing files.
    findings_json : path, optional
        Also write the same facts as JSON.

    Raises
    ------
    WouldOverwrite
        If a file exists and ``force`` is not given.
    """
    import json

    from rotameter.viz.report import findings_document, render

    if isinstance(trace, (str, os.PathLike)):
        trace = open(trace)
    targets = [Path(path).expanduser()]
    targets += [Path(findings_json).expanduser()] if findings_json else []
    if len({target.absolute() for target in targets}) < len(targets):
        raise UsageError("the page and its facts cannot be one file", hint="name two files")
    for target in targets:
        if target.is_dir():
            raise UsageError(f"{target} is a folder", hint="name a file in it")
        if target.exists() and not force:
            raise WouldOverwrite(
                f"{target} exists", hint="choose another name, or pass --force to replace it"
            )
        if not target.parent.is_dir():
            raise UsageError(f"no such folder: {target.parent}", hint="create it first")
    verdict = diagnose(trace)
    texts = [render(trace, verdict)]
    if findings_json:
        texts.append(json.dumps(findings_document(trace, verdict), indent=1, allow_nan=False))
    for target, text in zip(targets, texts, strict=True):
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RotameterError(
                f"cannot write {target}: {error.strerror or error}", hint="choose another place"
            ) from error
    return targets[0]


class Run:
    """A traced run: context manager, decorator, and afterwards its trace and report.

    Made by :func:`trace`. It never raises into the traced code; when nothing can be recorded it
    warns once and ``path`` is None.

    Attributes
    ----------
    path : pathlib.Path or None
        The trace folder.
    url : str or None
        Where the folder is uploaded to at the end, if an fsspec URL was given.
    """

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        given = os.fspath(path)
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
            self._guard(self._attach, client)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        if self._attachment is not None:
            self._guard(self._attachment.finish)
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
                self._warn("the cluster is not traced", problem)
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
                self._warn("the cluster's last records may be missing", problem)
        self._end(error)

    def _warn(self, what: str, problem: BaseException) -> None:
        hint = getattr(problem, "hint", None)
        more = f" ({hint})" if hint else ""
        warn_once(f"rotameter: {what}: {first_line(problem)}{more}", stacklevel=4)

    def _guard(self, call: Callable[..., Any], *args: Any) -> None:
        try:
            call(*args)
        except Exception as problem:
            self._warn(f"{getattr(call, '__name__', 'a step')} failed, the run goes on", problem)

    def _dask_options(self) -> dict[str, Any]:
        return {k: self._options[k] for k in ("level", "exact_peak", "keep_errors")}

    def _attach(self, client: Any) -> None:
        from rotameter.adapters.dask.attach import attach

        assert self.path is not None
        self._attachment = attach(client, self.path, **self._dask_options())
        self._note_inactive()

    def _note_inactive(self) -> None:
        """Leave word in the trace when somebody else already traces the cluster."""
        from rotameter.profiler.folder import read_meta, update_meta

        if self.path is not None and not self._attachment.active:
            words = read_meta(self.path).get("warnings", [])
            why = f"the cluster is not in this trace: {self._attachment.reason}"
            update_meta(self.path, warnings=[*words, why])

    def _folder(self) -> Path:
        """Make the folder: the given path, a free name beside it, or a spool for a URL."""
        from rotameter.profiler.store import create

        if "://" in self._given:
            self.url = self._given
            name = Path(self._given.split("?")[0]).name or "run.rmt"
            return create(Path(tempfile.mkdtemp(prefix="rotameter-")) / name)
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
            self._guard(self._watch_local_dask)

    def _watch_local_dask(self) -> None:
        from rotameter.adapters.dask.callback import RotameterCallback

        self._callback = RotameterCallback(self._session)
        self._callback.register()

    def _end(self, error: BaseException | None) -> None:
        if self._callback is not None:
            self._guard(self._callback.unregister)
        if self._session is not None:
            self._guard(self._stop_session)
        if self._outer is not None:
            self._guard(self._copy_part, error)
        elif self.path is not None:
            self._guard(self._finish, error)

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
        return diagnose(self.trace)

    def report(self, path: str | os.PathLike[str], *, force: bool = False) -> Path | None:
        """Write the HTML report; see :func:`report`.

        A script that ends with this call must not fail for it: where the file exists a free
        name beside it is taken, and where nothing was recorded nothing is written; both warn.
        """
        if self._trace is None:
            warn_once("rotameter: no report: no trace was recorded", stacklevel=2)
            return None
        target = Path(path)
        free = target if force else free_name(target)
        if free != target:
            warn_once(f"{target} exists; writing {free}", stacklevel=2)
        return report(self._trace, free, force=force)

    def _repr_html_(self) -> str:
        return self.trace._repr_html_() if self._trace is not None else "<p>trace open</p>"


def trace(
    path: str | os.PathLike[str] = "run.rmt",
    *,
    client: Any = None,
    force: bool = False,
    level: str = "default",
    exact_peak: bool | None = None,
    keep_errors: bool = False,
    host_samples: bool = True,
) -> Run:
    """Record what happens inside a ``with`` block or a decorated function.

    Parameters
    ----------
    path : path or fsspec URL
        The trace folder, ``NAME.rmt``. An existing one is never replaced unless ``force``: a
        free name beside it is taken, with a warning.
    client : distributed.Client, optional
        Trace this client's cluster; nothing needs to be installed on its machines. With an
        asynchronous client use ``async with``.
    force : bool
        Replace an existing trace.
    level : {"default", "time"}
        What is measured per task; ``"time"`` is wall and CPU time only.
    exact_peak : bool, optional
        Measure each task's peak memory exactly by resetting the kernel's peak, which others
        who read this process's peak then see too. None: in Dask worker processes only.
    keep_errors : bool
        Keep whole error messages instead of the type and the redacted first line.
    host_samples : bool
        Sample the host's CPU, memory, disk and network twice a second.

    Returns
    -------
    Run

    Examples
    --------
    >>> import tempfile, rotameter as rm
    >>> @rm.task(group="double")
    ... def double(x):
    ...     return 2 * x
    >>> with rm.trace(tempfile.mkdtemp() + "/run.rmt") as run:
    ...     double(21)
    42
    >>> run.trace.table("tasks")["group"].to_pylist()
    ['double']
    """
    return Run(
        path,
        {
            "client": client,
            "force": force,
            "level": level,
            "exact_peak": exact_peak,
            "keep_errors": keep_errors,
            "host_samples": host_samples,
        },
    )


class _Dask:
    """``rm.dask``: what is special to Dask."""

    def attach(self, client: Any, folder: str | os.PathLike[str]) -> Any:
        """Trace a client's cluster into an existing trace folder; see :func:`trace`."""
        from rotameter.adapters.dask.attach import attach

        return attach(client, Path(folder))

    def callback(self, session: Any = None) -> Any:
        """Give the `dask.callbacks.Callback` for the threaded and synchronous schedulers."""
        from rotameter.adapters.dask.callback import RotameterCallback

        return RotameterCallback(session)


dask = _Dask()
