"""What is measured inside tasks on worker processes: peaks, files, spans, and deaths by memory."""

from __future__ import annotations

import mmap
import time
import warnings

import dask
import pytest
from distributed import Client, LocalCluster

from rotameter.adapters.dask.attach import attach
from rotameter.profiler.live.tracer import span, task
from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e


def read(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_trace(str(folder))


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def spike(size_bytes):
    time.sleep(0.05)
    block = mmap.mmap(-1, size_bytes)
    for at in range(0, size_bytes, 4096):
        block[at] = 1
    block.close()
    time.sleep(0.05)


@pytest.mark.parametrize("megabytes", [50, 100, 300])
def test_exact_peak_of_a_short_spike(client, tmp_path, megabytes):
    attachment = attach(client, str(tmp_path / "run.rmt"))
    client.submit(spike, megabytes * 1_000_000, pure=False).result()
    attachment.finish()
    (row,) = read(tmp_path / "run.rmt").table("tasks").to_pylist()
    assert row["peak_memory_kind"] == "exact"
    assert abs(row["peak_memory_bytes"] - megabytes * 1e6) <= 2e6


@task(group="inner")
def inner(x):
    return x


def busy(path, x):
    with span("writing"), open(path, "wb") as file:
        for _ in range(1_000):
            file.write(b"x" * 4_096)
    with span("reading"), open(path, "rb") as file:
        while file.read(1 << 20):
            pass
    time.sleep(0.02)
    return inner(x)


def test_spans_inner_tasks_and_files_belong_to_the_attempt(client, tmp_path):
    attachment = attach(client, str(tmp_path / "run.rmt"))
    path = str(tmp_path / "data")
    assert client.submit(busy, path, 3, key="busy-1").result() == 3
    attachment.finish()
    trace = read(tmp_path / "run.rmt")
    tasks = {t["group"]: t for t in trace.table("tasks").to_pylist()}
    assert tasks["inner"]["parent"] == "busy-1"
    spans = {r["name"]: r for r in trace.table("intervals").to_pylist() if r["kind"] == "span"}
    assert spans.keys() == {"writing", "reading"}
    outer = tasks["busy"]
    for row in spans.values():
        assert row["task_id"] == "busy-1" and row["run_id"] == outer["run_id"]
        assert (
            outer["started_ns"] - 2e6 <= row["start_ns"] <= row["end_ns"] <= outer["ended_ns"] + 2e6
        )
    flows = {f["op"]: f for f in trace.table("flows").to_pylist() if f["object"] == path}
    assert flows["write"]["bytes"] == flows["read"]["bytes"] == 4_096_000
    assert {f["task_id"] for f in flows.values()} == {"busy-1"}


def hog(size_bytes):
    blocks = []
    for _ in range(size_bytes // 1_000_000):
        blocks.append(bytearray(b"x" * 1_000_000))
        time.sleep(0.002)
    time.sleep(5)
    return len(blocks)


def test_a_worker_that_its_nanny_kills_for_memory(tmp_path):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            memory_limit="500MiB",
            dashboard_address=":0",
            silence_logs=60,
        ) as cluster,
        Client(cluster) as client,
    ):
        attachment = attach(client, str(tmp_path / "run.rmt"))
        hungry = client.submit(hog, 800_000_000)
        waiting = client.map(abs, range(3))
        assert type(hungry.exception(timeout=30)).__name__ == "KilledWorker"
        client.gather(waiting, errors="skip")
        attachment.finish()
    trace = read(tmp_path / "run.rmt")
    events = trace.table("events").to_pylist()
    (kill,) = [e for e in events if e["kind"] == "worker_memory_kill"]
    assert kill["limit_bytes"] == 500 << 20 and kill["rss_bytes"] > 0.9 * kill["limit_bytes"]
    (ran,) = [e for e in events if e["kind"] == "executing_at_death"]
    assert ran["group"] == "hog" and ran["worker"] == kill["worker"]
    assert ran["rss_bytes"] > 0.5 * kill["limit_bytes"]
    (lost,) = [t for t in trace.table("tasks").to_pylist() if t["group"] == "hog"]
    assert lost["outcome"] == "worker_lost" and lost["outcome_kind"] == "reported"
    (ended,) = [e for e in events if e["kind"] == "worker_exit"]
    assert ended["signal"] in (9, 15)
    assert [e for e in events if e["kind"] == "worker_paused"]
