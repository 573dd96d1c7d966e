"""Causes in memory and in the network: spilling, leaking, moving."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from distributed import wait

from benchmarks.planted import work
from benchmarks.planted.base import REAL, Cluster, RealCause

if TYPE_CHECKING:
    from benchmarks.planted.real import Env

__all__: list[str] = []

MB = 10**6


def _draw_spill(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(36, 46),
        "bytes": rng.randrange(28, 36) * MB,
        "load_s": rng.uniform(0.005, 0.015),
        "use_s": rng.uniform(0.01, 0.02),
        "limit": rng.randrange(550, 700) * MB,
    }


def _spill(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Data that all of a second pass needs once more; the limit is the cause."""
    items = [(number, sizes["load_s"], sizes["bytes"]) for number in range(sizes["count"])]
    data = env.map(work.load, items)
    first = env.one(work.merge, env.map(work.total_of, data, seconds=sizes["use_s"]))
    env.after = first
    env.finish(env.map(work.total_of, data, seconds=sizes["use_s"]))
    env.barrier()


REAL["spill"] = RealCause(
    "spill",
    "memory",
    _draw_spill,
    _spill,
    lambda sizes, on: Cluster(memory_bytes=sizes["limit"] if on else 4000 * MB),
    second=False,
    dirty=True,
)


def _draw_leak(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "leaks": 6,
        "bytes": rng.randrange(95, 110) * MB,
        "limit": 720 * MB,
        "hold_s": rng.uniform(3.0, 4.5),
        "count": rng.randrange(26, 34),
        "seconds": rng.uniform(0.09, 0.12),
    }


def _leak(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """A library's cache fills one worker's memory for seconds; it is paused meanwhile."""
    env.barrier()
    first = env.workers()[0]
    hold_s = sizes["hold_s"] if on else 0.0
    items = [(number, 0.02, sizes["bytes"], hold_s) for number in range(sizes["leaks"])]
    leaks = env.map(work.leak, items, workers=[first], pure=False)
    wait(leaks)
    env.finish(leaks)
    items2 = [(number, sizes["seconds"], 200_000) for number in range(sizes["count"])]
    env.finish(env.map(work.shrink, env.map(work.load, items2)))


REAL["unmanaged_memory"] = RealCause(
    "unmanaged_memory",
    "memory",
    _draw_leak,
    _leak,
    lambda sizes, on: Cluster(memory_bytes=sizes["limit"]),
    second=False,
    dirty=True,
    pins=True,
)


def _draw_moves(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "steps": rng.randrange(8, 12),
        "chains": rng.randrange(1, 3),
        "bytes": int(rng.randrange(110, 150) * scale) * MB,
    }


def _moves(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Chains whose steps alternate between the workers; without the cause they stay."""
    workers = env.workers()
    ends = []
    names = [env.name() for _ in range(2)]
    for chain in range(sizes["chains"]):
        home = workers[chain % len(workers)]
        item = (chain, 0.0, sizes["bytes"])
        data = env.one(work.load, item, name=names[0], workers=[home])
        for number in range(sizes["steps"]):
            away = workers[(chain + number + 1) % len(workers)] if on else home
            data = env.one(work.grow, data, name=names[1], workers=[away])
        ends.append(env.one(work.shrink, data, workers=[home]))
    env.finish(ends)


REAL["transfer_bound"] = RealCause("transfer_bound", "network", _draw_moves, _moves, pins=True)
