"""Rows of the Dask adapter: what tracing a cluster costs the run, end to end."""

from __future__ import annotations

import contextlib
import gc
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Context, Result, bench, paired_ratio, ratio_result

__all__ = ["spin"]

_numbers = itertools.count()


def spin(_: int, loops: int) -> int:
    """Hold the GIL for a fixed amount of work."""
    total = 0
    for number in range(loops):
        total += number & 7
    return total


def hold(_: int, loops: int) -> None:
    """Hold the GIL for a fixed amount of work that allocates nothing.

    A loop that allocates, as :func:`spin` does, is up to 20 % slower or faster by where the free
    blocks of the process's heap happen to lie: a plug-in that keeps six numbers a transition, and
    measures nothing, makes it 2 % faster. That is no cost of tracing, and no ratio resolves it.
    """
    for _ in itertools.repeat(None, loops):
        pass


def timed_hold(number: int, loops: int) -> float:
    """Hold the GIL, and give the CPU seconds that it took in this thread."""
    began = time.thread_time()
    hold(number, loops)
    return time.thread_time() - began


def timed_spin(number: int, loops: int) -> float:
    """Do as :func:`timed_hold`, by a loop that allocates."""
    began = time.thread_time()
    spin(number, loops)
    return time.thread_time() - began


def empty(_: int) -> None:
    """Do nothing."""


def _loops_for(seconds: float, timed: Callable[[int, int], float]) -> int:
    loops = 20_000
    best = min(timed(0, loops) for _ in range(7))
    return int(loops * seconds / best)


@contextlib.contextmanager
def cluster(workers: int, threads: int, saturation: float | None) -> Iterator[Any]:
    """A quiet LocalCluster of worker processes and its client."""
    import dask
    from distributed import Client, LocalCluster

    settings: dict[str, Any] = {"distributed.worker.memory.terminate": False}
    if saturation is not None:
        settings["distributed.scheduler.worker-saturation"] = saturation
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            dashboard_address=":0",
            memory_limit="2GiB",
        ) as made,
        Client(made) as client,
    ):
        client.wait_for_workers(workers)
        yield client


def _cpu_s(client: Any) -> float:
    """CPU seconds of the workers and of this process (scheduler and client)."""
    spent = client.run(time.process_time)
    return float(sum(spent.values())) + time.process_time()


def _settle(client: Any) -> None:
    """Let what the run before left be over: keys that are let go of, garbage."""
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        time.sleep(0.02)
    client.run(gc.collect)
    gc.collect()
    time.sleep(0.2)


def _once(client: Any, work: Any, on: bool) -> dict[str, float]:
    from distributed import wait

    from rotameter.adapters.dask.attach import attach
    from rotameter.profiler import store

    _settle(client)  # Before the trace begins: what its beginning leaves to do is its cost.
    with tempfile.TemporaryDirectory() as place:
        attached = attach(client, store.create(Path(place) / "run.rmt")) if on else None
        try:
            number = next(_numbers)
            cpu, began = _cpu_s(client), time.perf_counter()
            futures = work(number)
            wait(futures)
            wall = time.perf_counter() - began
            spent = _cpu_s(client) - cpu
            bodies = client.gather(futures)
            del futures
        finally:
            if attached is not None:
                attached.finish()
    clocks = {"wall": wall, "cpu": spent}
    if bodies[0] is not None:
        # The machine's speed changes by several per cent from run to run, and with it both terms.
        # What tracing costs outside the tasks' own loops, waits for the GIL included, is left.
        clocks["wall per CPU second of the tasks"] = wall / sum(bodies)
        clocks["CPU per CPU second of the tasks"] = spent / sum(bodies)
    return clocks


def _ratio(
    workers: int,
    threads: int,
    saturation: float | None,
    tasks: int,
    task_s: float,
    limit: float,
    rounds: int = 15,
    body: Callable[[int, int], float] = timed_hold,
) -> Result:
    loops = _loops_for(task_s, body) if task_s else 0
    with cluster(workers, threads, saturation) as client:

        def work(number: int) -> list[Any]:
            if loops:
                keys = [f"spin-{number}-{i}" for i in range(tasks)]
                return list(client.map(body, range(tasks), loops=loops, key=keys))
            keys = [f"empty-{number}-{i}" for i in range(tasks)]
            return list(client.map(empty, range(tasks), key=keys))

        ratios = paired_ratio(lambda on: _once(client, work, on), rounds=rounds)
    return ratio_result(ratios, limit)


@bench("dask_10ms_2x1", issue=2, target="<= 1.02")
def gil_two_processes(context: Context) -> Result:
    """800 GIL-bound tasks of 10 ms on 2 workers of 1 thread."""
    return _ratio(2, 1, None, 800, 0.010, 1.02, rounds=75 if context.full else 15)


@bench("dask_10ms_1x2", issue=2, target="<= 1.02")
def gil_two_threads(context: Context) -> Result:
    """800 GIL-bound tasks of 10 ms on 1 worker of 2 threads."""
    return _ratio(1, 2, None, 800, 0.010, 1.02, rounds=75 if context.full else 15)


@bench("dask_allocating_10ms_1x2", issue=2, target="<= 1.02")
def gil_allocating(context: Context) -> Result:
    """The same by a loop that allocates (own row): the luck of the heap is part of it."""
    rounds = 75 if context.full else 15
    return _ratio(1, 2, None, 800, 0.010, 1.02, rounds=rounds, body=timed_spin)


@bench("dask_empty_saturation_default", issue=2, target="<= 1.08")
def empty_default(context: Context) -> Result:
    """1,500 empty tasks, worker-saturation 1.1."""
    return _ratio(2, 1, None, 1500, 0.0, 1.08, rounds=31)


@bench("dask_empty_saturation_inf", issue=2, target="<= 1.08")
def empty_unlimited(context: Context) -> Result:
    """1,500 empty tasks, no queuing."""
    return _ratio(2, 1, float("inf"), 1500, 0.0, 1.08, rounds=151 if context.full else 61)
