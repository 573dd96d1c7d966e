"""Rows of the Dask adapter: what its hooks cost, what they keep, whether they count right."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import dask_hooks
from benchmarks.harness import Context, Result, bench, best_of
from benchmarks.rows_dask import cluster, empty, spin

__all__ = ["scheduler_us"]


@bench("dask_scheduler_hook_us", issue=2, target="<= 16")
def scheduler_us(context: Context) -> Result:
    """Thread time a task inside the scheduler's hooks, 100,000 replayed tasks."""
    found = dask_hooks.scheduler_hook_us()
    note = f"plus {found['encode_us']:.1f} us a task in the flush thread"
    return Result(found["hooks_us"], "us/task", note=note)


@bench("dask_worker_hook_empty_us", issue=2, target="<= 42")
def worker_empty_us(context: Context) -> Result:
    """Thread time that the worker's hooks add to an empty task (mean)."""
    value, interval = best_of(lambda: dask_hooks.worker_hook_us(20_000), 5)
    return Result(value, "us/task", interval)


@bench("dask_worker_hook_10ms_us", issue=2, target="<= 100")
def worker_10ms_us(context: Context) -> Result:
    """Thread time that the worker's hooks add to a task of 10 ms (mean over 600)."""
    value, interval = best_of(lambda: dask_hooks.worker_hook_us(600, 0.01), 3)
    return Result(value, "us/task", interval)


@bench("dask_250k_records_lost", issue=2, target="== 0")
def records_lost(context: Context) -> Result:
    """Records dropped over 250,000 replayed tasks (real ones with --full)."""
    if context.full:
        return _real_250k()
    found = dask_hooks.plugin_memory(250_000)
    enough = found["records"] >= 250_000
    return Result(
        found["dropped"],
        "records",
        met=enough and found["dropped"] == 0,
        note=f"{found['records']:,} records written",
    )


@bench("dask_250k_plugin_memory_mb", issue=2, target="<= 50")
def plugin_memory(context: Context) -> Result:
    """Peak memory of the scheduler's plug-in over 250,000 live tasks."""
    found = dask_hooks.plugin_memory(250_000)
    return Result(found["peak_bytes"] / 1e6, "MB")


def _real_250k() -> Result:
    from rotameter.adapters.dask.attach import attach
    from rotameter.profiler import store

    tasks, batch = 250_000, 25_000
    with (
        tempfile.TemporaryDirectory() as place,
        cluster(2, 1, float("inf")) as client,
    ):
        attached = attach(client, store.create(Path(place) / "run.rmt"))
        for start in range(0, tasks, batch):
            keys = [f"empty-{i}" for i in range(start, start + batch)]
            client.gather(client.map(empty, range(start, start + batch), key=keys))
        attached.finish(60)
        trace = store.open_trace(Path(place) / "run.rmt")
    ids = trace.table("tasks")["task_id"].unique()
    lost = tasks - len(ids)
    extra = len(trace.tasks) - len(ids)
    note = f"{len(trace.tasks):,} attempts, {trace.meta['dropped']} dropped, {extra} twice"
    return Result(lost, "records", met=lost == 0 and extra == 0, note=note)


def mixed(number: int, folder: str) -> int:
    """Fail, fail twice, reschedule once, kill the worker once, or just work; say so on disk."""
    os.write(_truth_file(folder), b"%d\n" % number)
    from distributed import Reschedule

    tries = _tries(folder, number) if number % 50 < 3 or number == 5_003 else 1
    if number % 50 == 0:
        raise ValueError(number)
    if number % 50 == 1 and tries <= 2:
        raise OSError(number)
    if number % 50 == 2 and tries == 1:
        raise Reschedule
    if number == 5_003 and tries == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return spin(number, 500)


_truth_fd: list[int] = []


def _truth_file(folder: str) -> int:
    """Open this process's file once: one call then writes, before another thread gets a turn."""
    if not _truth_fd:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        _truth_fd.append(os.open(f"{folder}/started-{os.getpid()}", flags, 0o600))
    return _truth_fd[0]


