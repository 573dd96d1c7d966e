"""Causes that make work be done again."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from distributed import wait

from benchmarks.planted import work
from benchmarks.planted.base import REAL, RealCause

if TYPE_CHECKING:
    from benchmarks.planted.real import Env

__all__: list[str] = []


def _draw_failed(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(10, 16),
        "failing": rng.randrange(6, 9),
        "seconds": rng.uniform(0.22, 0.32) * scale,
    }


def _failed(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Some tasks fail at the end of their first attempt."""
    rng = random.Random(sizes["count"])
    failing = set(rng.sample(range(sizes["count"]), sizes["failing"])) if on else set()
    items = [(number, sizes["seconds"], number in failing) for number in range(sizes["count"])]
    marks = str(env.folder("marks"))
    env.finish(env.map(work.flaky, items, marks=marks, retries=3))


REAL["failed_work"] = RealCause("failed_work", "loss", _draw_failed, _failed)


def _draw_again(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(10, 16),
        "load_s": rng.uniform(0.16, 0.26) * scale,
        "use_s": rng.uniform(0.02, 0.05),
    }


def _again(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Two results of the same pieces; without the cause the pieces are kept between them."""
    env.barrier()
    client, prefix = env.client, env.name()
    items = [(number, sizes["load_s"], 300_000) for number in range(sizes["count"])]
    keys = [(f"{prefix}-{env.tag}", number) for number in range(sizes["count"])]
    pieces = client.map(work.load, items, key=keys, after=env.after)
    first = env.one(work.merge, env.map(work.shrink, pieces, seconds=sizes["use_s"]))
    first.result()
    if on:
        del pieces
        _forgotten(env, keys)
        pieces = client.map(work.load, items, key=keys, after=env.after)
    env.finish([first, *env.map(work.total_of, pieces, seconds=sizes["use_s"])])


def _forgotten(env: Env, keys: list[tuple[str, int]]) -> None:
    """Wait (milliseconds) until no worker holds a result of these any more."""
    tasks = env.client.cluster.scheduler.tasks

    def held(key: tuple[str, int]) -> bool:
        task = tasks.get(key)
        return task is not None and task.state == "memory"

    until = time.monotonic() + 5
    while any(held(key) for key in keys) and time.monotonic() < until:
        time.sleep(0.002)


REAL["recomputed_work"] = RealCause("recomputed_work", "loss", _draw_again, _again)


def _draw_death(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(16, 22),
        "load_s": rng.uniform(0.12, 0.18),
        "use_s": rng.uniform(0.05, 0.08),
        "at": rng.uniform(0.3, 0.8),
    }


def _death(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """A task takes its worker process down once, with all results it held."""
    env.barrier()
    items = [(number, sizes["load_s"], 300_000) for number in range(sizes["count"])]
    pieces = env.map(work.load, items)
    wait(pieces)
    victim = int(sizes["count"] * sizes["at"]) if on else -1
    uses = [(number, sizes["use_s"], number == victim) for number in range(sizes["count"])]
    marks = str(env.folder("marks"))
    checked = env.map(work.deadly, uses, marks=marks)
    env.finish([*env.map(work.shrink, pieces), *checked])


REAL["workers_died"] = RealCause(
    "workers_died", "loss", _draw_death, _death, second=False, dirty=True
)
