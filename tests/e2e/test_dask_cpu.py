"""CPU time, concurrency and names of attempts on a real worker."""

from __future__ import annotations

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster

import rotameter as rm

pytestmark = pytest.mark.e2e


def busy(n: int) -> int:
    return sum(i & 7 for i in range(n))


def test_no_attempt_uses_more_cpu_than_its_wall_time(tmp_path):
    with (
        LocalCluster(n_workers=1, threads_per_worker=4, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        with rm.trace(tmp_path / "run.rmt", client=client) as run:
            sizes = [10] * 200 + [20_000] * 60 + [200_000] * 12
            client.gather(client.map(busy, sizes, pure=False))
            client.submit(busy, 10, key="load-AKIAIOSFODNN7EXAMPLE-1").result()
        tasks = run.trace.table("tasks").to_pandas()
    assert len(tasks) == 273
    both = tasks.dropna(subset=["cpu_s", "wall_s"])
    assert len(both) == 273
    assert (both["cpu_s"] <= both["wall_s"]).all() and (both["cpu_s"] >= 0).all()
    assert np.all((tasks["concurrency"] >= 0.999) & (tasks["concurrency"] <= 4.001))
    assert not tasks["task_id"].str.contains("AKIA").any()
