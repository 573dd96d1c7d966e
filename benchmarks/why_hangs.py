"""Seeded hangs: paused and stopped workers, resources that nobody has."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.why_base import Seeded, blob, cluster, grow, nap, total

__all__ = ["PAUSED", "STOPPED", "UNMET"]


# --- paused worker hoarding tasks --------------------------------------------------------------


def _set_status(name: str, dask_worker: Any = None) -> None:
    from distributed.core import Status

    dask_worker.periodic_callbacks["memory_monitor"].stop()  # it would set the status back
    dask_worker.status = Status[name]


def _pause(seeded: Seeded, addresses: list[str]) -> None:
    seeded.client.run(_set_status, "paused", workers=addresses)


def paused_by_hand(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, saturation=float("inf"), stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        work = seeded.client.map(nap, range(rng.randint(40, 90)), seconds=0.2, pure=False)
        seeded.futures = work
        time.sleep(0.5)
        _pause(seeded, bad)
        seeded.codes, seeded.workers = ("paused_worker",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.0))
        yield seeded


def paused_results(rng: random.Random) -> Iterator[Seeded]:
    settings = {
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.target": False,
    }
    with cluster(
        rng, settings=settings, memory_limit="300MB", saturation=float("inf"), stealing=False
    ) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        size = rng.randint(40, 60) * 10**6
        seeded.futures = seeded.client.map(blob, range(6), size=size, workers=bad, pure=False)
        more = seeded.client.map(
            nap, range(rng.randint(5, 30)), seconds=0.3, workers=bad, pure=False, priority=-10
        )
        seeded.futures += more
        seeded.codes, seeded.workers = ("paused_worker",), tuple(bad)
        time.sleep(2.5)
        yield seeded


def paused_leak(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, memory_limit="300MB", saturation=float("inf"), stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        size = rng.randint(260, 280) * 10**6
        seeded.client.submit(grow, 0, size, workers=bad, pure=False).result()
        time.sleep(0.6)
        parts = seeded.client.map(
            nap, range(rng.randint(5, 30)), seconds=0.3, workers=bad, pure=False
        )
        seeded.futures = [seeded.client.submit(total, parts)]
        seeded.codes, seeded.workers = ("paused_worker",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def paused_all(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = seeded.addresses
        _pause(seeded, bad)
        time.sleep(0.3)
        parts = seeded.client.map(nap, range(rng.randint(4, 60)), pure=False)
        seeded.futures = [seeded.client.submit(total, parts)]
        seeded.codes, seeded.workers = ("paused_worker",), tuple(bad[:1])
        time.sleep(rng.uniform(0.3, 1.0))
        yield seeded


def paused_owner(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        parts = seeded.client.map(
            nap, range(rng.randint(8, 30)), seconds=0.3, workers=bad, pure=False
        )
        mid = seeded.client.map(nap, parts, seconds=0.01, pure=False)
        seeded.futures = [seeded.client.submit(total, mid)]
        time.sleep(0.6)
        _pause(seeded, bad)
        seeded.codes, seeded.workers = ("paused_worker",), tuple(bad)
        time.sleep(rng.uniform(1.0, 2.0))
        yield seeded


def paused_beside(rng: random.Random) -> Iterator[Seeded]:
    """Tasks wait in the scheduler's queue while a worker without tasks is paused."""
    with cluster(rng) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        _pause(seeded, bad)
        time.sleep(0.3)
        count = rng.randint(60, 90)
        seeded.futures = seeded.client.map(nap, range(count), seconds=0.3, pure=False)
        seeded.codes, seeded.workers = ("paused_worker",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.0))
        yield seeded


# --- unmet resource ----------------------------------------------------------------------------


def _unmet(rng: random.Random, offered: dict[str, float], asked: dict[str, float]) -> Any:
    with cluster(rng, **({"resources": offered} if offered else {})) as seeded:
        parts = seeded.client.map(nap, range(rng.randint(5, 20)), seconds=0.01, pure=False)
        hungry = seeded.client.map(
            nap, parts[: rng.randint(1, 5)], resources=asked, pure=False, key="hungry"
        )
        seeded.futures = [*hungry, seeded.client.submit(total, hungry)]
        seeded.codes = ("unmet_resource",)
        time.sleep(rng.uniform(0.6, 1.5))
        yield seeded


def unmet_unknown(rng: random.Random) -> Iterator[Seeded]:
    yield from _unmet(rng, {}, {"GPU": rng.randint(1, 4)})


