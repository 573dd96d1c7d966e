"""What the preload does, by the kind of process that loads it."""

from __future__ import annotations

import json
import os
from typing import Any

from rotameter.adapters.dask import _compat
from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line

__all__ = ["setup", "teardown"]


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
    """End the trace of a client."""
    from rotameter.adapters.dask.attach import attachment_of

    try:
        attachment = attachment_of(server)
        if attachment is not None:
            await attachment.finish_async()
    except Exception as error:
        warn_once(f"rotameter could not end its trace of a Dask cluster: {first_line(error)}")


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
    plugin = SchedulerTracer({"folder": free_folder(folder), **_options()})
    await install_on_scheduler(scheduler, plugin, PLUGIN)
