"""Untouched scripts: the client's preload, the scheduler's preload, and a site's own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections import Counter

import pytest

from rotameter.profiler.store import open_trace

pytestmark = pytest.mark.e2e

MODULE = "rotameter.adapters.dask"

HEAD = """
import time
from distributed import Client, LocalCluster

def nap(x):
    time.sleep(0.01)
    return x
"""


def run_script(tmp_path, body, *, env=None, returncode=0):
    script = tmp_path / "script.py"
    body = textwrap.indent(textwrap.dedent(body), "    ")
    script.write_text(f"{HEAD}\nif __name__ == '__main__':\n{body}")
    folder = tmp_path / "run.rmt"
    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "ROTAMETER_TRACE": str(folder),
            "DASK_DISTRIBUTED__CLIENT__PRELOAD": f"['{MODULE}']",
            "DASK_DISTRIBUTED__DASHBOARD__LINK": "",
            **(env or {}),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == returncode, done.stderr
    return done, folder


def outcomes(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = open_trace(str(folder))
    return Counter((t["group"], t["outcome"]) for t in trace.table("tasks").to_pylist())


OPEN = 'Client(n_workers=1, threads_per_worker=2, dashboard_address=":0", silence_logs=50)'


def test_an_untouched_script(tmp_path):
    body = f"""
    with {OPEN} as client:
        print(sum(client.gather(client.map(nap, range(30)))))
    """
    done, folder = run_script(tmp_path, body)
    assert done.stdout == "435\n"
    assert outcomes(folder) == {("nap", "ok"): 30}


def test_a_client_that_is_never_closed_and_an_exception(tmp_path):
    body = f"""
    client = {OPEN}
    print(sum(client.gather(client.map(nap, range(10)))))
    raise SystemExit(3)
    """
    _, folder = run_script(tmp_path, body, returncode=3)
    assert outcomes(folder) == {("nap", "ok"): 10}


def test_a_cluster_that_closes_before_its_client(tmp_path):
    body = """
    cluster = LocalCluster(n_workers=1, dashboard_address=":0", silence_logs=50)
    client = Client(cluster)
    client.gather(client.map(nap, range(10)))
    cluster.close()
    client.close()
    """
    _, folder = run_script(tmp_path, body)
    assert outcomes(folder) == {("nap", "ok"): 10}


def test_a_second_client_does_not_double_and_inherits(tmp_path):
    body = """
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        first = Client(cluster)
        second = Client(cluster)
        first.gather(first.map(nap, range(10)))
        first.close()
        second.gather(second.map(nap, range(10, 20)))
        second.close()
        third = Client(cluster)
        third.gather(third.map(nap, range(20, 30)))
        third.close()
    """
    _, folder = run_script(tmp_path, body)
    assert outcomes(folder) == {("nap", "ok"): 30}


def test_a_client_made_by_a_task_is_left_alone(tmp_path):
    body = f"""
    def outer(x):
        from distributed import worker_client
        with worker_client() as inner:
            return sum(inner.gather(inner.map(nap, range(x))))
    with {OPEN} as client:
        print(client.submit(outer, 5).result())
    """
    done, folder = run_script(tmp_path, body)
    assert done.stdout == "10\n"
    assert outcomes(folder) == {("nap", "ok"): 5, ("outer", "ok"): 1}


def test_an_asynchronous_client(tmp_path):
    body = """
    import asyncio

    async def main():
        async with Client(n_workers=1, processes=False, asynchronous=True,
                          dashboard_address=":0") as client:
            print(sum(await client.gather(client.map(nap, range(5)))))

    asyncio.run(main())
    """
    done, folder = run_script(tmp_path, body)
    assert done.stdout == "10\n"
    assert outcomes(folder) == {("nap", "ok"): 5}


def test_a_scheduler_traces_itself_beside_a_sites_own_preload(tmp_path):
    (tmp_path / "site_preload.py").write_text(
        "def dask_setup(scheduler):\n    scheduler.site_was_here = True\n"
    )
    body = """
    with LocalCluster(n_workers=1, dashboard_address=":0", silence_logs=50) as cluster:
        with Client(cluster) as client:
            client.gather(client.map(nap, range(10)))
            print(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.site_was_here))
    """
    env = {
        "DASK_DISTRIBUTED__CLIENT__PRELOAD": "[]",
        "DASK_DISTRIBUTED__SCHEDULER__PRELOAD": f"['site_preload', '{MODULE}']",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    }
    done, folder = run_script(tmp_path, body, env=env)
    assert done.stdout == "True\n"
    assert outcomes(folder) == {("nap", "ok"): 10}


def test_an_unwritable_folder_leaves_the_run_alone(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    body = f"""
    with {OPEN} as client:
        print(sum(client.gather(client.map(nap, range(10)))))
    """
    env = {"ROTAMETER_TRACE": str(blocked / "run.rmt")}
    done, _ = run_script(tmp_path, body, env=env)
    assert done.stdout == "45\n"
    assert done.stderr.count("rotameter does not trace this Dask cluster") == 1
