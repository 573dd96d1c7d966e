"""Causes around the scheduler: too many, too short, too large, too eager."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.planted import work
from benchmarks.planted.base import REAL, Cluster, RealCause

if TYPE_CHECKING:
    from benchmarks.planted.real import Env

__all__: list[str] = []

INF = float("inf")


def _draw_tiny(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": int(rng.randrange(900, 1300) * scale),
        "seconds": rng.uniform(0.0008, 0.002),
        "batch": rng.randrange(30, 60),
    }


def _tiny(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Tasks of a millisecond; without the cause the same pieces in batches."""
    pieces = [sizes["seconds"]] * sizes["count"]
    width = sizes["batch"]
    batches = [pieces[at : at + width] for at in range(0, len(pieces), width)]
    if on:
        tasks = env.map(work.step, pieces)
        merged = env.name()
        parts = [
            env.one(work.merge, tasks[at : at + width], name=merged)
            for at in range(0, len(tasks), width)
        ]
    else:
        parts = env.map(work.batch, batches)
    env.finish(parts)


REAL["tiny_tasks"] = RealCause(
    "tiny_tasks", "scheduling", _draw_tiny, _tiny, lambda sizes, on: Cluster(saturation=INF)
)


def _draw_latency(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": int(rng.randrange(1300, 1900) * scale),
        "seconds": rng.uniform(0.0001, 0.0003),
    }


def _latency(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Short root tasks; the cluster's queuing is the cause."""
    tasks = env.map(work.step, [sizes["seconds"]] * sizes["count"])
    merged = env.name()
    env.finish(
        [env.one(work.merge, tasks[at : at + 100], name=merged) for at in range(0, len(tasks), 100)]
    )


REAL["latency_bound_roots"] = RealCause(
    "latency_bound_roots",
    "scheduling",
    _draw_latency,
    _latency,
    lambda sizes, on: Cluster(saturation=1.1 if on else INF),
    second=False,
)


def _draw_busy(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": int(rng.randrange(70, 110) * scale),
        "seconds": rng.uniform(0.010, 0.025),
        "plugin_s": rng.uniform(0.003, 0.005),
    }


def _busy(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Tasks of tens of milliseconds; the scheduler's loop is the cause."""
    tasks = env.map(work.step, [sizes["seconds"]] * sizes["count"])
    env.finish(tasks)


REAL["scheduler_bound"] = RealCause(
    "scheduler_bound",
    "scheduling",
    _draw_busy,
    _busy,
    lambda sizes, on: Cluster(plugin_s=sizes["plugin_s"] if on else 0.0),
    second=False,
)


def _draw_graph(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(7, 10),
        "bytes": int(rng.randrange(55, 80) * scale) * 10**6,
        "seconds": rng.uniform(0.05, 0.1),
    }


def _hold(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """The script has its arrays before the run begins."""
    items = [(number, sizes["bytes"]) for number in range(sizes["count"])]
    env.held = [work.ramp(item) for item in items] if on else []


def _graph(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Arrays in the graph; without the cause the workers make them."""
    arrays: list[Any] = env.held
    if not on:
        items = [(number, sizes["bytes"]) for number in range(sizes["count"])]
        arrays = env.map(work.ramp, items)
    env.finish(env.map(work.total_of, arrays, seconds=sizes["seconds"]))


REAL["large_graph"] = RealCause("large_graph", "scheduling", _draw_graph, _graph, setup=_hold)


def _draw_eager(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(36, 46),
        "bytes": rng.randrange(30, 38) * 10**6,
        "load_s": rng.uniform(0.005, 0.015),
        "use_s": rng.uniform(0.02, 0.04),
        "limit": 700 * 10**6,
    }


def _eager(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Loaders that run before their consumers; without the cause they take turns."""
    items = [(number, sizes["load_s"], sizes["bytes"]) for number in range(sizes["count"])]
    loaded = env.map(work.load, items, priority=10 if on else 0)
    env.finish(env.map(work.total_of, loaded, seconds=sizes["use_s"]))


REAL["root_overproduction"] = RealCause(
    "root_overproduction",
    "memory",
    _draw_eager,
    _eager,
    lambda sizes, on: Cluster(saturation=INF if on else 1.1, memory_bytes=sizes["limit"]),
    second=False,
    dirty=True,
)
