"""What cases of a hang are made of: tasks, a cluster, and what must be named."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Seeded", "blob", "cluster", "grow", "inner", "nap", "spin", "total"]


def nap(x: Any, seconds: float = 0.1) -> int:
    """Sleep."""
    time.sleep(seconds)
    return 1


def blob(x: int, size: int) -> bytes:
    """Give bytes that are really there."""
    return os.urandom(4096) * (size // 4096)


def grow(x: int, size: int) -> int:
    """Keep memory that is no result."""
    import builtins

    kept = builtins.__dict__.setdefault("_kept_by_a_leak", [])
    kept.append(bytearray(os.urandom(4096) * (size // 4096)))
    return 1


def spin(x: int, seconds: float) -> int:
    """Hold the GIL, with the switches that pure Python makes."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return x


def total(parts: Any) -> int:
    """Reduce."""
    return len(parts)


def inner(x: int) -> int:
    """Submit from inside a task, seceding as one should."""
    from distributed import worker_client

    with worker_client() as client:
        return int(client.submit(nap, x, 0.05, pure=False).result())


@dataclass
class Seeded:
    """One run with (or without) a planted hang: what must be named, and on which workers."""

    client: Any
    rng: random.Random
    codes: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    undo: list[Callable[[], Any]] = field(default_factory=list)
    futures: list[Any] = field(default_factory=list)

    @property
    def addresses(self) -> list[str]:
        """Workers of the cluster, in a fixed order."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])


@contextlib.contextmanager
def cluster(rng: random.Random, **options: Any) -> Iterator[Seeded]:
    """A cluster of random size that is closed whatever was done to it."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.worker.memory.terminate": False,
        "distributed.scheduler.worker-saturation": options.pop("saturation", 1.1),
        "distributed.scheduler.work-stealing": options.pop("stealing", True),
        **options.pop("settings", {}),
    }
    chosen = {
        "n_workers": rng.randint(2, 3),
        "threads_per_worker": rng.randint(1, 2),
        "memory_limit": "2GiB",
        "dashboard_address": ":0",
        "silence_logs": 50,
        **options,
    }
    with (
        dask.config.set(settings),
        LocalCluster(**chosen) as made,
        Client(made) as client,
    ):
        seeded = Seeded(client, rng)
        try:
            yield seeded
        finally:
            for undo in seeded.undo:
                with contextlib.suppress(Exception):
                    undo()
