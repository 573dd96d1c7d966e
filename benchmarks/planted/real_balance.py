"""Causes of uneven or missing parallelism."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.planted import work
from benchmarks.planted.base import REAL, Cluster, RealCause

if TYPE_CHECKING:
    from benchmarks.planted.real import Env

__all__: list[str] = []


def _draw_serial(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": max(4, int(rng.randrange(12, 18) * scale)),
        "seconds": rng.uniform(0.13, 0.22),
        "whole": rng.random() < 0.4,
    }


def _serial(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """One task after another's result, or one task for all; without the cause a group."""
    pieces = [sizes["seconds"]] * sizes["count"]
    name = env.name()
    if on and sizes["whole"]:
        parts = [env.one(work.batch, pieces, name=name)]
    elif on:
        parts = []
        for piece in pieces:
            parts.append(env.one(work.step, piece, name=name))
            parts[-1].result()
    else:
        parts = env.map(work.step, pieces, name=name)
    env.finish(parts)


REAL["idle_parallelism"] = RealCause("idle_parallelism", "balance", _draw_serial, _serial)


def _draw_straggler(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(10, 18),
        "seconds": rng.uniform(0.06, 0.12),
        "late_s": rng.uniform(1.6, 2.6) * scale,
        "waits": rng.random() < 0.5,
    }


def _straggler(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """The last task of a group takes long, computing or waiting for another machine."""
    items = [(number, 0.003, 400_000) for number in range(sizes["count"])]
    data = env.map(work.load, items)
    name = env.name()
    parts = env.map(work.transform, data[:-1], name=name, seconds=sizes["seconds"])
    seconds, wait_s = sizes["seconds"], 0.0
    if on and sizes["waits"]:
        wait_s = sizes["late_s"]
    elif on:
        seconds += sizes["late_s"]
    # It has the group's name and sees as much data as the others.
    parts.append(env.one(_late, data[-1], seconds, wait_s, name=name))
    env.finish(env.map(work.shrink, parts))


def _late(data: Any, seconds: float, wait_s: float, after: Any = None) -> Any:
    work.remote(0.0, wait_s)
    return work.transform(data, seconds)


REAL["straggler"] = RealCause("straggler", "balance", _draw_straggler, _straggler)


def _draw_skew(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "parts": rng.randrange(8, 14),
        "rows": rng.randrange(900_000, 1_500_000),
        "share": rng.uniform(0.6, 0.75),
        "total_s": rng.uniform(4.0, 5.5) * scale,
    }


def _skew(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Data frames of very different length; without the cause of the same."""
    parts, rows = sizes["parts"], sizes["rows"]
    if on:
        large = int(rows * sizes["share"])
        lengths = [*[(rows - large) // (parts - 1)] * (parts - 1), large]
        random.Random(rows).shuffle(lengths)
    else:
        lengths = [rows // parts] * parts
    frames = env.map(work.frame, list(enumerate(lengths)))
    env.finish(env.map(work.aggregate, frames, seconds_a_row=sizes["total_s"] / rows))


REAL["skewed_partitions"] = RealCause("skewed_partitions", "balance", _draw_skew, _skew)


def _draw_uneven(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(22, 30),
        "seconds": rng.uniform(0.09, 0.14),
        "factor": rng.uniform(2.5, 3.5),
    }


def _slow_down(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    first, *others = env.workers()
    env.client.run(work.set_factor, sizes["factor"] if on else 1.0, workers=[first])
    env.client.run(work.set_factor, 1.0, workers=others)


def _uneven(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """The same tasks on a slow and on a fast worker."""
    items = [(number, sizes["seconds"], 100_000) for number in range(sizes["count"])]
    env.finish(env.map(work.shrink, env.map(work.load, items)))


REAL["uneven_workers"] = RealCause(
    "uneven_workers", "balance", _draw_uneven, _uneven, second=False, setup=_slow_down
)


def _draw_stall(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(6, 12),
        "seconds": rng.uniform(0.04, 0.08),
        "late_s": rng.uniform(1.6, 2.6) * scale,
    }


def _stall(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """All tasks wait for an answer of another machine that comes late."""
    env.barrier()
    answer: Path = env.folder("answers") / "answer"
    if on:
        timer = threading.Timer(sizes["late_s"], answer.touch)
        timer.daemon = True
        timer.start()
    else:
        answer.touch()
    items = [sizes["seconds"]] * sizes["count"]
    env.finish(env.map(work.until_there, items, mark=str(answer)))


REAL["no_progress"] = RealCause("no_progress", "time", _draw_stall, _stall)


def _draw_regime(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(40, 60),
        "seconds": rng.uniform(0.035, 0.05),
        "factor": 1 + rng.uniform(1.7, 2.8) * (1 if scale == 1 else 0.7),
        "waits": rng.random() < 0.5,
        "at": rng.uniform(0.35, 0.6),
    }


def _regime(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """From some moment on every task of the group is slower."""
    count, seconds = sizes["count"], sizes["seconds"]
    change = int(count * sizes["at"])
    extra = seconds * (sizes["factor"] - 1) if on else 0.0
    items = []
    for number in range(count):
        more = extra if number >= change else 0.0
        items.append((seconds, more) if sizes["waits"] else (seconds + more, 0.0))
    env.finish(env.map(_part, items))


def _part(item: tuple[float, float], after: Any = None) -> float:
    return work.remote(item[0], item[1])


REAL["regime_change"] = RealCause("regime_change", "time", _draw_regime, _regime)


def _draw_gil(rng: random.Random, scale: float) -> dict[str, Any]:
    return {"count": rng.randrange(18, 26), "seconds": rng.uniform(0.12, 0.18)}


def _gil(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Pure Python; two threads of one process are the cause."""
    env.finish(env.map(work.python_step, [sizes["seconds"]] * sizes["count"]))


REAL["gil_contention"] = RealCause(
    "gil_contention",
    "cpu",
    _draw_gil,
    _gil,
    lambda sizes, on: Cluster(1, 2) if on else Cluster(2, 1),
    second=False,
)


def _draw_blas(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(16, 24),
        "side": rng.randrange(260, 420, 20),
        "flop": rng.uniform(2.5e9, 4e9),
        "threads": rng.choice((8, 12, 16)),
    }


def _blas(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """Matrix products; the library's number of threads is the cause."""
    times = max(2, int(sizes["flop"] / (2 * sizes["side"] ** 3)))
    items = [(number, sizes["side"], times) for number in range(sizes["count"])]
    env.finish(env.map(work.multiply, items))


REAL["thread_oversubscription"] = RealCause(
    "thread_oversubscription",
    "cpu",
    _draw_blas,
    _blas,
    lambda sizes, on: Cluster(blas_threads=sizes["threads"] if on else 1),
    second=False,
)


def _draw_cold(rng: random.Random, scale: float) -> dict[str, Any]:
    return {
        "count": rng.randrange(12, 20),
        "seconds": rng.uniform(0.05, 0.09),
        "build_s": rng.uniform(1.4, 2.2) * scale,
    }


def _preload(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    if not on:
        env.client.run(work.build_table, env.tag, 0.0)


def _cold(env: Env, sizes: Mapping[str, Any], on: bool) -> None:
    """The first task on each worker builds what the others use."""
    items = [(number, sizes["seconds"]) for number in range(sizes["count"])]
    env.finish(env.map(work.with_table, items, tag=env.tag, build_s=sizes["build_s"]))


REAL["cold_first_task"] = RealCause("cold_first_task", "cpu", _draw_cold, _cold, setup=_preload)
