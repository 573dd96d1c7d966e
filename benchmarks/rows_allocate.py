"""Rows of sizing on Dask: two modes of memory, with and without the admission gate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from benchmarks.harness import Context, Result, bench

__all__ = ["HEAVY", "LIGHT"]

MIB = 2**20
LIMIT = 700 * MIB
HEAVY, LIGHT, TASK_S, HEAVY_MIB = 12, 28, 5.0, 330
QUIET = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
}


def heavy(number: int) -> int:
    """Hold much memory for five seconds."""
    data = bytearray(HEAVY_MIB * MIB)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(TASK_S)
    return len(data)


def light(number: int) -> int:
    """Hold nothing for five seconds."""
    time.sleep(TASK_S)
    return number


@contextlib.contextmanager
def _cluster(resources: dict[str, float] | None = None) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(QUIET),
        LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            memory_limit=LIMIT,
            dashboard_address=":0",
            resources=resources,
            silence_logs=50,
        ) as made,
        Client(made) as client,
    ):
        client.wait_for_workers(2)
        yield client


def _run(client: Any, limit_s: float, **heavy_options: Any) -> tuple[int, float]:
    """Run the forty tasks; give how many completed, and the seconds."""
    from distributed import wait

    began = time.perf_counter()
    futures = client.map(heavy, range(HEAVY), pure=False, **heavy_options)
    futures += client.map(light, range(LIGHT), pure=False)
    with contextlib.suppress(TimeoutError):
        wait(futures, timeout=limit_s)
    took = time.perf_counter() - began
    return sum(f.status == "finished" for f in futures), took


@cache
def _modes() -> dict[str, Any]:
    """Plain Dask, requests set by hand, the gate while it learns, and what it has learnt."""
    import rotameter as rm

    made: dict[str, Any] = {}
    with _cluster() as client:
        made["plain"] = _run(client, 180)
    # By hand: one heavy task a worker, beside light ones.
    with _cluster({"HEAVY": 1.0}) as client:
        made["by hand"] = _run(client, 300, resources={"HEAVY": 1.0})
    with _cluster() as client, rm.dask.allocate(client) as allocating:
        made["learning"] = _run(client, 300)
        made["warm"] = _run(client, 300)
        made["facts"] = allocating.facts()
    return made


def _ratio(name: str) -> Result:
    got = _modes()
    done, took = got[name]
    by_hand = got["by hand"]
    note = (
        f"{done} of {HEAVY + LIGHT} in {took:.1f} s; by hand {by_hand[0]} in {by_hand[1]:.1f} s; "
        f"plain Dask {got['plain'][0]} in {got['plain'][1]:.1f} s; {got['facts']}"
    )
    met = None if done == HEAVY + LIGHT else False
    return Result(took / by_hand[1], "ratio", met=met, note=note, detail=got)


@bench("allocate_learning_ratio", issue=5, target="<= 1.5")
def learning(context: Context) -> Result:
    """Makespan while it learns over requests set by hand; 40 of 40, else not met."""
    return _ratio("learning")


@bench("allocate_warm_ratio", issue=5, target="<= 1.15")
def warm(context: Context) -> Result:
    """The same with what it has learnt."""
    return _ratio("warm")


@bench("allocate_plain_lost", issue=5, target=">= 1")
def plain(context: Context) -> Result:
    """Tasks that plain Dask loses: the case is a real one."""
    return Result(float(HEAVY + LIGHT - _modes()["plain"][0]), "tasks")


@bench("allocate_pump_us", issue=5, target="<= 100")
def pump(context: Context) -> Result:
    """The gate looks at 10,000 held tasks of 20 groups none of which fits, CPU of the thread."""
    import asyncio

    from tests.support.scheduler import GB, Scheduler

    from rotameter.adapters.dask.gate import Gate

    scheduler = Scheduler()
    for number in range(16):
        scheduler.worker(f"w{number}")
    groups = [f"{'abcdefghijklmnopqrst'[number]}task" for number in range(20)]
    gate = scheduler.gate = Gate(asked=dict.fromkeys(groups, 9.0 * GB))
    asyncio.run(gate.start(scheduler))
    scheduler.loop.run()
    for number in range(10_016):
        key = f"{groups[number % 20]}-{number}"
        scheduler.task(key, number)
        scheduler.submit(key)
    scheduler.loop.run()
    spent = []
    for _ in range(300):
        began = time.thread_time_ns()
        gate._pump()
        spent.append(time.thread_time_ns() - began)
    waiting = gate.facts()["waiting"]
    note = f"16 workers, all taken; {waiting:,} held"
    return Result(
        sorted(spent)[150] / 1e3, "us", met=None if waiting == 10_000 else False, note=note
    )
