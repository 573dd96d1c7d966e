"""Size tasks on every cluster of a site: a scheduler's preload, set up in Dask's configuration.

``distributed.scheduler.preload: [rotameter.adapters.dask.preload_allocate]``, and below
``rotameter.allocate`` what :func:`rotameter.dask.allocate` takes: ``state``, ``memory``,
``observe``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import Any

from rotameter.profiler.live.faults import warn_once
from rotameter.profiler.live.redact import first_line

__all__ = ["dask_setup", "dask_teardown"]

_savers: dict[int, asyncio.Task[None]] = {}


async def dask_setup(server: Any) -> None:
    """Put the gate on a scheduler; on any error the cluster is left as it is, with a warning."""
    try:
        from distributed import Scheduler

        if isinstance(server, Scheduler):
            await _setup(server)
    except Exception as error:
        warn_once(f"rotameter does not size this cluster's tasks: {first_line(error)}")


async def _setup(scheduler: Any) -> None:
    import dask

    from rotameter.adapters.dask.allocate import amounts
    from rotameter.adapters.dask.gate import Gate
    from rotameter.adapters.dask.gate_state import read_state
    from rotameter.adapters.dask.gate_worker import TOPIC, GateWorker

    if TOPIC in scheduler.plugins:
        return
    given = dask.config.get("rotameter.allocate", None) or {}
    state, watching = given.get("state"), bool(given.get("observe"))
    gate = Gate(read_state(state), amounts(given.get("memory")), observe=watching)
    await gate.start(scheduler)
    scheduler.add_plugin(gate, name=TOPIC)
    pickle: Any = importlib.import_module("distributed.protocol.pickle")
    await scheduler.register_worker_plugin(
        comm=None, plugin=pickle.dumps(GateWorker(watching=watching)), name=TOPIC, idempotent=True
    )
    if state:
        saving = asyncio.get_running_loop().create_task(_save_often(gate, str(state)))
        _savers[id(scheduler)] = saving


async def _save_often(gate: Any, state: str) -> None:
    from rotameter.adapters.dask.allocate import SAVE_S
    from rotameter.adapters.dask.gate_state import write_state

    try:
        while True:
            await asyncio.sleep(SAVE_S)
            try:
                await asyncio.to_thread(write_state, state, gate.learnt())
            except OSError as error:
                warn_once(f"what was learnt cannot be kept: {first_line(error)}")
    finally:
        with contextlib.suppress(OSError):
            write_state(state, gate.learnt())


async def dask_teardown(server: Any) -> None:
    """Keep what was learnt."""
    saving = _savers.pop(id(server), None)
    if saving is not None:
        saving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await saving
