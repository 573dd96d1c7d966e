"""The nanny's plug-in: the exit code of a worker process and what ran on it when it died."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import Any

from distributed.diagnostics.plugin import NannyPlugin

from rotameter.adapters.dask import _compat, slots
from rotameter.adapters.dask.names import EXIT_TOPIC, PLUGIN, host_name

__all__ = ["NannyTracer"]

_WORD_TIMEOUT_S = 1.0


def _slots_of(pid: int | None) -> dict[str, Any] | None:
    """Find the slot file of a process by its number."""
    if pid is None:
        return None
    with contextlib.suppress(OSError):
        newest: tuple[float, str] | None = None
        for entry in os.scandir(slots.folder()):
            if entry.name.startswith(f"{pid}-"):
                at = entry.stat().st_mtime
                if newest is None or at > newest[0]:
                    newest = (at, entry.path)
        if newest is not None and (read := slots.read_slots(newest[1], pid)) is not None:
            return read.as_message()
    return None


def _closing(nanny: Any) -> bool:
    """Tell whether a nanny was asked to close."""
    name = getattr(getattr(nanny, "status", None), "name", "")
    return name in ("closing", "closing_gracefully", "closed")


class NannyTracer(NannyPlugin):
    """Tells the scheduler how each worker process of this nanny ended.

    Parameters
    ----------
    config : mapping
        Not used yet; plug-ins of all roles are made alike.
    """

    name = PLUGIN
    idempotent = True
    restart = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.hooked = False

    def setup(self, nanny: Any) -> None:
        """Ask to be told of the worker process's exit; never raises."""

        def tell(pid: int | None, exit_code: int | None) -> None:
            """Tell the scheduler how the worker process ended and what ran on it."""
            message = {
                "worker": nanny.worker_address,
                "closing": _closing(nanny),
                "host": host_name(),
                "pid": pid,
                "exit_code": exit_code,
                "slots": _slots_of(pid) if exit_code else None,
            }
            nanny.log_event(EXIT_TOPIC, message)

        with contextlib.suppress(Exception):
            self.hooked = _compat.hook_nanny_exit(nanny, tell)

    async def teardown(self, nanny: Any) -> None:
        """Take the hook off; a nanny that closes says first that its worker's end was asked for."""
        if _closing(nanny) and nanny.worker_address:
            message = {"worker": nanny.worker_address, "closing": True, "word": True}
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_WORD_TIMEOUT_S):
                    await nanny.scheduler.log_event(topic=EXIT_TOPIC, msg=message)
        if self.hooked:
            with contextlib.suppress(Exception):
                _compat.unhook_nanny_exit(nanny)
