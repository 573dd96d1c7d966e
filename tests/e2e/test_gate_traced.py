"""The gate and a trace in one worker: each of them knows the peaks that the other reset."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from rotameter.adapters.dask.attach import attach
from rotameter.adapters.dask.gate_worker import TOPIC, GateWorker
from rotameter.profiler.live.memory import clear_refs_reason
from rotameter.profiler.store import open_trace

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(clear_refs_reason() is not None, reason="no clear_refs here"),
]
MB = 10**6
SIZE = 120 * MB


def spike(number: int) -> int:
    """Hold memory for a moment, in the middle of what runs."""
    time.sleep(0.1)
    data = bytearray(SIZE)
    data[::4096] = b"x" * len(data[::4096])
    time.sleep(0.02)
    del data
    time.sleep(0.3)
    return number


def light(number: int) -> int:
    """Take little, often: its beginnings and ends reset the peak."""
    time.sleep(0.01)
    return number


@pytest.mark.parametrize("first", ["gate", "trace"])
def test_both_know_the_peaks(tmp_path: Path, first: str) -> None:
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        if first == "gate":
            client.register_plugin(GateWorker(watching=True))
        attachment = attach(client, str(tmp_path / "run.rmt"))
        if first == "trace":
            client.register_plugin(GateWorker(watching=True))
        many = client.map(light, range(200))
        spikes = [client.submit(spike, n) for n in range(3)]
        client.gather([*many, *spikes])
        alone = client.submit(spike, 10)
        alone.result()
        time.sleep(0.3)  # the gate tells a little later
        events = client.get_events(TOPIC)
        attachment.finish()
    told = [t for _, e in events for t in e.get("tasks", ()) if str(t["key"]).startswith("spike")]
    assert len(told) == 4
    assert all(t["peak"] >= 0.95 * SIZE for t in told), told
    (last,) = [t for t in told if t["key"] == alone.key]
    assert last["kind"] == "exact" and abs(last["peak"] - SIZE) <= 3 * MB
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tasks = open_trace(str(tmp_path / "run.rmt")).table("tasks").to_pylist()
    rows = [t for t in tasks if t["group"] == "spike"]
    assert len(rows) == 4 and all(t["peak_memory_bytes"] >= 0.95 * SIZE for t in rows), rows