def unmet_too_much(rng: random.Random) -> Iterator[Seeded]:
    have = rng.randint(1, 3)
    yield from _unmet(rng, {"MEMORY": have}, {"MEMORY": have + rng.randint(1, 5)})


def unmet_one_of_two(rng: random.Random) -> Iterator[Seeded]:
    yield from _unmet(rng, {"GPU": 2}, {"GPU": 1, "license": rng.randint(1, 3)})


def unmet_place(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        gone = f"tcp://127.0.0.1:{rng.randint(2000, 3000)}"
        held = seeded.client.map(nap, range(rng.randint(1, 12)), workers=[gone], pure=False)
        seeded.futures = [seeded.client.submit(total, held), *held]
        seeded.codes = ("unmet_restriction",)
        time.sleep(rng.uniform(0.5, 1.0))
        yield seeded


def unmet_while_others_run(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, resources={"slots": 1}) as seeded:
        busy = seeded.client.map(nap, range(60), seconds=0.3, pure=False)
        held = seeded.client.map(
            total, [[1]] * rng.randint(1, 6), resources={"slots": 2}, pure=False
        )
        seeded.futures = [*busy, *held]
        seeded.codes = ("unmet_resource",)
        time.sleep(rng.uniform(0.5, 1.0))
        yield seeded


# --- SIGSTOP -----------------------------------------------------------------------------------


def _stop(seeded: Seeded, addresses: list[str], nannies: bool = False) -> None:
    pids = dict(seeded.client.run(os.getpid, workers=addresses))
    if nannies:
        owners = seeded.client.run(os.getppid, workers=addresses)
        assert set(owners.values()) == {os.getpid()}  # LocalCluster's nannies live in here
    for pid in pids.values():
        seeded.undo.append(lambda pid=pid: os.kill(pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)


def stopped_one(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.futures = seeded.client.map(nap, range(rng.randint(20, 60)), seconds=0.3, pure=False)
        time.sleep(0.6)
        _stop(seeded, bad)
        seeded.codes, seeded.workers = ("worker_stopped",), tuple(bad)
        time.sleep(rng.uniform(0.2, 3.0))
        yield seeded


def stopped_all(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = seeded.addresses
        parts = seeded.client.map(nap, range(rng.randint(20, 60)), seconds=0.3, pure=False)
        seeded.futures = [seeded.client.submit(total, parts)]
        time.sleep(0.6)
        _stop(seeded, bad)
        seeded.codes, seeded.workers = ("worker_stopped",), tuple(bad[:1])
        time.sleep(rng.uniform(0.2, 2.0))
        yield seeded


def stopped_late(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, saturation=float("inf"), stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.futures = seeded.client.map(nap, range(rng.randint(8, 30)), pure=False)
        time.sleep(0.2)
        _stop(seeded, bad)
        seeded.codes, seeded.workers = ("worker_stopped",), tuple(bad)
        time.sleep(5)
        yield seeded


def stopped_owner(rng: random.Random) -> Iterator[Seeded]:
    """Stop the worker that holds the data which tasks elsewhere need."""
    with cluster(rng, stealing=False) as seeded:
        bad, other = rng.sample(seeded.addresses, 2)
        data = seeded.client.submit(blob, 0, 2 * 10**6, workers=[bad], pure=False)
        data.result()
        _stop(seeded, [bad])
        count = rng.randint(2, 9)
        seeded.futures = [
            seeded.client.submit(nap, data, workers=[other], pure=False) for _ in range(count)
        ]
        seeded.futures.append(data)
        seeded.codes, seeded.workers = ("worker_stopped",), (bad,)
        time.sleep(rng.uniform(0.8, 2.0))
        yield seeded


def stopped_chain(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        first = seeded.client.map(nap, range(rng.randint(2, 6)), seconds=1, workers=bad, pure=False)
        second = seeded.client.map(total, [first] * 3, pure=False)
        seeded.futures = [seeded.client.submit(total, second)]
        time.sleep(0.4)
        _stop(seeded, bad)
        seeded.codes, seeded.workers = ("worker_stopped",), tuple(bad)
        time.sleep(rng.uniform(0.5, 2.0))
        yield seeded


PAUSED = (
    paused_by_hand,
    paused_results,
    paused_leak,
    paused_all,
    paused_owner,
    paused_beside,
)
UNMET = (unmet_unknown, unmet_too_much, unmet_one_of_two, unmet_place, unmet_while_others_run)
STOPPED = (stopped_one, stopped_all, stopped_late, stopped_owner, stopped_chain)
