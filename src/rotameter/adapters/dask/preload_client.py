"""The client's preload as a file, for command lines that hand it on by path.

A process that inherits the path but has no rotameter loads this file all the same and traces
nothing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["dask_setup", "dask_teardown"]


async def dask_setup(client: Any) -> None:
    """Begin to trace; see :func:`rotameter.adapters.dask.dask_setup`."""
    try:
        from rotameter.adapters.dask import dask_setup as setup
    except ImportError:
        return
    await setup(client)


async def dask_teardown(client: Any) -> None:
    """End the trace; see :func:`rotameter.adapters.dask.dask_teardown`."""
    try:
        from rotameter.adapters.dask import dask_teardown as teardown
    except ImportError:
        return
    await teardown(client)
