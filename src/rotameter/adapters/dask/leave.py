"""How a scheduler lets go of a trace: handlers that fade out, and a trace whose client is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Any

from rotameter.adapters.dask.names import PLUGIN

__all__ = ["GRACE_S", "abandon", "ignore", "retire_streams"]

GRACE_S = 5.0
_FADE_S = 10.0


def ignore(**_: Any) -> None:
    """Drop a message that comes after the end of a trace."""


def retire_streams(server: Any, ops: Iterable[str], handlers: Any = None) -> None:
    """Drop messages of these kinds for a while, then know them no more.

    Parameters
    ----------
    server : distributed.Scheduler or distributed.Client
        Has the event loop.
    ops : iterable of str
        The messages' names.
    handlers : dict, optional
        The mapping of handlers, by default ``server.stream_handlers``.
    """
    known = server.stream_handlers if handlers is None else handlers
    wanted = tuple(ops)
    for op in wanted:
        known[op] = ignore

    def forget() -> None:
        for op in wanted:
            if known.get(op) is ignore:  # a later trace may have put its own there
                del known[op]

    with contextlib.suppress(Exception):
        server.loop.call_later(_FADE_S, forget)


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
