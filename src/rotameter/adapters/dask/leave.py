"""How a scheduler lets go of a trace: late messages, and a trace whose client is gone."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from rotameter.adapters.dask.names import PLUGIN

__all__ = ["GRACE_S", "abandon", "ended", "ignore", "retire_streams"]

GRACE_S = 5.0
ended: deque[object] = deque(maxlen=256)
"""Marks of traces that have ended, or of one that has at a scheduler: its name and the mark."""


def ignore(**_: Any) -> None:
    """Drop a message that comes after the end of a trace."""


def retire_streams(
    server: Any, ops: Iterable[str], handlers: Any = None, *, trace: str | None = None
) -> None:
    """Drop messages of these kinds from now on.

    One that nobody knows would cost its sender the stream, hence a worker its life, and how late a
    last one comes is in nobody's hand. A later trace puts its own handlers there.

    Parameters
    ----------
    server : distributed.Scheduler or distributed.Client
    ops : iterable of str
        The messages' names.
    handlers : dict, optional
        The mapping of handlers, by default ``server.stream_handlers``.
    trace : str, optional
        Mark of the trace: a later one's handlers know by it what is late.
    """
    if trace is not None:
        ended.append((server.id, trace))
    known = server.stream_handlers if handlers is None else handlers
    for op in ops:
        known[op] = ignore


async def abandon(plugin: Any) -> None:
    """End a trace whose client is gone: withdraw the plug-ins, leave the records on this disk.

    Parameters
    ----------
    plugin : SchedulerTracer
        The plug-in of this scheduler.
    """
    if plugin._removed:
        return
    plugin._removed = True  # once; the rest of the records still has to get through
    scheduler = plugin.scheduler
    facts: dict[str, Any] = {"workers": 0, "missing": []}
    try:
        await plugin._finish_workers(time.monotonic() + 3.0, facts)
    except Exception as error:
        plugin._failed(error)
    for withdraw in (scheduler.unregister_worker_plugin, scheduler.unregister_nanny_plugin):
        with contextlib.suppress(Exception):
            await withdraw(comm=None, name=PLUGIN)
    with contextlib.suppress(Exception):
        plugin.drain(plugin.hub.receive, held=False)
    with contextlib.suppress(Exception):
        plugin._remove_handlers()
        plugin.hub.close()
    with contextlib.suppress(Exception):
        if scheduler.plugins.get(PLUGIN) is plugin:
            scheduler.remove_plugin(PLUGIN)
