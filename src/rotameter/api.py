"""The composition root: the one place that knows every part.

>>> import rotameter as rm
>>> with rm.trace("run.rmt") as run:            # doctest: +SKIP
...     main()
>>> run.report("report.html")                   # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotameter.errors import RotameterError, UsageError, WouldOverwrite, no_folder
from rotameter.running import Run

if TYPE_CHECKING:
    from rotameter.adapters.series_csv import Series
    from rotameter.forecasting.arrivals.forecasts import Forecasts
    from rotameter.forecasting.cosim.machine import Machine
    from rotameter.forecasting.cosim.simulation import Simulation
    from rotameter.profiler.storing.advice import Advice
    from rotameter.profiler.trace import Trace
    from rotameter.values import Verdict

__all__ = [
    "Run",
    "dask",
    "diagnose",
    "forecast",
    "open",
    "report",
    "simulate",
    "storage_advice",
    "trace",
]


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
        A folder ``NAME.rmt``, whole or torn; files, folders and glob patterns that an importer
        knows; the folder of a Nextflow or Snakemake run; the number of a Slurm job.
    format : str, optional
        The importer's name, where it is not found out.
    utc_offset : str or float, optional
        Zone of times that carry none (``"+02:00"``, ``"UTC"``, hours); else they stay relative.
    progress : callable, optional
        Called as ``progress(files_done, files)``.
    **options
        The importer's own; and ``scale={name: number}``, at what scale the run was made.

    Raises
    ------
    rotameter.errors.TraceError, rotameter.errors.InputError
        If nothing readable is there; the error says what to do.
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
    from rotameter.allocator.suggesting import suggester
    from rotameter.profiler.diagnose import diagnose as run_rules
    from rotameter.profiler.findings.base import Tools
    from rotameter.profiler.replaying.savings import Replayer

    if isinstance(trace, (str, os.PathLike)):
        trace = open(trace)
    advisors: list[Any] = []
    broken: list[str] = []
    for name in plugins.names("advisors"):
        try:
            advisors.append(plugins.get("advisors", name)())
        except Exception as error:
            broken.append(f"rule {name} could not be loaded: {error}")
    lent = Tools(replay=Replayer(trace), suggest=suggester(trace))
    verdict: Verdict = run_rules(trace, advisors, lent)
    if broken:
        from dataclasses import replace

        verdict = replace(verdict, notes=(*verdict.notes, *broken))
    return verdict


def storage_advice(
    trace: Trace | str | os.PathLike[str], bandwidths: str | os.PathLike[str], **options: Any
) -> Advice:
    """Say which store each stage should use, and at how many tasks at once, with all copies.

    Parameters
    ----------
    trace : Trace or path
        What the stages read and wrote.
    bandwidths : path
        CSV file of measured bandwidths (IOR, and copies between stores).
    **options
        ``nodes``, ``tasks_per_node``, ``stores``, ``home``, ``local`` of
        :func:`rotameter.profiler.storage.storage_advice`.

    Raises
    ------
    BadInput
        If the file holds no such table.
    UsageError
        For a store that it does not have.
    """
    from rotameter.adapters.bandwidths import read_bandwidths
    from rotameter.profiler.storage import storage_advice as advise

    if isinstance(trace, (str, os.PathLike)):
        trace = open(trace)
    return advise(trace, read_bandwidths(Path(bandwidths)), **options)


def simulate(
    trace: Trace | str | os.PathLike[str],
    policy: str = "easy",
    machine: Machine | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Simulation:
    """Say what the jobs of a log would have become under a policy, on its machine or another.

    Parameters
    ----------
    trace : Trace or path
        A log of a batch system (SWF, Slurm …).
    policy : str
        A policy's name: ``fcfs``, ``easy``, ``conservative``, ``priority``, ``fair_share``, or
        that of a plug-in.
    machine : Machine, optional
        Without it the one on which the log was recorded.
    settings : mapping, optional
        The policy's own, such as ``{"age_weight": 2.0}``.
    **options
        ``cores_from``, ``by``, ``terms``, ``limits``, ``forced``, ``price_core_h``,
        ``wait_limit_s`` of :func:`rotameter.forecasting.cosim.simulation.simulate`.

    Raises
    ------
    rotameter.errors.FidelityError
        If another machine is asked for, and the replay of the record is too far from it.
    rotameter.errors.UsageError, rotameter.errors.UnknownPlugin, rotameter.errors.EmptyTrace
        If the settings do not fit, there is no such policy, or no job can be simulated.

    Examples
    --------
    >>> from rotameter import Trace
    >>> from rotameter.forecasting.cosim.machine import Machine
    >>> job = {"submitted_ns": 0, "wall_s": 60.0, "granted_cores": 1.0}
    >>> log = Trace.from_tables({"tasks": [{**job, "task_id": n} for n in "123"]})
    >>> simulate(log, "easy", Machine(cores=2)).measures.makespan_s
    120.0
    """
    from rotameter import plugins
    from rotameter.forecasting.cosim.simulation import simulate as run

    made = plugins.get("policies", policy)
    given = dict(settings or {})

    def fresh() -> Any:
        try:
            return made(**given)
        except TypeError as error:
            raise UsageError(
                f"policy {policy}: {error}", hint="see the parameters of the policy's class"
            ) from error

    if isinstance(trace, (str, os.PathLike)):
        trace = open(trace)
    return run(trace, fresh, machine, name=policy, **options)


def read_series(
    path: str | os.PathLike[str], *, column: str | None = None, time: str | None = None
) -> Series:
    """Read a series of counts from a CSV file; see `rotameter.adapters.series_csv`."""
    from rotameter.adapters.series_csv import read_series as read

    return read(Path(path), column, time)


def forecast(
    series: str | os.PathLike[str] | Series | Sequence[float],
    *,
    season: int = 0,
    horizon: int = 6,
    from_index: int | None = None,
    quantiles: Sequence[float] | None = None,
    forecaster: str = "default",
) -> Forecasts:
    """Forecast the next bins of a series of counts, from what came before each origin alone.

    Parameters
    ----------
    series : path, Series or sequence of float
        Counts, one a bin; NaN is a missing bin.
    season : int
        Bins in a season, mostly a day; 0: none.
    horizon : int
        Bins ahead.
    from_index : int, optional
        The first origin: each bin from there on is one, as long as the next ``horizon`` bins are
        known. Without it the one origin is the end of the series.
    quantiles : sequence of float, optional
    forecaster : str
        Name of a plug-in.

    Returns
    -------
    Forecasts

    Examples
    --------
    >>> found = forecast([4.0, 2.0, 6.0, 4.0] * 50, season=4, horizon=2, from_index=190)
    >>> found.values.shape, found.origins.tolist()[-1]
    ((9, 2, 11), 198)
    """
    import numpy as np

    from rotameter import plugins
    from rotameter.adapters.series_csv import Series
    from rotameter.forecasting.arrivals.forecasts import Forecasts
    from rotameter.forecasting.arrivals.levels import ASKED
    from rotameter.forecasting.arrivals.rolling import origins, rolling, step_of

    if isinstance(series, (str, os.PathLike)):
        series = read_series(series)
    values = series.values if isinstance(series, Series) else [float(x) for x in series]
    times_ns = series.times_ns if isinstance(series, Series) else None
    levels = tuple(quantiles) if quantiles is not None else ASKED
    wanted = origins(len(values), from_index, horizon)
    step_ns = None if times_ns is None else step_of(times_ns[: wanted.start])
    made = plugins.get("forecasters", forecaster)(season=season, horizon=horizon, step_ns=step_ns)
    pairs = rolling(made, values, from_index, horizon, levels, times_ns=times_ns)
    rows = np.array([grid for _, grid in pairs])
    known = np.array([*values, *[float("nan")] * horizon])
    known[~(known >= 0.0)] = float("nan")
    truth = np.array([known[origin : origin + horizon] for origin in wanted])
    return Forecasts(
        forecaster, season, horizon, levels, np.array(wanted, dtype=np.int64), rows, truth
    )


def report_targets(
    path: str | os.PathLike[str],
    findings_json: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
) -> list[Path]:
    """Give the files that :func:`report` would write.

    Raises
    ------
    WouldOverwrite
        If one exists and ``force`` is not given.
    UsageError
        If one cannot be a file.
    """
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
            raise no_folder(target.parent)
    return targets


def report(
    trace: Trace | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    findings_json: str | os.PathLike[str] | None = None,
    verdict: Verdict | None = None,
    advice: Advice | None = None,
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
    verdict : Verdict, optional
        What :func:`diagnose` said; made here where not given.
    advice : Advice, optional
        What :func:`storage_advice` said; a section of the report.

    Raises
    ------
    WouldOverwrite
        If a file exists and ``force`` is not given.
    """
    import json

    from rotameter.profiler.whole_file import write_whole
    from rotameter.viz.report import render

    targets = report_targets(path, findings_json, force=force)
    if isinstance(trace, (str, os.PathLike)):
        trace = open(trace)
    verdict = verdict or diagnose(trace)
    facts: dict[str, Any] = {}
    texts = [render(trace, verdict, advice=advice, facts=facts)]
    if findings_json:
        texts.append(json.dumps(facts, indent=1, allow_nan=False))
    for target, text in zip(targets, texts, strict=True):
        try:
            write_whole(target, text)
        except OSError as error:
            raise RotameterError(
                f"cannot write {target}: {error.strerror or error}", hint="choose another place"
            ) from error
    return targets[0]


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

    def allocate(
        self,
        client: Any,
        *,
        memory: Any = None,
        state: Any = None,
        observe: bool = False,
    ) -> Any:
        """Let a cluster size its tasks' memory; see `rotameter.adapters.dask.allocate`."""
        from rotameter.adapters.dask.allocate import allocate

        return allocate(client, memory=memory, state=state, observe=observe)

    def why(self, client: Any, timeout_s: float = 2.0) -> Any:
        """Say what a running cluster does, when it is done, and what does not run and why."""
        from rotameter.adapters.dask.why import why

        return why(client, timeout_s)


dask = _Dask()
