"""Causes in memory and in the network: spilling, leaking, moving."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
    size = rng.randrange(50, 75) * MB
    return {
        "bytes": size,
        # More than enough to be paused at 80 % of the limit.
        "keep": 1 + 600 * MB // size,
        "limit": 720 * MB,
        "hold_s": rng.uniform(2.8, 3.8),
        "count": rng.randrange(54, 64),
        "seconds": rng.uniform(0.085, 0.11),
    }


def _leaking(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    first, *others = env.workers()
    env.client.run(work.set_leak, sizes["keep"] if on else 0, sizes["hold_s"], workers=[first])
    env.client.run(work.set_leak, 0, 0.0, workers=others)


def _leak(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """A library's cache fills one worker's memory for seconds; it is paused meanwhile."""
    env.finish(env.map(work.leaky, [(sizes["seconds"], sizes["bytes"])] * sizes["count"]))


REAL["unmanaged_memory"] = RealCause(
    "unmanaged_memory",
    "memory",
    _draw_leak,
    _leak,
    lambda sizes, on: Cluster(memory_bytes=sizes["limit"]),
    second=False,
    dirty=True,
    setup=_leaking,
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