def _tries(folder: str, number: int) -> int:
    path = Path(folder) / f"tries-{number}"
    with path.open("a") as out:
        out.write("x")
    return path.stat().st_size


@bench("dask_attempts_10k_wrong", issue=2, target="== 0")
def attempts(context: Context) -> Result:
    """10,000 tasks that fail, retry, reschedule and lose a worker: attempts missing or twice.

    The truth is what the tasks themselves wrote to disk when they began (DK-P7); the note has
    the compute seconds over the cluster's own record.
    """
    from distributed import wait

    from rotameter.adapters.dask.attach import attach
    from rotameter.profiler import store

    with tempfile.TemporaryDirectory() as place, cluster(2, 2, None) as client:
        client.get_task_stream(start=0, stop=0)
        attached = attach(client, store.create(Path(place) / "run.rmt"))
        keys = [f"mixed-{i}" for i in range(10_000)]
        futures = client.map(mixed, range(10_000), folder=place, retries=3, key=keys)
        wait(futures)
        stream = client.get_task_stream()
        attached.finish(30)
        trace = store.open_trace(Path(place) / "run.rmt")
        began = Counter(
            int(line)
            for file in Path(place).glob("started-*")
            for line in file.read_text().splitlines()
        )
    rows = trace.table("tasks").to_pylist()
    got = Counter(int(row["task_id"].rpartition("-")[2]) for row in rows)
    wrong = sum(abs(got[number] - began[number]) for number in got | began)
    own = sum(
        item["stop"] - item["start"]
        for record in stream
        if record["status"] == "OK"
        for item in record["startstops"]
        if item["action"] == "compute"
    )
    ratio = sum(row["wall_s"] for row in rows if row["outcome"] == "ok") / own
    met = wrong == 0 and abs(ratio - 1) <= 0.01
    note = f"{len(rows):,} attempts; compute seconds {ratio:.4f} of the cluster's own"
    return Result(wrong, "attempts", met=met, note=note)


def _truth(client: Any) -> tuple[int, int]:
    """Bytes by the workers' own books: transfer logs, and what P2P sent."""

    def log_bytes(dask_worker: Any) -> int:
        return int(sum(entry["total"] for entry in dask_worker.transfer_incoming_log))

    def p2p_bytes(dask_worker: Any) -> int:
        totals = dask_worker.digests_total
        return int(
            sum(v for k, v in totals.items() if "background-comms" in str(k) and "bytes" in k)
        )

    return sum(client.run(log_bytes).values()), sum(client.run(p2p_bytes).values())


@bench("dask_pair_matrix_ratio", issue=2, target="<= 1.01")
def pair_matrix(context: Context) -> Result:
    """The demo's shuffle: total of the report's matrix over transfer logs plus P2P bytes."""
    import dask
    import dask.dataframe as dd
    from examples import demo

    from rotameter.adapters.dask.attach import attach
    from rotameter.api import diagnose
    from rotameter.profiler import store
    from rotameter.viz.report import findings_document

    with (
        tempfile.TemporaryDirectory() as place,
        dask.config.set({"dataframe.shuffle.method": "p2p"}),
        cluster(2, 1, None) as client,
    ):
        shards = [demo.write_shard(place, i) for i in range(demo.SHARDS)]
        attached = attach(client, store.create(Path(place) / "run.rmt"))
        images = dd.read_parquet(shards).map_partitions(demo.clean)
        centred = images.shuffle(on="writer").map_partitions(demo.centre_writers)
        centred.groupby("label").size().compute()
        logs, p2p = _truth(client)
        attached.finish()
        trace = store.open_trace(Path(place) / "run.rmt")
    shown = sum(pair["bytes"] for pair in findings_document(trace, diagnose(trace))["pairs"])
    ratio = shown / (logs + p2p)
    return Result(
        ratio,
        "ratio",
        met=abs(ratio - 1) <= 0.01,
        note=f"{shown:,} bytes shown, {logs:,} in transfer logs + {p2p:,} by P2P",
    )
