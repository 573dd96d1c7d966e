"""Bytes between workers: results that move, shuffles, spill."""

from __future__ import annotations

import time
import warnings
from collections import Counter

import pytest
from distributed import Client, LocalCluster, wait

from rotameter.adapters.dask.attach import attach
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_trace(str(folder))


def make(n):
    return b"x" * (1000 + n)


def join(*parts):
    return sum(map(len, parts))


def log_of(dask_worker):
    return [(dask_worker.address, e["who"], e["total"], dict(e["keys"]))
            for e in dask_worker.transfer_incoming_log]  # fmt: skip


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=4,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_bytes_per_edge_are_those_of_the_moved_keys(client, tmp_path):
    attachment = attach(client, str(tmp_path / "run.rmt"))
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    parts = [client.submit(make, n, workers=[addresses[n % 4]], key=f"make-{n}") for n in range(40)]
    wait(parts)
    size = dict(zip((f.key for f in parts), (len(make(n)) for n in range(40)), strict=True))
    joins = [
        client.submit(join, *parts[n : n + 8], workers=[addresses[n % 4]], key=f"join-{n}")
        for n in range(0, 32, 3)
    ]
    client.gather(joins)
    logs = [entry for entries in client.run(log_of).values() for entry in entries]
    attachment.finish()
    trace = read(tmp_path / "run.rmt")
    flows = [f for f in trace.table("flows").to_pylist() if f["medium"] == "network"]
    truth: Counter[tuple[str, str]] = Counter()
    for worker, peer, total, _ in logs:
        truth[peer, worker] += total
    ours: Counter[tuple[str, str]] = Counter()
    for flow in flows:
        ours[flow["peer"], flow["worker"]] += flow["bytes"]
        assert flow["op"] == "receive" and flow["bytes"] == size[flow["object"]]
        assert flow["task_id"].startswith("join-") and flow["run_id"]
    assert ours == truth and sum(truth.values()) > 0
    intervals: Counter[tuple[str, str]] = Counter()
    for row in trace.table("intervals").to_pylist():
        if row["kind"] == "transfer":
            assert row["name"] == "gather" and row["start_ns"] <= row["end_ns"]
            intervals[row["peer"], row["worker"]] += row["bytes"]
    assert intervals == truth
    received = [t["received_bytes"] for t in trace.table("tasks").to_pylist()
                if t["group"] == "join"]  # fmt: skip
    assert sum(received) == sum(truth.values())
    # The worker's own log is a plain one again.
    kinds = client.run(lambda dask_worker: type(dask_worker.transfer_incoming_log).__name__)
    assert set(kinds.values()) == {"deque"}


def test_a_shuffle_is_in_the_matrix(client, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    import dask
    import pandas as pd

    def shuffled(dask_worker):
        totals = dask_worker.digests_total
        return sum(v for k, v in totals.items() if "background-comms" in str(k) and "bytes" in k)

    before = sum(client.run(shuffled).values())
    attachment = attach(client, str(tmp_path / "run.rmt"))
    frame = pd.DataFrame({"a": range(60_000), "b": 1.0})
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        result = dd.from_pandas(frame, npartitions=8).shuffle("a")["b"].sum().compute()
    moved = sum(client.run(shuffled).values()) - before
    facts = attachment.finish()
    assert result == 60_000 and facts["missing"] == []
    trace = read(tmp_path / "run.rmt")
    rows = [r for r in trace.table("intervals").to_pylist() if r["name"] == "p2p"]
    assert sum(r["bytes"] for r in rows) == pytest.approx(moved, rel=0.01)
    assert len({(r["peer"], r["worker"]) for r in rows}) > 4


def test_spill_and_memory_samples(tmp_path):
    import dask

    with (
        dask.config.set({"distributed.worker.memory.target": 0.1}),
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            memory_limit="400MiB",
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        attachment = attach(client, str(tmp_path / "run.rmt"))
        parts = [client.submit(bytes, 20_000_000, pure=False) for _ in range(5)]
        wait(parts)
        lengths = [client.submit(len, part) for part in parts]
        assert client.gather(lengths) == [20_000_000] * 5
        attachment.finish()
    trace = read(tmp_path / "run.rmt")
    last = {s["metric"]: s["value"] for s in trace.table("samples").to_pylist()
            if s["subject"].startswith("tcp://")}  # fmt: skip
    assert last["rss_bytes"] > 10e6
    assert last["spill_total_count"] >= 3 and last["unspill_total_count"] >= 1
    assert last["spill_total_s"] > 0 and last["spill_total_bytes"] > 0
    targets = {
        e["value"]
        for e in trace.table("events").to_pylist()
        if e["kind"] == "setting" and e["subject"] == "distributed.worker.memory.target"
    }
    assert 0.1 in targets


def test_parts_of_a_shuffle_are_no_files_of_the_tasks_that_run_meanwhile(client, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")

    def part(n):
        time.sleep(0.05)  # its own work: while it runs alone, a shuffle writes beside it
        return pd.DataFrame({"k": [(n + i) % 7 for i in range(5000)], "v": range(5000)})

    attachment = attach(client, str(tmp_path / "run.rmt"))
    frame = dd.from_map(part, range(24), meta=part(0))
    rows = len(frame.shuffle(on="k", npartitions=6).compute(scheduler=client))
    attachment.finish()
    assert rows == 24 * 5000
    trace = read(tmp_path / "run.rmt")
    folders = set(client.run(lambda dask_worker: dask_worker.local_directory).values())
    files = [f for f in trace.table("flows").to_pylist() if f["medium"] == "file"]
    assert [f for f in files if any(f["object"].startswith(place) for place in folders)] == []
    assert sum(t["write_bytes"] or 0 for t in trace.table("tasks").to_pylist()) == 0


def test_what_a_worker_holds_is_sampled_as_soon_as_it_is_traced(client, tmp_path):
    """A task that fills its memory within half a second leaves no other reading of its size."""
    began_ns = time.time_ns()
    attachment = attach(client, str(tmp_path / "run.rmt"))
    attached_ns = time.time_ns()
    client.submit(make, 1, pure=False).result()
    attachment.finish()
    samples = read(tmp_path / "run.rmt").table("samples").to_pylist()
    first: dict[str, int] = {}
    for row in samples:
        if row["metric"] == "rss_bytes" and row["value"] > 10e6:
            first[row["subject"]] = min(row["at_ns"], first.get(row["subject"], row["at_ns"]))
    workers = set(client.scheduler_info(n_workers=-1)["workers"])
    early = {w for w, at in first.items() if began_ns <= at <= attached_ns}
    assert workers <= early
