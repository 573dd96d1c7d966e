"""Rows of the Dask adapter: what its hooks cost, what they keep, whether they count right."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import dask_hooks
from benchmarks.harness import Context, Result, bench, best_of

__all__ = ["scheduler_us"]


@bench("dask_scheduler_hook_us", issue=2, target="<= 16")
def scheduler_us(context: Context) -> Result:
    """Thread time a task inside the scheduler's hooks, 100,000 replayed tasks."""
    found = dask_hooks.scheduler_hook_us()
    note = f"plus {found['encode_us']:.1f} us a task in the flush thread"
    return Result(found["hooks_us"], "us/task", note=note)


@bench("dask_worker_hook_empty_us", issue=2, target="<= 42")
def worker_empty_us(context: Context) -> Result:
    """Thread time that the worker's hooks add to an empty task (median)."""
    value, interval = best_of(lambda: dask_hooks.worker_hook_us(20_000), 5)
    return Result(value, "us/task", interval)


@bench("dask_worker_hook_10ms_us", issue=2, target="<= 100")
def worker_10ms_us(context: Context) -> Result:
    """Thread time that the worker's hooks add to a task of 10 ms (median)."""
    value, interval = best_of(lambda: dask_hooks.worker_hook_us(200, 0.01), 3)
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
    from benchmarks.rows_dask import cluster, empty
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

    from benchmarks.rows_dask import cluster
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
