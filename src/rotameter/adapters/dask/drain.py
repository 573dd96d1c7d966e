"""What a process still holds of a trace whose event loop has ended: taken without any loop.

An asynchronous program may return from ``asyncio.run`` without closing its client. Nothing can be
sent any more, but a scheduler, and workers, that live in this process can be read directly.
"""

from __future__ import annotations

import contextlib
from typing import Any

from rotameter.adapters.dask import worker_core
from rotameter.adapters.dask.names import PLUGIN
from rotameter.adapters.dask.tally import Tally
from rotameter.adapters.dask.transport import Inbox

__all__ = ["drain"]


def drain(address: str | None, inbox: Inbox, tally: Tally) -> bool:
    """Put all that this process holds of the trace of a scheduler on disk.

    Parameters
    ----------
    address : str or None
        The scheduler's address.
    inbox : Inbox
        The client's writer.
    tally : Tally
        Is told of the scheduler's and the workers' faults.

    Returns
    -------
    bool
        Whether that is everything: the scheduler and all its workers live here.
    """
    from distributed import Scheduler

    def take(origin: str, seq: int, data: bytes) -> None:
        inbox.receive(None, 0, origin, seq, data)

    plugin: Any = None
    for scheduler in list(Scheduler._instances):
        with contextlib.suppress(Exception):  # one that never started has no address
            if scheduler.address == address:
                plugin = scheduler.plugins.get(PLUGIN)
    if plugin is None or not hasattr(plugin, "drain"):
        return False
    core = worker_core.stop_all(address)
    hellos = plugin.deaths.greeted
    plugin.drain(take)
    tally.word("", plugin.tally.count, plugin.tally.first)
    if core is not None:
        tally.word("a worker", *core.take_faults())
        core.link.drain(take)
    return core is not None and all(hello.origin == core.origin for hello in hellos.values())
