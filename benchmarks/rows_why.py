"""Rows of `rm.dask.why`: seeded hangs and healthy runs on real clusters, and a large scheduler."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import Context, Result, bench

__all__ = ["HANGS", "HEALTHY", "Seeded", "judge", "look"]


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


HANGS: dict[str, tuple[Callable[[random.Random], Iterator[Seeded]], ...]] = {
    "paused": (
        paused_by_hand,
        paused_results,
        paused_leak,
        paused_all,
        paused_owner,
        paused_beside,
    ),
    "unmet": (unmet_unknown, unmet_too_much, unmet_one_of_two, unmet_place, unmet_while_others_run),
    "stopped": (stopped_one, stopped_all, stopped_late, stopped_owner, stopped_chain),
    "disagree": (lost_on_the_way, lost_result, forgotten, status_lost, not_looked_again),
}
HEALTHY = (
    healthy_map,
    healthy_tiny,
    healthy_tree,
    healthy_nested,
    healthy_resource,
    healthy_spin,
    healthy_long,
)


def judge(seeded: Seeded, found: Any) -> bool:
    """Tell whether an answer names the planted cause first, and the worker where there is one."""
    if not seeded.codes:
        return found.status in ("running", "idle")
    causes = [r for g in found.groups[:1] for r in g.reasons[:1]]
    return any(r.code in seeded.codes and set(seeded.workers) <= set(r.workers) for r in causes)


def look(make: Callable[[random.Random], Iterator[Seeded]], seed: int) -> tuple[bool, float, Any]:
    """Run one case; give whether the answer is right, how long it took and the answer."""
    from rotameter.adapters.dask.why import why

    case = contextlib.contextmanager(make)
    with case(random.Random(seed)) as seeded:
        began = time.perf_counter()
        found = why(seeded.client)
        seconds = time.perf_counter() - began
        return judge(seeded, found), seconds, found


_cache: dict[str, Any] = {}


def _all() -> dict[str, Any]:
    """Run all cases once for the rows that need them."""
    if _cache:
        return _cache
    seed = int(os.environ.get("ROTAMETER_WHY_SEED") or random.SystemRandom().randrange(10**6))
    rows = []
    for kind, makes in {**HANGS, "healthy": HEALTHY}.items():
        for number, make in enumerate(makes):
            right, seconds, found = look(make, seed + number)
            rows.append(
                {
                    "kind": kind,
                    "case": make.__name__,
                    "right": right,
                    "seconds": round(seconds, 3),
                    "status": found.status,
                    "sentence": found.sentence[:200],
                }
            )
    _cache.update(seed=seed, rows=rows)
    return _cache


@bench("why_named_ratio", issue=4, target=">= 0.9")
def why_named_ratio(context: Context) -> Result:
    """Seeded hangs on real clusters whose cause (and worker) `why` names first."""
    ran = _all()
    rows = [r for r in ran["rows"] if r["kind"] != "healthy"]
    wrong = [r for r in rows if not r["right"]]
    value = 1 - len(wrong) / len(rows)
    note = f"{len(rows)} cases, seed {ran['seed']}"
    return Result(value, "ratio", note=note, detail={"wrong": wrong, "seed": ran["seed"]})


@bench("why_seconds_max", issue=4, target="<= 2")
def why_seconds_max(context: Context) -> Result:
    """The slowest answer over all cases, hangs and healthy runs."""
    rows = _all()["rows"]
    worst = max(rows, key=lambda r: r["seconds"])
    detail = {r["case"]: r["seconds"] for r in rows}
    return Result(worst["seconds"], "s", note=f"{len(rows)} cases; {worst['case']}", detail=detail)


@bench("why_healthy_called_hung", issue=4, target="== 0")
def why_healthy_called_hung(context: Context) -> Result:
    """Healthy runs that `why` calls stuck or blocked."""
    rows = [r for r in _all()["rows"] if r["kind"] == "healthy"]
    wrong = [r for r in rows if not r["right"]]
    return Result(len(wrong), "runs", note=f"{len(rows)} runs", detail={"wrong": wrong})


@bench("why_100k_tasks_seconds", issue=4, target="<= 2")
def why_100k_tasks_seconds(context: Context) -> Result:
    """One answer while 100,000 tasks (250,000 with --full) wait behind a resource nobody has."""
    from rotameter.adapters.dask.why import why

    count = 250_000 if context.full else 100_000
    with cluster(random.Random(1), n_workers=2, threads_per_worker=1) as seeded:
        client = seeded.client
        gate = client.submit(nap, 0, 0.1, resources={"none": 1}, pure=False)
        futures = [client.map(nap, [gate] * (count // 4), pure=False) for _ in range(4)]
        while sum(client.run_on_scheduler(_count_waiting)) < count:
            time.sleep(0.5)
        began = time.perf_counter()
        found = why(client)
        seconds = time.perf_counter() - began
        named = any(r.code == "unmet_resource" for r in found.causes)
        detail = {"sentence": found.sentence, "spent": found.notes}
        del futures
        return Result(
            seconds, "s", met=None if named else False, note=f"{count:,} tasks", detail=detail
        )


def _count_waiting(dask_scheduler: Any = None) -> list[int]:
    return [p.states["waiting"] for p in dask_scheduler.task_prefixes.values()]
