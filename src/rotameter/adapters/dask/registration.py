"""Register our plug-ins, from a client or from inside a scheduler's process, and take them off."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from rotameter.adapters.dask.names import run_prefix
from rotameter.adapters.dask.ship import ShippedNanny, ShippedWorker
from rotameter.profiler.live.redact import redact

__all__ = [
    "install_on_scheduler",
    "register_nanny",
    "register_scheduler",
    "register_worker",
    "scheduler_address",
    "unregister_nanny",
    "unregister_scheduler",
    "unregister_worker",
]


def scheduler_address(client: Any) -> str | None:
    """Give the address of a client's scheduler."""
    return getattr(getattr(client, "scheduler", None), "address", None)


def _refused(answers: Any) -> list[str]:
    """Collect the errors in the answers of workers or nannies to a plug-in."""
    out = []
    for address, answer in (answers or {}).items():
        if isinstance(answer, dict) and answer.get("status") == "error":
            out.append(redact(f"{address}: {answer.get('exception_text') or 'error'}")[:200])
    return out


def _dumps(plugin: Any) -> bytes:
    module: Any = importlib.import_module("distributed.protocol.pickle")
    data: bytes = module.dumps(plugin)
    return data


async def register_scheduler(client: Any, plugin: Any, name: str) -> None:
    """Register a scheduler plug-in, unless one of that name is there."""
    await client.scheduler.register_scheduler_plugin(
        plugin=_dumps(plugin), name=name, idempotent=True
    )


async def unregister_scheduler(client: Any, name: str) -> None:
    """Take a scheduler plug-in off."""
    await client.scheduler.unregister_scheduler_plugin(name=name)


async def register_worker(client: Any, plugin: Any, name: str) -> None:
    """Register a plug-in on all workers, also later ones; RuntimeError when one refuses."""
    answers = await client.scheduler.register_worker_plugin(
        plugin=_dumps(plugin), name=name, idempotent=False
    )
    if refused := _refused(answers):
        raise RuntimeError("; ".join(refused))


async def unregister_worker(client: Any, name: str) -> None:
    """Take a worker plug-in off."""
    await client.scheduler.unregister_worker_plugin(name=name)


async def register_nanny(client: Any, plugin: Any, name: str) -> None:
    """Register a plug-in on all nannies, also later ones."""
    await client.scheduler.register_nanny_plugin(plugin=_dumps(plugin), name=name, idempotent=False)


async def unregister_nanny(client: Any, name: str) -> None:
    """Take a nanny plug-in off."""
    await client.scheduler.unregister_nanny_plugin(name=name)


async def install_on_scheduler(scheduler: Any, plugin: Any, name: str) -> None:
    """Register all our plug-ins from inside the scheduler's process (its preload)."""
    await plugin.start(scheduler)
    scheduler.add_plugin(plugin, name=name)
    config = {k: v for k, v in plugin.config.items() if k != "folder"}
    config["prefix"] = run_prefix(scheduler.id)
    await scheduler.register_worker_plugin(
        comm=None, plugin=_dumps(ShippedWorker(name, config)), name=name, idempotent=True
    )
    with contextlib.suppress(Exception):
        await scheduler.register_nanny_plugin(
            comm=None, plugin=_dumps(ShippedNanny(name, config)), name=name, idempotent=True
        )
