"""Machines that went away with all that ran there: no task is to blame for that.

Dask counts every death of a worker against the tasks that it had, and gives a task up after a few.
A task can end its worker; it hardly ends the nanny too, which is another process. So where the
nanny of a worker that died far below its limit does not answer either, the machine was taken:
its tasks are forgiven, each a bounded number of times.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections import Counter
from collections.abc import Collection
from typing import Any

__all__ = ["Gone"]

LIMIT = 12
"""A task is forgiven so often: after that it may be what takes machines down."""

DELAY_S = 0.5
TIMEOUT_S = 2.0


class Gone:
    """Forgives tasks of workers that died far below their limit, and takes it back in time.

    Parameters
    ----------
    scheduler : distributed.Scheduler
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._times: Counter[Any] = Counter()
        self._looks: set[asyncio.Task[None]] = set()

    def forgive(self, nanny: str | None, keys: Collection[Any]) -> set[Any]:
        """Give those of a dead worker's tasks to forgive for now; a live nanny will be heard.

        Parameters
        ----------
        nanny : str or None
            Its address. Without one nothing tells a crash from a machine that is gone.
        keys : collection
            What the worker had.
        """
        if not nanny:
            return set()
        made = {key for key in keys if self._times[key] < LIMIT}
        self._times.update(made)
        look = asyncio.get_running_loop().create_task(self._look(nanny, made))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)
        return made

    def forget(self, key: Any) -> None:
        """Count no more for a task that has ended."""
        self._times.pop(key, None)

    async def _look(self, nanny: str, keys: Collection[Any]) -> None:
        """Count the death after all, if only the worker died."""
        await asyncio.sleep(DELAY_S)
        try:
            comms: Any = importlib.import_module("distributed.comm")
            comm = await comms.connect(nanny, timeout=TIMEOUT_S)
        except (OSError, ValueError):
            return
        with contextlib.suppress(OSError):
            await comm.close()
        for key in keys:
            ts = self._scheduler.tasks.get(key)
            if ts is not None:
                ts.suspicious += 1
