"""Seeded disagreements of scheduler and workers, further causes, and healthy runs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.why_base import Seeded, blob, cluster, inner, nap, spin, total

__all__ = ["DISAGREE", "HEALTHY", "MORE"]


# --- scheduler and worker disagree -------------------------------------------------------------


def _drop_to_worker(address: str, dask_scheduler: Any = None) -> None:
    comm = dask_scheduler.stream_comms[address]
    send = comm.send
    comm.send = lambda *msgs: send(*(m for m in msgs if m.get("op") != "compute-task"))


def _drop_to_scheduler(dask_worker: Any = None) -> None:
    stream = dask_worker.batched_stream
    send = stream.send
    stream.send = lambda *msgs: send(*(m for m in msgs if m.get("op") != "task-finished"))


def _forget(dask_worker: Any = None) -> int:
    state, count = dask_worker.state, 0
    for task in [t for t in state.tasks.values() if t.state == "ready"]:
        state.ready.discard(task)
        del state.tasks[task.key]
        count += 1
    return count


def _believe_paused(address: str, dask_scheduler: Any = None) -> None:
    from distributed.core import Status

    worker = dask_scheduler.workers[address]
    worker.status = Status.paused
    dask_scheduler.running.discard(worker)


def _offer(address: str, dask_scheduler: Any = None) -> None:
    dask_scheduler.add_resources(worker=address, resources={"late": 1})


def lost_on_the_way(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.client.run_on_scheduler(_drop_to_worker, bad[0])
        parts = seeded.client.map(nap, range(rng.randint(6, 30)), workers=bad, pure=False)
        seeded.futures = [seeded.client.submit(total, parts)]
        seeded.codes, seeded.workers = ("disagreement",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def lost_result(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.client.run(_drop_to_scheduler, workers=bad)
        seeded.futures = seeded.client.map(nap, range(rng.randint(4, 30)), seconds=0.05, pure=False)
        seeded.codes, seeded.workers = ("disagreement",), tuple(bad)
        time.sleep(rng.uniform(1.5, 2.5))
        yield seeded


def forgotten(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, saturation=float("inf"), stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.futures = seeded.client.map(nap, range(rng.randint(20, 50)), seconds=0.4, pure=False)
        time.sleep(0.5)
        seeded.client.run(_forget, workers=bad)
        seeded.codes, seeded.workers = ("disagreement",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def status_lost(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, stealing=False) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.client.run_on_scheduler(_believe_paused, bad[0])
        seeded.futures = seeded.client.map(nap, range(rng.randint(1, 20)), workers=bad, pure=False)
        seeded.codes, seeded.workers = ("disagreement",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def not_looked_again(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.futures = seeded.client.map(
            nap, range(rng.randint(1, 20)), resources={"late": 1}, pure=False
        )
        time.sleep(0.5)
        seeded.client.run_on_scheduler(_offer, bad[0])
        seeded.codes, seeded.workers = ("disagreement",), tuple(bad)
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


# --- further causes: no row of the issue, but each must be named ---------------------------------


def greedy(x: int) -> int:
    """Wait inside a task for another task without seceding."""
    from distributed import get_client

    return int(get_client().submit(nap, x, 0.05, pure=False).result())


def take(x: int) -> int:
    """Wait for a lock."""
    from distributed import Lock

    with Lock("never given"):
        return x


def hold_gil(x: int, seconds: int) -> int:
    """Sleep in C with the GIL held, as a bad extension does."""
    import ctypes

    return int(ctypes.PyDLL(None).sleep(seconds))


def more_deadlock(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        seeded.futures = seeded.client.map(greedy, range(rng.randint(20, 40)), pure=False)
        seeded.codes = ("nested_deadlock",)
        time.sleep(rng.uniform(2.5, 3.5))
        yield seeded


def more_no_workers(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, n_workers=0) as seeded:
        seeded.futures = seeded.client.map(nap, range(rng.randint(1, 20)), pure=False)
        seeded.codes = ("no_workers",)
        time.sleep(0.5)
        yield seeded


def more_lock(rng: random.Random) -> Iterator[Seeded]:
    from distributed import Lock

    with cluster(rng) as seeded:
        Lock("never given").acquire()
        seeded.futures = seeded.client.map(take, range(rng.randint(20, 40)), pure=False)
        seeded.codes = ("lock_wait",)
        time.sleep(rng.uniform(2.5, 3.5))
        yield seeded


def more_gil(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        bad = rng.sample(seeded.addresses, 1)
        seeded.futures = seeded.client.map(hold_gil, range(2), seconds=12, workers=bad, pure=False)
        seeded.codes, seeded.workers = ("gil_held",), tuple(bad)
        time.sleep(6)
        yield seeded


MORE = (more_deadlock, more_no_workers, more_lock, more_gil)


# --- healthy -----------------------------------------------------------------------------------


def healthy_map(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        parts = seeded.client.map(nap, range(rng.randint(60, 200)), seconds=0.15, pure=False)
        seeded.futures = [seeded.client.submit(total, parts)]
        time.sleep(rng.uniform(0.1, 2.0))
        yield seeded


def healthy_tiny(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        parts = seeded.client.map(abs, range(rng.randint(4000, 8000)), pure=False)
        seeded.futures = [seeded.client.submit(total, parts)]
        time.sleep(rng.uniform(0.3, 1.0))
        yield seeded


def healthy_tree(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        level = seeded.client.map(blob, range(64), size=10**6, pure=False)
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [seeded.client.submit(nap, pair, 0.1, pure=False) for pair in pairs]
        seeded.futures = level
        time.sleep(rng.uniform(0.1, 1.0))
        yield seeded


def healthy_nested(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        seeded.futures = seeded.client.map(inner, range(rng.randint(60, 90)), pure=False)
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def healthy_resource(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng, resources={"GPU": 1}) as seeded:
        seeded.futures = seeded.client.map(
            nap, range(rng.randint(30, 50)), seconds=0.4, resources={"GPU": 1}, pure=False
        )
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def healthy_spin(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        seeded.futures = seeded.client.map(
            spin, range(rng.randint(30, 50)), seconds=0.5, pure=False
        )
        time.sleep(rng.uniform(0.5, 1.5))
        yield seeded


def healthy_long(rng: random.Random) -> Iterator[Seeded]:
    with cluster(rng) as seeded:
        seeded.futures = [seeded.client.submit(nap, 0, 20, pure=False)]
        seeded.futures += seeded.client.map(nap, range(10), seconds=0.1, pure=False)
        time.sleep(rng.uniform(1.0, 3.0))
        yield seeded


DISAGREE = (lost_on_the_way, lost_result, forgotten, status_lost, not_looked_again)
MORE = (more_deadlock, more_no_workers, more_lock, more_gil)
HEALTHY = (
    healthy_map,
    healthy_tiny,
    healthy_tree,
    healthy_nested,
    healthy_resource,
    healthy_spin,
    healthy_long,
)
