"""Tell at once that a client has lost its scheduler: its program may not live to say so later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["LOOK_S", "Watch"]

LOOK_S = 1.0


class Watch:
    """Looks once a second, in the client's event loop, whether its scheduler is still there.

    Parameters
    ----------
    client : distributed.Client
    lost : callable
        Called once, when the client tries to connect again: what it had asked for is gone.

    Examples
    --------
    >>> class Client:
    ...     status = "connecting"
    >>> found = []
    >>> async def once():
    ...     Watch(Client(), lambda: found.append("lost")).start(look_s=0.0)
    ...     await asyncio.sleep(0.01)
    >>> asyncio.run(once())
    >>> found
    ['lost']
    """

    def __init__(self, client: Any, lost: Callable[[], None]) -> None:
        self._client = client
        self._lost = lost
        self._handle: asyncio.TimerHandle | None = None

    def start(self, look_s: float = LOOK_S) -> None:
        """Begin to look; to be called in the client's event loop."""
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(look_s, self._look, loop, look_s)

    def _look(self, loop: asyncio.AbstractEventLoop, look_s: float) -> None:
        status = getattr(self._client, "status", "closed")
        if status == "connecting":
            self._lost()
        elif status == "running":
            self._handle = loop.call_later(look_s, self._look, loop, look_s)

    def stop(self) -> None:
        """Look no more; any thread, also when the loop has ended."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
