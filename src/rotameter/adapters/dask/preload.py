"""What the preload does, by the kind of process that loads it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from rotameter.adapters.dask import _compat
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line, redact_command

__all__ = ["begin_meta", "end_meta", "setup", "teardown"]

_META = "meta.json"
_writing: dict[int, tuple[str, int | None]] = {}


async def setup(server: Any, folder: str) -> None:
    """Begin to trace a client or a scheduler; what fails is warned of, once."""
    from distributed import Client, Scheduler

    try:
        if isinstance(server, Client):
            if not _compat.is_worker_client(server):
                from rotameter.adapters.dask.attach import attach_async

                await attach_async(server, folder, shared=True, **_options())
        elif isinstance(server, Scheduler):
            await _setup_scheduler(server, folder)
    except Exception as error:
        warn_once(f"rotameter does not trace this Dask cluster: {first_line(error)}")


def _options() -> dict[str, Any]:
    """Read what ``rotameter run`` asks for."""
    given = json.loads(os.environ.get("ROTAMETER_OPTIONS") or "{}")
    return {name: given[name] for name in ("level", "exact_peak", "keep_errors") if name in given}


async def teardown(server: Any) -> None:
    """End the trace of a client; a scheduler's ends with its plug-in, here its run is noted."""
    written = _writing.pop(id(server), None)
    if written is not None:
        end_meta(*written)
        return
    from rotameter.adapters.dask.attach import attachment_of

    try:
        attachment = attachment_of(server)
        if attachment is not None:
            await attachment.finish_async()
    except Exception as error:
        warn_once(f"rotameter could not end its trace of a Dask cluster: {first_line(error)}")


def begin_meta(folder: str) -> int | None:
    """Write the facts of a run that begins, unless somebody else has; gives its start in ns."""
    from rotameter.adapters.dask.names import machine_facts

    started_ns = time.time_ns()
    meta = {
        "schema": 1,
        "origin": "recorded",
        "time_base": "epoch_ns",
        "engine": "dask",
        "run": {"status": "running", "started_ns": started_ns},
        "command": redact_command(sys.argv),
        "versions": machine_facts()["versions"],
    }
    target, own = Path(folder) / _META, Path(folder) / f"{_META}.begin-{os.getpid()}"
    try:
        _write(own, meta)
        os.link(own, target)  # unlike a rename, it fails where there is one
    except OSError:
        return None
    finally:
        own.unlink(missing_ok=True)
    return started_ns


def end_meta(folder: str, started_ns: int | None) -> None:
    """Note that the run of :func:`begin_meta` has ended, unless somebody else has written since."""
    target, own = Path(folder) / _META, Path(folder) / f"{_META}.end-{os.getpid()}"
    try:
        meta = json.loads(target.read_text(encoding="utf-8"))
        run = meta["run"]
        if started_ns is None or run != {"status": "running", "started_ns": started_ns}:
            return
        meta["run"] = {**run, "status": "ok", "ended_ns": time.time_ns()}
        _write(own, meta)
        own.replace(target)
    except (OSError, ValueError, KeyError, TypeError):
        own.unlink(missing_ok=True)


def _write(path: Path, meta: dict[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(meta, file, indent=1, sort_keys=True)


def free_folder(folder: str) -> str:
    """Give ``folder``, or a numbered sibling when a trace is in it already.

    Examples
    --------
    >>> free_folder("/nonexistent/run.rmt")
    '/nonexistent/run.rmt'
    """
    stem, dot, tail = folder.rpartition(".")
    stem, dot, tail = (stem, dot, tail) if stem and tail == "rmt" else (folder, "", "")
    candidate, n = folder, 1
    while os.path.exists(candidate) and os.listdir(candidate):
        n += 1
        candidate = f"{stem}-{n}{dot}{tail}"
    return candidate


async def _setup_scheduler(scheduler: Any, folder: str) -> None:
    from rotameter.adapters.dask.names import PLUGIN
    from rotameter.adapters.dask.registration import install_on_scheduler
    from rotameter.adapters.dask.scheduler_plugin import SchedulerTracer

    if PLUGIN in scheduler.plugins:
        return
    place = free_folder(folder)
    plugin = SchedulerTracer({"folder": place, **_options()})
    await install_on_scheduler(scheduler, plugin, PLUGIN)
    _writing[id(scheduler)] = (place, begin_meta(place))
