"""Dask: plug-ins for schedulers, workers and nannies, the preload, and ``dask.callbacks``.

As a preload (``distributed.client.preload``, ``--preload rotameter.adapters.dask``) this package
traces into the folder named by the environment variable ``ROTAMETER_TRACE``: a client's preload
writes on the client's side, a scheduler's preload (where no client may know of us) on the
scheduler's. On a worker it does nothing: the scheduler hands workers what they need.
"""

from __future__ import annotations

import logging
import os
from typing import Any

__all__ = ["TRACE_ENV", "dask_setup", "dask_teardown", "finish_all"]

TRACE_ENV = "ROTAMETER_TRACE"
_NAMES = (__name__, "adapters/dask/preload_client.py")


_RELOAD = "Reload module preload_client "


def _not_ours(record: logging.LogRecord) -> bool:
    """Leave out what distributed says of our own preload: the untraced program says nothing."""
    said = record.getMessage() if record.levelno < logging.WARNING else ""
    return not said.endswith(_NAMES) and not said.startswith(_RELOAD)


def _hush() -> None:
    for name in ("distributed.preloading", "distributed.utils"):
        logger = logging.getLogger(name)
        if not any(getattr(f, "__name__", "") == "_not_ours" for f in logger.filters):
            logger.addFilter(_not_ours)


_hush()


async def dask_setup(server: Any) -> None:
    """Begin to trace the client or scheduler that loads this preload; never raises."""
    folder = os.environ.get(TRACE_ENV)
    if not folder:
        return
    from rotameter.adapters.dask.preload import setup

    await setup(server, folder)


async def dask_teardown(server: Any) -> None:
    """End the trace of a client that closes; never raises."""
    if os.environ.get(TRACE_ENV):
        from rotameter.adapters.dask.preload import teardown

        await teardown(server)


def finish_all(timeout_s: float = 10.0) -> list[dict[str, Any]]:
    """End every trace of a cluster in this process; gives the facts of each.

    Examples
    --------
    >>> finish_all()
    []
    """
    import sys

    module = sys.modules.get("rotameter.adapters.dask.attach")
    return [] if module is None else list(module.finish_all(timeout_s))
